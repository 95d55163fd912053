//! Memory that is used again: scratch buffers of each thread, and large blocks for results.

use crate::Result;

/// Call `work` with a scratch buffer of `size` bytes that belongs to this thread while it lasts; it holds anything.
///
/// Calls may be nested: each gets a buffer of its own, aligned to 64 bytes. Buffers are kept for the next call, but
/// not more than a bound for each thread.
///
/// # Errors
///
/// `Memory` if it can't be had.
pub fn with_scratch<T>(size: usize, work: impl FnOnce(&mut [u8]) -> Result<T>) -> Result<T> {
    let _ = (size, work);
    todo!()
}

/// A block of memory for a result; once dropped it is kept to be used again, without the pages being given back.
///
/// Blocks of 1 MiB and more are mapped on their own, aligned to huge pages and advised to use them; they are not
/// zeroed, not even touched. What is kept of dropped blocks is bounded, and marked so that the system may take it.
#[derive(Debug)]
pub struct Block {
    start: *mut u8,
    size: usize,
}

// SAFETY: the block is owned memory; nothing of it is tied to a thread.
unsafe impl Send for Block {}
// SAFETY: a shared block gives out its address only.
unsafe impl Sync for Block {}

impl Block {
    /// Take a block of at least `size` bytes; it holds anything.
    ///
    /// # Errors
    ///
    /// `Memory` if it can't be had.
    pub fn new(size: usize) -> Result<Block> {
        let _ = size;
        todo!()
    }

    /// Where it begins, aligned to at least 64 bytes.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// The bytes asked for.
    pub fn size(&self) -> usize {
        self.size
    }
}

/// Give back to the system what is kept of dropped blocks.
pub fn trim() {
    todo!()
}

/// Forget every lock that another thread may hold, in a child process after `fork`; what was kept is leaked.
pub fn after_fork() {
    todo!()
}
