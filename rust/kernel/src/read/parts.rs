//! Parts of a chunk: the ranges or blocks that are asked for, and no more.

use super::chunk::{Reading, SMALL};
use crate::array::Elements;
use crate::codecs::{BlockTable, Blocks, Layout};
use crate::memory::{gathered, push, with_scratch};
use crate::placing::{Needed, Placing};
use crate::stores::{Parts, Value, Within};
use crate::{Error, Result, pool, strided};

impl Reading<'_> {
    /// Read only the ranges that are asked for of a chunk that is not compressed.
    pub(super) fn by_ranges(
        &self,
        value: &dyn Value,
        content: usize,
        placing: &Placing<'_>,
        depth: usize,
        elements: &Elements,
    ) -> Result<()> {
        let size = value.size()?;
        if size != content as u64 {
            return Err(Error::wrong_size("bytes", usize::try_from(size).unwrap_or(usize::MAX), content));
        }
        let inner = placing.inner(depth, elements.size);
        with_scratch(inner.span, |data| {
            placing.for_each_outer(depth, &mut |source, target| {
                let start = (placing.source as i64 + source + inner.low) as u64;
                let found = value.read_at(start, data)?;
                if found != inner.span {
                    return Err(Error::wrong_size("bytes", found, inner.span));
                }
                let source = data.as_ptr().wrapping_offset(self.work.offset as isize - inner.low as isize);
                // SAFETY: what the inner dimensions lead to from `source` on is the span that `data` holds; for the
                // work buffer the caller of `read` vouches.
                unsafe {
                    let target = self.work.start.offset(placing.target + target);
                    strided::copy(source, target, &placing.dims[depth..], self.work.size, elements.swap, self.work.far);
                }
                Ok(())
            })
        })
    }

    /// Read and decode only the blocks that are asked for; all of them by several threads, if there are many.
    pub(super) fn by_blocks(
        &self,
        codec: &dyn Blocks,
        value: &dyn Value,
        content: usize,
        placing: &Placing<'_>,
        elements: &Elements,
    ) -> Result<()> {
        let Some(parts) = value.parts().filter(|_| content > SMALL) else {
            return value.with_all(&mut |data| match codec.layout(data, data.len() as u64, content)? {
                Layout::Blocks(table) => {
                    let needed = placing.blocks(table.block, table.ranges.len(), elements.size)?;
                    if self.rather_whole(&table, &needed) {
                        return self.whole(data, content, placing, elements);
                    }
                    let decode = |out: &mut [u8]| decode_each(codec, data, &table, &needed, self.threads, out);
                    self.land(&decode, &table, &needed, placing, elements)
                }
                _ => self.whole(data, content, placing, elements),
            });
        };
        let total = value.size()?;
        let mut head = codec.head_size(content);
        let layout = loop {
            let layout = with_scratch(head, |data| {
                let found = value.read_at(0, data)?;
                codec.layout(&data[..found], total, content)
            })?;
            match layout {
                Layout::More(size) if size > head && size as u64 <= total => head = size,
                layout => break layout,
            }
        };
        match layout {
            Layout::Blocks(table) => {
                let needed = placing.blocks(table.block, table.ranges.len(), elements.size)?;
                if self.rather_whole(&table, &needed) {
                    return value.with_all(&mut |data| self.whole(data, content, placing, elements));
                }
                let decode = |out: &mut [u8]| decode_runs(codec, value, &table, &needed, (self.threads, parts), out);
                self.land(&decode, &table, &needed, placing, elements)
            }
            Layout::Plain(start) if elements.text.is_none() && start.checked_add(content as u64) == Some(total) => {
                let plain = Within { value, start, length: content as u64 };
                match placing.depth(content, elements.size, parts) {
                    Some(depth) => self.by_ranges(&plain, content, placing, depth, elements),
                    None => value.with_all(&mut |data| self.whole(data, content, placing, elements)),
                }
            }
            _ => value.with_all(&mut |data| self.whole(data, content, placing, elements)),
        }
    }

    /// Have the needed blocks decoded into memory for the whole content, and what is asked for put to its place.
    fn land(
        &self,
        decode: &dyn Fn(&mut [u8]) -> Result<()>,
        table: &BlockTable,
        needed: &[Needed],
        placing: &Placing<'_>,
        elements: &Elements,
    ) -> Result<()> {
        if let Some(out) = self.in_one_piece(table.content, placing) {
            decode(out)?;
            return elements.to_memory(out);
        }
        with_scratch(table.content, |chunk| {
            decode(chunk)?;
            if elements.text.is_some() {
                check_blocks(chunk, table, needed, elements)?;
            }
            // SAFETY: `chunk` holds all of the content, of which what `placing` leads to has been decoded.
            unsafe { self.copy(chunk, placing, elements.swap) };
            Ok(())
        })
    }

    /// Whether it costs less to decode all of a chunk than these blocks one by one.
    fn rather_whole(&self, table: &BlockTable, needed: &[Needed]) -> bool {
        let bytes: usize = needed.iter().map(|needed| needed.high - needed.low).sum();
        bytes >= table.content - table.content / 4 && self.threads == 1
    }
}

