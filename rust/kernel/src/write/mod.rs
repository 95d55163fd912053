//! Writing: goes through the chunks of a plan, encodes each one and replaces the stored one in one step. Called by the
//! Python module.
//!
//! A chunk that the plan covers is written unconditionally. For any other the old value is read, changed and written on
//! condition that it has not changed in between; this is repeated until it succeeds. `create` stores new chunks only.

mod appending;
mod blocks;
pub mod extending;
mod shards;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::array::Array;
use crate::backoff::ATTEMPTS;
use crate::chain::{Chain, Elements};
use crate::memory::{try_concat, with_scratch};
use crate::plan::{Item, Plan};
use crate::read::{Call, MISSING, at_key, decode_shard, each_chunk, least_rows, stored_rows};
use crate::stores::{Expected, Held, Piece, Store};
use crate::strided_copy::{StridedCopy, WorkBuffer, content_size};
use crate::{Error, Result, pool, strided};

/// Write the elements in `work` to the elements of `array` that `plan` selects.
///
/// # Errors
///
/// `Changed` if `Store::check` fails; some chunks may have been written then.
///
/// # Safety
///
/// Every place of the plan lies within the work buffer's memory, which no other code changes during the call, and every
/// selected element within the array's chunks.
pub unsafe fn write(store: &dyn Store, array: &Array, plan: &Plan, work: WorkBuffer, call: Call<'_>) -> Result<()> {
    let keep_empty = call.keep_empty || array.dense;
    store.check(false)?;
    let done = each_chunk(array, plan, store.concurrency(), call, &|item, threads| {
        let key = array.keys.encode(&item.coords);
        if key.is_empty() {
            return Err(Error::unsupported("", "this format has no chunk key for an array without dimensions"));
        }
        let writing = Writing { fill: &array.fill, keep_empty, work, threads };
        at_key(store, &key, ATTEMPTS, &|store| write_key(store, array, &key, item, writing))
    });
    // a chunk that can't be changed may be one of another node
    done.or_else(|error| store.check(false).and(Err(error)))
}

/// Store the chunks that `plan` selects, each as a whole, on condition that none of them exists. Returns the number of
/// stored bytes.
///
/// # Errors
///
/// `Conflict` if there is such a chunk already; others may have been stored then.
///
/// # Safety
///
/// As for `write`.
pub unsafe fn create(store: &dyn Store, array: &Array, plan: &Plan, work: WorkBuffer, call: Call<'_>) -> Result<u64> {
    let stored = AtomicU64::new(0);
    each_chunk(array, plan, store.concurrency(), call, &|item, threads| {
        let key = array.keys.encode(&item.coords);
        if key.is_empty() || !item.covers() || work.size != array.fill.len() || array.overhangs(&item.coords) {
            return Err(Error::unsupported("", "only whole chunks can be created").at(&key));
        }
        let shape = array.chunk_shape(&item.coords);
        let writing = Writing { fill: &array.fill, keep_empty: true, work, threads };
        at_key(store, &key, 1, &|store| {
            let _held = Held::new(store)?;
            pool::take_turn();
            writing.encode(&array.chain, &shape, item, true, None, &mut |parts| {
                let parts = parts.unwrap_or_default();
                store.set(&key, parts, Some(&Expected::Absent))?;
                let bytes: usize = parts.iter().map(|part| part.len()).sum();
                stored.fetch_add(bytes as u64, Ordering::Relaxed);
                Ok(())
            })
        })
    })?;
    Ok(stored.into_inner())
}

/// Write one chunk: unconditionally, or on condition that the old value has not changed.
fn write_key(store: &dyn Store, array: &Array, key: &str, item: &Item<'_>, writing: Writing<'_>) -> Result<()> {
    let shape = array.chunk_shape(&item.coords);
    let _held = Held::new(store)?;
    // a chunk that is replaced as a whole
    let covers = item.covers() && writing.work.size == array.fill.len();
    if covers && !array.overhangs(&item.coords) {
        pool::take_turn();
        return writing.encode(&array.chain, &shape, item, true, None, &mut |parts| match parts {
            Some(parts) => store.set(key, parts, None),
            None => store.delete(key, None),
        });
    }
    // a chunk that changes in part, or whose length depends on the stored chunk
    let old = store.open_for_change(key)?;
    let mut stored = shape;
    if array.dense {
        let least = least_rows(array, &stored, item);
        stored[0] = match &old {
            None if covers => least,
            None => return Err(Error::Store { message: MISSING.into() }),
            Some(value) => match stored_rows(array, value.as_ref(), &stored, item) {
                // a damaged chunk is replaced as a whole, so that its length does not matter
                Err(Error::Codec { .. }) if covers => least,
                rows => rows?,
            },
        };
    }
    // a chunk that is not stored yet
    let Some(old) = old else {
        pool::take_turn();
        return writing.encode(&array.chain, &stored, item, false, None, &mut |parts| match parts {
            Some(parts) => store.set(key, parts, Some(&Expected::Absent)),
            None => Ok(()),
        });
    };
    // a stored chunk
    let expected = old.generation()?;
    if !covers && !array.dense {
        let mut put = |changes: &[Piece<'_>]| store.set_like(key, old.as_ref(), changes, &expected);
        if writing.append_to_shard(&array.chain, &stored, item, old.as_ref(), &mut put)? {
            return Ok(());
        }
    }
    let mut put = |parts: Option<&[&[u8]]>| match parts {
        Some(parts) => store.set(key, parts, Some(&expected)),
        None => store.delete(key, Some(&expected)),
    };
    let merged = old.with_all(&mut |data| writing.encode(&array.chain, &stored, item, false, Some(data), &mut put));
    match merged {
        // damage is an error only where part of the old chunk would have been kept
        Err(Error::Codec { .. }) if covers => {
            if array.dense {
                stored[0] = least_rows(array, &array.chunk_shape(&item.coords), item);
            }
            writing.encode(&array.chain, &stored, item, false, None, &mut put)
        }
        done => done,
    }
}

/// Stores the new bytes of a chunk, which come in parts; `None` if the chunk need not be stored.
type Put<'p> = dyn FnMut(Option<&[&[u8]]>) -> Result<()> + 'p;

#[derive(Clone, Copy)]
/// The parameters of a write that are the same for all (inner) chunks of a value.
struct Writing<'w> {
    fill: &'w [u8],
    keep_empty: bool,
    work: WorkBuffer,
    threads: usize,
}

