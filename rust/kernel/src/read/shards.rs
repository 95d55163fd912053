//! Reads the selected inner chunks of a shard. Called by `chunk` for shards.

use super::chunk::{Reading, is_small};
use super::shard_indexes::{self, Index};
use crate::chain::{EMPTY, Sharding};
use crate::memory::{try_collect, try_push, try_with_capacity, with_scratch};
use crate::plan::{Item, Plan};
use crate::stores::{FarValue, Parts, Slice, Value, Within};
use crate::strided_copy::content_size;
use crate::{Error, Result, pool};

impl Reading<'_> {
    /// Return whether all of a shard is best read with one request, since it is far away and small or mostly needed.
    pub(super) fn prefers_whole_shard(
        &self,
        sharding: &Sharding,
        value: &dyn Value,
        stored: &[u64],
        item: &Item<'_>,
    ) -> Result<bool> {
        let Some(far) = value.far() else { return Ok(false) };
        let wanted = item.refine(self.chain.order.as_deref(), &sharding.inner_shape)?.len();
        let number = sharding.grid(stored).iter().fold(1_u64, |number, count| number.saturating_mul(*count));
        let nbytes = content_size(stored, self.fill.len())?;
        far.reads_whole(nbytes, wanted, usize::try_from(number).unwrap_or(usize::MAX))
    }

    /// Read the index of a shard and the selected inner chunks; chunks close to each other with one request.
    pub(super) fn shard(&self, sharding: &Sharding, value: &dyn Value, stored: &[u64], item: &Item<'_>) -> Result<()> {
        // the index
        let grid = sharding.grid(stored);
        let (index, total) = index(sharding, value, &grid)?;
        // the inner chunks, a bounded number at a time
        let plan = item.refine(self.chain.order.as_deref(), &sharding.inner_shape)?;
        let inner = Reading { chain: &sharding.inner, threads: 1, ..*self };
        let content = content_size(&sharding.inner_shape, self.fill.len())? as u64;
        let count = plan.len();
        let mut wanted = try_with_capacity(count.min(BATCH))?;
        for first in (0..count).step_by(BATCH) {
            wanted.clear();
            for number in first..count.min(first.saturating_add(BATCH)) {
                let part = plan.item(number);
                let flat = grid.iter().zip(&part.coords).fold(0_u64, |flat, (count, coord)| flat * count + coord);
                let (offset, length) = index[flat as usize];
                if length == EMPTY {
                    inner.missing(&sharding.inner_shape, &part)?;
                } else if total.is_some_and(|total| offset + length > total) {
                    return Err(outside());
                } else {
                    try_push(&mut wanted, (offset, length, number))?;
                }
            }
            wanted.sort_unstable();
            let task = |run: &[Wanted]| inner.run(sharding, value, &plan, run);
            let nested = sharding.inner.sharding().is_some();
            let runs = join(&wanted, if nested { ALONE } else { value.parts().unwrap_or(IN_MEMORY) })?;
            if let Some(far) = value.far().filter(|_| !nested) {
                inner.together(far, (sharding, &plan), &runs, self.threads)?;
                continue;
            }
            let shared = self.threads > 1 && (nested || !is_small(&sharding.inner, wanted.len(), content));
            for some in runs.chunks(AHEAD) {
                if some.len() > FEW {
                    value.expect(&mut some.iter().map(|run| extent(run)));
                }
                if shared && some.len() > 1 {
                    pool::run(self.threads, some.len(), &|index| task(some[index]), &mut || Ok(()))?;
                } else {
                    some.iter().try_for_each(|run| task(run))?;
                }
            }
        }
        Ok(())
    }

    /// Read inner chunks that lie close to each other.
    fn run(&self, sharding: &Sharding, value: &dyn Value, plan: &Plan, run: &[Wanted]) -> Result<()> {
        let start = run[0].0;
        if let [(_, length, number)] = *run {
            let range = Within { value, start, length };
            return self.inner_value(&range, sharding, &plan.item(number));
        }
        let (start, length) = extent(run);
        value.with_range(start, length, &mut |data| self.decode_run(data, (sharding, plan), run))
    }

    /// Read many runs with few requests, as many together as there is room for, and decode them with several threads.
    fn together(&self, far: &dyn FarValue, of: (&Sharding, &Plan), runs: &[&[Wanted]], threads: usize) -> Result<()> {
        let most = far.at_once()?;
        let mut rest = runs;
        while !rest.is_empty() {
            let mut total = 0_u64;
            let fits = |run: &&&[Wanted]| {
                total = total.saturating_add(extent(run).1);
                total <= most
            };
            let (now, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            let ranges = try_collect(now.iter().map(|run| extent(run)))?;
            far.with_ranges(&ranges, &mut |found| {
                let task = |index: usize| self.decode_run(found.get(index).ok_or_else(outside)?, of, now[index]);
                pool::run(threads, now.len(), &task, &mut || Ok(()))
            })?;
            rest = later;
        }
        Ok(())
    }

    /// Read the selected parts of the inner chunks of a run, whose bytes are `data`.
    fn decode_run(&self, data: &[u8], (sharding, plan): (&Sharding, &Plan), run: &[Wanted]) -> Result<()> {
        let start = run[0].0;
        run.iter().try_for_each(|&(offset, length, number)| {
            let first = (offset - start) as usize;
            let data = data.get(first..first + length as usize).ok_or_else(outside)?;
            self.inner_value(&Slice(data), sharding, &plan.item(number))
        })
    }

    /// Read the selection `item` of an inner chunk that is stored as `value`.
    fn inner_value(&self, value: &dyn Value, sharding: &Sharding, item: &Item<'_>) -> Result<()> {
        self.value(value, &sharding.inner_shape, item).map_err(|error| error.inside(&item.coords))
    }
}

