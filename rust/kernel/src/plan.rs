//! What a selection touches, chunk by chunk: one small table for each axis, and lists of points.
//!
//! The product over the axes is never spelled out: chunk `i` of a plan is found by dividing `i` by the tables' lengths.
//! The same tables serve twice: for the chunks of an array, and, made anew by [`Part::refine`], for the inner chunks of a
//! shard.

use std::borrow::Cow;

/// How an axis is cut into chunks.
#[derive(Clone, Debug)]
pub enum Cut {
    /// All of one length.
    Regular(u64),
    /// Where each begins, and where the last ends.
    Varying(Vec<u64>),
}

impl Cut {
    /// The number of the chunk that holds an index.
    pub fn locate(&self, index: u64) -> u64 {
        match self {
            Cut::Regular(length) => index / length,
            Cut::Varying(starts) => (starts.partition_point(|&start| start <= index) - 1) as u64,
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

/// What is taken of one axis of a chunk.
#[derive(Clone, Debug)]
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
    List(Cow<'a, [i64]>),
}

/// Where that is along the work buffer's axis.
#[derive(Clone, Debug)]
pub enum Place<'a> {
    /// From this index on, one after the other.
    From(u64),
    /// At the indices listed.
    At(Cow<'a, [i64]>),
}

/// What is taken of one axis of a chunk, and where it goes.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The chunk's number.
    pub number: u64,
    /// What is taken.
    pub part: Part<'a>,
}

/// Points of one chunk that have coordinates on several axes together.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// The chunk's numbers along the plan's `point_axes`.
    pub numbers: Vec<u64>,
    /// For each of these axes, each point's index within the chunk.
    pub offsets: Vec<Cow<'a, [i64]>>,
    /// Where the points go.
    pub place: Place<'a>,
    /// Bytes between neighbours in the work buffer.
    pub stride: isize,
    /// Whether they are every place of the chunk that lies within the array, along these axes.
    pub whole: bool,
}

/// A plan; see the module.
#[derive(Clone, Debug, Default)]
pub struct Plan<'a> {
    /// A table for each axis; an empty one for those of `point_axes`.
    pub axes: Vec<Vec<Row<'a>>>,
    /// The axes on which points have their coordinates.
    pub point_axes: Vec<usize>,
    /// The points, chunk by chunk; none if there are no such axes.
    pub groups: Vec<Group<'a>>,
}

/// What is taken of one chunk.
#[derive(Clone, Debug)]
pub struct Item<'p, 'a> {
    /// The chunk's position in the grid.
    pub coords: Vec<u64>,
    /// What is taken along each axis; `None` for those of the points.
    pub parts: Vec<Option<&'p Part<'a>>>,
    /// The points, and the axes they have coordinates on.
    pub group: Option<(&'p [usize], &'p Group<'a>)>,
}

impl<'a> Plan<'a> {
    /// How many chunks it touches.
    pub fn len(&self) -> usize {
        let boxes = self.tables().map(Vec::len).fold(1, usize::saturating_mul);
        if self.point_axes.is_empty() { boxes } else { boxes.saturating_mul(self.groups.len()) }
    }

    /// Whether it touches none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn tables(&self) -> impl Iterator<Item = &Vec<Row<'a>>> {
        self.axes.iter().enumerate().filter(|(axis, _)| !self.point_axes.contains(axis)).map(|(_, table)| table)
    }

    /// Chunk `index` of the plan.
    pub fn item(&self, mut index: usize) -> Item<'_, 'a> {
        let mut coords = vec![0; self.axes.len()];
        let mut parts = vec![None; self.axes.len()];
        for (axis, table) in self.axes.iter().enumerate().rev() {
            if !table.is_empty() {
                let row = &table[index % table.len()];
                index /= table.len();
                coords[axis] = row.number;
                parts[axis] = Some(&row.part);
            }
        }
        let group = self.groups.get(index).map(|group| {
            for (&axis, &number) in self.point_axes.iter().zip(&group.numbers) {
                coords[axis] = number;
            }
            (self.point_axes.as_slice(), group)
        });
        Item { coords, parts, group }
    }
}

impl Item<'_, '_> {
    /// Whether every element of the chunk that lies within the array is taken.
    pub fn covers(&self) -> bool {
        self.parts.iter().flatten().all(|part| part.whole) && self.group.is_none_or(|(_, group)| group.whole)
    }

    /// How many elements are taken.
    pub fn count(&self) -> usize {
        let points = self.group.map_or(1, |(_, group)| group.count());
        self.parts.iter().flatten().map(|part| part.count()).fold(points, usize::saturating_mul)
    }

