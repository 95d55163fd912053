//! Waiting for the lock of a file, by attempts: one call that waits would end with the lock only.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::system::{self, Errno, Outcome};
use crate::pool;

const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_micros(500);
/// A longer wait is left to the Python store, which reports it.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Lock an open file, for one (`LOCK_EX`) or for several (`LOCK_SH`), and wait a while if it is locked elsewhere.
///
/// # Errors
///
/// `EINTR` if the wait takes too long, if a signal comes, or if the operation that this thread helps with has failed;
/// else the system's error.
pub fn lock(file: BorrowedFd<'_>, kind: i32) -> Outcome<()> {
    let mut begun = None;
    let mut pause = SHORTEST_PAUSE;
    loop {
        match system::lock(file, kind | libc::LOCK_NB) {
            Err(Errno(libc::EWOULDBLOCK)) => {}
            answer => return answer,
        }
        if begun.get_or_insert_with(Instant::now).elapsed() >= LONGEST_WAIT || pool::given_up() {
            return Err(Errno(libc::EINTR));
        }
        system::pause(pause)?;
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}
