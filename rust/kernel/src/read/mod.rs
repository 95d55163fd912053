//! Reading: goes through the chunks of a plan, and decodes each one into the work buffer. Called by the Python module.

mod chunk;
mod parts;
mod shard_indexes;
mod shards;

pub(crate) use chunk::{LARGE, decode_shard};
pub(crate) use parts::{check_blocks, decode_each};
pub(crate) use shards::index as shard_index;

use std::sync::atomic::{AtomicBool, Ordering};

use chunk::{Reading, is_small};

use crate::array::Array;
use crate::chain::Chain;
use crate::plan::{Item, Plan};
use crate::stores::{Held, Store, Value};
use crate::strided_copy::{WorkBuffer, content_size};
use crate::{Error, Result, backoff, pool};

/// The error message for a missing chunk of a dense array.
pub(crate) const MISSING: &str = "the chunk is missing";

/// How many bytes of small chunks a thread takes at once; many chunks, since writers in one directory wait for each other.
const SHARE: u64 = 1 << 18;
/// How often each thread takes chunks, at least.
const SHARES: usize = 16;

/// Settings of one call of `read` or `write`.
pub struct Call<'c> {
    /// Number of threads that may be used.
    pub threads: usize,
    /// Whether to store chunks that hold only the fill value.
    pub keep_empty: bool,
    /// The calling thread calls it from time to time; an error of it ends the call.
    pub poll: &'c mut dyn FnMut() -> Result<()>,
    /// Set by a read that uses the fill value because a chunk is not stored.
    pub absent: &'c AtomicBool,
    /// Whether it is an error of a read that a chunk, or an inner chunk of a shard, is not stored.
    pub strict: bool,
}

/// Read the elements of `array` that `plan` selects into `work`.
///
/// # Errors
///
/// `Changed` if `Store::check` fails: then what was read, and any other error, may be of another node.
///
/// # Safety
///
/// Every place of the plan lies within the work buffer's memory, which no other code uses during the call, and every
/// selected element within the array's chunks.
pub unsafe fn read(store: &dyn Store, array: &Array, plan: &Plan, work: WorkBuffer, call: Call<'_>) -> Result<()> {
    let (absent, strict) = (call.absent, call.strict);
    let waiting = waiting(store, array, plan, call.threads);
    let done = each_chunk(array, plan, waiting, call, &|item, threads| {
        let key = array.keys.encode(&item.coords);
        at_key(store, &key, backoff::ATTEMPTS, &|store| {
            let reading = Reading { chain: &array.chain, fill: &array.fill, work, threads, strict };
            read_key(store, array, &key, item, &reading, absent)
        })
    });
    // of another node even an error says nothing
    store.check(absent.load(Ordering::Relaxed)).and(done)
}

/// Return how many threads should wait for a store; 0 if the chunks come from memory.
fn waiting(store: &dyn Store, array: &Array, plan: &Plan, threads: usize) -> usize {
    let far = store.concurrency();
    let (count, content) = (plan.len(), content(array));
    let few = threads < 2 || count < 4 * threads || is_small(&array.chain, count, content);
    // parts of a shard are read together in another way
    if far > 0 || few || array.chain.sharding().is_some() {
        return far;
    }
    // if one of the chunks has to come from a disk, probably all do
    let key = array.keys.encode(&plan.item(count / 2).coords);
    let most = usize::try_from(UNDER_WAY / content.max(1)).unwrap_or(usize::MAX).min(WAITING);
    if most > threads && store.waits(&key) { most } else { 0 }
}

/// How many threads wait for a disk at the same time.
const WAITING: usize = 16;
/// The most memory for chunks that come from a disk, in bytes.
const UNDER_WAY: u64 = 1 << 27;

