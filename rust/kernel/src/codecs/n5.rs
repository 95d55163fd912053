//! `n5_default`: the blocks of N5. A header states the shape of a block, its fastest axis first; the elements follow in
//! Fortran order, compressed. A block that is smaller than a chunk is filled up with zeros.

use std::ops::Range;

use super::sequence::{decode_exact, encode};
use super::{BlockTable, Blocks, Codec, Layout, Options};
use crate::memory::{try_collect, try_extend, try_resize, with_scratch};
use crate::{Error, Result};

const NAME: &str = "n5_default";
/// The mode of blocks that state the number of their elements.
const WITH_COUNT: u16 = 1;

struct Block {
    shape: Vec<usize>,
    itemsize: usize,
    /// Bytes of a chunk.
    size: usize,
    header: Vec<u8>,
    codecs: Vec<Box<dyn Codec>>,
}

pub(super) fn build(shape: &[u64], itemsize: u64, codecs: &[Options]) -> Result<Box<dyn Codec>> {
    let unfit = || Error::unsupported(NAME, "a block of this shape has no header");
    let ndim = u16::try_from(shape.len()).map_err(|_| unfit())?;
    let mut header = vec![0, 0];
    header.extend(ndim.to_be_bytes());
    for &length in shape {
        header.extend(u32::try_from(length).map_err(|_| unfit())?.to_be_bytes());
    }
    let lengths = shape.iter().map(|&length| usize::try_from(length).map_err(|_| unfit()));
    let shape = lengths.collect::<Result<Vec<usize>>>()?;
    let itemsize = usize::try_from(itemsize).map_err(|_| unfit())?;
    let size = shape.iter().try_fold(itemsize, |size, &length| size.checked_mul(length)).ok_or_else(unfit)?;
    if shape.is_empty() || size == 0 || codecs.iter().any(|codec| matches!(codec, Options::N5 { .. })) {
        return Err(unfit());
    }
    let codecs = codecs.iter().map(super::build).collect::<Result<_>>()?;
    Ok(Box::new(Block { shape, itemsize, size, header, codecs }))
}

impl Block {
    /// Return the shape of a block, `None` if it is that of the chunk, and the bytes behind its header.
    fn open<'a>(&self, data: &'a [u8]) -> Result<(Option<Vec<usize>>, &'a [u8])> {
        if let Some(content) = data.strip_prefix(self.header.as_slice()) {
            return Ok((None, content));
        }
        let damaged = |message: String| Error::codec(NAME, message);
        let short = || damaged(format!("a block of {} bytes is shorter than its header", data.len()));
        let (header, mut content) = data.split_at_checked(self.header.len()).ok_or_else(short)?;
        let (mode, ndim) = (u16::from_be_bytes([header[0], header[1]]), u16::from_be_bytes([header[2], header[3]]));
        if mode > WITH_COUNT {
            return Err(damaged(format!("the block has mode {mode}; blocks of numbers have mode 0 or 1")));
        }
        if usize::from(ndim) != self.shape.len() {
            return Err(damaged(format!("the block has {ndim} dimensions, the array {}", self.shape.len())));
        }
        let lengths = header[4..].chunks_exact(4);
        let block: Vec<usize> = lengths.map(|four| number([four[0], four[1], four[2], four[3]])).collect();
        if block.iter().zip(&self.shape).any(|(&length, &most)| length == 0 || length > most) {
            let message = format!("a block of shape {block:?} does not fit a chunk of shape {:?}", self.shape);
            return Err(damaged(message));
        }
        if mode == WITH_COUNT {
            let (&count, rest) = content.split_first_chunk::<4>().ok_or_else(short)?;
            if number(count) != block.iter().product::<usize>() {
                return Err(damaged(format!("a block of shape {block:?} can't have {} elements", number(count))));
            }
            content = rest;
        }
        Ok(((block != self.shape).then_some(block), content))
    }

    /// Copy the elements of a block to a chunk, whose other elements become zero.
    fn place(&self, block: &[usize], part: &[u8], out: &mut [u8]) {
        out.fill(0);
        let row = block[0] * self.itemsize;
        let mut coords = vec![0_usize; block.len()];
        for content in part.chunks_exact(row) {
            let axes = (1..block.len()).rev();
            let start = axes.fold(0, |start, axis| (start + coords[axis]) * self.shape[axis - 1]) * self.itemsize;
            out[start..start + row].copy_from_slice(content);
            for axis in 1..block.len() {
                coords[axis] += 1;
                if coords[axis] < block[axis] {
                    break;
                }
                coords[axis] = 0;
            }
        }
    }
}

