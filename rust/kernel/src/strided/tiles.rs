//! Copies along two axes at once: tile by tile where the source is contiguous along one and the target along the other.

use super::axes::Axis;
use super::elements::{self, Mover, with_mover};
use super::job::Job;
use super::rows::LINE;
use super::{byteswap, rows, transpose};

/// Side of a tile that is copied element by element, in elements.
const SIDE: usize = 32;
/// Row length of a tile that is transposed in a buffer, in bytes.
const WIDTH: usize = 256;
/// Largest number of rows of such a tile.
const ROWS: usize = 64;

/// Copy the elements of two axes.
///
/// # Safety
///
/// All of them may be read at the source and written at the target.
pub(super) unsafe fn plane(job: Job, outer: &Axis<'_>, inner: &Axis<'_>) {
    let small = job.swap || job.size <= 16;
    if small && outer.even() && outer.source.stride.unsigned_abs() < inner.source.stride.unsigned_abs() {
        let size = job.size as isize;
        let whole = matches!(job.size, 1 | 2 | 4 | 8 | 16);
        let along = inner.even() && inner.target.stride == size && outer.source.stride == size;
        // SAFETY: the caller guarantees the elements; `whole` and `along` are what `transpose_plane` requires.
        return unsafe {
            if whole && along && outer.count >= transpose::least_rows(job.size) {
                transpose_plane(job, outer, inner);
            } else {
                with_mover!(job.size, job.swap, mover => blocks(mover, job, outer, inner))
            }
        };
    }
    for i in 0..outer.count {
        let source = job.source.wrapping_offset(outer.source.at(i));
        let target = job.target.wrapping_offset(outer.target.at(i));
        // SAFETY: the caller guarantees index `i` of the outer axis.
        unsafe { elements::line(Job { source, target, ..job }, inner) }
    }
}

/// Copy a plane tile by tile, element by element.
///
/// # Safety
///
/// As for [`plane`].
unsafe fn blocks<M: Mover>(mover: M, job: Job, outer: &Axis<'_>, inner: &Axis<'_>) {
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

/// The buffer of a transposed tile.
#[repr(align(64))]
struct Tile {
    _bytes: [u8; ROWS * WIDTH],
}

/// Copy a plane whose source is contiguous along the outer axis and whose target along the inner one.
///
/// Tiles are transposed in the first-level cache; the source is read and the target written in whole cache lines.
///
/// # Safety
///
/// As for [`plane`]; besides, both are contiguous, and `job.size` is 1, 2, 4, 8 or 16.
unsafe fn transpose_plane(job: Job, outer: &Axis<'_>, inner: &Axis<'_>) {
    let size = job.size;
    let mut buffer = std::mem::MaybeUninit::<Tile>::uninit();
    let tile = buffer.as_mut_ptr().cast::<u8>();
    let height = (2 * LINE / size).clamp(16, ROWS);
    let mut left = 0;
    // Narrow the first tile so that the others begin at a cache line.
    let mut columns = (WIDTH - job.target as usize % LINE) / size;
    while left < inner.count {
        columns = columns.min(inner.count - left);
        for top in (0..outer.count).step_by(height) {
            let count = height.min(outer.count - top);
            let source = job.source.wrapping_offset(outer.source.at(top)).wrapping_offset(inner.source.at(left));
            let target = job.target.wrapping_offset(outer.target.at(top)).wrapping_offset(inner.target.at(left));
            let used = columns * size;
            // SAFETY: elements (top.., left..) of the plane, which fit into the tile.
            unsafe {
                transpose::transpose(source, inner.source.stride, tile, WIDTH, count, columns, size);
                if job.swap {
                    for row in 0..count {
                        byteswap::in_place(std::slice::from_raw_parts_mut(tile.add(row * WIDTH), used), size);
                    }
                }
                let rows = Job { source: tile, target, size: used, swap: false, bypass_cache: job.bypass_cache };
                rows::lines(rows, count, WIDTH as isize, outer.target.stride);
            }
        }
        left += columns;
        columns = WIDTH / size;
    }
}
