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

/// Truth values that are packed at a time.
const BLOCK: usize = 64;

/// Pack a block, by way of the registers' comparison with 0.
#[cfg(target_arch = "x86_64")]
fn pack_block(values: &[u8]) -> [u8; BLOCK / 8] {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_setzero_si128};
    let mut bits = 0u64;
    for (index, row) in values.chunks_exact(16).take(4).enumerate() {
        // SAFETY: every processor of this kind has SSE2, and the row has 16 bytes.
        let zeros = unsafe {
            let row = row.as_ptr().cast::<__m128i>().read_unaligned();
            _mm_movemask_epi8(_mm_cmpeq_epi8(row, _mm_setzero_si128())) as u16
        };
        bits |= u64::from(!zeros) << (16 * index);
    }
    bits.reverse_bits().to_be_bytes()
}

/// Pack a block.
#[cfg(not(target_arch = "x86_64"))]
fn pack_block(values: &[u8]) -> [u8; BLOCK / 8] {
    std::array::from_fn(|index| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&values[8 * index..8 * index + 8]);
        pack(eight)
    })
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
        match bits.checked_sub(usize::from(padding)) {
            Some(bits) if padding < 8 => Ok(bits),
            _ => Err(Error::codec(NAME, format!("{padding} bits of {} bytes can't be padding", packed.len()))),
        }
    }

    fn encode(&self, data: &[u8], mut room: Room<'_>) -> Result<()> {
        room.put(&[(data.len().wrapping_neg() % 8) as u8]);
        let mut packed = room.after(1);
        let blocks = data.chunks_exact(BLOCK);
        let (count, rest) = (blocks.len() * BLOCK / 8, blocks.remainder());
        assert!(count <= packed.len(), "the room is large enough");
        for (index, values) in blocks.enumerate() {
            // SAFETY: there is room for 8 bytes of each block.
            unsafe { packed.start().cast::<[u8; BLOCK / 8]>().add(index).write(pack_block(values)) };
        }
        for (index, values) in rest.chunks(8).enumerate() {
            let mut eight = [0; 8];
            eight[..values.len()].copy_from_slice(values);
            packed.after(count + index).put(&[pack(eight)]);
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
