//! Arrays: what `tegula.engine.kernel` keeps of each, and calls for each operation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use tegula_kernel::placing::Work;
use tegula_kernel::plan::Plan;
use tegula_kernel::read::{Call, read};
use tegula_kernel::stores::Store;
use tegula_kernel::write::write;
use tegula_kernel::{Error, array};

use crate::errors::{exception, foreign};
use crate::output::{View, new_array, scalar};
use crate::selection::{Dimensions, Pick, basic, plan, rows};
use crate::description;
use crate::stores::Source;

/// Results of this size do not stay in the caches.
const FAR: usize = 1 << 23;
/// Larger results are left to Python, which knows how much memory there is.
const LARGEST: u128 = 1 << 33;

/// An array, described once and then read and written.
#[pyclass(frozen, module = "tegula._kernel")]
pub struct Array {
    array: array::Array,
    source: Source,
    /// What the keys of all chunks start with, up to a slash.
    prefix: String,
    /// Bytes of a chunk in memory, at least those of the first.
    content: usize,
    dtype: Py<PyArrayDescr>,
    scalars: bool,
}

#[pymethods]
impl Array {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the parts of a description")]
    fn new(
        store: &Bound<'_, PyAny>,
        shape: Vec<u64>,
        cuts: Vec<Bound<'_, PyAny>>,
        keys: &Bound<'_, PyAny>,
        chain: &Bound<'_, PyAny>,
        fill: Vec<u8>,
        dtype: Bound<'_, PyArrayDescr>,
        dense: bool,
    ) -> PyResult<Array> {
        let cuts = cuts.iter().map(description::cut).collect::<PyResult<Vec<_>>>()?;
        let chain = description::chain(chain, dtype.byteorder() == b'>')?;
        if cuts.len() != shape.len() || fill.len() != dtype.itemsize() || dtype.has_object() || fill.is_empty() {
            return Err(PyValueError::new_err("the parts of the description contradict each other"));
        }
        check_chain(&chain, shape.len(), fill.len())?;
        let scalars = dtype.kind() != b'V';
        let keys = description::keys(keys)?;
        let prefix = keys.prefix[..keys.prefix.rfind('/').map_or(0, |end| end + 1)].to_owned();
        let content = cuts.iter().fold(fill.len(), |bytes, cut| bytes.saturating_mul(cut.length(0) as usize));
        let array = array::Array { shape, cuts, keys, chain, fill, dense };
        Ok(Array { array, source: Source::new(store)?, prefix, content, dtype: dtype.unbind(), scalars })
    }

    /// Read a selection of ints and slices; `None` if that has to go another way.
    fn get<'py>(&self, selection: &Bound<'py, PyAny>, threads: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = selection.py();
        let Some((picks, point)) = basic(selection, &self.array.shape) else { return Ok(None) };
        let lengths = picks.iter().filter_map(|pick| match pick {
            Pick::Index(_) => None,
            Pick::Span { count, .. } => Some(*count as usize),
        });
        let shape: Vec<usize> = lengths.collect();
        let size = self.array.fill.len();
        if shape.iter().fold(size as u128, |bytes, &count| bytes.saturating_mul(count as u128)) > LARGEST {
            return Ok(None);
        }
        if point && !self.scalars {
            return Ok(None);
        }
        let bytes: usize = size * shape.iter().product::<usize>();
        let mut stride = size as isize;
        let mut axes = vec![Vec::new(); picks.len()];
        for (axis, &pick) in picks.iter().enumerate().rev() {
            axes[axis] = rows(pick, &self.array.cuts[axis], self.array.shape[axis], stride);
            if let Pick::Span { count, .. } = pick {
                stride *= count.max(1) as isize;
            }
        }
        let plan = Plan { axes, ..Plan::default() };
        let dtype = self.dtype.bind(py);
        if point {
            let mut small = [0_u64; 8];
            let mut large = Vec::new();
            let data: &mut [u8] = if size <= 64 {
                // SAFETY: eight numbers are 64 bytes.
                unsafe { std::slice::from_raw_parts_mut(small.as_mut_ptr().cast(), size) }
            } else {
                large.resize(size, 0);
                &mut large
            };
            let work = Work { start: data.as_mut_ptr(), offset: 0, size, far: false };
            // SAFETY: the one element of the plan has its place at the start of `data`.
            unsafe { self.run_read(py, &plan, work, threads)? };
            return scalar(py, data, dtype).map(Some);
        }
        let out = new_array(py, &shape, dtype)?;
        if bytes > 0 {
            let work = Work { start: View::new(&out)?.start(), offset: 0, size, far: bytes >= FAR };
            // SAFETY: the strides are those of an array of that shape in C order, which nobody else has seen yet.
            unsafe { self.run_read(py, &plan, work, threads)? };
        }
        Ok(Some(out))
    }

    /// Read what tables select into `out`; of each element the bytes that a field takes.
    fn read(
        &self,
        py: Python<'_>,
        tables: &Bound<'_, PyList>,
        points: Option<&Bound<'_, PyTuple>>,
        axes: Vec<isize>,
        out: &Bound<'_, PyAny>,
        offset: usize,
        threads: usize,
    ) -> PyResult<()> {
        let view = View::new(out)?;
        if !view.is_writeable() {
            return Err(PyValueError::new_err("the buffer can't be written"));
        }
        let (plan, work) = self.understand(tables, points, &axes, &view, offset)?;
        // SAFETY: the plan has been checked against the buffer's shape and the array's.
        unsafe { self.run_read(py, &plan, work, threads) }
    }

    /// Whether any chunk of a box has a value; `None` if that has to be found out another way.
    fn any_stored(&self, py: Python<'_>, bounds: Vec<(u64, u64)>) -> PyResult<Option<bool>> {
        self.check_bounds(&bounds)?;
        let keys = array::Coords::new(bounds).map(|coords| self.array.keys.encode(&coords));
        usual(py, py.detach(|| self.source.any(keys)))
    }

    /// Delete the chunks of a box as long as `holds` says so; `None` if that has to be done another way.
    ///
    /// Returns whether it has always said so. It is called while other writers are kept out.
    fn delete(&self, py: Python<'_>, bounds: Vec<(u64, u64)>, holds: &Bound<'_, PyAny>) -> PyResult<Option<bool>> {
        self.check_bounds(&bounds)?;
        let keys = array::Coords::new(bounds).map(|coords| self.array.keys.encode(&coords));
        let holds = holds.clone().unbind();
        let mut holds = || Python::attach(|py| holds.call0(py)?.extract(py)).map_err(foreign);
        usual(py, py.detach(|| self.source.delete_all(keys, &mut holds)))
    }

    /// Write `values` where tables select.
    #[expect(clippy::too_many_arguments, reason = "the parts of a plan")]
    fn write(
        &self,
        py: Python<'_>,
        tables: &Bound<'_, PyList>,
        points: Option<&Bound<'_, PyTuple>>,
        axes: Vec<isize>,
        values: &Bound<'_, PyAny>,
        offset: usize,
        threads: usize,
        keep_empty: bool,
    ) -> PyResult<()> {
        let view = View::new(values)?;
        let (plan, work) = self.understand(tables, points, &axes, &view, offset)?;
        self.run(py, plan.len(), |store, call| {
            let call = Call { threads, keep_empty, ..call };
            // SAFETY: the plan has been checked against the buffer's shape and the array's.
            unsafe { write(store, &self.array, &plan, work, call) }
        })
    }
}

