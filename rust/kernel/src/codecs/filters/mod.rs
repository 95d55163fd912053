//! The filters of numcodecs, on contiguous elements: `shuffle` [Int elementsize], `delta` [Text dtype, Text astype],
//! `fixedscaleoffset` [number offset, number scale, Text dtype, Text astype], `quantize` [Int digits, Text dtype,
//! Text astype], `bitround` [Int keepbits, Text dtype] and `packbits` [].
//!
//! They give what NumPy's arithmetic gives, to the bit. What would take types or conversions of which that can't be
//! said is not built.

mod bitround;
mod delta;
mod numbers;
mod packbits;
mod scale;
mod shuffle;

use super::{Codec, Value};
use crate::{Error, Result};
use numbers::Dtype;

pub(super) fn build(name: &str, options: &[Value]) -> Result<Box<dyn Codec>> {
    match name {
        "shuffle" => shuffle::build(options),
        "delta" => delta::build(options),
        "fixedscaleoffset" => scale::build_fixed(options),
        "quantize" => scale::build_quantize(options),
        "bitround" => bitround::build(options),
        _ => packbits::build(options),
    }
}

#[cold]
fn unsupported(name: &str) -> Error {
    Error::unsupported(name, "the kernel does not have the filter with these options")
}

/// Return the data type that an option names.
fn dtype(name: &str, value: &Value) -> Result<Dtype> {
    match value {
        Value::Text(text) => Dtype::parse(text).ok_or_else(|| unsupported(name)),
        _ => Err(unsupported(name)),
    }
}

/// Return how many bytes `size` bytes of elements of `before` bytes take as elements of `after` bytes.
fn resized(name: &str, size: usize, before: usize, after: usize) -> Result<usize> {
    if size % before != 0 {
        return Err(Error::codec(name, format!("{size} bytes are not elements of {before}")));
    }
    (size / before).checked_mul(after).ok_or(Error::Memory { bytes: size })
}
