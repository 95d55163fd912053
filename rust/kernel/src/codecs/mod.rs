//! Bytes-to-bytes codecs. `chain` applies them; it also does the earlier steps of a chain: axis order, byte order, shards.

mod blosc;
mod blpk;
mod bz2;
pub(crate) mod checksums;
mod deflate;
mod filters;
mod libraries;
mod lz4;
mod lz4block;
mod lzma;
mod n5;
mod options;
mod output_buffer;

pub mod sequence;
mod streams;
pub mod vlen;
mod zstd;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::Result;

pub use options::{BloscOptions, Number, Options};

/// A bytes-to-bytes codec. It holds no state: contexts and buffers are cached by each thread (`thread_local!`), so that
/// all threads share one codec.
///
/// Decoders do not trust their input: every length is checked against the available bytes before anything is allocated
/// or written, and any input ends in `Ok` or `Err` in bounded time.
pub trait Codec: Send + Sync {
    /// Return the name of the codec, for errors.
    fn name(&self) -> &str;

    /// Return the encoded size of `size` bytes, if it does not depend on their values.
    fn encoded_size(&self, _size: usize) -> Option<usize> {
        None
    }

    /// Return the decoded size of `data`, if it is known without decoding.
    fn decoded_size(&self, _data: &[u8]) -> Result<Option<usize>> {
        Ok(None)
    }

    /// Return the decoded size of a whole chain that ends with this codec, if it is known from the first 256 of `total`
    /// encoded bytes.
    fn content_size(&self, _head: &[u8], _total: u64) -> Result<Option<usize>> {
        Ok(None)
    }

    /// Decode to exactly `out.len()` bytes. The content of `out` is undefined after an error.
    fn decode(&self, data: &[u8], out: &mut [u8]) -> Result<()>;

    /// Decode as `decode` does, but only the first `needed` bytes have to be correct: the others are undefined, and damage
    /// to them need not be noticed.
    fn decode_beginning(&self, data: &[u8], _needed: usize, out: &mut [u8]) -> Result<()> {
        self.decode(data, out)
    }

    /// Decode to at most `limit` bytes, which replace the content of `out`.
    fn decode_up_to(&self, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()>;

    /// Return whether decoding is much slower than copying memory (several nanoseconds per byte).
    fn is_slow(&self) -> bool {
        true
    }

    /// Encode; the result replaces the content of `out`.
    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()>;

    /// Encode to the same bytes as `encode`, with up to `threads` threads if that is faster.
    fn encode_by(&self, data: &[u8], _threads: usize, out: &mut Vec<u8>) -> Result<()> {
        self.encode(data, out)
    }

    /// Encode content that differs from that of `old` only in some blocks: the encoded bytes of all others are kept. `None`
    /// if the whole content has to be encoded.
    ///
    /// `table` is the table of blocks of `old`, `changed` are the numbers of the changed blocks, in order. Only these
    /// blocks of `content` are read. The result is the encoded data in pieces, which are parts of `old` and `out`.
    fn replace<'o>(
        &self,
        _old: &'o [u8],
        _table: &BlockTable,
        _changed: &[usize],
        _content: &[u8],
        _threads: usize,
        _out: &'o mut Vec<u8>,
    ) -> Result<Option<Vec<&'o [u8]>>> {
        Ok(None)
    }

    /// Return the decoded bytes if they are a part of `data`, after checking them (checksums, containers).
    fn payload<'a>(&self, _data: &'a [u8]) -> Option<Result<&'a [u8]>> {
        None
    }

    /// Return the interface for decoding single blocks, if the codec has one.
    fn blocks(&self) -> Option<&dyn Blocks> {
        None
    }
}

/// A codec whose content consists of blocks that can be decoded separately (Blosc).
pub trait Blocks: Send + Sync {
    /// Return how many bytes of the encoded data to read first in order to locate its blocks.
    fn head_size(&self, content: usize) -> usize;

    /// Locate the blocks.
    ///
    /// `head` is the beginning of the encoded data (all of it, if it is short), `total` its length, and `content` the
    /// decoded size. If `head` is too short the result is `Layout::More`.
    fn layout(&self, head: &[u8], total: u64, content: usize) -> Result<Layout>;

