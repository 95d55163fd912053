//! `lz4`: an LZ4 block after its decoded size, a little-endian 32-bit integer.

use std::ffi::c_int;

use super::Codec;
use super::libraries::lz4;
use super::output_buffer::{OutputBuffer, append};
use crate::{Error, Result};

const NAME: &str = "lz4";
const HEADER: usize = 4;

/// Largest decoded size of one byte of a block, in bytes.
const BEST_RATIO: usize = 255;

struct Lz4 {
    acceleration: c_int,
}

pub(super) fn build(acceleration: i64) -> Result<Box<dyn Codec>> {
    match c_int::try_from(acceleration) {
        Ok(acceleration) => Ok(Box::new(Lz4 { acceleration })),
        Err(_) => Err(Error::unsupported(NAME, "the acceleration does not fit 32 bits")),
    }
}

/// Return the decoded size in the header, after checking it against the length of the data.
fn reported_size(data: &[u8]) -> Result<usize> {
    let Some((&header, [_, ..])) = data.split_first_chunk::<HEADER>() else {
        return Err(Error::codec(NAME, "the data is truncated"));
    };
    let size = u32::from_le_bytes(header);
    let size = c_int::try_from(size).map_err(|_| Error::codec(NAME, "the header reports more than 2 GiB"))?;
    let size = size as usize; // not negative
    if size == 0 || size > data.len().saturating_mul(BEST_RATIO) {
        return Err(Error::codec(NAME, "the header reports an impossible size"));
    }
    Ok(size)
}

/// Decode into a buffer of exactly the size in the header.
fn decode(data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()> {
    let block = data.get(HEADER..).unwrap_or_default();
    c_int::try_from(block.len()).map_err(|_| Error::codec(NAME, "the data is longer than 2 GiB"))?;
    let damaged = || Error::codec(NAME, "the compressed data is damaged");
    buffer.fill(|out| lz4::decode(block, out).ok_or_else(damaged))?;
    if buffer.left() == 0 { Ok(()) } else { Err(damaged()) }
}

impl Codec for Lz4 {
    fn name(&self) -> &str {
        NAME
    }

    fn decoded_size(&self, data: &[u8]) -> Result<Option<usize>> {
        reported_size(data).map(Some)
    }

    fn is_slow(&self) -> bool {
        false
    }

    fn decode(&self, data: &[u8], out: &mut [u8]) -> Result<()> {
        let size = reported_size(data)?;
        if size != out.len() {
            return Err(Error::wrong_size(NAME, size, out.len()));
        }
        decode(data, &mut OutputBuffer::new(out))
    }

    fn decode_up_to(&self, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let size = reported_size(data)?;
        if size > limit {
            return Err(Error::wrong_size(NAME, size, limit));
        }
        out.clear();
        append(out, size, |buffer| decode(data, buffer))
    }

    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let too_large = || Error::codec(NAME, "the data is larger than 2113929216 bytes");
        let size = c_int::try_from(data.len()).map_err(|_| too_large())?;
        let bound = lz4::bound(size).ok_or_else(too_large)?;
        let failed = || Error::codec(NAME, "the data can't be compressed");
        out.clear();
        append(out, HEADER + bound, |buffer| {
            buffer.write(&size.to_le_bytes());
            match buffer.fill(|out| lz4::encode(data, self.acceleration, out).ok_or_else(failed))? {
                0 => Err(failed()),
                _ => Ok(()),
            }
        })
    }
}