impl Array {
    fn check_bounds(&self, bounds: &[(u64, u64)]) -> PyResult<()> {
        if bounds.len() == self.array.shape.len() && !self.array.keys.first_only {
            return Ok(());
        }
        Err(PyValueError::new_err("this is no box of chunks"))
    }

    fn understand(
        &self,
        tables: &Bound<'_, PyList>,
        points: Option<&Bound<'_, PyTuple>>,
        axes: &[isize],
        view: &View<'_>,
        offset: usize,
    ) -> PyResult<(Plan<'static>, Work)> {
        let size = view.item_size();
        let total = self.array.fill.len();
        let swapped = self.array.chain.elements().is_some_and(|elements| elements.swap > 1);
        if offset.checked_add(size).is_none_or(|end| end > total) || (size < total && swapped) || size == 0 {
            return Err(PyValueError::new_err("the buffer does not hold elements of the array"));
        }
        let dimensions = Dimensions { axes, shape: view.shape(), strides: view.strides() };
        let plan = plan(tables, points, &dimensions, &self.array.shape, &self.array.cuts)?;
        let bytes = view.shape().iter().product::<usize>() * size;
        Ok((plan, Work { start: view.start(), offset, size, far: bytes >= FAR }))
    }

    /// # Safety
    ///
    /// As for `tegula_kernel::read::read`.
    unsafe fn run_read(&self, py: Python<'_>, plan: &Plan<'_>, work: Work, threads: usize) -> PyResult<()> {
        self.run(py, plan.len(), |store, call| {
            // SAFETY: as above.
            unsafe { read(store, &self.array, plan, work, Call { threads, ..call }) }
        })
    }

    /// Do something without the interpreter's lock; signals are looked for now and then.
    fn run(
        &self,
        py: Python<'_>,
        chunks: usize,
        work: impl FnOnce(&dyn Store, Call<'_>) -> tegula_kernel::Result<()> + Send,
    ) -> PyResult<()> {
        let work = AssertUnwindSafe(work);
        let done = py.detach(move || {
            let mut last = Instant::now();
            let mut poll = move || {
                if last.elapsed() < Duration::from_millis(50) {
                    return Ok(());
                }
                last = Instant::now();
                Python::attach(|py| py.check_signals()).map_err(foreign)
            };
            catch_unwind(AssertUnwindSafe(|| {
                let work = work;
                let call = Call { threads: 1, keep_empty: false, poll: &mut poll };
                self.source.with(&self.prefix, self.content, chunks > 2, |store| (work.0)(store, call))
            }))
            .unwrap_or_else(|_| Err(Error::codec("", "the kernel panicked; please report this")))
        });
        done.map_err(|error| exception(py, error))
    }
}

/// What an answer is to Python, where there may be none.
fn usual(py: Python<'_>, answer: tegula_kernel::Result<bool>) -> PyResult<Option<bool>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Unusual) => Ok(None),
        Err(error) => Err(exception(py, error)),
    }
}

/// Refuse descriptions that no array has, since the kernel relies on them.
fn check_chain(chain: &array::Chain, ndim: usize, size: usize) -> PyResult<()> {
    let refuse = || Err(PyValueError::new_err("the codecs do not fit the array"));
    if let Some(order) = &chain.order {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..ndim) {
            return refuse();
        }
    }
    match &chain.serializer {
        array::Serializer::Elements(elements) if elements.size != size || size % elements.swap.max(1) != 0 => refuse(),
        array::Serializer::Elements(_) => Ok(()),
        array::Serializer::Shard(sharding) if sharding.inner_shape.len() != ndim => refuse(),
        array::Serializer::Shard(sharding) => {
            check_chain(&sharding.inner, ndim, size)?;
            check_chain(&sharding.index, ndim + 1, 8)
        }
    }
}
