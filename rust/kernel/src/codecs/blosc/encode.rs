//! Encodes frames: the same bytes as c-blosc 1.21 with one thread, if the compressors are the same.

use std::mem::MaybeUninit;

use super::block::{Plan, block, plan};
use super::frame::{SIZE, STORED, VERSION};
use super::options::Blosc;
use super::slots;
use crate::memory::copy;
use crate::{Error, Result};

/// Largest content of a frame, in bytes.
const LONGEST: usize = i32::MAX as usize - SIZE;

/// Content from this length on is encoded by several threads, in bytes.
const LARGE: usize = 1 << 20;

/// Encode `data` as a frame, which replaces the content of `out`; it does not depend on the number of threads.
pub(super) fn frame(codec: &Blosc, data: &[u8], threads: usize, out: &mut Vec<u8>) -> Result<()> {
    if data.len() > LONGEST {
        return Err(Error::codec("blosc", format!("{} bytes are too many for a frame", data.len())));
    }
    // memory for the frame, and for the slots of several threads
    let mut plan = plan(codec, data.len());
    let threads = if data.len() >= LARGE && data.len() > plan.block { threads } else { 1 };
    let spare = if threads > 1 { slots::spare(codec, &plan, data.len()) } else { 0 };
    let size = SIZE + data.len() + spare;
    out.clear();
    out.try_reserve(size).map_err(|_| Error::Memory { bytes: size })?;
    let target = &mut out.spare_capacity_mut()[..size];
    // the blocks, or the content as it is if they are not shorter
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

/// Write the table of blocks and the blocks to `body`; `None` if they are not shorter than the content.
///
/// With several threads, `body` also has space for the slots, as given by `slots::spare`.
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
    // with several threads: most blocks, through the slots
    let (table, rest) = body.split_at_mut(4 * count);
    let most = data.len() - 4 * count;
    let (mut starts, mut length) = (Vec::new(), 0);
    if threads > 1 {
        (starts, length) = slots::pack(codec, plan, data, threads, most, rest)?;
    }
    // this thread encodes the blocks that are left: all of them, or the last ones after the parallel part
    let (ready, rest) = (starts.len(), &mut rest[..most]);
    for (index, (part, entry)) in data.chunks(plan.block).zip(table.chunks_mut(4)).enumerate() {
        let start = starts.get(index).map_or(length, |start| *start);
        copy(&((SIZE + 4 * count + start) as u32).to_le_bytes(), entry);
        if index < ready {
            continue;
        }
        match block(codec, plan, part, &mut rest[length..])? {
            Some(made) => length += made,
            None => return Ok(None),
        }
    }
    Ok(Some(4 * count + length))
}
