//! Scratch buffers of each thread.

use std::cell::RefCell;

use super::raw;
use crate::Result;

/// The most that a thread keeps, in bytes.
const KEPT_AT_MOST: usize = 64 << 20;
/// The most buffers that a thread keeps.
const BUFFERS: usize = 16;
/// The least that is taken.
const LEAST: usize = 4 << 10;

thread_local! {
    static KEPT: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

/// A buffer; all of its bytes are defined.
struct Buffer {
    start: *mut u8,
    capacity: usize,
}

impl Buffer {
    /// Take the smallest kept buffer that suffices, or a new one.
    fn take(size: usize) -> Result<Buffer> {
        let kept = KEPT.try_with(|kept| {
            let mut kept = kept.try_borrow_mut().ok()?;
            let fitting = kept.iter().enumerate().rev().filter(|(_, buffer)| buffer.capacity >= size);
            let (place, _) = fitting.min_by_key(|(_, buffer)| buffer.capacity)?;
            Some(kept.remove(place))
        });
        if let Ok(Some(buffer)) = kept {
            return Ok(buffer);
        }
        // Of small ones a little more than asked for, so that sizes that differ little share a buffer.
        let capacity = raw::rounded(if size < raw::LARGE / 2 { size.max(LEAST) + size / 8 } else { size })?;
        Ok(Buffer { start: raw::take(capacity, true)?, capacity })
    }

    /// Keep this buffer for the next call; the oldest go where it would be too much.
    fn keep(self) {
        if self.capacity > KEPT_AT_MOST {
            return;
        }
        // Where the thread is about to end nothing is kept.
        let _ = KEPT.try_with(|kept| {
            let Ok(mut kept) = kept.try_borrow_mut() else { return };
            kept.push(self);
            while kept.len() > BUFFERS || kept.iter().map(|buffer| buffer.capacity).sum::<usize>() > KEPT_AT_MOST {
                let oldest = kept.remove(0);
                drop(oldest);
            }
        });
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: taken with this capacity, and owned.
        unsafe { raw::give(self.start, self.capacity) }
    }
}

/// A buffer in use; kept again at the end, whatever way that comes.
struct Loan(Option<Buffer>);

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(buffer) = self.0.take() {
            buffer.keep();
        }
    }
}

/// Call `work` with a scratch buffer of `size` bytes that belongs to this thread while it lasts; it holds anything.
///
/// Calls may be nested: each gets a buffer of its own, aligned to 64 bytes. Buffers are kept for the next call, but
/// not more than a bound for each thread.
///
/// # Errors
///
/// `Memory` if it can't be had.
pub fn with_scratch<T>(size: usize, work: impl FnOnce(&mut [u8]) -> Result<T>) -> Result<T> {
    let loan = Loan(Some(Buffer::take(size)?));
    match &loan.0 {
        // SAFETY: at least `size` defined bytes that nothing else uses while the loan lasts.
        Some(buffer) => work(unsafe { std::slice::from_raw_parts_mut(buffer.start, size) }),
        None => work(&mut []),
    }
}
