//! What an array is, as far as its bytes go: how it is cut, what its chunks are called, and how they become bytes.

use crate::codecs::{Blocks, Codec};
use crate::memory::{extend, gathered, reserved, with_scratch};
use crate::plan::Cut;
use crate::{Error, Result, strided};

/// An array; see the module.
pub struct Array {
    /// Indices along each axis.
    pub shape: Vec<u64>,
    /// How each axis is cut into chunks.
    pub cuts: Vec<Cut>,
    /// What chunks are called.
    pub keys: Keys,
    /// How a chunk becomes bytes.
    pub chain: Chain,
    /// What a missing chunk is filled with: one element.
    pub fill: Vec<u8>,
    /// Whether every chunk must be there, and the last holds only the rows that the array has (bcolz).
    pub dense: bool,
}

impl Array {
    /// The shape of a chunk as it is stored.
    pub fn chunk_shape(&self, coords: &[u64]) -> Vec<u64> {
        self.cuts.iter().zip(coords).map(|(cut, &number)| cut.length(number)).collect()
    }

    /// Whether part of a chunk lies beyond the array, where somebody else may have appended since.
    pub fn overhangs(&self, coords: &[u64]) -> bool {
        (self.cuts.iter().zip(&self.shape).zip(coords))
            .any(|((cut, &size), &number)| cut.start(number).saturating_add(cut.length(number)) > size)
    }
}

/// How the key of a chunk is spelled; see `tegula.metadata.chunk_keys`.
#[derive(Clone, Debug)]
pub struct Keys {
    /// What stands before the coordinates.
    pub prefix: String,
    /// What stands between two of them.
    pub separator: String,
    /// What stands after them.
    pub suffix: String,
    /// The key where there are no coordinates.
    pub scalar: String,
    /// Whether only the first coordinate is told.
    pub first_only: bool,
}

impl Keys {
    /// The key of the chunk at `coords`.
    pub fn encode(&self, coords: &[u64]) -> String {
        if coords.is_empty() {
            return self.scalar.clone();
        }
        let mut key = String::with_capacity(self.prefix.len() + self.suffix.len() + 8 * coords.len());
        key.push_str(&self.prefix);
        for (axis, coord) in coords.iter().enumerate().take(if self.first_only { 1 } else { coords.len() }) {
            if axis > 0 {
                key.push_str(&self.separator);
            }
            push_number(&mut key, *coord);
        }
        key.push_str(&self.suffix);
        key
    }
}

/// The grid coordinates in a box, given as start and stop along each axis, the last one fastest.
pub struct Coords {
    bounds: Vec<(u64, u64)>,
    next: Option<Vec<u64>>,
}

impl Coords {
    /// Begin with the first.
    pub fn new(bounds: Vec<(u64, u64)>) -> Coords {
        let empty = bounds.iter().any(|(start, stop)| start >= stop);
        let next = (!empty).then(|| bounds.iter().map(|(start, _)| *start).collect());
        Coords { bounds, next }
    }
}

impl Iterator for Coords {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        let current = self.next.take()?;
        let mut following = current.clone();
        for (number, (start, stop)) in following.iter_mut().zip(&self.bounds).rev() {
            *number += 1; // at most `stop`
            if *number < *stop {
                self.next = Some(following);
                break;
            }
            *number = *start;
        }
        Some(current)
    }
}

fn push_number(text: &mut String, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend(digits[start..].iter().map(|&digit| digit as char));
}

/// How a chunk becomes bytes.
pub struct Chain {
    /// Stored axis `i` is the chunk's axis `order[i]`; `None` if no axis moves.
    pub order: Option<Vec<usize>>,
    /// What makes bytes of elements.
    pub serializer: Serializer,
    /// What makes bytes of these, in the order of encoding.
    pub buffers: Vec<Box<dyn Codec>>,
}

/// What makes bytes of elements.
pub enum Serializer {
    /// One element after the other.
    Elements(Elements),
    /// A shard.
    Shard(Box<Sharding>),
}

/// Elements one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Elements {
    /// Bytes of an element.
    pub size: usize,
    /// Bytes of the units that are stored backwards; 0 if none are.
    pub swap: usize,
    /// Whether they are text of four bytes a character, in which not every number is a character; and if so, whether
    /// the highest byte comes first in memory.
    pub text: Option<bool>,
}

