//! Arrays: `tegula.engine.reading.kernel` makes one for each open array, and calls it for each operation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tegula_kernel::last_chunk::LastChunk;
use tegula_kernel::plan::Plan;
use tegula_kernel::read::{Call, read};
use tegula_kernel::stores::Store;
use tegula_kernel::strided_copy::WorkBuffer;
use tegula_kernel::write::{create, write};
use tegula_kernel::{Error, array};

use crate::description::{self, AxisParts, KeyParts};
use crate::errors::{exception, foreign};
use crate::output::{View, new_array, scalar};
use crate::plans::PlanParts;
use crate::selection::{self, basic, selected_shape};
use crate::stores::Source;

/// Results from this size on are written with streaming stores, which bypass the caches, in bytes.
const FAR: usize = 1 << 23;
/// A write of more chunks is left to the caller, who may find out that few of them are stored.
const MANY: usize = 1 << 12;
/// Number of chunks to look for between two checks for signals.
const BATCH: usize = 1 << 14;
/// Larger results are left to Python, which checks the available memory, in bytes.
const LARGEST: u128 = 1 << 33;

/// Memory for an element, aligned for any number.
#[repr(align(16))]
struct Small([u8; 64]);

/// The description of an array, for reading and writing.
#[pyclass(frozen, module = "tegula._kernel")]
pub struct Array {
    pub(crate) array: array::Array,
    pub(crate) source: Source,
    /// The common prefix of all chunk keys, up to a slash.
    pub(crate) prefix: String,
    /// Bytes of the first chunk in memory.
    pub(crate) content: usize,
    dtype: Py<PyArrayDescr>,
    scalars: bool,
}

#[pymethods]
impl Array {
    #[new]
    #[pyo3(signature = (store, *, shape, axes, prefix, keys, chain, fill, dtype, dense))]
    #[expect(clippy::too_many_arguments, reason = "the parts of a description")]
    fn new(
        store: &Bound<'_, PyAny>,
        shape: Vec<u64>,
        axes: Vec<AxisParts>,
        prefix: &str,
        keys: KeyParts,
        chain: &Bound<'_, PyAny>,
        fill: Vec<u8>,
        dtype: Bound<'_, PyArrayDescr>,
        dense: bool,
    ) -> PyResult<Array> {
        // the chunk grid
        if axes.len() != shape.len() {
            return Err(description::contradiction());
        }
        let chunk_axes = axes.into_iter().zip(&shape).map(|(axis, &size)| description::chunk_axis(axis, size));
        let chunk_axes = chunk_axes.collect::<PyResult<Vec<_>>>()?;
        // codecs and fill value
        let big = dtype.byteorder() == if cfg!(target_endian = "big") { b'=' } else { b'>' };
        let chain = description::chain(chain, big)?;
        if fill.len() != dtype.itemsize() || dtype.has_object() || fill.is_empty() {
            return Err(description::contradiction());
        }
        if dense && (shape.is_empty() || chain.sharding().is_some()) {
            return Err(description::contradiction());
        }
        description::check_chain(&chain, &chunk_axes, fill.len()).map_err(|error| exception(store.py(), error))?;
        // keys
        let scalars = dtype.kind() != b'V';
        let keys = keys.below(prefix);
        let prefix = keys.prefix[..keys.prefix.rfind('/').map_or(0, |end| end + 1)].to_owned();
        let content = chunk_axes.iter().fold(fill.len(), |bytes, chunk_axis| {
            bytes.saturating_mul(usize::try_from(chunk_axis.length(0)).unwrap_or(usize::MAX))
        });
        let array = array::Array { shape, chunk_axes, keys, chain, fill, dense, last: LastChunk::default() };
        Ok(Array { array, source: Source::new(store)?, prefix, content, dtype: dtype.unbind(), scalars })
    }

    /// Whether the store itself checks that what it reads and writes belongs to the node; otherwise the caller has to.
    #[getter]
    fn checks(&self) -> bool {
        !matches!(self.source, Source::Asked(_) | Source::Plain(..))
    }

