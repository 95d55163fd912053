//! Blocks encoded by several threads, each to a slot of its own.

use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use super::block::{Plan, block, streams_of};
use super::options::Blosc;
use crate::memory::{repeated, reserved};
use crate::{Error, Result, pool};

/// The start of memory that several threads write to, each to a slot of its own.
#[derive(Clone, Copy)]
struct Room(*mut MaybeUninit<u8>);

// SAFETY: see where it is used: no two threads use the same slot at a time
unsafe impl Sync for Room {}
// SAFETY: as above
unsafe impl Send for Room {}

impl Room {
    fn at(self, offset: usize) -> *mut MaybeUninit<u8> {
        self.0.wrapping_add(offset)
    }
}

/// The most bytes that a block takes, even if none of its streams gets any shorter.
pub(super) fn size(codec: &Blosc, plan: &Plan) -> usize {
    plan.block + 4 * streams_of(codec, plan, plan.block)
}

/// How many bytes slots for all of the content take beyond the content itself.
pub(super) fn spare(codec: &Blosc, plan: &Plan, content: usize) -> usize {
    let count = content.div_ceil(plan.block);
    count.saturating_mul(size(codec, plan) + 4).saturating_sub(content)
}

/// Encode the blocks of `data` called `numbers`, number `i` to the slot `i` of `room`, and return their lengths.
pub(super) fn fill(
    codec: &Blosc,
    plan: &Plan,
    data: &[u8],
    numbers: &[usize],
    threads: usize,
    room: &mut [MaybeUninit<u8>],
) -> Result<Vec<usize>> {
    let slot = size(codec, plan);
    let lengths = Mutex::new(repeated(numbers.len(), 0)?);
    let memory = slots(room, numbers.len(), slot)?;
    let task = |index: usize| {
        let start = numbers[index] * plan.block;
        let part = &data[start..data.len().min(start + plan.block)];
        // SAFETY: there are that many slots, and this one is for this task alone
        let room = unsafe { std::slice::from_raw_parts_mut(memory.at(index * slot), slot) };
        let made = encode(codec, plan, part, room)?;
        lengths.lock().unwrap_or_else(PoisonError::into_inner)[index] = made;
        Ok(())
    };
    pool::run(threads, numbers.len(), &task, &mut || Ok(()))?;
    Ok(lengths.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Encode the blocks of `data` one after the other into `room`, and return where each starts, and where the last ends.
///
/// There may be `most` bytes of them. The blocks that get near to that are left out: what one thread would make of them
/// depends on how much room there is.
pub(super) fn pack(
    codec: &Blosc,
    plan: &Plan,
    data: &[u8],
    threads: usize,
    most: usize,
    room: &mut [MaybeUninit<u8>],
) -> Result<(Vec<usize>, usize)> {
    let (slot, count) = (size(codec, plan), data.len().div_ceil(plan.block));
    let memory = slots(room, count, slot)?;
    let packing = Packing { lengths: repeated(count, None)?, starts: reserved(count)?, end: 0, full: false };
    let packing = Mutex::new(packing);
    let task = |index: usize| {
        if packing.lock().unwrap_or_else(PoisonError::into_inner).full {
            return Ok(());
        }
        let start = index * plan.block;
        let part = &data[start..data.len().min(start + plan.block)];
        // SAFETY: there are that many slots. This one is for this task alone as long as its length is not known
        let room = unsafe { std::slice::from_raw_parts_mut(memory.at(index * slot), slot) };
        let made = encode(codec, plan, part, room)?;
        let mut packing = packing.lock().unwrap_or_else(PoisonError::into_inner);
        packing.lengths[index] = Some(made);
        packing.advance(memory, slot, most);
        Ok(())
    };
    pool::run(threads, count, &task, &mut || Ok(()))?;
    let packing = packing.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((packing.starts, packing.end))
}

/// How far blocks have been moved to where they belong.
struct Packing {
    /// The lengths of blocks that have been encoded.
    lengths: Vec<Option<usize>>,
    starts: Vec<usize>,
    end: usize,
    full: bool,
}

impl Packing {
    /// Move the blocks that are next, if they are there.
    fn advance(&mut self, memory: Room, slot: usize, most: usize) {
        while let Some(Some(length)) = self.lengths.get(self.starts.len()).copied() {
            if self.full || self.end + slot > most {
                self.full = true;
                return;
            }
            let from = memory.at(self.starts.len() * slot);
            // SAFETY: a block is no longer than its slot, so that it moves towards the start, if at all, and no further
            // than the slots whose lengths are known already; nobody uses these any more
            unsafe { from.copy_to(memory.at(self.end), length) };
            self.starts.push(self.end);
            self.end += length;
        }
    }
}

fn encode(codec: &Blosc, plan: &Plan, part: &[u8], room: &mut [MaybeUninit<u8>]) -> Result<usize> {
    // a slot has room for whatever becomes of the block
    block(codec, plan, part, room)?.ok_or_else(|| Error::codec("blosc", "a block does not fit into its slot"))
}

fn slots(room: &mut [MaybeUninit<u8>], count: usize, slot: usize) -> Result<Room> {
    match count.checked_mul(slot) {
        Some(bytes) if bytes <= room.len() => Ok(Room(room.as_mut_ptr())),
        _ => Err(Error::codec("blosc", "there is no room for the slots of blocks")),
    }
}
