//! Plans for the inner chunks of a shard, made from the selection in the shard. Called by `read` and `write` for shards.

use super::axis::{Part, Place, Select};
use super::item::{Item, Plan, Table};
use super::list::List;
use super::points::{Group, Points, covers_box};
use super::run::Run;
use crate::Result;
use crate::memory::{try_collect, try_push};

impl Item<'_> {
    /// Divide the selection among inner chunks of `shape`; stored axis `i` is axis `order[i]` of the chunk.
    ///
    /// # Errors
    ///
    /// `Memory` if there is not enough for the tables of indices and points.
    pub fn refine(&self, order: Option<&[usize]>, shape: &[u64]) -> Result<Plan> {
        let stored = |axis: usize| order.map_or(axis, |order| order[axis]);
        let mut plan = Plan { axes: Vec::with_capacity(shape.len()), points: None };
        for (axis, &length) in shape.iter().enumerate() {
            plan.axes.push(self.parts[stored(axis)].map(|part| part.refine(length)).transpose()?);
        }
        if let Some(group) = self.group {
            let place = |axis: usize| (0..shape.len()).position(|other| stored(other) == axis).unwrap_or(axis);
            let axes: Vec<usize> = group.axes().iter().map(|&axis| place(axis)).collect();
            let lengths: Vec<u64> = axes.iter().map(|&axis| shape[axis]).collect();
            plan.points = Some(group.refine(axes, &lengths)?);
        }
        Ok(plan)
    }
}

impl Part<'_> {
    /// Divide the selection along an axis among inner chunks of equal length.
    fn refine(&self, length: u64) -> Result<Table> {
        if let (Select::Run { first, count, step }, Place::From(start)) = (self.select, self.place) {
            let run = Run::regular((first, step, count), (start, self.stride), length, u64::MAX);
            return Ok(Table::Run(run));
        }
        let index = |i: usize| match self.select {
            Select::Run { first, step, .. } => (first as i64 + step * i as i64) as u64,
            Select::List(list) => list[i] as u64,
        };
        let order = sorted(self.count(), |&i| index(i) / length)?;
        let mut list = List { stride: self.stride, ..List::default() };
        list.offsets = try_collect(order.iter().map(|&i| (index(i) % length) as i64))?;
        list.positions = Some(try_collect(order.iter().map(|&i| self.place.index(i)))?);
        try_push(&mut list.bounds, 0)?;
        for run in order.chunk_by(|&a, &b| index(a) / length == index(b) / length) {
            let begin = list.bounds[list.numbers.len()];
            // A part that covers its chunk within the array need not cover an inner chunk that extends beyond the array.
            let whole = covers_box(&[&list.offsets[begin..begin + run.len()]], &[length])?;
            try_push(&mut list.numbers, index(run[0]) / length)?;
            try_push(&mut list.bounds, begin + run.len())?;
            try_push(&mut list.traits, (false, whole))?;
        }
        Ok(Table::List(list))
    }
}

impl Place<'_> {
    /// Return the index of element `i` in the work buffer.
    fn index(&self, i: usize) -> i64 {
        match self {
            Place::From(start) => (*start + i as u64) as i64,
            Place::At(list) => list[i],
        }
    }
}

impl Group<'_> {
    /// Divide the points among inner chunks of these lengths.
    fn refine(&self, axes: Vec<usize>, lengths: &[u64]) -> Result<Points> {
        let offsets: Vec<&[i64]> = self.offsets().collect();
        let numbers = |i: usize| offsets.iter().zip(lengths).map(move |(offsets, &length)| offsets[i] as u64 / length);
        let mut order = try_collect(0..self.count())?;
        order.sort_unstable_by(|&a, &b| numbers(a).cmp(numbers(b)).then(a.cmp(&b)));
        let mut points = Points { axes, stride: self.stride(), ..Points::default() };
        for (list, &length) in offsets.iter().zip(lengths) {
            points.offsets.push(try_collect(order.iter().map(|&i| (list[i] as u64 % length) as i64))?);
        }
        let place = self.place();
        points.positions = Some(try_collect(order.iter().map(|&i| place.index(i)))?);
        try_push(&mut points.bounds, 0)?;
        for run in order.chunk_by(|&a, &b| numbers(a).eq(numbers(b))) {
            let begin = points.bounds[points.whole.len()];
            let end = begin + run.len();
            let here: Vec<&[i64]> = points.offsets.iter().map(|list| &list[begin..end]).collect();
            let whole = covers_box(&here, lengths)?;
            try_push(&mut points.whole, whole)?;
            try_push(&mut points.bounds, end)?;
            for number in numbers(run[0]) {
                try_push(&mut points.numbers, number)?;
            }
        }
        Ok(points)
    }
}

/// Return the numbers below `count`, sorted by a key and then by their value.
fn sorted(count: usize, key: impl Fn(&usize) -> u64) -> Result<Vec<usize>> {
    let mut order = try_collect(0..count)?;
    if !order.is_sorted_by_key(&key) {
        order.sort_unstable_by_key(|i| (key(i), *i)); // an unstable sort needs no memory
    }
    Ok(order)
}