    /// Read a selection of ints and slices; `None` if this method does not support it, or if the array has become shorter
    /// than the selection. `missing` is called as for `read`.
    fn get<'py>(
        &self,
        selection: &Bound<'py, PyAny>,
        threads: usize,
        missing: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = selection.py();
        let Some((picks, point)) = basic(selection, &self.array.shape) else { return Ok(None) };
        let shape = selected_shape(&picks);
        let size = self.array.fill.len();
        if shape.iter().fold(size as u128, |bytes, &count| bytes.saturating_mul(count.max(1) as u128)) > LARGEST {
            return Ok(None);
        }
        if point && !self.scalars {
            return Ok(None);
        }
        let dtype = self.dtype.bind(py);
        let bytes = shape.iter().fold(size, |bytes, &count| bytes.saturating_mul(count));
        if bytes == 0 {
            return new_array(py, &shape, dtype).map(Some);
        }
        // the plan, for a result in C order
        let mut strides = vec![size as isize; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(shape[axis] as isize);
        }
        let plan = selection::plan(py, &picks, &strides, &self.array)?;
        // a single element becomes a scalar
        if point {
            let mut small = Small([0; 64]);
            let mut large = Vec::new();
            let data = if let Some(data) = small.0.get_mut(..size) {
                data
            } else {
                large.resize(size, 0);
                &mut large
            };
            let work = WorkBuffer { start: data.as_mut_ptr(), offset: 0, size, bypass_cache: false };
            // SAFETY: the only element of the plan has its place at the start of `data`.
            unsafe { self.run_read(py, &plan, work, threads, missing)? };
            return if self.is_beyond(&plan) { Ok(None) } else { scalar(py, data, dtype).map(Some) };
        }
        // anything else an array
        let out = new_array(py, &shape, dtype)?;
        let work = WorkBuffer { start: View::new(&out)?.start(), offset: 0, size, bypass_cache: bytes >= FAR };
        // SAFETY: the strides are those of an array of this shape in C order, which has not been returned yet.
        unsafe { self.run_read(py, &plan, work, threads, missing)? };
        Ok((!self.is_beyond(&plan)).then_some(out))
    }

    /// Read what a plan selects into `out`: of each element the bytes of a field, from `offset` on. Return `false` if
    /// elements of `out` may share memory, which several threads would write at the same time, or if the array has become
    /// shorter than the selection.
    ///
    /// `missing` is called at the end if a chunk is not stored, unless the store itself checks the node. If it is `None`,
    /// `NotFoundError` is raised instead, for inner chunks of shards, too.
    fn read(
        &self,
        plan: PlanParts<'_>,
        out: &Bound<'_, PyAny>,
        offset: usize,
        threads: usize,
        missing: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let view = View::new(out)?;
        if !view.is_writeable() {
            return Err(PyValueError::new_err("the buffer can't be written"));
        }
        if !view.is_disjoint() {
            return Ok(false);
        }
        let (plan, work) = self.checked(out.py(), plan, &view, offset)?;
        // SAFETY: the plan has been checked against the buffer's shape and the array's; no two of its places are one.
        unsafe { self.run_read(out.py(), &plan, work, threads, missing)? };
        Ok(!self.is_beyond(&plan))
    }

    /// Return whether any chunk of a box is stored; `None` if this method can not find out.
    fn any_stored(&self, py: Python<'_>, bounds: Vec<(u64, u64)>) -> PyResult<Option<bool>> {
        self.check_bounds(&bounds)?;
        let mut keys = array::Coords::new(bounds).map(|coords| self.array.keys.encode(&coords)).peekable();
        while keys.peek().is_some() {
            py.check_signals()?;
            let some = keys.by_ref().take(BATCH);
            match optional(py, py.detach(|| self.source.any(some)))? {
                Some(false) => {}
                found => return Ok(found),
            }
        }
        Ok(Some(false))
    }

    /// Delete the chunks of a box as long as `holds` returns true; `None` if this method can not do it.
    ///
    /// Returns whether `holds` always returned true. It is called while other writers are locked out.
    fn delete(&self, py: Python<'_>, bounds: Vec<(u64, u64)>, holds: &Bound<'_, PyAny>) -> PyResult<Option<bool>> {
        self.check_bounds(&bounds)?;
        let keys = array::Coords::new(bounds).map(|coords| self.array.keys.encode(&coords));
        let holds = holds.clone().unbind();
        let mut holds = || Python::attach(|py| holds.call0(py)?.extract(py)).map_err(foreign);
        optional(py, py.detach(|| self.source.delete_all(keys, &mut holds)))
    }

    /// Write `values`, an array of the array's own type, to a selection of ints and slices of the same shape. Return
    /// `false`, and write nothing, if this method does not support it, or if the array has become shorter than the selection.
    ///
    /// `is_shortened` is called before the first chunk is stored, unless the store itself checks the node.
    fn set(
        &self,
        selection: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        threads: usize,
        keep_empty: bool,
        is_shortened: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let py = selection.py();
        // the caller checks the length of a dense array before it writes, and converts values of other types
        let Ok(given) = values.cast_exact::<PyUntypedArray>() else { return Ok(false) };
        if self.array.dense || !given.dtype().is_equiv_to(self.dtype.bind(py)) {
            return Ok(false);
        }
        let Some((picks, _)) = basic(selection, &self.array.shape) else { return Ok(false) };
        if given.shape() != selected_shape(&picks) || given.shape().contains(&0) {
            return Ok(false);
        }
        // the plan, for the values as they lie in memory
        let view = View::new(values)?;
        let plan = selection::plan(py, &picks, view.strides(), &self.array)?;
        if plan.len() > MANY || (!self.checks() && is_shortened.call0()?.is_truthy()?) {
            return Ok(false);
        }
        let work = WorkBuffer { start: view.start(), offset: 0, size: view.item_size(), bypass_cache: false };
        // SAFETY: the plan has the shape and the strides of the values.
        unsafe { self.run_write(py, &plan, work, threads, keep_empty) }
    }

    /// Write `values` to the elements that a plan selects; return `false` if the array has become shorter than that.
    fn write(
        &self,
        py: Python<'_>,
        plan: PlanParts<'_>,
        values: &Bound<'_, PyAny>,
        offset: usize,
        threads: usize,
        keep_empty: bool,
    ) -> PyResult<bool> {
        let view = View::new(values)?;
        let (plan, work) = self.checked(py, plan, &view, offset)?;
        // SAFETY: the plan has been checked against the buffer's shape and the array's.
        unsafe { self.run_write(py, &plan, work, threads, keep_empty) }
    }

    /// Store the chunks that a plan selects, each as a whole; none of them may exist. Returns the number of stored bytes.
    fn create(&self, py: Python<'_>, plan: PlanParts<'_>, values: &Bound<'_, PyAny>, threads: usize) -> PyResult<u64> {
        let view = View::new(values)?;
        let (plan, work) = self.checked(py, plan, &view, 0)?;
        self.run(py, plan.len(), None, |store, call| {
            // SAFETY: the plan has been checked against the buffer's shape and the array's.
            unsafe { create(store, &self.array, &plan, work, Call { threads, ..call }) }
        })
    }
}

