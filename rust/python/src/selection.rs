//! Selections: those of ints and slices as Python gives them, all others as tables that `tegula.indexing` has made.

use std::borrow::Cow;

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyInt, PyList, PySlice, PyTuple};
use tegula_kernel::plan::{Cut, Group, Part, Place, Plan, Row, Select, cut_run, fills};

/// What is taken of one axis.
#[derive(Clone, Copy, Debug)]
pub enum Pick {
    /// One index; the axis is gone.
    Index(u64),
    /// `count` indices from `start` on, `step` apart.
    Span {
        /// The first.
        start: u64,
        /// The distance between two.
        step: i64,
        /// How many.
        count: u64,
    },
}

/// Understand a selection of ints, slices and an ellipsis; `None` if there is anything else in it, or anything wrong.
///
/// Also says whether it is an index for each axis and nothing else, which NumPy answers with a scalar.
pub fn basic(selection: &Bound<'_, PyAny>, shape: &[u64]) -> Option<(Vec<Pick>, bool)> {
    let mut picks = Vec::with_capacity(shape.len());
    let mut open = false;
    if let Ok(items) = selection.cast_exact::<PyTuple>() {
        let given = items.len();
        for (position, item) in items.iter_borrowed().enumerate() {
            if item.is_exact_instance_of::<PyEllipsis>() {
                if open || given - 1 > shape.len() {
                    return None;
                }
                open = true;
                let skipped = shape.len() + 1 - given;
                picks.extend(shape[position..position + skipped].iter().map(|&size| all(size)));
            } else {
                let size = *shape.get(picks.len())?;
                picks.push(pick(&item, size)?);
            }
        }
    } else if selection.is_exact_instance_of::<PyEllipsis>() {
        open = true;
        picks.extend(shape.iter().map(|&size| all(size)));
    } else {
        picks.push(pick(selection, *shape.first()?)?);
    }
    picks.extend(shape[picks.len()..].iter().map(|&size| all(size)));
    let point = !open && picks.iter().all(|pick| matches!(pick, Pick::Index(_)));
    Some((picks, point))
}

fn all(size: u64) -> Pick {
    Pick::Span { start: 0, step: 1, count: size }
}

fn pick(item: &Bound<'_, PyAny>, size: u64) -> Option<Pick> {
    if let Ok(number) = item.cast_exact::<PyInt>() {
        let index: i64 = number.extract().ok()?;
        let index = if index < 0 { size.checked_add_signed(index)? } else { index as u64 };
        return (index < size).then_some(Pick::Index(index));
    }
    let slice = item.cast_exact::<PySlice>().ok()?;
    // a slice's members have to be exact ints or None, so that no code of somebody else runs
    let (start, stop, step) = (member(slice, "start")?, member(slice, "stop")?, member(slice, "step")?);
    let (size, step) = (i64::try_from(size).ok()?, step.unwrap_or(1));
    if step == 0 || step == i64::MIN {
        return None;
    }
    let clip = |index: Option<i64>, default: i64, low: i64, high: i64| match index {
        None => default,
        Some(index) if index < 0 => index.saturating_add(size).clamp(low, high),
        Some(index) => index.clamp(low, high),
    };
    let (start, distance) = if step > 0 {
        let start = clip(start, 0, 0, size);
        (start, clip(stop, size, 0, size) - start)
    } else {
        let start = clip(start, size - 1, -1, size - 1);
        (start, start - clip(stop, -1, -1, size - 1))
    };
    let count = if distance > 0 { (distance as u64 - 1) / step.unsigned_abs() + 1 } else { 0 };
    Some(Pick::Span { start: if count == 0 { 0 } else { start as u64 }, step, count })
}

/// A member of a slice: `Some(None)` if it is left out, `None` if it is no plain int.
fn member(slice: &Bound<'_, PySlice>, name: &str) -> Option<Option<i64>> {
    let value = slice.getattr(name).ok()?;
    if value.is_none() { Some(None) } else { value.cast_exact::<PyInt>().ok()?.extract().ok().map(Some) }
}

/// Make the table of an axis.
pub fn rows(pick: Pick, cut: &Cut, size: u64, stride: isize) -> Vec<Row<'static>> {
    match pick {
        Pick::Span { start, step, count } => cut_run(start, count, step, 0, stride, cut, size),
        Pick::Index(index) => {
            let number = cut.locate(index);
            let start = cut.start(number);
            let whole = cut.length(number) == 1 || size - start == 1;
            let select = Select::Run { first: index - start, count: 1, step: 1 };
            vec![Row { number, part: Part { select, place: Place::From(0), stride: 0, whole } }]
        }
    }
}

