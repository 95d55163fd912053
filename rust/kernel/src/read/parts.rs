//! Reads parts of a chunk: only the byte ranges or the compressed blocks that hold selected elements.

use std::sync::{Mutex, PoisonError};

use super::chunk::{LARGE, Reading, SMALL};
use crate::chain::Elements;
use crate::codecs::{BlockTable, Blocks, Layout};
use crate::memory::{try_collect, try_push, try_with_capacity, with_scratch};
use crate::stores::{Parts, Value, Within};
use crate::strided::{Dim, Offsets};
use crate::strided_copy::{Needed, Span, StridedCopy};
use crate::{Error, Result, pool, strided};

/// Smaller blocks are not read one by one if all are needed, in bytes.
const LEAST_BLOCK: usize = 1 << 14;

/// How many bytes of an uncompressed chunk are read at once.
const PIECE: usize = 1 << 18;

/// The rows of a chunk: what lies between two indices of the outermost dimension of a copy.
#[derive(Clone, Copy)]
struct Rows {
    /// Bytes from one row to the next.
    stride: usize,
    /// The row with index 0.
    first: usize,
}

impl Reading<'_> {
    /// Read only the needed byte ranges of an uncompressed chunk.
    pub(super) fn by_ranges(
        &self,
        value: &dyn Value,
        content: usize,
        copy: &StridedCopy<'_>,
        depth: usize,
        elements: &Elements,
    ) -> Result<()> {
        let size = value.size()?;
        if size != content as u64 {
            return Err(Error::wrong_size("bytes", usize::try_from(size).unwrap_or(usize::MAX), content));
        }
        let inner = copy.inner_span(depth, elements.size);
        with_scratch(inner.span, |data| {
            copy.for_each_outer(depth, &mut |source, target| {
                let start = (copy.source as i64 + source + inner.low) as u64;
                let found = value.read_at(start, data)?;
                if found != inner.span {
                    return Err(Error::wrong_size("bytes", found, inner.span));
                }
                let source = data.as_ptr().wrapping_offset(self.work.offset as isize - inner.low as isize);
                // SAFETY: `data` holds the span of the inner dimensions from `source` on; the caller of `read` guarantees
                // the work buffer.
                unsafe {
                    let target = self.work.start.offset(copy.target + target);
                    strided::copy(
                        source,
                        target,
                        &copy.dims[depth..],
                        self.work.size,
                        elements.swap,
                        self.work.bypass_cache,
                    );
                }
                Ok(())
            })
        })
    }

    /// Read and decode only the needed blocks, with several threads if there are many.
    pub(super) fn by_blocks(
        &self,
        codec: &dyn Blocks,
        value: &dyn Value,
        content: usize,
        copy: &StridedCopy<'_>,
        elements: &Elements,
    ) -> Result<()> {
        let mut in_memory = |data: &[u8]| match codec.layout(data, data.len() as u64, content)? {
            Layout::Blocks(table) => {
                let needed = copy.blocks(table.block, table.ranges.len(), elements.size)?;
                if let Some(rows) = self.rows_of_blocks(&table, copy, elements) {
                    let task = |index: usize| {
                        let (start, stop) = table.ranges[needed[index].block];
                        let data = &data[start as usize..stop as usize];
                        self.place_block((codec, &table), data, needed[index], rows, copy, elements)
                    };
                    return run_tasks(self.threads, needed.len(), table.block, &task);
                }
                if self.prefers_whole(&table, &needed) {
                    return self.whole(data, content, copy, elements);
                }
                let decode = |out: &mut [u8]| decode_each(codec, data, &table, &needed, self.threads, out);
                self.decode_needed(&decode, &table, &needed, copy, elements)
            }
            _ => self.whole(data, content, copy, elements),
        };
        // a small value, or one in memory, is read as a whole
        let Some(parts) = value.parts().filter(|_| content > SMALL) else { return value.with_all(&mut in_memory) };
        // read the head, as much as it takes to locate the blocks
        let total = value.size()?;
        let mut head = codec.head_size(content);
        let layout = loop {
            let layout = with_scratch(head, |data| {
                let found = value.read_at(0, data)?;
                codec.layout(&data[..found], total, content)
            })?;
            match layout {
                Layout::More(size) if size > head && (size as u64) < total => head = size,
                layout => break layout,
            }
        };
        // read the needed blocks, the needed ranges of stored content, or everything
        match layout {
            Layout::More(size) if size as u64 == total => value.with_all(&mut in_memory),
            Layout::Blocks(table) => {
                let needed = copy.blocks(table.block, table.ranges.len(), elements.size)?;
                if let Some(rows) = self.rows_of_blocks(&table, copy, elements) {
                    return each_run(value, &table, &needed, (self.threads, parts), &|needed, data| {
                        self.place_block((codec, &table), data, needed, rows, copy, elements)
                    });
                }
                if self.prefers_whole(&table, &needed) {
                    return value.with_all(&mut |data| self.whole(data, content, copy, elements));
                }
                let decode = |out: &mut [u8]| {
                    let places = places(out, &table, &needed)?;
                    each_run(value, &table, &needed, (self.threads, parts), &|part, data| {
                        let index = needed.partition_point(|other| other.block < part.block);
                        decode_block(codec, &table, part, data, &places[index])
                    })
                };
                self.decode_needed(&decode, &table, &needed, copy, elements)
            }
            Layout::Plain(start) if elements.text.is_none() && start.checked_add(content as u64) == Some(total) => {
                let plain = Within { value, start, length: content as u64 };
                match copy.range_depth(content, elements.size, parts, &|at| plain.is_cached(at)) {
                    Some(depth) => self.by_ranges(&plain, content, copy, depth, elements),
                    None if self.by_pieces(&plain, content, copy, elements)? => Ok(()),
                    None => value.with_all(&mut |data| self.whole(data, content, copy, elements)),
                }
            }
            _ => value.with_all(&mut |data| self.whole(data, content, copy, elements)),
        }
    }

    /// Call `decode` with memory for the whole content, and copy the selected elements to the work buffer.
    fn decode_needed(
        &self,
        decode: &dyn Fn(&mut [u8]) -> Result<()>,
        table: &BlockTable,
        needed: &[Needed],
        copy: &StridedCopy<'_>,
        elements: &Elements,
    ) -> Result<()> {
        if let Some(out) = self.direct_target(table.content, copy) {
            decode(out)?;
            return elements.to_memory(out);
        }
        with_scratch(table.content, |chunk| {
            decode(chunk)?;
            if elements.text.is_some() {
                check_blocks(chunk, table, needed, elements)?;
            }
            self.copy_out(chunk, copy, elements.swap);
            Ok(())
        })
    }

    /// Read all of a large uncompressed chunk: directly into the work buffer if the layout is the same, else piece by piece.
    /// Returns `false` if it has to be read as a whole.
    pub(super) fn by_pieces(
        &self,
        value: &dyn Value,
        content: usize,
        copy: &StridedCopy<'_>,
        elements: &Elements,
    ) -> Result<bool> {
        let direct = self.direct_target(content, copy);
        let rows = rows(copy, elements.size).filter(|rows| rows.stride <= PIECE);
        if direct.is_none() && (content <= LARGE || rows.is_none()) {
            return Ok(false);
        }
        let size = value.size()?;
        let wrong = |found: u64| Error::wrong_size("bytes", usize::try_from(found).unwrap_or(usize::MAX), content);
        if size != content as u64 {
            return Err(wrong(size));
        }
        if let Some(out) = direct {
            let found = value.read_at(0, out)?;
            return if found == content { elements.to_memory(out).map(|()| true) } else { Err(wrong(found as u64)) };
        }
        let Some(rows) = rows else { return Ok(false) };
        let piece = PIECE - PIECE % rows.stride;
        let task = |index: usize| {
            let start = index * piece;
            with_scratch(piece.min(content - start), |data| {
                let found = value.read_at(start as u64, data)?;
                if found != data.len() {
                    return Err(wrong((start + found) as u64));
                }
                self.place_rows(data, start, rows, copy, elements)
            })
        };
        run_tasks(self.threads, content.div_ceil(piece), piece, &task)?;
        Ok(true)
    }

    /// Return the rows of the chunk, if each of its blocks consists of whole ones, so that it can be copied to the work
    /// buffer as soon as it is decoded.
    fn rows_of_blocks(&self, table: &BlockTable, copy: &StridedCopy<'_>, elements: &Elements) -> Option<Rows> {
        if !has_large_blocks(table) || elements.text.is_some() || self.direct_target(table.content, copy).is_some() {
            return None;
        }
        rows(copy, elements.size).filter(|rows| table.block % rows.stride == 0)
    }

    /// Decode one block, and copy its rows to the work buffer.
    fn place_block(
        &self,
        (codec, table): (&dyn Blocks, &BlockTable),
        data: &[u8],
        needed: Needed,
        rows: Rows,
        copy: &StridedCopy<'_>,
        elements: &Elements,
    ) -> Result<()> {
        with_scratch(table.len(needed.block), |out| {
            codec.decode_block(table, needed.block, data, needed.low..needed.high, out)?;
            self.place_rows(out, needed.block * table.block, rows, copy, elements)
        })
    }

    /// Copy the rows of a piece of the chunk's content to the work buffer; the piece begins at `start`, with a whole row.
    fn place_rows(
        &self,
        piece: &[u8],
        start: usize,
        rows: Rows,
        copy: &StridedCopy<'_>,
        elements: &Elements,
    ) -> Result<()> {
        // the indices of the outermost dimension whose rows lie in the piece
        let outer = copy.dims[0];
        let begin = (start / rows.stride).saturating_sub(rows.first);
        let end = (start + piece.len()).div_ceil(rows.stride).saturating_sub(rows.first).min(outer.count);
        if begin >= end {
            return Ok(());
        }
        let (target, offset) = match outer.target {
            Offsets::Strided(step) => (outer.target, begin as isize * step),
            Offsets::Indexed(list, step) => (Offsets::Indexed(&list[begin..end], step), 0),
        };
        let mut dims = copy.dims.clone();
        dims[0] = Dim { count: end - begin, source: outer.source, target };
        // SAFETY: the piece holds the rows of these indices; the caller of `read` guarantees the work buffer.
        unsafe {
            let source = piece.as_ptr().add(copy.source + begin * rows.stride - start + self.work.offset);
            let target = self.work.start.offset(copy.target + offset);
            strided::copy(source, target, &dims, self.work.size, elements.swap, self.work.bypass_cache);
        }
        Ok(())
    }

    /// Return whether decoding the whole chunk is cheaper than decoding these blocks one by one.
    fn prefers_whole(&self, table: &BlockTable, needed: &[Needed]) -> bool {
        let bytes: usize = needed.iter().map(|needed| needed.high - needed.low).sum();
        bytes >= table.content - table.content / 4 && self.threads == 1 && !has_large_blocks(table)
    }
}

