//! Plans that `tegula.indexing` has made, for all other selections. Called by [`crate::array`].
//!
//! A plan is checked against the array and the work buffer before the kernel uses it: every index lies within both, and
//! no place of the work buffer occurs twice.

use numpy::{Element, PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tegula_kernel::memory::{try_collect, try_push, try_repeat, try_with_capacity};
use tegula_kernel::plan::{ChunkAxis, List, Plan, Points, Table, covers_box};

use crate::errors::exception;
use crate::selection::{Pick, table};

/// A plan: `tegula.indexing.Plan`.
#[derive(FromPyObject)]
pub struct PlanParts<'py> {
    axes: Vec<Option<TableParts<'py>>>,
    points: Option<PointsParts<'py>>,
    /// The axis of each dimension of the work buffer, -1 for the points.
    work_axes: Vec<isize>,
}

/// The selection along an axis: `tegula.indexing.plan.Runs` or `tegula.indexing.arrays.Lookup`.
#[derive(FromPyObject)]
enum TableParts<'py> {
    Runs {
        start: u64,
        step: i64,
        count: u64,
        /// Length of the axis in the work buffer; `None` for an int, which has no axis there.
        length: Option<u64>,
    },
    Lookup(LookupParts<'py>),
}

/// The selection of an index array along an axis: `tegula.indexing.arrays.Lookup`.
#[derive(FromPyObject)]
struct LookupParts<'py> {
    numbers: Bound<'py, PyArray1<i64>>,
    bounds: Bound<'py, PyArray1<i64>>,
    consecutive: Bound<'py, PyArray1<bool>>,
    whole: Bound<'py, PyArray1<bool>>,
    offsets: Bound<'py, PyArray1<i64>>,
    positions: Option<Bound<'py, PyArray1<i64>>>,
}

/// Points with coordinates on several axes together: `tegula.indexing.arrays.Points`.
#[derive(FromPyObject)]
struct PointsParts<'py> {
    axes: Vec<usize>,
    numbers: Bound<'py, PyArray2<i64>>,
    bounds: Bound<'py, PyArray1<i64>>,
    offsets: Vec<Bound<'py, PyArray1<i64>>>,
    positions: Option<Bound<'py, PyArray1<i64>>>,
}

impl PlanParts<'_> {
    /// Convert the plan, and check that it stays within the array and the work buffer.
    pub fn checked(
        self,
        py: Python<'_>,
        work_shape: &[usize],
        work_strides: &[isize],
        shape: &[u64],
        chunk_axes: &[ChunkAxis],
    ) -> PyResult<Plan> {
        if self.axes.len() != shape.len() || self.work_axes.len() != work_shape.len() {
            return Err(outside());
        }
        // length and stride of a dimension of the work buffer
        let dimension = |axis: isize| {
            let position = self.work_axes.iter().position(|&other| other == axis)?;
            Some((*work_shape.get(position)?, *work_strides.get(position)?))
        };
        // the axes and the points, each checked against its dimension of the work buffer
        let mut plan = Plan { axes: Vec::with_capacity(shape.len()), points: None };
        for (axis, table) in self.axes.into_iter().enumerate() {
            let (limit, stride) = dimension(axis as isize).unwrap_or((1, 0));
            let checked = table.map(|table| table.checked(py, &chunk_axes[axis], shape[axis], limit, stride));
            plan.axes.push(checked.transpose()?);
        }
        if let Some(points) = self.points {
            let (limit, stride) = dimension(-1).ok_or_else(outside)?;
            plan.points = Some(points.checked(py, shape, chunk_axes, limit, stride)?);
        }
        // each axis has either a table or coordinates of points
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
    PyValueError::new_err("the plan does not stay within its array and its buffer")
}

impl TableParts<'_> {
    fn checked(
        self,
        py: Python<'_>,
        chunk_axis: &ChunkAxis,
        size: u64,
        limit: usize,
        stride: isize,
    ) -> PyResult<Table> {
        let pick = match self {
            TableParts::Runs { start, length: None, .. } => {
                if start >= size {
                    return Err(outside());
                }
                Pick::Index(start)
            }
            TableParts::Runs { start, step, count, .. } => {
                let last = i128::from(start) + i128::from(step) * (i128::from(count) - 1);
                let fits = start < size && last >= 0 && last < i128::from(size) && count <= limit as u64 && step != 0;
                if count > 0 && !fits {
                    return Err(outside());
                }
                Pick::Span { start, step, count }
            }
            TableParts::Lookup(table) => return Ok(Table::List(list(py, table, chunk_axis, size, limit, stride)?)),
        };
        table(pick, chunk_axis, size, stride).map_err(|error| exception(py, error))
    }
}