    /// Decode block `index` from its encoded bytes (`layout.ranges[index]`) to `out`, which has exactly its length.
    ///
    /// Only the bytes `needed` of the block have to be decoded; the rest of `out` is undefined.
    fn decode_block(
        &self,
        layout: &BlockTable,
        index: usize,
        data: &[u8],
        needed: Range<usize>,
        out: &mut [u8],
    ) -> Result<()>;
}

/// The layout of encoded data, as far as the head shows it.
#[derive(Debug)]
pub enum Layout {
    /// The head is too short; it has to be this long, in bytes.
    More(usize),
    /// The content is stored uncompressed at this offset.
    Plain(u64),
    /// The location of the blocks.
    Blocks(BlockTable),
    /// The content has to be decoded as a whole.
    Whole,
}

/// The location of the blocks of encoded data.
#[derive(Debug)]
pub struct BlockTable {
    /// Bytes of content in each block; the last may be shorter.
    pub block: usize,
    /// Bytes of content in all blocks.
    pub content: usize,
    /// For each block, a range of the encoded data that includes all of it.
    pub ranges: Vec<(u64, u64)>,
    /// The header, for the codec.
    pub header: [u8; 16],
}

impl BlockTable {
    /// Return the bytes of content in block `index`.
    pub fn len(&self, index: usize) -> usize {
        self.block.min(self.content - index * self.block)
    }

    /// Return whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// Build a codec.
///
/// # Errors
///
/// `Unsupported` if an option is out of range.
pub fn build(options: &Options) -> Result<Box<dyn Codec>> {
    match options {
        Options::Adler32 { at_start } => Ok(checksums::build("adler32", *at_start)),
        Options::BitRound { keepbits, dtype } => filters::bitround::build(*keepbits, dtype),
        Options::Blosc(options) => blosc::build(options),
        Options::Blpk => Ok(blpk::build()),
        Options::Bz2 { level } => bz2::build(*level),
        Options::Crc32 { at_start } => Ok(checksums::build("crc32", *at_start)),
        Options::Crc32c { at_start } => Ok(checksums::build("crc32c", *at_start)),
        Options::Delta { dtype, astype } => filters::delta::build(dtype, astype),
        Options::FixedScaleOffset { offset, scale, dtype, astype } => {
            filters::scale::build_fixed(*offset, *scale, dtype, astype)
        }
        Options::Fletcher32 => Ok(checksums::build("fletcher32", false)),
        Options::Gzip { level } => deflate::build(true, *level),
        Options::Lz4 { acceleration } => lz4::build(*acceleration),
        Options::Lz4Block { size } => lz4block::build(*size),
        Options::Lzma { container, check, preset } => lzma::build(*container, *check, *preset),
        Options::N5 { shape, itemsize, codecs } => n5::build(shape, *itemsize, codecs),
        Options::PackBits => Ok(filters::packbits::build()),
        Options::Quantize { digits, dtype, astype } => filters::scale::build_quantize(*digits, dtype, astype),
        Options::Shuffle { elementsize } => filters::shuffle::build(*elementsize),
        Options::Zlib { level } => deflate::build(false, *level),
        Options::Zstd { level, checksum } => zstd::build(*level, *checksum),
    }
}

/// The names of the codecs.
pub const NAMES: &[&str] = &[
    "adler32",
    "bitround",
    "blosc",
    "blpk",
    "bz2",
    "crc32",
    "crc32c",
    "delta",
    "fixedscaleoffset",
    "fletcher32",
    "gzip",
    "lz4",
    "lz4block",
    "lzma",
    "n5_default",
    "packbits",
    "quantize",
    "shuffle",
    "zlib",
    "zstd",
];

/// Return the versions of the libraries, as they report them.
pub fn versions() -> BTreeMap<&'static str, String> {
    let number = |number: u32| format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
    BTreeMap::from([("lz4", number(libraries::lz4::version())), ("zstd", number(libraries::zstd::version()))])
}

/// Return the instruction sets that the kernel uses on this machine.
pub fn features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let found = if is_x86_feature_detected!("avx2") { vec!["sse2", "avx2"] } else { vec!["sse2"] };
    #[cfg(target_arch = "aarch64")]
    let found = vec!["neon"];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let found = Vec::new();
    found
}
