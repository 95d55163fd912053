//! Frames of which some blocks change: the others stay as they are encoded.

use super::block::plan;
use super::frame::{Header, SIZE, STORED, VERSION};
use super::options::Blosc;
use super::slots;
use crate::codecs::BlockTable;
use crate::memory::{push, reserved};
use crate::{Error, Result};

/// What changes in a frame.
pub(super) struct Changes<'c> {
    /// The numbers of the blocks that are other ones, in order.
    pub(super) changed: &'c [usize],
    /// The new content, as far as these blocks go.
    pub(super) content: &'c [u8],
    /// How many threads may be used.
    pub(super) threads: usize,
}

/// Make a frame of the blocks of `old` that do not change and of those that do; the pieces are parts of `old` and `out`.
///
/// `None` if the old frame is not what this codec would have made, or the new one gets too long to be one.
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
    let (head, slot) = (SIZE + 4 * count, slots::size(codec, &plan));
    let room = changed.len().saturating_mul(slot).saturating_add(head);
    out.clear();
    out.try_reserve(room).map_err(|_| Error::Memory { bytes: room })?;
    out.resize(head, 0);
    let spare = &mut out.spare_capacity_mut()[..room - head];
    let lengths = slots::fill(codec, &plan, content, changed, threads, spare)?;
    let mut end = head as u64;
    let mut entries = reserved(count)?;
    let mut fresh = changed.iter().zip(&lengths).peekable();
    for (block, (start, stop)) in table.ranges.iter().enumerate() {
        entries.push(end as u32);
        let length = fresh.next_if(|(changed, _)| **changed == block).map_or(stop - start, |(_, made)| *made as u64);
        end += length;
        if end > (SIZE + content.len()) as u64 {
            return Ok(None);
        }
    }
    out[..SIZE].copy_from_slice(&header.bytes);
    out[12..SIZE].copy_from_slice(&(end as u32).to_le_bytes());
    for (entry, place) in entries.iter().zip(out[SIZE..].chunks_exact_mut(4)) {
        place.copy_from_slice(&entry.to_le_bytes());
    }
    // the slots' ends stay as they are
    for (slot, length) in out.spare_capacity_mut()[..room - head].chunks_exact_mut(slot).zip(&lengths) {
        slot[*length..].fill(std::mem::MaybeUninit::new(0));
    }
    // SAFETY: the head has been written, and the slots: their blocks before, the rest of each just now
    unsafe { out.set_len(room) };
    pieces(old, table, changed, &lengths, out, (head, slot)).map(Some)
}

/// Put together the pieces of a frame; blocks that lay one after the other in the old one are one piece.
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
            push(&mut pieces, &old[kept.clone()])?;
        }
        kept = 0..0;
        match new {
            Some((place, (_, length))) => push(&mut pieces, &out[head + place * slot..][..*length])?,
            None => kept = start..stop,
        }
    }
    if !kept.is_empty() {
        push(&mut pieces, &old[kept])?;
    }
    Ok(pieces)
}
