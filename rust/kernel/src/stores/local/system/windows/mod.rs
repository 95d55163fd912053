//! The system calls of Windows: those of ntdll, which open a file by its name in an open directory.
//!
//! Other processes may read, change, rename and delete the files that this module has open. Renames and deletions have POSIX
//! semantics on Windows 10 since 2017. Elsewhere an open file can't be replaced, and `unlink` renames a file before it
//! deletes it.

mod native;

use std::collections::hash_map::RandomState;
use std::ffi::c_void;
use std::fs::File;
use std::hash::BuildHasher;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::windows::fs::FileExt;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use native::*;

use super::super::errno::{Errno, Outcome};
use super::super::faults::{Subject, ask};
use super::super::handles::{AsFd, BorrowedFd, Kind, Last, OwnedFd, Status, answered};
use super::super::names::{HIDDEN, temporary_name};
use crate::stores::Generation;

/// How a file is opened.
#[derive(Clone, Copy, Debug)]
pub struct Flags {
    access: u32,
    disposition: u32,
    options: u32,
}

const fn flags(access: u32, disposition: u32, options: u32) -> Flags {
    Flags { access: access | READ_ATTRIBUTES | SYNCHRONIZE, disposition, options: options | SYNCHRONOUS }
}

/// Opens a file for reading, but not where a link leads.
pub const READ: Flags = flags(READ_DATA, OPEN, 0);
/// Opens a directory, which can be locked and listed then.
pub const DIRECTORY: Flags = flags(READ_DATA | TRAVERSE, OPEN, A_DIRECTORY);
/// Opens a directory, to find what is below it.
pub const PLACE: Flags = flags(TRAVERSE, OPEN, A_DIRECTORY);
/// Makes a new file, and opens it for writing.
pub const NEW: Flags = flags(READ_DATA | WRITE_DATA | WRITE_ATTRIBUTES, CREATE, NO_DIRECTORY);
/// Opens a file for changes.
pub const CHANGE: Flags = flags(READ_DATA | WRITE_DATA, OPEN, NO_DIRECTORY | ITSELF);
const LOOK: Flags = flags(0, OPEN, 0);
const STAMP: Flags = flags(WRITE_ATTRIBUTES, OPEN, ITSELF);
const MOVE: Flags = flags(DELETE, OPEN, ITSELF);
const LOCK_FILE: Flags = flags(READ_DATA | WRITE_DATA | DELETE, OPEN_OR_CREATE, NO_DIRECTORY | ITSELF);
const NEW_DIRECTORY: Flags = flags(TRAVERSE, CREATE, A_DIRECTORY);

/// Errors of systems that can't lock a directory.
pub const NO_LOCKS: [i32; 3] = [libc::EOPNOTSUPP, libc::ENOSYS, libc::EINVAL];
/// Whether the file of a value can be locked: Python's store locks another one, and only saves work by it.
pub const LOCKS_VALUES: bool = false;
/// The byte that is locked, beyond the end of any value, since other programs can't read locked bytes.
const FAR: u64 = 1 << 43;
/// How long a file is waited for that somebody has open; a longer wait is left to the Python store.
const PATIENCE: Duration = Duration::from_millis(400);
const PAUSE: Duration = Duration::from_micros(300);
/// The most characters of a path, unless a setting of Windows allows more; and those of a temporary name.
const LONGEST_PATH: usize = 259;
const TEMPORARY: usize = 40;
/// Between 1601, where the system's times begin, and 1970, in units of 100 ns.
const UNIX_EPOCH: i64 = 116_444_736_000_000_000;

