//! Rows for the ends of chunks. `tegula.engine.reading.kernel` calls [`extend`] for each append.

use pyo3::prelude::*;
use tegula_kernel::write::extending::{self, Rows};
use tegula_kernel::{Error, array};

use crate::array::{Array, unlocked};
use crate::errors::foreign;
use crate::output::View;
use crate::stores::Source;

/// An array, the grid coordinates of a chunk, how many rows of it are kept, and the rows after them.
type RowParts<'py> = (Bound<'py, Array>, Vec<u64>, usize, Bound<'py, PyAny>);

/// An array as the kernel has it, its store and what its values have in common, the coordinates of a chunk, how many rows
/// of it are kept, and the rows after them.
type RowPlace<'r> = (&'r array::Array, &'r Source, (&'r str, usize), &'r [u64], usize, &'r [u8]);

/// Add rows to the ends of chunks, if `holds` returns true after all of them have been read; see
/// `tegula_kernel::write::extending::extend`.
#[pyfunction]
pub fn extend(
    py: Python<'_>,
    parts: Vec<RowParts<'_>>,
    holds: &Bound<'_, PyAny>,
    threads: usize,
) -> PyResult<Vec<Option<i64>>> {
    // the kernel takes the new rows of a chunk as one slice; the caller stores a chunk whose new rows are not contiguous
    let views = parts.iter().map(|(.., values)| View::new(values)).collect::<PyResult<Vec<_>>>()?;
    let pieces = parts.iter().zip(&views).map(|((array, coords, ..), view)| {
        let array = &array.get().array;
        let fits = coords.len() == array.shape.len() && view.item_size() == array.fill.len();
        let length = view.contiguous_bytes().filter(|&length| length > 0 && fits && !view.has_objects())?;
        // SAFETY: the rows are contiguous, and alive and unchanged during the call.
        Some(unsafe { std::slice::from_raw_parts(view.start(), length) })
    });
    let pieces: Vec<Option<&[u8]>> = pieces.collect();
    let chunks = parts.iter().zip(&pieces).map(|((array, coords, kept, _), piece)| {
        let array = array.get();
        let place = (array.prefix.as_str(), array.content);
        piece.map(|new| (&array.array, &array.source, place, coords.as_slice(), *kept, new))
    });
    let chunks: Vec<Option<RowPlace<'_>>> = chunks.collect();
    // the work
    let holds = holds.clone().unbind();
    let mut check = || {
        let held = Python::attach(|py| holds.call0(py)?.extract(py)).map_err(foreign)?;
        if held { Ok(()) } else { Err(Error::Conflict) }
    };
    let grown = unlocked(py, |poll| {
        let stores = chunks.iter().map(|chunk| chunk.map(|(_, source, place, ..)| source.near(place)).transpose());
        let stores = stores.collect::<tegula_kernel::Result<Vec<_>>>()?;
        let rows = chunks.iter().zip(&stores).filter_map(|(chunk, store)| {
            let (array, _, _, coords, kept, new) = (*chunk)?;
            Some(Rows { store: store.as_ref()?.store(), array, coords, kept, new })
        });
        let rows: Vec<_> = rows.collect();
        extending::extend(&rows, threads, &mut check, poll)
    })?;
    let mut grown = grown.into_iter();
    Ok(pieces.iter().map(|piece| piece.and_then(|_| grown.next().flatten())).collect())
}
