//! Blocks for results, and what is kept of those that were dropped.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::raw;
use crate::Result;

/// Blocks smaller than this are not kept.
const KEPT_FROM: usize = 256 << 10;
/// The most that is kept, in bytes, whatever the machine has.
const KEPT_AT_MOST: usize = 1 << 30;

/// A block of memory for a result; once dropped it is kept to be used again, without the pages being given back.
///
/// Blocks of 1 MiB and more are mapped on their own, aligned to huge pages and advised to use them; they are not
/// zeroed, not even touched. What is kept of dropped blocks is bounded, and marked so that the system may take it: what
/// a block holds may even change until it is written.
#[derive(Debug)]
pub struct Block {
    /// There until the block is dropped.
    memory: Option<Memory>,
    size: usize,
}

/// Memory that is given back when dropped.
#[derive(Debug)]
struct Memory {
    start: *mut u8,
    capacity: usize,
}

// SAFETY: owned memory; nothing of it is tied to a thread.
unsafe impl Send for Memory {}
// SAFETY: a shared one gives out its address only.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: taken with this capacity, and owned.
        unsafe { raw::give(self.start, self.capacity) }
    }
}

impl Block {
    /// Take a block of at least `size` bytes; it holds anything.
    ///
    /// # Errors
    ///
    /// `Memory` if it can't be had.
    pub fn new(size: usize) -> Result<Block> {
        let capacity = raw::rounded(size)?;
        if capacity >= KEPT_FROM {
            let mut kept = Kept::lock();
            if let Some(memory) = kept.find(capacity) {
                return Ok(Block { memory: Some(memory), size });
            }
            // What has to go is given back after the lock is.
            let surplus = kept.make_room(capacity);
            drop(kept);
            drop(surplus);
        }
        let memory = Memory { start: raw::take(capacity, false)?, capacity };
        Ok(Block { memory: Some(memory), size })
    }

    /// Where it begins, aligned to at least 64 bytes.
    pub fn start(&self) -> *mut u8 {
        self.memory.as_ref().map_or(std::ptr::null_mut(), |memory| memory.start)
    }

    /// The bytes asked for.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else { return };
        if memory.capacity >= KEPT_FROM {
            // SAFETY: taken with this capacity, and the block is gone.
            unsafe { raw::offer(memory.start, memory.capacity) };
            let surplus = Kept::lock().keep(memory);
            drop(surplus);
        }
    }
}

/// The kept blocks, oldest first.
struct Kept {
    list: Vec<Memory>,
    total: usize,
    bound: usize,
}

static KEPT: AtomicPtr<Mutex<Kept>> = AtomicPtr::new(std::ptr::null_mut());

impl Kept {
    /// Return the kept blocks of this process.
    fn lock() -> MutexGuard<'static, Kept> {
        let mut found = KEPT.load(Ordering::Acquire);
        if found.is_null() {
            let bound = KEPT_AT_MOST.min(raw::physical() / 16);
            let new = Box::into_raw(Box::new(Mutex::new(Kept { list: Vec::new(), total: 0, bound })));
            match KEPT.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => found = new,
                Err(other) => {
                    // SAFETY: made above, and nobody else knows of it.
                    drop(unsafe { Box::from_raw(new) });
                    found = other;
                }
            }
        }
        // SAFETY: what is stored there is never freed.
        unsafe { &*found }.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Take the block that fits best; not one of which more than a fifth would lie idle.
    fn find(&mut self, capacity: usize) -> Option<Memory> {
        let most = capacity.saturating_add(capacity / 4);
        let fitting =
            self.list.iter().enumerate().rev().filter(|(_, memory)| (capacity..=most).contains(&memory.capacity));
        let (place, _) = fitting.min_by_key(|(_, memory)| memory.capacity)?;
        let memory = self.list.remove(place);
        self.total -= memory.capacity;
        Some(memory)
    }

    /// Keep a block; return those that go instead.
    fn keep(&mut self, memory: Memory) -> Vec<Memory> {
        if memory.capacity > self.bound {
            return vec![memory];
        }
        let surplus = self.make_room(memory.capacity);
        self.total += memory.capacity;
        self.list.push(memory);
        surplus
    }

    /// Remove the oldest blocks until `capacity` bytes fit under the bound with the rest.
    fn make_room(&mut self, capacity: usize) -> Vec<Memory> {
        let mut gone = 0;
        while gone < self.list.len() && self.total.saturating_add(capacity) > self.bound {
            self.total -= self.list[gone].capacity;
            gone += 1;
        }
        self.list.drain(..gone).collect()
    }
}

/// Give back to the system what is kept of dropped blocks.
pub fn trim() {
    let mut kept = Kept::lock();
    kept.total = 0;
    let list = std::mem::take(&mut kept.list);
    drop(kept);
    drop(list);
}

/// Forget every lock that another thread may hold, in a child process after `fork`; what was kept is leaked.
pub fn after_fork() {
    KEPT.store(std::ptr::null_mut(), Ordering::Release);
}
