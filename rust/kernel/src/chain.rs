//! The codec chain of an array: the order of axes, the serializer, and the bytes-to-bytes codecs.
//!
//! `read` and `write` encode and decode chunks with it. A serializer is either the plain layout of elements or a shard,
//! which has chains of its own for inner chunks and for the index.

use crate::codecs::sequence::{decode_exact, encode};
use crate::codecs::{Blocks, Codec};
use crate::memory::{try_collect, try_with_capacity, with_scratch};
use crate::{Error, Result, strided};

/// A codec chain.
pub struct Chain {
    /// Stored axis `i` is axis `order[i]` of the chunk; `None` if the order is the same.
    pub order: Option<Vec<usize>>,
    /// The array-to-bytes codec.
    pub serializer: Serializer,
    /// The bytes-to-bytes codecs, in the order of encoding.
    pub buffers: Vec<Box<dyn Codec>>,
}

/// The array-to-bytes codec of a chain.
pub enum Serializer {
    /// Contiguous elements.
    Elements(Elements),
    /// A shard.
    Shard(Box<Sharding>),
}

/// The layout of contiguous elements.
#[derive(Clone, Copy, Debug)]
pub struct Elements {
    /// Bytes of an element.
    pub size: usize,
    /// Bytes of the units that are stored byte-swapped; 0 if none are.
    pub swap: usize,
    /// Whether text with four bytes for each character is big-endian in memory; `None` for other elements. Not every
    /// number is a valid character.
    pub text: Option<bool>,
}

/// Shards: inner chunks and an index (Zarr v3, "sharding codec").
pub struct Sharding {
    /// Shape of an inner chunk.
    pub inner_shape: Vec<u64>,
    /// The codecs of inner chunks.
    pub inner: Chain,
    /// The codecs of the index, whose encoded size is fixed.
    pub index: Chain,
    /// Whether the index comes first.
    pub at_start: bool,
}

/// Offset and length in the index entry of an inner chunk that is not stored.
pub const EMPTY: u64 = u64::MAX;

impl Chain {
    /// Return the layout of the elements, unless this is a chain of shards.
    pub fn elements(&self) -> Option<&Elements> {
        match &self.serializer {
            Serializer::Elements(elements) => Some(elements),
            Serializer::Shard(_) => None,
        }
    }

    /// Return the sharding codec, if this is a chain of shards.
    pub fn sharding(&self) -> Option<&Sharding> {
        match &self.serializer {
            Serializer::Elements(_) => None,
            Serializer::Shard(sharding) => Some(sharding),
        }
    }

    /// Return the layout of the elements, in shards that of the inner chunks.
    pub fn innermost(&self) -> &Elements {
        match &self.serializer {
            Serializer::Elements(elements) => elements,
            Serializer::Shard(sharding) => sharding.inner.innermost(),
        }
    }

    /// Return the codec that decodes single blocks of a chunk, if it is the only one (besides the container of bcolz).
    pub fn blocks(&self) -> Option<&dyn Blocks> {
        match self.buffers.as_slice() {
            [only] if only.name() != "blpk" => only.blocks(),
            [first, last] if first.name() == "blosc" && last.name() == "blpk" => last.blocks(),
            _ => None,
        }
    }

    /// Return the shape of a chunk in the stored order of its axes.
    pub fn stored_shape(&self, shape: &[u64]) -> Vec<u64> {
        match &self.order {
            None => shape.to_vec(),
            Some(order) => order.iter().map(|&axis| shape[axis]).collect(),
        }
    }

    /// Return the encoded size of `content` bytes of elements, if it does not depend on their values.
    pub fn encoded_size(&self, content: usize) -> Option<usize> {
        self.buffers.iter().try_fold(content, |size, codec| codec.encoded_size(size))
    }

    /// Return the elements in their stored byte order if they are a part of `data`.
    pub fn payload<'a>(&self, data: &'a [u8]) -> Option<Result<&'a [u8]>> {
        match self.buffers.as_slice() {
            [] => Some(Ok(data)),
            [only] => only.payload(data),
            _ => None,
        }
    }

    /// Undo the bytes-to-bytes codecs, to exactly `out.len()` bytes of elements in their stored byte order.
    pub fn decode_buffers(&self, data: &[u8], out: &mut [u8]) -> Result<()> {
        decode_exact(&self.buffers, data, out)
    }

    /// As `decode_buffers`, but only the first `needed` bytes have to be correct.
    pub fn decode_beginning(&self, data: &[u8], needed: usize, out: &mut [u8]) -> Result<()> {
        match self.buffers.as_slice() {
            [only] => only.decode_beginning(data, needed, out),
            codecs => decode_exact(codecs, data, out),
        }
    }

    /// Decode elements to their layout in memory, in the stored order of the axes.
    pub fn decode_content(&self, data: &[u8], out: &mut [u8]) -> Result<()> {
        self.decode_buffers(data, out)?;
        if let Some(elements) = self.elements() {
            elements.to_memory(out)?;
        }
        Ok(())
    }

    /// Encode elements from their layout in memory; this overwrites `content`.
    pub fn encode_content(&self, content: &mut [u8], out: &mut Vec<u8>) -> Result<()> {
        if let Some(elements) = self.elements() {
            if elements.swap > 1 {
                strided::swap_in_place(content, elements.swap);
            }
        }
        self.encode_buffers(content, 1, out)
    }

    /// Apply the bytes-to-bytes codecs, with up to `threads` threads where a codec supports them.
    pub fn encode_buffers(&self, content: &[u8], threads: usize, out: &mut Vec<u8>) -> Result<()> {
        encode(&self.buffers, content, threads, out)
    }
}