/// Return the index of a shard, and how long the shard is if that is known.
pub(crate) fn index(sharding: &Sharding, value: &dyn Value, grid: &[u64]) -> Result<(Index, Option<u64>)> {
    let size = sharding.index_size(grid)?;
    let state = value.state()?;
    let key = state.and_then(|state| Some((state, sharding.index_layout(grid)?)));
    if let Some(index) = key.as_ref().and_then(shard_indexes::get) {
        return Ok((index, Some(value.size()?)));
    }
    let (entries, total) = with_scratch(size, |data| {
        let (found, total) = if sharding.at_start { (value.read_at(0, data)?, None) } else { value.read_tail(data)? };
        if found != size {
            return Err(Error::codec(
                "sharding_indexed",
                format!("a shard of {found} bytes has no room for its index of {size}"),
            ));
        }
        Ok((sharding.decode_index(data, grid, None)?, total))
    })?;
    let index = Index::new(entries);
    if let Some(key) = key.filter(|_| value.is_settled()) {
        shard_indexes::put(key, &index);
    }
    Ok((index, total))
}

/// Return where a run of inner chunks begins, and how long it is.
fn extent(run: &[Wanted]) -> (u64, u64) {
    let start = run[0].0;
    (start, run.iter().map(|entry| entry.0 + entry.1).max().unwrap_or(start) - start)
}

/// A selected inner chunk: its offset and length in the shard, and its number in the plan.
///
/// The sum of offset and length is at most `i64::MAX`, as `decode_index` has checked.
type Wanted = (u64, u64, usize);

/// Number of inner chunks that are looked up before they are read, which bounds the memory for the list.
const BATCH: usize = 1 << 15;

/// Number of runs that are announced to the store before they are read.
const AHEAD: usize = 256;

/// Up to this many runs are read without announcing them, which might cost more than it saves.
const FEW: usize = 4;

/// How to join inner chunks that are already in memory.
const IN_MEMORY: Parts = Parts { gap: 0, span: 1 << 17 };

/// How to join inner chunks that are shards themselves: not at all, since only parts of them are needed.
const ALONE: Parts = Parts { gap: 0, span: 0 };

fn outside() -> Error {
    Error::codec("sharding_indexed", "an inner chunk lies outside its shard")
}

/// Group inner chunks that lie close to each other in the shard, so that each run is one request.
fn join(wanted: &[Wanted], parts: Parts) -> Result<Vec<&[Wanted]>> {
    let mut runs = Vec::new();
    let (mut begin, mut start, mut stop) = (0, 0, 0_u64);
    for (position, &(offset, length, _)) in wanted.iter().enumerate() {
        let end = offset + length;
        let joins = position > begin && offset <= stop.saturating_add(parts.gap) && end - start <= parts.span;
        if !joins {
            if position > begin {
                try_push(&mut runs, &wanted[begin..position])?;
            }
            (begin, start, stop) = (position, offset, end);
        }
        stop = stop.max(end);
    }
    if begin < wanted.len() {
        try_push(&mut runs, &wanted[begin..])?;
    }
    Ok(runs)
}
