//! Reading: a plan carried out, each chunk decoded to where it belongs.

use crate::array::{Array, Chain, Elements, Sharding};
use crate::codecs::{BlockTable, Blocks, Layout};
use crate::memory::with_scratch;
use crate::placing::{Placing, Work, content_size};
use crate::plan::{Item, Plan};
use crate::stores::{Parts, Slice, Store, Value, Within};
use crate::{Error, Result, backoff, pool, strided};

/// Values up to this length are read as a whole rather than by parts.
const SMALL: usize = 1 << 16;
/// Chunks from this length on are decoded by several threads, where their codec allows it.
const LARGE: usize = 1 << 20;
const MISSING: &str = "the chunk is missing; if the array has been shortened since it was opened, refresh it";

/// Who asks, and how much may be done for it.
pub struct Call<'c> {
    /// How many threads may be used.
    pub threads: usize,
    /// Whether chunks are stored that hold nothing but the fill value.
    pub keep_empty: bool,
    /// Called by the calling thread now and then; its error ends the call.
    pub poll: &'c mut dyn FnMut() -> Result<()>,
}

/// Read what `plan` selects of `array` into `work`.
///
/// # Safety
///
/// Every place that the plan leads to lies within the work buffer's memory, which nobody else uses meanwhile, and its
/// selections lie within the array's chunks.
pub unsafe fn read(store: &dyn Store, array: &Array, plan: &Plan<'_>, work: Work, call: Call<'_>) -> Result<()> {
    let count = plan.len();
    let shared = count > 1 && (array.chain.sharding().is_none() || count >= 2 * call.threads);
    let threads = if shared { 1 } else { call.threads };
    let task = |index: usize| read_chunk(store, array, &plan.item(index), work, threads);
    if !shared {
        (0..count).try_for_each(|index| {
            (call.poll)()?;
            task(index)
        })
    } else if is_small(array, plan) && store.concurrency() == 0 {
        (0..count).try_for_each(task)
    } else {
        pool::run(call.threads.max(store.concurrency()), count, &task, call.poll)
    }
}

/// Whether the work is done before another thread would have woken up.
pub(crate) fn is_small(array: &Array, plan: &Plan<'_>) -> bool {
    let content: u64 = array.cuts.iter().map(|cut| cut.length(0)).product::<u64>().saturating_mul(array.fill.len() as u64);
    let weight = if array.chain.buffers.iter().any(|codec| codec.is_slow()) { 4 } else { 1 };
    (plan.len() as u64).saturating_mul(8192 + content.saturating_mul(weight)) < 120_000
}

fn read_chunk(store: &dyn Store, array: &Array, item: &Item<'_, '_>, work: Work, threads: usize) -> Result<()> {
    let key = array.keys.encode(&item.coords);
    for attempt in 0..backoff::ATTEMPTS {
        match read_key(store, array, &key, item, work, threads) {
            Err(Error::Conflict) => backoff::wait(attempt),
            Err(Error::Unusual) => {
                let Some(slow) = store.slow() else { return Err(Error::Unusual.at(&key)) };
                return read_chunk(slow, array, item, work, threads);
            }
            done => return done.map_err(|error| error.at(&key)),
        }
    }
    Err(Error::Store { message: "the shard kept changing while it was read".into() }.at(&key))
}

fn read_key(
    store: &dyn Store,
    array: &Array,
    key: &str,
    item: &Item<'_, '_>,
    work: Work,
    threads: usize,
) -> Result<()> {
    let value = if key.is_empty() { None } else { store.open(key)? };
    let shape = array.chunk_shape(&item.coords);
    let absent = || {
        if array.dense {
            return Err(Error::Store { message: MISSING.into() });
        }
        fill(&array.chain, &shape, item, &array.fill, work);
        Ok(())
    };
    let Some(value) = value else { return absent() };
    let reading = Reading { chain: &array.chain, fill: &array.fill, work, threads };
    if !array.dense {
        return match reading.value(value.as_ref(), &shape, item) {
            Err(Error::Absent) => absent(),
            done => done,
        };
    }
    let least = shape[0].min(array.shape[0].saturating_sub(item.coords[0] * shape[0]));
    let row = shape[1..].iter().product::<u64>() as usize * array.fill.len();
    let rows = stored_rows(&array.chain, value.as_ref(), shape[0], row)?;
    if rows < least {
        return Err(Error::Codec {
            codec: String::new(),
            message: format!("there are {rows} rows where the array has {least}"),
        });
    }
    let mut stored = shape;
    stored[0] = rows;
    reading.value(value.as_ref(), &stored, item)
}

