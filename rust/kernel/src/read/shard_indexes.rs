//! Decoded indexes of shards, kept for later reads, each with the state of its shard. Called by `shards`.
//!
//! No thread waits for the lock: in a child of `fork` its holder may not exist. A read that finds the lock taken reads
//! the index itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use crate::stores::State;

/// Offset and length of each inner chunk of a shard.
pub(crate) type Index = Arc<Vec<(u64, u64)>>;

/// The state of a shard, and how its index is decoded.
pub(super) type Key = (State, u64);

/// The most memory for indexes, in bytes.
const MOST: usize = 1 << 26;
/// Memory of the table itself for each index, roughly, in bytes.
const ENTRY: usize = 160;

static KEPT: RwLock<Option<Kept>> = RwLock::new(None);

#[derive(Default)]
struct Kept {
    entries: HashMap<Key, Entry>,
    nbytes: usize,
}

struct Entry {
    index: Index,
    /// Whether it was used since the last eviction.
    used: AtomicBool,
}

/// Return the index of a shard, if it is kept.
pub(super) fn get(key: &Key) -> Option<Index> {
    let kept = KEPT.try_read().ok()?;
    let entry = kept.as_ref()?.entries.get(key)?;
    if !entry.used.load(Ordering::Relaxed) {
        entry.used.store(true, Ordering::Relaxed);
    }
    Some(entry.index.clone())
}

/// Keep the index of a shard; if there are too many, those that were not used lately are dropped.
pub(super) fn put(key: Key, index: &Index) {
    let size = nbytes(index);
    if size > MOST / 4 {
        return;
    }
    let Ok(mut kept) = KEPT.try_write() else { return };
    let kept = kept.get_or_insert_default();
    if kept.nbytes + size > MOST {
        kept.entries.retain(|_, entry| entry.used.swap(false, Ordering::Relaxed));
        kept.count();
        if kept.nbytes + size > MOST {
            kept.entries.clear();
            kept.nbytes = 0;
        }
    }
    kept.nbytes += size;
    if let Some(old) = kept.entries.insert(key, Entry { index: index.clone(), used: AtomicBool::new(false) }) {
        kept.nbytes -= nbytes(&old.index);
    }
}

impl Kept {
    fn count(&mut self) {
        self.nbytes = self.entries.values().map(|entry| nbytes(&entry.index)).sum();
    }
}

fn nbytes(index: &Index) -> usize {
    ENTRY + 16 * index.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Key {
        (State([number, 0, 0, 0, 0, 0, 0]), u64::MAX) // no shard has this layout
    }

    #[test]
    fn indexes_are_kept_within_the_budget_and_used_ones_longest() {
        let index: Index = Arc::new(vec![(0, 0); MOST / 16 / 10]);
        for number in 0..100 {
            put(key(number), &index);
            assert!(get(&key(number)).is_some_and(|found| Arc::ptr_eq(&found, &index)));
            put(key(number), &index); // twice is once
            assert!(get(&key(0)).is_some(), "used again and again, and evicted after {number} others");
        }
        let kept = KEPT.read().unwrap();
        let kept = kept.as_ref().unwrap();
        assert!(kept.nbytes <= MOST && kept.entries.len() >= 2);
        assert_eq!(kept.nbytes, kept.entries.values().map(|entry| nbytes(&entry.index)).sum());
    }

    #[test]
    fn an_index_that_would_displace_many_is_not_kept() {
        put(key(1000), &Arc::new(vec![(0, 0); MOST / 16]));
        assert!(get(&key(1000)).is_none());
    }
}
