//! `packbits`: truth values as bits, the first one highest, behind a byte that says how many bits at the end are padding.

use super::super::room::{Resize, Resized, Room};
use super::super::{Codec, Value};
use super::unsupported;
use crate::{Error, Result};

const NAME: &str = "packbits";

/// Moves bit 0 of byte `n` to bit `63 - n`, as a product.
const GATHER: u64 = 0x8040_2010_0804_0201;

struct Packbits;

pub(super) fn build(options: &[Value]) -> Result<Box<dyn Codec>> {
    if options.is_empty() { Ok(Box::new(Resized(Packbits))) } else { Err(unsupported(NAME)) }
}

/// For each byte its bits as bytes of 0 or 1, the highest first.
const SPREAD: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            table[byte][bit] = (byte >> (7 - bit) & 1) as u8;
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// Pack eight truth values; anything but 0 is true.
fn pack(values: [u8; 8]) -> u8 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let values = u64::from_le_bytes(values);
    let ones = ((((values & LOW) + LOW) | values) >> 7) & (!LOW >> 7);
    (ones.wrapping_mul(GATHER) >> 56) as u8
}

// SAFETY: encoding writes the padding and a byte for every eight values, the last with what is left; decoding writes
// eight values for each byte, the last with what is left.
unsafe impl Resize for Packbits {
    fn name(&self) -> &str {
        NAME
    }

    fn encoded(&self, size: usize) -> Result<usize> {
        Ok(1 + size.div_ceil(8))
    }

    fn decoded(&self, data: &[u8]) -> Result<usize> {
        let Some((&padding, packed)) = data.split_first() else {
            return Err(Error::codec(NAME, "there is no byte that tells the padding"));
        };
        let bits = packed.len().checked_mul(8).ok_or(Error::Memory { bytes: data.len() })?;
        Ok(bits.saturating_sub(usize::from(padding)))
    }

    fn encode(&self, data: &[u8], mut room: Room<'_>) -> Result<()> {
        let whole = data.chunks_exact(8);
        let rest = whole.remainder();
        room.put(&[(8 - rest.len() as u8) % 8]);
        let mut packed = room.after(1);
        assert!(whole.len() <= packed.len(), "the room is large enough");
        let count = whole.len();
        for (index, values) in whole.enumerate() {
            let mut eight = [0; 8];
            eight.copy_from_slice(values);
            // SAFETY: there is room for as many bytes.
            unsafe { packed.start().add(index).write(pack(eight)) };
        }
        if !rest.is_empty() {
            let mut values = [0; 8];
            values[..rest.len()].copy_from_slice(rest);
            packed.after(count).put(&[pack(values)]);
        }
        Ok(())
    }

    fn decode(&self, data: &[u8], mut room: Room<'_>) -> Result<()> {
        let packed = data.get(1..).unwrap_or_default();
        let whole = room.len() / 8;
        let (front, back) = packed.split_at(whole);
        for (index, byte) in front.iter().enumerate() {
            // SAFETY: `8 * whole` bytes are in the room.
            unsafe { room.start().cast::<[u8; 8]>().add(index).write(SPREAD[usize::from(*byte)]) };
        }
        let rest = room.len() % 8;
        if let (Some(byte), 1..) = (back.first(), rest) {
            room.after(8 * whole).put(&SPREAD[usize::from(*byte)][..rest]);
        }
        Ok(())
    }
}