/// Call `work` with each chunk of a plan, and with the number of threads that it may use for this chunk; `waiting`
/// threads are to wait for a store that takes long to answer.
pub(crate) fn each_chunk(
    array: &Array,
    plan: &Plan,
    waiting: usize,
    call: Call<'_>,
    work: &(dyn Fn(&Item<'_>, usize) -> Result<()> + Sync),
) -> Result<()> {
    // many chunks are distributed over threads, few large ones use all threads each
    let count = plan.len();
    let far = waiting > 0;
    let shared = count > 1 && (far || array.chain.sharding().is_none() || count / 2 >= call.threads);
    let threads = if shared { 1 } else { call.threads };
    let content = content(array);
    // many more threads than cores wait for a store; one thread more than there are cores may work, since a core is
    // idle while the system wakes the next thread
    let turns = match call.threads {
        _ if !far || content < LARGE as u64 / 2 => 0,
        1 => 1,
        several => several + 1,
    };
    let task = |index: usize| pool::in_turns(turns, || work(&plan.item(index), threads));
    let step = if far { 1 } else { at_once(count, call.threads, content) };
    let range = |number: usize| (number * step..count.min((number + 1) * step)).try_for_each(task);
    if !shared {
        (0..count).try_for_each(|index| {
            (call.poll)()?;
            task(index)
        })
    } else if is_small(&array.chain, count, content) && !far {
        (0..count).try_for_each(task)
    } else {
        pool::run(call.threads.max(waiting), count.div_ceil(step), &range, call.poll)
    }
}

/// Return how many chunks of `content` bytes a thread takes at once: several small ones, so that the threads rarely meet
/// at the counter, but few enough that all threads are busy to the end.
fn at_once(count: usize, threads: usize, content: u64) -> usize {
    let small = usize::try_from(SHARE / content.max(1)).unwrap_or(1);
    small.min(count / threads.max(1).saturating_mul(SHARES)).max(1)
}

/// Return the number of bytes of the first chunk.
fn content(array: &Array) -> u64 {
    let size = array.fill.len() as u64;
    array.chunk_axes.iter().fold(size, |bytes, chunk_axis| bytes.saturating_mul(chunk_axis.length(0)))
}

/// Call `work` for a key: up to `attempts` times if there are conflicts, and with the store's general implementation if
/// the key needs it.
pub(crate) fn at_key(
    store: &dyn Store,
    key: &str,
    attempts: u32,
    work: &dyn Fn(&dyn Store) -> Result<()>,
) -> Result<()> {
    for attempt in 0..attempts {
        match work(store) {
            Err(Error::Conflict) => backoff::wait(attempt),
            Err(Error::Unusual) => {
                let Some(slow) = store.slow() else { return Err(Error::Unusual.at(key)) };
                return at_key(slow, key, attempts, work);
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
    reading: &Reading<'_>,
    absent: &AtomicBool,
) -> Result<()> {
    // parts of shards take room once their number of bytes is known
    let _held = array.chain.sharding().is_none().then(|| Held::new(store)).transpose()?;
    let value = if key.is_empty() { None } else { store.open(key)? };
    let shape = array.chunk_shape(&item.coords);
    let missing = || {
        if array.dense {
            return Err(Error::Store { message: MISSING.into() });
        }
        absent.store(true, Ordering::Relaxed);
        reading.missing(&shape, item)
    };
    let Some(value) = value else { return missing() };
    if !array.dense {
        return match reading.value(value.as_ref(), &shape, item) {
            Err(Error::Absent) => missing(),
            done => done.map_err(|error| error.inside(&item.coords)),
        };
    }
    let mut stored = shape;
    stored[0] = stored_rows(array, value.as_ref(), &stored, item)?;
    reading.value(value.as_ref(), &stored, item)
}

/// Return the number of rows of a chunk of `shape` that lie within the array; all of them have to be stored.
pub(crate) fn least_rows(array: &Array, shape: &[u64], item: &Item<'_>) -> u64 {
    shape[0].min(array.shape[0].saturating_sub(item.coords[0].saturating_mul(shape[0])))
}

/// Return the number of stored rows of a chunk of up to `shape`, according to the outermost codec.
///
/// # Errors
///
/// `Codec` if the array has more rows.
pub(crate) fn stored_rows(array: &Array, value: &dyn Value, shape: &[u64], item: &Item<'_>) -> Result<u64> {
    let least = least_rows(array, shape, item);
    let row = content_size(&shape[1..], array.fill.len())?;
    let rows = count_rows(&array.chain, value, shape[0], row)?;
    if rows < least {
        return Err(Error::codec("", format!("there are {rows} rows where the array has {least}")));
    }
    Ok(rows)
}

/// Return the number of rows of `row` bytes in a value, which are `most` at most, according to the outermost codec.
pub(crate) fn count_rows(chain: &Chain, value: &dyn Value, most: u64, row: usize) -> Result<u64> {
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
