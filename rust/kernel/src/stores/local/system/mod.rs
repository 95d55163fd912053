//! The system calls of the store as safe functions, for each system. Programs that this process starts do not inherit the
//! files.
//!
//! Open files and directories have the names that they have on Unix. A path is given in pieces, with slashes.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io::{IoSlice, Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};

#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(target_os = "macos")]
pub use macos::*;
#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;

pub use super::errno::{Errno, Outcome};
use super::faults::{Subject, ask, clock};
use super::handles::answered;
pub use super::handles::{AsFd, BorrowedFd, Last, OwnedFd, Status};

const PIECES: usize = 32;

/// Whether a name exists in a directory, even if it is a link that leads nowhere.
///
/// # Errors
///
/// The system's error.
pub fn stands_at(directory: BorrowedFd<'_>, name: &[u8]) -> Outcome<bool> {
    match status_at(directory, &[name], Last::Itself) {
        Ok(_) => Ok(true),
        Err(Errno(libc::ENOENT)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Read into `room` from where the last call ended, or from `position` on; may read fewer bytes than requested.
///
/// # Errors
///
/// The system's error.
pub fn read(file: BorrowedFd<'_>, room: &mut [u8], position: Option<u64>) -> Outcome<usize> {
    if position.is_some_and(|position| i64::try_from(position).is_err()) {
        return Err(Errno(libc::EOVERFLOW));
    }
    loop {
        let answer = ask("read", Subject::Open(file)).and_then(|most| {
            let length = room.len().min(most);
            let (file, room) = (as_file(file), &mut room[..length]);
            answered(match position {
                None => (&*file).read(room),
                Some(position) => read_from(&file, room, position),
            })
        });
        match answer {
            Err(Errno(libc::EINTR)) => {}
            other => return other,
        }
    }
}

/// Write all of `parts` to a file, one after the other.
///
/// # Errors
///
/// The system's error; some bytes may have been written.
pub fn write_all(file: BorrowedFd<'_>, parts: &[&[u8]]) -> Outcome<()> {
    let (mut first, mut skip) = (0, 0);
    loop {
        while parts.get(first).is_some_and(|part| part.len() == skip) {
            (first, skip) = (first + 1, 0);
        }
        let Some((now, later)) = parts[first..].split_first() else { return Ok(()) };
        let answer = ask("write", Subject::Open(file)).and_then(|mut most| {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let mut used = 0;
            for (piece, part) in pieces.iter_mut().zip(std::iter::once(&&now[skip..]).chain(later)) {
                let part = &part[..part.len().min(most)];
                most -= part.len();
                *piece = IoSlice::new(part);
                used += 1;
            }
            answered(as_file(file).write_vectored(&pieces[..used]))
        });
        match answer {
            Ok(0) => return Err(Errno(libc::EIO)),
            Ok(mut count) => {
                while count > 0 {
                    let step = count.min(parts[first].len() - skip);
                    (count, skip) = (count - step, skip + step);
                    if skip == parts[first].len() {
                        (first, skip) = (first + 1, 0);
                    }
                }
            }
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Write a piece of a file at `start`.
///
/// # Errors
///
/// The system's error; some bytes may have been written.
pub fn write_at(file: BorrowedFd<'_>, mut start: u64, mut piece: &[u8]) -> Outcome<()> {
    while !piece.is_empty() {
        i64::try_from(start).map_err(|_| Errno(libc::EFBIG))?;
        let answer = ask("write", Subject::Open(file))
            .and_then(|most| answered(write_from(&as_file(file), &piece[..piece.len().min(most)], start)));
        match answer {
            Ok(0) => return Err(Errno(libc::EIO)),
            Ok(count) => (start, piece) = (start + count as u64, &piece[count..]),
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Return the time, in nanoseconds.
///
/// # Errors
///
/// The system's error.
pub fn now() -> Outcome<i64> {
    if let Some(time) = clock() {
        return Ok(time);
    }
    Ok(match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i64,
        Err(before) => (before.duration().as_nanos() as i64).wrapping_neg(),
    })
}

/// Sync a file or the names in a directory to the disk.
///
/// # Errors
///
/// The system's error.
pub fn sync(file: BorrowedFd<'_>) -> Outcome<()> {
    loop {
        match ask("fsync", Subject::Open(file)).and_then(|_| sync_all(file)) {
            Err(Errno(libc::EINTR)) => {}
            other => return other,
        }
    }
}

/// Whether reading a byte at `position` would wait for a disk; false as well where the system can't tell.
#[cfg(not(target_os = "linux"))]
pub fn would_wait(_file: BorrowedFd<'_>, _position: u64) -> bool {
    false
}

/// Let the system begin to read a range of a file, where `would_wait` can tell.
#[cfg(not(target_os = "linux"))]
pub fn read_ahead(_file: BorrowedFd<'_>, _start: u64, _length: u64) {}

/// Allocate the blocks of a file in advance, where that saves anything.
#[cfg(not(target_os = "linux"))]
pub fn allocate(_file: BorrowedFd<'_>, _size: usize) {}

/// Make a file without a name: only Linux has them.
///
/// # Errors
///
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn open_unnamed(_directory: BorrowedFd<'_>) -> Outcome<OwnedFd> {
    Err(Errno(libc::ENOTSUP))
}

/// Give a file without a name a name in a directory.
///
/// # Errors
///
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn link(_file: BorrowedFd<'_>, _directory: BorrowedFd<'_>, _name: &[u8]) -> Outcome<()> {
    Err(Errno(libc::ENOTSUP))
}

/// Whether copies of a file may share its blocks.
#[cfg(not(target_os = "linux"))]
pub fn may_share(_file: BorrowedFd<'_>) -> bool {
    false
}

/// Make an empty file a copy of another one, which shares its blocks.
///
/// # Errors
///
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn share(_file: BorrowedFd<'_>, _other: BorrowedFd<'_>) -> Outcome<()> {
    Err(Errno(libc::ENOTSUP))
}