/// Decode what is needed of blocks to their places in `out`, which has room for all of the content.
pub(crate) fn decode_each(
    codec: &dyn Blocks,
    data: &[u8],
    table: &BlockTable,
    needed: &[Needed],
    threads: usize,
    out: &mut [u8],
) -> Result<()> {
    let out = SharedOut::of(out, table)?;
    let task = |index: usize| {
        let needed = &needed[index];
        let (start, stop) = table.ranges[needed.block];
        let data = &data[start as usize..stop as usize];
        // SAFETY: each block is needed once.
        codec
            .decode_block(table, needed.block, data, needed.low..needed.high, unsafe { out.block(table, needed.block) })
    };
    share(threads, needed.len(), table.block, &task)
}

/// As `decode_each`, for blocks that have to be read first; those that lie close together are read at once.
fn decode_runs(
    codec: &dyn Blocks,
    value: &dyn Value,
    table: &BlockTable,
    needed: &[Needed],
    (threads, parts): (usize, Parts),
    out: &mut [u8],
) -> Result<()> {
    let out = SharedOut::of(out, table)?;
    let runs = runs_of_blocks(table, needed, parts, threads)?;
    let task = |index: usize| {
        let run = &runs[index];
        let length = (run.stop - run.start) as usize;
        value.with_range(run.start, length as u64, &mut |data| {
            if data.len() != length {
                return Err(Error::wrong_size("blosc", data.len(), length));
            }
            run.blocks.iter().try_for_each(|&Needed { block, low, high }| {
                let (start, stop) = table.ranges[block];
                let data = &data[(start - run.start) as usize..(stop - run.start) as usize];
                // SAFETY: each block is in one run only, and there once.
                codec.decode_block(table, block, data, low..high, unsafe { out.block(table, block) })
            })
        })
    };
    share(threads, runs.len(), table.block.saturating_mul(needed.len() / runs.len().max(1)), &task)
}

/// Do tasks one after the other, or by several threads if there are some, each about so many bytes.
fn share(threads: usize, count: usize, bytes: usize, task: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    if threads > 1 && count > 1 && bytes.saturating_mul(count) > SMALL {
        pool::run(threads, count, task, &mut || Ok(()))
    } else {
        (0..count).try_for_each(task)
    }
}

/// Refuse text in what has been decoded of blocks that is none.
pub(crate) fn check_blocks(chunk: &[u8], table: &BlockTable, needed: &[Needed], elements: &Elements) -> Result<()> {
    let joined =
        |one: &Needed, next: &Needed| one.block + 1 == next.block && one.high == table.len(one.block) && next.low == 0;
    needed.chunk_by(joined).try_for_each(|run| {
        let (first, last) = (run[0], run[run.len() - 1]);
        let start = (first.block * table.block + first.low).next_multiple_of(elements.size);
        let stop = last.block * table.block + last.high;
        elements.check_stored(chunk.get(start..stop - stop % elements.size).unwrap_or_default())
    })
}

/// The start of memory that several threads write to, each to a part of its own.
#[derive(Clone, Copy)]
struct SharedOut(*mut u8);

// SAFETY: see where it is used: no two threads write to the same place.
unsafe impl Sync for SharedOut {}
// SAFETY: as above.
unsafe impl Send for SharedOut {}

impl SharedOut {
    fn of(out: &mut [u8], table: &BlockTable) -> Result<SharedOut> {
        if out.len() != table.content {
            return Err(Error::wrong_size("blosc", table.content, out.len()));
        }
        Ok(SharedOut(out.as_mut_ptr()))
    }

    /// The memory for a block.
    ///
    /// # Safety
    ///
    /// Nobody else has that of the same block meanwhile.
    unsafe fn block<'o>(self, table: &BlockTable, block: usize) -> &'o mut [u8] {
        // SAFETY: the memory is as long as the content, blocks of which do not overlap.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(block * table.block), table.len(block)) }
    }
}

/// Blocks that are read at once.
struct BlockRun {
    start: u64,
    stop: u64,
    blocks: Vec<Needed>,
}

fn runs_of_blocks(table: &BlockTable, needed: &[Needed], parts: Parts, threads: usize) -> Result<Vec<BlockRun>> {
    let Parts { gap, span } = parts;
    let span = if threads > 1 { span.min(1 << 18) } else { span };
    let mut sorted = gathered(needed.iter().copied())?;
    sorted.sort_unstable_by_key(|needed| table.ranges[needed.block]);
    let mut runs: Vec<BlockRun> = Vec::new();
    for needed in sorted {
        let (start, stop) = table.ranges[needed.block];
        match runs.last_mut() {
            Some(run) if start <= run.stop.saturating_add(gap) && stop.saturating_sub(run.start) <= span => {
                run.stop = run.stop.max(stop);
                push(&mut run.blocks, needed)?;
            }
            _ => push(&mut runs, BlockRun { start, stop, blocks: vec![needed] })?,
        }
    }
    Ok(runs)
}
