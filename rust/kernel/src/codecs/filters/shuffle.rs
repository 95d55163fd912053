//! `shuffle`: first all first bytes of the elements, then all second ones, and so on.

use super::super::room::{Resize, Resized, Room};
use super::super::{Codec, Value};
use super::rows::{ROW, interleave, load, separate, store};
use super::unsupported;
use crate::{Error, Result};

const NAME: &str = "shuffle";

struct Shuffle {
    element: usize,
}

pub(super) fn build(options: &[Value]) -> Result<Box<dyn Codec>> {
    match options {
        [Value::Int(element)] => match usize::try_from((*element).max(1)) {
            Ok(element) => Ok(Box::new(Resized(Shuffle { element }))),
            Err(_) => Err(unsupported(NAME)),
        },
        _ => Err(unsupported(NAME)),
    }
}

/// Shuffle `count` elements of `N` bytes, a power of 2; return how many have been.
///
/// # Safety
///
/// `N * count` bytes can be read at `from` and written at `to`, and the two do not overlap.
unsafe fn forth<const N: usize>(from: *const u8, to: *mut u8, count: usize) -> usize {
    let end = count - count % ROW;
    for start in (0..end).step_by(ROW) {
        // SAFETY: the rows are the 16 elements from `start`, which are less than `count`.
        let mut rows: [_; N] = std::array::from_fn(|index| unsafe { load(from.add(start * N + index * ROW)) });
        for _ in 0..N.trailing_zeros() {
            let old = rows;
            for index in 0..N / 2 {
                (rows[index], rows[N / 2 + index]) = separate(old[2 * index], old[2 * index + 1]);
            }
        }
        for (index, row) in rows.iter().enumerate() {
            // SAFETY: each row is a byte of these elements, which are less than `count`.
            unsafe { store(to.add(index * count + start), *row) };
        }
    }
    end
}

/// Undo `forth`.
///
/// # Safety
///
/// As for `forth`.
unsafe fn back<const N: usize>(from: *const u8, to: *mut u8, count: usize) -> usize {
    let end = count - count % ROW;
    for start in (0..end).step_by(ROW) {
        // SAFETY: each row is a byte of the 16 elements from `start`, which are less than `count`.
        let mut rows: [_; N] = std::array::from_fn(|index| unsafe { load(from.add(index * count + start)) });
        for _ in 0..N.trailing_zeros() {
            let old = rows;
            for index in 0..N / 2 {
                (rows[2 * index], rows[2 * index + 1]) = interleave(old[index], old[N / 2 + index]);
            }
        }
        for (index, row) in rows.iter().enumerate() {
            // SAFETY: the rows are these elements, which are less than `count`.
            unsafe { store(to.add(start * N + index * ROW), *row) };
        }
    }
    end
}

/// Move byte `b` of element `e` from `e * element + b` to `b * count + e`, or back.
fn turn(data: &[u8], element: usize, mut room: Room<'_>, forwards: bool) {
    let count = data.len() / element;
    assert!(count * element <= room.len(), "the room is large enough");
    let (from, to) = (data.as_ptr(), room.start());
    // SAFETY: both places have that many elements, and they do not overlap.
    let done = unsafe {
        match (element, forwards) {
            (2, true) => forth::<2>(from, to, count),
            (4, true) => forth::<4>(from, to, count),
            (8, true) => forth::<8>(from, to, count),
            (16, true) => forth::<16>(from, to, count),
            (2, false) => back::<2>(from, to, count),
            (4, false) => back::<4>(from, to, count),
            (8, false) => back::<8>(from, to, count),
            (16, false) => back::<16>(from, to, count),
            _ => 0,
        }
    };
    for start in (done..count).step_by(ROW) {
        for byte in 0..element {
            for index in start..count.min(start + ROW) {
                let (whole, split) = (index * element + byte, byte * count + index);
                let (source, target) = if forwards { (whole, split) } else { (split, whole) };
                // SAFETY: both are less than `count * element`.
                unsafe { to.add(target).write(from.add(source).read()) };
            }
        }
    }
}

impl Shuffle {
    fn check(&self, size: usize) -> Result<usize> {
        if size % self.element != 0 {
            return Err(Error::codec(NAME, format!("{size} bytes are not elements of {}", self.element)));
        }
        Ok(size)
    }

    fn run(&self, data: &[u8], mut room: Room<'_>, forwards: bool) -> Result<()> {
        if self.element == 1 {
            room.put(data);
        } else {
            turn(data, self.element, room, forwards);
        }
        Ok(())
    }
}

// SAFETY: whole elements are moved, each byte to a place of its own.
unsafe impl Resize for Shuffle {
    fn name(&self) -> &str {
        NAME
    }

    fn encoded(&self, size: usize) -> Result<usize> {
        self.check(size)
    }

    fn decoded(&self, data: &[u8]) -> Result<usize> {
        self.check(data.len())
    }

    fn encode(&self, data: &[u8], room: Room<'_>) -> Result<()> {
        self.run(data, room, true)
    }

    fn decode(&self, data: &[u8], room: Room<'_>) -> Result<()> {
        self.run(data, room, false)
    }
}
