//! Writes part of a Blosc chunk: encodes the blocks that change, and keeps the bytes of the others. Called by `write`.

use super::{Put, Writing, with_buffer};
use crate::chain::{Chain, Elements};
use crate::codecs::{BlockTable, Layout};
use crate::memory::{try_collect, try_concat, with_scratch};
use crate::read::{LARGE, check_blocks, decode_each};
use crate::strided::{self, Offsets};
use crate::strided_copy::{Needed, StridedCopy};
use crate::{Error, Result};

impl Writing<'_> {
    /// Replace the blocks of `old` that `copy` touches; return `false` if the whole chunk has to be encoded instead.
    pub(super) fn replace(
        &self,
        chain: &Chain,
        elements: &Elements,
        copy: &StridedCopy<'_>,
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
        let changes = copy.blocks(table.block, count, elements.size)?;
        if changes.is_empty() || changes.len() > count - count.div_ceil(4) {
            return Ok(false);
        }
        // decode the blocks that change, and put the new elements into them
        let kept = self.kept(&table, &changes, copy, elements.size)?;
        with_scratch(content, |chunk| {
            decode_each(blocks, old, &table, &kept, self.threads, chunk)?;
            if elements.text.is_some() {
                check_blocks(chunk, &table, &kept, elements)?;
            }
            self.copy_in(chunk, copy, elements);
            if !self.keep_empty && may_be_empty(chunk, &table, &changes, fill) {
                return Ok(false);
            }
            // encode these blocks
            let changed = try_collect(changes.iter().map(|needed| needed.block))?;
            with_buffer(|out| match first.replace(old, &table, &changed, chunk, self.threads, out)? {
                None => Ok(false),
                Some(pieces) => {
                    wrap(chain, &pieces, put)?;
                    Ok(true)
                }
            })
        })
    }

    /// Return the changed blocks that have to be decoded first: a block that is replaced as a whole need not be.
    fn kept(&self, table: &BlockTable, changes: &[Needed], copy: &StridedCopy<'_>, size: usize) -> Result<Vec<Needed>> {
        let bytes: usize = changes.iter().map(|needed| needed.high - needed.low).sum();
        let once = copy.dims.iter().all(|dim| matches!(dim.source, Offsets::Strided(_)));
        let dense = once && self.work.size == size && copy.count.checked_mul(size) == Some(bytes);
        let whole = |needed: &Needed| needed.high - needed.low == table.len(needed.block);
        let kept = changes.iter().filter(|needed| !(dense && whole(needed)));
        try_collect(kept.map(|needed| Needed { low: 0, high: table.len(needed.block), ..*needed }))
    }
}

/// Decode a whole chunk, with several threads if it is large and consists of blocks.
pub(super) fn decode(chain: &Chain, old: &[u8], threads: usize, chunk: &mut [u8]) -> Result<()> {
    if threads > 1 && chunk.len() > LARGE {
        if let Some(blocks) = chain.blocks() {
            if let Layout::Blocks(table) = blocks.layout(old, old.len() as u64, chunk.len())? {
                let all = (0..table.ranges.len()).map(|block| Needed { block, low: 0, high: table.len(block) });
                return decode_each(blocks, old, &table, &try_collect(all)?, threads, chunk);
            }
        }
    }
    chain.decode_buffers(old, chunk)
}

/// Return whether the changed blocks hold only the fill value, so that the whole chunk may do so.
fn may_be_empty(chunk: &[u8], table: &BlockTable, changes: &[Needed], fill: &[u8]) -> bool {
    // elements that straddle two blocks are ignored: at worst the whole chunk is encoded unnecessarily
    changes.iter().all(|needed| {
        let start = needed.block * table.block;
        let stop = start + table.len(needed.block);
        let whole = start.next_multiple_of(fill.len().max(1))..stop - stop % fill.len().max(1);
        chunk.get(whole).is_none_or(|elements| strided::all_equal(elements, fill))
    })
}

/// Store the pieces that the first codec has encoded, inside the container of the second codec if there is one.
fn wrap(chain: &Chain, pieces: &[&[u8]], put: &mut Put<'_>) -> Result<()> {
    match chain.buffers.as_slice() {
        [_] => put(Some(pieces)),
        [_, container] => with_buffer(|out| {
            container.encode(&try_concat(pieces)?, out)?;
            put(Some(&[out]))
        }),
        _ => Err(Error::unsupported("", "blocks are replaced inside at most one container")),
    }
}