fn list(
    py: Python<'_>,
    table: LookupParts<'_>,
    chunk_axis: &ChunkAxis,
    size: u64,
    limit: usize,
    stride: isize,
) -> PyResult<List> {
    let LookupParts { numbers, bounds, consecutive, whole, offsets, positions } = table;
    let (consecutive, whole) = (copied(&consecutive)?, copied(&whole)?);
    let mut list = List {
        numbers: copied(&numbers)?.into_iter().map(|number| number as u64).collect(), // collected in place
        bounds: self::bounds(&bounds)?,
        traits: Vec::new(),
        offsets: copied(&offsets)?,
        positions: positions.map(|positions| copied(&positions)).transpose()?,
        stride,
    };
    // the lists fit each other and the work buffer
    let rows = list.numbers.len();
    if consecutive.len() != rows || whole.len() != rows || list.bounds.len() != rows + 1 {
        return Err(outside());
    }
    check_places(py, &list.bounds, list.positions.as_deref(), limit)?;
    // the offsets of each row lie within its chunk
    list.traits = try_with_capacity(rows).map_err(|error| exception(py, error))?;
    for row in 0..rows {
        let range = list.bounds[row]..list.bounds[row + 1];
        let within = list.offsets.get(range).filter(|list| !list.is_empty()).ok_or_else(outside)?;
        let extent = check_offsets(within, list.numbers[row], chunk_axis, size)?;
        if consecutive[row] && !within.windows(2).all(|pair| pair[1] == pair[0] + 1) {
            return Err(outside());
        }
        let whole = whole[row] && covers_box(&[within], &[extent]).map_err(|error| exception(py, error))?;
        list.traits.push((consecutive[row], whole));
    }
    Ok(list)
}

/// Copy a list, so that it can not change after the checks.
fn copied<T: Element + Copy>(list: &Bound<'_, PyArray1<T>>) -> PyResult<Vec<T>> {
    let view = list.try_readonly()?;
    let slice = view.as_slice().map_err(|_| outside())?;
    try_collect(slice.iter().copied()).map_err(|error| exception(list.py(), error))
}

/// Copy the bounds of consecutive ranges, which must not overlap: otherwise two threads would write to the same place.
fn bounds(list: &Bound<'_, PyArray1<i64>>) -> PyResult<Vec<usize>> {
    let bounds = copied(list)?;
    if bounds.first() != Some(&0) || !bounds.is_sorted() {
        return Err(outside());
    }
    Ok(bounds.into_iter().map(|bound| bound as usize).collect()) // collected in place
}

/// Check that offsets lie within chunk `number` and within the array; return how much of the chunk is within the array.
fn check_offsets(offsets: &[i64], number: u64, chunk_axis: &ChunkAxis, size: u64) -> PyResult<u64> {
    let start = match chunk_axis {
        ChunkAxis::Regular(length) => number.checked_mul(*length),
        ChunkAxis::Varying(starts) => {
            let last = starts.len() - 1;
            usize::try_from(number).ok().filter(|&number| number < last).map(|number| starts[number])
        }
    };
    let rest = start.and_then(|start| size.checked_sub(start)).ok_or_else(outside)?;
    let extent = chunk_axis.length(number).min(rest);
    let within = |&offset: &i64| u64::try_from(offset).is_ok_and(|offset| offset < extent);
    if offsets.iter().all(within) { Ok(extent) } else { Err(outside()) }
}

/// Check that positions lie within the buffer, and none occurs twice: otherwise two threads would write to the same place.
fn check_places(py: Python<'_>, bounds: &[usize], positions: Option<&[i64]>, limit: usize) -> PyResult<()> {
    let end = bounds.last().copied().unwrap_or(0);
    let Some(positions) = positions else { return if end <= limit { Ok(()) } else { Err(outside()) } };
    if positions.len() > limit || end > positions.len() {
        return Err(outside());
    }
    let mut taken = try_repeat(limit, false).map_err(|error| exception(py, error))?;
    for &position in positions {
        let place = usize::try_from(position).ok().and_then(|position| taken.get_mut(position)).ok_or_else(outside)?;
        if std::mem::replace(place, true) {
            return Err(outside());
        }
    }
    Ok(())
}

impl PointsParts<'_> {
    fn checked(
        self,
        py: Python<'_>,
        shape: &[u64],
        chunk_axes: &[ChunkAxis],
        limit: usize,
        stride: isize,
    ) -> PyResult<Points> {
        let refused = |error| exception(py, error);
        let PointsParts { axes, numbers, bounds, offsets, positions } = self;
        if axes.len() != offsets.len() || axes.is_empty() || axes.iter().any(|&axis| axis >= shape.len()) {
            return Err(outside());
        }
        let numbers = numbers.try_readonly()?;
        let numbers = numbers.as_slice().map_err(|_| outside())?;
        let mut points = Points {
            axes,
            numbers: try_with_capacity(numbers.len()).map_err(refused)?,
            bounds: self::bounds(&bounds)?,
            whole: Vec::new(),
            offsets: offsets.iter().map(copied).collect::<PyResult<_>>()?,
            positions: positions.map(|positions| copied(&positions)).transpose()?,
            stride,
        };
        // the lists fit each other and the work buffer
        for &number in numbers {
            points.numbers.push(u64::try_from(number).map_err(|_| outside())?);
        }
        let groups = points.bounds.len() - 1;
        if points.numbers.len() != groups.saturating_mul(points.axes.len()) {
            return Err(outside());
        }
        check_places(py, &points.bounds, points.positions.as_deref(), limit)?;
        // the offsets of each group lie within its chunk
        let (mut lists, mut extents) = (Vec::with_capacity(points.axes.len()), Vec::with_capacity(points.axes.len()));
        for group in 0..groups {
            lists.clear();
            extents.clear();
            for (place, &axis) in points.axes.iter().enumerate() {
                let range = points.bounds[group]..points.bounds[group + 1];
                let list = points.offsets[place].get(range).filter(|list| !list.is_empty()).ok_or_else(outside)?;
                let number = points.numbers[group * points.axes.len() + place];
                extents.push(check_offsets(list, number, &chunk_axes[axis], shape[axis])?);
                lists.push(list);
            }
            try_push(&mut points.whole, covers_box(&lists, &extents).map_err(refused)?).map_err(refused)?;
        }
        Ok(points)
    }
}
