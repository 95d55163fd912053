//! Encodes one block, by the parameters of its frame.

use std::mem::MaybeUninit;

use super::frame::{BITS_SHUFFLED, BYTES_SHUFFLED, LONGEST_BLOCK, MOST_SPLITS, ONE_STREAM, SHORTEST, STORED, filter};
use super::options::Blosc;
use super::scratch::with_scratch;
use super::shuffle::{Filter, shuffle};
use super::streams::Compressor;
use crate::Result;
use crate::memory::{as_uninit_mut, copy};

/// The parameters of a frame, which are fixed before anything is compressed.
pub(super) struct Plan {
    pub(super) block: usize,
    split: bool,
    pub(super) flags: u8,
}

/// Choose the parameters of the frame for content of `length` bytes.
pub(super) fn plan(codec: &Blosc, length: usize) -> Plan {
    let block = block_size(codec, length);
    let split = splits(codec, block);
    let mut flags = codec.compressor.format().code() << 5;
    if codec.level == 0 || length < SHORTEST {
        flags |= STORED;
    }
    flags |= match codec.filter {
        Some(Filter::Bytes) => BYTES_SHUFFLED,
        Some(Filter::Bits) => BITS_SHUFFLED,
        None => 0,
    };
    if !split {
        flags |= ONE_STREAM;
    }
    Plan { block, split, flags }
}

/// Return whether blocks of a size are split into streams, one for each byte of an element.
fn splits(codec: &Blosc, block: usize) -> bool {
    let typesize = usize::from(codec.typesize);
    codec.compressor != Compressor::Zstd && typesize <= MOST_SPLITS && block / typesize >= SHORTEST
}

/// Choose the block size for `length` bytes, as c-blosc does.
fn block_size(codec: &Blosc, length: usize) -> usize {
    let typesize = usize::from(codec.typesize);
    if length < typesize {
        return 1;
    }
    let mut block = if codec.block > 0 {
        codec.block.clamp(SHORTEST, LONGEST_BLOCK)
    } else if length >= 32 << 10 {
        usual_block_size(codec)
    } else {
        length
    };
    if codec.level > 0 && splits(codec, block) {
        block = (block.min(1 << 18) * typesize).clamp(1 << 16, 1 << 20);
    }
    block = block.min(length);
    if block > typesize { block / typesize * typesize } else { block }
}

/// Return the block size for content of several blocks.
fn usual_block_size(codec: &Blosc) -> usize {
    let dense = matches!(codec.compressor, Compressor::Lz4Hc | Compressor::Zlib | Compressor::Zstd);
    let base = if dense { 64 << 10 } else { 32 << 10 };
    match codec.level {
        0 => base / 4,
        1 => base / 2,
        2 => base,
        3 => base * 2,
        4 | 5 => base * 4,
        9 if dense => base * 16,
        _ => base * 8,
    }
}

/// Return the number of streams of a block of `length` bytes.
pub(super) fn streams_of(codec: &Blosc, plan: &Plan, length: usize) -> usize {
    // a shorter last block is not split
    if plan.split && length == plan.block { usize::from(codec.typesize) } else { 1 }
}

/// Encode a block into `out`; `None` if it does not fit.
pub(super) fn block(codec: &Blosc, plan: &Plan, part: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<Option<usize>> {
    let typesize = usize::from(codec.typesize);
    let count = streams_of(codec, plan, part.len());
    let Some(filter) = filter(plan.flags, typesize, part.len()) else {
        return Ok(streams(codec, plan, part, count, out));
    };
    with_scratch(part.len(), |shuffled| {
        let shuffled = shuffle(filter, typesize, part, as_uninit_mut(shuffled));
        Ok(streams(codec, plan, shuffled, count, out))
    })
}

/// Compress the shuffled content of a block as `count` streams; `None` if they do not fit into `out`.
///
/// The output size that a compressor gets is part of what makes the result identical to c-blosc's.
fn streams(codec: &Blosc, plan: &Plan, part: &[u8], count: usize, out: &mut [MaybeUninit<u8>]) -> Option<usize> {
    let mut length = 0;
    for stream in part.chunks(part.len() / count) {
        let (entry, rest) = out.get_mut(length..)?.split_at_mut_checked(4)?;
        let most = stream.len().min(rest.len());
        if most == 0 {
            return None;
        }
        let mut made = codec.compressor.compress(codec.level, plan.split, stream, &mut rest[..most]);
        if made == 0 || made == stream.len() {
            copy(stream, rest.get_mut(..stream.len())?);
            made = stream.len();
        }
        copy(&(made as u32).to_le_bytes(), entry);
        length += 4 + made;
    }
    Some(length)
}
