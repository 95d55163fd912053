//! Copies between memory of different strides: the one inner loop of reading and writing.

mod axes;
mod elements;
mod job;
mod rows;
mod squares;
mod swaps;
mod tiles;
mod values;

use axes::{Axes, Axis};
use job::Job;

pub use axes::{Dim, Walk};
pub use values::{all_equal, fill, swap_in_place};

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
    unsafe { descend(job, axes.list()) }
    if far {
        rows::settle();
    }
}

/// Copy what `axes` lead to: the innermost one or two by a loop made for them, the others around it.
///
/// # Safety
///
/// Every element that `axes` lead to may be read at the source and written at the target.
unsafe fn descend(job: Job, axes: &[Axis<'_>]) {
    // SAFETY: as the caller promises, for one index of the outer axis after the other.
    unsafe {
        match axes {
            [] => elements::one(job),
            [axis] => elements::line(job, axis),
            [outer, axis] => tiles::plane(job, outer, axis),
            [outer, rest @ ..] => {
                for i in 0..outer.count {
                    let source = job.source.wrapping_offset(outer.source.at(i));
                    let target = job.target.wrapping_offset(outer.target.at(i));
                    descend(Job { source, target, ..job }, rest);
                }
            }
        }
    }
}
