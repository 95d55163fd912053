//! Random selections, and their elements one by one.

use tegula_kernel::plan::{List, Plan, Points, Run, Table, covers_box};
use tegula_kernel::strided_copy::WorkBuffer;

use crate::case::Case;
use crate::naive::indices;
use crate::random::Random;

#[derive(Clone, Debug)]
pub enum Pick {
    Index(usize),
    Run {
        first: usize,
        step: i64,
        count: usize,
    },
    List(Vec<usize>),
    /// The axis is one of the axes of the points: their indices along it.
    Points(Vec<usize>),
}

#[derive(Debug)]
pub struct Selection {
    pub picks: Vec<Pick>,
    /// The distance of neighbours along each axis in the work buffer.
    pub strides: Vec<isize>,
    /// As `strides`, for the points.
    pub points: isize,
    /// The place of the element at index 0 of all axes, in a buffer of `bytes`.
    pub base: usize,
    pub bytes: usize,
    /// Which bytes of elements are in the buffer.
    pub offset: usize,
    pub size: usize,
}

fn pick(random: &mut Random, length: usize) -> Pick {
    match random.below(7) {
        0 => Pick::Index(random.below(length)),
        1 => Pick::Run { first: 0, step: 1, count: length },
        2 | 3 => {
            let first = random.below(length);
            let most = if random.once_in(2) { 2 } else { length };
            let step = 1 + random.below(most) as i64;
            let (step, room) = if random.once_in(2) { (step, length - 1 - first) } else { (-step, first) };
            Pick::Run { first, step, count: 1 + random.below(room / step.unsigned_abs() as usize + 1) }
        }
        kind => {
            let mut list: Vec<usize> = (0..1 + random.below(2 * length)).map(|_| random.below(length)).collect();
            if kind == 4 {
                list = (0..length).filter(|_| !random.once_in(3)).collect();
                list.push(length - 1);
                list.dedup();
            } else if kind == 5 {
                list.sort_unstable();
            }
            Pick::List(list)
        }
    }
}

impl Selection {
    /// Any selection; for writing, also elements that share memory.
    pub fn new(random: &mut Random, case: &Case, writing: bool) -> Selection {
        let shape = case.shape();
        let mut picks: Vec<Pick> = shape.iter().map(|&length| pick(random, length)).collect();
        if !shape.is_empty() && random.once_in(4) {
            let count = 1 + random.below(30);
            let sure = random.below(shape.len());
            for axis in 0..shape.len() {
                if axis == sure || random.once_in(2) {
                    picks[axis] = Pick::Points((0..count).map(|_| random.below(shape[axis])).collect());
                }
            }
        }
        let swapped = case.array.chain.innermost().swap > 1;
        let (mut offset, mut size) = (0, case.size);
        if size > 1 && !swapped && random.once_in(4) {
            offset = random.below(size);
            size = 1 + random.below(size - offset);
        }
        Selection { offset, size, ..Selection::laid_out(random, picks, size, writing) }
    }

    /// The whole array.
    pub fn all(random: &mut Random, case: &Case) -> Selection {
        let whole = |length| Pick::Run { first: 0, step: 1, count: length };
        let picks = case.shape().into_iter().map(whole).collect();
        Selection { size: case.size, ..Selection::laid_out(random, picks, case.size, false) }
    }

    /// Lay picks out in memory: in any order, with gaps, backwards; for writing, some of them broadcast.
    pub fn laid_out(random: &mut Random, picks: Vec<Pick>, size: usize, writing: bool) -> Selection {
        let (mut strides, mut points) = (vec![0; picks.len()], 0);
        let (mut step, mut base, mut end) = (size, 0, size);
        let mut axes: Vec<usize> = (0..picks.len()).rev().collect();
        if random.once_in(2) {
            random.shuffle(&mut axes);
        }
        let mut pointed = false;
        for axis in axes {
            let count = match &picks[axis] {
                Pick::Index(_) => continue,
                Pick::Points(_) if std::mem::replace(&mut pointed, true) => continue,
                pick => pick.count(),
            };
            if writing && random.once_in(8) {
                continue;
            }
            if random.once_in(5) {
                step += random.below(9);
            }
            let stride = if random.once_in(6) {
                base += (count - 1) * step;
                -(step as isize)
            } else {
                step as isize
            };
            match &picks[axis] {
                Pick::Points(_) => points = stride,
                _ => strides[axis] = stride,
            }
            end += (count - 1) * step;
            step *= count;
        }
        Selection { picks, strides, points, base, bytes: end, offset: 0, size }
    }

    pub fn work(&self, buffer: &mut [u8]) -> WorkBuffer {
        assert_eq!(buffer.len(), self.bytes);
        WorkBuffer {
            start: buffer[self.base..].as_mut_ptr(),
            offset: self.offset,
            size: self.size,
            bypass_cache: false,
        }
    }

