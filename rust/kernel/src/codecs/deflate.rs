//! `gzip` and `zlib`: DEFLATE in its two containers (RFC 1952 and RFC 1950), by libdeflate.
//!
//! There may be several gzip members in a row, but only one zlib stream. Zero bytes may follow each.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;

use super::Codec;
use super::libraries::deflate::{Container, Decoder, Encoder, Failure};
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

thread_local! {
    static DECODER: Cell<Option<Decoder>> = const { Cell::new(None) };
    static ENCODERS: RefCell<[Option<Encoder>; 13]> = const { RefCell::new([const { None }; 13]) };
}

fn decoder() -> Result<Decoder> {
    if let Some(decoder) = DECODER.take() {
        return Ok(decoder);
    }
    Decoder::new().ok_or(Error::Memory { bytes: FIRST })
}

fn encoder(level: usize) -> Result<Encoder> {
    if let Some(encoder) = ENCODERS.with_borrow_mut(|kept| kept[level].take()) {
        return Ok(encoder);
    }
    Encoder::new(level as c_int).ok_or(Error::Memory { bytes: 1 << 20 })
}

impl Deflate {
    fn container(&self) -> Container {
        if self.gzip { Container::Gzip } else { Container::Zlib }
    }

    /// Decode one member or stream into a buffer; return its length.
    fn decode_member(
        &self,
        decoder: &mut Decoder,
        data: &[u8],
        buffer: &mut OutputBuffer<'_>,
    ) -> std::result::Result<usize, Failure> {
        let mut length = 0;
        buffer.fill(|out| {
            let (made, taken) = decoder.decode(self.container(), data, out)?;
            length = taken;
            Ok(made)
        })?;
        Ok(length)
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
        let size = out.len();
        let mut buffer = OutputBuffer::new(out);
        let mut decoder = decoder()?;
        loop {
            match self.decode_member(&mut decoder, data, &mut buffer) {
                Ok(length) => data = self.following(data.get(length..).unwrap_or_default())?,
                Err(Failure::Short) => return Err(self.too_long(size)),
                Err(Failure::Damaged) => return Err(self.damaged()),
            }
            if data.is_empty() {
                break;
            }
        }
        DECODER.set(Some(decoder));
        let done = buffer.filled();
        if done == size { Ok(()) } else { Err(Error::wrong_size(self.name(), done, size)) }
    }

    fn decode_up_to(&self, mut data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let mut decoder = decoder()?;
        out.clear();
        let mut guess = self.guess(data);
        loop {
            let most = (limit - out.len()).min(data.len().saturating_mul(BEST_RATIO));
            let size = guess.min(most);
            match append(out, size, |buffer| Ok(self.decode_member(&mut decoder, data, buffer)))? {
                Ok(length) => data = self.following(data.get(length..).unwrap_or_default())?,
                Err(Failure::Short) if size < most => guess = size.saturating_mul(4).max(FIRST),
                Err(Failure::Short) => return Err(self.too_long(limit)),
                Err(Failure::Damaged) => return Err(self.damaged()),
            }
            if data.is_empty() {
                break;
            }
        }
        DECODER.set(Some(decoder));
        Ok(())
    }

    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut encoder = encoder(self.level)?;
        out.clear();
        append(out, encoder.bound(self.container(), data.len()), |buffer| {
            match buffer.fill(|out| Ok::<_, Error>(encoder.encode(self.container(), data, out)))? {
                0 => Err(Error::codec(self.name(), "the data can't be compressed")),
                _ => Ok(()),
            }
        })?;
        ENCODERS.with_borrow_mut(|kept| kept[self.level] = Some(encoder));
        Ok(())
    }
}