impl Elements {
    /// Convert stored elements to elements in memory, in place.
    pub fn to_memory(&self, content: &mut [u8]) -> Result<()> {
        if self.swap > 1 {
            strided::swap_in_place(content, self.swap);
        }
        self.check(content)
    }

    /// Check that text in memory consists of Unicode code points.
    pub fn check(&self, content: &[u8]) -> Result<()> {
        let Some(big) = self.text else { return Ok(()) };
        check_text(content, big)
    }

    /// Check that stored text consists of Unicode code points.
    pub fn check_stored(&self, content: &[u8]) -> Result<()> {
        let Some(big) = self.text else { return Ok(()) };
        check_text(content, big != (self.swap > 1))
    }
}

fn check_text(content: &[u8], big: bool) -> Result<()> {
    let units = content.chunks_exact(4).map(|unit| [unit[0], unit[1], unit[2], unit[3]]);
    let most = if big { units.map(u32::from_be_bytes).max() } else { units.map(u32::from_le_bytes).max() };
    match most {
        Some(code) if code > 0x10_ffff => {
            Err(Error::codec("bytes", format!("text holds {code:#x}, which is no Unicode code point")))
        }
        _ => Ok(()),
    }
}

impl Sharding {
    /// Return the number of inner chunks along each axis of a shard of this shape.
    pub fn grid(&self, shard: &[u64]) -> Vec<u64> {
        shard.iter().zip(&self.inner_shape).map(|(shard, inner)| shard / inner).collect()
    }

    /// Return the encoded size of the index, in bytes.
    pub fn index_size(&self, grid: &[u64]) -> Result<usize> {
        let content = grid.iter().try_fold(16_usize, |size, &count| size.checked_mul(usize::try_from(count).ok()?));
        let content = content.filter(|&size| size <= isize::MAX as usize).ok_or(Error::Memory { bytes: usize::MAX })?;
        self.index.encoded_size(content).ok_or_else(|| Error::codec("sharding_indexed", "its index has no fixed size"))
    }

    /// Return a number that identifies how the index of a shard is decoded; `None` for codecs that this module does not
    /// know.
    pub fn index_layout(&self, grid: &[u64]) -> Option<u64> {
        let count = grid.iter().try_fold(1_u64, |count, &length| count.checked_mul(length))?;
        let sums = &self.index.buffers;
        let swaps = self.index.elements()?.swap > 1;
        let known = sums.len() < 4 && sums.iter().all(|codec| codec.name() == "crc32c");
        let flags = (sums.len() as u64) << 2 | u64::from(self.at_start) << 1 | u64::from(swaps);
        (known && count < 1 << 60).then_some(count << 4 | flags)
    }

    /// Decode the index: offset and length of each inner chunk.
    ///
    /// # Errors
    ///
    /// If it is damaged, or if an inner chunk lies outside the shard, whose length is `total` if that is known.
    pub fn decode_index(&self, data: &[u8], grid: &[u64], total: Option<u64>) -> Result<Vec<(u64, u64)>> {
        let count = grid.iter().product::<u64>() as usize;
        let limit = total.unwrap_or(i64::MAX as u64);
        with_scratch(16 * count, |raw| {
            self.index.decode_content(data, raw)?;
            let number = |half: &[u8]| half.try_into().map_or(EMPTY, u64::from_le_bytes);
            let entries = try_collect(raw.chunks_exact(16).map(|entry| (number(&entry[..8]), number(&entry[8..]))))?;
            // without an early exit, so that the loop is vectorised
            let outside = entries.iter().fold(false, |outside, &(offset, length)| {
                let missing = offset == EMPTY && length == EMPTY;
                outside | !(missing | (offset <= limit && length <= limit - offset))
            });
            if outside {
                return Err(Error::codec("sharding_indexed", "the index of the shard points outside of it"));
            }
            Ok(entries)
        })
    }

    /// Encode an index of `count` entries.
    pub fn encode_index(&self, count: usize, entries: impl Iterator<Item = (u64, u64)>) -> Result<Vec<u8>> {
        let mut raw: Vec<u8> = try_with_capacity(count.saturating_mul(16))?;
        for (offset, length) in entries.take(count) {
            raw.extend_from_slice(&offset.to_le_bytes());
            raw.extend_from_slice(&length.to_le_bytes());
        }
        let mut out = Vec::new();
        self.index.encode_content(&mut raw, &mut out)?;
        Ok(out)
    }
}
