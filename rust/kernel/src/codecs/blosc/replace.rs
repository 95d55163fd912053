//! Replaces some blocks of a frame, and keeps the encoded bytes of the others. Called by `write` through the codec.

use super::block::plan;
use super::frame::{Header, SIZE, STORED, VERSION};
use super::options::Blosc;
use super::slots;
use crate::codecs::BlockTable;
use crate::memory::{try_push, try_with_capacity};
use crate::{Error, Result};

/// The changes of a frame.
pub(super) struct Changes<'c> {
    /// The numbers of the changed blocks, in order.
    pub(super) changed: &'c [usize],
    /// The new content, of which only these blocks are read.
    pub(super) content: &'c [u8],
    /// Number of threads that may be used.
    pub(super) threads: usize,
}

/// Encode a frame with changed blocks; the pieces of the result are parts of `old` and `out`.
///
/// `None` if this codec would choose other parameters than those of the old frame, or if the new frame gets too long.
pub(super) fn frame<'o>(
    codec: &Blosc,
    old: &'o [u8],
    table: &BlockTable,
    changes: Changes<'_>,
    out: &'o mut Vec<u8>,
) -> Result<Option<Vec<&'o [u8]>>> {
    let Changes { changed, content, threads } = changes;
    let (header, plan) = (Header::decode(table.header), plan(codec, content.len()));
    let alike = header.bytes[..4] == [VERSION, VERSION - 1, plan.flags, codec.typesize]
        && (header.content, header.block) == (content.len(), plan.block)
        && plan.flags & STORED == 0;
    let count = table.ranges.len();
    if !alike || count != header.blocks() || changed.iter().any(|&block| block >= count) {
        return Ok(None);
    }
    // encode the changed blocks, each to a slot
    let (head, slot) = (SIZE + 4 * count, slots::size(codec, &plan));
    let size = changed.len().saturating_mul(slot).saturating_add(head);
    out.clear();
    out.try_reserve(size).map_err(|_| Error::Memory { bytes: size })?;
    out.resize(head, 0);
    let spare = &mut out.spare_capacity_mut()[..size - head];
    let lengths = slots::fill(codec, &plan, content, changed, threads, spare)?;
    // the new table of blocks
    let mut end = head as u64;
    let mut entries = try_with_capacity(count)?;
    let mut fresh = changed.iter().zip(&lengths).peekable();
    for (block, (start, stop)) in table.ranges.iter().enumerate() {
        entries.push(end as u32);
        let length = fresh.next_if(|(changed, _)| **changed == block).map_or(stop - start, |(_, made)| *made as u64);
        end += length;
        if end > (SIZE + content.len()) as u64 {
            return Ok(None);
        }
    }
    // the header
    out[..SIZE].copy_from_slice(&header.bytes);
    out[12..SIZE].copy_from_slice(&(end as u32).to_le_bytes());
    for (entry, place) in entries.iter().zip(out[SIZE..].chunks_exact_mut(4)) {
        place.copy_from_slice(&entry.to_le_bytes());
    }
    // the ends of the slots are not part of the frame, but have to be initialised
    for (slot, length) in out.spare_capacity_mut()[..size - head].chunks_exact_mut(slot).zip(&lengths) {
        slot[*length..].fill(std::mem::MaybeUninit::new(0));
    }
    // SAFETY: the head and all bytes of the slots have been written
    unsafe { out.set_len(size) };
    pieces(old, table, changed, &lengths, out, (head, slot)).map(Some)
}

/// Collect the pieces of a frame; unchanged blocks that are adjacent in the old frame are one piece.
fn pieces<'o>(
    old: &'o [u8],
    table: &BlockTable,
    changed: &[usize],
    lengths: &[usize],
    out: &'o [u8],
    (head, slot): (usize, usize),
) -> Result<Vec<&'o [u8]>> {
    let mut pieces = vec![&out[..head]];
    let mut kept = 0..0;
    let mut fresh = changed.iter().zip(lengths).enumerate().peekable();
    for (block, &(start, stop)) in table.ranges.iter().enumerate() {
        let (start, stop) = (start as usize, stop as usize);
        let new = fresh.next_if(|(_, (changed, _))| **changed == block);
        if new.is_none() && start == kept.end {
            kept.end = stop;
            continue;
        }
        if !kept.is_empty() {
            try_push(&mut pieces, &old[kept.clone()])?;
        }
        kept = 0..0;
        match new {
            Some((place, (_, length))) => try_push(&mut pieces, &out[head + place * slot..][..*length])?,
            None => kept = start..stop,
        }
    }
    if !kept.is_empty() {
        try_push(&mut pieces, &old[kept])?;
    }
    Ok(pieces)
}
