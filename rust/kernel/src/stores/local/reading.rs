//! One value: an open file, which does not change when other writers replace it.

use std::sync::OnceLock;

use super::system::{self, AsFd, BorrowedFd, Errno, OwnedFd, Status};
use super::waiting;
#[cfg(windows)]
use crate::stores::Slice;
use crate::stores::files::{self, Bytes, SizeHint};
use crate::stores::{Expected, Parts, State, Value};
use crate::{Error, Result};

/// If a file has not changed for this time, no later change repeats its time of change; in nanoseconds.
const SETTLED: i64 = 1_000_000_000;
/// Smaller files can be rewritten in less time than it takes to share their blocks, in bytes.
const LEAST_SHARED: u64 = 1 << 18;

/// The file of a value.
pub struct LocalValue<'a> {
    file: OwnedFd,
    hint: &'a SizeHint,
    status: OnceLock<Status>,
    locked: bool,
}

/// The state of a file. A rounded time does not distinguish states; the Python store compares more than the time.
fn expected(status: &Status) -> Result<Expected> {
    if status.generation.is_rounded() { Err(Error::Unusual) } else { Ok(Expected::File(status.generation)) }
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
        self.locked = system::LOCKS_VALUES && waiting::lock(|| system::lock(self.file.as_fd())).is_ok();
        self.status()
    }

    /// Whether another file can take its place while it is open.
    #[cfg(windows)]
    pub fn can_be_replaced(&self) -> bool {
        system::replaces_open_files(self.file.as_fd())
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
}

impl Bytes for LocalValue<'_> {
    fn read(&self, room: &mut [u8], position: u64) -> Result<usize> {
        system::read(self.file.as_fd(), room, Some(position)).map_err(unusual)
    }

    fn nbytes(&self) -> Result<u64> {
        Ok(self.status()?.size)
    }

    fn known_nbytes(&self) -> Option<u64> {
        self.status.get().map(|status| status.size)
    }
}

impl Value for LocalValue<'_> {
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        files::with_all(self, self.hint, work)
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<usize> {
        files::read_at(self, start, out)
    }

    fn size(&self) -> Result<u64> {
        self.nbytes()
    }

    fn generation(&self) -> Result<Expected> {
        expected(&self.status()?)
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
        Some(files::PARTS)
    }

    fn is_cached(&self, position: u64) -> bool {
        !system::would_wait(self.file.as_fd(), position)
    }
}

impl Drop for LocalValue<'_> {
    fn drop(&mut self) {
        if self.locked {
            // A child that was forked in the meantime has the file open, too, and would keep the lock.
            system::unlock(self.file.as_fd());
        }
    }
}

/// A value that is to be replaced where a file can't be while it is open: its bytes, and the state of the file.
#[cfg(windows)]
pub struct Kept {
    data: Vec<u8>,
    status: Status,
}

#[cfg(windows)]
impl Kept {
    /// Read all of a value, and close its file.
    pub fn new(value: &LocalValue<'_>) -> Result<Kept> {
        let status = value.status()?;
        let mut data = Vec::new();
        value.with_all(&mut |bytes| {
            data.try_reserve_exact(bytes.len()).map_err(|_| Error::Memory { bytes: bytes.len() })?;
            data.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(Kept { data, status })
    }
}

#[cfg(windows)]
impl Value for Kept {
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        work(&self.data)
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<usize> {
        Slice(&self.data).read_at(start, out)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.data.len() as u64)
    }

    fn generation(&self) -> Result<Expected> {
        expected(&self.status)
    }

    fn parts(&self) -> Option<Parts> {
        None
    }
}
