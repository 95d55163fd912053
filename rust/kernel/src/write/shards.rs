//! Shards: the inner chunks that change are encoded, and the bytes of the others kept.

use std::sync::{Mutex, PoisonError};

use super::{Put, Writing, fill_all};
use crate::array::{Chain, EMPTY, Sharding};
use crate::memory::{gathered, joined, push, repeated, reserved};
use crate::placing::content_size;
use crate::plan::{Item, Plan};
use crate::{Error, Result, pool};

/// How many inner chunks are encoded before they are put into shared buffers.
const AT_ONCE: usize = 1 << 12;
/// Inner chunks shorter than this share buffers: memory of their own would be much more than they take.
const SMALL: usize = 256;
/// How long a shared buffer becomes.
const SHARED: usize = 1 << 20;

impl Writing<'_> {
    /// Encode the inner chunks that change, and keep the bytes of the others.
    pub(super) fn shard(
        &self,
        chain: &Chain,
        sharding: &Sharding,
        stored: &[u64],
        item: &Item<'_>,
        old: Option<&[u8]>,
        put: &mut Put<'_>,
    ) -> Result<()> {
        let grid = sharding.grid(stored);
        let index_size = sharding.index_size(&grid)?;
        let count = grid.iter().product::<u64>() as usize;
        let mut pieces = match old {
            None => repeated(count, Piece::Missing)?,
            Some(old) => read_index(sharding, old, &grid, index_size)?,
        };
        let plan = item.refine(chain.order.as_deref(), &sharding.inner_shape)?;
        let mut fresh = Fresh::default();
        self.encode_changes(sharding, &plan, &grid, old, &mut pieces, &mut fresh)?;
        if self.keep_empty && old.is_none() && pieces.iter().any(|piece| matches!(piece, Piece::Missing)) {
            let blank = fresh.keep(blank(&sharding.inner, &sharding.inner_shape, self.fill)?)?;
            pieces.iter_mut().filter(|piece| matches!(piece, Piece::Missing)).for_each(|piece| *piece = blank);
        }
        if pieces.iter().all(|piece| matches!(piece, Piece::Missing)) {
            return put(None);
        }
        let start = if sharding.at_start { index_size } else { 0 };
        let index = sharding.encode_index(count, entries(pieces.iter().map(Piece::length), start))?;
        let mut parts: Vec<&[u8]> = Vec::new();
        if sharding.at_start {
            push(&mut parts, index.as_slice())?;
        }
        for piece in &pieces {
            push_joined(&mut parts, *piece, old, &fresh)?;
        }
        if !sharding.at_start {
            push(&mut parts, index.as_slice())?;
        }
        put(Some(&parts))
    }

    /// Encode the inner chunks of which `plan` replaces a part or all, and note what becomes of them.
    fn encode_changes(
        &self,
        sharding: &Sharding,
        plan: &Plan,
        grid: &[u64],
        old: Option<&[u8]>,
        pieces: &mut [Piece],
        fresh: &mut Fresh,
    ) -> Result<()> {
        let inner = Writing { threads: 1, ..*self };
        let count = plan.len();
        let slots = reserved(count.min(AT_ONCE)).map(|mut slots: Vec<Mutex<Change>>| {
            slots.resize_with(count.min(AT_ONCE), Mutex::default);
            slots
        })?;
        for first in (0..count).step_by(AT_ONCE) {
            let here = (count - first).min(AT_ONCE);
            let task = |index: usize| {
                let part = plan.item(first + index);
                let flat = grid.iter().zip(&part.coords).fold(0, |flat, (count, coord)| flat * count + coord) as usize;
                let covers = part.covers() && self.work.size == self.fill.len();
                let before = if covers { None } else { pieces[flat].old(old) };
                inner.encode(&sharding.inner, &sharding.inner_shape, &part, covers, before, &mut |parts| {
                    let change = (flat, parts.map(joined).transpose()?);
                    *slots[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(change);
                    Ok(())
                })
            };
            if self.threads > 1 && here > 1 {
                pool::run(self.threads, here, &task, &mut || Ok(()))?;
            } else {
                (0..here).try_for_each(task)?;
            }
            for slot in &slots[..here] {
                let change = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some((flat, data)) = change {
                    pieces[flat] = data.map_or(Ok(Piece::Missing), |data| fresh.keep(data))?;
                }
            }
        }
        Ok(())
    }
}

/// An inner chunk's place in the grid and its new bytes, if it is to be stored.
type Change = Option<(usize, Option<Vec<u8>>)>;

/// Where the bytes of an inner chunk are.
#[derive(Clone, Copy)]
enum Piece {
    Missing,
    /// In the old shard.
    Old {
        offset: u64,
        length: u64,
    },
    /// A chunk that this write has encoded.
    Fresh {
        buffer: u32,
        offset: u32,
        length: u64,
    },
}

impl Piece {
    fn length(&self) -> Option<u64> {
        match *self {
            Piece::Missing => None,
            Piece::Old { length, .. } | Piece::Fresh { length, .. } => Some(length),
        }
    }

