//! From content to frames: the same bytes as c-blosc 1.21 with one thread, where the inner compressors are the same.

use std::mem::MaybeUninit;

use super::decode::{copy, with_scratch};
use super::frame::{
    BITS_SHUFFLED, BYTES_SHUFFLED, LONGEST_BLOCK, MOST_SPLITS, ONE_STREAM, SHORTEST, SIZE, STORED, VERSION, filter,
};
use super::shuffle::{Filter, shuffle};
use super::streams::Compressor;
use super::{Blosc, slots};
use crate::{Error, Result};

/// The longest content of a frame.
const LONGEST: usize = i32::MAX as usize - SIZE;

/// Content from this length on is worth more threads than one.
const LARGE: usize = 1 << 20;

/// What was decided about a frame before any of it is compressed.
pub(super) struct Plan {
    pub(super) block: usize,
    split: bool,
    pub(super) flags: u8,
}

/// Encode `data` as a frame, replacing what `out` holds; the bytes do not depend on the number of threads.
pub(super) fn frame(codec: &Blosc, data: &[u8], threads: usize, out: &mut Vec<u8>) -> Result<()> {
    if data.len() > LONGEST {
        return Err(Error::codec("blosc", format!("{} bytes are more than a frame can hold", data.len())));
    }
    let mut plan = plan(codec, data.len());
    let threads = if data.len() >= LARGE && data.len() > plan.block { threads } else { 1 };
    let spare = if threads > 1 { slots::spare(codec, &plan, data.len()) } else { 0 };
    let room = SIZE + data.len() + spare;
    out.clear();
    out.try_reserve(room).map_err(|_| Error::Memory { bytes: room })?;
    let target = &mut out.spare_capacity_mut()[..room];
    let (header, body) = target.split_at_mut(SIZE);
    let compressed = if plan.flags & STORED == 0 { blocks(codec, &plan, data, threads, body)? } else { None };
    let length = compressed.unwrap_or_else(|| {
        plan.flags |= STORED;
        copy(data, &mut body[..data.len()]);
        data.len()
    });
    let [content, block, total] = [data.len(), plan.block, SIZE + length].map(|value| (value as u32).to_le_bytes());
    copy(&[VERSION, VERSION - 1, plan.flags, codec.typesize], &mut header[..4]);
    copy([content, block, total].as_flattened(), &mut header[4..]);
    // SAFETY: the header and `length` bytes after it have been written
    unsafe { out.set_len(SIZE + length) };
    Ok(())
}

/// Decide on the frame for content of `length` bytes.
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

/// Whether blocks of a size are split into streams, one for each byte of an element.
fn splits(codec: &Blosc, block: usize) -> bool {
    let typesize = usize::from(codec.typesize);
    codec.compressor != Compressor::Zstd && typesize <= MOST_SPLITS && block / typesize >= SHORTEST
}

/// Choose the size of blocks for `length` bytes.
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

/// Return the size of blocks for content that is long enough for several.
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

/// Fill `body` with the table of blocks and the blocks; `None` if they are not shorter than the content.
///
/// With more threads than one there is room in `body` for what `slots::spare` says besides.
fn blocks(
    codec: &Blosc,
    plan: &Plan,
    data: &[u8],
    threads: usize,
    body: &mut [MaybeUninit<u8>],
) -> Result<Option<usize>> {
    let count = data.len().div_ceil(plan.block);
    if 4 * count as u64 > data.len() as u64 {
        return Ok(None);
    }
    let (table, room) = body.split_at_mut(4 * count);
    let most = data.len() - 4 * count;
    let (mut starts, mut length) = (Vec::new(), 0);
    if threads > 1 {
        (starts, length) = slots::pack(codec, plan, data, threads, most, room)?;
    }
    let (ready, room) = (starts.len(), &mut room[..most]);
    for (index, (part, entry)) in data.chunks(plan.block).zip(table.chunks_mut(4)).enumerate() {
        let start = starts.get(index).map_or(length, |start| *start);
        copy(&((SIZE + 4 * count + start) as u32).to_le_bytes(), entry);
        if index < ready {
            continue;
        }
        match block(codec, plan, part, &mut room[length..])? {
            Some(made) => length += made,
            None => return Ok(None),
        }
    }
    Ok(Some(4 * count + length))
}

/// How many streams a block of `length` bytes is made of.
pub(super) fn streams_of(codec: &Blosc, plan: &Plan, length: usize) -> usize {
    // the last block is not split if it is shorter than the others
    if plan.split && length == plan.block { usize::from(codec.typesize) } else { 1 }
}

/// Encode a block; `None` if there is not enough room for it.
pub(super) fn block(codec: &Blosc, plan: &Plan, part: &[u8], room: &mut [MaybeUninit<u8>]) -> Result<Option<usize>> {
    let typesize = usize::from(codec.typesize);
    let count = streams_of(codec, plan, part.len());
    let Some(filter) = filter(plan.flags, typesize, part.len()) else {
        return Ok(streams(codec, plan, part, count, room));
    };
    with_scratch(part.len(), |shuffled| {
        shuffle(filter, typesize, part, shuffled);
        // SAFETY: `shuffle` writes to all of it
        let shuffled = unsafe { &*(std::ptr::from_ref(shuffled) as *const [u8]) };
        Ok(streams(codec, plan, shuffled, count, room))
    })
}

/// Compress what is in a block as `count` streams; `None` if there is not enough room for them.
///
/// How much room a compressor is given is part of what makes the bytes the same as c-blosc's.
fn streams(codec: &Blosc, plan: &Plan, part: &[u8], count: usize, room: &mut [MaybeUninit<u8>]) -> Option<usize> {
    let mut length = 0;
    for stream in part.chunks(part.len() / count) {
        let (entry, room) = room.get_mut(length..)?.split_at_mut_checked(4)?;
        let most = stream.len().min(room.len());
        if most == 0 {
            return None;
        }
        let mut made = codec.compressor.compress(codec.level, plan.split, stream, &mut room[..most]);
        if made == 0 || made == stream.len() {
            copy(stream, room.get_mut(..stream.len())?);
            made = stream.len();
        }
        copy(&(made as u32).to_le_bytes(), entry);
        length += 4 + made;
    }
    Some(length)
}
