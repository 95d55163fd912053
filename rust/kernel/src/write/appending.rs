//! Writes a small part of a large shard by appending to a copy of it that shares its bytes on the disk. Called by `write`.
//!
//! The format allows unused bytes in a shard. So changed inner chunks are appended, and also the index unless it comes
//! first. The replaced bytes stay until they are half of the shard; then the shard is rewritten.

use super::Writing;
use crate::chain::{Chain, EMPTY};
use crate::memory::{try_collect, try_concat, try_push};
use crate::plan::Item;
use crate::read::shard_index;
use crate::stores::{Piece, Value};
use crate::{Error, Result};

/// If at least this many inner chunks change, the shard is rewritten, by several threads.
const MOST: usize = 64;

impl Writing<'_> {
    /// Change part of the shard `old`; `put` stores the shard with some pieces changed and appended, if that is
    /// possible. Returns whether the shard is stored; if not, the caller writes it anew.
    pub(super) fn append_to_shard(
        &self,
        chain: &Chain,
        shape: &[u64],
        item: &Item<'_>,
        old: &dyn Value,
        put: &mut dyn FnMut(&[Piece<'_>]) -> Result<bool>,
    ) -> Result<bool> {
        // a shard with few changes
        let Some(sharding) = chain.sharding().filter(|_| chain.buffers.is_empty()) else { return Ok(false) };
        let grid = sharding.grid(&chain.stored_shape(shape));
        let plan = item.refine(chain.order.as_deref(), &sharding.inner_shape)?;
        let count = grid.iter().product::<u64>() as usize;
        if plan.len() > MOST.min(count / 4) || !old.is_shared() {
            return Ok(false);
        }
        // the inner chunks that change
        let (index, _) = shard_index(sharding, old, &grid)?;
        let mut entries = try_collect(index.iter().copied())?;
        let mut pieces = Vec::new();
        let mut end = old.size()?;
        // in a truncated shard, appended bytes must not be mistaken for the missing ones
        if entries.iter().any(|&(offset, length)| length != EMPTY && offset.saturating_add(length) > end) {
            return Ok(false);
        }
        for number in 0..plan.len() {
            let part = plan.item(number);
            let flat = grid.iter().zip(&part.coords).fold(0, |flat, (count, coord)| flat * count + coord) as usize;
            let covers = part.covers() && self.work.size == self.fill.len();
            let (offset, length) = entries[flat];
            let mut encoded = None;
            let mut keep = |parts: Option<&[&[u8]]>| {
                encoded = parts.map(try_concat).transpose()?;
                Ok(())
            };
            let mut encode = |before: Option<&[u8]>| {
                self.encode(&sharding.inner, &sharding.inner_shape, &part, covers, before, &mut keep)
            };
            if covers || length == EMPTY {
                encode(None)?;
            } else {
                old.with_range(offset, length, &mut |data| {
                    if data.len() as u64 != length {
                        return Err(Error::codec("sharding_indexed", "an inner chunk lies outside its shard"));
                    }
                    encode(Some(data))
                })?;
            }
            entries[flat] = match &encoded {
                Some(data) => (end, data.len() as u64),
                None => (EMPTY, EMPTY),
            };
            if let Some(data) = encoded {
                let start = end;
                end += data.len() as u64;
                try_push(&mut pieces, (start, data))?;
            }
        }
        // the index, unless too much would be unused
        let used =
            entries.iter().filter(|entry| entry.1 != EMPTY).fold(0_u64, |sum, entry| sum.saturating_add(entry.1));
        if used == 0 || end / 2 > used {
            return Ok(false);
        }
        let index = sharding.encode_index(count, entries.into_iter())?;
        let place = if sharding.at_start { 0 } else { end };
        try_push(&mut pieces, (place, index))?;
        put(&try_collect(pieces.iter().map(|(start, data)| (*start, data.as_slice())))?)
    }
}
