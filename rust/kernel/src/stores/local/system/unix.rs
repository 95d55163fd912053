//! What Linux and macOS have in common.

use std::ffi::CStr;
use std::fs::File;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use super::super::calls;
use super::super::errno::{Errno, Outcome};
use super::super::faults::{Subject, ask};
use super::super::handles::{AsFd, BorrowedFd, Kind, Last, OwnedFd, Status, answered, way_to};
use crate::stores::Generation;

/// How a file is opened.
pub type Flags = i32;
// O_NONBLOCK: otherwise opening a named pipe among the files would block until it has a writer.
/// Opens a file for reading, but not where a link leads.
pub const READ: Flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOFOLLOW;
/// Opens a directory, which can be locked and listed then.
pub const DIRECTORY: Flags = libc::O_RDONLY | libc::O_DIRECTORY;
/// Makes a new file, and opens it for writing.
pub const NEW: Flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
/// Opens a file for changes.
pub const CHANGE: Flags = libc::O_RDWR | libc::O_NOFOLLOW;

/// Errors of systems that can't lock a directory.
pub const NO_LOCKS: [i32; 6] = [libc::EOPNOTSUPP, libc::ENOLCK, libc::ENOSYS, libc::EINVAL, libc::EBADF, libc::EISDIR];
/// Whether the file of a value can be locked; it is replaced all the same.
pub const LOCKS_VALUES: bool = true;
const PATH_ON_STACK: usize = 512;

/// The lock of a directory.
pub type DirectoryLock<'d> = BorrowedFd<'d>;

impl Status {
    // The types of these fields depend on the architecture.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    fn of(found: &libc::stat) -> Status {
        let size = found.st_size as u64;
        let time = |seconds: i64, rest: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(rest);
        let mtime = time(found.st_mtime as i64, found.st_mtime_nsec as i64);
        Status {
            changed: time(found.st_ctime as i64, found.st_ctime_nsec as i64),
            device: found.st_dev as u64,
            generation: Generation([found.st_ino as u64, mtime as u64, size]),
            links: found.st_nlink as u64,
            size,
            kind: match found.st_mode & libc::S_IFMT {
                libc::S_IFREG => Kind::File,
                libc::S_IFDIR => Kind::Directory,
                _ => Kind::Other,
            },
        }
    }
}

/// The directory to open absolute paths from.
pub fn anywhere() -> BorrowedFd<'static> {
    // SAFETY: this is no descriptor that could be closed, but a number which stands for the current directory.
    unsafe { BorrowedFd::borrow_raw(libc::AT_FDCWD) }
}

/// Call `work` with the path that `pieces` make one after the other.
pub(super) fn with_path<T>(pieces: &[&[u8]], work: impl FnOnce(&CStr) -> Outcome<T>) -> Outcome<T> {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut short = [0_u8; PATH_ON_STACK];
    let mut long = Vec::new();
    let path: &mut [u8] = if length < PATH_ON_STACK {
        &mut short[..=length]
    } else {
        long.resize(length + 1, 0);
        &mut long
    };
    let mut filled = 0;
    for piece in pieces {
        path[filled..filled + piece.len()].copy_from_slice(piece);
        filled += piece.len();
    }
    work(CStr::from_bytes_with_nul(path).map_err(|_| Errno(libc::EINVAL))?)
}

pub(super) fn checked(code: libc::c_int) -> Outcome<()> {
    if code == 0 { Ok(()) } else { Err(Errno::last()) }
}

/// View a descriptor as a file of the standard library, which does not close it.
pub(super) fn as_file(file: BorrowedFd<'_>) -> ManuallyDrop<File> {
    // SAFETY: the descriptor is open, and as nothing drops this file, it stays with its owner.
    ManuallyDrop::new(unsafe { File::from_raw_fd(file.as_raw_fd()) })
}

pub(super) fn read_from(file: &File, room: &mut [u8], start: u64) -> std::io::Result<usize> {
    file.read_at(room, start)
}

pub(super) fn write_from(file: &File, piece: &[u8], start: u64) -> std::io::Result<usize> {
    file.write_at(piece, start)
}

