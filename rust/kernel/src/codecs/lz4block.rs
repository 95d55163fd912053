//! `lz4block`: the stream of Java's `LZ4BlockOutputStream`; `tegula.codecs.compressors.lz4block` describes its blocks.

use super::Codec;
use super::libraries::lz4;
use super::output_buffer::append;
use crate::memory::{as_uninit_mut, try_extend, try_resize};
use crate::{Error, Result};

const NAME: &str = "lz4block";
const MAGIC: &[u8; 8] = b"LZ4Block";
const HEADER: usize = 21;
const RAW: u8 = 0x10;
const LZ4: u8 = 0x20;
/// The smallest size that a header can state is two to the power of this.
const BASE: u32 = 10;
const LARGEST: i64 = 1 << 25;
const SEED: u32 = 0x9747_B28C;
/// Largest decoded size of one byte of a block, in bytes.
const BEST_RATIO: usize = 255;

struct Lz4Block {
    size: usize,
}

pub(super) fn build(size: i64) -> Result<Box<dyn Codec>> {
    if !(64..=LARGEST).contains(&size) {
        return Err(Error::unsupported(NAME, "the size of blocks is out of range"));
    }
    Ok(Box::new(Lz4Block { size: size as usize }))
}

/// A block of a stream, from its header.
struct Block<'a> {
    method: u8,
    data: &'a [u8],
    decoded: usize,
    checksum: u32,
}

/// Iterator over the blocks of a stream before the empty one that ends it.
struct Blocks<'a> {
    rest: &'a [u8],
}

impl<'a> Blocks<'a> {
    fn next(&mut self) -> Result<Option<Block<'a>>> {
        let Some((header, rest)) = self.rest.split_first_chunk::<HEADER>() else {
            return Err(Error::codec(NAME, "the stream is truncated"));
        };
        let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (method, most) = (header[8] & 0xF0, 1_usize << (BASE + u32::from(header[8] & 0x0F)));
        let (encoded, decoded) = (number(9) as usize, number(13) as usize);
        let fits = if method == RAW { encoded == decoded } else { method == LZ4 };
        if header[..8] != *MAGIC || !fits || decoded > most || (decoded == 0) != (encoded == 0) {
            return Err(Error::codec(NAME, "the stream is damaged"));
        }
        if decoded == 0 {
            return Ok(None);
        }
        if rest.len() < encoded || decoded > encoded.saturating_mul(BEST_RATIO) {
            return Err(Error::codec(NAME, "a block states an impossible size"));
        }
        let (data, rest) = rest.split_at(encoded);
        self.rest = rest;
        Ok(Some(Block { method, data, decoded, checksum: number(17) }))
    }
}

impl Block<'_> {
    /// Decode to a buffer of exactly the stated size.
    fn decode(&self, out: &mut [u8]) -> Result<()> {
        if self.method == RAW {
            out.copy_from_slice(self.data);
        } else {
            let decoded = lz4::decode(self.data, as_uninit_mut(out)).map(|made| made.len());
            if decoded != Some(out.len()) {
                return Err(Error::codec(NAME, "a block is damaged"));
            }
        }
        if checksum(out) == self.checksum {
            Ok(())
        } else {
            Err(Error::codec(NAME, "the checksum of a block is wrong"))
        }
    }
}

impl Codec for Lz4Block {
    fn name(&self) -> &str {
        NAME
    }

    fn is_slow(&self) -> bool {
        false
    }

    fn decode(&self, data: &[u8], out: &mut [u8]) -> Result<()> {
        let (mut blocks, mut filled) = (Blocks { rest: data }, 0);
        while let Some(block) = blocks.next()? {
            let Some(target) = out.get_mut(filled..).and_then(|left| left.get_mut(..block.decoded)) else {
                return Err(Error::wrong_size(NAME, filled + block.decoded, out.len()));
            };
            block.decode(target)?;
            filled += block.decoded;
        }
        if filled == out.len() { Ok(()) } else { Err(Error::wrong_size(NAME, filled, out.len())) }
    }