    /// Its bytes in the old shard.
    fn old<'o>(&self, shard: Option<&'o [u8]>) -> Option<&'o [u8]> {
        match *self {
            Piece::Old { offset, length } => shard?.get(offset as usize..(offset + length) as usize),
            _ => None,
        }
    }
}

/// The inner chunks that have been encoded; of short ones many in a buffer.
#[derive(Default)]
struct Fresh {
    buffers: Vec<Vec<u8>>,
    /// The buffer that short ones are added to.
    shared: Option<usize>,
}

impl Fresh {
    fn keep(&mut self, data: Vec<u8>) -> Result<Piece> {
        let length = data.len() as u64;
        if data.len() >= SMALL {
            push(&mut self.buffers, data)?;
            return Ok(Piece::Fresh { buffer: (self.buffers.len() - 1) as u32, offset: 0, length });
        }
        let place = match self.shared {
            Some(place) if self.buffers[place].len() + data.len() <= SHARED => place,
            _ => {
                push(&mut self.buffers, Vec::new())?;
                self.buffers.len() - 1
            }
        };
        self.shared = Some(place);
        let buffer = &mut self.buffers[place];
        let offset = buffer.len() as u32; // at most `SHARED`
        buffer.try_reserve(data.len()).map_err(|_| Error::Memory { bytes: SHARED })?;
        buffer.extend_from_slice(&data);
        Ok(Piece::Fresh { buffer: place as u32, offset, length })
    }
}

/// Lay out inner chunks of these lengths one after the other from `start` on.
fn entries(lengths: impl Iterator<Item = Option<u64>>, start: usize) -> impl Iterator<Item = (u64, u64)> {
    let mut offset = start as u64;
    lengths.map(move |length| {
        let Some(length) = length else { return (EMPTY, EMPTY) };
        let entry = (offset, length);
        offset += length;
        entry
    })
}

/// Encode a chunk that holds nothing but the fill value.
fn blank(chain: &Chain, shape: &[u64], fill: &[u8]) -> Result<Vec<u8>> {
    let stored = chain.stored_shape(shape);
    let mut raw = match chain.sharding() {
        None => {
            let mut content = repeated(content_size(&stored, fill.len())?, 0)?;
            fill_all(&mut content, fill);
            content
        }
        Some(sharding) => {
            let grid = sharding.grid(&stored);
            let piece = blank(&sharding.inner, &sharding.inner_shape, fill)?;
            let start = if sharding.at_start { sharding.index_size(&grid)? } else { 0 };
            let count = grid.iter().product::<u64>() as usize;
            let lengths = std::iter::repeat_n(Some(piece.len() as u64), count);
            let index = sharding.encode_index(count, entries(lengths, start))?;
            let mut shard = reserved(piece.len().saturating_mul(count).saturating_add(index.len()))?;
            if sharding.at_start {
                shard.extend_from_slice(&index);
            }
            (0..count).for_each(|_| shard.extend_from_slice(&piece));
            if !sharding.at_start {
                shard.extend_from_slice(&index);
            }
            shard
        }
    };
    let mut out = Vec::new();
    chain.encode_content(&mut raw, &mut out)?;
    Ok(out)
}

fn read_index(sharding: &Sharding, shard: &[u8], grid: &[u64], size: usize) -> Result<Vec<Piece>> {
    if shard.len() < size {
        let message = format!("a shard of {} bytes has no room for its index of {size}", shard.len());
        return Err(Error::codec("sharding_indexed", message));
    }
    let raw = if sharding.at_start { &shard[..size] } else { &shard[shard.len() - size..] };
    let entries = sharding.decode_index(raw, grid, Some(shard.len() as u64))?;
    gathered(entries.into_iter().map(|(offset, length)| match length {
        EMPTY => Piece::Missing,
        _ => Piece::Old { offset, length },
    }))
}

/// Add a piece; what lies one after the other in the old shard, or in a buffer, is one piece.
fn push_joined<'p>(parts: &mut Vec<&'p [u8]>, piece: Piece, old: Option<&'p [u8]>, fresh: &'p Fresh) -> Result<()> {
    let within = match piece {
        Piece::Missing => return Ok(()),
        Piece::Old { .. } => old.unwrap_or_default(),
        Piece::Fresh { buffer, .. } => &fresh.buffers[buffer as usize],
    };
    let (offset, length) = match piece {
        Piece::Missing => (0, 0),
        Piece::Old { offset, length } => (offset as usize, length as usize),
        Piece::Fresh { offset, length, .. } => (offset as usize, length as usize),
    };
    let data = &within[offset..offset + length];
    if let Some(last) = parts.last_mut()
        && !last.is_empty()
        && within.as_ptr_range().contains(&last.as_ptr())
        && last.as_ptr_range().end == data.as_ptr()
    {
        let start = last.as_ptr() as usize - within.as_ptr() as usize;
        *last = &within[start..offset + length];
        return Ok(());
    }
    push(parts, data)
}