thread_local! {
    static ENCODED: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Larger buffers are not cached, in bytes.
const KEPT: usize = 1 << 26;

/// Call `work` with a buffer for encoded data, which this thread caches; its content is undefined.
fn with_buffer<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut buffer = ENCODED.with_borrow_mut(Vec::pop).unwrap_or_default();
    let result = work(&mut buffer);
    if buffer.capacity() <= KEPT {
        ENCODED.with_borrow_mut(|kept| kept.push(buffer));
    }
    result
}

impl Writing<'_> {
    /// Encode a chunk of `shape` in which `item` is replaced: all of it if `covers`, or part of `old` or of a missing chunk.
    fn encode(
        &self,
        chain: &Chain,
        shape: &[u64],
        item: &Item<'_>,
        covers: bool,
        old: Option<&[u8]>,
        put: &mut Put<'_>,
    ) -> Result<()> {
        // a shard, perhaps inside other codecs
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
                    chain.encode_buffers(&try_concat(parts)?, self.threads, out)?;
                    put(Some(&[out]))
                }),
            });
        }
        // a whole chunk whose elements lie in the work buffer in the encoded order
        let Some(elements) = chain.elements() else { return Ok(()) };
        let content = content_size(&stored, elements.size)?;
        let mut points = Vec::new();
        let copy = StridedCopy::new(item, chain.order.as_deref(), &stored, elements.size, &mut points)?;
        if covers && copy.is_contiguous && elements.swap < 2 && self.work.size == elements.size {
            // SAFETY: the caller of `write` guarantees the places in the work buffer, which are these.
            let chunk = unsafe { std::slice::from_raw_parts(self.work.start.offset(copy.target), content) };
            return self.put(chain, chunk, self.fill, put);
        }
        // part of a chunk in which only some blocks change
        let mut fill = self.fill.to_vec();
        if elements.swap > 1 {
            strided::swap_in_place(&mut fill, elements.swap);
        }
        if let Some(old) = old.filter(|_| !covers) {
            // all of a chunk of text has to be checked
            if elements.text.is_none() && self.replace(chain, elements, &copy, content, (old, &fill), put)? {
                return Ok(());
            }
        }
        // any other chunk: the old content or the fill value, with the new elements copied in
        with_scratch(content, |chunk| {
            match old.filter(|_| !covers) {
                Some(old) => {
                    blocks::decode(chain, old, self.threads, chunk)?;
                    elements.check_stored(chunk)?;
                }
                None if covers && copy.count.saturating_mul(elements.size) >= content => {}
                None => fill_all(chunk, &fill),
            }
            self.copy_in(chunk, &copy, elements);
            self.put(chain, chunk, &fill, put)
        })
    }

    /// Copy elements from the work buffer to their places in a chunk.
    ///
    /// # Panics
    ///
    /// If `chunk` is not the whole content.
    fn copy_in(&self, chunk: &mut [u8], copy: &StridedCopy<'_>, elements: &Elements) {
        assert!(chunk.len() >= copy.content, "the content of the chunk is too short");
        // SAFETY: the caller of `write` guarantees that the elements lie within the chunk, and the work buffer.
        unsafe {
            let source = self.work.start.offset(copy.target);
            let target = chunk.as_mut_ptr().add(copy.source + self.work.offset);
            strided::copy(source, target, &copy.reversed(), self.work.size, elements.swap, false);
        }
    }

    /// Encode the content of a chunk, unless it holds only the fill value.
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

/// Fill a whole chunk with one element.
fn fill_all(chunk: &mut [u8], fill: &[u8]) {
    if fill.is_empty() || chunk.is_empty() {
        return;
    }
    let dim = strided::Dim {
        count: chunk.len() / fill.len(),
        source: strided::Offsets::Strided(0),
        target: strided::Offsets::Strided(fill.len() as isize),
    };
    // SAFETY: the elements lie within the chunk.
    unsafe { strided::fill(chunk.as_mut_ptr(), &[dim], fill) }
}
