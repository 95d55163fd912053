//! Selections by chance, and what they mean element by element.

use std::borrow::Cow;

use tegula_kernel::placing::Work;
use tegula_kernel::plan::{Group, Part, Place, Plan, Row, Select, cut_run, fills};

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
    /// The axis is one of the points'; their indices along it.
    Points(Vec<usize>),
}

#[derive(Debug)]
pub struct Selection {
    pub picks: Vec<Pick>,
    /// How far neighbours along each axis are apart in the work buffer.
    pub strides: Vec<isize>,
    /// As `strides`, for the points.
    pub points: isize,
    /// Where the element at index 0 of everything is, in a buffer of `bytes`.
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
    /// Anything; for writing also elements that are one in memory.
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

    /// Everything.
    pub fn all(random: &mut Random, case: &Case) -> Selection {
        let whole = |length| Pick::Run { first: 0, step: 1, count: length };
        let picks = case.shape().into_iter().map(whole).collect();
        Selection { size: case.size, ..Selection::laid_out(random, picks, case.size, false) }
    }

    /// Lay picks out in memory: in any order, apart, backwards; when writing some of it broadcast.
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

    pub fn work(&self, buffer: &mut [u8]) -> Work {
        assert_eq!(buffer.len(), self.bytes);
        Work { start: buffer[self.base..].as_mut_ptr(), offset: self.offset, size: self.size, far: false }
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

    pub fn plan(&self, random: &mut Random, case: &Case) -> Plan<'static> {
        let mut plan = Plan::default();
        for (axis, pick) in self.picks.iter().enumerate() {
            let (cut, size) = (&case.array.cuts[axis], case.array.shape[axis]);
            plan.axes.push(match pick {
                Pick::Index(index) => {
                    let mut rows = cut_run(*index as u64, 1, 1, 0, 0, cut, size);
                    rows[0].part.stride = 0;
                    rows
                }
                Pick::Run { first, step, count } => {
                    cut_run(*first as u64, *count as u64, *step, 0, self.strides[axis], cut, size)
                }
                Pick::List(list) => rows(random, list, case, axis, self.strides[axis]),
                Pick::Points(_) => {
                    plan.point_axes.push(axis);
                    Vec::new()
                }
            });
        }
        if !plan.point_axes.is_empty() {
            plan.groups = self.groups(random, case, &plan.point_axes);
        }
        plan
    }

    fn groups(&self, random: &mut Random, case: &Case, axes: &[usize]) -> Vec<Group<'static>> {
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
        let groups = order.chunk_by(|&a, &b| numbers(a) == numbers(b)).map(|run| {
            let numbers = numbers(run[0]);
            let edges = |at: usize| (&case.edges[axes[at]], numbers[at]);
            let offsets: Vec<Cow<'static, [i64]>> = (0..axes.len())
                .map(|at| run.iter().map(|&i| (lists[at][i] - edges(at).0[numbers[at]]) as i64).collect())
                .collect();
            let extents: Vec<u64> = (0..axes.len()).map(|at| extent(case, axes[at], numbers[at])).collect();
            Group {
                whole: fills(&offsets, &extents),
                numbers: numbers.iter().map(|&number| number as u64).collect(),
                offsets,
                place: place(random, run),
                stride: self.points,
            }
        });
        groups.collect()
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

fn place(random: &mut Random, run: &[usize]) -> Place<'static> {
    if run.windows(2).all(|pair| pair[0] + 1 == pair[1]) && !random.once_in(3) {
        return Place::From(run[0] as u64);
    }
    Place::At(run.iter().map(|&i| i as i64).collect())
}

fn rows(random: &mut Random, list: &[usize], case: &Case, axis: usize, stride: isize) -> Vec<Row<'static>> {
    let edges = &case.edges[axis];
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by_key(|&i| locate(edges, list[i]));
    let rows = order.chunk_by(|&a, &b| locate(edges, list[a]) == locate(edges, list[b])).map(|run| {
        let number = locate(edges, list[run[0]]);
        let offsets: Vec<i64> = run.iter().map(|&i| (list[i] - edges[number]) as i64).collect();
        let place = place(random, run);
        let whole = fills(&[Cow::Borrowed(&offsets)], &[extent(case, axis, number)]);
        let consecutive = offsets.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let select = if consecutive && matches!(place, Place::From(_)) {
            Select::Run { first: offsets[0] as u64, count: offsets.len() as u64, step: 1 }
        } else {
            Select::List(Cow::Owned(offsets))
        };
        Row { number: number as u64, part: Part { select, place, stride, whole } }
    });
    rows.collect()
}
