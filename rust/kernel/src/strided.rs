//! Copies between memory of different strides: the inner loop of reading and writing. Called by `read` and `write`.

mod axes;
mod byteswap;
mod elements;
mod job;
mod rows;
mod tiles;
mod transpose;
mod values;

use axes::{Axes, Axis};
use job::Job;

pub use axes::{Dim, Offsets};
pub use values::{all_equal, fill, swap_in_place};

/// Copy elements of `size` bytes from `source` to `target`.
///
/// `dims` may be in any order. `swap` is the length of the units whose bytes are reversed: 0 for none, 8 for
/// complex128. Source and target do not overlap. `bypass_cache` says that the target is large and not read soon, so
/// that streaming stores, which bypass the caches, are faster.
///
/// # Safety
///
/// Every element of `dims` lies within memory that may be read at `source` and written at `target`.
pub unsafe fn copy(source: *const u8, target: *mut u8, dims: &[Dim<'_>], size: usize, swap: usize, bypass_cache: bool) {
    let Some(mut axes) = Axes::new(dims, size, swap) else { return };
    axes.arrange();
    let job = Job {
        source: source.wrapping_offset(axes.source),
        target: target.wrapping_offset(axes.target),
        size: axes.size,
        swap: axes.swap,
        bypass_cache,
    };
    // SAFETY: the axes describe the same elements as `dims`, which the caller guarantees.
    unsafe { descend(job, axes.list()) }
    if bypass_cache {
        rows::fence();
    }
}

/// Copy the elements of `axes`: the innermost one or two in a specialised loop, the others around it.
///
/// # Safety
///
/// Every element of `axes` may be read at the source and written at the target.
unsafe fn descend(job: Job, axes: &[Axis<'_>]) {
    // SAFETY: the caller guarantees every index of the outer axis.
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
