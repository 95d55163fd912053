//! `zstd`: Zstandard frames (RFC 8878).
//!
//! The header of a frame usually has the decoded size. Its blocks, each of at most 128 KiB, give an upper limit: every
//! frame is traversed before the library decodes it, so that no header has to be trusted.

use std::cell::Cell;
use std::ffi::c_int;

use super::Codec;
use super::libraries::zstd::{Decoder, Encoder, bound};
use super::output_buffer::{OutputBuffer, append};
use crate::memory::as_uninit_mut;
use crate::pool::Spare;
use crate::{Error, Result};

const NAME: &str = "zstd";
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const BLOCK: usize = 128 * 1024;

/// Larger contexts (of the highest levels) are not cached, in bytes.
const KEPT: usize = 32 << 20;

struct Zstd {
    level: c_int,
    checksum: bool,
}

pub(super) fn build(level: i64, checksum: bool) -> Result<Box<dyn Codec>> {
    match level {
        -131_072..=22 => Ok(Box::new(Zstd { level: level as c_int, checksum })),
        _ => Err(Error::unsupported(NAME, "the level is not from -131072 to 22")),
    }
}

/// A frame before it is decoded.
struct Frame<'a> {
    data: &'a [u8],
    /// The decoded size in the header, if it has one.
    known: Option<usize>,
    /// Upper limit of the decoded size, by the blocks.
    bound: usize,
}

impl Frame<'_> {
    fn has_checksum(&self) -> bool {
        self.data.get(4).is_none_or(|descriptor| descriptor & 4 != 0)
    }
}

#[cold]
fn truncated() -> Error {
    Error::codec(NAME, "the frame is truncated")
}

/// Read a little-endian integer of up to 8 bytes.
fn number(data: &[u8], position: usize, width: usize) -> Option<u64> {
    let field = data.get(position..position.checked_add(width)?)?;
    let mut bytes = [0; 8];
    bytes.get_mut(..width)?.copy_from_slice(field);
    Some(u64::from_le_bytes(bytes))
}

/// Split the next frame from `data`; `None` for a skippable frame.
fn next_frame<'a>(data: &mut &'a [u8]) -> Result<Option<Frame<'a>>> {
    let all = *data;
    // a skippable frame, or the magic number
    let &[a, b, c, d, descriptor, _, _, _, ..] = all else { return Err(truncated()) };
    if a >> 4 == 5 && [b, c, d] == [0x2a, 0x4d, 0x18] {
        let size = number(all, 4, 4).and_then(|size| usize::try_from(size).ok()).ok_or_else(truncated)?;
        *data = all[8..].get(size..).ok_or_else(truncated)?;
        return Ok(None);
    }
    if [a, b, c, d] != MAGIC {
        return Err(Error::codec(NAME, "this is not a frame"));
    }
    // the fields of the header: window descriptor, dictionary, content size
    let single = usize::from(descriptor >> 5 & 1);
    let start = 6 - single + [0, 1, 2, 4][usize::from(descriptor & 3)];
    let width = [single, 2, 4, 8][usize::from(descriptor >> 6)];
    let known = if width == 0 {
        None
    } else {
        let size = number(all, start, width).ok_or_else(truncated)?;
        let size = size.saturating_add(if width == 2 { 256 } else { 0 });
        Some(usize::try_from(size).unwrap_or(usize::MAX))
    };
    // the blocks, and perhaps a checksum
    let (end, bound) = traverse_blocks(all, start + width)?;
    let end = end + if descriptor & 4 == 0 { 0 } else { 4 };
    let (frame, rest) = all.split_at_checked(end).ok_or_else(truncated)?;
    if known.is_some_and(|known| known > bound) {
        return Err(Error::codec(NAME, "the size in the header exceeds that of the blocks"));
    }
    *data = rest;
    Ok(Some(Frame { data: frame, known, bound }))
}

/// Return the end of the blocks that begin at `position`, and the upper limit of their decoded size.
fn traverse_blocks(data: &[u8], mut position: usize) -> Result<(usize, usize)> {
    let mut bound = 0usize;
    loop {
        let header = number(data, position, 3).ok_or_else(truncated)? as usize; // 24 bits
        let (last, kind, size) = (header & 1 == 1, header >> 1 & 3, header >> 3);
        if kind == 3 || size > BLOCK {
            return Err(Error::codec(NAME, "the frame has a block of an unknown kind"));
        }
        bound = bound.saturating_add(if kind == 2 { BLOCK } else { size });
        position += 3 + if kind == 1 { 1 } else { size }; // not far beyond the data's end
        if last {
            return Ok((position, bound));
        }
    }
}