pub(super) fn opened(fd: libc::c_long) -> Outcome<OwnedFd> {
    match RawFd::try_from(fd) {
        // SAFETY: the system has just opened it for the caller, and no other code has it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Errno::last()),
    }
}

/// Open the file `pieces` in a directory, or make it; links on the way are followed.
///
/// # Errors
///
/// The system's error.
pub fn open_at(start: BorrowedFd<'_>, pieces: &[&[u8]], flags: i32) -> Outcome<OwnedFd> {
    ask("openat", Subject::At(start, pieces))?;
    with_path(pieces, |path| {
        // SAFETY: the path ends with a NUL.
        let fd = unsafe { libc::openat(start.as_raw_fd(), path.as_ptr(), flags | libc::O_CLOEXEC, calls::FILE) };
        opened(fd.into())
    })
}

/// Close a file, and report if the data written to it could not be kept.
///
/// # Errors
///
/// The system's error; the file is closed nevertheless.
pub fn close(file: OwnedFd) -> Outcome<()> {
    let fate = ask("close", Subject::Open(file.as_fd()));
    let closed = checked(calls::close(file));
    match fate.and(closed) {
        Err(Errno(libc::EINTR)) => Ok(()), // it is closed, here as everywhere on Linux
        other => other,
    }
}

/// Duplicate the descriptor of an open file; the copy shares its lock.
///
/// # Errors
///
/// The system's error.
pub fn duplicate(file: BorrowedFd<'_>) -> Outcome<OwnedFd> {
    ask("dup", Subject::Open(file))?;
    answered(file.try_clone_to_owned())
}

/// Lock an open file or directory.
///
/// # Errors
///
/// `EWOULDBLOCK` if it is locked elsewhere; else the system's error.
pub fn lock(file: BorrowedFd<'_>) -> Outcome<()> {
    flock(file, libc::LOCK_EX | libc::LOCK_NB)
}

/// Unlock a file or a directory. To close it would leave the lock to a child that was forked since: the child has the same
/// file open, and a temporary file may have become the file of a key.
pub fn unlock(file: BorrowedFd<'_>) {
    if flock(file, libc::LOCK_UN).is_err() {
        let _ = flock(file, libc::LOCK_UN); // the directory may stay open, and its lock would keep all writers out
    }
}