impl Array {
    fn check_bounds(&self, bounds: &[(u64, u64)]) -> PyResult<()> {
        if bounds.len() == self.array.shape.len() && !self.array.keys.first_only {
            return Ok(());
        }
        Err(PyValueError::new_err("the bounds do not describe a box of chunks"))
    }

    /// Whether a plan leads beyond the shape that the document is known to have now.
    fn is_beyond(&self, plan: &Plan) -> bool {
        let now = self.source.cuts(&self.array.shape);
        now.is_some_and(|shape| !plan.lies_within(&shape, &self.array.chunk_axes))
    }

    /// Convert a plan and a buffer, and check that they fit the array.
    fn checked(
        &self,
        py: Python<'_>,
        parts: PlanParts<'_>,
        view: &View<'_>,
        offset: usize,
    ) -> PyResult<(Plan, WorkBuffer)> {
        let size = view.item_size();
        let total = self.array.fill.len();
        let swapped = self.array.chain.innermost().swap > 1;
        let fits = size > 0 && offset.checked_add(size).is_some_and(|end| end <= total);
        if !fits || (size < total && swapped) || view.has_objects() {
            return Err(PyValueError::new_err("the buffer does not hold elements of the array"));
        }
        let plan = parts.checked(py, view.shape(), view.strides(), &self.array.shape, &self.array.chunk_axes)?;
        let bytes = view.shape().iter().fold(size, |bytes, &count| bytes.saturating_mul(count));
        Ok((plan, WorkBuffer { start: view.start(), offset, size, bypass_cache: bytes >= FAR }))
    }

