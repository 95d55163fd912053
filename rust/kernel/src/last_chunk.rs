//! The chunk of an array that was extended last, decoded, so that rows can be added to it without reading it again.
//!
//! The new chunk is stored on condition that the file has not changed since the old one was stored. The memory of all such
//! chunks is bounded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

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
        self.lock()?.take().inspect(release)
    }

    /// Keep a chunk, if it is small and there is room.
    pub fn keep(&self, last: Extended) {
        if last.content.len() > LARGEST {
            return;
        }
        let size = last.content.capacity();
        let fits = KEPT.fetch_add(size, Ordering::Relaxed).saturating_add(size) <= MOST_KEPT;
        match self.lock().filter(|_| fits) {
            Some(mut kept) => kept.replace(last).iter().for_each(release),
            None => release(&last),
        }
    }

    // Never wait for the lock: in a child of `fork` its holder may not exist.
    fn lock(&self) -> Option<MutexGuard<'_, Option<Extended>>> {
        match self.0.try_lock() {
            Ok(kept) => Some(kept),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Drop for LastChunk {
    fn drop(&mut self) {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take().iter().for_each(release);
    }
}

fn release(last: &Extended) {
    KEPT.fetch_sub(last.content.capacity(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(number: u64, content: Vec<u8>) -> Extended {
        Extended { coords: vec![number], generation: Generation([number, 1, 1]), content }
    }

    fn kept(last: &LastChunk) -> Option<u64> {
        last.take().map(|last| last.coords[0])
    }

    /// One test, since the memory is that of all threads.
    #[test]
    fn few_small_chunks_are_kept_and_none_is_waited_for() {
        // larger ones are not
        let last = LastChunk::default();
        last.keep(chunk(1, vec![0; LARGEST]));
        assert_eq!((kept(&last), kept(&last)), (Some(1), None));
        last.keep(chunk(2, vec![0; LARGEST + 1]));
        assert_eq!(kept(&last), None);
        // as many as the memory takes, whatever room their vectors have
        let mut roomy = Vec::with_capacity(LARGEST);
        roomy.push(0);
        let many: Vec<_> = (0..2 * MOST_KEPT / LARGEST).map(|_| LastChunk::default()).collect();
        many.iter().for_each(|last| last.keep(chunk(3, Vec::with_capacity(LARGEST))));
        last.keep(chunk(4, roomy));
        let held = many.iter().filter(|last| last.lock().is_some_and(|kept| kept.is_some())).count();
        assert_eq!((held, kept(&last)), (MOST_KEPT / LARGEST, None));
        drop(many);
        assert_eq!(KEPT.load(Ordering::Relaxed), 0);
        // a lock that is held, perhaps by a thread that a child of `fork` does not have
        last.keep(chunk(5, vec![0]));
        let held = last.lock();
        assert_eq!(kept(&last), None);
        last.keep(chunk(6, vec![0]));
        drop(held);
        assert_eq!(kept(&last), Some(5));
        assert_eq!(KEPT.load(Ordering::Relaxed), 0);
    }
}