/// How many rows are stored of a chunk of up to `most` rows of `row` bytes, as the codec outermost tells.
pub fn stored_rows(chain: &Chain, value: &dyn Value, most: u64, row: usize) -> Result<u64> {
    let Some(outermost) = chain.buffers.last() else { return Ok(most) };
    let mut head = [0_u8; 256];
    let length = value.read_at(0, &mut head)?;
    let Some(found) = outermost.content_size(&head[..length], value.size()?)? else { return Ok(most) };
    if row == 0 {
        return Ok(most);
    }
    if found % row != 0 || (found / row) as u64 > most {
        return Err(Error::codec(
            outermost.name(),
            format!("there are {found} bytes where the chunk holds up to {most} rows of {row}"),
        ));
    }
    Ok((found / row) as u64)
}

/// Put the fill value where a missing chunk is asked for.
fn fill(chain: &Chain, shape: &[u64], item: &Item<'_, '_>, value: &[u8], work: Work) {
    let mut points = Vec::new();
    let placing = Placing::new(item, chain.order.as_deref(), &chain.stored_shape(shape), value.len(), &mut points);
    let value = &value[work.offset..work.offset + work.size];
    // SAFETY: the caller of `read` vouches for the work buffer's places.
    unsafe { strided::fill(work.start.offset(placing.target), &placing.dims, value) }
}

#[derive(Clone, Copy)]
struct Reading<'r> {
    chain: &'r Chain,
    fill: &'r [u8],
    work: Work,
    threads: usize,
}

