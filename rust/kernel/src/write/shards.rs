//! Writes part of a shard: encodes the inner chunks that change, and keeps the bytes of the others. Called by `write`.

use std::sync::{Mutex, PoisonError};

use super::{Put, Writing, fill_all};
use crate::chain::{Chain, EMPTY, Sharding};
use crate::memory::{try_collect, try_concat, try_push, try_repeat, try_with_capacity};
use crate::plan::{Item, Plan};
use crate::strided_copy::content_size;
use crate::{Error, Result, pool};

/// Number of inner chunks that are encoded before they move to shared buffers.
const BATCH: usize = 1 << 12;
/// Shorter encoded chunks share buffers, since separate allocations would take much more memory, in bytes.
const SMALL: usize = 256;
/// Length of a shared buffer, in bytes.
const SHARED: usize = 1 << 20;

impl Writing<'_> {
    /// Encode the shard: the inner chunks that change, the old bytes of the others, and the index.
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
        // where the bytes of each inner chunk come from
        let mut pieces = match old {
            None => try_repeat(count, Piece::Missing)?,
            Some(old) => read_index(sharding, old, &grid, index_size)?,
        };
        // encode the inner chunks that change
        let plan = item.refine(chain.order.as_deref(), &sharding.inner_shape)?;
        let mut encoded = Encoded::default();
        self.encode_changes(sharding, &plan, &grid, old, &mut pieces, &mut encoded)?;
        // missing chunks of a new shard are stored if the caller wants empty chunks
        if self.keep_empty && old.is_none() && pieces.iter().any(|piece| matches!(piece, Piece::Missing)) {
            let empty = encoded.keep(encode_fill(&sharding.inner, &sharding.inner_shape, self.fill)?)?;
            pieces.iter_mut().filter(|piece| matches!(piece, Piece::Missing)).for_each(|piece| *piece = empty);
        }
        if pieces.iter().all(|piece| matches!(piece, Piece::Missing)) {
            return put(None);
        }
        // index and inner chunks, in the order of the shard
        let start = if sharding.at_start { index_size } else { 0 };
        let index = sharding.encode_index(count, entries(pieces.iter().map(Piece::length), start))?;
        let mut parts: Vec<&[u8]> = Vec::new();
        if sharding.at_start {
            try_push(&mut parts, index.as_slice())?;
        }
        for piece in &pieces {
            push_joined(&mut parts, *piece, old, &encoded)?;
        }
        if !sharding.at_start {
            try_push(&mut parts, index.as_slice())?;
        }
        put(Some(&parts))
    }

    /// Encode the inner chunks of `plan`, and update their entries in `pieces`.
    fn encode_changes(
        &self,
        sharding: &Sharding,
        plan: &Plan,
        grid: &[u64],
        old: Option<&[u8]>,
        pieces: &mut [Piece],
        encoded: &mut Encoded,
    ) -> Result<()> {
        let inner = Writing { threads: 1, ..*self };
        let count = plan.len();
        let slots = try_with_capacity(count.min(BATCH)).map(|mut slots: Vec<Mutex<Change>>| {
            slots.resize_with(count.min(BATCH), Mutex::default);
            slots
        })?;
        for first in (0..count).step_by(BATCH) {
            // encode a batch, with several threads if there are some
            let here = (count - first).min(BATCH);
            let task = |index: usize| {
                let part = plan.item(first + index);
                let flat = grid.iter().zip(&part.coords).fold(0, |flat, (count, coord)| flat * count + coord) as usize;
                let covers = part.covers() && self.work.size == self.fill.len();
                let before = if covers { None } else { pieces[flat].old(old) };
                inner.encode(&sharding.inner, &sharding.inner_shape, &part, covers, before, &mut |parts| {
                    let change = (flat, parts.map(try_concat).transpose()?);
                    *slots[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(change);
                    Ok(())
                })
            };
            if self.threads > 1 && here > 1 {
                pool::run(self.threads, here, &task, &mut || Ok(()))?;
            } else {
                (0..here).try_for_each(task)?;
            }
            // update their entries
            for slot in &slots[..here] {
                let change = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some((flat, data)) = change {
                    pieces[flat] = data.map_or(Ok(Piece::Missing), |data| encoded.keep(data))?;
                }
            }
        }
        Ok(())
    }
}

/// Number of an inner chunk in the grid, and its new bytes unless it is empty.
type Change = Option<(usize, Option<Vec<u8>>)>;

