//! One value: an open file, which does not change when other writers replace it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::system::{self, Errno, Status};
use super::waiting;
use crate::memory::with_scratch;
use crate::stores::{Expected, Parts, State, Value};
use crate::{Error, Result};

const PAGE: usize = 4096;
/// How many bytes are allocated in advance at most; more only if a value turns out to be longer.
const MOST_EXPECTED: usize = 1 << 20;
/// If a file has not changed for this time, no later change repeats its time of change; in nanoseconds.
const SETTLED: i64 = 1_000_000_000;
/// Smaller files can be rewritten in less time than it takes to share their blocks, in bytes.
const LEAST_SHARED: u64 = 1 << 18;

/// The usual size of values, if it is known, so that one call reads all of a value.
#[derive(Debug)]
pub struct SizeHint(AtomicUsize);

impl SizeHint {
    /// Make the hint that values are about `size` bytes long.
    pub fn new(size: usize) -> SizeHint {
        SizeHint(AtomicUsize::new(size.min(MOST_EXPECTED)))
    }

    /// The size of a buffer for a value: more than it fills, so that the read shows where it ends.
    fn room(&self) -> usize {
        let size = self.0.load(Ordering::Relaxed);
        (size + size / 64 + PAGE) & !63
    }

    fn raise(&self, size: usize) {
        self.0.fetch_max(size.min(MOST_EXPECTED), Ordering::Relaxed);
    }
}

/// The file of a value.
pub struct LocalValue<'a> {
    file: OwnedFd,
    hint: &'a SizeHint,
    status: OnceLock<Status>,
    locked: bool,
}

/// The error for a file that only the Python store can read.
fn unusual(_: Errno) -> Error {
    Error::Unusual
}

impl<'a> LocalValue<'a> {
    /// Make the value of an open file; the kind of file has not been checked yet.
    pub fn new(file: OwnedFd, hint: &'a SizeHint) -> LocalValue<'a> {
        LocalValue { file, hint, status: OnceLock::new(), locked: false }
    }

    /// Wait a while for the lock of this file, and keep it as long as the value lives; then look at the file.
    pub fn wait_for_lock(&mut self) -> Result<Status> {
        self.locked = waiting::lock(self.file.as_fd()).is_ok();
        self.status()
    }

    fn status(&self) -> Result<Status> {
        if let Some(status) = self.status.get() {
            return Ok(*status);
        }
        let status = system::status(self.file.as_fd()).map_err(unusual)?;
        if !status.is_file() {
            return Err(Error::Unusual);
        }
        Ok(*self.status.get_or_init(|| status))
    }

    /// Read the file from its start into `buffer`; return its size, `None` if it is larger than the buffer.
    pub fn read_all(&self, buffer: &mut [u8]) -> Result<Option<usize>> {
        let mut filled = 0;
        while filled < buffer.len() {
            let position = filled as u64;
            let count = system::read(self.file.as_fd(), &mut buffer[filled..], Some(position)).map_err(unusual)?;
            filled += count;
            if filled == 0 {
                self.status()?; // a pipe without a writer, and several devices, read as if they were empty
            }
            // a read may end early in a file system in user space
            if count == 0 || (filled < buffer.len() && filled as u64 >= self.status()?.size) {
                return Ok(Some(filled));
            }
        }
        Ok(None)
    }
}

impl Value for LocalValue<'_> {
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut room = match self.status.get() {
            // one byte more shows whether the file ends there
            Some(status) => usize::try_from(status.size).unwrap_or(usize::MAX).saturating_add(1),
            None => self.hint.room(),
        };
        loop {
            let done = with_scratch(room, |buffer| match self.read_all(buffer)? {
                Some(size) => work(&buffer[..size]).map(|()| true),
                None => Ok(false),
            })?;
            if done {
                return Ok(());
            }
            let size = usize::try_from(self.status()?.size).unwrap_or(usize::MAX);
            self.hint.raise(size);
            room = size.max(room.saturating_add(room / 2)).saturating_add(PAGE);
        }
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < out.len() {
            let position = start.checked_add(filled as u64).ok_or(Error::Unusual)?;
            match system::read(self.file.as_fd(), &mut out[filled..], Some(position)).map_err(unusual)? {
                0 => break,
                count => filled += count,
            }
        }
        if filled == 0 {
            self.status()?;
        }
        Ok(filled)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.status()?.size)
    }

    fn generation(&self) -> Result<Expected> {
        let status = self.status()?;
        // A rounded time does not distinguish states; the Python store compares more than the time.
        if status.generation.is_rounded() { Err(Error::Unusual) } else { Ok(Expected::File(status.generation)) }
    }

    fn state(&self) -> Result<Option<State>> {
        Ok(self.status()?.state())
    }

    fn is_settled(&self) -> bool {
        // The system's stamps are the same for milliseconds, and a single write may go on for a while after its stamp.
        let Ok(status) = self.status() else { return false };
        let age = system::now().map(|now| now.saturating_sub(status.changed));
        age.is_ok_and(|age| age > SETTLED) && system::is_local_disk(self.file.as_fd())
    }

    fn expect(&self, ranges: &mut dyn Iterator<Item = (u64, u64)>) {
        let mut ranges = ranges.peekable();
        let waits = ranges.peek().is_some_and(|&(start, _)| system::would_wait(self.file.as_fd(), start));
        if waits {
            ranges.for_each(|(start, length)| system::read_ahead(self.file.as_fd(), start, length));
        }
    }

    fn is_shared(&self) -> bool {
        self.size().is_ok_and(|size| size >= LEAST_SHARED) && system::may_share(self.file.as_fd())
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn parts(&self) -> Option<Parts> {
        Some(Parts { gap: 1 << 14, span: 1 << 18 })
    }

    fn is_cached(&self, position: u64) -> bool {
        !system::would_wait(self.file.as_fd(), position)
    }
}

impl Drop for LocalValue<'_> {
    fn drop(&mut self) {
        if self.locked {
            // A child that was forked in the meantime has the file open, too, and would keep the lock.
            let _ = system::lock(self.file.as_fd(), libc::LOCK_UN);
        }
    }
}
