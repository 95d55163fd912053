//! Waiting for the lock of a file. Attempts, and not one call that waits: that would end with the lock only.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::system::{self, Errno, Outcome};
use crate::pool;

const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_micros(500);
/// A lock that others hold for longer is not waited for here, where the wait is not reported.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Lock an open file, and wait a while if others have it locked.
///
/// # Errors
///
/// `EINTR` if it can't be had by then, if a signal comes, or if the operation that this thread helps with has failed;
/// else what the system says.
pub fn lock(file: BorrowedFd<'_>) -> Outcome<()> {
    let mut begun = None;
    let mut pause = SHORTEST_PAUSE;
    loop {
        match system::lock(file, libc::LOCK_EX | libc::LOCK_NB) {
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
