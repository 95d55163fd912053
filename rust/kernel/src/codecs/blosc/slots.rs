//! Encodes blocks in several threads, each to a separate slot of memory. Called by `encode` and `replace`.

use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use super::block::{Plan, block, streams_of};
use super::options::Blosc;
use crate::memory::{try_collect, try_repeat, try_with_capacity};
use crate::{Error, Result, pool};

/// The address of memory of which several threads write separate slots.
#[derive(Clone, Copy)]
struct SharedBuffer(*mut MaybeUninit<u8>);

// SAFETY: no two threads use the same slot at a time; see `pack`
unsafe impl Sync for SharedBuffer {}
// SAFETY: as for `Sync`
unsafe impl Send for SharedBuffer {}

impl SharedBuffer {
    fn at(self, offset: usize) -> *mut MaybeUninit<u8> {
        self.0.wrapping_add(offset)
    }
}

/// Return the size of a slot: the largest encoded block, if none of its streams is compressible.
pub(super) fn size(codec: &Blosc, plan: &Plan) -> usize {
    plan.block + 4 * streams_of(codec, plan, plan.block)
}

/// Return the bytes that slots for the whole content take in addition to the content.
pub(super) fn spare(codec: &Blosc, plan: &Plan, content: usize) -> usize {
    let count = content.div_ceil(plan.block);
    count.saturating_mul(size(codec, plan) + 4).saturating_sub(content)
}

/// Encode the blocks of `data` with the given numbers, number `i` to slot `i` of `out`; return their lengths.
pub(super) fn fill(
    codec: &Blosc,
    plan: &Plan,
    data: &[u8],
    numbers: &[usize],
    threads: usize,
    out: &mut [MaybeUninit<u8>],
) -> Result<Vec<usize>> {
    let slot = size(codec, plan);
    slots(out, numbers.len(), slot)?;
    let places = try_collect(out.chunks_exact_mut(slot).take(numbers.len()).map(|slot| Mutex::new((slot, 0))))?;
    let task = |index: usize| {
        let start = numbers[index] * plan.block;
        let part = &data[start..data.len().min(start + plan.block)];
        let mut place = places[index].lock().unwrap_or_else(PoisonError::into_inner);
        place.1 = encode(codec, plan, part, place.0)?;
        Ok(())
    };
    pool::run(threads, numbers.len(), &task, &mut || Ok(()))?;
    try_collect(places.into_iter().map(|place| place.into_inner().unwrap_or_else(PoisonError::into_inner).1))
}

/// Encode the blocks of `data` to `out`, one after the other; return the start of each, and the end of the last.
///
/// They may take `most` bytes. The blocks that come close to this limit are left out, since their encoding depends on
/// the space that is left.
pub(super) fn pack(
    codec: &Blosc,
    plan: &Plan,
    data: &[u8],
    threads: usize,
    most: usize,
    out: &mut [MaybeUninit<u8>],
) -> Result<(Vec<usize>, usize)> {
    let (slot, count) = (size(codec, plan), data.len().div_ceil(plan.block));
    let memory = slots(out, count, slot)?;
    let packing = Packing { lengths: try_repeat(count, None)?, starts: try_with_capacity(count)?, end: 0, full: false };
    let packing = Mutex::new(packing);
    let task = |index: usize| {
        if packing.lock().unwrap_or_else(PoisonError::into_inner).full {
            return Ok(());
        }
        let start = index * plan.block;
        let part = &data[start..data.len().min(start + plan.block)];
        // SAFETY: the slot lies within `out`, and only this task uses it until it sets the length
        let target = unsafe { std::slice::from_raw_parts_mut(memory.at(index * slot), slot) };
        let made = encode(codec, plan, part, target)?;
        let mut packing = packing.lock().unwrap_or_else(PoisonError::into_inner);
        packing.lengths[index] = Some(made);
        packing.advance(memory, slot, most);
        Ok(())
    };
    pool::run(threads, count, &task, &mut || Ok(()))?;
    let packing = packing.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((packing.starts, packing.end))
}

/// The blocks that have been moved to their final places.
struct Packing {
    /// The lengths of the encoded blocks.
    lengths: Vec<Option<usize>>,
    starts: Vec<usize>,
    end: usize,
    full: bool,
}

impl Packing {
    /// Move the next blocks, as far as they are encoded.
    fn advance(&mut self, memory: SharedBuffer, slot: usize, most: usize) {
        while let Some(Some(length)) = self.lengths.get(self.starts.len()).copied() {
            if self.full || self.end + slot > most {
                self.full = true;
                return;
            }
            let from = memory.at(self.starts.len() * slot);
            // SAFETY: a block is no longer than its slot, so that it moves towards the start, if at all, and only into slots
            // whose lengths are known, which are not used any more
            unsafe { from.copy_to(memory.at(self.end), length) };
            self.starts.push(self.end);
            self.end += length;
        }
    }
}

/// Encode a block to a slot, which is large enough for any block.
fn encode(codec: &Blosc, plan: &Plan, part: &[u8], slot: &mut [MaybeUninit<u8>]) -> Result<usize> {
    block(codec, plan, part, slot)?.ok_or_else(|| Error::codec("blosc", "a block does not fit into its slot"))
}

/// Check that `out` has space for the slots.
fn slots(out: &mut [MaybeUninit<u8>], count: usize, slot: usize) -> Result<SharedBuffer> {
    match count.checked_mul(slot) {
        Some(bytes) if bytes <= out.len() => Ok(SharedBuffer(out.as_mut_ptr())),
        _ => Err(Error::codec("blosc", "the memory for the slots of blocks is too short")),
    }
}
