//! `gzip` and `zlib`: DEFLATE in its two containers (RFC 1952 and RFC 1950), by libdeflate.
//!
//! There may be several gzip members in a row, but only one zlib stream. Zero bytes may follow each.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::ptr::NonNull;

use libdeflate_sys::{libdeflate_compressor, libdeflate_decompressor};

use super::Codec;
use super::output_buffer::{OutputBuffer, append};
use crate::{Error, Result};

/// For each level of zlib, the level of libdeflate that is faster and compresses a mixture of numbers and text as well.
const LEVELS: [usize; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 7, 10];
const DEFAULT_LEVEL: i64 = 6;

/// Largest decoded size of one byte of DEFLATE, in bytes.
const BEST_RATIO: usize = 1032;

/// Initial output size where the decoded size is not known, in bytes.
const FIRST: usize = 64 * 1024;

struct Deflate {
    gzip: bool,
    level: usize,
}

pub(super) fn build(gzip: bool, level: i64) -> Result<Box<dyn Codec>> {
    let level = if level == -1 { DEFAULT_LEVEL } else { level };
    match usize::try_from(level).ok().and_then(|level| LEVELS.get(level)) {
        Some(&level) => Ok(Box::new(Deflate { gzip, level })),
        None => Err(Error::unsupported(if gzip { "gzip" } else { "zlib" }, "the level is not from 0 to 9")),
    }
}

struct Decoder(NonNull<libdeflate_decompressor>);
struct Encoder(NonNull<libdeflate_compressor>);

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: the decompressor came from the library, and is owned.
        unsafe { libdeflate_sys::libdeflate_free_decompressor(self.0.as_ptr()) };
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: the compressor came from the library, and is owned.
        unsafe { libdeflate_sys::libdeflate_free_compressor(self.0.as_ptr()) };
    }
}

thread_local! {
    static DECODER: Cell<Option<Decoder>> = const { Cell::new(None) };
    static ENCODERS: RefCell<[Option<Encoder>; 13]> = const { RefCell::new([const { None }; 13]) };
}

fn decoder() -> Result<Decoder> {
    if let Some(decoder) = DECODER.take() {
        return Ok(decoder);
    }
    // SAFETY: the function only allocates; it returns null if that fails.
    let made = unsafe { libdeflate_sys::libdeflate_alloc_decompressor() };
    NonNull::new(made).map(Decoder).ok_or(Error::Memory { bytes: FIRST })
}

fn encoder(level: usize) -> Result<Encoder> {
    if let Some(encoder) = ENCODERS.with_borrow_mut(|kept| kept[level].take()) {
        return Ok(encoder);
    }
    // SAFETY: the function only allocates; it returns null if that fails.
    let made = unsafe { libdeflate_sys::libdeflate_alloc_compressor(level as c_int) };
    NonNull::new(made).map(Encoder).ok_or(Error::Memory { bytes: 1 << 20 })
}

/// The result of decoding one member or stream.
enum Found {
    /// Bytes of input consumed, and bytes of output written.
    Member(usize, usize),
    /// The output buffer is too small.
    Short,
    /// The data is damaged.
    Damaged,
}

impl Deflate {
    fn decode_member(&self, decoder: &mut Decoder, data: &[u8], mut buffer: OutputBuffer<'_>) -> Found {
        let inflate = if self.gzip {
            libdeflate_sys::libdeflate_gzip_decompress_ex
        } else {
            libdeflate_sys::libdeflate_zlib_decompress_ex
        };
        let (mut consumed, mut produced) = (0, 0);
        // SAFETY: the decompressor is owned, and the library keeps to the given addresses and sizes.
        let result = unsafe {
            let (from, to) = (data.as_ptr().cast(), buffer.as_mut_ptr().cast());
            inflate(decoder.0.as_ptr(), from, data.len(), to, buffer.len(), &mut consumed, &mut produced)
        };
        match result {
            libdeflate_sys::libdeflate_result_LIBDEFLATE_SUCCESS => Found::Member(consumed, produced),
            libdeflate_sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => Found::Short,
            _ => Found::Damaged,
        }
    }