/// An error of the system below, as a number of the C library.
fn errno_of(status: i32) -> Errno {
    Errno(match status as u32 {
        // no such name or path; deleted, and still open somewhere
        0xC000_000F | 0xC000_0034 | 0xC000_003A | 0xC000_0056 | 0xC000_0123 => libc::ENOENT,
        0xC000_0022 | 0xC000_0061 | 0xC000_0121 => libc::EACCES,
        0xC000_0043 => libc::EBUSY, // somebody has it open and does not share it
        0xC000_0054 | 0xC000_0055 => libc::EWOULDBLOCK,
        0xC000_0035 => libc::EEXIST,
        0xC000_0101 => libc::ENOTEMPTY,
        0xC000_0103 => libc::ENOTDIR,
        0xC000_00BA => libc::EISDIR,
        0xC000_0280 | 0xC000_050B => libc::ELOOP,
        0xC000_000D | 0xC000_0033 | 0xC000_0039 | 0xC000_003B => libc::EINVAL,
        0xC000_0106 => libc::ENAMETOOLONG,
        0xC000_0002 | 0xC000_0003 | 0xC000_0010 | 0xC000_00BB => libc::ENOTSUP,
        0xC000_007F | 0xC000_0099 => libc::ENOSPC,
        0xC000_00A2 => libc::EROFS,
        0xC000_009A | 0xC000_011F => libc::EMFILE,
        _ => libc::EIO,
    })
}

fn done(status: i32) -> Outcome<()> {
    if status >= 0 { Ok(()) } else { Err(errno_of(status)) }
}

fn is_not_offered(error: Errno) -> bool {
    matches!(error.0, libc::ENOTSUP | libc::EINVAL)
}

/// What stands for the root of the file system.
pub fn anywhere() -> BorrowedFd<'static> {
    // SAFETY: this is no handle that could be closed, but stands for none.
    unsafe { BorrowedHandle::borrow_raw(null_mut()) }
}