    fn decode_up_to(&self, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let mut blocks = Blocks { rest: data };
        while let Some(block) = blocks.next()? {
            let start = out.len();
            if block.decoded > limit - start {
                return Err(Error::wrong_size(NAME, start + block.decoded, limit));
            }
            try_resize(out, start + block.decoded)?;
            block.decode(&mut out[start..])?;
        }
        Ok(())
    }

    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let level = (usize::BITS - (self.size - 1).leading_zeros()).saturating_sub(BASE) as u8;
        let failed = || Error::codec(NAME, "the data can't be compressed");
        let bound = i32::try_from(self.size).ok().and_then(lz4::bound).ok_or_else(failed)?;
        out.clear();
        for block in data.chunks(self.size) {
            let start = out.len();
            header(out, RAW | level, block.len(), block.len(), checksum(block))?;
            append(out, bound, |buffer| buffer.fill(|room| lz4::encode(block, 1, room).ok_or_else(failed)))?;
            let encoded = out.len() - start - HEADER;
            if encoded == 0 {
                return Err(failed());
            }
            if encoded < block.len() {
                out[start + 8] = LZ4 | level;
                out[start + 9..start + 13].copy_from_slice(&(encoded as u32).to_le_bytes());
            } else {
                out.truncate(start + HEADER);
                try_extend(out, block)?;
            }
        }
        header(out, RAW | level, 0, 0, 0)
    }
}

/// Append the header of a block.
fn header(out: &mut Vec<u8>, token: u8, encoded: usize, decoded: usize, checksum: u32) -> Result<()> {
    try_extend(out, MAGIC)?;
    try_extend(out, &[token])?;
    for number in [encoded as u32, decoded as u32, checksum] {
        try_extend(out, &number.to_le_bytes())?;
    }
    Ok(())
}

fn checksum(block: &[u8]) -> u32 {
    xxh32(block, SEED) & 0x0FFF_FFFF
}

/// Return the hash XXH32.
fn xxh32(data: &[u8], seed: u32) -> u32 {
    const ONE: u32 = 0x9E37_79B1;
    const TWO: u32 = 0x85EB_CA77;
    const THREE: u32 = 0xC2B2_AE3D;
    const FOUR: u32 = 0x27D4_EB2F;
    const FIVE: u32 = 0x1656_67B1;
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let mut lanes = [seed.wrapping_add(ONE).wrapping_add(TWO), seed.wrapping_add(TWO), seed, seed.wrapping_sub(ONE)];
    let stripes = data.chunks_exact(16);
    let rest = stripes.remainder();
    for stripe in stripes {
        for (lane, bytes) in lanes.iter_mut().zip(stripe.chunks_exact(4)) {
            *lane = lane.wrapping_add(word(bytes).wrapping_mul(TWO)).rotate_left(13).wrapping_mul(ONE);
        }
    }
    let mut value = if data.len() < 16 {
        seed.wrapping_add(FIVE)
    } else {
        let turns = [1, 7, 12, 18];
        lanes.iter().zip(turns).fold(0_u32, |sum, (lane, turn)| sum.wrapping_add(lane.rotate_left(turn)))
    };
    value = value.wrapping_add(data.len() as u32);
    let words = rest.chunks_exact(4);
    let tail = words.remainder();
    for bytes in words {
        value = value.wrapping_add(word(bytes).wrapping_mul(THREE)).rotate_left(17).wrapping_mul(FOUR);
    }
    for &byte in tail {
        value = value.wrapping_add(u32::from(byte).wrapping_mul(FIVE)).rotate_left(11).wrapping_mul(ONE);
    }
    value = (value ^ (value >> 15)).wrapping_mul(TWO);
    value = (value ^ (value >> 13)).wrapping_mul(THREE);
    value ^ (value >> 16)
}

#[cfg(test)]
mod tests {
    use super::xxh32;

    #[test]
    fn hashes_are_those_of_the_specification() {
        assert_eq!(xxh32(b"", 0), 0x02CC_5D05);
        assert_eq!(xxh32(b"Nobody inspects the spammish repetition", 0), 0xE229_3B2F);
    }
}
