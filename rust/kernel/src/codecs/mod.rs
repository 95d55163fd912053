//! Codecs that make bytes of bytes. What comes before them in a chain (the order of axes and of bytes, shards) is
//! no codec here but a matter of strides; see `array`.

mod blosc;
mod blpk;
mod bz2;
pub(crate) mod checksums;
mod deflate;
mod filters;
mod lz4;
mod lzma;
mod room;
mod streams;
pub mod vlen;
mod zstd;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::{Error, Result};

/// One member of a codec's configuration; the module of each codec says which it takes, in which order.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing, or a default.
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A name, or a data type as NumPy spells it (`<u2`).
    Text(String),
}

/// A codec that makes bytes of bytes. It holds no state: contexts and buffers that are worth keeping belong to the
/// thread (`thread_local!`), so that one codec serves all threads.
///
/// Decoders trust nothing: every length is checked against the bytes that are there before anything is allocated or
/// written, and whatever comes in ends in `Ok` or `Err`, soon.
pub trait Codec: Send + Sync {
    /// The name for errors.
    fn name(&self) -> &str;

    /// How many bytes `size` bytes take once encoded, if that does not depend on their values.
    fn encoded_size(&self, _size: usize) -> Option<usize> {
        None
    }

    /// How many bytes `data` decodes to, as far as it can be told without decoding.
    fn decoded_size(&self, _data: &[u8]) -> Result<Option<usize>> {
        Ok(None)
    }

    /// How many bytes the whole chain decodes to, as far as the first 256 bytes tell of `total` that are encoded.
    fn content_size(&self, _head: &[u8], _total: u64) -> Result<Option<usize>> {
        Ok(None)
    }

    /// Decode into exactly `out.len()` bytes; anything else is an error. `out` may hold anything before, and after an error.
    fn decode(&self, data: &[u8], out: &mut [u8]) -> Result<()>;

    /// Decode what may be up to `limit` bytes long, replacing what `out` holds.
    fn decode_up_to(&self, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()>;

    /// Whether decoding is slow next to copying memory (several nanoseconds a byte).
    fn is_slow(&self) -> bool {
        true
    }

    /// Encode, replacing what `out` holds.
    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()>;

    /// As `encode`, to the same bytes, by up to `threads` threads if there is enough to do for them.
    fn encode_by(&self, data: &[u8], _threads: usize, out: &mut Vec<u8>) -> Result<()> {
        self.encode(data, out)
    }

    /// Encode content that differs from that of `old` only in some blocks: these are encoded anew, the others stay as they
    /// are encoded. `None` if everything had better be encoded anew.
    ///
    /// `table` is what the layout of `old` says, `changed` are the numbers of blocks, in order. Of `content` only these
    /// blocks are looked at. The result is the encoded data in pieces, which are parts of `old` and `out`.
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

    /// What `data` holds for the codec before, where it is there to be borrowed, once it is checked (checksums).
    fn payload<'a>(&self, _data: &'a [u8]) -> Option<Result<&'a [u8]>> {
        None
    }

    /// The codec's way to decode parts of its content, if it has one.
    fn blocks(&self) -> Option<&dyn Blocks> {
        None
    }
}

/// Codecs whose content is made of blocks that can be decoded on their own (Blosc).
pub trait Blocks: Send + Sync {
    /// How many bytes from the start of the encoded data are worth reading first to know where its blocks are.
    fn head_size(&self, content: usize) -> usize;

    /// Find the blocks.
    ///
    /// `head` is the beginning of the encoded data (all of it, if it is short); `total` its whole length. `content` is
    /// how many bytes it has to decode to. Where `head` does not reach far enough the answer is `Layout::More`.
    fn layout(&self, head: &[u8], total: u64, content: usize) -> Result<Layout>;

    /// Decode block `index` from its encoded bytes (`layout.ranges[index]`) into `out`, of exactly its length.
    ///
    /// Of its content only the bytes `needed` are asked for; the rest of `out` holds anything afterwards.
    fn decode_block(
        &self,
        layout: &BlockTable,
        index: usize,
        data: &[u8],
        needed: Range<usize>,
        out: &mut [u8],
    ) -> Result<()>;
}

/// What the head of encoded data tells about its blocks.
#[derive(Debug)]
pub enum Layout {
    /// So many bytes of the head are needed to tell.
    More(usize),
    /// The content is not encoded: it lies at this offset as it is.
    Plain(u64),
    /// Where the blocks are.
    Blocks(BlockTable),
}

/// Where the blocks of encoded data are.
#[derive(Debug)]
pub struct BlockTable {
    /// Bytes of content in each block but perhaps the last.
    pub block: usize,
    /// Bytes of content in all.
    pub content: usize,
    /// For each block the range of encoded data that holds all of it (it may hold more).
    pub ranges: Vec<(u64, u64)>,
    /// What the codec wants to remember of the header.
    pub header: [u8; 16],
}

impl BlockTable {
    /// Bytes of content in block `index`.
    pub fn len(&self, index: usize) -> usize {
        self.block.min(self.content - index * self.block)
    }

    /// Whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// Build the codec called `name` from its options.
pub fn build(name: &str, options: &[Value]) -> Result<Box<dyn Codec>> {
    match name {
        "blosc" => blosc::build(options),
        "blpk" => blpk::build(options),
        "bz2" => bz2::build(options),
        "crc32c" | "crc32" | "adler32" | "fletcher32" => checksums::build(name, options),
        "gzip" | "zlib" => deflate::build(name, options),
        "shuffle" | "delta" | "fixedscaleoffset" | "quantize" | "bitround" | "packbits" => {
            filters::build(name, options)
        }
        "lz4" => lz4::build(options),
        "lzma" => lzma::build(options),
        "zstd" => zstd::build(options),
        _ => Err(Error::unsupported(name, "the kernel has no such codec")),
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
    "lzma",
    "packbits",
    "quantize",
    "shuffle",
    "zlib",
    "zstd",
];

/// The versions of the libraries within, as they tell them themselves.
pub fn versions() -> BTreeMap<&'static str, String> {
    let number = |number: u32| format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
    // SAFETY: these functions take nothing and give numbers.
    let (lz4, zstd) = unsafe { (lz4_sys::LZ4_versionNumber() as u32, zstd_sys::ZSTD_versionNumber()) };
    BTreeMap::from([("lz4", number(lz4)), ("zstd", number(zstd))])
}

/// The instruction sets that are used where they pay.
pub fn features() -> Vec<&'static str> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        found.push("sse2");
        if is_x86_feature_detected!("avx2") {
            found.push("avx2");
        }
    }
    #[cfg(target_arch = "aarch64")]
    found.push("neon");
    found
}
