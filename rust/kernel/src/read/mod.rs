//! Reading: a plan carried out, each chunk decoded to where it belongs.

mod parts;
mod shards;

pub(crate) use parts::{check_blocks, decode_each};

use std::sync::atomic::{AtomicBool, Ordering};

use crate::array::{Array, Chain, Elements};
use crate::memory::with_scratch;
use crate::placing::{Placing, Work, content_size};
use crate::plan::{Item, Plan};
use crate::stores::{Slice, Store, Value};
use crate::{Error, Result, backoff, pool, strided};

/// Values up to this length are read as a whole rather than by parts.
const SMALL: usize = 1 << 16;
/// Chunks from this length on are decoded by several threads, where their codec allows it.
pub(crate) const LARGE: usize = 1 << 20;
/// Chunks up to this length are decoded as a whole.
const PAGE: usize = 1 << 12;
pub(crate) const MISSING: &str = "the chunk is missing";

/// Who asks, and how much may be done for it.
pub struct Call<'c> {
    /// How many threads may be used.
    pub threads: usize,
    /// Whether chunks are stored that hold nothing but the fill value.
    pub keep_empty: bool,
    /// Called by the calling thread now and then; its error ends the call.
    pub poll: &'c mut dyn FnMut() -> Result<()>,
    /// Set by a read that takes the fill value for a chunk because the store has none.
    pub absent: &'c AtomicBool,
}

/// Read what `plan` selects of `array` into `work`.
///
/// # Safety
///
/// Every place that the plan leads to lies within the work buffer's memory, which nobody else uses meanwhile, and its
/// selections lie within the array's chunks.
pub unsafe fn read(store: &dyn Store, array: &Array, plan: &Plan, work: Work, call: Call<'_>) -> Result<()> {
    let absent = call.absent;
    each_chunk(store, array, plan, call, &|item, threads| {
        let key = array.keys.encode(&item.coords);
        at_key(store, &key, &|store| read_key(store, array, &key, item, work, threads, absent))
    })
}

