//! `bitround`: floating-point numbers rounded to fewer bits of the significand, ties to even. As in numcodecs, they are in
//! native byte order.

use super::super::Codec;
use super::super::output_buffer::{KnownSize, KnownSizeCodec, OutputBuffer};
use super::numbers::{Dtype, Kind, map};
use super::{resized, unsupported};
use crate::Result;

const NAME: &str = "bitround";

struct Bitround {
    dtype: Dtype,
    /// Number of bits that become zero.
    dropped: u32,
}

pub(in crate::codecs) fn build(kept: i64, dtype: &str) -> Result<Box<dyn Codec>> {
    let dtype = super::dtype(NAME, dtype)?;
    let bits: i64 = match (dtype.kind, dtype.size) {
        (Kind::Float, 2) => 10,
        (Kind::Float, 4) => 23,
        (Kind::Float, 8) => 52,
        _ => return Err(unsupported(NAME)),
    };
    if dtype.swapped || !(0..=bits).contains(&kept) {
        return Err(unsupported(NAME));
    }
    Ok(Box::new(KnownSize(Bitround { dtype, dropped: (bits - kept) as u32 })))
}

macro_rules! round {
    ($uint:ty, $data:expr, $buffer:expr, $this:expr) => {{
        let dropped = $this.dropped;
        let half: $uint = (1 << (dropped - 1)) - 1;
        map($data, false, $buffer, false, |value: $uint| {
            value.wrapping_add((value >> dropped & 1) + half) >> dropped << dropped
        });
    }};
}

impl KnownSizeCodec for Bitround {
    fn name(&self) -> &str {
        NAME
    }

    fn encoded(&self, size: usize) -> Result<usize> {
        resized(NAME, size, self.dtype.size, self.dtype.size)
    }

    fn decoded(&self, data: &[u8]) -> Result<usize> {
        self.encoded(data.len())
    }

    fn encode(&self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()> {
        match (self.dropped, self.dtype.size) {
            (0, _) => buffer.write(data),
            (_, 2) => round!(u16, data, buffer, self),
            (_, 4) => round!(u32, data, buffer, self),
            _ => round!(u64, data, buffer, self),
        }
        Ok(())
    }

    fn decode(&self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()> {
        buffer.write(data);
        Ok(())
    }
}