impl Reading<'_> {
    /// Read part of a chunk of `shape` that is stored as `value`.
    fn value(&self, value: &dyn Value, shape: &[u64], item: &Item<'_, '_>) -> Result<()> {
        let chain = self.chain;
        let stored = chain.stored_shape(shape);
        if let Some(sharding) = chain.sharding() {
            if chain.buffers.is_empty() {
                return self.shard(sharding, value, &stored, item);
            }
            return value.with_all(&mut |data| {
                let mut shard = Vec::new();
                let most = isize::MAX as usize;
                decode_unsized(chain, data, most, &mut shard)?;
                self.shard(sharding, &Slice(&shard), &stored, item)
            });
        }
        let Some(elements) = chain.elements() else { return Ok(()) };
        let content = content_size(&stored, elements.size)?;
        let mut points = Vec::new();
        let placing = Placing::new(item, chain.order.as_deref(), &stored, elements.size, &mut points);
        let partly = placing.count * elements.size < content;
        if let Some(last) = chain.buffers.last() {
            let all = chain.buffers.len() == 1 || chain.buffers.len() == 2 && chain.buffers[0].blocks().is_some();
            if let Some(blocks) = last.blocks().filter(|_| all) {
                if content > LARGE && self.threads > 1 || partly && content > 4096 {
                    return self.by_blocks(blocks, value, content, &placing, elements);
                }
            }
        } else if partly && content > SMALL && elements.text.is_none() {
            if let Some(parts) = value.parts() {
                if let Some(depth) = placing.depth(content, elements.size, parts) {
                    return self.by_ranges(value, content, &placing, depth, elements);
                }
            }
        }
        value.with_all(&mut |data| self.whole(data, content, &placing, elements))
    }

    /// Decode all of a chunk, straight to its place if it lies there in one piece.
    fn whole(&self, data: &[u8], content: usize, placing: &Placing<'_>, elements: &Elements) -> Result<()> {
        if let Some(out) = self.in_one_piece(content, placing) {
            return self.chain.decode_content(data, out);
        }
        if self.chain.buffers.is_empty() && elements.text.is_none() {
            if data.len() != content {
                return Err(Error::wrong_size("bytes", data.len(), content));
            }
            // SAFETY: the chunk's content has been checked to be all there.
            unsafe { self.copy(data, placing, elements.swap) };
            return Ok(());
        }
        with_scratch(content, |chunk| {
            self.chain.decode_buffers(data, chunk)?;
            self.place(chunk, placing, elements)
        })
    }

    /// The memory of the target that a whole chunk fills as it is.
    fn in_one_piece<'m>(&self, content: usize, placing: &Placing<'_>) -> Option<&'m mut [u8]> {
        if !placing.in_one_piece || self.work.size != self.fill.len() {
            return None;
        }
        // SAFETY: the caller of `read` vouches for the work buffer's places, which are these; chunks do not overlap.
        Some(unsafe { std::slice::from_raw_parts_mut(self.work.start.offset(placing.target), content) })
    }

    fn place(&self, chunk: &mut [u8], placing: &Placing<'_>, elements: &Elements) -> Result<()> {
        let mut swap = elements.swap;
        if elements.text.is_some() {
            elements.to_memory(chunk)?;
            swap = 0;
        }
        // SAFETY: `chunk` holds all of the content.
        unsafe { self.copy(chunk, placing, swap) };
        Ok(())
    }

    /// Copy what is asked for of a chunk's content.
    ///
    /// # Safety
    ///
    /// All that `placing` leads to lies within `chunk`.
    unsafe fn copy(&self, chunk: &[u8], placing: &Placing<'_>, swap: usize) {
        // SAFETY: as above for the source; the caller of `read` vouches for the work buffer.
        unsafe {
            let source = chunk.as_ptr().add(placing.source + self.work.offset);
            let target = self.work.start.offset(placing.target);
            strided::copy(source, target, &placing.dims, self.work.size, swap, self.work.far);
        }
    }

    /// Read only the ranges that are asked for of a chunk that is not compressed.
    fn by_ranges(
        &self,
        value: &dyn Value,
        content: usize,
        placing: &Placing<'_>,
        depth: usize,
        elements: &Elements,
    ) -> Result<()> {
        let size = value.size()?;
        if size != content as u64 {
            return Err(Error::wrong_size("bytes", size as usize, content));
        }
        let inner = placing.inner(depth, elements.size);
        with_scratch(inner.span, |data| {
            placing.for_each_outer(depth, &mut |source, target| {
                let start = (placing.source as i64 + source + inner.low) as u64;
                let found = value.read_at(start, data)?;
                if found != inner.span {
                    return Err(Error::wrong_size("bytes", found, inner.span));
                }
                // SAFETY: `data` holds what the inner dimensions lead to, `-low` from its start; for the target as ever.
                unsafe {
                    let source = data.as_ptr().offset(-inner.low as isize + self.work.offset as isize);
                    let target = self.work.start.offset(placing.target + target);
                    strided::copy(source, target, &placing.dims[depth..], self.work.size, elements.swap, self.work.far);
                }
                Ok(())
            })
        })
    }

    /// Read and decode only the blocks that are asked for; all of them by several threads, if there are many.
    fn by_blocks(
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
                    let needed = placing.blocks(table.block, table.ranges.len(), elements.size);
                    if needed.len() * 4 >= table.ranges.len() * 3 && self.threads == 1 {
                        return self.whole(data, content, placing, elements);
                    }
                    self.decode_blocks(codec, &Slice(data), &table, &needed, None, placing, elements)
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
                let needed = placing.blocks(table.block, table.ranges.len(), elements.size);
                if needed.len() * 4 >= table.ranges.len() * 3 && self.threads == 1 {
                    return value.with_all(&mut |data| self.whole(data, content, placing, elements));
                }
                self.decode_blocks(codec, value, &table, &needed, Some(parts), placing, elements)
            }
            Layout::Plain(start) if elements.text.is_none() && start + content as u64 == total => {
                let plain = Within { value, start, length: content as u64 };
                match placing.depth(content, elements.size, parts) {
                    Some(depth) => self.by_ranges(&plain, content, placing, depth, elements),
                    None => value.with_all(&mut |data| self.whole(data, content, placing, elements)),
                }
            }
            _ => value.with_all(&mut |data| self.whole(data, content, placing, elements)),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one step")]
    fn decode_blocks(
        &self,
        codec: &dyn Blocks,
        value: &dyn Value,
        table: &BlockTable,
        needed: &[usize],
        parts: Option<Parts>,
        placing: &Placing<'_>,
        elements: &Elements,
    ) -> Result<()> {
        let runs = runs_of_blocks(table, needed, parts, self.threads);
        let decode = |out: SharedOut| {
            let task = |index: usize| {
                let run = &runs[index];
                let length = (run.stop - run.start) as usize;
                let decode = |data: &[u8]| {
                    run.blocks.iter().try_for_each(|&block| {
                        let (start, stop) = table.ranges[block];
                        let data = &data[(start - run.start) as usize..(stop - run.start) as usize];
                        // SAFETY: blocks do not overlap, and each is decoded once.
                        let out = unsafe {
                            std::slice::from_raw_parts_mut(out.at(block * table.block), table.len(block))
                        };
                        codec.decode_block(table, block, data, out)
                    })
                };
                Within { value, start: run.start, length: length as u64 }.with_all(&mut |data| {
                    if data.len() != length {
                        return Err(Error::wrong_size("blosc", data.len(), length));
                    }
                    decode(data)
                })
            };
            if self.threads > 1 && runs.len() > 1 && needed.len() * table.block > SMALL {
                pool::run(self.threads, runs.len(), &task, &mut || Ok(()))
            } else {
                (0..runs.len()).try_for_each(task)
            }
        };
        if let Some(out) = self.in_one_piece(table.content, placing) {
            decode(SharedOut(out.as_mut_ptr()))?;
            return elements.to_memory(out);
        }
        with_scratch(table.content, |chunk| {
            decode(SharedOut(chunk.as_mut_ptr()))?;
            if elements.text.is_some() {
                for &block in needed {
                    let start = block * table.block;
                    elements.to_memory(&mut chunk[start..start + table.len(block)])?;
                }
            }
            // SAFETY: the blocks that `placing` leads to have been decoded.
            unsafe { self.copy(chunk, placing, if elements.text.is_some() { 0 } else { elements.swap }) };
            Ok(())
        })
    }

    /// Read part of a shard: its index, and the inner chunks that are asked for, close ones together.
    fn shard(&self, sharding: &Sharding, value: &dyn Value, stored: &[u64], item: &Item<'_, '_>) -> Result<()> {
        let grid = sharding.grid(stored);
        let size = sharding.index_size(&grid)?;
        let index = with_scratch(size, |data| {
            let (found, total) = if sharding.at_start {
                (value.read_at(0, data)?, None)
            } else {
                value.read_tail(data)?
            };
            if found != size {
                return Err(Error::codec(
                    "sharding_indexed",
                    format!("a shard of {found} bytes has no room for its index of {size}"),
                ));
            }
            sharding.decode_index(data, &grid, total)
        })?;
        let plan = item.refine(self.chain.order.as_deref(), &sharding.inner_shape);
        let inner = Reading { chain: &sharding.inner, threads: 1, ..*self };
        let mut wanted = Vec::with_capacity(plan.len());
        for number in 0..plan.len() {
            let part = plan.item(number);
            let flat = grid.iter().zip(&part.coords).fold(0, |flat, (count, coord)| flat * count + coord);
            let (offset, length) = index[flat as usize];
            if length == crate::array::EMPTY {
                fill(&sharding.inner, &sharding.inner_shape, &part, self.fill, self.work);
            } else {
                wanted.push((offset, length, number));
            }
        }
        wanted.sort_unstable();
        let runs = runs_of_chunks(&wanted, value.parts().unwrap_or(Parts { gap: 0, span: 1 << 17 }));
        let task = |index: usize| {
            let run = runs[index];
            let (start, stop) = (run[0].0, run.iter().map(|entry| entry.0 + entry.1).max().unwrap_or(0));
            let range = Within { value, start, length: stop - start };
            if let [(_, _, number)] = run {
                return inner.value(&range, &sharding.inner_shape, &plan.item(*number));
            }
            range.with_all(&mut |data| {
                run.iter().try_for_each(|&(offset, length, number)| {
                    let start = (offset - start) as usize;
                    let data = data.get(start..start + length as usize);
                    let data = data.ok_or_else(|| Error::codec("sharding_indexed", "an inner chunk lies outside its shard"))?;
                    inner.value(&Slice(data), &sharding.inner_shape, &plan.item(number))
                })
            })
        };
        if self.threads > 1 && wanted.len() > 1 && runs.len() > 1 {
            pool::run(self.threads, runs.len(), &task, &mut || Ok(()))
        } else {
            (0..runs.len()).try_for_each(task)
        }
    }
}

