//! Large memory blocks for results, and a cache of dropped blocks for reuse.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::raw::{self, Memory};
use crate::Result;
use crate::forks::OfProcess;

/// Blocks smaller than this are not cached, in bytes.
const KEPT_FROM: usize = 256 << 10;
/// Upper limit of the cache, in bytes, on machines with much memory.
const KEPT_AT_MOST: usize = 1 << 30;

/// A block of memory for a result. Dropping it returns it to a cache, with its pages, for the next result.
///
/// Blocks of 1 MiB and more are separate mappings, aligned to huge pages and advised to use them. They are neither
/// zeroed nor touched. The cache is bounded, and its pages are marked so that the system may reclaim them: the content
/// of a new block is undefined, and may change until it is written.
#[derive(Debug)]
pub struct Block {
    /// `Some` until the block is dropped.
    memory: Option<Memory>,
    size: usize,
}

impl Block {
    /// Allocate a block of at least `size` bytes, or reuse one; its content is undefined.
    ///
    /// # Errors
    ///
    /// `Memory` if the system refuses it.
    pub fn new(size: usize) -> Result<Block> {
        let capacity = raw::rounded(size)?;
        if capacity >= KEPT_FROM {
            let mut kept = Kept::lock();
            if let Some(memory) = kept.find(capacity) {
                return Ok(Block { memory: Some(memory), size });
            }
            // Release the surplus after the lock, since that takes long.
            let surplus = kept.make_room(capacity);
            drop(kept);
            drop(surplus);
        }
        Ok(Block { memory: Some(Memory::allocate(capacity, false)?), size })
    }

    /// Return the address of the first byte, aligned to at least 64 bytes.
    pub fn start(&self) -> *mut u8 {
        self.memory.as_ref().map_or(std::ptr::null_mut(), Memory::start)
    }

    /// Return the requested size, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(mut memory) = self.memory.take() else { return };
        if memory.capacity() >= KEPT_FROM {
            memory.mark_reclaimable();
            let surplus = Kept::lock().keep(memory);
            drop(surplus);
        }
    }
}

/// The cached blocks, oldest first.
struct Kept {
    list: Vec<Memory>,
    total: usize,
    bound: usize,
}

static KEPT: OfProcess<Mutex<Kept>> = OfProcess::empty();

impl Kept {
    /// Lock the cache of this process, which the first call creates.
    fn lock() -> MutexGuard<'static, Kept> {
        let make = || {
            let bound = KEPT_AT_MOST.min(raw::physical() / 16);
            Mutex::new(Kept { list: Vec::new(), total: 0, bound })
        };
        KEPT.get(make).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Take the smallest block that fits, unless more than a fifth of it would be unused.
    fn find(&mut self, capacity: usize) -> Option<Memory> {
        let most = capacity.saturating_add(capacity / 4);
        let fitting =
            self.list.iter().enumerate().rev().filter(|(_, memory)| (capacity..=most).contains(&memory.capacity()));
        let (place, _) = fitting.min_by_key(|(_, memory)| memory.capacity())?;
        let memory = self.list.remove(place);
        self.total -= memory.capacity();
        Some(memory)
    }

    /// Cache a block; return the blocks that are evicted for it.
    fn keep(&mut self, memory: Memory) -> Vec<Memory> {
        if memory.capacity() > self.bound {
            return vec![memory];
        }
        let surplus = self.make_room(memory.capacity());
        self.total += memory.capacity();
        self.list.push(memory);
        surplus
    }

    /// Evict the oldest blocks until `capacity` more bytes stay within the bound.
    fn make_room(&mut self, capacity: usize) -> Vec<Memory> {
        let mut gone = 0;
        while gone < self.list.len() && self.total.saturating_add(capacity) > self.bound {
            self.total -= self.list[gone].capacity();
            gone += 1;
        }
        self.list.drain(..gone).collect()
    }
}

/// Release all cached blocks to the system.
pub fn trim() {
    let mut kept = Kept::lock();
    kept.total = 0;
    let list = std::mem::take(&mut kept.list);
    drop(kept);
    drop(list);
}

/// Replace the cache in a child process after `fork`, since another thread may have held its lock. Its blocks leak.
pub fn after_fork() {
    KEPT.forget();
}