/// Contexts that threads leave to each other if only few threads work at the same time.
static DECODERS: Spare<Decoder> = Spare::empty();
static ENCODERS: Spare<Encoder> = Spare::empty();

thread_local! {
    static DECODER: Cell<Option<Decoder>> = const { Cell::new(None) };
    static ENCODER: Cell<Option<Encoder>> = const { Cell::new(None) };
}

fn decoder() -> Result<Decoder> {
    if let Some(decoder) = DECODERS.take().or_else(|| DECODER.take()) {
        return Ok(decoder);
    }
    Decoder::new().ok_or(Error::Memory { bytes: BLOCK })
}

fn encoder() -> Result<Encoder> {
    if let Some(encoder) = ENCODERS.take().or_else(|| ENCODER.take()) {
        return Ok(encoder);
    }
    Encoder::new().ok_or(Error::Memory { bytes: BLOCK })
}

/// Decode a frame into a buffer.
fn decode_frame(decoder: &mut Decoder, frame: &Frame<'_>, buffer: &mut OutputBuffer<'_>) -> Result<()> {
    let left = buffer.left();
    if frame.known.is_some_and(|known| known > left) {
        return Err(Error::codec(NAME, format!("the frames hold more than the chunk, of which {left} bytes are left")));
    }
    buffer.fill(|out| decoder.decode(frame.data, out))?;
    Ok(())
}

impl Codec for Zstd {
    fn name(&self) -> &str {
        NAME
    }

    fn decoded_size(&self, mut data: &[u8]) -> Result<Option<usize>> {
        let mut total = Some(0usize);
        while !data.is_empty() {
            if let Some(frame) = next_frame(&mut data)? {
                total = total.zip(frame.known).and_then(|(total, size)| total.checked_add(size));
            }
        }
        Ok(total)
    }

    fn decode(&self, mut data: &[u8], out: &mut [u8]) -> Result<()> {
        let size = out.len();
        let mut buffer = OutputBuffer::new(out);
        let mut decoder = decoder()?;
        while !data.is_empty() {
            if let Some(frame) = next_frame(&mut data)? {
                decode_frame(&mut decoder, &frame, &mut buffer)?;
            }
        }
        DECODER.set(DECODERS.give(decoder));
        let done = buffer.filled();
        if done == size { Ok(()) } else { Err(Error::wrong_size(NAME, done, size)) }
    }

    fn decode_beginning(&self, data: &[u8], needed: usize, out: &mut [u8]) -> Result<()> {
        let mut rest = data;
        let frame = if needed.div_ceil(BLOCK) < out.len().div_ceil(BLOCK) { next_frame(&mut rest)? } else { None };
        match frame {
            // a checksum can be compared only after all has been decoded
            Some(frame) if rest.is_empty() && frame.known == Some(out.len()) && !frame.has_checksum() => {
                let mut decoder = decoder()?;
                if !decoder.decode_beginning(frame.data, needed, as_uninit_mut(out))? {
                    return Err(truncated());
                }
                DECODER.set(DECODERS.give(decoder));
                Ok(())
            }
            _ => self.decode(data, out),
        }
    }

    fn decode_up_to(&self, mut data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let mut decoder = decoder()?;
        out.clear();
        while !data.is_empty() {
            if let Some(frame) = next_frame(&mut data)? {
                let size = frame.known.unwrap_or(frame.bound).min(limit - out.len());
                append(out, size, |buffer| decode_frame(&mut decoder, &frame, buffer))?;
            }
        }
        DECODER.set(DECODERS.give(decoder));
        Ok(())
    }

    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut encoder = encoder()?;
        encoder.set_options(self.level, self.checksum)?;
        out.clear();
        append(out, bound(data.len())?, |buffer| Ok(buffer.fill(|out| encoder.encode(data, out))?))?;
        if encoder.size() <= KEPT {
            ENCODER.set(ENCODERS.give(encoder));
        }
        Ok(())
    }
}
