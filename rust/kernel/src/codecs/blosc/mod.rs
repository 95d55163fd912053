//! `blosc`: Blosc 1, whose content is divided into blocks that are shuffled and compressed.
//!
//! A frame is a header, a table of the starts of the blocks, and the blocks (c-blosc's README_CHUNK_FORMAT).

mod block;
mod decode;
mod encode;
mod frame;
mod options;
mod prefix;
mod replace;
mod scratch;
pub(super) mod shuffle;
mod slots;
mod streams;
// where there are no vector registers, nothing is left of both but the task
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
mod transpose;
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
mod vector;

use std::ops::Range;

use self::frame::Header;
use self::options::Blosc;
use self::replace::Changes;
use self::shuffle::Filter;
use self::streams::Compressor;
use super::{BlockTable, Blocks, BloscOptions, Codec, Layout};
use crate::memory::{as_uninit_mut, try_collect, try_push};
use crate::{Error, Result};

/// Bytes to read together with the header of a frame; a shorter read would not be faster.
const HEAD: usize = 4096;

pub(super) fn build(options: &BloscOptions) -> Result<Box<dyn Codec>> {
    let unsupported = || Error::unsupported("blosc", format!("the options {options:?} are not supported"));
    let BloscOptions { compressor, level, shuffle, blocksize, typesize } = options;
    let compressor = Compressor::named(compressor).ok_or_else(unsupported)?;
    let block = usize::try_from(*blocksize).map_err(|_| unsupported())?;
    if !(0..=9).contains(level) || *typesize < 1 {
        return Err(unsupported());
    }
    let filter = match (*shuffle, *typesize) {
        (0, _) => None,
        (-1, 1) | (2, _) => Some(Filter::Bits),
        (-1 | 1, _) => Some(Filter::Bytes),
        _ => return Err(unsupported()),
    };
    // the header has one byte for the element size; larger elements are treated as bytes
    let typesize = u8::try_from(*typesize).unwrap_or(1);
    Ok(Box::new(Blosc { compressor, level: *level, filter, block, typesize }))
}

impl Codec for Blosc {
    fn name(&self) -> &str {
        "blosc"
    }

    fn decoded_size(&self, data: &[u8]) -> Result<Option<usize>> {
        Header::read(data).map(|header| Some(header.content))
    }

    fn is_slow(&self) -> bool {
        matches!(self.compressor, Compressor::Zlib | Compressor::Zstd)
    }

    fn decode(&self, data: &[u8], out: &mut [u8]) -> Result<()> {
        let header = Header::read(data)?;
        decode::frame(&header, data, as_uninit_mut(out))
    }

    fn decode_up_to(&self, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let header = Header::read(data)?;
        let size = header.content;
        if size > limit {
            return Err(Error::wrong_size("blosc", size, limit));
        }
        out.clear();
        out.try_reserve(size).map_err(|_| Error::Memory { bytes: size })?;
        decode::frame(&header, data, &mut out.spare_capacity_mut()[..size])?;
        // SAFETY: `size` bytes have been initialised, as there was no error
        unsafe { out.set_len(size) };
        Ok(())
    }

    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        encode::frame(self, data, 1, out)
    }

    fn encode_by(&self, data: &[u8], threads: usize, out: &mut Vec<u8>) -> Result<()> {
        encode::frame(self, data, threads, out)
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
        replace::frame(self, old, table, Changes { changed, content, threads }, out)
    }

    fn blocks(&self) -> Option<&dyn Blocks> {
        Some(const { &FrameBlocks { offset: 0 } })
    }
}

/// The blocks of a frame that begins `offset` bytes after the start of the encoded data.
///
/// With an offset, other bytes may follow the frame, without one only zeros.
pub(super) struct FrameBlocks {
    /// Start of the frame.
    pub(super) offset: usize,
}

impl Blocks for FrameBlocks {
    fn head_size(&self, content: usize) -> usize {
        // 16 KiB is the smallest automatic block size for content of several blocks
        HEAD.max(self.offset + frame::SIZE + 4 * content.div_ceil(16 << 10))
    }

    fn layout(&self, head: &[u8], total: u64, content: usize) -> Result<Layout> {
        let least = self.offset + frame::SIZE;
        let Some(frame) = head.get(self.offset..).filter(|frame| frame.len() >= frame::SIZE) else {
            if total < least as u64 {
                return Err(frame::damaged(format!("{total} bytes are too short for the header of a frame")));
            }
            return Ok(Layout::More(least));
        };
        let total = total - self.offset as u64;
        let header = Header::read_within(frame, total)?;
        if self.offset == 0 && (header.total as u64) < total {
            if (frame.len() as u64) < total {
                return Ok(Layout::More(total as usize));
            }
            header.check_padding(frame)?;
        }
        if header.content != content {
            return Err(Error::wrong_size("blosc", header.content, content));
        }
        if header.is_stored() {
            return Ok(Layout::Plain(least as u64));
        }
        if (frame.len() as u64) < header.table_end() {
            return Ok(Layout::More(self.offset + header.table_end() as usize));
        }
        let ranges = ranges(&header, frame, self.offset as u64)?;
        Ok(Layout::Blocks(BlockTable { block: header.block, content, ranges, header: header.bytes }))
    }

    fn decode_block(
        &self,
        layout: &BlockTable,
        index: usize,
        data: &[u8],
        needed: Range<usize>,
        out: &mut [u8],
    ) -> Result<()> {
        let header = Header::decode(layout.header);
        let size = if index < layout.ranges.len() { header.block_size(index) } else { 0 };
        if out.len() != size || size == 0 {
            return Err(Error::wrong_size("blosc", size, out.len()));
        }
        if needed.end > size {
            return Err(Error::wrong_size("blosc", size, needed.end));
        }
        decode::block(&header, index, data, needed, as_uninit_mut(out))
    }
}

/// Return the start and end of each block of a frame. They may be in any order: c-blosc with several threads writes them
/// in the order of completion.
fn ranges(header: &Header, frame: &[u8], offset: u64) -> Result<Vec<(u64, u64)>> {
    let end = header.total as u64;
    let mut ranges = Vec::new();
    for index in 0..header.blocks() {
        try_push(&mut ranges, (header.start(frame, index)? as u64, end))?;
    }
    if ranges.len() == 1 {
        ranges[0] = (ranges[0].0 + offset, end + offset);
        return Ok(ranges);
    }
    let mut sorted: Vec<u64> = try_collect(ranges.iter().map(|range| range.0))?;
    sorted.sort_unstable();
    for (start, end) in &mut ranges {
        let next = sorted.partition_point(|other| other <= start);
        *end = offset + sorted.get(next).unwrap_or(end);
        *start += offset;
    }
    Ok(ranges)
}