/// The work buffer as far as a plan has to know it: which axis each dimension stands for (-1 for the points), how long
/// it is, and how far apart neighbours are.
pub struct Dimensions<'d> {
    /// The axes.
    pub axes: &'d [isize],
    /// The lengths.
    pub shape: &'d [usize],
    /// The distances in bytes.
    pub strides: &'d [isize],
}

impl Dimensions<'_> {
    fn of(&self, axis: isize) -> Option<(usize, isize)> {
        let position = self.axes.iter().position(|&other| other == axis)?;
        Some((*self.shape.get(position)?, *self.strides.get(position)?))
    }
}

/// Understand tables as `tegula.engine.kernel` describes them, and check that they keep to the array and the buffer.
pub fn plan(
    tables: &Bound<'_, PyList>,
    points: Option<&Bound<'_, PyTuple>>,
    dimensions: &Dimensions<'_>,
    shape: &[u64],
    cuts: &[Cut],
) -> PyResult<Plan<'static>> {
    if tables.len() != shape.len() || dimensions.axes.len() != dimensions.shape.len() {
        return Err(outside());
    }
    let mut plan = Plan { axes: Vec::with_capacity(shape.len()), ..Plan::default() };
    for (axis, table) in tables.iter().enumerate() {
        if table.is_none() {
            plan.axes.push(Vec::new());
            continue;
        }
        let (room, stride) = dimensions.of(axis as isize).unwrap_or((1, 0));
        plan.axes.push(table_rows(table.cast::<PyTuple>()?, &cuts[axis], shape[axis], room, stride)?);
    }
    if let Some(points) = points {
        let (room, stride) = dimensions.of(-1).ok_or_else(outside)?;
        (plan.point_axes, plan.groups) = groups(points, shape, cuts, room, stride)?;
    }
    for axis in 0..shape.len() {
        let owners = plan.point_axes.iter().filter(|&&other| other == axis).count();
        if usize::from(tables.get_item(axis)?.is_none()) != owners {
            return Err(outside());
        }
    }
    Ok(plan)
}

fn outside() -> PyErr {
    PyValueError::new_err("a plan does not keep to its array and its buffer")
}

fn table_rows(
    table: &Bound<'_, PyTuple>,
    cut: &Cut,
    size: u64,
    room: usize,
    stride: isize,
) -> PyResult<Vec<Row<'static>>> {
    match table.len() {
        1 => {
            let index: u64 = table.get_item(0)?.extract()?;
            if index >= size { Err(outside()) } else { Ok(rows(Pick::Index(index), cut, size, stride)) }
        }
        3 if !table.get_item(0)?.is_instance_of::<PyList>() => {
            let (start, step, count): (u64, i64, u64) = table.extract()?;
            if count == 0 {
                return Ok(Vec::new());
            }
            let last = i128::from(start) + i128::from(step) * (i128::from(count) - 1);
            if start >= size || last < 0 || last >= i128::from(size) || count > room as u64 || step == 0 {
                return Err(outside());
            }
            Ok(rows(Pick::Span { start, step, count }, cut, size, stride))
        }
        _ => {
            type Lookup<'py> =
                (Vec<(u64, usize, usize, bool, bool)>, Bound<'py, PyArray1<i64>>, Option<Bound<'py, PyArray1<i64>>>);
            let (lines, offsets, positions): Lookup<'_> = table.extract()?;
            let offsets = offsets.try_readonly()?;
            let offsets = offsets.as_slice().map_err(|_| outside())?;
            let positions = positions.map(|positions| positions.try_readonly()).transpose()?;
            let positions = positions.as_ref().map(|list| list.as_slice()).transpose().map_err(|_| outside())?;
            check_order(lines.iter().map(|line| (line.1, line.2)))?;
            check_distinct(positions, room)?;
            lines
                .into_iter()
                .map(|(number, begin, end, consecutive, whole)| {
                    let within = offsets.get(begin..end).filter(|list| !list.is_empty()).ok_or_else(outside)?;
                    let extent = check_offsets(within, number, cut, size)?;
                    let whole = whole && fills(&[Cow::Borrowed(within)], &[extent]);
                    let select = if consecutive {
                        if !within.windows(2).all(|pair| pair[1] == pair[0] + 1) {
                            return Err(outside());
                        }
                        Select::Run { first: within[0] as u64, count: within.len() as u64, step: 1 }
                    } else {
                        Select::List(Cow::Owned(within.to_vec()))
                    };
                    let place = place(positions, begin, end, room)?;
                    // a run whose places are listed is a list too
                    let select = match (select, &place) {
                        (Select::Run { .. }, Place::At(_)) => Select::List(Cow::Owned(within.to_vec())),
                        (select, _) => select,
                    };
                    Ok(Row { number, part: Part { select, place, stride, whole } })
                })
                .collect()
        }
    }
}

