//! Selections: those of ints and slices as Python gives them, all others as plans that `tegula.indexing` has made.

use numpy::{Element, PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyInt, PySlice, PyTuple};
use tegula_kernel::memory::{gathered, push, repeated, reserved};
use tegula_kernel::plan::{Cut, List, Plan, Points, Run, Table, fills};

use crate::errors::exception;

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
pub fn table(pick: Pick, cut: &Cut, size: u64, stride: isize) -> tegula_kernel::Result<Table> {
    Ok(Table::Run(match pick {
        Pick::Span { start, step, count } => Run::new((start, step, count), (0, stride), cut, size)?,
        Pick::Index(index) => Run::new((index, 1, 1), (0, 0), cut, size)?,
    }))
}

/// A plan: `tegula.indexing.Plan`.
#[derive(FromPyObject)]
pub struct PlanParts<'py> {
    axes: Vec<Option<TableParts<'py>>>,
    points: Option<PointsParts<'py>>,
    /// Which axis each dimension of the work buffer stands for, -1 for the points.
    work_axes: Vec<isize>,
}

/// What is selected of an axis: `tegula.indexing.plan.Runs` or `tegula.indexing.arrays.Lookup`.
#[derive(FromPyObject)]
enum TableParts<'py> {
    Runs {
        start: u64,
        step: i64,
        count: u64,
        /// The axis' length in the work buffer; `None` for an index, which has no axis there.
        length: Option<u64>,
    },
    Lookup(LookupParts<'py>),
}

/// An axis that is selected by an index array: `tegula.indexing.arrays.Lookup`.
#[derive(FromPyObject)]
struct LookupParts<'py> {
    numbers: Bound<'py, PyArray1<i64>>,
    bounds: Bound<'py, PyArray1<i64>>,
    consecutive: Bound<'py, PyArray1<bool>>,
    whole: Bound<'py, PyArray1<bool>>,
    offsets: Bound<'py, PyArray1<i64>>,
    positions: Option<Bound<'py, PyArray1<i64>>>,
}

/// Points on several axes together: `tegula.indexing.arrays.Points`.
#[derive(FromPyObject)]
struct PointsParts<'py> {
    axes: Vec<usize>,
    numbers: Bound<'py, PyArray2<i64>>,
    bounds: Bound<'py, PyArray1<i64>>,
    offsets: Vec<Bound<'py, PyArray1<i64>>>,
    positions: Option<Bound<'py, PyArray1<i64>>>,
}

impl PlanParts<'_> {
    /// Make the plan, and check that it keeps to the array, of `shape` and `cuts`, and to the work buffer.
    pub fn checked(
        self,
        py: Python<'_>,
        work_shape: &[usize],
        work_strides: &[isize],
        shape: &[u64],
        cuts: &[Cut],
    ) -> PyResult<Plan> {
        if self.axes.len() != shape.len() || self.work_axes.len() != work_shape.len() {
            return Err(outside());
        }
        // how long a dimension of the work buffer is, and how far apart in bytes neighbours are
        let dimension = |axis: isize| {
            let position = self.work_axes.iter().position(|&other| other == axis)?;
            Some((*work_shape.get(position)?, *work_strides.get(position)?))
        };
        let mut plan = Plan { axes: Vec::with_capacity(shape.len()), points: None };
        for (axis, table) in self.axes.into_iter().enumerate() {
            let (room, stride) = dimension(axis as isize).unwrap_or((1, 0));
            let checked = table.map(|table| table.checked(py, &cuts[axis], shape[axis], room, stride));
            plan.axes.push(checked.transpose()?);
        }
        if let Some(points) = self.points {
            let (room, stride) = dimension(-1).ok_or_else(outside)?;
            plan.points = Some(points.checked(py, shape, cuts, room, stride)?);
        }
        let point_axes = plan.points.as_ref().map_or(&[][..], |points| &points.axes);
        for (axis, table) in plan.axes.iter().enumerate() {
            let owners = point_axes.iter().filter(|&&other| other == axis).count();
            if usize::from(table.is_none()) != owners {
                return Err(outside());
            }
        }
        Ok(plan)
    }
}

fn outside() -> PyErr {
    PyValueError::new_err("a plan does not keep to its array and its buffer")
}

impl TableParts<'_> {
    fn checked(self, py: Python<'_>, cut: &Cut, size: u64, room: usize, stride: isize) -> PyResult<Table> {
        let pick = match self {
            TableParts::Runs { start, length: None, .. } => {
                if start >= size {
                    return Err(outside());
                }
                Pick::Index(start)
            }
            TableParts::Runs { start, step, count, .. } => {
                let last = i128::from(start) + i128::from(step) * (i128::from(count) - 1);
                let fits = start < size && last >= 0 && last < i128::from(size) && count <= room as u64 && step != 0;
                if count > 0 && !fits {
                    return Err(outside());
                }
                Pick::Span { start, step, count }
            }
            TableParts::Lookup(table) => return Ok(Table::List(list(py, table, cut, size, room, stride)?)),
        };
        table(pick, cut, size, stride).map_err(|error| exception(py, error))
    }
}