/// Call `work` with each chunk that a plan touches, and with how many threads it may use for it.
pub(crate) fn each_chunk(
    store: &dyn Store,
    array: &Array,
    plan: &Plan,
    call: Call<'_>,
    work: &(dyn Fn(&Item<'_>, usize) -> Result<()> + Sync),
) -> Result<()> {
    let count = plan.len();
    let shared = count > 1 && (array.chain.sharding().is_none() || count / 2 >= call.threads);
    let threads = if shared { 1 } else { call.threads };
    let task = |index: usize| work(&plan.item(index), threads);
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
fn is_small(array: &Array, plan: &Plan) -> bool {
    let content = array.cuts.iter().fold(array.fill.len() as u64, |bytes, cut| bytes.saturating_mul(cut.length(0)));
    let weight = if array.chain.buffers.iter().any(|codec| codec.is_slow()) { 4 } else { 1 };
    (plan.len() as u64).saturating_mul(8192 + content.saturating_mul(weight)) < 120_000
}

/// Do something at a key: again where somebody else came between, and the store's own way where that is needed.
pub(crate) fn at_key(store: &dyn Store, key: &str, work: &dyn Fn(&dyn Store) -> Result<()>) -> Result<()> {
    for attempt in 0..backoff::ATTEMPTS {
        match work(store) {
            Err(Error::Conflict) => backoff::wait(attempt),
            Err(Error::Unusual) => {
                let Some(slow) = store.slow() else { return Err(Error::Unusual.at(key)) };
                return at_key(slow, key, work);
            }
            done => return done.map_err(|error| error.at(key)),
        }
    }
    Err(Error::Conflict.at(key))
}

fn read_key(
    store: &dyn Store,
    array: &Array,
    key: &str,
    item: &Item<'_>,
    work: Work,
    threads: usize,
    absent: &AtomicBool,
) -> Result<()> {
    let value = if key.is_empty() { None } else { store.open(key)? };
    let shape = array.chunk_shape(&item.coords);
    let missing = || {
        if array.dense {
            return Err(Error::Store { message: MISSING.into() });
        }
        absent.store(true, Ordering::Relaxed);
        fill(&array.chain, &shape, item, &array.fill, work)
    };
    let Some(value) = value else { return missing() };
    let reading = Reading { chain: &array.chain, fill: &array.fill, work, threads };
    if !array.dense {
        return match reading.value(value.as_ref(), &shape, item) {
            Err(Error::Absent) => missing(),
            done => done,
        };
    }
    let mut stored = shape;
    stored[0] = stored_rows(array, value.as_ref(), &stored, item)?;
    reading.value(value.as_ref(), &stored, item)
}

/// How many rows of a chunk of `shape` the array has, and so have to be stored.
pub(crate) fn least_rows(array: &Array, shape: &[u64], item: &Item<'_>) -> u64 {
    shape[0].min(array.shape[0].saturating_sub(item.coords[0].saturating_mul(shape[0])))
}

/// How many rows are stored of a chunk of up to `shape`, as the codec outermost tells; no less than the array has.
pub(crate) fn stored_rows(array: &Array, value: &dyn Value, shape: &[u64], item: &Item<'_>) -> Result<u64> {
    let least = least_rows(array, shape, item);
    let row = content_size(&shape[1..], array.fill.len())?;
    let rows = count_rows(&array.chain, value, shape[0], row)?;
    if rows < least {
        return Err(Error::codec("", format!("there are {rows} rows where the array has {least}")));
    }
    Ok(rows)
}

fn count_rows(chain: &Chain, value: &dyn Value, most: u64, row: usize) -> Result<u64> {
    let Some(outermost) = chain.buffers.last() else { return Ok(most) };
    let mut head = [0_u8; 256];
    let length = value.read_at(0, &mut head)?;
    let Some(found) = outermost.content_size(&head[..length], value.size()?)? else { return Ok(most) };
    if row == 0 || found % row != 0 || (found / row) as u64 > most {
        return Err(Error::codec(
            outermost.name(),
            format!("there are {found} bytes where the chunk holds up to {most} rows of {row}"),
        ));
    }
    Ok((found / row) as u64)
}

/// Put the fill value where a missing chunk is asked for.
fn fill(chain: &Chain, shape: &[u64], item: &Item<'_>, value: &[u8], work: Work) -> Result<()> {
    let stored = chain.stored_shape(shape);
    content_size(&stored, value.len())?;
    let mut points = Vec::new();
    let placing = Placing::new(item, chain.order.as_deref(), &stored, value.len(), &mut points)?;
    let value = &value[work.offset..work.offset + work.size];
    // SAFETY: the caller of `read` vouches for the work buffer's places.
    unsafe { strided::fill(work.start.offset(placing.target), &placing.dims, value) };
    Ok(())
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
    fn value(&self, value: &dyn Value, shape: &[u64], item: &Item<'_>) -> Result<()> {
        let chain = self.chain;
        let stored = chain.stored_shape(shape);
        if let Some(sharding) = chain.sharding() {
            if chain.buffers.is_empty() {
                return self.shard(sharding, value, &stored, item);
            }
            return value.with_all(&mut |data| {
                let mut shard = Vec::new();
                decode_shard(chain, data, content_size(&stored, self.fill.len())?, &mut shard)?;
                self.shard(sharding, &Slice(&shard), &stored, item)
            });
        }
        let Some(elements) = chain.elements() else { return Ok(()) };
        let content = content_size(&stored, elements.size)?;
        let mut points = Vec::new();
        let placing = Placing::new(item, chain.order.as_deref(), &stored, elements.size, &mut points)?;
        let partly = placing.count.saturating_mul(elements.size) < content;
        if let Some(blocks) = chain.blocks() {
            if content > LARGE && self.threads > 1 || partly && content > PAGE {
                return self.by_blocks(blocks, value, content, &placing, elements);
            }
        } else if chain.buffers.is_empty() && partly && content > SMALL && elements.text.is_none() {
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
}

/// Undo the buffer codecs around a shard of `content` bytes of elements, of which nobody knows how long it is.
pub(crate) fn decode_shard(chain: &Chain, data: &[u8], content: usize, out: &mut Vec<u8>) -> Result<()> {
    // an index, and room that is not used any more, take as much as the elements at the very most
    let most = content.saturating_mul(16).saturating_add(1 << 20);
    let mut current: Vec<u8> = Vec::new();
    for (position, codec) in chain.buffers.iter().rev().enumerate() {
        codec.decode_up_to(if position == 0 { data } else { &current }, most, out)?;
        std::mem::swap(out, &mut current);
    }
    *out = current;
    Ok(())
}
