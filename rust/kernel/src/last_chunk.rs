//! The chunk of an array that was extended last, decoded, so that rows can be added to it without reading it again.
//!
//! The new chunk is stored on condition that the file still has the state in which the old one was stored. The memory of all
//! such chunks is bounded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::stores::Generation;

/// The most bytes of decoded chunks that are kept, over all arrays.
const MOST_KEPT: usize = 1 << 24;
/// Larger chunks are not kept, in bytes.
pub const LARGEST: usize = 1 << 20;

static KEPT: AtomicUsize = AtomicUsize::new(0);

/// The chunk of one array, if it is kept.
#[derive(Default)]
pub struct LastChunk(Mutex<Option<Extended>>);

/// A chunk as it was stored.
pub struct Extended {
    /// Its grid coordinates.
    pub coords: Vec<u64>,
    /// The state of its file.
    pub generation: Generation,
    /// Its decoded bytes.
    pub content: Vec<u8>,
}

impl LastChunk {
    /// Take the chunk; another call that extends the array at the same time finds none.
    pub fn take(&self) -> Option<Extended> {
        self.lock().take().inspect(release)
    }

    /// Keep a chunk, if there is room.
    pub fn keep(&self, last: Extended) {
        let size = last.content.len();
        if KEPT.fetch_add(size, Ordering::Relaxed).saturating_add(size) > MOST_KEPT {
            release(&last);
        } else {
            self.lock().replace(last).iter().for_each(release);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Extended>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LastChunk {
    fn drop(&mut self) {
        self.take();
    }
}

fn release(last: &Extended) {
    KEPT.fetch_sub(last.content.len(), Ordering::Relaxed);
}
