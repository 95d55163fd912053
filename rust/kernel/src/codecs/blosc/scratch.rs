//! Memory that is filled without being initialised before.

use std::cell::Cell;
use std::mem::MaybeUninit;

use crate::{Error, Result};

/// A buffer for blocks that are shuffled is kept if it is no longer than this.
const KEPT: usize = 4 << 20;

/// What registers are loaded from fastest: as many bytes as the processor takes at a time.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "room for bytes")] [u8; LINE]);

const LINE: usize = 64;

thread_local! {
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Call a function with so many bytes of memory, in which may be anything.
pub(super) fn with_scratch<T>(size: usize, function: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<T>) -> Result<T> {
    let mut buffer = SCRATCH.take();
    buffer.clear();
    buffer.try_reserve_exact(size.div_ceil(LINE)).map_err(|_| Error::Memory { bytes: size })?;
    let lines = buffer.spare_capacity_mut();
    // SAFETY: a line is bytes and nothing else, and there are enough lines; whatever is in them
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
    // SAFETY: both are that long, and one of them is borrowed for good
    unsafe { to.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.as_ptr(), from.len()) }
}