/// The start of memory that several threads write to, each to a part of its own.
#[derive(Clone, Copy)]
struct SharedOut(*mut u8);

// SAFETY: see where it is used: no two threads write to the same place.
unsafe impl Sync for SharedOut {}
// SAFETY: as above.
unsafe impl Send for SharedOut {}

impl SharedOut {
    fn at(self, offset: usize) -> *mut u8 {
        self.0.wrapping_add(offset)
    }
}

/// Blocks that are read at once.
struct BlockRun {
    start: u64,
    stop: u64,
    blocks: Vec<usize>,
}

fn runs_of_blocks(table: &BlockTable, needed: &[usize], parts: Option<Parts>, threads: usize) -> Vec<BlockRun> {
    let Parts { gap, span } = parts.unwrap_or(Parts { gap: 0, span: 0 });
    let span = if threads > 1 { span.min(1 << 18) } else { span };
    let mut sorted = needed.to_vec();
    sorted.sort_unstable_by_key(|&block| table.ranges[block]);
    let mut runs: Vec<BlockRun> = Vec::new();
    for block in sorted {
        let (start, stop) = table.ranges[block];
        match runs.last_mut() {
            Some(run) if start <= run.stop.saturating_add(gap) && stop.saturating_sub(run.start) <= span => {
                run.stop = run.stop.max(stop);
                run.blocks.push(block);
            }
            _ => runs.push(BlockRun { start, stop, blocks: vec![block] }),
        }
    }
    runs
}

