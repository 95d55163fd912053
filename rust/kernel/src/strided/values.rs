//! Operations with one value or on contiguous memory: fill, byte-swap in place, compare.

use super::axes::{Axes, Axis, Dim, Offsets};
use super::job::Job;
use super::{byteswap, elements, rows};

/// Runs up to this length are filled inline, in bytes.
const SHORT: usize = 256;
/// Length of the pattern that fills are made of, in bytes.
const PATTERN: usize = 1024;

/// Fill all elements with `value`; `dims` are as for `strided::copy`, but their `source` is ignored.
///
/// # Safety
///
/// Every element of `dims` lies within memory that may be written at `target`.
pub unsafe fn fill(target: *mut u8, dims: &[Dim<'_>], value: &[u8]) {
    let mut inline = [Dim { count: 1, source: Offsets::Strided(0), target: Offsets::Strided(0) }; 12];
    let mut heap = Vec::new();
    let repeated = match inline.get_mut(..dims.len()) {
        Some(inline) => inline,
        None => {
            heap.resize(dims.len(), inline[0]);
            &mut heap[..]
        }
    };
    for (repeated, dim) in repeated.iter_mut().zip(dims) {
        *repeated = Dim { source: Offsets::Strided(0), ..*dim };
    }
    let Some(mut axes) = Axes::new(repeated, value.len(), 0) else { return };
    axes.arrange();
    let target = target.wrapping_offset(axes.target);
    let run = axes.list().last().filter(|axis| packed(axis, value)).map_or(1, |axis| axis.count);
    // SAFETY: the axes describe the same elements as `dims`, which the caller guarantees.
    unsafe { descend(target, axes.list(), &Pattern::new(value, run)) }
}

/// A fill value, repeated so that runs are filled in large copies.
struct Pattern<'a> {
    value: &'a [u8],
    bytes: [u8; PATTERN],
    /// Number of bytes in use: whole values.
    used: usize,
    /// The byte that the value repeats, if all its bytes are equal.
    byte: Option<u8>,
}

impl Pattern<'_> {
    /// Make the pattern for runs of `count` values.
    fn new(value: &[u8], count: usize) -> Pattern<'_> {
        let (mut bytes, size) = ([0; PATTERN], value.len());
        let byte = value.iter().all(|byte| *byte == value[0]).then_some(value[0]);
        let used = if byte.is_some() { 0 } else { (PATTERN / size).min(count) * size };
        let mut done = size.min(used);
        bytes[..done].copy_from_slice(&value[..done]);
        while done < used {
            let step = done.min(used - done);
            bytes.copy_within(..step, done);
            done += step;
        }
        Pattern { value, bytes, used, byte }
    }

    /// Fill `count` contiguous elements.
    ///
    /// # Safety
    ///
    /// They may be written at `target`.
    unsafe fn run(&self, target: *mut u8, count: usize) {
        let total = count * self.value.len();
        let (pattern, size) =
            if self.used == 0 { (self.value, self.value.len()) } else { (&self.bytes[..], self.used) };
        // SAFETY: at most `total` bytes are written, and at most the length of the pattern read.
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

/// Fill the elements of `axes`.
///
/// # Safety
///
/// All of them may be written at `target`.
unsafe fn descend(target: *mut u8, axes: &[Axis<'_>], pattern: &Pattern<'_>) {
    let value = pattern.value;
    // SAFETY: the caller guarantees every index of the outer axis.
    unsafe {
        match axes {
            [] => target.copy_from_nonoverlapping(value.as_ptr(), value.len()),
            [axis] if packed(axis, value) => pattern.run(target, axis.count),
            [axis] => {
                let job = Job { source: value.as_ptr(), target, size: value.len(), swap: false, bypass_cache: false };
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

/// Return whether values are contiguous along an axis.
fn packed(axis: &Axis<'_>, value: &[u8]) -> bool {
    axis.even() && axis.target.stride == value.len() as isize
}

/// Reverse the bytes of each unit of `unit` bytes (2, 4, 8, 16 or any other) in place.
pub fn swap_in_place(data: &mut [u8], unit: usize) {
    byteswap::in_place(data, unit);
}

/// Return whether every element of `data`, contiguous elements of `value.len()` bytes, equals `value` bit for bit.
pub fn all_equal(data: &[u8], value: &[u8]) -> bool {
    let size = value.len();
    if data.len() < size || size == 0 {
        return data.is_empty();
    }
    // All elements equal the first if each byte equals the one an element further on.
    data[..size] == *value && data[size..] == data[..data.len() - size]
}
