//! Decodes frames and blocks.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::frame::{Header, SIZE, damaged};
use super::scratch::with_scratch;
use super::shuffle::{Filter, moved, unshuffle_part};
use super::streams::decompress_start;
use crate::memory::{as_uninit_mut, copy};
use crate::{Error, Result};

/// Decode a frame to exactly `out.len()` bytes; all of `out` is initialised unless there is an error.
pub(super) fn frame(header: &Header, data: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<()> {
    if header.content != out.len() {
        return Err(Error::wrong_size("blosc", header.content, out.len()));
    }
    let data = data.get(..header.total).unwrap_or(data);
    if header.is_stored() {
        // the header has been checked against the length of the frame
        copy(&data[SIZE..], out);
        return Ok(());
    }
    for (index, part) in out.chunks_mut(header.block).enumerate() {
        let start = header.start(data, index)?;
        block(header, index, &data[start..], 0..part.len(), part)?;
    }
    Ok(())
}

/// Decode block `index`, with which `data` begins, to `out`, which has exactly its length.
///
/// The bytes `needed` of `out` are initialised unless there is an error; the others may not be.
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
        unshuffle_part(filter, size, stored, needed, out);
        return Ok(());
    }
    let wanted = Wanted::shuffled(filter, size, length, &needed);
    with_scratch(length, |shuffled| {
        streams(header, index, data, &wanted, as_uninit_mut(shuffled))?;
        unshuffle_part(filter, size, shuffled, needed, out);
        Ok(())
    })
}

/// The bytes of a shuffled block that are needed.
enum Wanted {
    /// A range of bytes.
    Bytes(Range<usize>),
    /// The same part of each row of `row` bytes. All streams have the same number of whole rows; the last is followed
    /// by `rest` bytes, which are not needed.
    Rows { row: usize, part: Range<usize>, rest: usize },
}

impl Wanted {
    /// Return the bytes that unshuffling needs for the bytes `needed` of a block.
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

    /// Return how many bytes are needed of a stream that decodes to `length` bytes from `start` on.
    fn reach(&self, start: usize, length: usize) -> usize {
        match self {
            Wanted::Bytes(range) if range.start >= start + length => 0,
            Wanted::Bytes(range) => range.end.saturating_sub(start).min(length),
            Wanted::Rows { row, part, rest } => length - rest - row + part.end,
        }
    }

    /// Copy the needed bytes of an uncompressed stream, whose content begins at `start`.
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

/// Return the stream of a block that has a single, uncompressed stream.
fn only_stream_stored<'a>(header: &Header, index: usize, data: &'a [u8], length: usize) -> Result<Option<&'a [u8]>> {
    let (stream, _) = next_stream(data)?;
    Ok((stream.len() == length && header.streams(index)? == 1).then_some(stream))
}

/// Decompress the needed bytes of the streams of a block to their places in `out`.
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
            return Err(damaged(format!("block {index} can not be decompressed ({format:?})")));
        }
    }
    Ok(())
}

/// Split the first stream from `data`.
fn next_stream(data: &[u8]) -> Result<(&[u8], &[u8])> {
    let stream = data.split_first_chunk::<4>().and_then(|(length, rest)| {
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        rest.split_at_checked(length)
    });
    stream.ok_or_else(|| damaged("a block extends beyond the end of the frame"))
}
