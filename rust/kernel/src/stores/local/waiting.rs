//! Waiting for the lock of a file by repeated attempts, since a single blocking call could not be given up.

use std::time::{Duration, Instant};

use super::system::{self, Errno, Outcome};
use crate::pool;

/// Attempts before the first pause: most locks are held for some microseconds, and the shortest sleep takes 50.
const EAGER: u32 = if cfg!(windows) { 1 } else { 24 }; // on Windows each of them opens a file
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_micros(500);
/// A longer wait is left to the Python store, which reports it.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Call `attempt`, which locks something, and wait a while as long as that is locked elsewhere.
///
/// # Errors
///
/// `EINTR` if the wait takes too long, if a signal comes, or if the operation that this thread helps with has failed;
/// else the system's error.
pub fn lock<T>(attempt: impl Fn() -> Outcome<T>) -> Outcome<T> {
    let mut begun = None;
    let mut pause = SHORTEST_PAUSE;
    let mut eager = EAGER;
    loop {
        match attempt() {
            Err(Errno(libc::EWOULDBLOCK)) => {}
            answer => return answer,
        }
        if eager > 0 {
            eager -= 1;
            std::thread::yield_now();
            continue;
        }
        if begun.get_or_insert_with(Instant::now).elapsed() >= LONGEST_WAIT || pool::given_up() {
            return Err(Errno(libc::EINTR));
        }
        system::pause(pause)?;
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}
