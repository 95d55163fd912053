//! `packbits`: booleans as bits, the first one highest, after a byte with the number of padding bits at the end.

use super::super::Codec;
use super::super::output_buffer::{KnownSize, KnownSizeCodec, OutputBuffer};
use crate::{Error, Result};

const NAME: &str = "packbits";

/// Factor that moves bit 0 of byte `n` to bit `63 - n`.
const GATHER: u64 = 0x8040_2010_0804_0201;

struct Packbits;

pub(in crate::codecs) fn build() -> Box<dyn Codec> {
    Box::new(KnownSize(Packbits))
}

/// The bits of each byte as bytes of 0 or 1, the highest first.
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

/// Pack eight booleans; any value but 0 is true.
fn pack(values: [u8; 8]) -> u8 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let values = u64::from_le_bytes(values);
    let ones = ((((values & LOW) + LOW) | values) >> 7) & (!LOW >> 7);
    (ones.wrapping_mul(GATHER) >> 56) as u8
}

/// Unpack four bytes.
fn spread(packed: &[u8]) -> [u8; 32] {
    let mut values = [0; 32];
    for (eight, byte) in values.chunks_exact_mut(8).zip(packed) {
        eight.copy_from_slice(&SPREAD[usize::from(*byte)]);
    }
    values
}

/// Number of booleans that are packed at a time.
const BLOCK: usize = 64;

/// Pack a block, by comparing registers with 0.
#[cfg(target_arch = "x86_64")]
fn pack_block(values: &[u8]) -> [u8; BLOCK / 8] {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_setzero_si128};
    let mut bits = 0u64;
    for (index, row) in values.chunks_exact(16).take(4).enumerate() {
        // SAFETY: every x86-64 processor has SSE2, and the row has 16 bytes.
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

impl KnownSizeCodec for Packbits {
    fn name(&self) -> &str {
        NAME
    }

    fn encoded(&self, size: usize) -> Result<usize> {
        Ok(1 + size.div_ceil(8))
    }

    fn decoded(&self, data: &[u8]) -> Result<usize> {
        let Some((&padding, packed)) = data.split_first() else {
            return Err(Error::codec(NAME, "the byte with the number of padding bits is missing"));
        };
        let bits = packed.len().checked_mul(8).ok_or(Error::Memory { bytes: data.len() })?;
        match bits.checked_sub(usize::from(padding)) {
            Some(bits) if padding < 8 => Ok(bits),
            _ => Err(Error::codec(NAME, format!("{padding} of the bits of {} bytes can not be padding", packed.len()))),
        }
    }

    fn encode(&self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()> {
        buffer.write(&[(data.len().wrapping_neg() % 8) as u8]);
        let blocks = data.chunks_exact(BLOCK);
        let rest = blocks.remainder();
        buffer.write_each(blocks.map(pack_block));
        for values in rest.chunks(8) {
            let mut eight = [0; 8];
            eight[..values.len()].copy_from_slice(values);
            buffer.write(&[pack(eight)]);
        }
        Ok(())
    }

    fn decode(&self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()> {
        let packed = data.get(1..).unwrap_or_default();
        let (front, back) = packed.split_at(buffer.left() / 8);
        let fours = front.chunks_exact(4);
        let rest = fours.remainder();
        buffer.write_each(fours.map(spread));
        for byte in rest {
            buffer.write(&SPREAD[usize::from(*byte)]);
        }
        if let (Some(byte), rest @ 1..) = (back.first(), buffer.left()) {
            buffer.write(&SPREAD[usize::from(*byte)][..rest]);
        }
        Ok(())
    }
}
