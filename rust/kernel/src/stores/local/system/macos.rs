//! What only macOS has.

use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use super::super::errno::{Errno, Outcome};
use super::super::faults::{Subject, ask};
use super::super::handles::{BorrowedFd, OwnedFd, answered};
use super::unix::{Flags, as_file, checked, open_at, with_path};

/// Opens a directory, to find what is below it.
pub const PLACE: Flags = libc::O_RDONLY | libc::O_DIRECTORY;

/// Where closing a file never reports that an earlier write has failed, and times are fine.
const LOCAL_DISK: &[u8] = b"apfs\0";
const LONGEST_PATH: usize = 1024;
/// A file system, or the kind of a file, has no such call.
const NOT_OFFERED: [i32; 4] = [libc::ENOSYS, libc::EINVAL, libc::ENOTSUP, libc::ENOTTY];

/// Open a path that is below `start`, unless that is `anywhere`, and is reached through no link.
///
/// # Errors
///
/// The system's error.
pub fn open_beneath(start: BorrowedFd<'_>, pieces: &[&[u8]], flags: Flags) -> Outcome<OwnedFd> {
    open_at(start, pieces, (flags & !libc::O_NOFOLLOW) | libc::O_NOFOLLOW_ANY)
}

/// Whether a directory is on a local file system, and if so, whether that is memory only.
pub fn local_disk(directory: BorrowedFd<'_>) -> (bool, bool) {
    (is_local_disk(directory), false)
}

/// Whether a file is on a local file system, where `close` never reports that an earlier write has failed.
pub fn is_local_disk(file: BorrowedFd<'_>) -> bool {
    let kind = file_system(file);
    kind.is_some_and(|kind| kind.iter().zip(LOCAL_DISK).all(|(one, other)| *one as u8 == *other))
}

/// Return the kind of the file system of a file, if it is on this machine.
fn file_system(file: BorrowedFd<'_>) -> Option<[libc::c_char; 16]> {
    ask("fstatfs", Subject::Open(file)).ok()?;
    let mut found = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: there is room for what the call writes, and it is read only if the call has filled it.
    let found = unsafe {
        checked(libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr())).ok()?;
        found.assume_init_ref()
    };
    (found.f_flags & libc::MNT_LOCAL as u32 != 0).then_some(found.f_fstypename)
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
    checked(unsafe { libc::getentropy(bits.as_mut_ptr().cast(), bits.len()) })?;
    Ok(u64::from_ne_bytes(bits))
}

/// A name in a directory as it is stored; `None` if nothing is there.
///
/// # Errors
///
/// The system's error.
pub fn spelling(directory: BorrowedFd<'_>, name: &[u8]) -> Outcome<Option<Vec<u8>>> {
    ask("getattrlist", Subject::At(directory, &[name]))?;
    let mut wanted = libc::attrlist {
        bitmapcount: libc::ATTR_BIT_MAP_COUNT,
        reserved: 0,
        commonattr: libc::ATTR_CMN_NAME,
        volattr: 0,
        dirattr: 0,
        fileattr: 0,
        forkattr: 0,
    };
    let mut answer = [0_u8; LONGEST_PATH];
    let done = with_path(&[name], |name| {
        // SAFETY: the path ends with a NUL; the call reads `wanted`, and writes at most as many bytes as `answer` has.
        checked(unsafe {
            libc::getattrlistat(
                directory.as_raw_fd(),
                name.as_ptr(),
                (&raw mut wanted).cast(),
                answer.as_mut_ptr().cast(),
                answer.len(),
                libc::FSOPT_NOFOLLOW.into(),
            )
        })
    });
    match done {
        Err(Errno(libc::ENOENT)) => Ok(None),
        Err(error) => Err(error),
        Ok(()) => Ok(Some(name_in(&answer))),
    }
}

/// The name in an answer: after the length of all, where the name is from there on, and how long it is with its NUL.
fn name_in(answer: &[u8]) -> Vec<u8> {
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_ne_bytes) as usize
    };
    let start = 4 + number(4);
    let name = answer.get(start..start + number(8)).unwrap_or_default();
    name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

pub(super) fn sync_all(file: BorrowedFd<'_>) -> Outcome<()> {
    match answered(as_file(file).sync_all()) {
        // SAFETY: the call touches no memory.
        Err(Errno(code)) if NOT_OFFERED.contains(&code) => checked(unsafe { libc::fsync(file.as_raw_fd()) }),
        other => other,
    }
}