/// Shards: inner chunks and an index (Zarr v3 core, "sharding codec").
pub struct Sharding {
    /// Shape of an inner chunk.
    pub inner_shape: Vec<u64>,
    /// What encodes inner chunks.
    pub inner: Chain,
    /// What encodes the index, to a fixed size.
    pub index: Chain,
    /// Whether the index comes first.
    pub at_start: bool,
}

/// Both members of the index entry of an inner chunk that is missing.
pub const EMPTY: u64 = u64::MAX;

impl Sharding {
    /// How many inner chunks a shard has along each axis.
    pub fn grid(&self, shard: &[u64]) -> Vec<u64> {
        shard.iter().zip(&self.inner_shape).map(|(shard, inner)| shard / inner).collect()
    }

    /// How many bytes the index takes.
    pub fn index_size(&self, grid: &[u64]) -> Result<usize> {
        let content = grid.iter().try_fold(16_usize, |size, &count| size.checked_mul(usize::try_from(count).ok()?));
        let content = content.filter(|&size| size <= isize::MAX as usize).ok_or(Error::Memory { bytes: usize::MAX })?;
        self.index.encoded_size(content).ok_or_else(|| Error::codec("sharding_indexed", "its index has no fixed size"))
    }

    /// Read the index: offset and length of each inner chunk.
    ///
    /// # Errors
    ///
    /// If it is damaged, or an inner chunk would lie outside of the shard, whose length is `total` if that is known.
    pub fn decode_index(&self, data: &[u8], grid: &[u64], total: Option<u64>) -> Result<Vec<(u64, u64)>> {
        let count = grid.iter().product::<u64>() as usize;
        let limit = total.unwrap_or(i64::MAX as u64);
        with_scratch(16 * count, |raw| {
            self.index.decode_content(data, raw)?;
            let number = |half: &[u8]| half.try_into().map_or(EMPTY, u64::from_le_bytes);
            let entries = gathered(raw.chunks_exact(16).map(|entry| (number(&entry[..8]), number(&entry[8..]))))?;
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

    /// Make the bytes of an index of `count` entries.
    pub fn encode_index(&self, count: usize, entries: impl Iterator<Item = (u64, u64)>) -> Result<Vec<u8>> {
        let mut raw: Vec<u8> = reserved(count.saturating_mul(16))?;
        for (offset, length) in entries.take(count) {
            raw.extend_from_slice(&offset.to_le_bytes());
            raw.extend_from_slice(&length.to_le_bytes());
        }
        let mut out = Vec::new();
        self.index.encode_content(&mut raw, &mut out)?;
        Ok(out)
    }
}

impl Chain {
    /// The elements' description, if the chain is not one of shards.
    pub fn elements(&self) -> Option<&Elements> {
        match &self.serializer {
            Serializer::Elements(elements) => Some(elements),
            Serializer::Shard(_) => None,
        }
    }

    /// The shard codec, if there is one.
    pub fn sharding(&self) -> Option<&Sharding> {
        match &self.serializer {
            Serializer::Elements(_) => None,
            Serializer::Shard(sharding) => Some(sharding),
        }
    }

    /// How many bytes `content` bytes of elements are encoded to, if that is fixed.
    pub fn encoded_size(&self, content: usize) -> Option<usize> {
        self.buffers.iter().try_fold(content, |size, codec| codec.encoded_size(size))
    }

    /// The description of the elements, of inner chunks where there are shards.
    pub fn innermost(&self) -> &Elements {
        match &self.serializer {
            Serializer::Elements(elements) => elements,
            Serializer::Shard(sharding) => sharding.inner.innermost(),
        }
    }

    /// The way to decode parts of a chunk, where one codec is all there is (and the container that only Blosc has).
    pub fn blocks(&self) -> Option<&dyn Blocks> {
        match self.buffers.as_slice() {
            [only] if only.name() != "blpk" => only.blocks(),
            [first, last] if first.name() == "blosc" && last.name() == "blpk" => last.blocks(),
            _ => None,
        }
    }

    /// A chunk's shape in the order in which its axes are stored.
    pub fn stored_shape(&self, shape: &[u64]) -> Vec<u64> {
        match &self.order {
            None => shape.to_vec(),
            Some(order) => order.iter().map(|&axis| shape[axis]).collect(),
        }
    }

    /// Undo the buffer codecs: exactly `out.len()` bytes of elements, in the order of bytes in which they are stored.
    pub fn decode_buffers(&self, data: &[u8], out: &mut [u8]) -> Result<()> {
        decode_exact(&self.buffers, data, out)
    }

    /// Undo everything but the order of the axes; for elements that lie one after the other in memory too.
    pub fn decode_content(&self, data: &[u8], out: &mut [u8]) -> Result<()> {
        self.decode_buffers(data, out)?;
        if let Some(elements) = self.elements() {
            elements.to_memory(out)?;
        }
        Ok(())
    }

    /// Encode elements as they lie in memory, which are changed on the way.
    pub fn encode_content(&self, content: &mut [u8], out: &mut Vec<u8>) -> Result<()> {
        if let Some(elements) = self.elements() {
            if elements.swap > 1 {
                strided::swap_in_place(content, elements.swap);
            }
        }
        self.encode_buffers(content, 1, out)
    }

    /// Apply the buffer codecs, by up to so many threads where a codec can.
    pub fn encode_buffers(&self, content: &[u8], threads: usize, out: &mut Vec<u8>) -> Result<()> {
        encode(&self.buffers, content, threads, out)
    }
}

/// Apply `codecs`, the first first, by up to so many threads where that can.
pub fn encode(codecs: &[Box<dyn Codec>], content: &[u8], threads: usize, out: &mut Vec<u8>) -> Result<()> {
    let Some((first, rest)) = codecs.split_first() else {
        out.clear();
        extend(out, content)?;
        return Ok(());
    };
    first.encode_by(content, threads, out)?;
    let mut spare = Vec::new();
    for codec in rest {
        std::mem::swap(out, &mut spare);
        codec.encode(&spare, out)?;
    }
    Ok(())
}

/// Undo `codecs`, the last first, where nobody knows how much comes out of any of them: up to `most` bytes.
pub fn decode_up_to(codecs: &[Box<dyn Codec>], data: &[u8], most: usize, out: &mut Vec<u8>) -> Result<()> {
    let Some((last, before)) = codecs.split_last() else {
        out.clear();
        extend(out, data)?;
        return Ok(());
    };
    last.decode_up_to(data, most, out)?;
    let mut spare = Vec::new();
    for codec in before.iter().rev() {
        std::mem::swap(out, &mut spare);
        codec.decode_up_to(&spare, most, out)?;
    }
    Ok(())
}

impl Elements {
    /// Turn elements as they are stored into elements as they are in memory.
    pub fn to_memory(&self, content: &mut [u8]) -> Result<()> {
        if self.swap > 1 {
            strided::swap_in_place(content, self.swap);
        }
        self.check(content)
    }

    /// Refuse text that holds numbers which are no characters.
    pub fn check(&self, content: &[u8]) -> Result<()> {
        let Some(big) = self.text else { return Ok(()) };
        check_text(content, big)
    }

    /// As `check`, for elements as they are stored.
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

/// Undo `codecs`, the last first, to get exactly `out.len()` bytes.
pub fn decode_exact(codecs: &[Box<dyn Codec>], data: &[u8], out: &mut [u8]) -> Result<()> {
    match codecs {
        [] if data.len() == out.len() => {
            out.copy_from_slice(data);
            Ok(())
        }
        [] => Err(Error::wrong_size("bytes", data.len(), out.len())),
        [only] => only.decode(data, out),
        [before @ .., last] => {
            peel(before, last.as_ref(), data, out.len(), &mut |inner| decode_exact(before, inner, out))
        }
    }
}

/// Undo the last of several codecs, and hand what it gives to `work`; `content` is what all of them decode to.
pub fn peel(
    before: &[Box<dyn Codec>],
    last: &dyn Codec,
    data: &[u8],
    content: usize,
    work: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    if let Some(inner) = last.payload(data) {
        return work(inner?);
    }
    let mut fixed = Some(content);
    let mut limit = content;
    for codec in before {
        fixed = fixed.and_then(|size| codec.encoded_size(size));
        // compressed data can be larger than what went in, but not by much
        limit = fixed.unwrap_or_else(|| limit.saturating_mul(2).saturating_add(65536));
    }
    if let Some(size) = fixed {
        return crate::memory::with_scratch(size, |inner| {
            last.decode(data, inner)?;
            work(inner)
        });
    }
    let mut inner = Vec::new();
    last.decode_up_to(data, limit, &mut inner)?;
    work(&inner)
}
