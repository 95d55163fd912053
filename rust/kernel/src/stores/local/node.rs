//! The node that the values of a store belong to: which directory, and which state of the document in it.
//!
//! An operation opens the node's directory once, and reads and writes below it. So all that it sees is of one directory,
//! even if another directory takes its place. At its end a read compares the state of the document with the known one:
//! the caller has found the document of that state to describe the node. A write makes the same comparison before each
//! value that it puts in place, while other writers are locked out.
//!
//! A node that is read many times in quick succession keeps its directory open for a moment, from one read to the next.
//! It is never longer than a moment, so that a directory which takes its place is seen even by reads without a pause.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::system::{self, AsFd, BorrowedFd, Last, OwnedFd, Status};
use crate::stores::Generation;
use crate::{Error, Result};

/// Between two reads that follow each other quickly, at most; no longer does a directory serve reads that begin.
const MOMENT: Duration = Duration::from_millis(1);
/// How many of them there are before the directory stays open.
const MANY: u32 = 16;
/// For this time after a check, reads below a directory that stayed open are not checked again. To replace a node within
/// its directory, its document and a chunk have to be stored or deleted one after the other, which takes longer.
const BELIEVED: Duration = Duration::from_micros(20);
/// How many directories of nodes stay open, over the whole process.
const MOST_OPEN: usize = 64;

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The node of a store: its document, and what is known about it.
#[derive(Default)]
pub struct Node {
    /// The key of the document.
    pub document: String,
    /// How many bytes of that key are the prefix of the node's keys.
    pub prefix: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    state: Option<State>,
    /// The key of another document that describes the node now; its state is looked up by its path.
    other: Option<String>,
    /// The latest shape of the array in the document.
    shape: Vec<u64>,
    open: Option<Arc<Place>>,
    /// When the last read ended, and how many have followed each other quickly until then.
    read: Option<Instant>,
    run: u32,
    /// When the last check was made below the directory that is open.
    checked: Option<Instant>,
}

/// The state of a document, and the directory that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    generation: Generation,
    /// When the system last saw a change of the file, which programs can't set.
    changed: i64,
    /// Whether inode numbers tell files apart; in file systems in user space they may change.
    inodes: bool,
    /// Device and inode number of the directory.
    directory: Option<(u64, u64)>,
}

impl State {
    fn is(&self, status: &Status) -> bool {
        let [inode, time, size] = self.generation.0;
        let [other, ..] = status.generation.0;
        let same = [time, size] == status.generation.0[1..] && self.changed == status.changed;
        same && (!self.inodes || inode == other)
    }
}

/// An open directory of a node.
#[derive(Debug)]
pub struct Place {
    pub file: OwnedFd,
    /// Since when it stays open, if it does; then it is counted.
    kept: Option<Instant>,
}

impl Place {
    /// Take a directory that is open for one operation.
    pub fn new(file: OwnedFd) -> Place {
        Place { file, kept: None }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.kept.is_some() {
            OPEN.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What the caller has found in the document of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The key of the document that describes the node now.
    pub key: String,
    /// The generation in which it does.
    pub generation: Generation,
    /// The shape of the array in it; empty if it has none.
    pub shape: Vec<u64>,
}

/// The outcome of `Node::learn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learnt {
    /// The state of the document is known now.
    Known,
    /// The document has changed again.
    Changed,
    /// The document is in another directory than before.
    Replaced,
}

impl Node {
    /// Describe the node whose document has a key; its keys begin with `prefix`, which is empty or ends in a slash.
    pub fn new(document: &str, prefix: &str) -> Node {
        let prefix = if document.starts_with(prefix) { prefix.len() } else { 0 };
        Node { document: document.to_owned(), prefix, known: Mutex::default() }
    }

    /// The common prefix of the node's keys.
    pub fn prefix(&self) -> &str {
        &self.document[..self.prefix]
    }

    /// The document's name in the directory of the node.
    pub fn name(&self) -> &[u8] {
        &self.document.as_bytes()[self.prefix..]
    }

    /// Return what is known, which is locked for moments only.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The directory that an earlier read has left open, if that was a moment ago.
    pub fn open(&self) -> Option<Arc<Place>> {
        let mut known = self.known();
        known.open = known.open.take_if(|place| place.kept.is_some_and(|since| since.elapsed() < MOMENT));
        known.open.clone()
    }

    /// Let the next read open the directory anew.
    pub fn close(&self) {
        let mut known = self.known();
        (known.open, known.run) = (None, 0);
    }

    /// Whether any state of the document is known.
    pub fn is_known(&self) -> bool {
        self.known().state.is_some()
    }

    /// Whether the document at `place` has the known state.
    pub fn holds(&self, place: Option<&Arc<Place>>, base: &[u8]) -> bool {
        let (state, other) = {
            let known = self.known();
            (known.state, known.other.clone())
        };
        let found = self.look(other.as_deref(), place.map(|place| place.file.as_fd()), base);
        state.is_some_and(|state| found.is_some_and(|status| state.is(&status)))
    }

