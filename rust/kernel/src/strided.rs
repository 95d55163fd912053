//! Copies between memory of different strides: the one inner loop of reading and writing.

mod axes;
mod elements;
mod rows;
mod squares;
mod swaps;
mod tiles;
mod values;

use axes::{Axes, Axis};

pub use values::{all_equal, fill, swap_in_place};

/// How one dimension of a copy walks through memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub enum Walk<'a> {
    /// The same distance each time; negative where it runs backwards, zero where one element is for all.
    Even(isize),
    /// Element `i` lies at `list[i] * stride`.
    Listed(&'a [i64], isize),
}

/// One dimension of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Dim<'a> {
    /// How many elements.
    pub count: usize,
    /// The way through the source.
    pub source: Walk<'a>,
    /// The way through the target.
    pub target: Walk<'a>,
}

/// Copy elements of `size` bytes from `source` to `target`.
///
/// `dims` may be in any order. `swap` is the length of the units of which the bytes are reversed: 0 for none, 8 for
/// complex128. The two places do not overlap. `far` says that the target is large and not read again soon, so that
/// copying past the caches (streaming stores) may pay.
///
/// # Safety
///
/// Every element that `dims` lead to lies within memory that may be read at `source`, written at `target`.
pub unsafe fn copy(source: *const u8, target: *mut u8, dims: &[Dim<'_>], size: usize, swap: usize, far: bool) {
    let Some(mut axes) = Axes::new(dims, size, swap) else { return };
    axes.arrange();
    let job = Job {
        source: source.wrapping_offset(axes.source),
        target: target.wrapping_offset(axes.target),
        size: axes.size,
        swap: axes.swap,
        far,
    };
    // SAFETY: the axes lead to the same elements as `dims`, of which the caller promises that they may be copied.
    unsafe { job.descend(axes.list()) }
    if far {
        rows::settle();
    }
}

/// What stays the same on the way down through the axes.
#[derive(Clone, Copy)]
struct Job {
    source: *const u8,
    target: *mut u8,
    /// Bytes of an element.
    size: usize,
    /// Whether the bytes of each element are reversed.
    swap: bool,
    far: bool,
}

impl Job {
    /// Copy what `axes` lead to: the innermost one or two by a loop made for them, the others around it.
    ///
    /// # Safety
    ///
    /// Every element that `axes` lead to may be read at the source and written at the target.
    unsafe fn descend(self, axes: &[Axis<'_>]) {
        // SAFETY: as the caller promises, for one index of the outer axis after the other.
        unsafe {
            match axes {
                [] => elements::one(self),
                [axis] => elements::line(self, axis),
                [outer, axis] => tiles::plane(self, outer, axis),
                [outer, rest @ ..] => {
                    for i in 0..outer.count {
                        let source = self.source.wrapping_offset(outer.source.at(i));
                        let target = self.target.wrapping_offset(outer.target.at(i));
                        Job { source, target, ..self }.descend(rest);
                    }
                }
            }
        }
    }
}
