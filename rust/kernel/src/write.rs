//! Writing: a plan carried out, each chunk encoded and put in the place of the old one in one step.
//!
//! A chunk that is wholly replaced is written at once. Of the others the old value is read, changed and written on
//! condition that nobody else wrote it in between, until that holds.

use std::cell::RefCell;
use std::sync::Mutex;

use crate::array::{Array, Chain, EMPTY, Sharding};
use crate::memory::with_scratch;
use crate::placing::{Placing, Work, content_size};
use crate::plan::{Item, Plan};
use crate::read::{Call, decode_unsized, is_small, stored_rows};
use crate::stores::{Expected, Store};
use crate::{Error, Result, backoff, pool, strided};

const MISSING: &str = "the chunk is missing; if the array has been shortened since it was opened, refresh it";

/// Write what is in `work` where `plan` says.
///
/// # Safety
///
/// Every place that the plan leads to lies within the work buffer's memory, which nobody changes meanwhile, and its
/// selections lie within the array's chunks.
pub unsafe fn write(store: &dyn Store, array: &Array, plan: &Plan<'_>, work: Work, call: Call<'_>) -> Result<()> {
    let count = plan.len();
    let shared = count > 1 && (array.chain.sharding().is_none() || count >= 2 * call.threads);
    let threads = if shared { 1 } else { call.threads };
    let writing = Writing { fill: &array.fill, keep_empty: call.keep_empty || array.dense, work, threads };
    let task = |index: usize| write_chunk(store, array, &plan.item(index), writing);
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

fn write_chunk(store: &dyn Store, array: &Array, item: &Item<'_, '_>, writing: Writing<'_>) -> Result<()> {
    let key = array.keys.encode(&item.coords);
    if key.is_empty() {
        return Err(Error::unsupported("", "this format has no chunk key for an array without dimensions"));
    }
    for attempt in 0..backoff::ATTEMPTS {
        match write_key(store, array, &key, item, writing) {
            Err(Error::Conflict) => backoff::wait(attempt),
            Err(Error::Unusual) => {
                let Some(slow) = store.slow() else { return Err(Error::Unusual.at(&key)) };
                return write_chunk(slow, array, item, writing);
            }
            done => return done.map_err(|error| error.at(&key)),
        }
    }
    Err(Error::Store { message: "the chunk kept changing under the update".into() }.at(&key))
}

fn write_key(
    store: &dyn Store,
    array: &Array,
    key: &str,
    item: &Item<'_, '_>,
    writing: Writing<'_>,
) -> Result<()> {
    let shape = array.chunk_shape(&item.coords);
    let covers = item.covers() && writing.work.size == array.fill.len();
    if covers && !array.overhangs(&item.coords) {
        return writing.encode(&array.chain, &shape, item, true, None, &mut |parts| match parts {
            Some(parts) => store.set(key, parts, None),
            None => store.delete(key, None),
        });
    }
    let old = store.open_for_change(key)?;
    let mut stored = shape;
    if array.dense {
        let least = stored[0].min(array.shape[0].saturating_sub(item.coords[0] * stored[0]));
        let row = stored[1..].iter().product::<u64>() as usize * array.fill.len();
        let rows = match &old {
            None if covers => least,
            None => return Err(Error::Store { message: MISSING.into() }),
            Some(value) => match stored_rows(&array.chain, value.as_ref(), stored[0], row) {
                Err(Error::Codec { .. }) if covers => least,
                rows => rows?,
            },
        };
        if rows < least {
            let message = format!("there are {rows} rows where the array has {least}");
            return Err(Error::Codec { codec: String::new(), message });
        }
        stored[0] = rows;
    }
    let Some(old) = old else {
        return writing.encode(&array.chain, &stored, item, false, None, &mut |parts| match parts {
            Some(parts) => store.set(key, parts, Some(&Expected::Absent)),
            None => Ok(()),
        });
    };
    let expected = old.generation()?;
    let mut put = |parts: Option<&[&[u8]]>| match parts {
        Some(parts) => store.set(key, parts, Some(&expected)),
        None => store.delete(key, Some(&expected)),
    };
    let merged = old.with_all(&mut |data| writing.encode(&array.chain, &stored, item, false, Some(data), &mut put));
    match merged {
        // what is damaged is an error only where something of it would have been kept
        Err(Error::Codec { .. }) if covers => writing.encode(&array.chain, &stored, item, false, None, &mut put),
        done => done,
    }
}

/// Called with the new bytes of a chunk, in pieces; with `None` if it need not be stored.
type Put<'p> = dyn FnMut(Option<&[&[u8]]>) -> Result<()> + 'p;

#[derive(Clone, Copy)]
struct Writing<'w> {
    fill: &'w [u8],
    keep_empty: bool,
    work: Work,
    threads: usize,
}

