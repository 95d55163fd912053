//! The system calls of the store as safe functions. Programs that this process starts do not inherit the files.

use std::ffi::CStr;
use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::calls;

pub use super::errno::{Errno, Outcome};
use super::faults::{Subject, ask, clock};
use crate::stores::{Generation, State};

/// How `open_beneath` walks a path: below the place where it starts, and through no link.
pub const BENEATH: u64 = libc::RESOLVE_BENEATH | THROUGH_NO_LINK;
/// How `open_beneath` walks a path from the root of the file system.
pub const THROUGH_NO_LINK: u64 = libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;

/// ext2 to ext4, XFS, Btrfs, F2FS and tmpfs.
const LOCAL_DISKS: [u32; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, TMPFS];
const TMPFS: u32 = 0x0102_1994;
/// Btrfs and XFS: files can share blocks there.
const SHARING_DISKS: [u32; 2] = [0x9123_683e, 0x5846_5342];
const PIECES: usize = 32;
const PATH_ON_STACK: usize = 512;

/// Facts about an open file, or a file at a path.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// The state of the value in the file.
    pub generation: Generation,
    /// The number of its names; 0 after it was removed or replaced.
    pub links: u64,
    /// How many bytes it holds.
    pub size: u64,
    /// When the system last saw a change of the file or of its facts, in nanoseconds; programs can't set it.
    pub changed: i64,
    device: u64,
    kind: u32,
}

impl Status {
    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == libc::S_IFREG
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == libc::S_IFDIR
    }

    /// Device and inode number, which no other file that exists has.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.generation.0[0])
    }

    /// A state that no other file or earlier content has, unless changes are too close in time for the system's clock;
    /// `None` if the file system keeps no fine times.
    pub fn state(&self) -> Option<State> {
        let [inode, modified, size] = self.generation.0;
        let fine = self.changed % 1000 != 0;
        fine.then_some(State([self.device, inode, modified, size, self.changed as u64, 0, 0]))
    }

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
            kind: found.st_mode & libc::S_IFMT,
        }
    }
}

/// The directory to open absolute paths from.
pub fn anywhere() -> BorrowedFd<'static> {
    // SAFETY: this is no descriptor that could be closed, but a number which stands for the current directory.
    unsafe { BorrowedFd::borrow_raw(libc::AT_FDCWD) }
}

/// Call `work` with the path that `pieces` make one after the other.
fn with_path<T>(pieces: &[&[u8]], work: impl FnOnce(&CStr) -> Outcome<T>) -> Outcome<T> {
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

fn checked(code: libc::c_int) -> Outcome<()> {
    if code == 0 { Ok(()) } else { Err(Errno::last()) }
}

fn answered<T>(answer: std::io::Result<T>) -> Outcome<T> {
    answer.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))
}

/// View a descriptor as a file of the standard library, which does not close it.
fn as_file(file: BorrowedFd<'_>) -> ManuallyDrop<File> {
    // SAFETY: the descriptor is open, and as nothing drops this file, it stays with its owner.
    ManuallyDrop::new(unsafe { File::from_raw_fd(file.as_raw_fd()) })
}

fn opened(fd: libc::c_long) -> Outcome<OwnedFd> {
    match RawFd::try_from(fd) {
        // SAFETY: the system has just opened it for the caller, and no other code has it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Errno::last()),
    }
}

