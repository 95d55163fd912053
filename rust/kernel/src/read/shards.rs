//! Parts of a shard: the inner chunks that are asked for.

use super::chunk::{Reading, fill};
use crate::array::{EMPTY, Sharding};
use crate::memory::{push, reserved, with_scratch};
use crate::plan::{Item, Plan};
use crate::stores::{Parts, Slice, Value, Within};
use crate::{Error, Result, pool};

impl Reading<'_> {
    /// Read part of a shard: its index, and the inner chunks that are asked for, close ones together.
    pub(super) fn shard(&self, sharding: &Sharding, value: &dyn Value, stored: &[u64], item: &Item<'_>) -> Result<()> {
        let grid = sharding.grid(stored);
        let size = sharding.index_size(&grid)?;
        let (index, total) = with_scratch(size, |data| {
            let (found, total) =
                if sharding.at_start { (value.read_at(0, data)?, None) } else { value.read_tail(data)? };
            if found != size {
                return Err(Error::codec(
                    "sharding_indexed",
                    format!("a shard of {found} bytes has no room for its index of {size}"),
                ));
            }
            Ok((sharding.decode_index(data, &grid, None)?, total))
        })?;
        let plan = item.refine(self.chain.order.as_deref(), &sharding.inner_shape)?;
        let inner = Reading { chain: &sharding.inner, threads: 1, ..*self };
        let count = plan.len();
        let mut wanted = reserved(count.min(AT_ONCE))?;
        for first in (0..count).step_by(AT_ONCE) {
            wanted.clear();
            for number in first..count.min(first.saturating_add(AT_ONCE)) {
                let part = plan.item(number);
                let flat = grid.iter().zip(&part.coords).fold(0_u64, |flat, (count, coord)| flat * count + coord);
                let (offset, length) = index[flat as usize];
                if length == EMPTY {
                    fill(&sharding.inner, &sharding.inner_shape, &part, self.fill, self.work)?;
                } else if total.is_some_and(|total| offset + length > total) {
                    return Err(outside());
                } else {
                    push(&mut wanted, (offset, length, number))?;
                }
            }
            wanted.sort_unstable();
            let task = |run: &[Wanted]| inner.run(sharding, value, &plan, run);
            let nested = sharding.inner.sharding().is_some();
            let runs = join(&wanted, if nested { ALONE } else { value.parts().unwrap_or(IN_MEMORY) })?;
            if self.threads > 1 && runs.len() > 1 {
                pool::run(self.threads, runs.len(), &|index| task(runs[index]), &mut || Ok(()))?;
            } else {
                runs.into_iter().try_for_each(task)?;
            }
        }
        Ok(())
    }

    /// Read inner chunks that lie close together.
    fn run(&self, sharding: &Sharding, value: &dyn Value, plan: &Plan, run: &[Wanted]) -> Result<()> {
        let start = run[0].0;
        if let [(_, length, number)] = *run {
            let range = Within { value, start, length };
            return self.value(&range, &sharding.inner_shape, &plan.item(number));
        }
        let stop = run.iter().map(|entry| entry.0 + entry.1).max().unwrap_or(start);
        value.with_range(start, stop - start, &mut |data| {
            run.iter().try_for_each(|&(offset, length, number)| {
                let first = (offset - start) as usize;
                let data = data.get(first..first + length as usize).ok_or_else(outside)?;
                self.value(&Slice(data), &sharding.inner_shape, &plan.item(number))
            })
        })
    }
}

/// An inner chunk that is asked for: its offset and length in the shard, and its number in the plan.
///
/// Offset and length together are at most `i64::MAX`: the index has been checked.
type Wanted = (u64, u64, usize);

/// How many inner chunks are looked up before they are read, so that what is noted of them takes little memory.
const AT_ONCE: usize = 1 << 15;

/// How inner chunks are joined that are in memory already.
const IN_MEMORY: Parts = Parts { gap: 0, span: 1 << 17 };

/// How inner chunks are joined that are shards themselves: not at all, since only parts of them are needed.
const ALONE: Parts = Parts { gap: 0, span: 0 };

fn outside() -> Error {
    Error::codec("sharding_indexed", "an inner chunk lies outside its shard")
}

/// Join inner chunks that lie close together in the shard, so that each run is one request.
fn join(wanted: &[Wanted], parts: Parts) -> Result<Vec<&[Wanted]>> {
    let mut runs = Vec::new();
    let (mut begin, mut start, mut stop) = (0, 0, 0_u64);
    for (position, &(offset, length, _)) in wanted.iter().enumerate() {
        let end = offset + length;
        let joins = position > begin && offset <= stop.saturating_add(parts.gap) && end - start <= parts.span;
        if !joins {
            if position > begin {
                push(&mut runs, &wanted[begin..position])?;
            }
            (begin, start, stop) = (position, offset, end);
        }
        stop = stop.max(end);
    }
    if begin < wanted.len() {
        push(&mut runs, &wanted[begin..])?;
    }
    Ok(runs)
}
