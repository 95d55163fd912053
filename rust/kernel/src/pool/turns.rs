//! Turns: a limit on the threads that work at the same time, for operations with many threads that mostly wait.
//!
//! Without turns, if 64 threads get their answers at the same time, all encode or decode large chunks at once on a few
//! cores, each slowly and with its own working memory, and all finish at the end. With turns the first chunks are finished
//! early, and are sent while others are encoded.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, PoisonError};

/// The turns of all threads of this process.
#[derive(Default)]
pub(super) struct Turns {
    /// Number of threads that have a turn.
    taken: Mutex<usize>,
    ended: Condvar,
}

thread_local! {
    /// How many threads may have a turn at the same time; 0 if this thread needs no turn.
    static LIMIT: Cell<usize> = const { Cell::new(0) };
    /// The turn of this thread.
    static HELD: Cell<Option<&'static Turns>> = const { Cell::new(None) };
}

/// Run a task in which at most `limit` threads work at the same time between `take_turn` and [`end_turn`]; 0 means no
/// limit.
pub fn in_turns<T>(limit: usize, task: impl FnOnce() -> T) -> T {
    let _ending = Ending(LIMIT.replace(limit));
    task()
}

/// Ends the turn and restores the limit when dropped.
struct Ending(usize);

impl Drop for Ending {
    fn drop(&mut self) {
        end_turn();
        LIMIT.set(self.0);
    }
}

/// Wait for a turn of the process and take it, unless this thread has a turn or needs none.
pub(super) fn take(turns: impl FnOnce() -> &'static Turns) {
    let limit = LIMIT.get();
    if limit == 0 || has_turn() {
        return;
    }
    let turns = turns();
    let mut taken = turns.taken.lock().unwrap_or_else(PoisonError::into_inner);
    while *taken >= limit {
        taken = turns.ended.wait(taken).unwrap_or_else(PoisonError::into_inner);
    }
    *taken += 1;
    HELD.set(Some(turns));
}

/// Let another thread work, if this one has a turn.
pub fn end_turn() {
    if let Some(turns) = HELD.take() {
        *turns.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        turns.ended.notify_one();
    }
}

fn has_turn() -> bool {
    HELD.get().is_some()
}

/// Working memory that threads with a turn pass to each other: there are at most as many pieces as turns.
pub struct Spare<T>(Mutex<Vec<T>>);

impl<T> Spare<T> {
    /// Make an empty collection.
    pub const fn empty() -> Spare<T> {
        Spare(Mutex::new(Vec::new()))
    }

    /// Take a piece, if this thread has a turn and there is one.
    pub fn take(&self) -> Option<T> {
        // In a forked child the lock may be held forever.
        if has_turn() { self.0.try_lock().ok()?.pop() } else { None }
    }

    /// Leave a piece to other threads; return it if this thread has no turn, or if there are enough.
    pub fn give(&self, value: T) -> Option<T> {
        if !has_turn() {
            return Some(value);
        }
        match self.0.try_lock() {
            Ok(mut spare) if spare.len() < LIMIT.get() => {
                spare.push(value);
                None
            }
            _ => Some(value),
        }
    }
}
