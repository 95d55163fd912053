//! The kernel of tegula: codecs, strided copies, and reads and writes of chunked arrays in several threads.
//!
//! This crate knows neither Python nor metadata documents. The crate `python` describes an array as [`array::Array`], a
//! selection as [`plan::Plan`] and a store as [`stores::Store`], and calls [`read::read`] and [`write::write`] with them.
//! [`json`] only locates the members of an object in a JSON text.

pub mod array;
pub mod backoff;
pub mod chain;
pub mod codecs;
pub mod error;
mod forks;
pub mod json;
pub mod last_chunk;
pub mod memory;
pub mod plan;
pub mod pool;
pub mod read;
pub mod stores;
pub mod strided;
pub mod strided_copy;
pub mod write;

pub use error::{Error, Result};
