//! What only Linux has.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use super::super::calls;
use super::super::errno::{Errno, Outcome};
use super::super::faults::{Subject, ask};
use super::super::handles::{BorrowedFd, Last, OwnedFd, answered};
use super::unix::{Flags, anywhere, as_file, checked, names, open_at, opened, status_at, with_path};

/// Opens a directory, to find what is below it.
pub const PLACE: Flags = libc::O_PATH | libc::O_DIRECTORY;

/// How paths are walked from the root of the file system.
const THROUGH_NO_LINK: u64 = libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;
/// How they are walked from an open directory.
const BENEATH: u64 = libc::RESOLVE_BENEATH | THROUGH_NO_LINK;

/// ext2 to ext4, XFS, Btrfs, F2FS and tmpfs.
const LOCAL_DISKS: [u32; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, TMPFS];
const TMPFS: u32 = 0x0102_1994;
/// Btrfs and XFS: files can share blocks there.
const SHARING_DISKS: [u32; 2] = [0x9123_683e, 0x5846_5342];

#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// Open a path that is below `start`, unless that is `anywhere`, and is reached through no link.
///
/// # Errors
///
/// The system's error; also `ENOSYS` or `EPERM` if the system is too old, or a filter does not allow the call.
pub fn open_beneath(start: BorrowedFd<'_>, pieces: &[&[u8]], flags: Flags) -> Outcome<OwnedFd> {
    ask("openat2", Subject::At(start, pieces))?;
    let resolve = if start.as_raw_fd() == libc::AT_FDCWD { THROUGH_NO_LINK } else { BENEATH };
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

/// Allocate the blocks of a file in advance, if that is possible.
pub fn allocate(file: BorrowedFd<'_>, size: usize) {
    if let (Ok(size), Ok(_)) = (libc::off_t::try_from(size), ask("fallocate", Subject::Open(file))) {
        // It is asked for speed only, so its answer does not matter.
        calls::fallocate(file, 0, 0, size);
    }
}

/// Make a file without a name on the file system of a directory, and open it for writing.
///
/// # Errors
///
/// The system's error, also if the file system has no such files.
pub fn open_unnamed(directory: BorrowedFd<'_>) -> Outcome<OwnedFd> {
    open_at(directory, &[b"."], libc::O_TMPFILE | libc::O_WRONLY)
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

/// A name in a directory as it is stored; `None` if nothing is there.
///
/// # Errors
///
/// The system's error.
pub fn spelling(directory: BorrowedFd<'_>, name: &[u8]) -> Outcome<Option<Vec<u8>>> {
    match status_at(directory, &[name], Last::Itself) {
        Err(Errno(libc::ENOENT)) => return Ok(None),
        other => other?,
    };
    let other = names(directory, |each| each != name)?;
    Ok(Some(if other.is_none() { name.to_vec() } else { Vec::new() }))
}

pub(super) fn sync_all(file: BorrowedFd<'_>) -> Outcome<()> {
    answered(as_file(file).sync_all())
}
