//! What a selection touches, chunk by chunk: one table for each axis, and a table of points.
//!
//! The product over the axes is never spelled out: chunk `i` of a plan is found by dividing `i` by the tables' lengths.
//! Nor are the rows of a run, which are computed when they are asked for, so that a plan takes no memory for the number
//! of its chunks. The tables of indices and of points take a few words for each index that was given.
//! The same tables serve twice: for the chunks of an array, and, made anew by [`Item::refine`], for the inner chunks of a
//! shard.

use std::sync::Arc;

use crate::Result;
use crate::memory::{gathered, push, repeated};

/// How an axis is cut into chunks.
#[derive(Clone, Debug)]
pub enum Cut {
    /// All of one length.
    Regular(u64),
    /// Where each begins, and where the last ends.
    Varying(Arc<[u64]>),
}

impl Cut {
    /// The number of the chunk that holds an index.
    pub fn locate(&self, index: u64) -> u64 {
        match self {
            Cut::Regular(length) => index / length,
            Cut::Varying(starts) => locate(starts, index),
        }
    }

    /// The first index of chunk `number`.
    pub fn start(&self, number: u64) -> u64 {
        match self {
            Cut::Regular(length) => number * length,
            Cut::Varying(starts) => starts[number as usize],
        }
    }

    /// How long chunk `number` is as it is stored.
    pub fn length(&self, number: u64) -> u64 {
        match self {
            Cut::Regular(length) => *length,
            Cut::Varying(starts) => starts[number as usize + 1] - starts[number as usize],
        }
    }
}

fn locate(starts: &[u64], index: u64) -> u64 {
    (starts.partition_point(|&start| start <= index) - 1) as u64
}

/// What is taken of one axis of a chunk.
#[derive(Clone, Copy, Debug)]
pub enum Select<'a> {
    /// `first`, `first + step`, … , `count` of them.
    Run {
        /// The first index within the chunk.
        first: u64,
        /// How many.
        count: u64,
        /// The distance between them; negative where the run goes backwards.
        step: i64,
    },
    /// The indices listed.
    List(&'a [i64]),
}

/// Where that is along the work buffer's axis.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// From this index on, one after the other.
    From(u64),
    /// At the indices listed.
    At(&'a [i64]),
}

/// What is taken of one axis of a chunk, and where it goes.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// What is taken.
    pub select: Select<'a>,
    /// Where it goes.
    pub place: Place<'a>,
    /// Bytes between neighbours of the work buffer along this axis; 0 for an axis that it does not have.
    pub stride: isize,
    /// Whether that is every index of the chunk that lies within the array.
    pub whole: bool,
}

/// One row of an axis' table: the chunk's number along the axis, and what is taken of it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The chunk's number.
    pub number: u64,
    /// What is taken.
    pub part: Part<'a>,
}

/// What is taken of one axis: a row for each chunk touched.
#[derive(Clone, Debug)]
pub enum Table {
    /// An index or a slice.
    Run(Run),
    /// A list of indices.
    List(List),
}

impl Table {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        match self {
            Table::Run(run) => run.rows,
            Table::List(list) => list.numbers.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of the rows.
    pub fn row(&self, index: usize) -> Row<'_> {
        match self {
            Table::Run(run) => run.row(index as u64),
            Table::List(list) => list.row(index),
        }
    }
}

/// The indices `first, first + step, …` of an axis, divided among its chunks.
#[derive(Clone, Debug)]
pub struct Run {
    first: u64,
    step: i64,
    count: u64,
    /// Index in the work buffer of the first, and bytes between neighbours there.
    start: u64,
    stride: isize,
    /// Length of the axis.
    size: u64,
    division: Division,
    rows: usize,
}

/// How the indices of a run are divided among chunks.
#[derive(Clone, Debug)]
enum Division {
    /// Among chunks of one length.
    Regular(u64),
    /// Among chunks that begin at the first list's members; row `i` has the run's indices from `bounds[i]` on.
    Varying { starts: Arc<[u64]>, bounds: Vec<u64> },
}

