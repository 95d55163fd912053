//! How the bytes of an open file are read, whichever system call does it.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Parts;
use crate::memory::with_scratch;
use crate::{Error, Result};

const PAGE: usize = 4096;
/// How many bytes are allocated in advance at most; more only if a value turns out to be longer.
const MOST_EXPECTED: usize = 1 << 20;
/// How the parts of a file are best read.
pub const PARTS: Parts = Parts { gap: 1 << 14, span: 1 << 18 };

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

/// An open file. Errors are `Unusual` if only the Python store can read it.
pub trait Bytes {
    /// Read into `room` from `position` on; may read fewer bytes than requested.
    fn read(&self, room: &mut [u8], position: u64) -> Result<usize>;

    /// How many bytes the file has; `Unusual` if it is no regular file.
    fn nbytes(&self) -> Result<u64>;

    /// As `nbytes`, if that takes no call.
    fn known_nbytes(&self) -> Option<u64>;
}

/// Read a file from its start into `buffer`; return its size, `None` if it is larger than the buffer.
pub fn read_all(file: &impl Bytes, buffer: &mut [u8]) -> Result<Option<usize>> {
    let mut filled = 0;
    while filled < buffer.len() {
        let count = file.read(&mut buffer[filled..], filled as u64)?;
        filled += count;
        if filled == 0 {
            file.nbytes()?; // a pipe without a writer, and several devices, read as if they were empty
        }
        // a read may end early in a file system in user space
        if count == 0 || (filled < buffer.len() && filled as u64 >= file.nbytes()?) {
            return Ok(Some(filled));
        }
    }
    Ok(None)
}

/// Read a whole file, and pass its bytes to `work`; see `Value::with_all`.
pub fn with_all(file: &impl Bytes, hint: &SizeHint, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut room = match file.known_nbytes() {
        // one byte more shows whether the file ends there
        Some(size) => usize::try_from(size).unwrap_or(usize::MAX).saturating_add(1),
        None => hint.room(),
    };
    loop {
        let done = with_scratch(room, |buffer| match read_all(file, buffer)? {
            Some(size) => work(&buffer[..size]).map(|()| true),
            None => Ok(false),
        })?;
        if done {
            return Ok(());
        }
        let size = usize::try_from(file.nbytes()?).unwrap_or(usize::MAX);
        hint.raise(size);
        room = size.max(room.saturating_add(room / 2)).saturating_add(PAGE);
    }
}

/// Read a range of a file; see `Value::read_at`.
pub fn read_at(file: &impl Bytes, start: u64, out: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        let position = start.checked_add(filled as u64).ok_or(Error::Unusual)?;
        match file.read(&mut out[filled..], position)? {
            0 => break,
            count => filled += count,
        }
    }
    if filled == 0 {
        file.nbytes()?;
    }
    Ok(filled)
}
