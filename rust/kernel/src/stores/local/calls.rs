//! Functions of the C library, declared with types of which every value is right to pass. Called by `system`.
//!
//! `system` calls variadic functions, and functions that take an address and a length, through `libc` instead.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, OwnedFd};

#[cfg(target_os = "linux")]
use libc::off_t;
use libc::{c_char, c_int, c_uint, mode_t, timespec};

/// The address of a text that ends with a NUL.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Path<'a> {
    start: *const c_char,
    of: PhantomData<&'a CStr>,
}

impl<'a> From<&'a CStr> for Path<'a> {
    fn from(text: &'a CStr) -> Path<'a> {
        Path { start: text.as_ptr(), of: PhantomData }
    }
}

// These names stand for functions whose numbers are as wide as those of `libc`.
const _: () = assert!(size_of::<timespec>() == 2 * size_of::<std::ffi::c_long>());
#[cfg(target_os = "linux")]
const _: () = assert!(cfg!(not(target_env = "gnu")) || size_of::<off_t>() == size_of::<std::ffi::c_long>());

// SAFETY: the signatures are those of POSIX, Linux and macOS, where a descriptor is a number, a path the address of a text,
// and a reference an address. The functions read texts up to their NUL and the structures that they are given, and keep
// none of them; the descriptor that `close` closes was owned.
unsafe extern "C" {
    pub safe fn close(file: OwnedFd) -> c_int;
    #[cfg(target_os = "linux")]
    pub safe fn fallocate(file: BorrowedFd<'_>, mode: c_int, start: off_t, length: off_t) -> c_int;
    pub safe fn flock(file: BorrowedFd<'_>, operation: c_int) -> c_int;
    pub safe fn futimens(file: BorrowedFd<'_>, times: &[timespec; 2]) -> c_int;
    #[cfg(target_os = "linux")]
    pub safe fn linkat(from: BorrowedFd<'_>, old: Path<'_>, to: BorrowedFd<'_>, new: Path<'_>, flags: c_int) -> c_int;
    pub safe fn mkdirat(directory: BorrowedFd<'_>, name: Path<'_>, mode: mode_t) -> c_int;
    pub safe fn nanosleep(length: &timespec, left: Option<&mut timespec>) -> c_int;
    #[cfg(target_os = "linux")]
    pub safe fn posix_fadvise(file: BorrowedFd<'_>, start: off_t, length: off_t, advice: c_int) -> c_int;
    pub safe fn renameat(from: BorrowedFd<'_>, old: Path<'_>, to: BorrowedFd<'_>, new: Path<'_>) -> c_int;
    pub safe fn unlinkat(directory: BorrowedFd<'_>, name: Path<'_>, flags: c_int) -> c_int;
    pub safe fn utimensat(directory: BorrowedFd<'_>, name: Path<'_>, times: &[timespec; 2], flags: c_int) -> c_int;
}

/// The permissions of new files and directories, before the process takes some away.
pub const FILE: c_uint = 0o666;
pub const DIRECTORY: mode_t = 0o777;