#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// Open a path, given in pieces, that starts at `start` and is walked as `resolve` says.
///
/// # Errors
///
/// The system's error; also `ENOSYS` or `EPERM` if the system is too old, or a filter does not allow the call.
pub fn open_beneath(start: BorrowedFd<'_>, pieces: &[&[u8]], flags: i32, resolve: u64) -> Outcome<OwnedFd> {
    ask("openat2", Subject::At(start, pieces))?;
    let flags = (flags | libc::O_CLOEXEC | libc::O_LARGEFILE) as u64;
    // These two flags can't be combined.
    let flags = if flags & libc::O_PATH as u64 != 0 { flags & !(libc::O_LARGEFILE as u64) } else { flags };
    let how = OpenHow { flags, mode: 0, resolve };
    with_path(pieces, |path| {
        // SAFETY: the path ends with a NUL, and `how` is laid out as the call wants it and as long as said.
        let fd = unsafe {
            libc::syscall(libc::SYS_openat2, start.as_raw_fd(), path.as_ptr(), &raw const how, size_of::<OpenHow>())
        };
        opened(fd)
    })
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

/// Lock an open file or change its lock.
///
/// # Errors
///
/// The system's error.
pub fn lock(file: BorrowedFd<'_>, operation: i32) -> Outcome<()> {
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

/// Look at the file or directory at a path, and follow links unless `flags` is `AT_SYMLINK_NOFOLLOW`.
///
/// # Errors
///
/// The system's error.
pub fn status_at(start: BorrowedFd<'_>, pieces: &[&[u8]], flags: i32) -> Outcome<Status> {
    ask("fstatat", Subject::At(start, pieces))?;
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

/// Whether a name exists in a directory, even if it is a link that leads nowhere.
///
/// # Errors
///
/// The system's error.
pub fn stands_at(directory: BorrowedFd<'_>, name: &[u8]) -> Outcome<bool> {
    match status_at(directory, &[name], libc::AT_SYMLINK_NOFOLLOW) {
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
    if position.is_some_and(|position| libc::off_t::try_from(position).is_err()) {
        return Err(Errno(libc::EOVERFLOW));
    }
    loop {
        let answer = ask("read", Subject::Open(file)).and_then(|most| {
            let length = room.len().min(most);
            let (file, room) = (as_file(file), &mut room[..length]);
            answered(match position {
                None => (&*file).read(room),
                Some(position) => file.read_at(room, position),
            })
        });
        match answer {
            Err(Errno(libc::EINTR)) => {}
            other => return other,
        }
    }
}

/// Whether reading a byte at `position` would wait for a disk; false as well where the system can't tell.
pub fn would_wait(file: BorrowedFd<'_>, position: u64) -> bool {
    let mut byte = 0_u8;
    let piece = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    if let Err(error) = ask("preadv2", Subject::Open(file)) {
        return error == Errno(libc::EAGAIN);
    }
    let (low, high) = (position as libc::c_ulong, (position >> 32) as libc::c_ulong); // 64-bit systems ignore the latter
    // SAFETY: the call reads one piece, and writes into its byte only.
    let count = unsafe {
        libc::syscall(libc::SYS_preadv2, file.as_raw_fd(), &raw const piece, 1_i64, low, high, libc::RWF_NOWAIT)
    };
    count < 0 && Errno::last() == Errno(libc::EAGAIN)
}

/// Let the system begin to read a range of a file.
pub fn read_ahead(file: BorrowedFd<'_>, start: u64, length: u64) {
    let (Ok(start), Ok(length)) = (libc::off_t::try_from(start), libc::off_t::try_from(length)) else { return };
    if ask("fadvise", Subject::Open(file)).is_ok() {
        // It is asked for speed only, so its answer does not matter.
        calls::posix_fadvise(file, start, length, libc::POSIX_FADV_WILLNEED);
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

/// Allocate the blocks of a file in advance, if that is possible.
pub fn allocate(file: BorrowedFd<'_>, size: usize) {
    if let (Ok(size), Ok(_)) = (libc::off_t::try_from(size), ask("fallocate", Subject::Open(file))) {
        // It is asked for speed only, so its answer does not matter.
        calls::fallocate(file, 0, 0, size);
    }
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

/// Sync a file or the names in a directory to the disk.
///
/// # Errors
///
/// The system's error.
pub fn sync(file: BorrowedFd<'_>) -> Outcome<()> {
    loop {
        match ask("fsync", Subject::Open(file)).and_then(|_| answered(as_file(file).sync_all())) {
            Err(Errno(libc::EINTR)) => {}
            other => return other,
        }
    }
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

/// Give a file without a name a name in a directory, unless the name exists.
///
/// # Errors
///
/// The system's error: `EEXIST` if the name exists, `ENOENT` also if the process lacks a right or `/proc`.
pub fn link(file: BorrowedFd<'_>, directory: BorrowedFd<'_>, name: &[u8]) -> Outcome<()> {
    let try_link = |start: BorrowedFd<'_>, old: &CStr, flags: i32| {
        ask("linkat", Subject::At(directory, &[name]))?;
        with_path(&[name], |name| checked(calls::linkat(start, old.into(), directory, name.into(), flags)))
    };
    match try_link(file, c"", libc::AT_EMPTY_PATH) {
        Err(Errno(libc::ENOENT)) => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            with_path(&[path.as_bytes()], |path| try_link(anywhere(), path, libc::AT_SYMLINK_FOLLOW))
        }
        other => other,
    }
}

/// Whether a directory is on a local file system, and if so, whether that is memory only.
pub fn local_disk(directory: BorrowedFd<'_>) -> (bool, bool) {
    let kind = file_system(directory);
    (kind.is_some_and(|kind| LOCAL_DISKS.contains(&kind)), kind == Some(TMPFS))
}

/// Whether a file is on a local file system, where `close` never reports that an earlier write has failed.
pub fn is_local_disk(file: BorrowedFd<'_>) -> bool {
    file_system(file).is_some_and(|kind| LOCAL_DISKS.contains(&kind))
}

/// Whether copies of a file may share its blocks.
pub fn may_share(file: BorrowedFd<'_>) -> bool {
    file_system(file).is_some_and(|kind| SHARING_DISKS.contains(&kind))
}

/// Return the kind of the file system of a file.
fn file_system(file: BorrowedFd<'_>) -> Option<u32> {
    ask("fstatfs", Subject::Open(file)).ok()?;
    let mut found = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: there is room for what the call writes, and it is read only if the call has filled it.
    unsafe {
        checked(libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr())).ok()?;
        Some(found.assume_init_ref().f_type as u32) // the type depends on the architecture
    }
}

/// Make an empty file a copy of another one, which shares its blocks.
///
/// # Errors
///
/// The system's error, where the file system can't do that.
pub fn share(file: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Outcome<()> {
    ask("ficlone", Subject::Open(file))?;
    // SAFETY: the call touches no memory.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::FICLONE, other.as_raw_fd()) })
}

/// Write a piece of a file at `start`.
///
/// # Errors
///
/// The system's error; some bytes may have been written.
pub fn write_at(file: BorrowedFd<'_>, mut start: u64, mut piece: &[u8]) -> Outcome<()> {
    while !piece.is_empty() {
        libc::off_t::try_from(start).map_err(|_| Errno(libc::EFBIG))?;
        let answer = ask("write", Subject::Open(file))
            .and_then(|most| answered(as_file(file).write_at(&piece[..piece.len().min(most)], start)));
        match answer {
            Ok(0) => return Err(Errno(libc::EIO)),
            Ok(count) => (start, piece) = (start + count as u64, &piece[count..]),
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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

/// Remove a file from a directory; with `AT_REMOVEDIR` in `flags`, an empty directory.
///
/// # Errors
///
/// The system's error.
pub fn unlink(directory: BorrowedFd<'_>, name: &[u8], flags: i32) -> Outcome<()> {
    ask(if flags & libc::AT_REMOVEDIR == 0 { "unlinkat" } else { "rmdir" }, Subject::At(directory, &[name]))?;
    with_path(&[name], |name| checked(calls::unlinkat(directory, name.into(), flags)))
}

/// List the names in a directory; `None` if one of them is not `wanted`.
///
/// # Errors
///
/// The system's error.
pub fn names(directory: BorrowedFd<'_>, wanted: impl Fn(&[u8]) -> bool) -> Outcome<Option<Vec<Vec<u8>>>> {
    ask("getdents", Subject::Open(directory))?;
    let mut found = Vec::new();
    for entry in answered(std::fs::read_dir(format!("/proc/self/fd/{}", directory.as_raw_fd())))? {
        let name = answered(entry)?.file_name().into_vec();
        if !wanted(&name) {
            return Ok(None);
        }
        found.push(name);
    }
    Ok(Some(found))
}

/// Return 64 random bits.
///
/// # Errors
///
/// The system's error.
pub fn random() -> Outcome<u64> {
    ask("getrandom", Subject::Nothing)?;
    let mut bits = [0_u8; 8];
    // SAFETY: the call writes into `bits` only.
    let count = unsafe { libc::getrandom(bits.as_mut_ptr().cast(), bits.len(), 0) };
    if count == 8 { Ok(u64::from_ne_bytes(bits)) } else { Err(Errno::last()) }
}
