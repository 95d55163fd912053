//! Shards: the inner chunks that change are encoded, and the bytes of the others kept.

use std::sync::{Mutex, PoisonError};

use super::{Put, Writing, fill_all};
use crate::array::{Chain, EMPTY, Sharding};
use crate::placing::content_size;
use crate::plan::{Item, Plan};
use crate::{Error, Result, pool};

impl Writing<'_> {
    /// Encode the inner chunks that change, and keep the bytes of the others.
    pub(super) fn shard(
        &self,
        chain: &Chain,
        sharding: &Sharding,
        stored: &[u64],
        item: &Item<'_, '_>,
        old: Option<&[u8]>,
        put: &mut Put<'_>,
    ) -> Result<()> {
        let grid = sharding.grid(stored);
        let index_size = sharding.index_size(&grid)?;
        let count = grid.iter().product::<u64>() as usize;
        let entries = match old {
            None => nothing(count)?,
            Some(old) => read_index(sharding, old, &grid, index_size)?,
        };
        let inner_of = |number: usize| -> Option<&[u8]> {
            let (offset, length) = entries[number];
            if length == EMPTY { None } else { old?.get(offset as usize..(offset + length) as usize) }
        };
        let plan = item.refine(chain.order.as_deref(), &sharding.inner_shape);
        let changes = self.changes(sharding, &plan, &grid, &inner_of)?;
        let fresh = self.keep_empty && old.is_none() && changes.iter().any(|change| matches!(change, Change::Kept));
        let blank = if fresh { Some(blank(&sharding.inner, &sharding.inner_shape, self.fill)?) } else { None };
        let pieces: Vec<Option<&[u8]>> = (changes.iter().enumerate())
            .map(|(number, change)| match change {
                Change::Kept => inner_of(number).or(blank.as_deref()),
                Change::Emptied => None,
                Change::To(data) => Some(data.as_slice()),
            })
            .collect();
        if pieces.iter().all(Option::is_none) {
            return put(None);
        }
        let index = sharding.encode_index(&table(&pieces, if sharding.at_start { index_size } else { 0 }))?;
        let mut parts: Vec<&[u8]> = Vec::with_capacity(count + 1);
        if sharding.at_start {
            parts.push(&index);
        }
        for piece in pieces.into_iter().flatten() {
            push_joined(&mut parts, piece, old);
        }
        if !sharding.at_start {
            parts.push(&index);
        }
        put(Some(&parts))
    }

    /// Encode the inner chunks of which `plan` replaces a part or all; `inner_of` gives their old bytes.
    fn changes<'o>(
        &self,
        sharding: &Sharding,
        plan: &Plan<'_>,
        grid: &[u64],
        inner_of: &(dyn Fn(usize) -> Option<&'o [u8]> + Sync),
    ) -> Result<Vec<Change>> {
        let count = grid.iter().product::<u64>() as usize;
        let changes: Vec<Mutex<Change>> = (0..count).map(|_| Mutex::new(Change::Kept)).collect();
        let inner = Writing { threads: 1, ..*self };
        let task = |index: usize| {
            let part = plan.item(index);
            let number = grid.iter().zip(&part.coords).fold(0, |flat, (count, coord)| flat * count + coord) as usize;
            let covers = part.covers() && self.work.size == self.fill.len();
            let before = inner_of(number).filter(|_| !covers);
            inner.encode(&sharding.inner, &sharding.inner_shape, &part, covers, before, &mut |parts| {
                let change = parts.map_or(Change::Emptied, |parts| Change::To(parts.concat()));
                *changes[number].lock().unwrap_or_else(PoisonError::into_inner) = change;
                Ok(())
            })
        };
        if self.threads > 1 && plan.len() > 1 {
            pool::run(self.threads, plan.len(), &task, &mut || Ok(()))?;
        } else {
            (0..plan.len()).try_for_each(task)?;
        }
        Ok(changes.into_iter().map(|change| change.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
    }
}

/// Lay out inner chunks one after the other from `start` on.
fn table(pieces: &[Option<&[u8]>], start: usize) -> Vec<(u64, u64)> {
    let mut offset = start as u64;
    let entries = pieces.iter().map(|piece| {
        let Some(piece) = piece else { return (EMPTY, EMPTY) };
        let entry = (offset, piece.len() as u64);
        offset += entry.1;
        entry
    });
    entries.collect()
}

/// What becomes of an inner chunk.
enum Change {
    Kept,
    Emptied,
    To(Vec<u8>),
}

/// Encode a chunk that holds nothing but the fill value.
fn blank(chain: &Chain, shape: &[u64], fill: &[u8]) -> Result<Vec<u8>> {
    let stored = chain.stored_shape(shape);
    let mut raw = match chain.sharding() {
        None => {
            let mut content = zeros(content_size(&stored, fill.len())?)?;
            fill_all(&mut content, fill);
            content
        }
        Some(sharding) => {
            let grid = sharding.grid(&stored);
            let piece = blank(&sharding.inner, &sharding.inner_shape, fill)?;
            let start = if sharding.at_start { sharding.index_size(&grid)? } else { 0 };
            let pieces = vec![Some(piece.as_slice()); grid.iter().product::<u64>() as usize];
            let index = sharding.encode_index(&table(&pieces, start))?;
            let mut shard = Vec::new();
            let bytes = piece.len().saturating_mul(pieces.len()).saturating_add(index.len());
            shard.try_reserve_exact(bytes).map_err(|_| Error::Memory { bytes })?;
            if sharding.at_start {
                shard.extend_from_slice(&index);
            }
            pieces.iter().for_each(|_| shard.extend_from_slice(&piece));
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

/// Make the index of a shard without inner chunks.
fn nothing(count: usize) -> Result<Vec<(u64, u64)>> {
    let mut entries = Vec::new();
    entries.try_reserve_exact(count).map_err(|_| Error::Memory { bytes: count.saturating_mul(16) })?;
    entries.resize(count, (EMPTY, EMPTY));
    Ok(entries)
}

fn zeros(bytes: usize) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    content.try_reserve_exact(bytes).map_err(|_| Error::Memory { bytes })?;
    content.resize(bytes, 0);
    Ok(content)
}

fn read_index(sharding: &Sharding, shard: &[u8], grid: &[u64], size: usize) -> Result<Vec<(u64, u64)>> {
    if shard.len() < size {
        let message = format!("a shard of {} bytes has no room for its index of {size}", shard.len());
        return Err(Error::codec("sharding_indexed", message));
    }
    let raw = if sharding.at_start { &shard[..size] } else { &shard[shard.len() - size..] };
    sharding.decode_index(raw, grid, Some(shard.len() as u64))
}

/// Add a piece; what lay one after the other in the old shard, and does so again, is one piece.
fn push_joined<'p>(parts: &mut Vec<&'p [u8]>, piece: &'p [u8], old: Option<&'p [u8]>) {
    if let (Some(old), Some(last)) = (old, parts.last_mut()) {
        let within = old.as_ptr_range();
        if within.contains(&last.as_ptr()) && last.as_ptr_range().end == piece.as_ptr() && !last.is_empty() {
            let start = last.as_ptr() as usize - within.start as usize;
            if let Some(joined) = old.get(start..start + last.len() + piece.len()) {
                *last = joined;
                return;
            }
        }
    }
    parts.push(piece);
}
