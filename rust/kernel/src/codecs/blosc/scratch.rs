//! Scratch memory for shuffled blocks, cached by each thread.

use std::cell::Cell;

use crate::Result;
use crate::memory::{self, try_repeat};

/// Larger buffers are cached together with others, in bytes.
const KEPT: usize = 4 << 20;

/// Bytes of a cache line, whose alignment makes register loads fast.
const LINE: usize = 64;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Call a function with `size` bytes of memory; its content is undefined.
pub(super) fn with_scratch<T>(size: usize, function: impl FnOnce(&mut [u8]) -> Result<T>) -> Result<T> {
    if size > KEPT {
        return memory::with_scratch(size, function);
    }
    let mut buffer = SCRATCH.take();
    if buffer.len() < size + LINE {
        drop(buffer);
        buffer = try_repeat(size + LINE, 0)?;
    }
    let start = buffer.as_ptr().align_offset(LINE).min(LINE);
    let result = function(&mut buffer[start..start + size]);
    SCRATCH.set(buffer);
    result
}