/// Return the rows of a chunk if the elements that `copy` selects of each lie within it.
fn rows(copy: &StridedCopy<'_>, size: usize) -> Option<Rows> {
    let Offsets::Strided(stride) = copy.dims.first()?.source else { return None };
    let stride = usize::try_from(stride).ok().filter(|&stride| stride > 0)?;
    let Span { low, span } = copy.inner_span(1, size);
    let start = (copy.source % stride) as i64 + low;
    (start >= 0 && start as usize + span <= stride).then_some(Rows { stride, first: copy.source / stride })
}

/// Return whether a chunk and its blocks are so large that reading and decoding it piece by piece takes no longer, but
/// less memory.
fn has_large_blocks(table: &BlockTable) -> bool {
    table.content > LARGE && table.block >= LEAST_BLOCK
}

/// Decode the needed parts of blocks to their places in `out`, which has the size of the whole content.
pub(crate) fn decode_each(
    codec: &dyn Blocks,
    data: &[u8],
    table: &BlockTable,
    needed: &[Needed],
    threads: usize,
    out: &mut [u8],
) -> Result<()> {
    let places = places(out, table, needed)?;
    let task = |index: usize| {
        let (start, stop) = table.ranges[needed[index].block];
        decode_block(codec, table, needed[index], &data[start as usize..stop as usize], &places[index])
    };
    run_tasks(threads, needed.len(), table.block, &task)
}