thread_local! {
    static ENCODED: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

const KEPT: usize = 1 << 26;

/// Call `work` with an empty buffer of this thread.
fn with_buffer<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut buffer = ENCODED.with_borrow_mut(Vec::pop).unwrap_or_default();
    let result = work(&mut buffer);
    if buffer.capacity() <= KEPT {
        ENCODED.with_borrow_mut(|kept| kept.push(buffer));
    }
    result
}

impl Writing<'_> {
    /// Make the new bytes of a chunk of `shape` of which `item` is replaced: all of it, or part of `old` or of nothing.
    fn encode(
        &self,
        chain: &Chain,
        shape: &[u64],
        item: &Item<'_, '_>,
        covers: bool,
        old: Option<&[u8]>,
        put: &mut Put<'_>,
    ) -> Result<()> {
        let stored = chain.stored_shape(shape);
        if let Some(sharding) = chain.sharding() {
            if chain.buffers.is_empty() {
                return self.shard(chain, sharding, &stored, item, if covers { None } else { old }, put);
            }
            let mut raw = Vec::new();
            if let Some(old) = old.filter(|_| !covers) {
                decode_unsized(chain, old, isize::MAX as usize, &mut raw)?;
            }
            let old = old.filter(|_| !covers).map(|_| raw.as_slice());
            return self.shard(chain, sharding, &stored, item, old, &mut |parts| match parts {
                None => put(None),
                Some(parts) => with_buffer(|out| {
                    chain.encode_buffers(&parts.concat(), out)?;
                    put(Some(&[out]))
                }),
            });
        }
        let Some(elements) = chain.elements() else { return Ok(()) };
        let content = content_size(&stored, elements.size)?;
        let mut points = Vec::new();
        let placing = Placing::new(item, chain.order.as_deref(), &stored, elements.size, &mut points);
        if covers && placing.in_one_piece && elements.swap < 2 && self.work.size == elements.size {
            // SAFETY: the caller of `write` vouches for the work buffer's places, which are these.
            let chunk = unsafe { std::slice::from_raw_parts(self.work.start.offset(placing.target), content) };
            return self.put(chain, chunk, self.fill, put);
        }
        let mut fill = self.fill.to_vec();
        if elements.swap > 1 {
            strided::swap_in_place(&mut fill, elements.swap);
        }
        with_scratch(content, |chunk| {
            match old.filter(|_| !covers) {
                Some(old) => chain.decode_buffers(old, chunk)?,
                None if covers && placing.count * elements.size == content => {}
                None => fill_all(chunk, &fill),
            }
            // SAFETY: what `placing` leads to lies within the content of `chunk`, and by the caller's word in the buffer.
            unsafe {
                let source = self.work.start.offset(placing.target);
                let target = chunk.as_mut_ptr().add(placing.source + self.work.offset);
                strided::copy(source, target, &placing.backwards(), self.work.size, elements.swap, false);
            }
            self.put(chain, chunk, &fill, put)
        })
    }

    /// Encode a chunk's content, unless it is nothing but the fill value.
    fn put(&self, chain: &Chain, chunk: &[u8], fill: &[u8], put: &mut Put<'_>) -> Result<()> {
        if !self.keep_empty && strided::all_equal(chunk, fill) {
            return put(None);
        }
        if chain.buffers.is_empty() {
            return put(Some(&[chunk]));
        }
        with_buffer(|out| {
            chain.encode_buffers(chunk, out)?;
            put(Some(&[out]))
        })
    }

    /// Encode the inner chunks that change, and keep the bytes of the others.
    fn shard(
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
            None => vec![(EMPTY, EMPTY); count],
            Some(old) => read_index(sharding, old, &grid, index_size)?,
        };
        let inner_of = |number: usize| -> Option<&[u8]> {
            let (offset, length) = entries[number];
            if length == EMPTY { None } else { old?.get(offset as usize..(offset + length) as usize) }
        };
        let plan = item.refine(chain.order.as_deref(), &sharding.inner_shape);
        let changed: Vec<Mutex<Change>> = (0..count).map(|_| Mutex::new(Change::Kept)).collect();
        let inner = Writing { threads: 1, ..*self };
        let whole = self.work.size == self.fill.len();
        let task = |index: usize| {
            let part = plan.item(index);
            let number = grid.iter().zip(&part.coords).fold(0, |flat, (count, coord)| flat * count + coord) as usize;
            let covers = part.covers() && whole;
            let before = inner_of(number).filter(|_| !covers);
            inner.encode(&sharding.inner, &sharding.inner_shape, &part, covers, before, &mut |parts| {
                let change = parts.map_or(Change::Emptied, |parts| Change::To(parts.concat()));
                if let Ok(mut slot) = changed[number].lock() {
                    *slot = change;
                }
                Ok(())
            })
        };
        if self.threads > 1 && plan.len() > 1 {
            pool::run(self.threads, plan.len(), &task, &mut || Ok(()))?;
        } else {
            (0..plan.len()).try_for_each(task)?;
        }
        let blank = if self.keep_empty && old.is_none() { Some(self.blank(sharding)?) } else { None };
        let changed: Vec<Change> =
            changed.into_iter().map(|slot| slot.into_inner().unwrap_or(Change::Kept)).collect();
        let pieces: Vec<Option<&[u8]>> = (changed.iter().enumerate())
            .map(|(number, change)| match change {
                Change::Kept => inner_of(number).or(blank.as_deref()),
                Change::Emptied => None,
                Change::To(data) => Some(data.as_slice()),
            })
            .collect();
        if pieces.iter().all(Option::is_none) {
            return put(None);
        }
        let mut offset = if sharding.at_start { index_size as u64 } else { 0 };
        let table: Vec<(u64, u64)> = (pieces.iter())
            .map(|piece| {
                let Some(piece) = piece else { return (EMPTY, EMPTY) };
                let entry = (offset, piece.len() as u64);
                offset += entry.1;
                entry
            })
            .collect();
        let index = sharding.encode_index(&table)?;
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

    /// Encode an inner chunk that holds nothing but the fill value.
    fn blank(&self, sharding: &Sharding) -> Result<Vec<u8>> {
        blank(&sharding.inner, &sharding.inner_shape, self.fill)
    }
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
            let mut content = vec![0; content_size(&stored, fill.len())?];
            fill_all(&mut content, fill);
            content
        }
        Some(sharding) => {
            let grid = sharding.grid(&stored);
            let piece = blank(&sharding.inner, &sharding.inner_shape, fill)?;
            let start = if sharding.at_start { sharding.index_size(&grid)? as u64 } else { 0 };
            let size = piece.len() as u64;
            let table: Vec<(u64, u64)> = (0..grid.iter().product()).map(|number| (start + number * size, size)).collect();
            let index = sharding.encode_index(&table)?;
            let pieces = piece.repeat(table.len());
            if sharding.at_start { [index, pieces].concat() } else { [pieces, index].concat() }
        }
    };
    let mut out = Vec::new();
    chain.encode_content(&mut raw, &mut out)?;
    Ok(out)
}

fn fill_all(chunk: &mut [u8], fill: &[u8]) {
    if fill.is_empty() || chunk.is_empty() {
        return;
    }
    let dim = strided::Dim {
        count: chunk.len() / fill.len(),
        source: strided::Walk::Even(0),
        target: strided::Walk::Even(fill.len() as isize),
    };
    // SAFETY: so many elements lie within the chunk.
    unsafe { strided::fill(chunk.as_mut_ptr(), &[dim], fill) }
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
