//! Errors of system calls.

/// The number of a system's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// The result of a system call.
pub type Outcome<T> = std::result::Result<T, Errno>;

impl Errno {
    /// Return the error of the last call of this thread.
    #[cfg(unix)]
    pub(super) fn last() -> Errno {
        Errno::of(&std::io::Error::last_os_error())
    }

    /// Return an error of the standard library as a number.
    #[cfg(unix)]
    pub(super) fn of(error: &std::io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// Return an error of the standard library as a number of the C library.
    #[cfg(windows)]
    pub(super) fn of(error: &std::io::Error) -> Errno {
        use std::io::ErrorKind;
        Errno(match error.kind() {
            ErrorKind::NotFound => libc::ENOENT,
            ErrorKind::PermissionDenied => libc::EACCES,
            ErrorKind::Unsupported => libc::ENOSYS,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => libc::ENOSPC,
            _ => libc::EIO,
        })
    }

    /// Return the C library's text for the error, which Python shows, too.
    #[cfg(windows)]
    pub fn text(self) -> String {
        // SAFETY: the call returns the address of a text, which stays the same until the next call of this thread.
        let text = unsafe { std::ffi::CStr::from_ptr(libc::strerror(self.0)) };
        text.to_string_lossy().into_owned()
    }

    /// Return the system's text for the error, which Python shows, too.
    #[cfg(unix)]
    pub fn text(self) -> String {
        let text = std::io::Error::from_raw_os_error(self.0).to_string();
        text.strip_suffix(&format!(" (os error {})", self.0)).unwrap_or(&text).to_owned()
    }
}
