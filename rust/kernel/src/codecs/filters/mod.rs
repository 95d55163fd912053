//! The filters of numcodecs, applied to contiguous elements.
//!
//! The results are bit-identical to NumPy's arithmetic. Types and conversions for which that is not certain are not
//! supported.

pub(super) mod bitround;
pub(super) mod delta;
mod numbers;
pub(super) mod packbits;
pub(super) mod scale;
pub(super) mod shuffle;

use crate::{Error, Result};
use numbers::Dtype;

#[cold]
fn unsupported(name: &str) -> Error {
    Error::unsupported(name, "the kernel does not support these options of the filter")
}

/// Return the data type that an option names.
fn dtype(name: &str, text: &str) -> Result<Dtype> {
    Dtype::parse(text).ok_or_else(|| unsupported(name))
}

/// Return the size of `size` bytes after converting elements of `before` bytes to elements of `after` bytes.
fn resized(name: &str, size: usize, before: usize, after: usize) -> Result<usize> {
    if size % before != 0 {
        return Err(Error::codec(name, format!("{size} bytes are not elements of {before}")));
    }
    (size / before).checked_mul(after).ok_or(Error::Memory { bytes: size })
}