    /// The shape that the array is known to have now, if an array of `shape` would end beyond it along some axis.
    pub fn cuts(&self, shape: &[u64]) -> Option<Vec<u64>> {
        let known = self.known();
        let is_cut = known.shape.len() == shape.len() && known.shape.iter().zip(shape).any(|(now, size)| now < size);
        is_cut.then(|| known.shape.clone())
    }

    /// The shape that the array is known to have now; empty if none is known.
    pub fn shape(&self) -> Vec<u64> {
        self.known().shape.clone()
    }

    /// Whether it has, at the end of a read; `is_kept` says that the directory was open before.
    pub fn held(&self, place: Option<&Arc<Place>>, base: &[u8], is_kept: bool) -> bool {
        let now = Instant::now();
        let soon = |past: Option<Instant>, most: Duration| past.is_some_and(|past| now.duration_since(past) < most);
        let is_believed = is_kept && soon(self.known().checked, BELIEVED);
        if !is_believed && !self.holds(place, base) {
            return false;
        }
        // keep the directory open if reads follow each other
        let mut known = self.known();
        if !is_believed {
            known.checked = Some(now);
        }
        known.run = if soon(known.read, MOMENT) { known.run.saturating_add(1) } else { 0 };
        known.read = Some(now);
        if !is_kept && known.open.is_none() && known.run >= MANY {
            known.open = place.and_then(Place::kept);
        }
        true
    }

    /// Return what a write below a directory has to compare.
    ///
    /// # Errors
    ///
    /// `Changed` if no state is known.
    pub fn guard(&self, place: Option<&Arc<Place>>, base: &[u8]) -> Result<Guard> {
        let known = self.known();
        let state = known.state.ok_or(Error::Changed)?;
        let place = place.filter(|_| known.other.is_none()).cloned();
        let key = known.other.as_ref().unwrap_or(&self.document);
        let path = if place.is_some() { self.name().to_vec() } else { [base, key.as_bytes()].concat() };
        Ok(Guard { place, path, state })
    }

    /// Note that a document describes the node, if the one at `place` has the generation that was found.
    pub fn learn(&self, found: Found, place: Option<BorrowedFd<'_>>, base: &[u8]) -> Learnt {
        let Found { key, generation, shape } = found;
        let other = (key != self.document).then_some(key);
        let Some(status) = self.look(other.as_deref(), place, base) else { return Learnt::Changed };
        let inodes = place.is_some_and(|place| system::local_disk(place).0);
        let [inode, time, size] = generation.0;
        let [found, rest @ ..] = status.generation.0;
        if rest != [time, size] || (inodes && found != inode) {
            return Learnt::Changed;
        }
        let directory =
            place.filter(|_| inodes).and_then(|place| system::status(place).ok()).map(|found| found.identity());
        let mut known = self.known();
        if let Some(State { directory: Some(old), .. }) = known.state
            && directory.is_some_and(|new| new != old)
        {
            return Learnt::Replaced;
        }
        (known.open, known.checked, known.run) = (None, None, 0);
        (known.other, known.shape) = (other, shape);
        known.state = Some(State { generation: status.generation, changed: status.changed, inodes, directory });
        Learnt::Known
    }

    fn look(&self, other: Option<&str>, place: Option<BorrowedFd<'_>>, base: &[u8]) -> Option<Status> {
        match (other, place) {
            (None, Some(place)) => system::status_at(place, &[self.name()], Last::Itself),
            (other, _) => {
                let key = other.unwrap_or(&self.document);
                system::status_at(system::anywhere(), &[base, key.as_bytes()], Last::Followed)
            }
        }
        .ok()
    }
}

impl Place {
    /// Return the directory as one that stays open, if not too many are. On Windows none does: it could not be renamed.
    fn kept(self: &Arc<Place>) -> Option<Arc<Place>> {
        if cfg!(windows) {
            return None;
        }
        let is_free = OPEN.fetch_add(1, Ordering::Relaxed) < MOST_OPEN;
        let file = system::duplicate(self.file.as_fd()).ok().filter(|_| is_free);
        if file.is_none() {
            OPEN.fetch_sub(1, Ordering::Relaxed);
        }
        file.map(|file| Arc::new(Place { file, kept: Some(Instant::now()) }))
    }
}

/// What a write compares before it puts a value in place: that the document still has the state which was known when the
/// write began.
#[derive(Debug)]
pub struct Guard {
    place: Option<Arc<Place>>,
    /// The document's name in the directory, or its path.
    path: Vec<u8>,
    state: State,
}

impl Guard {
    /// Whether the document has that state.
    pub fn holds(&self) -> bool {
        let start = self.place.as_ref().map(|place| place.file.as_fd());
        let last = if start.is_some() { Last::Itself } else { Last::Followed };
        let found = system::status_at(start.unwrap_or(system::anywhere()), &[&self.path], last);
        found.is_ok_and(|status| self.state.is(&status))
    }
}