/// Read blocks, and call `work` with each; blocks close to each other are read with one request.
fn each_run(
    value: &dyn Value,
    table: &BlockTable,
    needed: &[Needed],
    (threads, parts): (usize, Parts),
    work: &(dyn Fn(Needed, &[u8]) -> Result<()> + Sync),
) -> Result<()> {
    let runs = runs_of_blocks(table, needed, parts, threads)?;
    let task = |index: usize| {
        let run = &runs[index];
        let length = (run.stop - run.start) as usize;
        value.with_range(run.start, length as u64, &mut |data| {
            if data.len() != length {
                return Err(Error::wrong_size("blosc", data.len(), length));
            }
            run.blocks.iter().try_for_each(|&needed| {
                let (start, stop) = table.ranges[needed.block];
                work(needed, &data[(start - run.start) as usize..(stop - run.start) as usize])
            })
        })
    };
    run_tasks(threads, runs.len(), table.block.saturating_mul(needed.len() / runs.len().max(1)), &task)
}

/// Run tasks of about `bytes` bytes each, with several threads if that is faster.
fn run_tasks(threads: usize, count: usize, bytes: usize, task: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    if threads > 1 && count > 1 && bytes.saturating_mul(count) > SMALL {
        pool::run(threads, count, task, &mut || Ok(()))
    } else {
        (0..count).try_for_each(task)
    }
}

