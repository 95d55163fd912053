//! Memory that is used again: scratch buffers of each thread, and large blocks for results.

mod blocks;
mod raw;
mod scratch;

pub use blocks::{Block, after_fork, trim};
pub use scratch::with_scratch;