impl Run {
    /// Divide `count` indices of an axis of length `size`, which go to the work buffer from `start` on.
    ///
    /// # Errors
    ///
    /// `Memory` if a table of chunks of varying lengths does not fit; regular ones take none.
    pub fn new(
        (first, step, count): (u64, i64, u64),
        (start, stride): (u64, isize),
        cut: &Cut,
        size: u64,
    ) -> Result<Run> {
        let mut run = Run { first, step, count, start, stride, size, division: Division::Regular(1), rows: 0 };
        match cut {
            Cut::Regular(length) => run.divide(*length),
            Cut::Varying(starts) => {
                let (mut bounds, mut done) = (Vec::new(), 0);
                while done < count {
                    push(&mut bounds, done)?;
                    let number = locate(starts, run.index(done)) as usize;
                    let edge = if step > 0 { starts[number + 1] - 1 } else { starts[number] };
                    done = run.first_beyond(edge);
                }
                run.rows = bounds.len();
                run.division = Division::Varying { starts: Arc::clone(starts), bounds };
            }
        }
        Ok(run)
    }

    /// Divide as `new` does, among chunks of one length.
    fn regular((first, step, count): (u64, i64, u64), (start, stride): (u64, isize), length: u64, size: u64) -> Run {
        let mut run = Run { first, step, count, start, stride, size, division: Division::Regular(length), rows: 0 };
        run.divide(length);
        run
    }

    fn divide(&mut self, length: u64) {
        self.division = Division::Regular(length);
        let rows = if self.count == 0 || self.step.unsigned_abs() >= length {
            self.count
        } else {
            (self.index(self.count - 1) / length).abs_diff(self.first / length) + 1
        };
        self.rows = usize::try_from(rows).unwrap_or(usize::MAX);
    }

    /// The index at a position of the run.
    fn index(&self, position: u64) -> u64 {
        self.first.wrapping_add_signed(self.step.wrapping_mul(position as i64))
    }

    /// The first position of which the index lies beyond `edge`, in the direction of the run; `count` at most.
    fn first_beyond(&self, edge: u64) -> u64 {
        let distance = if self.step > 0 { edge.checked_sub(self.first) } else { self.first.checked_sub(edge) };
        let position = match self.step.unsigned_abs() {
            1 => distance.map_or(0, |distance| distance.saturating_add(1)),
            step => distance.map_or(0, |distance| distance / step + 1),
        };
        position.min(self.count)
    }

    fn row(&self, row: u64) -> Row<'static> {
        let (number, begin, length, from, to);
        match &self.division {
            Division::Regular(chunk) => {
                length = *chunk;
                if self.step.unsigned_abs() >= length {
                    number = self.index(row) / length;
                    begin = number * length;
                    (from, to) = (row, row + 1);
                } else if self.step > 0 {
                    number = self.first / length + row;
                    begin = number * length;
                    from = if row == 0 { 0 } else { self.first_beyond(begin - 1) };
                    to = self.first_beyond(begin + (length - 1));
                } else {
                    number = self.first / length - row;
                    begin = number * length;
                    from = if row == 0 { 0 } else { self.first_beyond(begin + length) };
                    to = self.first_beyond(begin);
                }
            }
            Division::Varying { starts, bounds } => {
                from = bounds[row as usize];
                to = bounds.get(row as usize + 1).copied().unwrap_or(self.count);
                number = locate(starts, self.index(from));
                begin = starts[number as usize];
                length = starts[number as usize + 1] - begin;
            }
        }
        let count = to - from;
        let part = Part {
            select: Select::Run { first: self.index(from) - begin, count, step: if count > 1 { self.step } else { 1 } },
            place: Place::From(self.start + from),
            stride: self.stride,
            whole: count == length.min(self.size - begin),
        };
        Row { number, part }
    }
}

/// Indices of an axis in lists, sorted by chunk.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// For each row the chunk's number along the axis.
    pub numbers: Vec<u64>,
    /// Row `i` has the members `bounds[i]` to `bounds[i + 1]` of the lists below.
    pub bounds: Vec<usize>,
    /// For each row whether its offsets follow each other, and whether they are every index of the chunk within the array.
    pub traits: Vec<(bool, bool)>,
    /// The indices within their chunk.
    pub offsets: Vec<i64>,
    /// Where each goes; to its own place in the list where there are none.
    pub positions: Option<Vec<i64>>,
    /// Bytes between neighbours in the work buffer.
    pub stride: isize,
}

impl List {
    fn row(&self, row: usize) -> Row<'_> {
        let (begin, end) = (self.bounds[row], self.bounds[row + 1]);
        let offsets = &self.offsets[begin..end];
        let (consecutive, whole) = self.traits[row];
        let (select, place) = match &self.positions {
            // a run whose places are listed is a list too
            Some(positions) => (Select::List(offsets), Place::At(&positions[begin..end])),
            None if consecutive => (
                Select::Run { first: offsets[0] as u64, count: offsets.len() as u64, step: 1 },
                Place::From(begin as u64),
            ),
            None => (Select::List(offsets), Place::From(begin as u64)),
        };
        Row { number: self.numbers[row], part: Part { select, place, stride: self.stride, whole } }
    }
}