    /// # Safety
    ///
    /// As for `tegula_kernel::read::read`.
    unsafe fn run_read(
        &self,
        py: Python<'_>,
        plan: &Plan,
        work: WorkBuffer,
        threads: usize,
        missing: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let absent = AtomicBool::new(false);
        let strict = missing.is_none();
        self.run(py, plan.len(), Some(&absent), |store, call| {
            // SAFETY: the caller guarantees the plan and the buffer.
            unsafe { read(store, &self.array, plan, work, Call { threads, strict, ..call }) }
        })?;
        if let Some(missing) = missing.filter(|_| absent.load(Ordering::Relaxed) && !self.checks()) {
            missing.call0()?;
        }
        Ok(())
    }

    /// Write, and return whether the array is still as long as the plan needs.
    ///
    /// # Safety
    ///
    /// As for `tegula_kernel::write::write`.
    unsafe fn run_write(
        &self,
        py: Python<'_>,
        plan: &Plan,
        work: WorkBuffer,
        threads: usize,
        keep_empty: bool,
    ) -> PyResult<bool> {
        self.run(py, plan.len(), None, |store, call| {
            if self.is_beyond(plan) {
                store.check(false)?; // it may have grown since
                return Ok(false);
            }
            let call = Call { threads, keep_empty, ..call };
            // SAFETY: the caller guarantees the plan and the buffer.
            unsafe { write(store, &self.array, plan, work, call) }.map(|()| true)
        })
    }

    /// Call `work` with the store and the settings of one thread, by [`unlocked`].
    ///
    /// A read gives `absent`, which is set if a chunk is missing.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        chunks: usize,
        absent: Option<&AtomicBool>,
        work: impl Fn(&dyn Store, Call<'_>) -> tegula_kernel::Result<T> + Send,
    ) -> PyResult<T> {
        unlocked(py, move |poll| {
            let none = AtomicBool::new(false);
            self.source.with((&self.prefix, self.content), chunks, absent.is_some(), |store| {
                let absent = absent.unwrap_or(&none);
                absent.store(false, Ordering::Relaxed);
                work(store, Call { threads: 1, keep_empty: false, poll: &mut *poll, absent, strict: false })
            })
        })
    }
}

/// Call `work` without the interpreter's lock; it calls its argument from time to time, which checks for signals.
pub(crate) fn unlocked<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut dyn FnMut() -> tegula_kernel::Result<()>) -> tegula_kernel::Result<T> + Send,
) -> PyResult<T> {
    let done = py.detach(move || {
        let mut last = Instant::now();
        let mut poll = move || {
            if last.elapsed() < Duration::from_millis(50) {
                return Ok(());
            }
            last = Instant::now();
            Python::attach(|py| py.check_signals()).map_err(foreign)
        };
        catch_unwind(AssertUnwindSafe(|| work(&mut poll)))
            .unwrap_or_else(|_| Err(Error::codec("", "the kernel panicked; please report this")))
    });
    done.map_err(|error| exception(py, error))
}

/// Convert a result for Python: `None` if the store needs its general implementation.
fn optional(py: Python<'_>, answer: tegula_kernel::Result<bool>) -> PyResult<Option<bool>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Unusual) => Ok(None),
        Err(error) => Err(exception(py, error)),
    }
}