/// Where the bytes of an inner chunk come from.
#[derive(Clone, Copy)]
enum Piece {
    Missing,
    /// From the old shard.
    Old {
        offset: u64,
        length: u64,
    },
    /// From a buffer of chunks that this write has encoded.
    Encoded {
        buffer: u32,
        offset: u32,
        length: u64,
    },
}

impl Piece {
    fn length(&self) -> Option<u64> {
        match *self {
            Piece::Missing => None,
            Piece::Old { length, .. } | Piece::Encoded { length, .. } => Some(length),
        }
    }

    /// Return the bytes in the old shard.
    fn old<'o>(&self, shard: Option<&'o [u8]>) -> Option<&'o [u8]> {
        match *self {
            Piece::Old { offset, length } => shard?.get(offset as usize..(offset + length) as usize),
            _ => None,
        }
    }
}

/// The encoded inner chunks; short ones share a buffer.
#[derive(Default)]
struct Encoded {
    buffers: Vec<Vec<u8>>,
    /// Number of the shared buffer for short chunks.
    shared: Option<usize>,
}

impl Encoded {
    fn keep(&mut self, data: Vec<u8>) -> Result<Piece> {
        let length = data.len() as u64;
        if data.len() >= SMALL {
            try_push(&mut self.buffers, data)?;
            return Ok(Piece::Encoded { buffer: (self.buffers.len() - 1) as u32, offset: 0, length });
        }
        let place = match self.shared {
            Some(place) if self.buffers[place].len() + data.len() <= SHARED => place,
            _ => {
                try_push(&mut self.buffers, Vec::new())?;
                self.buffers.len() - 1
            }
        };
        self.shared = Some(place);
        let buffer = &mut self.buffers[place];
        let offset = buffer.len() as u32; // at most `SHARED`
        buffer.try_reserve(data.len()).map_err(|_| Error::Memory { bytes: SHARED })?;
        buffer.extend_from_slice(&data);
        Ok(Piece::Encoded { buffer: place as u32, offset, length })
    }
}

/// Make the index entries of inner chunks of these lengths, stored one after the other from `start` on.
fn entries(lengths: impl Iterator<Item = Option<u64>>, start: usize) -> impl Iterator<Item = (u64, u64)> {
    let mut offset = start as u64;
    lengths.map(move |length| {
        let Some(length) = length else { return (EMPTY, EMPTY) };
        let entry = (offset, length);
        offset += length;
        entry
    })
}

/// Encode a chunk that holds only the fill value.
fn encode_fill(chain: &Chain, shape: &[u64], fill: &[u8]) -> Result<Vec<u8>> {
    let stored = chain.stored_shape(shape);
    let mut raw = match chain.sharding() {
        None => {
            let mut content = try_repeat(content_size(&stored, fill.len())?, 0)?;
            fill_all(&mut content, fill);
            content
        }
        Some(sharding) => {
            let grid = sharding.grid(&stored);
            let piece = encode_fill(&sharding.inner, &sharding.inner_shape, fill)?;
            let start = if sharding.at_start { sharding.index_size(&grid)? } else { 0 };
            let count = grid.iter().product::<u64>() as usize;
            let lengths = std::iter::repeat_n(Some(piece.len() as u64), count);
            let index = sharding.encode_index(count, entries(lengths, start))?;
            let mut shard = try_with_capacity(piece.len().saturating_mul(count).saturating_add(index.len()))?;
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
    try_collect(entries.into_iter().map(|(offset, length)| match length {
        EMPTY => Piece::Missing,
        _ => Piece::Old { offset, length },
    }))
}

/// Append the bytes of a piece, joined to the last part if both are adjacent in the old shard or in a buffer.
fn push_joined<'p>(parts: &mut Vec<&'p [u8]>, piece: Piece, old: Option<&'p [u8]>, encoded: &'p Encoded) -> Result<()> {
    let within = match piece {
        Piece::Missing => return Ok(()),
        Piece::Old { .. } => old.unwrap_or_default(),
        Piece::Encoded { buffer, .. } => &encoded.buffers[buffer as usize],
    };
    let (offset, length) = match piece {
        Piece::Missing => (0, 0),
        Piece::Old { offset, length } => (offset as usize, length as usize),
        Piece::Encoded { offset, length, .. } => (offset as usize, length as usize),
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
    try_push(parts, data)
}