/// Points that have coordinates on several axes together, sorted by chunk.
#[derive(Clone, Debug, Default)]
pub struct Points {
    /// The axes.
    pub axes: Vec<usize>,
    /// For each group, one after the other, the numbers of its chunk along these axes.
    pub numbers: Vec<u64>,
    /// Group `i` has the points `bounds[i]` to `bounds[i + 1]`.
    pub bounds: Vec<usize>,
    /// For each group whether it has every place of the chunk that lies within the array, along these axes.
    pub whole: Vec<bool>,
    /// For each of the axes each point's index within its chunk.
    pub offsets: Vec<Vec<i64>>,
    /// Where each point goes; to its own place in the lists where there are none.
    pub positions: Option<Vec<i64>>,
    /// Bytes between neighbours in the work buffer.
    pub stride: isize,
}

/// The points of one chunk.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    points: &'a Points,
    index: usize,
}

impl<'a> Group<'a> {
    /// The axes that the points have coordinates on.
    pub fn axes(&self) -> &'a [usize] {
        &self.points.axes
    }

    /// The chunk's numbers along these axes.
    pub fn numbers(&self) -> &'a [u64] {
        let count = self.points.axes.len();
        &self.points.numbers[self.index * count..(self.index + 1) * count]
    }

    /// For each of these axes, each point's index within the chunk.
    pub fn offsets(&self) -> impl Iterator<Item = &'a [i64]> + use<'a> {
        let (begin, end) = self.range();
        self.points.offsets.iter().map(move |offsets| &offsets[begin..end])
    }

    /// Where the points go.
    pub fn place(&self) -> Place<'a> {
        let (begin, end) = self.range();
        match &self.points.positions {
            Some(positions) => Place::At(&positions[begin..end]),
            None => Place::From(begin as u64),
        }
    }

    /// Bytes between neighbours in the work buffer.
    pub fn stride(&self) -> isize {
        self.points.stride
    }

    /// Whether they are every place of the chunk that lies within the array, along these axes.
    pub fn whole(&self) -> bool {
        self.points.whole[self.index]
    }

    /// How many points there are.
    pub fn count(&self) -> usize {
        let (begin, end) = self.range();
        end - begin
    }

    fn range(&self) -> (usize, usize) {
        (self.points.bounds[self.index], self.points.bounds[self.index + 1])
    }
}

/// A plan; see the module.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// A table for each axis; none for those of the points.
    pub axes: Vec<Option<Table>>,
    /// The points, if there are any.
    pub points: Option<Points>,
}

/// What is taken of one chunk.
#[derive(Clone, Debug)]
pub struct Item<'p> {
    /// The chunk's position in the grid.
    pub coords: Vec<u64>,
    /// What is taken along each axis; `None` for those of the points.
    pub parts: Vec<Option<Part<'p>>>,
    /// The points.
    pub group: Option<Group<'p>>,
}

impl Plan {
    /// How many chunks it touches.
    pub fn len(&self) -> usize {
        let boxes = self.axes.iter().flatten().map(Table::len).fold(1, usize::saturating_mul);
        self.points.as_ref().map_or(boxes, |points| boxes.saturating_mul(points.whole.len()))
    }

    /// Whether it touches none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Chunk `index` of the plan.
    pub fn item(&self, mut index: usize) -> Item<'_> {
        let mut coords = vec![0; self.axes.len()];
        let mut parts = vec![None; self.axes.len()];
        for (axis, table) in self.axes.iter().enumerate().rev() {
            if let Some(table) = table {
                let length = table.len();
                let row = if length == 1 { table.row(0) } else { table.row(index % length) };
                index /= length;
                coords[axis] = row.number;
                parts[axis] = Some(row.part);
            }
        }
        let group = self.points.as_ref().map(|points| Group { points, index });
        if let Some(group) = &group {
            for (&axis, &number) in group.axes().iter().zip(group.numbers()) {
                coords[axis] = number;
            }
        }
        Item { coords, parts, group }
    }
}

