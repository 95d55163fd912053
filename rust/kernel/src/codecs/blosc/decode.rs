//! From frames to content.

use std::cell::Cell;
use std::mem::MaybeUninit;

use super::frame::{Header, SIZE, damaged};
use super::shuffle::unshuffle;
use super::streams::decompress;
use crate::{Error, Result};

/// A buffer for blocks that are shuffled is kept if it is no longer than this.
const KEPT: usize = 4 << 20;

/// What registers are loaded from fastest: as many bytes as the processor takes at a time.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "room for bytes")] [u8; LINE]);

const LINE: usize = 64;

thread_local! {
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Call a function with so many bytes of memory, in which may be anything.
pub(super) fn with_scratch<T>(size: usize, function: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<T>) -> Result<T> {
    let mut buffer = SCRATCH.take();
    buffer.clear();
    buffer.try_reserve_exact(size.div_ceil(LINE)).map_err(|_| Error::Memory { bytes: size })?;
    let lines = buffer.spare_capacity_mut();
    // SAFETY: a line is bytes and nothing else, and there are enough lines; whatever is in them
    let bytes = unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size) };
    let result = function(bytes);
    if buffer.capacity() <= KEPT / LINE {
        SCRATCH.set(buffer);
    }
    result
}

/// Decode a frame into exactly `out`; all of it is initialised unless there is an error.
pub(super) fn frame(header: &Header, data: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<()> {
    if header.content != out.len() {
        return Err(Error::wrong_size("blosc", header.content, out.len()));
    }
    if header.is_stored() {
        // its length has been checked against that of the frame
        copy(&data[SIZE..], out);
        return Ok(());
    }
    for (index, part) in out.chunks_mut(header.block).enumerate() {
        let start = header.start(data, index)?;
        block(header, index, &data[start..], part)?;
    }
    Ok(())
}

/// Decode block `index`, with which `data` starts, into `out`, of exactly its length.
pub(super) fn block(header: &Header, index: usize, data: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<()> {
    let Some(filter) = header.filter(out.len()) else { return streams(header, index, data, out) };
    if let Some(stored) = only_stream_stored(header, index, data, out.len())? {
        unshuffle(filter, header.typesize, stored, out);
        return Ok(());
    }
    with_scratch(out.len(), |shuffled| {
        streams(header, index, data, shuffled)?;
        // SAFETY: all of it has been initialised, as there was no error
        let shuffled = unsafe { &*(std::ptr::from_ref(shuffled) as *const [u8]) };
        unshuffle(filter, header.typesize, shuffled, out);
        Ok(())
    })
}

/// Return the only stream of a block, if that is what it has and if the stream is not compressed.
fn only_stream_stored<'a>(header: &Header, index: usize, data: &'a [u8], length: usize) -> Result<Option<&'a [u8]>> {
    let (stream, _) = next_stream(data)?;
    Ok((stream.len() == length && header.streams(index)? == 1).then_some(stream))
}

/// Decompress the streams of a block into all of `out`.
fn streams(header: &Header, index: usize, data: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<()> {
    let (format, count) = (header.format()?, header.streams(index)?);
    let mut rest = data;
    for part in out.chunks_mut(out.len() / count) {
        let stream;
        (stream, rest) = next_stream(rest)?;
        if stream.len() == part.len() {
            copy(stream, part);
        } else if !decompress(format, stream, part) {
            return Err(damaged(format!("block {index} can't be decompressed ({format:?})")));
        }
    }
    Ok(())
}

/// Split the stream that `data` starts with from what comes after it.
fn next_stream(data: &[u8]) -> Result<(&[u8], &[u8])> {
    let stream = data.split_first_chunk::<4>().and_then(|(length, rest)| {
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        rest.split_at_checked(length)
    });
    stream.ok_or_else(|| damaged("a block of the frame goes on past its end"))
}

/// Copy all of `from` to `to`, which is as long.
pub(super) fn copy(from: &[u8], to: &mut [MaybeUninit<u8>]) {
    assert!(from.len() == to.len(), "lengths were compared before");
    // SAFETY: both are that long, and one of them is borrowed for good
    unsafe { to.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.as_ptr(), from.len()) }
}
