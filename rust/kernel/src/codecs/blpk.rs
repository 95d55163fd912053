//! `blpk`: the container around the Blosc frame in each chunk file of bcolz 1.x.
//!
//! Its header has sixteen bytes: the magic `blpk`, a version, three reserved bytes and the number of frames, always one.
//! bcolz never checked the header, and neither does this codec: the frame states its own length, and bytes after it are
//! ignored.

use super::blosc::FrameBlocks;
use super::{Blocks, Codec};
use crate::{Error, Result};

const HEADER: [u8; 16] = *b"blpk\x01\0\0\0\x01\0\0\0\0\0\0\0";

/// Bytes of the header of a frame.
const FRAME: usize = 16;

struct Container;

pub(super) fn build() -> Box<dyn Codec> {
    Box::new(Container)
}

/// Return the frame in a chunk file.
fn frame(data: &[u8]) -> Result<&[u8]> {
    let Some(frame) = data.get(HEADER.len()..).filter(|frame| frame.len() >= FRAME) else {
        return Err(Error::codec("blpk", format!("a chunk file of {} bytes is shorter than its headers", data.len())));
    };
    let length = number(frame, 12);
    match frame.get(..length) {
        Some(whole) if length >= FRAME => Ok(whole),
        _ => {
            let message = format!("the frame says it is {length} bytes long, the file has {}", frame.len());
            Err(Error::codec("blpk", message))
        }
    }
}

/// Return the 32-bit number at an offset in the header of a frame.
fn number(frame: &[u8], at: usize) -> usize {
    u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]) as usize
}

impl Codec for Container {
    fn name(&self) -> &str {
        "blpk"
    }

    fn encoded_size(&self, size: usize) -> Option<usize> {
        size.checked_add(HEADER.len())
    }

    fn decoded_size(&self, data: &[u8]) -> Result<Option<usize>> {
        frame(data).map(|frame| Some(frame.len()))
    }

    fn content_size(&self, head: &[u8], total: u64) -> Result<Option<usize>> {
        let Some(frame) = head.get(HEADER.len()..HEADER.len() + FRAME) else { return frame(head).map(|_| None) };
        let length = number(frame, 12);
        let available = total.saturating_sub(HEADER.len() as u64);
        if length < FRAME || length as u64 > available {
            let message = format!("the frame says it is {length} bytes long, the file has {available}");
            return Err(Error::codec("blpk", message));
        }
        Ok(Some(number(frame, 4)))
    }

    fn payload<'a>(&self, data: &'a [u8]) -> Option<Result<&'a [u8]>> {
        Some(frame(data))
    }

    fn is_slow(&self) -> bool {
        false
    }

    fn decode(&self, data: &[u8], out: &mut [u8]) -> Result<()> {
        let frame = frame(data)?;
        if frame.len() != out.len() {
            return Err(Error::wrong_size("blpk", frame.len(), out.len()));
        }
        out.copy_from_slice(frame);
        Ok(())
    }

    fn decode_up_to(&self, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let frame = frame(data)?;
        if frame.len() > limit {
            return Err(Error::wrong_size("blpk", frame.len(), limit));
        }
        replace(out, &[frame])
    }

    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        replace(out, &[&HEADER, data])
    }

    /// Return the blocks of the frame inside, which are decoded without the Blosc codec of the chain.
    fn blocks(&self) -> Option<&dyn Blocks> {
        Some(const { &FrameBlocks { offset: HEADER.len() } })
    }
}

/// Replace the content of `out`.
fn replace(out: &mut Vec<u8>, parts: &[&[u8]]) -> Result<()> {
    let bytes = parts.iter().map(|part| part.len()).sum();
    out.clear();
    out.try_reserve(bytes).map_err(|_| Error::Memory { bytes })?;
    for part in parts {
        out.extend_from_slice(part);
    }
    Ok(())
}