/// Lock a directory, so that other writers leave its names alone; errors are as for `lock`.
pub fn lock_directory(directory: BorrowedFd<'_>) -> Outcome<DirectoryLock<'_>> {
    lock(directory).map(|()| directory)
}

/// Unlock a directory.
pub fn unlock_directory(lock: DirectoryLock<'_>) {
    unlock(lock);
}

fn flock(file: BorrowedFd<'_>, operation: i32) -> Outcome<()> {
    ask("flock", Subject::Open(file))?;
    checked(calls::flock(file, operation))
}

/// Look at an open file.
///
/// # Errors
///
/// The system's error.
pub fn status(file: BorrowedFd<'_>) -> Outcome<Status> {
    ask("fstat", Subject::Open(file))?;
    let mut found = MaybeUninit::uninit();
    // SAFETY: there is room for what the call writes, and it is read only if the call has filled it.
    unsafe {
        checked(libc::fstat(file.as_raw_fd(), found.as_mut_ptr()))?;
        Ok(Status::of(found.assume_init_ref()))
    }
}

/// Look at the file or directory at a path.
///
/// # Errors
///
/// The system's error.
pub fn status_at(start: BorrowedFd<'_>, pieces: &[&[u8]], last: Last) -> Outcome<Status> {
    ask("fstatat", Subject::At(start, pieces))?;
    let flags = if last == Last::Itself { libc::AT_SYMLINK_NOFOLLOW } else { 0 };
    with_path(pieces, |path| {
        let mut found = MaybeUninit::uninit();
        // SAFETY: the path ends with a NUL. There is room for what the call writes, and it is read only if the call has
        // filled it.
        unsafe {
            checked(libc::fstatat(start.as_raw_fd(), path.as_ptr(), found.as_mut_ptr(), flags))?;
            Ok(Status::of(found.assume_init_ref()))
        }
    })
}

/// Set the time of the last change of an open file.
///
/// # Errors
///
/// The system's error.
pub fn stamp(file: BorrowedFd<'_>, time: i64) -> Outcome<()> {
    ask("futimens", Subject::Open(file))?;
    let times = [timespec(time); 2];
    checked(calls::futimens(file, &times))
}

/// Set the time of the last change of a file in a directory.
///
/// # Errors
///
/// The system's error.
pub fn stamp_at(directory: BorrowedFd<'_>, name: &[u8], time: i64) -> Outcome<()> {
    ask("futimens", Subject::At(directory, &[name]))?;
    let times = [timespec(time); 2];
    with_path(&[name], |name| checked(calls::utimensat(directory, name.into(), &times, 0)))
}

fn timespec(time: i64) -> libc::timespec {
    libc::timespec { tv_sec: time.div_euclid(1_000_000_000) as _, tv_nsec: time.rem_euclid(1_000_000_000) as _ }
}

/// Sleep for a while.
///
/// # Errors
///
/// `EINTR` if a signal comes.
pub fn pause(length: Duration) -> Outcome<()> {
    checked(calls::nanosleep(&timespec(length.as_nanos() as i64), None))
}

/// Rename a file in a directory, and replace a file of the new name.
///
/// # Errors
///
/// The system's error.
pub fn rename(directory: BorrowedFd<'_>, old: &[u8], new: &[u8]) -> Outcome<()> {
    ask("renameat", Subject::At(directory, &[new]))?;
    with_path(&[old], |old| {
        with_path(&[new], |new| checked(calls::renameat(directory, old.into(), directory, new.into())))
    })
}

/// Make a directory in a directory.
///
/// # Errors
///
/// The system's error; `EEXIST` if the name exists.
pub fn make_directory(directory: BorrowedFd<'_>, name: &[u8]) -> Outcome<()> {
    ask("mkdirat", Subject::At(directory, &[name]))?;
    with_path(&[name], |name| checked(calls::mkdirat(directory, name.into(), calls::DIRECTORY)))
}

/// Remove a file or a link from a directory.
///
/// # Errors
///
/// The system's error.
pub fn unlink(directory: BorrowedFd<'_>, name: &[u8]) -> Outcome<()> {
    ask("unlinkat", Subject::At(directory, &[name]))?;
    match with_path(&[name], |name| checked(calls::unlinkat(directory, name.into(), 0))) {
        // macOS says only that it is not permitted
        Err(Errno(libc::EPERM))
            if status_at(directory, &[name], Last::Itself).is_ok_and(|found| found.is_directory()) =>
        {
            Err(Errno(libc::EISDIR))
        }
        other => other,
    }
}

/// Remove an empty directory from a directory.
///
/// # Errors
///
/// The system's error; `ENOTEMPTY` if it is not empty.
pub fn remove_directory(directory: BorrowedFd<'_>, name: &[u8]) -> Outcome<()> {
    ask("rmdir", Subject::At(directory, &[name]))?;
    with_path(&[name], |name| checked(calls::unlinkat(directory, name.into(), libc::AT_REMOVEDIR)))
}

/// List the names in a directory; `None` if one of them is not `wanted`.
///
/// # Errors
///
/// The system's error.
pub fn names(directory: BorrowedFd<'_>, wanted: impl Fn(&[u8]) -> bool) -> Outcome<Option<Vec<Vec<u8>>>> {
    ask("getdents", Subject::Open(directory))?;
    let mut found = Vec::new();
    for entry in answered(std::fs::read_dir(way_to(directory)))? {
        let name = answered(entry)?.file_name().into_vec();
        if !wanted(&name) {
            return Ok(None);
        }
        found.push(name);
    }
    Ok(Some(found))
}

/// Whether every file system takes the name of a file as it is.
pub fn is_plain(_name: &str) -> bool {
    true
}

/// Whether a path is too long for other programs.
pub fn is_too_long(_base: &[u8], _key: &str) -> bool {
    false
}

/// Whether a call failed because another process has the file open, so that it may succeed later.
pub fn is_busy(_error: Errno) -> bool {
    false
}
