//! Moves the bytes of chunked arrays: codecs, strided copies, and plans carried out in threads.
//!
//! Nothing here knows Python or what a document means. What an array is comes in as [`array::Array`]; what of it to read
//! or write, as [`plan::Plan`]; where bytes are kept, as [`stores::Store`]. Of JSON, [`json`] only finds where the members
//! of an object begin and end.

pub mod array;
pub mod backoff;
pub mod codecs;
pub mod error;
pub mod json;
pub mod memory;
pub mod placing;
pub mod plan;
pub mod pool;
pub mod read;
pub mod stores;
pub mod strided;
pub mod write;

pub use error::{Error, Result};
