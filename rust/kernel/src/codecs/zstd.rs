//! `zstd`: Zstandard frames (RFC 8878).
//!
//! The header of a frame usually has the decoded size. Its blocks, each of at most 128 KiB, give an upper limit: every
//! frame is traversed before the library decodes it, so that no header has to be trusted.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use zstd_sys::{
    ZSTD_CCtx, ZSTD_DCtx, ZSTD_ResetDirective, ZSTD_cParameter, ZSTD_dParameter, ZSTD_inBuffer, ZSTD_outBuffer,
};

use super::Codec;
use super::output_buffer::{OutputBuffer, append};
use crate::pool::Spare;
use crate::{Error, Result};

const NAME: &str = "zstd";
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const BLOCK: usize = 128 * 1024;

/// Encoded bytes that are decoded at once where only the beginning of a frame is needed.
const STEP: usize = 64 * 1024;

/// The library's cheapest way to find places to divide a block. With 0 the library chooses another, which takes a twelfth
/// more time for one per cent less output.
const SPLITTING: c_int = 2;

/// The logarithm of the largest window that the library supports.
const LARGEST_WINDOW: c_int = if usize::BITS == 64 { 31 } else { 30 };

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

/// A decoding context, freed with the thread.
struct Decoder(NonNull<ZSTD_DCtx>);

/// An encoding context, freed with the thread.
struct Encoder(NonNull<ZSTD_CCtx>);

// SAFETY: a context is owned, and not tied to a thread.
unsafe impl Send for Decoder {}
// SAFETY: as above.
unsafe impl Send for Encoder {}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: the context came from the library, and is owned.
        unsafe { zstd_sys::ZSTD_freeDCtx(self.0.as_ptr()) };
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: the context came from the library, and is owned.
        unsafe { zstd_sys::ZSTD_freeCCtx(self.0.as_ptr()) };
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
    // SAFETY: the function only allocates; it returns null if that fails.
    let made = unsafe { zstd_sys::ZSTD_createDCtx() };
    NonNull::new(made).map(Decoder).ok_or(Error::Memory { bytes: BLOCK })
}

fn encoder() -> Result<Encoder> {
    if let Some(encoder) = ENCODERS.take().or_else(|| ENCODER.take()) {
        return Ok(encoder);
    }
    // SAFETY: the function only allocates; it returns null if that fails.
    let made = unsafe { zstd_sys::ZSTD_createCCtx() };
    NonNull::new(made).map(Encoder).ok_or(Error::Memory { bytes: BLOCK })
}

/// Return the result of a library function, or the error for which it stands.
fn checked(found: usize) -> Result<usize> {
    // SAFETY: the functions only take a number; the name is a constant of the library.
    unsafe {
        if zstd_sys::ZSTD_isError(found) == 0 {
            return Ok(found);
        }
        let name = CStr::from_ptr(zstd_sys::ZSTD_getErrorName(found));
        Err(Error::codec(NAME, format!("libzstd reports: {}", name.to_string_lossy())))
    }
}

/// Decode a frame into a buffer; return the decoded size.
fn decode_frame(decoder: &mut Decoder, frame: &Frame<'_>, mut buffer: OutputBuffer<'_>) -> Result<usize> {
    let (data, size) = (frame.data, buffer.len());
    if frame.known.is_some_and(|known| known > size) {
        return Err(Error::codec(NAME, format!("the frames hold more than the chunk, of which {size} bytes are left")));
    }
    // SAFETY: the context is owned, and the library keeps to the given addresses and sizes.
    checked(unsafe {
        let (to, from) = (buffer.as_mut_ptr().cast(), data.as_ptr().cast());
        zstd_sys::ZSTD_decompressDCtx(decoder.0.as_ptr(), to, size, from, data.len())
    })
}

