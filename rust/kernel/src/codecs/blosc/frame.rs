//! The header of a frame and its table of blocks (c-blosc's README_CHUNK_FORMAT).

use super::shuffle::Filter;
use crate::{Error, Result};

/// Bytes of the header.
pub(super) const SIZE: usize = 16;

/// Shortest block that is split, in elements; also the shortest content that is compressed, in bytes.
pub(super) const SHORTEST: usize = 128;

/// Largest element whose blocks are split, in bytes.
pub(super) const MOST_SPLITS: usize = 16;

/// Longest block that c-blosc allows, in bytes.
pub(super) const LONGEST_BLOCK: usize = (i32::MAX as usize - 255 * 4) / 3;

/// The version of the format; the version of all compressed formats is one less.
pub(super) const VERSION: u8 = 2;

/// Bits of the flags.
pub(super) const BYTES_SHUFFLED: u8 = 0x01;
pub(super) const STORED: u8 = 0x02;
pub(super) const BITS_SHUFFLED: u8 = 0x04;
const BLOSC_2: u8 = 0x08;
pub(super) const ONE_STREAM: u8 = 0x10;

/// The compressed formats, by their number in the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    BloscLz,
    Lz4,
    Snappy,
    Zlib,
    Zstd,
}

impl Format {
    /// Return the number of the format in the upper three bits of the flags.
    pub(super) fn code(self) -> u8 {
        self as u8
    }

    fn from_code(code: u8) -> Option<Format> {
        [Format::BloscLz, Format::Lz4, Format::Snappy, Format::Zlib, Format::Zstd].get(usize::from(code)).copied()
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// The encoded header.
    pub(super) bytes: [u8; SIZE],
    /// Bytes of an element, at least one.
    pub(super) typesize: usize,
    /// Bytes of content.
    pub(super) content: usize,
    /// Bytes of a block, at least one; the last may be shorter. Meaningless if the content is not compressed.
    pub(super) block: usize,
    /// Bytes of the frame.
    pub(super) total: usize,
}

impl Header {
    /// Read and check the header of a frame, and the zeros that may follow the frame in `data`.
    pub(super) fn read(data: &[u8]) -> Result<Header> {
        let header = Header::read_within(data, data.len() as u64)?;
        header.check_padding(data)?;
        Ok(header)
    }

    /// Read and check the header of a frame that other bytes may follow; `available` is the length of both, in bytes.
    pub(super) fn read_within(head: &[u8], available: u64) -> Result<Header> {
        let Some(&bytes) = head.first_chunk::<SIZE>() else {
            return Err(damaged(format!("a frame of {} bytes is shorter than its header", head.len())));
        };
        let header = Header::decode(bytes);
        if header.total as u64 > available {
            return Err(damaged(format!(
                "the frame says it is {} bytes long, but there are {available}",
                header.total
            )));
        }
        header.check()?;
        Ok(header)
    }

    /// Check that only zeros follow the frame in `data`, as some writers leave there.
    pub(super) fn check_padding(&self, data: &[u8]) -> Result<()> {
        match data.get(self.total..) {
            Some(rest) if rest.iter().any(|&byte| byte != 0) => {
                Err(damaged(format!("{} bytes follow the frame", rest.len())))
            }
            _ => Ok(()),
        }
    }

    /// Decode the fields of the header without checking them.
    pub(super) fn decode(bytes: [u8; SIZE]) -> Header {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
        Header { bytes, typesize: bytes[3].into(), content: number(4), block: number(8), total: number(12) }
    }

    fn check(&self) -> Result<()> {
        if self.bytes[0] != VERSION || self.bytes[2] & BLOSC_2 != 0 || self.typesize == 0 {
            return Err(damaged("this is not the header of a Blosc 1 frame"));
        }
        if self.is_stored() {
            if self.total.checked_sub(SIZE) != Some(self.content) {
                return Err(damaged("the lengths in the header contradict each other"));
            }
            return Ok(());
        }
        if self.block == 0 || self.block > self.content.min(LONGEST_BLOCK) {
            return Err(damaged(format!("the header has blocks of {} bytes", self.block)));
        }
        if self.table_end() + 4 > self.total as u64 {
            return Err(damaged("the frame is shorter than its table of blocks"));
        }
        self.format().map(|_| ())
    }

    /// Return whether the content follows the header uncompressed.
    pub(super) fn is_stored(&self) -> bool {
        self.bytes[2] & STORED != 0
    }

    /// Return the compressed format of the blocks.
    pub(super) fn format(&self) -> Result<Format> {
        match Format::from_code(self.bytes[2] >> 5) {
            Some(format) if self.bytes[1] == VERSION - 1 => Ok(format),
            Some(format) => {
                Err(Error::unsupported("blosc", format!("{format:?} of version {} is not known", self.bytes[1])))
            }
            None => Err(Error::unsupported("blosc", format!("compressor {} is not known", self.bytes[2] >> 5))),
        }
    }

    /// Return the number of blocks.
    pub(super) fn blocks(&self) -> usize {
        self.content.div_ceil(self.block)
    }

    /// Return the bytes of content in block `index`.
    pub(super) fn block_size(&self, index: usize) -> usize {
        self.block.min(self.content - index * self.block)
    }

    /// Return the end of the table of blocks.
    pub(super) fn table_end(&self) -> u64 {
        SIZE as u64 + 4 * self.blocks() as u64
    }

    /// Read the start of block `index` from the table; `head` is the frame at least up to the end of its table.
    pub(super) fn start(&self, head: &[u8], index: usize) -> Result<usize> {
        let entry = head.get(SIZE + 4 * index..).and_then(<[u8]>::first_chunk::<4>);
        match entry.map(|bytes| u64::from(u32::from_le_bytes(*bytes))) {
            Some(start) if start >= self.table_end() && start + 4 <= self.total as u64 => Ok(start as usize),
            _ => Err(damaged("a block lies outside the frame")),
        }
    }

    /// Return the filter of a block of `length` bytes.
    pub(super) fn filter(&self, length: usize) -> Option<Filter> {
        filter(self.bytes[2], self.typesize, length)
    }

    /// Return the number of streams of block `index`.
    ///
    /// The flag alone is not sufficient: writers older than the flag leave it unset.
    pub(super) fn streams(&self, index: usize) -> Result<usize> {
        let length = self.block_size(index);
        let splits = self.bytes[2] & ONE_STREAM == 0
            && length == self.block
            && self.typesize <= MOST_SPLITS
            && length / self.typesize >= SHORTEST;
        if !splits {
            return Ok(1);
        }
        if length % self.typesize != 0 {
            return Err(damaged(format!("blocks of {length} bytes can not be split into {} streams", self.typesize)));
        }
        Ok(self.typesize)
    }
}

/// Return the filter that flags request for a block of `length` bytes.
pub(super) fn filter(flags: u8, typesize: usize, length: usize) -> Option<Filter> {
    if flags & BYTES_SHUFFLED != 0 && typesize > 1 {
        Some(Filter::Bytes)
    } else if flags & BITS_SHUFFLED != 0 && length >= typesize {
        Some(Filter::Bits)
    } else {
        None
    }
}

/// Make the error for a damaged frame.
#[cold]
pub(super) fn damaged(message: impl Into<String>) -> Error {
    Error::codec("blosc", message)
}
