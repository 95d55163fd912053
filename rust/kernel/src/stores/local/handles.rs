//! Open files, and what is known about them.

use std::path::PathBuf;

#[cfg(unix)]
pub use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
#[cfg(windows)]
use std::os::windows::io::{AsHandle, BorrowedHandle, OwnedHandle};

use super::errno::{Errno, Outcome};
use crate::stores::{Generation, State};

/// An open file or directory, borrowed.
#[cfg(windows)]
pub type BorrowedFd<'f> = BorrowedHandle<'f>;
/// An open file or directory.
#[cfg(windows)]
pub type OwnedFd = OwnedHandle;

/// Lends an open file, as on Unix.
#[cfg(windows)]
pub trait AsFd {
    /// Lend it.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

#[cfg(windows)]
impl<T: AsHandle> AsFd for T {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.as_handle()
    }
}

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
    pub(super) device: u64,
    pub(super) kind: Kind,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Other,
}

impl Status {
    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
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
}

/// What `status_at` looks at if the last name of a path is a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// Where it leads.
    Followed,
    /// The link.
    Itself,
}

/// Return the answer of the standard library with the system's number of its error.
pub(super) fn answered<T>(answer: std::io::Result<T>) -> Outcome<T> {
    answer.map_err(|error| Errno::of(&error))
}

/// A path that leads to an open file.
#[cfg(target_os = "linux")]
pub(super) fn way_to(file: BorrowedFd<'_>) -> PathBuf {
    use std::os::fd::AsRawFd;

    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A path that leads to an open file.
#[cfg(target_os = "macos")]
pub(super) fn way_to(file: BorrowedFd<'_>) -> PathBuf {
    path_of(file)
}

/// The path of an open file; empty if it is not known.
#[cfg(target_os = "linux")]
pub fn path_of(file: BorrowedFd<'_>) -> PathBuf {
    std::fs::read_link(way_to(file)).unwrap_or_default()
}

/// The path of an open file, as the file system spells it; empty if it is not known.
#[cfg(target_os = "macos")]
pub fn path_of(file: BorrowedFd<'_>) -> PathBuf {
    use std::ffi::OsStr;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;

    const LONGEST_PATH: usize = 1024;
    let mut path = [0_u8; LONGEST_PATH];
    // SAFETY: the call writes at most as many bytes as `path` has.
    let known = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETPATH, path.as_mut_ptr()) } == 0;
    let path = path.split(|byte| *byte == 0).next().filter(|_| known).unwrap_or_default();
    PathBuf::from(OsStr::from_bytes(path))
}

/// The path of an open file; empty if it is not known.
#[cfg(windows)]
pub fn path_of(file: BorrowedFd<'_>) -> PathBuf {
    use std::os::windows::ffi::OsStringExt;

    const LONGEST_PATH: usize = 32_767;
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetFinalPathNameByHandleW(file: BorrowedHandle<'_>, to: *mut u16, length: u32, flags: u32) -> u32;
    }
    let mut path = vec![0_u16; LONGEST_PATH];
    // SAFETY: the call writes at most as many numbers as `path` has.
    let length = unsafe { GetFinalPathNameByHandleW(file, path.as_mut_ptr(), path.len() as u32, 0) };
    let path = path.get(..length as usize).unwrap_or_default();
    PathBuf::from(std::ffi::OsString::from_wide(path))
}
