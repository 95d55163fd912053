//! Whole runs of memory: filling them, reversing bytes in them, comparing them with one value.

use super::axes::Axis;
use super::{Axes, Dim, Job, Walk, elements, rows, swaps};

/// Bytes of a pattern that is copied over and over.
const PATTERN: usize = 1024;

/// Put `value` everywhere; `dims` as for [`copy`](super::copy), their `source` is not looked at.
///
/// # Safety
///
/// Every element that `dims` lead to lies within memory that may be written at `target`.
pub unsafe fn fill(target: *mut u8, dims: &[Dim<'_>], value: &[u8]) {
    let mut room = [Dim { count: 1, source: Walk::Even(0), target: Walk::Even(0) }; 12];
    let mut more = Vec::new();
    let still = match room.get_mut(..dims.len()) {
        Some(room) => room,
        None => {
            more.resize(dims.len(), room[0]);
            &mut more[..]
        }
    };
    for (still, dim) in still.iter_mut().zip(dims) {
        *still = Dim { source: Walk::Even(0), ..*dim };
    }
    let Some(mut axes) = Axes::new(still, value.len(), 0) else { return };
    axes.arrange();
    let target = target.wrapping_offset(axes.target);
    // SAFETY: the axes lead to the same elements as `dims`, of which the caller promises that they may be written.
    unsafe { descend(target, axes.list(), value) }
}

/// Fill what `axes` lead to.
///
/// # Safety
///
/// All of it may be written at `target`.
unsafe fn descend(target: *mut u8, axes: &[Axis<'_>], value: &[u8]) {
    // SAFETY: the caller's promise, for one index of the outer axis after the other.
    unsafe {
        match axes {
            [] => target.copy_from_nonoverlapping(value.as_ptr(), value.len()),
            [axis] if axis.even() && axis.target.stride == value.len() as isize => run(target, axis.count, value),
            [axis] => {
                let job = Job { source: value.as_ptr(), target, size: value.len(), swap: false, far: false };
                elements::line(job, axis);
            }
            [outer, rest @ ..] => {
                for i in 0..outer.count {
                    descend(target.wrapping_offset(outer.target.at(i)), rest, value);
                }
            }
        }
    }
}

/// Fill `count` elements that lie next to each other.
///
/// # Safety
///
/// They may be written at `target`.
unsafe fn run(target: *mut u8, count: usize, value: &[u8]) {
    let total = count * value.len();
    if value.iter().all(|byte| *byte == value[0]) {
        // SAFETY: the caller's promise.
        return unsafe { target.write_bytes(value[0], total) };
    }
    // A pattern of many elements, and then that again and again.
    let (mut room, size) = ([0; PATTERN], value.len());
    let whole = PATTERN / size * size;
    if whole == 0 || total <= whole {
        for i in 0..count {
            // SAFETY: element `i`.
            unsafe { rows::short(value.as_ptr(), target.add(i * size), size) };
        }
        return;
    }
    for element in room[..whole].chunks_exact_mut(size) {
        element.copy_from_slice(value);
    }
    for place in (0..total).step_by(whole) {
        // SAFETY: never more than `total` bytes.
        unsafe { target.add(place).copy_from_nonoverlapping(room.as_ptr(), whole.min(total - place)) };
    }
}

/// Reverse the bytes of each unit of `unit` bytes (2, 4, 8, 16 or any other) in place.
pub fn swap_in_place(data: &mut [u8], unit: usize) {
    if unit > 1 {
        // SAFETY: as many units as there are in the slice.
        unsafe { swaps::in_place(data.as_mut_ptr(), data.len() / unit, unit) }
    }
}

/// Whether every element of `data`, contiguous elements of `value.len()` bytes, is `value`, bit for bit.
pub fn all_equal(data: &[u8], value: &[u8]) -> bool {
    let size = value.len();
    if data.len() < size || size == 0 {
        return data.is_empty();
    }
    // Each byte equals the one an element further on: then all elements equal the first.
    data[..size] == *value && data[size..] == data[..data.len() - size]
}
