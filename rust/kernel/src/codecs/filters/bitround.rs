//! `bitround`: floating-point numbers rounded to so many bits of the significand, halves to even. As in numcodecs their
//! bytes are in this machine's order.

use super::super::room::{Resize, Resized, Room};
use super::super::{Codec, Value};
use super::numbers::{Dtype, Kind, map};
use super::{dtype, resized, unsupported};
use crate::Result;

const NAME: &str = "bitround";

struct Bitround {
    dtype: Dtype,
    /// How many bits become zero.
    dropped: u32,
}

pub(super) fn build(options: &[Value]) -> Result<Box<dyn Codec>> {
    let [Value::Int(kept), name] = options else { return Err(unsupported(NAME)) };
    let dtype = dtype(NAME, name)?;
    let bits: i64 = match (dtype.kind, dtype.size) {
        (Kind::Float, 2) => 10,
        (Kind::Float, 4) => 23,
        (Kind::Float, 8) => 52,
        _ => return Err(unsupported(NAME)),
    };
    if dtype.swapped || !(0..=bits).contains(kept) {
        return Err(unsupported(NAME));
    }
    Ok(Box::new(Resized(Bitround { dtype, dropped: (bits - kept) as u32 })))
}

macro_rules! round {
    ($uint:ty, $data:expr, $room:expr, $this:expr) => {{
        let dropped = $this.dropped;
        let half: $uint = (1 << (dropped - 1)) - 1;
        map($data, false, $room, false, |value: $uint| {
            value.wrapping_add((value >> dropped & 1) + half) >> dropped << dropped
        });
    }};
}

// SAFETY: whole elements are written, or all bytes copied.
unsafe impl Resize for Bitround {
    fn name(&self) -> &str {
        NAME
    }

    fn encoded(&self, size: usize) -> Result<usize> {
        resized(NAME, size, self.dtype.size, self.dtype.size)
    }

    fn decoded(&self, data: &[u8]) -> Result<usize> {
        self.encoded(data.len())
    }

    fn encode(&self, data: &[u8], mut room: Room<'_>) -> Result<()> {
        match (self.dropped, self.dtype.size) {
            (0, _) => room.put(data),
            (_, 2) => round!(u16, data, room, self),
            (_, 4) => round!(u32, data, room, self),
            _ => round!(u64, data, room, self),
        }
        Ok(())
    }

    fn decode(&self, data: &[u8], mut room: Room<'_>) -> Result<()> {
        room.put(data);
        Ok(())
    }
}
