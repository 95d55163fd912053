//! One value: a file that is open, and so stays what it is while others replace it.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::system::{self, Errno, Status};
use crate::stores::{Expected, Parts, Value};
use crate::{Error, Result};

/// What a read that ends early can only end at while there is more to come: the system hands out whole pages.
const PAGE: usize = 4096;
/// What is made ready in advance; if values turn out to be longer, what it has grown to is kept.
const MOST_EXPECTED: usize = 1 << 20;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// How long values are, as far as is known, so that one call reads all of one.
#[derive(Debug)]
pub struct SizeHint(AtomicUsize);

impl SizeHint {
    /// Make the hint that values are `size` bytes long, or a bit more.
    pub fn new(size: usize) -> SizeHint {
        SizeHint(AtomicUsize::new(size.min(MOST_EXPECTED)))
    }

    /// How much room there should be for a value: more than it fills, so that it shows where it ends.
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

/// What a file that can't be read plainly is left to.
fn unusual(_: Errno) -> Error {
    Error::Unusual
}

impl<'a> LocalValue<'a> {
    /// Make the value of a file that was opened without a look at what it is.
    pub fn new(file: OwnedFd, hint: &'a SizeHint) -> LocalValue<'a> {
        LocalValue { file, hint, status: OnceLock::new(), locked: false }
    }

    /// Wait until nobody else has this file locked, and lock it as long as the value lives; then look at it.
    ///
    /// No lock is had where there are none, or where a signal ends the wait: it saves work, and nothing relies on it.
    pub fn wait_for_turn(&mut self) -> Result<Status> {
        self.locked = system::lock(self.file.as_fd(), libc::LOCK_EX).is_ok();
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

    /// Read all of the file into `buffer`, which begins with room for it if the hint is right; return how much it is.
    fn read_all(&self, buffer: &mut Vec<u8>) -> Result<usize> {
        make_room(buffer, self.hint.room())?;
        let mut filled = 0;
        loop {
            let position = filled as u64;
            let count = system::read(self.file.as_fd(), &mut buffer[filled..], Some(position)).map_err(unusual)?;
            filled += count;
            if filled == 0 {
                self.status()?; // a pipe that nobody writes to, and several devices, read as if they were empty
            }
            if count == 0 || (filled < buffer.len() && count % PAGE != 0) {
                return Ok(filled);
            }
            if filled == buffer.len() {
                let size = usize::try_from(self.status()?.size).unwrap_or(usize::MAX);
                self.hint.raise(size);
                let more = size.max(filled.saturating_add(filled / 2));
                make_room(buffer, more.saturating_add(PAGE))?;
            }
        }
    }
}

/// Make a buffer `size` bytes long, if it is shorter.
fn make_room(buffer: &mut Vec<u8>, size: usize) -> Result<()> {
    if buffer.len() < size {
        buffer.try_reserve_exact(size - buffer.len()).map_err(|_| Error::Memory { bytes: size })?;
        buffer.resize(size, 0);
    }
    Ok(())
}

impl Value for LocalValue<'_> {
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        // Whoever is called from `work` and reads another value finds no buffer there, and makes one of its own.
        let mut buffer = SCRATCH.take();
        let result = self.read_all(&mut buffer).and_then(|size| work(&buffer[..size]));
        SCRATCH.set(buffer);
        result
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
        Ok(Expected::File(self.status()?.generation))
    }

    fn parts(&self) -> Option<Parts> {
        Some(Parts { gap: 1 << 14, span: 1 << 18 })
    }
}

impl Drop for LocalValue<'_> {
    fn drop(&mut self) {
        if self.locked {
            // A child that was forked meanwhile has the file open too, and would keep the lock.
            let _ = system::lock(self.file.as_fd(), libc::LOCK_UN);
        }
    }
}