    /// Call `visit` with each element's index in the array and its place in the work buffer, in C order.
    pub fn each(&self, mut visit: impl FnMut(&[usize], usize)) {
        let points = self.picks.iter().find_map(|pick| match pick {
            Pick::Points(list) => Some(list.len()),
            _ => None,
        });
        let mut counts = vec![points.unwrap_or(1)];
        counts.extend(self.picks.iter().map(|pick| if matches!(pick, Pick::Points(_)) { 1 } else { pick.count() }));
        let mut place = vec![0; self.picks.len()];
        indices(&counts, |index| {
            let mut at = self.base as isize + self.points * index[0] as isize;
            for (axis, pick) in self.picks.iter().enumerate() {
                let i = index[axis + 1];
                at += self.strides[axis] * i as isize;
                place[axis] = match pick {
                    Pick::Index(index) => *index,
                    Pick::Run { first, step, .. } => (*first as i64 + step * i as i64) as usize,
                    Pick::List(list) => list[i],
                    Pick::Points(list) => list[index[0]],
                };
            }
            visit(&place, at as usize);
        });
    }

    pub fn plan(&self, random: &mut Random, case: &Case) -> Plan {
        let mut plan = Plan::default();
        let mut axes = Vec::new();
        for (axis, pick) in self.picks.iter().enumerate() {
            let (chunk_axis, size, stride) = (&case.array.chunk_axes[axis], case.array.shape[axis], self.strides[axis]);
            plan.axes.push(match pick {
                Pick::Index(index) => {
                    Some(Table::Run(Run::new((*index as u64, 1, 1), (0, 0), chunk_axis, size).unwrap()))
                }
                Pick::Run { first, step, count } => {
                    let run = (*first as u64, *step, *count as u64);
                    Some(Table::Run(Run::new(run, (0, stride), chunk_axis, size).unwrap()))
                }
                Pick::List(list) => Some(Table::List(listed(random, list, case, axis, stride))),
                Pick::Points(_) => {
                    axes.push(axis);
                    None
                }
            });
        }
        if !axes.is_empty() {
            plan.points = Some(self.listed_points(random, case, axes));
        }
        plan
    }

    fn listed_points(&self, random: &mut Random, case: &Case, axes: Vec<usize>) -> Points {
        let lists: Vec<&Vec<usize>> = axes
            .iter()
            .map(|&axis| match &self.picks[axis] {
                Pick::Points(list) => list,
                _ => unreachable!("not an axis of points"),
            })
            .collect();
        let numbers = |i: usize| -> Vec<usize> {
            axes.iter().zip(&lists).map(|(&axis, list)| locate(&case.edges[axis], list[i])).collect()
        };
        let mut order: Vec<usize> = (0..lists[0].len()).collect();
        order.sort_by_key(|&i| numbers(i));
        let mut points = Points { bounds: vec![0], stride: self.points, ..Points::default() };
        points.offsets = vec![Vec::new(); axes.len()];
        for run in order.chunk_by(|&a, &b| numbers(a) == numbers(b)) {
            let numbers = numbers(run[0]);
            let mut here: Vec<Vec<i64>> = Vec::new();
            for at in 0..axes.len() {
                let start = case.edges[axes[at]][numbers[at]];
                here.push(run.iter().map(|&i| (lists[at][i] - start) as i64).collect());
                points.offsets[at].extend(&here[at]);
            }
            let extents: Vec<u64> = (0..axes.len()).map(|at| extent(case, axes[at], numbers[at])).collect();
            let here: Vec<&[i64]> = here.iter().map(Vec::as_slice).collect();
            points.whole.push(covers_box(&here, &extents).unwrap());
            points.numbers.extend(numbers.iter().map(|&number| number as u64));
            points.bounds.push(points.offsets[0].len());
        }
        points.positions = positions(random, &order);
        Points { axes, ..points }
    }
}

impl Pick {
    fn count(&self) -> usize {
        match self {
            Pick::Index(_) => 1,
            Pick::Run { count, .. } => *count,
            Pick::List(list) | Pick::Points(list) => list.len(),
        }
    }
}

fn locate(edges: &[usize], index: usize) -> usize {
    edges.iter().rposition(|&start| start <= index).unwrap()
}

/// How much of a chunk lies within the array.
fn extent(case: &Case, axis: usize, number: usize) -> u64 {
    let edges = &case.edges[axis];
    (edges[number + 1].min(case.array.shape[axis] as usize) - edges[number]) as u64
}

/// The positions of sorted items; if no item has moved, they may be left out.
fn positions(random: &mut Random, order: &[usize]) -> Option<Vec<i64>> {
    let moved = order.iter().enumerate().any(|(place, &i)| place != i);
    (moved || random.once_in(3)).then(|| order.iter().map(|&i| i as i64).collect())
}

fn listed(random: &mut Random, list: &[usize], case: &Case, axis: usize, stride: isize) -> List {
    let edges = &case.edges[axis];
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by_key(|&i| locate(edges, list[i]));
    let mut table = List { bounds: vec![0], positions: positions(random, &order), stride, ..List::default() };
    for run in order.chunk_by(|&a, &b| locate(edges, list[a]) == locate(edges, list[b])) {
        let number = locate(edges, list[run[0]]);
        let offsets: Vec<i64> = run.iter().map(|&i| (list[i] - edges[number]) as i64).collect();
        let whole = covers_box(&[&offsets], &[extent(case, axis, number)]).unwrap();
        let consecutive = offsets.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        table.numbers.push(number as u64);
        table.traits.push((consecutive, whole));
        table.offsets.extend(offsets);
        table.bounds.push(table.offsets.len());
    }
    table
}