/// Join inner chunks that lie close together in the shard, so that each run is one request.
fn runs_of_chunks(wanted: &[(u64, u64, usize)], parts: Parts) -> Vec<&[(u64, u64, usize)]> {
    let mut runs = Vec::new();
    let (mut begin, mut start, mut stop) = (0, 0, 0);
    for (position, &(offset, length, _)) in wanted.iter().enumerate() {
        let end = offset + length;
        let joins = position > begin && offset <= stop + parts.gap && end - start <= parts.span;
        if !joins {
            if position > begin {
                runs.push(&wanted[begin..position]);
            }
            (begin, start, stop) = (position, offset, end);
        }
        stop = stop.max(end);
    }
    if begin < wanted.len() {
        runs.push(&wanted[begin..]);
    }
    runs
}

/// Undo the buffer codecs where nobody knows how much they make, up to `most` bytes.
pub fn decode_unsized(chain: &Chain, data: &[u8], most: usize, out: &mut Vec<u8>) -> Result<()> {
    let mut current: Vec<u8> = Vec::new();
    for (position, codec) in chain.buffers.iter().rev().enumerate() {
        codec.decode_up_to(if position == 0 { data } else { &current }, most, out)?;
        std::mem::swap(out, &mut current);
    }
    *out = current;
    Ok(())
}
