//! Writing: a plan carried out, each chunk encoded and put in the place of the old one in one step.
//!
//! A chunk that is wholly replaced is written at once. Of the others the old value is read, changed and written on
//! condition that nobody else wrote it in between, until that holds.

mod blocks;
mod shards;

use std::cell::RefCell;

use crate::array::{Array, Chain, Elements};
use crate::memory::{joined, with_scratch};
use crate::placing::{Placing, Work, content_size};
use crate::plan::{Item, Plan};
use crate::read::{Call, MISSING, at_key, decode_shard, each_chunk, least_rows, stored_rows};
use crate::stores::{Expected, Store};
use crate::{Error, Result, strided};

/// Write what is in `work` where `plan` says.
///
/// # Safety
///
/// Every place that the plan leads to lies within the work buffer's memory, which nobody changes meanwhile, and its
/// selections lie within the array's chunks.
pub unsafe fn write(store: &dyn Store, array: &Array, plan: &Plan, work: Work, call: Call<'_>) -> Result<()> {
    let keep_empty = call.keep_empty || array.dense;
    each_chunk(store, array, plan, call, &|item, threads| {
        let key = array.keys.encode(&item.coords);
        if key.is_empty() {
            return Err(Error::unsupported("", "this format has no chunk key for an array without dimensions"));
        }
        let writing = Writing { fill: &array.fill, keep_empty, work, threads };
        at_key(store, &key, &|store| write_key(store, array, &key, item, writing))
    })
}

fn write_key(store: &dyn Store, array: &Array, key: &str, item: &Item<'_>, writing: Writing<'_>) -> Result<()> {
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
        let least = least_rows(array, &stored, item);
        stored[0] = match &old {
            None if covers => least,
            None => return Err(Error::Store { message: MISSING.into() }),
            Some(value) => match stored_rows(array, value.as_ref(), &stored, item) {
                // its content is not of that length either, and so not kept
                Err(Error::Codec { .. }) if covers => least,
                rows => rows?,
            },
        };
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
        Err(Error::Codec { .. }) if covers => {
            if array.dense {
                stored[0] = least_rows(array, &array.chunk_shape(&item.coords), item);
            }
            writing.encode(&array.chain, &stored, item, false, None, &mut put)
        }
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
        item: &Item<'_>,
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
                decode_shard(chain, old, content_size(&stored, self.fill.len())?, &mut raw)?;
            }
            let old = old.filter(|_| !covers).map(|_| raw.as_slice());
            return self.shard(chain, sharding, &stored, item, old, &mut |parts| match parts {
                None => put(None),
                Some(parts) => with_buffer(|out| {
                    chain.encode_buffers(&joined(parts)?, self.threads, out)?;
                    put(Some(&[out]))
                }),
            });
        }
        let Some(elements) = chain.elements() else { return Ok(()) };
        let content = content_size(&stored, elements.size)?;
        let mut points = Vec::new();
        let placing = Placing::new(item, chain.order.as_deref(), &stored, elements.size, &mut points)?;
        if covers && placing.in_one_piece && elements.swap < 2 && self.work.size == elements.size {
            // SAFETY: the caller of `write` vouches for the work buffer's places, which are these.
            let chunk = unsafe { std::slice::from_raw_parts(self.work.start.offset(placing.target), content) };
            return self.put(chain, chunk, self.fill, put);
        }
        let mut fill = self.fill.to_vec();
        if elements.swap > 1 {
            strided::swap_in_place(&mut fill, elements.swap);
        }
        if let Some(old) = old.filter(|_| !covers) {
            // of text all is checked
            if elements.text.is_none() && self.replace(chain, elements, &placing, content, (old, &fill), put)? {
                return Ok(());
            }
        }
        with_scratch(content, |chunk| {
            match old.filter(|_| !covers) {
                Some(old) => {
                    blocks::decode(chain, old, self.threads, chunk)?;
                    elements.check_stored(chunk)?;
                }
                None if covers && placing.count.saturating_mul(elements.size) >= content => {}
                None => fill_all(chunk, &fill),
            }
            // SAFETY: what `placing` leads to lies within the content of `chunk`, and by the caller's word in the buffer.
            unsafe { self.copy_in(chunk, &placing, elements) };
            self.put(chain, chunk, &fill, put)
        })
    }

    /// Copy what is written to its places in a chunk.
    ///
    /// # Safety
    ///
    /// All that `placing` leads to lies within `chunk` and within the work buffer.
    unsafe fn copy_in(&self, chunk: &mut [u8], placing: &Placing<'_>, elements: &Elements) {
        // SAFETY: as above.
        unsafe {
            let source = self.work.start.offset(placing.target);
            let target = chunk.as_mut_ptr().add(placing.source + self.work.offset);
            strided::copy(source, target, &placing.backwards(), self.work.size, elements.swap, false);
        }
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
            chain.encode_buffers(chunk, self.threads, out)?;
            put(Some(&[out]))
        })
    }
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
