//! From frames to content.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::frame::{Header, SIZE, damaged};
use super::scratch::{copy, with_scratch};
use super::shuffle::{Filter, as_uninit, moved, unshuffle_part};
use super::streams::decompress_start;
use crate::{Error, Result};

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
        block(header, index, &data[start..], 0..part.len(), part)?;
    }
    Ok(())
}

/// Decode block `index`, with which `data` starts, into `out`, of exactly its length.
///
/// Only the bytes `needed` of it are sure to be initialised, unless there is an error.
pub(super) fn block(
    header: &Header,
    index: usize,
    data: &[u8],
    needed: Range<usize>,
    out: &mut [MaybeUninit<u8>],
) -> Result<()> {
    if needed.is_empty() {
        return Ok(());
    }
    let (size, length) = (header.typesize, out.len());
    let Some(filter) = header.filter(length) else { return streams(header, index, data, &Wanted::Bytes(needed), out) };
    if let Some(stored) = only_stream_stored(header, index, data, length)? {
        // SAFETY: all of it is initialised
        unsafe { unshuffle_part(filter, size, as_uninit(stored), needed, out) };
        return Ok(());
    }
    let wanted = Wanted::shuffled(filter, size, length, &needed);
    with_scratch(length, |shuffled| {
        streams(header, index, data, &wanted, shuffled)?;
        // SAFETY: what is wanted has been initialised, as there was no error; it is what these elements take
        unsafe { unshuffle_part(filter, size, shuffled, needed, out) };
        Ok(())
    })
}

/// Which of a block's bytes are wanted before they are unshuffled.
enum Wanted {
    /// These.
    Bytes(Range<usize>),
    /// The same part of each row of `row` bytes. All streams have the same number of whole rows; after those of the last
    /// come `rest` bytes, which are not wanted.
    Rows { row: usize, part: Range<usize>, rest: usize },
}

impl Wanted {
    /// Say what it takes to unshuffle the bytes `needed` of a block.
    fn shuffled(filter: Filter, size: usize, length: usize, needed: &Range<usize>) -> Wanted {
        let count = moved(filter, size, length);
        if count == 0 || needed.end > count * size || needed.len() == length {
            return Wanted::Bytes(0..length);
        }
        let (first, end) = (needed.start / size, needed.end.div_ceil(size));
        let rest = length - count * size;
        match filter {
            Filter::Bytes => Wanted::Rows { row: count, part: first..end, rest },
            Filter::Bits => Wanted::Rows { row: count / 8, part: first / 8..end.div_ceil(8), rest },
        }
    }

    /// How far the stream that makes up `length` bytes from `start` on is wanted.
    fn reach(&self, start: usize, length: usize) -> usize {
        match self {
            Wanted::Bytes(range) if range.start >= start + length => 0,
            Wanted::Bytes(range) => range.end.saturating_sub(start).min(length),
            Wanted::Rows { row, part, rest } => length - rest - row + part.end,
        }
    }

    /// Copy what is wanted of a stream that is not compressed to its place, which is from `start` on and as long.
    fn copy(&self, start: usize, stream: &[u8], to: &mut [MaybeUninit<u8>]) {
        match self {
            Wanted::Bytes(range) => {
                let [first, end] = [range.start, range.end].map(|at| at.saturating_sub(start).min(stream.len()));
                copy(&stream[first..end], &mut to[first..end]);
            }
            Wanted::Rows { row, part, .. } => {
                for (from, to) in stream.chunks_exact(*row).zip(to.chunks_exact_mut(*row)) {
                    copy(&from[part.clone()], &mut to[part.clone()]);
                }
            }
        }
    }
}

/// Return the only stream of a block, if that is what it has and if the stream is not compressed.
fn only_stream_stored<'a>(header: &Header, index: usize, data: &'a [u8], length: usize) -> Result<Option<&'a [u8]>> {
    let (stream, _) = next_stream(data)?;
    Ok((stream.len() == length && header.streams(index)? == 1).then_some(stream))
}

/// Decompress what is wanted of the streams of a block into its place in `out`.
fn streams(header: &Header, index: usize, data: &[u8], wanted: &Wanted, out: &mut [MaybeUninit<u8>]) -> Result<()> {
    let (format, count) = (header.format()?, header.streams(index)?);
    let length = out.len() / count;
    let mut rest = data;
    for (number, part) in out.chunks_mut(length).enumerate() {
        let stream;
        (stream, rest) = next_stream(rest)?;
        let reach = wanted.reach(number * length, part.len());
        if stream.len() == part.len() {
            wanted.copy(number * length, stream, part);
        } else if reach > 0 && !decompress_start(format, stream, reach, part) {
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