/// Decode the first `needed` bytes of a frame, and perhaps more, into a buffer as long as its whole content.
fn decode_beginning(decoder: &mut Decoder, data: &[u8], needed: usize, mut buffer: OutputBuffer<'_>) -> Result<()> {
    // SAFETY: the context is owned. With this option the library writes to one buffer, which has to last until the frame
    // ends; the context forgets it when the next operation resets it.
    unsafe {
        checked(zstd_sys::ZSTD_DCtx_reset(decoder.0.as_ptr(), ZSTD_ResetDirective::ZSTD_reset_session_only))?;
        let stable_output = ZSTD_dParameter::ZSTD_d_experimentalParam2;
        // the limit for windows limits memory, and windows take no memory here
        for (option, value) in [(stable_output, 1), (ZSTD_dParameter::ZSTD_d_windowLogMax, LARGEST_WINDOW)] {
            checked(zstd_sys::ZSTD_DCtx_setParameter(decoder.0.as_ptr(), option, value))?;
        }
    }
    let mut output = ZSTD_outBuffer { dst: buffer.as_mut_ptr().cast(), size: buffer.len(), pos: 0 };
    let mut input = ZSTD_inBuffer { src: data.as_ptr().cast(), size: 0, pos: 0 };
    while output.pos < needed {
        if input.size == data.len() && input.pos == input.size {
            return Err(truncated());
        }
        input.size = input.size.saturating_add(STEP).min(data.len());
        // SAFETY: the context is owned, and the library keeps to the given addresses and sizes.
        checked(unsafe { zstd_sys::ZSTD_decompressStream(decoder.0.as_ptr(), &mut output, &mut input) })?;
    }
    Ok(())
}

/// Set the options with which a context encodes the next frames.
///
/// # Safety
///
/// The context is alive, and no other thread uses it.
pub(super) unsafe fn set_options(context: *mut ZSTD_CCtx, level: c_int, checksum: bool) -> Result<()> {
    // After an error, such as too little room, the context is in the middle of a frame.
    // SAFETY: the caller guarantees the context.
    checked(unsafe { zstd_sys::ZSTD_CCtx_reset(context, ZSTD_ResetDirective::ZSTD_reset_session_only) })?;
    for (option, value) in [
        (ZSTD_cParameter::ZSTD_c_compressionLevel, level),
        (ZSTD_cParameter::ZSTD_c_checksumFlag, c_int::from(checksum)),
        (ZSTD_cParameter::ZSTD_c_experimentalParam20, SPLITTING),
    ] {
        // SAFETY: the caller guarantees the context.
        checked(unsafe { zstd_sys::ZSTD_CCtx_setParameter(context, option, value) })?;
    }
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
        let (size, mut done) = (out.len(), 0);
        let mut buffer = OutputBuffer::new(out);
        let mut decoder = decoder()?;
        while !data.is_empty() {
            if let Some(frame) = next_frame(&mut data)? {
                done += decode_frame(&mut decoder, &frame, buffer.skip(done))?;
            }
        }
        DECODER.set(DECODERS.give(decoder));
        if done == size { Ok(()) } else { Err(Error::wrong_size(NAME, done, size)) }
    }

    fn decode_beginning(&self, data: &[u8], needed: usize, out: &mut [u8]) -> Result<()> {
        let mut rest = data;
        let frame = if needed.div_ceil(BLOCK) < out.len().div_ceil(BLOCK) { next_frame(&mut rest)? } else { None };
        match frame {
            // a checksum can be compared only after all has been decoded
            Some(frame) if rest.is_empty() && frame.known == Some(out.len()) && !frame.has_checksum() => {
                let mut decoder = decoder()?;
                decode_beginning(&mut decoder, frame.data, needed, OutputBuffer::new(out))?;
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
                // SAFETY: the library has written as many bytes as it reports.
                unsafe { append(out, size, |buffer| decode_frame(&mut decoder, &frame, buffer))? };
            }
        }
        DECODER.set(DECODERS.give(decoder));
        Ok(())
    }

    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let encoder = encoder()?;
        // SAFETY: the context is owned.
        unsafe { set_options(encoder.0.as_ptr(), self.level, self.checksum)? };
        // SAFETY: the function only computes a number.
        let bound = checked(unsafe { zstd_sys::ZSTD_compressBound(data.len()) })?;
        out.clear();
        // SAFETY: the context is owned, and the library keeps to the given addresses and sizes and has written as many
        // bytes as it reports.
        unsafe {
            append(out, bound, |mut buffer| {
                let (to, from) = (buffer.as_mut_ptr().cast(), data.as_ptr().cast());
                checked(zstd_sys::ZSTD_compress2(encoder.0.as_ptr(), to, buffer.len(), from, data.len()))
            })?;
        }
        // SAFETY: the context is owned.
        if unsafe { zstd_sys::ZSTD_sizeof_CCtx(encoder.0.as_ptr()) } <= KEPT {
            ENCODER.set(ENCODERS.give(encoder));
        }
        Ok(())
    }
}