impl Block {
    /// Return the codec of the elements, if it is one that decodes single blocks of its own.
    fn inner(&self) -> Option<(&dyn Codec, &dyn Blocks)> {
        match self.codecs.as_slice() {
            [only] => only.blocks().map(|blocks| (only.as_ref(), blocks)),
            _ => None,
        }
    }
}

/// Move the ranges of blocks by the length of a header.
fn moved(table: BlockTable, by: impl Fn(u64) -> u64) -> Result<BlockTable> {
    let ranges = try_collect(table.ranges.iter().map(|&(start, stop)| (by(start), by(stop))))?;
    Ok(BlockTable { ranges, ..table })
}

fn number(bytes: [u8; 4]) -> usize {
    u32::from_be_bytes(bytes) as usize
}

impl Codec for Block {
    fn name(&self) -> &str {
        NAME
    }

    fn decoded_size(&self, _data: &[u8]) -> Result<Option<usize>> {
        Ok(Some(self.size))
    }

    fn is_slow(&self) -> bool {
        self.codecs.iter().any(|codec| codec.is_slow())
    }

    fn decode(&self, data: &[u8], out: &mut [u8]) -> Result<()> {
        if out.len() != self.size {
            return Err(Error::wrong_size(NAME, self.size, out.len()));
        }
        let (block, content) = self.open(data)?;
        let Some(block) = block else { return decode_exact(&self.codecs, content, out) };
        let size = block.iter().product::<usize>() * self.itemsize; // less than `self.size`
        with_scratch(size, |part| {
            decode_exact(&self.codecs, content, part)?;
            self.place(&block, part, out);
            Ok(())
        })
    }

    fn decode_beginning(&self, data: &[u8], needed: usize, out: &mut [u8]) -> Result<()> {
        match (self.codecs.as_slice(), data.strip_prefix(self.header.as_slice())) {
            ([only], Some(content)) if out.len() == self.size => only.decode_beginning(content, needed, out),
            _ => self.decode(data, out),
        }
    }

    fn payload<'a>(&self, data: &'a [u8]) -> Option<Result<&'a [u8]>> {
        let content = data.strip_prefix(self.header.as_slice()).filter(|_| self.codecs.is_empty())?;
        let wrong = || Err(Error::wrong_size(NAME, content.len(), self.size));
        Some(if content.len() == self.size { Ok(content) } else { wrong() })
    }

    fn blocks(&self) -> Option<&dyn Blocks> {
        (self.codecs.is_empty() || self.inner().is_some()).then_some(self)
    }

    fn replace<'o>(
        &self,
        old: &'o [u8],
        table: &BlockTable,
        changed: &[usize],
        content: &[u8],
        threads: usize,
        out: &'o mut Vec<u8>,
    ) -> Result<Option<Vec<&'o [u8]>>> {
        let length = self.header.len();
        let (Some((codec, _)), Some(inside)) = (self.inner(), old.strip_prefix(self.header.as_slice())) else {
            return Ok(None);
        };
        let ranges = try_collect(table.ranges.iter().copied())?;
        let table = moved(BlockTable { ranges, ..*table }, |at| at.saturating_sub(length as u64))?;
        let Some(mut pieces) = codec.replace(inside, &table, changed, content, threads, out)? else { return Ok(None) };
        pieces.insert(0, &old[..length]);
        Ok(Some(pieces))
    }

    fn decode_up_to(&self, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.size > limit {
            return Err(Error::wrong_size(NAME, self.size, limit));
        }
        out.clear();
        try_resize(out, self.size)?;
        self.decode(data, out)
    }

    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.encode_by(data, 1, out)
    }

    fn encode_by(&self, data: &[u8], threads: usize, out: &mut Vec<u8>) -> Result<()> {
        if data.len() != self.size {
            return Err(Error::wrong_size(NAME, data.len(), self.size));
        }
        out.clear();
        try_extend(out, &self.header)?;
        if self.codecs.is_empty() {
            return try_extend(out, data);
        }
        let mut content = Vec::new();
        encode(&self.codecs, data, threads, &mut content)?;
        try_extend(out, &content)
    }
}