    /// Return the data after a member and the zeros that follow it: empty, or another member.
    fn following<'a>(&self, data: &'a [u8]) -> Result<&'a [u8]> {
        let rest = &data[data.iter().take_while(|&&byte| byte == 0).count()..];
        if self.gzip || rest.is_empty() {
            Ok(rest)
        } else {
            Err(Error::codec(self.name(), format!("{} bytes follow the compressed data", data.len())))
        }
    }

    #[cold]
    fn damaged(&self) -> Error {
        Error::codec(self.name(), "the compressed data is truncated or damaged")
    }

    #[cold]
    fn too_long(&self, limit: usize) -> Error {
        Error::codec(self.name(), format!("there are more than {limit} bytes"))
    }

    /// Estimate the decoded size of `data`; gzip has the size of the last member at its end, modulo 2^32.
    fn guess(&self, data: &[u8]) -> usize {
        let reported = if self.gzip { data.last_chunk::<4>().map_or(0, |size| u32::from_le_bytes(*size)) } else { 0 };
        match usize::try_from(reported) {
            Ok(reported) if reported > 0 => reported,
            _ => data.len().saturating_mul(4).max(FIRST),
        }
    }
}

impl Codec for Deflate {
    fn name(&self) -> &str {
        if self.gzip { "gzip" } else { "zlib" }
    }

    fn decode(&self, mut data: &[u8], out: &mut [u8]) -> Result<()> {
        let (size, mut done) = (out.len(), 0);
        let mut buffer = OutputBuffer::new(out);
        let mut decoder = decoder()?;
        loop {
            match self.decode_member(&mut decoder, data, buffer.skip(done)) {
                Found::Member(consumed, produced) => {
                    done += produced;
                    data = self.following(data.get(consumed..).unwrap_or_default())?;
                }
                Found::Short => return Err(self.too_long(size)),
                Found::Damaged => return Err(self.damaged()),
            }
            if data.is_empty() {
                break;
            }
        }
        DECODER.set(Some(decoder));
        if done == size { Ok(()) } else { Err(Error::wrong_size(self.name(), done, size)) }
    }

    fn decode_up_to(&self, mut data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let mut decoder = decoder()?;
        out.clear();
        let mut guess = self.guess(data);
        loop {
            let most = (limit - out.len()).min(data.len().saturating_mul(BEST_RATIO));
            let size = guess.min(most);
            let mut found = Found::Damaged;
            // SAFETY: the library has written as many bytes as it reports.
            unsafe {
                append(out, size, |buffer| {
                    found = self.decode_member(&mut decoder, data, buffer);
                    Ok(if let Found::Member(_, produced) = found { produced } else { 0 })
                })?;
            }
            match found {
                Found::Member(consumed, _) => data = self.following(data.get(consumed..).unwrap_or_default())?,
                Found::Short if size < most => guess = size.saturating_mul(4).max(FIRST),
                Found::Short => return Err(self.too_long(limit)),
                Found::Damaged => return Err(self.damaged()),
            }
            if data.is_empty() {
                break;
            }
        }
        DECODER.set(Some(decoder));
        Ok(())
    }

    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let encoder = encoder(self.level)?;
        let (compress, bound) = if self.gzip {
            // SAFETY: the function only computes a number.
            (libdeflate_sys::libdeflate_gzip_compress as unsafe extern "C" fn(_, _, _, _, _) -> _, unsafe {
                libdeflate_sys::libdeflate_gzip_compress_bound(encoder.0.as_ptr(), data.len())
            })
        } else {
            // SAFETY: the function only computes a number.
            (libdeflate_sys::libdeflate_zlib_compress as unsafe extern "C" fn(_, _, _, _, _) -> _, unsafe {
                libdeflate_sys::libdeflate_zlib_compress_bound(encoder.0.as_ptr(), data.len())
            })
        };
        out.clear();
        // SAFETY: the compressor is owned, and the library keeps to the given addresses and sizes and has written as many
        // bytes as it reports.
        unsafe {
            append(out, bound, |mut buffer| {
                let (from, to) = (data.as_ptr().cast(), buffer.as_mut_ptr().cast());
                match compress(encoder.0.as_ptr(), from, data.len(), to, buffer.len()) {
                    0 => Err(Error::codec(self.name(), "the data can't be compressed")),
                    size => Ok(size),
                }
            })?;
        }
        ENCODERS.with_borrow_mut(|kept| kept[self.level] = Some(encoder));
        Ok(())
    }
}
