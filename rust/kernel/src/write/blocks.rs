//! Chunks of blocks that can be encoded on their own (Blosc): those that change are encoded, the others kept as they are.

use super::{Put, Writing, with_buffer};
use crate::array::{Chain, Elements};
use crate::codecs::{BlockTable, Layout};
use crate::memory::{gathered, joined, with_scratch};
use crate::placing::{Needed, Placing};
use crate::read::{LARGE, check_blocks, decode_each};
use crate::strided::{self, Walk};
use crate::{Error, Result};

impl Writing<'_> {
    /// Change the blocks of `old` that `placing` leads to; the answer is whether that could be done without the others.
    pub(super) fn replace(
        &self,
        chain: &Chain,
        elements: &Elements,
        placing: &Placing<'_>,
        content: usize,
        (old, fill): (&[u8], &[u8]),
        put: &mut Put<'_>,
    ) -> Result<bool> {
        let (Some(blocks), Some(first)) = (chain.blocks(), chain.buffers.first()) else { return Ok(false) };
        let Ok(Layout::Blocks(table)) = blocks.layout(old, old.len() as u64, content) else { return Ok(false) };
        let count = table.ranges.len();
        if count < 2 {
            return Ok(false);
        }
        let changes = placing.blocks(table.block, count, elements.size)?;
        if changes.is_empty() || changes.len() > count - count.div_ceil(4) {
            return Ok(false);
        }
        let kept = self.kept(&table, &changes, placing, elements.size)?;
        with_scratch(content, |chunk| {
            decode_each(blocks, old, &table, &kept, self.threads, chunk)?;
            if elements.text.is_some() {
                check_blocks(chunk, &table, &kept, elements)?;
            }
            // SAFETY: what `placing` leads to lies within the content of `chunk`, and by the caller's word in the buffer.
            unsafe { self.copy_in(chunk, placing, elements) };
            if !self.keep_empty && may_be_empty(chunk, &table, &changes, fill) {
                return Ok(false);
            }
            let changed = gathered(changes.iter().map(|needed| needed.block))?;
            with_buffer(|out| match first.replace(old, &table, &changed, chunk, self.threads, out)? {
                None => Ok(false),
                Some(pieces) => {
                    wrap(chain, &pieces, put)?;
                    Ok(true)
                }
            })
        })
    }

    /// Find what has to be decoded of the blocks that change: all, but of those that are wholly replaced nothing.
    fn kept(&self, table: &BlockTable, changes: &[Needed], placing: &Placing<'_>, size: usize) -> Result<Vec<Needed>> {
        let bytes: usize = changes.iter().map(|needed| needed.high - needed.low).sum();
        let once = placing.dims.iter().all(|dim| matches!(dim.source, Walk::Even(_)));
        let dense = once && self.work.size == size && placing.count.checked_mul(size) == Some(bytes);
        let whole = |needed: &Needed| needed.high - needed.low == table.len(needed.block);
        let kept = changes.iter().filter(|needed| !(dense && whole(needed)));
        gathered(kept.map(|needed| Needed { low: 0, high: table.len(needed.block), ..*needed }))
    }
}

/// Decode all of a chunk, by several threads if it is large and made of blocks.
pub(super) fn decode(chain: &Chain, old: &[u8], threads: usize, chunk: &mut [u8]) -> Result<()> {
    if threads > 1 && chunk.len() > LARGE {
        if let Some(blocks) = chain.blocks() {
            if let Layout::Blocks(table) = blocks.layout(old, old.len() as u64, chunk.len())? {
                let all = (0..table.ranges.len()).map(|block| Needed { block, low: 0, high: table.len(block) });
                return decode_each(blocks, old, &table, &gathered(all)?, threads, chunk);
            }
        }
    }
    chain.decode_buffers(old, chunk)
}

/// Whether nothing in the blocks that changed tells that the chunk holds anything but the fill value.
fn may_be_empty(chunk: &[u8], table: &BlockTable, changes: &[Needed], fill: &[u8]) -> bool {
    // elements that lie in two blocks are not looked at: in the worst case the chunk is encoded anew for nothing
    changes.iter().all(|needed| {
        let start = needed.block * table.block;
        let stop = start + table.len(needed.block);
        let whole = start.next_multiple_of(fill.len().max(1))..stop - stop % fill.len().max(1);
        chunk.get(whole).is_none_or(|elements| strided::all_equal(elements, fill))
    })
}

/// Put the pieces of what the first codec has encoded into the container around it, if there is one.
fn wrap(chain: &Chain, pieces: &[&[u8]], put: &mut Put<'_>) -> Result<()> {
    match chain.buffers.as_slice() {
        [_] => put(Some(pieces)),
        [_, container] => with_buffer(|out| {
            container.encode(&joined(pieces)?, out)?;
            put(Some(&[out]))
        }),
        _ => Err(Error::unsupported("", "blocks of a chunk are replaced inside of one container at most")),
    }
}
