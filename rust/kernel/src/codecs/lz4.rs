//! `lz4` [Int acceleration]: an LZ4 block behind its decoded size as a little-endian 32-bit integer.

use std::ffi::c_int;

use super::room::{Room, append};
use super::{Codec, Value};
use crate::{Error, Result};

const NAME: &str = "lz4";
const HEADER: usize = 4;

/// A byte of a block stands for no more bytes than this.
const BEST_RATIO: usize = 255;

struct Lz4 {
    acceleration: c_int,
}

pub(super) fn build(options: &[Value]) -> Result<Box<dyn Codec>> {
    match options {
        [Value::Int(acceleration)] => match c_int::try_from(*acceleration) {
            Ok(acceleration) => Ok(Box::new(Lz4 { acceleration })),
            Err(_) => Err(Error::unsupported(NAME, "the acceleration does not fit 32 bits")),
        },
        _ => Err(Error::unsupported(NAME, "the options are not an acceleration")),
    }
}

/// Return the decoded size that the header tells, unless the data can't hold that much.
fn told(data: &[u8]) -> Result<usize> {
    let Some((&header, [_, ..])) = data.split_first_chunk::<HEADER>() else {
        return Err(Error::codec(NAME, "the data is truncated"));
    };
    let size = u32::from_le_bytes(header);
    let size = c_int::try_from(size).map_err(|_| Error::codec(NAME, "the data says it holds more than 2 GiB"))?;
    let size = size as usize; // not negative
    if size == 0 || size > data.len().saturating_mul(BEST_RATIO) {
        return Err(Error::codec(NAME, "the data says it holds more than it can, or nothing"));
    }
    Ok(size)
}

/// Decode into room of exactly the size that the header tells.
fn decode(data: &[u8], mut room: Room<'_>) -> Result<usize> {
    let size = room.len();
    let block = data.get(HEADER..).unwrap_or_default();
    let length = c_int::try_from(block.len()).map_err(|_| Error::codec(NAME, "there are more than 2 GiB"))?;
    // SAFETY: the library reads `length` bytes of the block and writes up to `size` bytes of the room, which `told` has
    // found to fit `c_int`.
    let found =
        unsafe { lz4_sys::LZ4_decompress_safe(block.as_ptr().cast(), room.start().cast(), length, size as c_int) };
    if usize::try_from(found) == Ok(size) {
        Ok(size)
    } else {
        Err(Error::codec(NAME, "the compressed data is damaged"))
    }
}

impl Codec for Lz4 {
    fn name(&self) -> &str {
        NAME
    }

    fn decoded_size(&self, data: &[u8]) -> Result<Option<usize>> {
        told(data).map(Some)
    }

    fn is_slow(&self) -> bool {
        false
    }

    fn decode(&self, data: &[u8], out: &mut [u8]) -> Result<()> {
        let size = told(data)?;
        if size != out.len() {
            return Err(Error::wrong_size(NAME, size, out.len()));
        }
        decode(data, Room::of(out)).map(drop)
    }

    fn decode_up_to(&self, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let size = told(data)?;
        if size > limit {
            return Err(Error::wrong_size(NAME, size, limit));
        }
        out.clear();
        // SAFETY: the library has written as many bytes as it says.
        unsafe { append(out, size, |room| decode(data, room)) }
    }

    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let too_large = || Error::codec(NAME, "the data is larger than 2113929216 bytes");
        let size = c_int::try_from(data.len()).map_err(|_| too_large())?;
        // SAFETY: the function computes a number.
        let bound = unsafe { lz4_sys::LZ4_compressBound(size) };
        if bound <= 0 {
            return Err(too_large());
        }
        let work = |mut room: Room<'_>| {
            room.put(&size.to_le_bytes());
            let mut rest = room.after(HEADER);
            // SAFETY: the library reads `size` bytes of the data and writes up to `bound` bytes, for which there is room.
            let found = unsafe {
                let (from, to) = (data.as_ptr().cast(), rest.start().cast());
                lz4_sys::LZ4_compress_fast(from, to, size, bound, self.acceleration)
            };
            match usize::try_from(found) {
                Ok(found) if found > 0 => Ok(HEADER + found),
                _ => Err(Error::codec(NAME, "the data can't be compressed")),
            }
        };
        out.clear();
        // SAFETY: the header and as many bytes as the library says have been written.
        unsafe { append(out, HEADER + bound as usize, work) }
    }
}