fn list(py: Python<'_>, table: LookupParts<'_>, cut: &Cut, size: u64, room: usize, stride: isize) -> PyResult<List> {
    let LookupParts { numbers, bounds, consecutive, whole, offsets, positions } = table;
    let (consecutive, whole) = (copied(&consecutive)?, copied(&whole)?);
    let mut list = List {
        numbers: copied(&numbers)?.into_iter().map(|number| number as u64).collect(), // in its own memory
        bounds: self::bounds(&bounds)?,
        traits: Vec::new(),
        offsets: copied(&offsets)?,
        positions: positions.map(|positions| copied(&positions)).transpose()?,
        stride,
    };
    let rows = list.numbers.len();
    if consecutive.len() != rows || whole.len() != rows || list.bounds.len() != rows + 1 {
        return Err(outside());
    }
    check_places(py, &list.bounds, list.positions.as_deref(), room)?;
    list.traits = reserved(rows).map_err(|error| exception(py, error))?;
    for row in 0..rows {
        let range = list.bounds[row]..list.bounds[row + 1];
        let within = list.offsets.get(range).filter(|list| !list.is_empty()).ok_or_else(outside)?;
        let extent = check_offsets(within, list.numbers[row], cut, size)?;
        if consecutive[row] && !within.windows(2).all(|pair| pair[1] == pair[0] + 1) {
            return Err(outside());
        }
        let whole = whole[row] && fills(&[within], &[extent]).map_err(|error| exception(py, error))?;
        list.traits.push((consecutive[row], whole));
    }
    Ok(list)
}

/// Copy a list, so that it stays what has been checked.
fn copied<T: Element + Copy>(list: &Bound<'_, PyArray1<T>>) -> PyResult<Vec<T>> {
    let view = list.try_readonly()?;
    let slice = view.as_slice().map_err(|_| outside())?;
    gathered(slice.iter().copied()).map_err(|error| exception(list.py(), error))
}

/// Copy a list of where ranges begin and the last ends, none of which may share something: two chunks at once would be
/// read to one place.
fn bounds(list: &Bound<'_, PyArray1<i64>>) -> PyResult<Vec<usize>> {
    let bounds = copied(list)?;
    if bounds.first() != Some(&0) || !bounds.is_sorted() {
        return Err(outside());
    }
    Ok(bounds.into_iter().map(|bound| bound as usize).collect()) // in its own memory
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

/// Refuse positions that are not within the buffer, or there twice: two chunks at once would be read to one place.
fn check_places(py: Python<'_>, bounds: &[usize], positions: Option<&[i64]>, room: usize) -> PyResult<()> {
    let end = bounds.last().copied().unwrap_or(0);
    let Some(positions) = positions else { return if end <= room { Ok(()) } else { Err(outside()) } };
    if positions.len() > room || end > positions.len() {
        return Err(outside());
    }
    let mut taken = repeated(room, false).map_err(|error| exception(py, error))?;
    for &position in positions {
        let place = usize::try_from(position).ok().and_then(|position| taken.get_mut(position)).ok_or_else(outside)?;
        if std::mem::replace(place, true) {
            return Err(outside());
        }
    }
    Ok(())
}

impl PointsParts<'_> {
    fn checked(self, py: Python<'_>, shape: &[u64], cuts: &[Cut], room: usize, stride: isize) -> PyResult<Points> {
        let refused = |error| exception(py, error);
        let PointsParts { axes, numbers, bounds, offsets, positions } = self;
        if axes.len() != offsets.len() || axes.is_empty() || axes.iter().any(|&axis| axis >= shape.len()) {
            return Err(outside());
        }
        let numbers = numbers.try_readonly()?;
        let numbers = numbers.as_slice().map_err(|_| outside())?;
        let mut points = Points {
            axes,
            numbers: reserved(numbers.len()).map_err(refused)?,
            bounds: self::bounds(&bounds)?,
            whole: Vec::new(),
            offsets: offsets.iter().map(copied).collect::<PyResult<_>>()?,
            positions: positions.map(|positions| copied(&positions)).transpose()?,
            stride,
        };
        for &number in numbers {
            points.numbers.push(u64::try_from(number).map_err(|_| outside())?);
        }
        let groups = points.bounds.len() - 1;
        if points.numbers.len() != groups.saturating_mul(points.axes.len()) {
            return Err(outside());
        }
        check_places(py, &points.bounds, points.positions.as_deref(), room)?;
        let (mut lists, mut extents) = (Vec::with_capacity(points.axes.len()), Vec::with_capacity(points.axes.len()));
        for group in 0..groups {
            lists.clear();
            extents.clear();
            for (place, &axis) in points.axes.iter().enumerate() {
                let range = points.bounds[group]..points.bounds[group + 1];
                let list = points.offsets[place].get(range).filter(|list| !list.is_empty()).ok_or_else(outside)?;
                let number = points.numbers[group * points.axes.len() + place];
                extents.push(check_offsets(list, number, &cuts[axis], shape[axis])?);
                lists.push(list);
            }
            push(&mut points.whole, fills(&lists, &extents).map_err(refused)?).map_err(refused)?;
        }
        Ok(points)
    }
}