/// Elements that are not compressed lie behind the header, and so do the blocks of Blosc.
impl Blocks for Block {
    fn head_size(&self, content: usize) -> usize {
        self.header.len() + self.inner().map_or(0, |(_, blocks)| blocks.head_size(content))
    }

    fn layout(&self, head: &[u8], total: u64, content: usize) -> Result<Layout> {
        let length = self.header.len();
        if head.len() < length && total > head.len() as u64 {
            return Ok(Layout::More(length));
        }
        let Some(inside) = head.strip_prefix(self.header.as_slice()) else { return Ok(Layout::Whole) };
        let Some((_, blocks)) = self.inner() else { return Ok(Layout::Plain(length as u64)) };
        Ok(match blocks.layout(inside, total - length as u64, content)? {
            Layout::More(size) => Layout::More(size.saturating_add(length)),
            Layout::Plain(start) => Layout::Plain(start.saturating_add(length as u64)),
            Layout::Blocks(table) => Layout::Blocks(moved(table, |at| at.saturating_add(length as u64))?),
            Layout::Whole => Layout::Whole,
        })
    }

    fn decode_block(
        &self,
        layout: &BlockTable,
        index: usize,
        data: &[u8],
        needed: Range<usize>,
        out: &mut [u8],
    ) -> Result<()> {
        let Some((_, blocks)) = self.inner() else { return Err(Error::unsupported(NAME, "it has no blocks")) };
        blocks.decode_block(layout, index, data, needed, out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Layout, Options};
    use super::build;

    #[test]
    fn smaller_blocks_are_filled_up() {
        let codec = build(&[3, 2], 1, &[]).unwrap();
        let mut out = Vec::new();
        codec.encode(&[1, 2, 3, 4, 5, 6], &mut out).unwrap();
        assert_eq!(out, [0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6]);
        let mut chunk = [9; 6];
        for smaller in [
            &[0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4][..],
            &[0, 1, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 4, 1, 2, 3, 4],
        ] {
            codec.decode(smaller, &mut chunk).unwrap();
            assert_eq!(chunk, [1, 2, 0, 3, 4, 0]);
        }
    }

    #[test]
    fn whole_blocks_are_read_behind_their_header() {
        let plain = build(&[3, 2], 1, &[]).unwrap();
        let mut data = Vec::new();
        plain.encode(&[1, 2, 3, 4, 5, 6], &mut data).unwrap();
        assert_eq!(plain.payload(&data).unwrap().unwrap(), [1, 2, 3, 4, 5, 6]);
        assert!(plain.payload(&data[..17]).unwrap().is_err());
        let blocks = plain.blocks().unwrap();
        let total = data.len() as u64;
        assert!(matches!(blocks.layout(&data[..5], total, 6), Ok(Layout::More(12))));
        assert!(matches!(blocks.layout(&data[..12], total, 6), Ok(Layout::Plain(12))));
        data[11] = 1; // a smaller block
        assert!(matches!(blocks.layout(&data, total, 6), Ok(Layout::Whole)));
        assert!(plain.payload(&data).is_none());
        let zlib = build(&[3, 2], 1, &[Options::Zlib { level: 1 }]).unwrap();
        assert!(zlib.blocks().is_none());
        zlib.encode(&[7; 6], &mut data).unwrap();
        let mut out = [0; 6];
        zlib.decode_beginning(&data, 2, &mut out).unwrap();
        assert_eq!(out[..2], [7, 7]);
    }

    #[test]
    fn damaged_blocks_are_refused() {
        let codec = build(&[3, 2], 1, &[Options::Zlib { level: 1 }]).unwrap();
        let mut whole = Vec::new();
        codec.encode(&[7; 6], &mut whole).unwrap();
        let mut chunk = [0; 6];
        codec.decode(&whole, &mut chunk).unwrap();
        for cut in 0..whole.len() {
            assert!(codec.decode(&whole[..cut], &mut chunk).is_err());
        }
        for at in 0..12 {
            let mut damaged = whole.clone();
            damaged[at] = 200;
            assert!(codec.decode(&damaged, &mut chunk).is_err());
        }
    }
}
