//! Random exponential backoff between attempts to make a change that conflicts with other writers. Called by
//! `read::at_key`.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Number of attempts after which a change fails.
pub const ATTEMPTS: u32 = 10_000;

/// Wait after attempt number `attempt`: longer each time, up to 5 ms, for a random time, so that two writers do not stay
/// in step.
pub fn wait(attempt: u32) {
    if attempt < 2 {
        std::thread::yield_now();
        return;
    }
    let longest = 20_000_u64 << attempt.min(8); // nanoseconds: up to 5 ms
    let random = RandomState::new().build_hasher().finish();
    std::thread::sleep(Duration::from_nanos(longest / 4 + random % longest));
}
