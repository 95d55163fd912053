//! Uninitialised scratch memory for shuffled blocks, cached by each thread.

use std::cell::Cell;
use std::mem::MaybeUninit;

use crate::{Error, Result};

/// Larger buffers are not cached, in bytes.
const KEPT: usize = 4 << 20;

/// A cache line, whose alignment makes register loads fast.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "memory of a cache line")] [u8; LINE]);

const LINE: usize = 64;

thread_local! {
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Call a function with `size` bytes of uninitialised memory.
pub(super) fn with_scratch<T>(size: usize, function: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<T>) -> Result<T> {
    let mut buffer = SCRATCH.take();
    buffer.clear();
    buffer.try_reserve_exact(size.div_ceil(LINE)).map_err(|_| Error::Memory { bytes: size })?;
    let lines = buffer.spare_capacity_mut();
    // SAFETY: the lines have at least `size` bytes, and `MaybeUninit` needs no initialisation
    let bytes = unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size) };
    let result = function(bytes);
    if buffer.capacity() <= KEPT / LINE {
        SCRATCH.set(buffer);
    }
    result
}

/// Copy all of `from` to `to`, which is as long.
pub(super) fn copy(from: &[u8], to: &mut [MaybeUninit<u8>]) {
    assert!(from.len() == to.len(), "lengths were compared before");
    // SAFETY: both have this length, and one of them is borrowed exclusively
    unsafe { to.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.as_ptr(), from.len()) }
}