impl Item<'_> {
    /// Whether every element of the chunk that lies within the array is taken.
    pub fn covers(&self) -> bool {
        self.parts.iter().flatten().all(|part| part.whole) && self.group.is_none_or(|group| group.whole())
    }

    /// How many elements are taken.
    pub fn count(&self) -> usize {
        let points = self.group.map_or(1, |group| group.count());
        self.parts.iter().flatten().map(Part::count).fold(points, usize::saturating_mul)
    }

    /// What is taken of the chunk's inner chunks of `shape`, in a chunk of which axis `i` is stored as `order[i]`.
    ///
    /// # Errors
    ///
    /// `Memory` if the tables of indices and points don't fit.
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
    /// How many indices are taken.
    pub fn count(&self) -> usize {
        match &self.select {
            Select::Run { count, .. } => *count as usize,
            Select::List(list) => list.len(),
        }
    }

    /// Divide what is taken among inner chunks of one length.
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
        list.offsets = gathered(order.iter().map(|&i| (index(i) % length) as i64))?;
        list.positions = Some(gathered(order.iter().map(|&i| self.place.index(i)))?);
        push(&mut list.bounds, 0)?;
        for run in order.chunk_by(|&a, &b| index(a) / length == index(b) / length) {
            let begin = list.bounds[list.numbers.len()];
            // what is whole for the array is not for the inner chunk, where that lies partly beyond the array
            let whole = fills(&[&list.offsets[begin..begin + run.len()]], &[length])?;
            push(&mut list.numbers, index(run[0]) / length)?;
            push(&mut list.bounds, begin + run.len())?;
            push(&mut list.traits, (false, whole))?;
        }
        Ok(Table::List(list))
    }
}

impl Place<'_> {
    fn index(&self, i: usize) -> i64 {
        match self {
            Place::From(start) => (*start + i as u64) as i64,
            Place::At(list) => list[i],
        }
    }
}

impl Group<'_> {
    /// Divide the points among inner chunks.
    fn refine(&self, axes: Vec<usize>, lengths: &[u64]) -> Result<Points> {
        let offsets: Vec<&[i64]> = self.offsets().collect();
        let numbers = |i: usize| offsets.iter().zip(lengths).map(move |(offsets, &length)| offsets[i] as u64 / length);
        let mut order = gathered(0..self.count())?;
        order.sort_unstable_by(|&a, &b| numbers(a).cmp(numbers(b)).then(a.cmp(&b)));
        let mut points = Points { axes, stride: self.stride(), ..Points::default() };
        for (list, &length) in offsets.iter().zip(lengths) {
            points.offsets.push(gathered(order.iter().map(|&i| (list[i] as u64 % length) as i64))?);
        }
        let place = self.place();
        points.positions = Some(gathered(order.iter().map(|&i| place.index(i)))?);
        push(&mut points.bounds, 0)?;
        for run in order.chunk_by(|&a, &b| numbers(a).eq(numbers(b))) {
            let begin = points.bounds[points.whole.len()];
            let end = begin + run.len();
            let here: Vec<&[i64]> = points.offsets.iter().map(|list| &list[begin..end]).collect();
            let whole = fills(&here, lengths)?;
            push(&mut points.whole, whole)?;
            push(&mut points.bounds, end)?;
            for number in numbers(run[0]) {
                push(&mut points.numbers, number)?;
            }
        }
        Ok(points)
    }
}

/// The numbers below `count`, sorted by a key, those of one key in order.
fn sorted(count: usize, key: impl Fn(&usize) -> u64) -> Result<Vec<usize>> {
    let mut order = gathered(0..count)?;
    if !order.is_sorted_by_key(&key) {
        order.sort_unstable_by_key(|i| (key(i), *i)); // in place, as no stable sort is
    }
    Ok(order)
}

/// Whether points, which all lie in a box, hit every place of it.
///
/// # Errors
///
/// `Memory` if there is not enough for a mark at each place, of which there are no more than points.
pub fn fills(offsets: &[&[i64]], lengths: &[u64]) -> Result<bool> {
    let count = offsets.first().map_or(0, |list| list.len());
    let volume = lengths.iter().try_fold(1_u64, |volume, &length| volume.checked_mul(length)).unwrap_or(u64::MAX);
    if (count as u64) < volume || volume <= 1 {
        return Ok(count > 0 && volume == 1);
    }
    let mut hit = repeated(volume as usize, false)?;
    for i in 0..count {
        let flat = offsets.iter().zip(lengths).fold(0, |flat, (list, &length)| flat * length + list[i] as u64);
        hit[flat as usize] = true;
    }
    Ok(!hit.contains(&false))
}
