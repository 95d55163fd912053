//! Waiting between attempts, so that those who get into each other's way do not do so again at once.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// How often something is tried again before it counts as failed.
pub const ATTEMPTS: u32 = 10_000;

/// Wait after attempt number `attempt`, longer each time, for a time that differs between threads.
pub fn wait(attempt: u32) {
    if attempt < 2 {
        std::thread::yield_now();
        return;
    }
    let longest = 20_000_u64 << attempt.min(8); // nanoseconds: up to 5 ms
    let random = RandomState::new().build_hasher().finish();
    std::thread::sleep(Duration::from_nanos(longest / 4 + random % longest));
}