/// Check that the decoded parts of blocks hold valid text.
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

/// The memory of blocks, of which each is written by one thread.
type Places<'o> = Vec<Mutex<&'o mut [u8]>>;

/// Return the memory of the needed blocks, which are in order, in that of the whole content.
fn places<'o>(out: &'o mut [u8], table: &BlockTable, needed: &[Needed]) -> Result<Places<'o>> {
    let length = out.len();
    let wrong = || Error::wrong_size("blosc", table.content, length);
    if length != table.content {
        return Err(wrong());
    }
    let (mut blocks, mut next) = (out.chunks_mut(table.block), 0);
    let mut places = try_with_capacity(needed.len())?;
    for &Needed { block, .. } in needed {
        places.push(Mutex::new(blocks.nth(block - next).ok_or_else(wrong)?));
        next = block + 1;
    }
    Ok(places)
}

/// Decode the needed part of a block to its place.
fn decode_block(
    codec: &dyn Blocks,
    table: &BlockTable,
    Needed { block, low, high }: Needed,
    data: &[u8],
    place: &Mutex<&mut [u8]>,
) -> Result<()> {
    let mut out = place.lock().unwrap_or_else(PoisonError::into_inner);
    codec.decode_block(table, block, data, low..high, &mut out)
}

/// Blocks that are read with one request.
struct BlockRun {
    start: u64,
    stop: u64,
    blocks: Vec<Needed>,
}

/// Group blocks that lie close to each other in the encoded data.
fn runs_of_blocks(table: &BlockTable, needed: &[Needed], parts: Parts, threads: usize) -> Result<Vec<BlockRun>> {
    let Parts { gap, span } = parts;
    let span = if threads > 1 { span.min(1 << 18) } else { span };
    let mut sorted = try_collect(needed.iter().copied())?;
    sorted.sort_unstable_by_key(|needed| table.ranges[needed.block]);
    let mut runs: Vec<BlockRun> = Vec::new();
    for needed in sorted {
        let (start, stop) = table.ranges[needed.block];
        match runs.last_mut() {
            Some(run) if start <= run.stop.saturating_add(gap) && stop.saturating_sub(run.start) <= span => {
                run.stop = run.stop.max(stop);
                try_push(&mut run.blocks, needed)?;
            }
            _ => try_push(&mut runs, BlockRun { start, stop, blocks: vec![needed] })?,
        }
    }
    Ok(runs)
}
