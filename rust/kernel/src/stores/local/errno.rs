//! Errors of system calls.

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
        let text = std::io::Error::from_raw_os_error(self.0).to_string();
        text.strip_suffix(&format!(" (os error {})", self.0)).unwrap_or(&text).to_owned()
    }
}