/// Refuse what does not lie within chunk `number`, or beyond the array; return how much of the chunk is within it.
fn check_offsets(offsets: &[i64], number: u64, cut: &Cut, size: u64) -> PyResult<u64> {
    let start = match cut {
        Cut::Regular(length) => number.checked_mul(*length),
        Cut::Varying(starts) => {
            let last = starts.len() - 1;
            usize::try_from(number).ok().filter(|&number| number < last).map(|number| starts[number])
        }
    };
    let rest = start.and_then(|start| size.checked_sub(start)).ok_or_else(outside)?;
    let extent = cut.length(number).min(rest);
    let within = |&offset: &i64| u64::try_from(offset).is_ok_and(|offset| offset < extent);
    if offsets.iter().all(within) { Ok(extent) } else { Err(outside()) }
}

/// Refuse ranges that share something: two chunks at once would be read to one place.
fn check_order(ranges: impl Iterator<Item = (usize, usize)>) -> PyResult<()> {
    let mut done = 0;
    for (begin, end) in ranges {
        if begin < done {
            return Err(outside());
        }
        done = end;
    }
    Ok(())
}

/// Refuse positions that are not within the buffer, or there twice, for the same reason.
fn check_distinct(positions: Option<&[i64]>, room: usize) -> PyResult<()> {
    let Some(positions) = positions else { return Ok(()) };
    if positions.len() > room {
        return Err(outside());
    }
    let mut taken = vec![false; room];
    for &position in positions {
        let place = usize::try_from(position).ok().and_then(|position| taken.get_mut(position)).ok_or_else(outside)?;
        if std::mem::replace(place, true) {
            return Err(outside());
        }
    }
    Ok(())
}

fn place(positions: Option<&[i64]>, begin: usize, end: usize, room: usize) -> PyResult<Place<'static>> {
    match positions {
        None if end <= room => Ok(Place::From(begin as u64)),
        None => Err(outside()),
        Some(list) => {
            let list = list.get(begin..end).ok_or_else(outside)?;
            Ok(Place::At(Cow::Owned(list.to_vec())))
        }
    }
}

/// `(axes, numbers, bounds, offsets, positions)` of `tegula.indexing.arrays.Points`.
fn groups(
    points: &Bound<'_, PyTuple>,
    shape: &[u64],
    cuts: &[Cut],
    room: usize,
    stride: isize,
) -> PyResult<(Vec<usize>, Vec<Group<'static>>)> {
    type Points<'py> = (
        Vec<usize>,
        Bound<'py, PyArray2<i64>>,
        Bound<'py, PyArray1<i64>>,
        Vec<Bound<'py, PyArray1<i64>>>,
        Option<Bound<'py, PyArray1<i64>>>,
    );
    let (axes, numbers, bounds, offsets, positions): Points<'_> = points.extract()?;
    if axes.len() != offsets.len() || axes.is_empty() || axes.iter().any(|&axis| axis >= shape.len()) {
        return Err(outside());
    }
    let (numbers, bounds) = (numbers.to_vec()?, bounds.to_vec()?);
    let offsets = offsets.iter().map(|list| list.to_vec()).collect::<Result<Vec<_>, _>>()?;
    let positions = positions.map(|list| list.to_vec()).transpose()?;
    check_order(bounds.windows(2).map(|bound| (bound[0] as usize, bound[1] as usize)))?;
    check_distinct(positions.as_deref(), room)?;
    let count = axes.len();
    bounds
        .windows(2)
        .enumerate()
        .map(|(group, bound)| {
            let (begin, end) = (bound[0] as usize, bound[1] as usize);
            let numbers = numbers.get(group * count..(group + 1) * count).ok_or_else(outside)?;
            let (mut lists, mut extents) = (Vec::with_capacity(count), Vec::with_capacity(count));
            for (place, &axis) in axes.iter().enumerate() {
                let list = offsets[place].get(begin..end).filter(|list| !list.is_empty()).ok_or_else(outside)?;
                let number = u64::try_from(numbers[place]).map_err(|_| outside())?;
                extents.push(check_offsets(list, number, &cuts[axis], shape[axis])?);
                lists.push(Cow::Owned(list.to_vec()));
            }
            Ok(Group {
                numbers: numbers.iter().map(|&number| number as u64).collect(),
                whole: fills(&lists, &extents),
                offsets: lists,
                place: place(positions.as_deref(), begin, end, room)?,
                stride,
            })
        })
        .collect::<PyResult<Vec<_>>>()
        .map(|groups| (axes, groups))
}