    /// What is taken of the chunk's inner chunks of `shape`, in a chunk of which axis `i` is stored as `order[i]`.
    pub fn refine(&self, order: Option<&[usize]>, shape: &[u64]) -> Plan<'static> {
        let stored = |axis: usize| order.map_or(axis, |order| order[axis]);
        let mut plan = Plan { axes: Vec::with_capacity(shape.len()), ..Plan::default() };
        for (axis, &length) in shape.iter().enumerate() {
            plan.axes.push(self.parts[stored(axis)].map_or_else(Vec::new, |part| part.refine(length)));
        }
        if let Some((axes, group)) = self.group {
            let place = |axis: usize| (0..shape.len()).position(|other| stored(other) == axis).unwrap_or(axis);
            plan.point_axes = axes.iter().map(|&axis| place(axis)).collect();
            let lengths: Vec<u64> = plan.point_axes.iter().map(|&axis| shape[axis]).collect();
            plan.groups = group.refine(&lengths);
        }
        plan
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
    fn refine(&self, length: u64) -> Vec<Row<'static>> {
        match (&self.select, &self.place) {
            (&Select::Run { first, count, step }, &Place::From(start)) => {
                cut_run(first, count, step, start, self.stride, &Cut::Regular(length), u64::MAX)
            }
            (select, place) => {
                let index = |i: usize| match select {
                    Select::Run { first, step, .. } => *first as i64 + *step * i as i64,
                    Select::List(list) => list[i],
                };
                let mut order: Vec<usize> = (0..self.count()).collect();
                order.sort_by_key(|&i| index(i) as u64 / length);
                let mut rows: Vec<Row<'static>> = Vec::new();
                for run in order.chunk_by(|&a, &b| index(a) as u64 / length == index(b) as u64 / length) {
                    let number = index(run[0]) as u64 / length;
                    let start = (number * length) as i64;
                    let offsets: Vec<i64> = run.iter().map(|&i| index(i) - start).collect();
                    // what is whole for the array is not for the inner chunk, where that lies partly beyond the array
                    let whole = hits_all(&offsets, length);
                    let place = Place::At(Cow::Owned(run.iter().map(|&i| place.index(i)).collect()));
                    let select = Select::List(Cow::Owned(offsets));
                    rows.push(Row { number, part: Part { select, place, stride: self.stride, whole } });
                }
                rows
            }
        }
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
    /// How many points there are.
    pub fn count(&self) -> usize {
        self.offsets.first().map_or(0, |offsets| offsets.len())
    }

    /// Divide the points among inner chunks.
    fn refine(&self, lengths: &[u64]) -> Vec<Group<'static>> {
        let numbers =
            |i: usize| self.offsets.iter().zip(lengths).map(move |(offsets, &length)| offsets[i] as u64 / length);
        let mut order: Vec<usize> = (0..self.count()).collect();
        order.sort_by(|&a, &b| numbers(a).cmp(numbers(b)));
        let mut groups = Vec::new();
        for run in order.chunk_by(|&a, &b| numbers(a).eq(numbers(b))) {
            let numbers: Vec<u64> = numbers(run[0]).collect();
            let offsets: Vec<Cow<'static, [i64]>> = (0..lengths.len())
                .map(|axis| {
                    let start = (numbers[axis] * lengths[axis]) as i64;
                    Cow::Owned(run.iter().map(|&i| self.offsets[axis][i] - start).collect())
                })
                .collect();
            groups.push(Group {
                whole: fills(&offsets, lengths),
                numbers,
                offsets,
                place: Place::At(Cow::Owned(run.iter().map(|&i| self.place.index(i)).collect())),
                stride: self.stride,
            });
        }
        groups
    }
}

/// Divide the indices `index, index + step, …` of an axis among its chunks, or what of them lies below `size`.
pub fn cut_run(
    first: u64,
    count: u64,
    step: i64,
    start: u64,
    stride: isize,
    cut: &Cut,
    size: u64,
) -> Vec<Row<'static>> {
    let mut rows = Vec::new();
    let (mut index, mut done) = (first, 0);
    while done < count {
        let number = cut.locate(index);
        let begin = cut.start(number);
        let end = begin.saturating_add(cut.length(number)).min(size);
        let distance = step.unsigned_abs();
        let room = if step > 0 { (end - 1 - index) / distance } else { (index - begin) / distance };
        let here = (room + 1).min(count - done);
        rows.push(Row {
            number,
            part: Part {
                select: Select::Run { first: index - begin, count: here, step: if here > 1 { step } else { 1 } },
                place: Place::From(start + done),
                stride,
                whole: here == end - begin,
            },
        });
        done += here;
        if done < count {
            index = index.wrapping_add_signed(step.wrapping_mul(here as i64));
        }
    }
    rows
}

/// Whether the offsets hit every index below `length`.
fn hits_all(offsets: &[i64], length: u64) -> bool {
    fills(&[Cow::Borrowed(offsets)], &[length])
}

/// Whether points, which all lie in a box, hit every place of it.
pub fn fills(offsets: &[Cow<'_, [i64]>], lengths: &[u64]) -> bool {
    let count = offsets.first().map_or(0, |list| list.len());
    let volume = lengths.iter().try_fold(1_u64, |volume, &length| volume.checked_mul(length)).unwrap_or(u64::MAX);
    if (count as u64) < volume {
        return false;
    }
    let mut hit = vec![false; volume as usize];
    for i in 0..count {
        let flat = offsets.iter().zip(lengths).fold(0, |flat, (list, &length)| flat * length + list[i] as u64);
        hit[flat as usize] = true;
    }
    !hit.contains(&false)
}
