//! Memory that is used again: scratch buffers of each thread, and large blocks for results.

mod blocks;
mod raw;
mod scratch;
mod vectors;

pub use blocks::{Block, after_fork, trim};
pub use scratch::with_scratch;
pub use vectors::{extend, gathered, joined, push, repeated, reserved};
