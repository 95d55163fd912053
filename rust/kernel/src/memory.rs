//! Memory management: blocks for results, scratch buffers of each thread, and fallible allocation of vectors.
//!
//! Used by `read`, `write` and the codecs, and by the Python module for the memory of result arrays.

mod blocks;
mod raw;
mod scratch;
mod uninit;
mod vectors;

pub use blocks::{Block, after_fork, trim};
pub use scratch::with_scratch;
pub(crate) use uninit::{as_uninit, as_uninit_mut, copy, initialised, zeros};
pub use vectors::{try_collect, try_concat, try_extend, try_push, try_repeat, try_resize, try_with_capacity};