/// The path that `pieces` make, as the system below has it.
fn text_of(start: BorrowedFd<'_>, pieces: &[&[u8]]) -> Outcome<Vec<u16>> {
    let path = String::from_utf8(pieces.concat()).map_err(|_| Errno(libc::EINVAL))?.replace('/', "\\");
    let mut text = String::new();
    if start.as_raw_handle().is_null() {
        let path = path.strip_prefix(r"\\?\").unwrap_or(&path);
        let (root, path) = match path.strip_prefix(r"\\") {
            Some(path) => (r"\??\UNC\", path),
            None => (r"\??\", path),
        };
        text.extend([root, path]);
        while text.ends_with('\\') && !text.ends_with(":\\") {
            text.pop();
        }
    } else if path != "." {
        text = path;
    }
    let text: Vec<u16> = text.encode_utf16().collect();
    if text.contains(&0) { Err(Errno(libc::EINVAL)) } else { Ok(text) }
}

/// Open a file or directory, or make it.
fn opened(start: BorrowedFd<'_>, pieces: &[&[u8]], flags: Flags, attributes: u32) -> Outcome<OwnedFd> {
    let text = text_of(start, pieces)?;
    let length = u16::try_from(2 * text.len()).map_err(|_| Errno(libc::ENAMETOOLONG))?;
    let name = Text { length, room: length, start: text.as_ptr() };
    let object = Object {
        length: size_of::<Object>() as u32,
        root: start.as_raw_handle(),
        name: &raw const name,
        attributes: IGNORE_CASE | attributes,
        security: null(),
        quality: null(),
    };
    let Flags { access, disposition, options } = flags;
    let (mut made, mut answer) = (null_mut(), Answer::default());
    // SAFETY: the addresses are those of structures as the call wants them, and of the text, which live until it returns.
    let status = unsafe {
        NtCreateFile(
            &raw mut made,
            access,
            &raw const object,
            &raw mut answer,
            null(),
            NORMAL,
            SHARED,
            disposition,
            options,
            null(),
            0,
        )
    };
    done(status)?;
    // SAFETY: the system has just opened it for the caller, and no other code has it.
    Ok(unsafe { OwnedHandle::from_raw_handle(made) })
}

/// As `opened`; where a file is in the place of a directory, that is the error.
fn found(start: BorrowedFd<'_>, pieces: &[&[u8]], flags: Flags, attributes: u32) -> Outcome<OwnedFd> {
    let answer = opened(start, pieces, flags, attributes);
    if !matches!(answer, Err(Errno(libc::ENOENT))) {
        return answer;
    }
    let path = pieces.concat();
    let mut above = path.as_slice();
    while let Some(end) = above.iter().rposition(|byte| matches!(byte, b'/' | b'\\')).filter(|end| *end > 0) {
        above = &above[..end];
        match opened(start, &[above], LOOK, attributes).and_then(|file| look(file.as_fd())) {
            Err(Errno(libc::ENOENT)) => {}
            Ok(status) if !status.is_directory() => return Err(Errno(libc::ENOTDIR)),
            _ => break,
        }
    }
    answer
}

/// Open a path that is below `start`, and is reached through no link.
///
/// # Errors
///
/// The system's error; `ELOOP` if there may be links, since those above `anywhere` can't be told from drives.
pub fn open_beneath(start: BorrowedFd<'_>, pieces: &[&[u8]], flags: Flags) -> Outcome<OwnedFd> {
    ask("openat2", Subject::At(start, pieces))?;
    if start.as_raw_handle().is_null() {
        return Err(Errno(libc::ELOOP));
    }
    found(start, pieces, flags, THROUGH_NO_LINK)
}

/// Open the file `pieces` in a directory, or make it; links on the way are followed.
///
/// # Errors
///
/// The system's error.
pub fn open_at(start: BorrowedFd<'_>, pieces: &[&[u8]], flags: Flags) -> Outcome<OwnedFd> {
    ask("openat", Subject::At(start, pieces))?;
    found(start, pieces, flags, 0)
}

/// Close a file.
///
/// # Errors
///
/// None.
pub fn close(file: OwnedFd) -> Outcome<()> {
    ask("close", Subject::Open(file.as_fd())).map(|_| ())
}

/// Duplicate the handle of an open file; the copy shares its lock.
///
/// # Errors
///
/// The system's error.
pub fn duplicate(file: BorrowedFd<'_>) -> Outcome<OwnedFd> {
    ask("dup", Subject::Open(file))?;
    answered(file.try_clone_to_owned())
}

/// View a handle as a file of the standard library, which does not close it.
pub(super) fn as_file(file: BorrowedFd<'_>) -> ManuallyDrop<File> {
    // SAFETY: the handle is open, and as nothing drops this file, it stays with its owner.
    ManuallyDrop::new(unsafe { File::from_raw_handle(file.as_raw_handle()) })
}

pub(super) fn read_from(file: &File, room: &mut [u8], start: u64) -> std::io::Result<usize> {
    file.seek_read(room, start)
}

pub(super) fn write_from(file: &File, piece: &[u8], start: u64) -> std::io::Result<usize> {
    file.seek_write(piece, start)
}

pub(super) fn sync_all(file: BorrowedFd<'_>) -> Outcome<()> {
    match answered(as_file(file).sync_all()) {
        Err(Errno(libc::EACCES)) => Ok(()), // a directory, which Windows offers no way to sync
        other => other,
    }
}

/// Lock an open file.
///
/// # Errors
///
/// `EWOULDBLOCK` if it is locked elsewhere; else the system's error.
pub fn lock(file: BorrowedFd<'_>) -> Outcome<()> {
    ask("flock", Subject::Open(file))?;
    let mut start = Start::at(FAR);
    // SAFETY: the call ends at once, and reads and writes only the structure.
    if unsafe { LockFileEx(file, LOCKS_ALONE | FAILS_AT_ONCE, 0, 1, 0, &raw mut start) } != 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(if error.raw_os_error() == Some(IS_LOCKED) { Errno(libc::EWOULDBLOCK) } else { Errno::of(&error) })
}

/// Unlock a file.
pub fn unlock(file: BorrowedFd<'_>) {
    let mut start = Start::at(FAR);
    // SAFETY: as above.
    unsafe { UnlockFileEx(file, 0, 1, 0, &raw mut start) };
}

/// The lock of a directory: a file in it, since the directory itself can't be locked.
pub struct DirectoryLock<'d> {
    directory: BorrowedFd<'d>,
    file: OwnedFd,
}

/// Lock a directory, so that other writers leave its names alone; errors are as for `lock`.
pub fn lock_directory(directory: BorrowedFd<'_>) -> Outcome<DirectoryLock<'_>> {
    let name = format!("{HIDDEN}lock");
    let file = match opened(directory, &[name.as_bytes()], LOCK_FILE, 0) {
        // its holder removes it at this moment, or has it open in a way that is not shared
        Err(Errno(libc::EACCES | libc::EBUSY)) => return Err(Errno(libc::EWOULDBLOCK)),
        other => other?,
    };
    match lock(file.as_fd()) {
        Err(error) if error != Errno(libc::EWOULDBLOCK) => {
            let _ = removed(directory, file.as_fd());
            return Err(error);
        }
        answer => answer?,
    }
    // whoever had the lock has removed the file
    let is_there = look(file.as_fd()).and_then(|mine| {
        let there = look_at(directory, &[name.as_bytes()], ITSELF)?;
        Ok(mine.links > 0 && there.identity() == mine.identity())
    });
    if is_there == Ok(true) { Ok(DirectoryLock { directory, file }) } else { Err(Errno(libc::EWOULDBLOCK)) }
}

/// Unlock a directory. The file is removed first, since another writer may take its lock at once.
pub fn unlock_directory(lock: DirectoryLock<'_>) {
    let _ = removed(lock.directory, lock.file.as_fd());
    unlock(lock.file.as_fd());
}

fn query<T: Copy>(file: BorrowedFd<'_>, kind: i32, mut found: T) -> Outcome<T> {
    let mut answer = Answer::default();
    // SAFETY: the call writes at most as many bytes as `found` has, all of whose values are right.
    done(unsafe {
        NtQueryInformationFile(file, &raw mut answer, (&raw mut found).cast(), size_of::<T>() as u32, kind)
    })?;
    Ok(found)
}

fn set<T>(file: BorrowedFd<'_>, kind: i32, wanted: &T) -> Outcome<()> {
    set_bytes(file, kind, std::ptr::from_ref(wanted).cast(), size_of::<T>())
}

fn set_bytes(file: BorrowedFd<'_>, kind: i32, wanted: *const c_void, length: usize) -> Outcome<()> {
    let mut answer = Answer::default();
    // SAFETY: both callers pass the address of as many bytes as they say; the call reads these, and writes its answer.
    done(unsafe { NtSetInformationFile(file, &raw mut answer, wanted, length as u32, kind) })
}

fn look(file: BorrowedFd<'_>) -> Outcome<Status> {
    let basic = query(file, BASIC, Basic::default())?;
    let standard = query(file, STANDARD, Standard::default())?;
    let identity = query(file, IDENTITY, Identity::default())?;
    if identity.high != 0 {
        return Err(Errno(libc::EOVERFLOW)); // of another file system than NTFS
    }
    let time = |time: i64| time.wrapping_sub(UNIX_EPOCH).wrapping_mul(100);
    let size = standard.size as u64;
    Ok(Status {
        changed: time(basic.changed),
        device: identity.volume,
        generation: Generation([identity.low, time(basic.written) as u64, size]),
        links: if standard.is_deleted == 0 { u64::from(standard.links) } else { 0 },
        size,
        kind: match basic.attributes {
            attributes if attributes & (IS_LINK | IS_DEVICE) != 0 => Kind::Other,
            attributes if attributes & IS_DIRECTORY != 0 => Kind::Directory,
            _ => Kind::File,
        },
    })
}

fn look_at(start: BorrowedFd<'_>, pieces: &[&[u8]], options: u32) -> Outcome<Status> {
    let flags = Flags { options: LOOK.options | options, ..LOOK };
    look(found(start, pieces, flags, 0)?.as_fd())
}

/// Look at an open file.
///
/// # Errors
///
/// The system's error.
pub fn status(file: BorrowedFd<'_>) -> Outcome<Status> {
    ask("fstat", Subject::Open(file))?;
    look(file)
}

/// Look at the file or directory at a path.
///
/// # Errors
///
/// The system's error.
pub fn status_at(start: BorrowedFd<'_>, pieces: &[&[u8]], last: Last) -> Outcome<Status> {
    ask("fstatat", Subject::At(start, pieces))?;
    look_at(start, pieces, if last == Last::Itself { ITSELF } else { 0 })
}

/// Set the time of the last change of an open file.
///
/// # Errors
///
/// The system's error.
pub fn stamp(file: BorrowedFd<'_>, time: i64) -> Outcome<()> {
    ask("futimens", Subject::Open(file))?;
    let time = time.div_euclid(100).wrapping_add(UNIX_EPOCH);
    set(file, BASIC, &Basic { read: time, written: time, ..Basic::default() }) // what is 0 stays as it is
}

/// Set the time of the last change of a file in a directory.
///
/// # Errors
///
/// The system's error.
pub fn stamp_at(directory: BorrowedFd<'_>, name: &[u8], time: i64) -> Outcome<()> {
    stamp(opened(directory, &[name], STAMP, 0)?.as_fd(), time)
}

/// Sleep for a while.
///
/// # Errors
///
/// None: no signal ends it.
pub fn pause(length: Duration) -> Outcome<()> {
    std::thread::sleep(length);
    Ok(())
}

/// Whether names change at once, even of files that somebody has open: 0 if that is not known yet, 1 if so, 2 if not.
static CHANGES_AT_ONCE: AtomicU8 = AtomicU8::new(0);

/// Whether a file can be replaced while somebody has it open.
pub fn replaces_open_files(file: BorrowedFd<'_>) -> bool {
    if CHANGES_AT_ONCE.load(Ordering::Relaxed) == 0 {
        // this changes nothing: the file is not to be deleted
        let answer = opened(file, &[], MOVE, 0).and_then(|file| set(file.as_fd(), DELETED_AT_ONCE, &0_u32));
        let _ = noted(answer);
    }
    CHANGES_AT_ONCE.load(Ordering::Relaxed) != 2
}

/// Note whether names change at once.
fn noted(answer: Outcome<()>) -> Outcome<()> {
    let state = match answer {
        Ok(()) => 1,
        Err(error) if is_not_offered(error) => 2,
        _ => return answer,
    };
    CHANGES_AT_ONCE.store(state, Ordering::Relaxed);
    answer
}

/// Change a name in the way that is offered: at once, or by `other`.
fn changed(at_once: impl FnOnce() -> Outcome<()>, other: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
    if CHANGES_AT_ONCE.load(Ordering::Relaxed) != 2 {
        match noted(at_once()) {
            Err(error) if is_not_offered(error) => {}
            answer => return answer,
        }
    }
    other()
}

/// Give an open file another name in a directory.
fn renamed(directory: BorrowedFd<'_>, file: BorrowedFd<'_>, name: &[u8], kind: i32, flags: u32) -> Outcome<()> {
    let text = text_of(directory, &[name])?;
    let begin = Renamed { flags, root: directory.as_raw_handle(), length: 2 * text.len() as u32 };
    let start = std::mem::offset_of!(Renamed, length) + size_of::<u32>();
    let room = (start + 2 * text.len()).max(size_of::<Renamed>());
    let mut wanted = vec![0_u64; room.div_ceil(8)];
    // SAFETY: there is room for the structure, whose alignment is that of the numbers, and for the text that follows.
    unsafe {
        wanted.as_mut_ptr().cast::<Renamed>().write(begin);
        std::ptr::copy_nonoverlapping(
            text.as_ptr().cast::<u8>(),
            wanted.as_mut_ptr().cast::<u8>().add(start),
            2 * text.len(),
        );
    }
    set_bytes(file, kind, wanted.as_ptr().cast(), room)
}

/// Delete an open file or directory; its name is free at once.
fn removed(directory: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Outcome<()> {
    changed(
        || set(file, DELETED_AT_ONCE, &3_u32),
        || {
            let name = temporary_name(random)?;
            renamed(directory, file, &name, RENAMED, 0)?;
            set(file, DELETED, &1_u8)
        },
    )
}

/// Try again and again for a while, if somebody has a file open.
fn patiently(mut attempt: impl FnMut() -> Outcome<()>) -> Outcome<()> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(Errno(libc::EACCES | libc::EBUSY)) if begun.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            answer => return answer,
        }
    }
}

/// Rename a file in a directory, and replace a file of the new name.
///
/// # Errors
///
/// The system's error; `EBUSY` if somebody has the old file open for long.
pub fn rename(directory: BorrowedFd<'_>, old: &[u8], new: &[u8]) -> Outcome<()> {
    ask("renameat", Subject::At(directory, &[new]))?;
    let file = opened(directory, &[old], MOVE, 0)?;
    let replaced = || {
        changed(
            || renamed(directory, file.as_fd(), new, RENAMED_AT_ONCE, 3),
            || renamed(directory, file.as_fd(), new, RENAMED, 1),
        )
    };
    match replaced() {
        Err(Errno(libc::EACCES | libc::EEXIST))
            if look_at(directory, &[new], ITSELF).is_ok_and(|found| found.is_directory()) =>
        {
            Err(Errno(libc::EISDIR))
        }
        Err(Errno(libc::EACCES | libc::EBUSY)) => match patiently(replaced) {
            Err(Errno(libc::EACCES)) => Err(Errno(libc::EBUSY)),
            answer => answer,
        },
        answer => answer,
    }
}

/// Make a directory in a directory.
///
/// # Errors
///
/// The system's error; `EEXIST` if the name exists.
pub fn make_directory(directory: BorrowedFd<'_>, name: &[u8]) -> Outcome<()> {
    ask("mkdirat", Subject::At(directory, &[name]))?;
    opened(directory, &[name], NEW_DIRECTORY, 0).map(|_| ())
}

/// Remove a file or a link from a directory.
///
/// # Errors
///
/// The system's error; `EBUSY` if somebody has it open for long, and does not share it.
pub fn unlink(directory: BorrowedFd<'_>, name: &[u8]) -> Outcome<()> {
    ask("unlinkat", Subject::At(directory, &[name]))?;
    patiently(|| {
        let file = opened(directory, &[name], MOVE, 0)?;
        if look(file.as_fd())?.is_directory() {
            return Err(Errno(libc::EISDIR));
        }
        removed(directory, file.as_fd())
    })
}

/// Remove an empty directory from a directory.
///
/// # Errors
///
/// The system's error; `ENOTEMPTY` if it is not empty.
pub fn remove_directory(directory: BorrowedFd<'_>, name: &[u8]) -> Outcome<()> {
    ask("rmdir", Subject::At(directory, &[name]))?;
    let file = opened(directory, &[name], Flags { options: MOVE.options | A_DIRECTORY, ..MOVE }, 0)?;
    changed(|| set(file.as_fd(), DELETED_AT_ONCE, &3_u32), || set(file.as_fd(), DELETED, &1_u8))
}

/// List the names in a directory; `None` if one of them is not `wanted`.
///
/// # Errors
///
/// The system's error.
pub fn names(directory: BorrowedFd<'_>, wanted: impl Fn(&[u8]) -> bool) -> Outcome<Option<Vec<Vec<u8>>>> {
    ask("getdents", Subject::Open(directory))?;
    listed(directory, None, wanted)
}

/// A name in a directory as it is stored; `None` if nothing is there.
///
/// # Errors
///
/// The system's error.
pub fn spelling(directory: BorrowedFd<'_>, name: &[u8]) -> Outcome<Option<Vec<u8>>> {
    ask("getdents", Subject::At(directory, &[name]))?;
    let again = opened(directory, &[], DIRECTORY, 0)?; // a handle keeps to the first pattern
    let found = listed(again.as_fd(), Some(&text_of(directory, &[name])?), |_| true)?;
    Ok(found.and_then(|mut names| names.pop()))
}

/// List the names in a directory, or those that match a pattern, from the first one on.
fn listed(
    directory: BorrowedFd<'_>,
    pattern: Option<&[u16]>,
    wanted: impl Fn(&[u8]) -> bool,
) -> Outcome<Option<Vec<Vec<u8>>>> {
    let pattern = pattern.map(|text| {
        let length = (2 * text.len()) as u16;
        Text { length, room: length, start: text.as_ptr() }
    });
    let mut found = Vec::new();
    let mut room = [0_u32; 4096];
    let mut restarts = 1;
    loop {
        let mut answer = Answer::default();
        // SAFETY: the call writes into `room`, whose length it is told, and its answer; it reads the pattern.
        let status = unsafe {
            NtQueryDirectoryFile(
                directory,
                null_mut(),
                null(),
                null(),
                &raw mut answer,
                room.as_mut_ptr().cast(),
                size_of_val(&room) as u32,
                NAMES,
                0,
                pattern.as_ref().map_or(null(), std::ptr::from_ref),
                restarts,
            )
        };
        if status as u32 == 0x8000_0006 || status as u32 == 0xC000_000F {
            return Ok(Some(found)); // no more
        }
        done(status)?;
        restarts = 0;
        let mut rest = &room[..answer.information.div_ceil(4).min(room.len())];
        while let [next, _, length, after @ ..] = rest {
            let units = after.iter().flat_map(|pair| [*pair as u16, (*pair >> 16) as u16]).take(*length as usize / 2);
            let name = String::from_utf16_lossy(&units.collect::<Vec<_>>()).into_bytes();
            if name != b"." && name != b".." {
                if !wanted(&name) {
                    return Ok(None);
                }
                found.push(name);
            }
            rest = if *next == 0 { &[] } else { rest.get(*next as usize / 4..).unwrap_or_default() };
        }
    }
}

/// Whether a directory is on a local file system that keeps fine times, and if so, whether that is memory only.
pub fn local_disk(directory: BorrowedFd<'_>) -> (bool, bool) {
    (is_ntfs(directory).unwrap_or(false), false)
}

fn is_ntfs(file: BorrowedFd<'_>) -> Outcome<bool> {
    ask("fstatfs", Subject::Open(file))?;
    let mut answer = Answer::default();
    let (mut device, mut system) = (Device::default(), MaybeUninit::<FileSystem>::zeroed());
    // SAFETY: the calls write at most as many bytes as the structures have, all of whose values are right.
    let system = unsafe {
        let length = size_of::<Device>() as u32;
        done(NtQueryVolumeInformationFile(file, &raw mut answer, (&raw mut device).cast(), length, DEVICE))?;
        let length = size_of::<FileSystem>() as u32;
        done(NtQueryVolumeInformationFile(file, &raw mut answer, system.as_mut_ptr().cast(), length, FILE_SYSTEM))?;
        system.assume_init()
    };
    let name = system.name.get(..system.length as usize / 2).unwrap_or_default();
    Ok(device.characteristics & IS_REMOTE == 0 && String::from_utf16_lossy(name) == "NTFS")
}

/// Whether the system notes each change of a file at once: not while a program that changes it has it open.
pub fn is_local_disk(_file: BorrowedFd<'_>) -> bool {
    false
}

/// Return 64 random bits.
///
/// # Errors
///
/// None.
pub fn random() -> Outcome<u64> {
    ask("getrandom", Subject::Nothing)?;
    // the keys of a hash are the system's random numbers
    Ok(BuildHasher::hash_one(&RandomState::new(), 0))
}

/// Whether Windows takes the name of a file as it is: it is no device, and has nothing at its end that Windows drops.
pub fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let stem = name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    let is_device = match stem.as_str() {
        "con" | "prn" | "aux" | "nul" => true,
        other => other.len() == 4 && (other.starts_with("com") || other.starts_with("lpt")),
    };
    name.bytes().all(plain) && !name.ends_with('.') && !is_device
}

/// Whether a path is too long for programs that do not ask for long ones; the Python store knows what is allowed.
pub fn is_too_long(base: &[u8], key: &str) -> bool {
    let parent = key.rfind('/').map_or(0, |end| end + 1);
    base.len() + parent + (key.len() - parent).max(TEMPORARY) > LONGEST_PATH
}

/// Whether a call failed because another process has the file open, so that it may succeed later.
pub fn is_busy(error: Errno) -> bool {
    error.0 == libc::EBUSY
}
