//! Copies of planes: two axes at once, tile by tile where the source runs along one and the target along the other.

use super::Job;
use super::axes::Axis;
use super::elements::{self, Mover, with_mover};

/// Elements along each side of a tile.
const SIDE: usize = 32;

/// Copy the elements of two axes.
///
/// # Safety
///
/// All of them may be read at the source, written at the target.
pub(super) unsafe fn plane(job: Job, outer: &Axis<'_>, inner: &Axis<'_>) {
    let small = job.swap || job.size <= 16;
    if small && outer.even() && outer.source.stride.unsigned_abs() < inner.source.stride.unsigned_abs() {
        // SAFETY: the caller's promise.
        return with_mover!(job.size, job.swap, mover => unsafe { turn(mover, job, outer, inner) });
    }
    for i in 0..outer.count {
        let source = job.source.wrapping_offset(outer.source.at(i));
        let target = job.target.wrapping_offset(outer.target.at(i));
        // SAFETY: index `i` of the outer axis is taken.
        unsafe { elements::line(Job { source, target, ..job }, inner) }
    }
}

/// Copy a plane tile by tile.
///
/// # Safety
///
/// As for [`plane`].
unsafe fn turn<M: Mover>(mover: M, job: Job, outer: &Axis<'_>, inner: &Axis<'_>) {
    for top in (0..outer.count).step_by(SIDE) {
        let bottom = outer.count.min(top + SIDE);
        for left in (0..inner.count).step_by(SIDE) {
            let right = inner.count.min(left + SIDE);
            for i in top..bottom {
                let source = job.source.wrapping_offset(outer.source.at(i));
                let target = job.target.wrapping_offset(outer.target.at(i));
                for j in left..right {
                    let (from, to) = (inner.source.at(j), inner.target.at(j));
                    // SAFETY: element (i, j) of the plane.
                    unsafe { mover.put(source.wrapping_offset(from), target.wrapping_offset(to)) }
                }
            }
        }
    }
}
