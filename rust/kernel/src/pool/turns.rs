//! Turns: how many threads work at once, where an operation uses many threads because they mostly wait.
//!
//! Of 64 threads that have been answered together, all would encode or decode large chunks at the same time, on a few
//! cores: each of them slowly, with a working memory of its own, and all ready at the end. In turns the first chunks are
//! ready early, and are sent while others are encoded.

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
    /// How many threads may have a turn at once while this one has none; 0 where it needs none.
    static LIMIT: Cell<usize> = const { Cell::new(0) };
    /// The turn of this thread.
    static HELD: Cell<Option<&'static Turns>> = const { Cell::new(None) };
}

/// Run a task in which at most `limit` threads at once work between `take_turn` and [`end_turn`]; any number if it is 0.
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

/// Take a turn of those of the process, as soon as there is one, unless this thread has one or needs none.
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

/// What threads with a turn leave to each other, as working memory: no more is needed than there are turns.
pub struct Spare<T>(Mutex<Vec<T>>);

impl<T> Spare<T> {
    /// Make it, with nothing to take.
    pub const fn empty() -> Spare<T> {
        Spare(Mutex::new(Vec::new()))
    }

    /// Take something, if this thread has a turn and there is any.
    pub fn take(&self) -> Option<T> {
        // In a forked child the lock may be held forever.
        if has_turn() { self.0.try_lock().ok()?.pop() } else { None }
    }

    /// Leave something to others; returned if this thread has no turn, or if there is more than enough.
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
