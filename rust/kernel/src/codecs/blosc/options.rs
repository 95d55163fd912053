//! The codec with its checked options.

use super::shuffle::Filter;
use super::streams::Compressor;

/// The Blosc codec: the parameters for writing frames.
pub struct Blosc {
    pub compressor: Compressor,
    pub level: i64,
    pub filter: Option<Filter>,
    pub block: usize,
    pub typesize: u8,
}
