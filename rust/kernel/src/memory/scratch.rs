//! Scratch buffers, cached by each thread.

use std::cell::RefCell;

use super::raw::{self, Memory};
use crate::Result;
use crate::pool::Spare;

/// Upper limit of what a thread caches, in bytes.
const KEPT_AT_MOST: usize = 64 << 20;
/// Upper limit of the buffers that a thread caches.
const BUFFERS: usize = 16;
/// Smallest allocation, in bytes.
const LEAST: usize = 4 << 10;

thread_local! {
    static KEPT: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

/// Buffers that threads leave to each other if only few threads work at the same time.
static SPARE: Spare<Buffer> = Spare::empty();

/// A buffer whose bytes are all initialised.
struct Buffer(Memory);

impl Buffer {
    /// Take the smallest cached buffer that is large enough, or allocate one.
    fn take(size: usize) -> Result<Buffer> {
        if let Some(buffer) = SPARE.take().filter(|buffer| buffer.0.capacity() >= size) {
            return Ok(buffer);
        }
        let kept = KEPT.try_with(|kept| {
            let mut kept = kept.try_borrow_mut().ok()?;
            let fitting = kept.iter().enumerate().rev().filter(|(_, buffer)| buffer.0.capacity() >= size);
            let (place, _) = fitting.min_by_key(|(_, buffer)| buffer.0.capacity())?;
            Some(kept.remove(place))
        });
        if let Ok(Some(buffer)) = kept {
            return Ok(buffer);
        }
        // Allocate a little more for small sizes, so that similar sizes share a buffer.
        let capacity = raw::rounded(if size < raw::LARGE / 2 { size.max(LEAST) + size / 8 } else { size })?;
        Memory::allocate(capacity, true).map(Buffer)
    }

    /// Cache this buffer for the next call, and evict the oldest ones beyond the limits.
    fn keep(self) {
        if self.0.capacity() > KEPT_AT_MOST {
            return;
        }
        let Some(this) = SPARE.give(self) else { return };
        // A thread that is about to end caches nothing.
        let _ = KEPT.try_with(|kept| {
            let Ok(mut kept) = kept.try_borrow_mut() else { return };
            kept.push(this);
            while kept.len() > BUFFERS || kept.iter().map(|buffer| buffer.0.capacity()).sum::<usize>() > KEPT_AT_MOST {
                let oldest = kept.remove(0);
                drop(oldest);
            }
        });
    }
}

/// A buffer in use, which returns to the cache when dropped, in a panic too.
struct InUse(Option<Buffer>);

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(buffer) = self.0.take() {
            buffer.keep();
        }
    }
}

/// Call `work` with a scratch buffer of `size` bytes; its content is undefined.
///
/// Calls may be nested: each gets a separate buffer, aligned to 64 bytes. A thread caches buffers for the next call,
/// up to a limit.
///
/// # Errors
///
/// `Memory` if the system refuses it.
pub fn with_scratch<T>(size: usize, work: impl FnOnce(&mut [u8]) -> Result<T>) -> Result<T> {
    let buffer = InUse(Some(Buffer::take(size)?));
    match &buffer.0 {
        // SAFETY: at least `size` initialised bytes, which only this call uses.
        Some(buffer) => work(unsafe { std::slice::from_raw_parts_mut(buffer.0.start(), size) }),
        None => work(&mut []),
    }
}
