//! Errors of system calls.

use std::ffi::CStr;

/// The number of a system's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// The result of a system call.
pub type Outcome<T> = std::result::Result<T, Errno>;

impl Errno {
    /// Return the error of the last call of this thread.
    pub(super) fn last() -> Errno {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }

    /// Return the system's text for the error, which Python shows, too.
    pub fn text(self) -> String {
        let mut text = [0 as libc::c_char; 256];
        // SAFETY: the buffer has the given length, and the call ends its text with a NUL.
        let code = unsafe { libc::strerror_r(self.0, text.as_mut_ptr(), text.len()) };
        if code != 0 {
            return format!("error {}", self.0);
        }
        // SAFETY: see above; the buffer lives until the end of this function.
        unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned()
    }
}
