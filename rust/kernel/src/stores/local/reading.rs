//! One value: an open file, which does not change when other writers replace it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::system::{self, Errno, Status};
use super::waiting;
use crate::memory::with_scratch;
use crate::stores::{Expected, Parts, Value};
use crate::{Error, Result};

const PAGE: usize = 4096;
/// At most so much is allocated in advance; more only if a value turns out to be longer.
const MOST_EXPECTED: usize = 1 << 20;

/// The usual size of values, as far as is known, so that one call reads all of a value.
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

/// The error for a file that can't be read plainly, which leaves it to the Python store.
fn unusual(_: Errno) -> Error {
    Error::Unusual
}

impl<'a> LocalValue<'a> {
    /// Make the value of an open file, whose kind has not been checked yet.
    pub fn new(file: OwnedFd, hint: &'a SizeHint) -> LocalValue<'a> {
        LocalValue { file, hint, status: OnceLock::new(), locked: false }
    }

    /// Wait a while for the lock of this file, and keep it as long as the value lives; then look at the file.
    pub fn wait_for_lock(&mut self) -> Result<Status> {
        self.locked = waiting::lock(self.file.as_fd(), libc::LOCK_EX).is_ok();
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
    fn read_all(&self, buffer: &mut [u8]) -> Result<Option<usize>> {
        let mut filled = 0;
        while filled < buffer.len() {
            let position = filled as u64;
            let count = system::read(self.file.as_fd(), &mut buffer[filled..], Some(position)).map_err(unusual)?;
            filled += count;
            if filled == 0 {
                self.status()?; // a pipe without a writer, and several devices, read as if they were empty
            }
            // a read may end early, in a file system that is a program
            if count == 0 || (filled < buffer.len() && filled as u64 >= self.status()?.size) {
                return Ok(Some(filled));
            }
        }
        Ok(None)
    }
}

impl Value for LocalValue<'_> {
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut room = self.hint.room();
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
        // A rounded time does not tell one state from another; the Python store uses more than that.
        if status.generation.is_rounded() { Err(Error::Unusual) } else { Ok(Expected::File(status.generation)) }
    }

    fn parts(&self) -> Option<Parts> {
        Some(Parts { gap: 1 << 14, span: 1 << 18 })
    }
}

impl Drop for LocalValue<'_> {
    fn drop(&mut self) {
        if self.locked {
            // A child that was forked since has the file open too, and would keep the lock.
            let _ = system::lock(self.file.as_fd(), libc::LOCK_UN);
        }
    }
}
