//! What it takes to write a frame.

use super::shuffle::Filter;
use super::streams::Compressor;

/// Blosc 1 with what it takes to write.
pub struct Blosc {
    pub compressor: Compressor,
    pub level: i64,
    pub filter: Option<Filter>,
    pub block: usize,
    pub typesize: u8,
}
