//! Selections of ints and slices, as Python passes them. Called by [`crate::array`].

use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyInt, PySlice, PyTuple};
use tegula_kernel::array::Array;
use tegula_kernel::plan::{ChunkAxis, Plan, Run, Table};

use crate::errors::exception;

/// The selection along one axis.
#[derive(Clone, Copy, Debug)]
pub enum Pick {
    /// One index, which removes the axis.
    Index(u64),
    /// `count` indices from `start` on, `step` apart.
    Span {
        /// The first index.
        start: u64,
        /// Distance between two indices.
        step: i64,
        /// Number of indices.
        count: u64,
    },
}

/// Parse a selection of ints, slices and an ellipsis; `None` if it holds anything else or is invalid.
///
/// Also returns whether it consists of one int for each axis, for which NumPy returns a scalar.
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
    // the attributes of a slice have to be exact ints or None, so that no Python code of other classes runs
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

/// Return an attribute of a slice: `Some(None)` if it is omitted, `None` if it is not a plain int.
fn member(slice: &Bound<'_, PySlice>, name: &str) -> Option<Option<i64>> {
    let value = slice.getattr(name).ok()?;
    if value.is_none() { Some(None) } else { value.cast_exact::<PyInt>().ok()?.extract().ok().map(Some) }
}

/// The shape of the elements that a selection selects.
pub fn selected_shape(picks: &[Pick]) -> Vec<usize> {
    let lengths = picks.iter().filter_map(|pick| match pick {
        Pick::Index(_) => None,
        Pick::Span { count, .. } => Some(usize::try_from(*count).unwrap_or(usize::MAX)),
    });
    lengths.collect()
}

/// Make the plan of a selection, for a work buffer of the selected shape with these strides.
pub fn plan(py: Python<'_>, picks: &[Pick], strides: &[isize], array: &Array) -> PyResult<Plan> {
    let mut axes = Vec::with_capacity(picks.len());
    let mut strides = strides.iter();
    for (axis, &pick) in picks.iter().enumerate() {
        let stride = if let Pick::Span { .. } = pick { strides.next().copied().unwrap_or(0) } else { 0 };
        let made = table(pick, &array.chunk_axes[axis], array.shape[axis], stride);
        axes.push(Some(made.map_err(|error| exception(py, error))?));
    }
    Ok(Plan { axes, points: None })
}

/// Make the table of an axis.
pub fn table(pick: Pick, chunk_axis: &ChunkAxis, size: u64, stride: isize) -> tegula_kernel::Result<Table> {
    Ok(Table::Run(match pick {
        Pick::Span { start, step, count } => Run::new((start, step, count), (0, stride), chunk_axis, size)?,
        Pick::Index(index) => Run::new((index, 1, 1), (0, 0), chunk_axis, size)?,
    }))
}
