//! Whole runs of memory: filling them, reversing bytes in them, comparing them with one value.

use super::axes::{Axes, Axis, Dim, Walk};
use super::job::Job;
use super::{elements, rows, swaps};

/// Runs up to this length are filled without a call.
const SHORT: usize = 256;
/// Bytes of a pattern that is copied over and over.
const PATTERN: usize = 1024;

/// Put `value` everywhere; `dims` as for `strided::copy`, their `source` is not looked at.
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
    let run = axes.list().last().filter(|axis| packed(axis, value)).map_or(1, |axis| axis.count);
    // SAFETY: the axes lead to the same elements as `dims`, of which the caller promises that they may be written.
    unsafe { descend(target, axes.list(), &Pattern::new(value, run)) }
}

/// What is filled in: a value, and as many of it in a row as are handy.
struct Pattern<'a> {
    value: &'a [u8],
    room: [u8; PATTERN],
    /// How many bytes of the room are used: whole values.
    used: usize,
    /// The byte of which the value consists, if it does.
    byte: Option<u8>,
}

impl Pattern<'_> {
    /// Make the pattern for runs of `count` values.
    fn new(value: &[u8], count: usize) -> Pattern<'_> {
        let (mut room, size) = ([0; PATTERN], value.len());
        let byte = value.iter().all(|byte| *byte == value[0]).then_some(value[0]);
        let used = if byte.is_some() { 0 } else { (PATTERN / size).min(count) * size };
        let mut done = size.min(used);
        room[..done].copy_from_slice(&value[..done]);
        while done < used {
            let step = done.min(used - done);
            room.copy_within(..step, done);
            done += step;
        }
        Pattern { value, room, used, byte }
    }

    /// Fill `count` elements that lie next to each other.
    ///
    /// # Safety
    ///
    /// They may be written at `target`.
    unsafe fn run(&self, target: *mut u8, count: usize) {
        let total = count * self.value.len();
        let (pattern, size) = if self.used == 0 { (self.value, self.value.len()) } else { (&self.room[..], self.used) };
        // SAFETY: never more than `total` bytes, nor more than the pattern has.
        unsafe {
            if let Some(byte) = self.byte {
                target.write_bytes(byte, total);
            } else if total <= size && total <= SHORT {
                rows::short(pattern.as_ptr(), target, total);
            } else {
                for place in (0..total).step_by(size) {
                    target.add(place).copy_from_nonoverlapping(pattern.as_ptr(), size.min(total - place));
                }
            }
        }
    }
}

/// Fill what `axes` lead to.
///
/// # Safety
///
/// All of it may be written at `target`.
unsafe fn descend(target: *mut u8, axes: &[Axis<'_>], pattern: &Pattern<'_>) {
    let value = pattern.value;
    // SAFETY: the caller's promise, for one index of the outer axis after the other.
    unsafe {
        match axes {
            [] => target.copy_from_nonoverlapping(value.as_ptr(), value.len()),
            [axis] if packed(axis, value) => pattern.run(target, axis.count),
            [axis] => {
                let job = Job { source: value.as_ptr(), target, size: value.len(), swap: false, far: false };
                elements::line(job, axis);
            }
            [outer, rest @ ..] => {
                for i in 0..outer.count {
                    descend(target.wrapping_offset(outer.target.at(i)), rest, pattern);
                }
            }
        }
    }
}

/// Return whether values lie next to each other along an axis.
fn packed(axis: &Axis<'_>, value: &[u8]) -> bool {
    axis.even() && axis.target.stride == value.len() as isize
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
