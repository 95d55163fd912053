//! Python stores, whose methods the kernel calls under the interpreter's lock, and their values.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::sync::{Mutex, PoisonError};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use tegula_kernel::stores::{Expected, FarValue, Parts, Store, Value};
use tegula_kernel::{Error, Result, pool};

use crate::attaching::attach;
use crate::errors::{exception, foreign};

/// A Python store, whose methods are called under the interpreter's lock.
pub struct Asked {
    pub store: Py<PyAny>,
    pub ranged: bool,
    /// How many requests the store wants under way at once; it may want another number later, but not 0.
    pub concurrency: usize,
    pub reader: Option<Reader>,
}

/// Reads of chunks from a far store.
pub struct Reader {
    /// `tegula.engine.reading.remote.ShardReader`.
    object: Py<PyAny>,
    parts: Parts,
    /// Bytes of the largest chunk in memory.
    content: u64,
    /// Answers that are no longer needed.
    spent: Mutex<Vec<Data>>,
}

impl Reader {
    pub fn new(object: &Bound<'_, PyAny>, content: u64) -> PyResult<Reader> {
        let parts = Parts { gap: object.getattr("gap")?.extract()?, span: object.getattr("span")?.extract()? };
        Ok(Reader { object: object.clone().unbind(), parts, content, spent: Mutex::default() })
    }

    /// Wait until there is room for this many bytes; it is given back when the result is dropped.
    fn hold(&self, nbytes: u64) -> Result<Room<'_>> {
        attach(|py| self.object.call_method1(py, intern!(py, "acquire"), (nbytes,))).map_err(foreign)?;
        Ok(Room { reader: self, nbytes })
    }

    /// Take room for many chunks if there is plenty of it.
    fn hold_if_plenty(&self, nbytes: u64) -> Option<Room<'_>> {
        let taken =
            attach(|py| self.object.call_method1(py, intern!(py, "acquire_if_plenty"), (nbytes,))?.extract::<bool>(py));
        taken.is_ok_and(|taken| taken).then(|| Room { reader: self, nbytes })
    }

    fn release(&self, nbytes: u64) {
        attach(|py| {
            self.release_spent(py);
            if let Err(error) = self.object.call_method1(py, intern!(py, "release"), (nbytes,)) {
                error.write_unraisable(py, Some(self.object.bind(py)));
            }
        });
    }

    /// Leave an answer to the next thread that calls Python: that thread has the lock, which is needed to release a
    /// buffer.
    ///
    /// Each thread leaves one at most before it calls Python, and giving back the room for a chunk releases the last ones.
    fn leave(&self, data: Data) {
        // in a forked child the lock may be held forever
        if let Ok(mut spent) = self.spent.try_lock() {
            spent.push(data);
        }
    }

    fn release_spent(&self, _py: Python<'_>) {
        let spent = self.spent.try_lock().map(|mut spent| std::mem::take(&mut *spent));
        drop(spent);
    }
}

/// Room for bytes that are under way.
pub struct Room<'r> {
    reader: &'r Reader,
    nbytes: u64,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.reader.release(self.nbytes);
    }
}

impl Asked {
    /// The method that returns a value: from a store that is far away as the buffer that it has arrived in.
    fn reading<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        if self.concurrency > 0 { intern!(py, "view") } else { intern!(py, "get") }
    }

    /// Call a method, and turn its errors into the kernel's.
    fn call<T>(&self, work: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        attach(|py| {
            if let Some(reader) = &self.reader {
                reader.release_spent(py);
            }
            work(py, self.store.bind(py)).map_err(|error| {
                let conflict = error.get_type(py).name().is_ok_and(|name| name == "ConflictError");
                if conflict { Error::Conflict } else { foreign(error) }
            })
        })
    }

    /// Take room for all chunks that one operation has under way at once, if there is plenty, so that none of them has to.
    pub fn room_for(&self, chunks: usize) -> Option<Room<'_>> {
        let reader = self.reader.as_ref().filter(|_| chunks > 1 && self.concurrency > 0 && !self.ranged)?;
        reader.hold_if_plenty(reader.content.saturating_mul(chunks.min(self.concurrency()) as u64))
    }

    /// Refuse a key without a value if a file or directory blocks its place, in stores where that is possible.
    fn check_absent(&self, py: Python<'_>, key: &str) -> PyResult<()> {
        let Some(blocked_by) = self.store.bind(py).getattr_opt(intern!(py, "blocked_by"))? else { return Ok(()) };
        let found = blocked_by.call1((key,))?;
        if found.is_none() {
            return Ok(());
        }
        Err(exception(py, Error::Store { message: format!("the chunk can't be used: {found}") }))
    }
}

fn with_generation<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let options = PyDict::new(py);
    options.set_item(intern!(py, "with_generation"), true)?;
    Ok(options)
}

impl Store for Asked {
    fn open(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        if self.ranged {
            return Ok(Some(Box::new(Ranges { store: self, key: key.to_owned(), generation: Mutex::new(None) })));
        }
        self.call(|py, store| {
            let data = store.call_method1(self.reading(py), (key,))?;
            if data.is_none() {
                self.check_absent(py, key)?;
                return Ok(None);
            }
            let value: Box<dyn Value + '_> = Box::new(Whole::new(self, Data::new(data)?, None));
            Ok(Some(value))
        })
    }

    fn open_for_change(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        self.call(|py, store| {
            let answer = store.call_method(self.reading(py), (key,), Some(&with_generation(py)?))?;
            let answer = answer.cast_into::<PyTuple>()?;
            let data = answer.get_item(0)?;
            if data.is_none() {
                self.check_absent(py, key)?;
                return Ok(None);
            }
            let generation = Some(answer.get_item(1)?.unbind());
            let value: Box<dyn Value + '_> = Box::new(Whole::new(self, Data::new(data)?, generation));
            Ok(Some(value))
        })
    }

    fn set(&self, key: &str, parts: &[&[u8]], expected: Option<&Expected>) -> Result<()> {
        self.call(|py, store| {
            let size = parts.iter().map(|part| part.len()).sum();
            let data = PyBytes::new_with(py, size, |out| {
                let mut rest = out;
                for part in parts {
                    let (here, after) = rest.split_at_mut(part.len());
                    here.copy_from_slice(part);
                    rest = after;
                }
                Ok(())
            })?;
            store.call_method(intern!(py, "set"), (key, data), condition(py, expected)?.as_ref()).map(|_| ())
        })
    }

    fn delete(&self, key: &str, expected: Option<&Expected>) -> Result<()> {
        self.call(|py, store| {
            store.call_method(intern!(py, "delete"), (key,), condition(py, expected)?.as_ref()).map(|_| ())
        })
    }

    fn concurrency(&self) -> usize {
        if self.concurrency == 0 {
            return 0;
        }
        let now = Python::attach(|py| self.store.bind(py).getattr(intern!(py, "concurrency"))?.extract());
        now.unwrap_or(self.concurrency).max(1)
    }

    fn acquire(&self) -> Result<()> {
        self.reader.as_ref().map_or(Ok(()), |reader| reader.hold(reader.content).map(std::mem::forget))
    }

    fn release(&self) {
        if let Some(reader) = &self.reader {
            reader.release(reader.content);
        }
    }
}

/// A Python store for one operation that has room for all its chunks.
pub struct Roomy<'s> {
    pub store: &'s Asked,
    pub _room: Room<'s>,
}

impl Store for Roomy<'_> {
    fn open(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        self.store.open(key)
    }

    fn open_for_change(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        self.store.open_for_change(key)
    }

    fn set(&self, key: &str, parts: &[&[u8]], expected: Option<&Expected>) -> Result<()> {
        self.store.set(key, parts, expected)
    }

    fn delete(&self, key: &str, expected: Option<&Expected>) -> Result<()> {
        self.store.delete(key, expected)
    }

    fn concurrency(&self) -> usize {
        self.store.concurrency()
    }
}

/// The keyword argument for a condition.
fn condition<'py>(py: Python<'py>, expected: Option<&Expected>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let generation = match expected {
        None => return Ok(None),
        Some(Expected::Absent) => py.import("tegula.stores")?.getattr("ABSENT")?,
        Some(Expected::Foreign(token)) => match token.downcast_ref::<Py<PyAny>>() {
            Some(token) => token.bind(py).clone(),
            None => return Err(PyTypeError::new_err("this state is not one of this store")),
        },
        Some(Expected::File(generation)) => PyTuple::new(py, generation.0)?.into_any(),
    };
    let options = PyDict::new(py);
    options.set_item(intern!(py, "if_generation"), generation)?;
    Ok(Some(options))
}

/// The answer of a store: bytes, or an object with a read-only buffer of bytes.
pub enum Data {
    Bytes(Py<PyBytes>),
    Buffer(PyBuffer<u8>),
}

impl Data {
    fn new(object: Bound<'_, PyAny>) -> PyResult<Data> {
        let object = match object.cast_into::<PyBytes>() {
            Ok(bytes) => return Ok(Data::Bytes(bytes.unbind())),
            Err(other) => other.into_inner(),
        };
        let buffer = PyBuffer::get(&object)?;
        if !buffer.readonly() || !buffer.is_c_contiguous() {
            return Err(PyTypeError::new_err("a store must return bytes"));
        }
        Ok(Data::Buffer(buffer))
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: bytes never change, and are alive as long as `self` has a reference; their address can be asked
            // for without the interpreter's lock.
            Data::Bytes(object) => unsafe {
                let object = object.as_ptr();
                let size = pyo3::ffi::PyBytes_Size(object);
                std::slice::from_raw_parts(pyo3::ffi::PyBytes_AsString(object).cast::<u8>(), size as usize)
            },
            Data::Buffer(buffer) if buffer.len_bytes() == 0 => &[],
            // SAFETY: the buffer is contiguous, read-only, and alive as long as `self`.
            Data::Buffer(buffer) => unsafe {
                std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes())
            },
        }
    }
}

/// A value that has been fetched as a whole.
struct Whole<'s> {
    store: &'s Asked,
    data: ManuallyDrop<Data>,
    generation: Option<Py<PyAny>>,
}

impl Whole<'_> {
    fn new(store: &Asked, data: Data, generation: Option<Py<PyAny>>) -> Whole<'_> {
        Whole { store, data: ManuallyDrop::new(data), generation }
    }
}

impl Drop for Whole<'_> {
    fn drop(&mut self) {
        // SAFETY: the data are not used any more.
        let data = unsafe { ManuallyDrop::take(&mut self.data) };
        if let Some(reader) = &self.store.reader {
            reader.leave(data);
        }
    }
}

impl Value for Whole<'_> {
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        pool::take_turn();
        work(self.data.bytes())
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<usize> {
        tegula_kernel::stores::Slice(self.data.bytes()).read_at(start, out)
    }

    fn with_range(&self, start: u64, length: u64, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        pool::take_turn();
        tegula_kernel::stores::Slice(self.data.bytes()).with_range(start, length, work)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.data.bytes().len() as u64)
    }

    fn generation(&self) -> Result<Expected> {
        match &self.generation {
            None => Ok(Expected::Absent),
            Some(token) => Ok(Expected::Foreign(token_of(token))),
        }
    }

    fn parts(&self) -> Option<Parts> {
        None
    }
}

fn token_of(token: &Py<PyAny>) -> Box<dyn Any + Send + Sync> {
    Python::attach(|py| Box::new(token.clone_ref(py)))
}

/// A value that is read by ranges; it fails with `Conflict` if they are not all of one state.
struct Ranges<'s> {
    store: &'s Asked,
    key: String,
    generation: Mutex<Option<Py<PyAny>>>,
}

impl Ranges<'_> {
    fn range(&self, start: i64, length: Option<u64>, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let data = self.store.call(|py, store| {
            let answer = match &self.store.reader {
                Some(reader) if (start, length) != (0, None) => {
                    reader.object.bind(py).call_method1(intern!(py, "index"), (&self.key, (start, length)))?
                }
                _ => {
                    store.call_method(intern!(py, "get"), (&self.key, (start, length)), Some(&with_generation(py)?))?
                }
            };
            let (data, generation) = answer.extract::<(Option<Bound<'_, PyAny>>, Bound<'_, PyAny>)>()?;
            let mut known = self.generation.lock().unwrap_or_else(PoisonError::into_inner);
            match &*known {
                None => *known = Some(generation.unbind()),
                Some(first) if !first.bind(py).eq(&generation)? => return Ok(Err(Error::Conflict)),
                Some(_) => {}
            }
            match data {
                None => {
                    self.store.check_absent(py, &self.key)?;
                    Ok(Err(Error::Absent))
                }
                Some(data) => Ok(Ok(Data::new(data)?)),
            }
        })??;
        pool::take_turn();
        work(data.bytes())
    }
}

impl FarValue for Ranges<'_> {
    fn reads_whole(&self, nbytes: usize, wanted: usize, number: usize) -> Result<bool> {
        let Some(reader) = &self.store.reader else { return Ok(false) };
        self.store.call(|py, _| {
            reader.object.bind(py).call_method1(intern!(py, "reads_whole"), (nbytes, wanted, number))?.extract()
        })
    }

    fn at_once(&self) -> Result<u64> {
        let Some(reader) = &self.store.reader else { return Ok(0) };
        self.store.call(|py, _| reader.object.bind(py).getattr(intern!(py, "at_once"))?.extract())
    }

    fn with_ranges(&self, ranges: &[(u64, u64)], work: &mut dyn FnMut(&[&[u8]]) -> Result<()>) -> Result<()> {
        let Some(reader) = &self.store.reader else { return Err(Error::Unusual) };
        let _room = reader.hold(ranges.iter().fold(0, |total, range| total.saturating_add(range.1)))?;
        let found = self.store.call(|py, _| {
            let known = self.generation.lock().unwrap_or_else(PoisonError::into_inner);
            let generation = known.as_ref().map(|generation| generation.clone_ref(py));
            drop(known);
            let answer = reader
                .object
                .bind(py)
                .call_method1(intern!(py, "ranges"), (&self.key, PyList::new(py, ranges)?, generation))?;
            answer.try_iter()?.map(|data| Data::new(data?)).collect::<PyResult<Vec<Data>>>()
        })?;
        pool::take_turn();
        work(&found.iter().map(Data::bytes).collect::<Vec<_>>())
    }
}

impl Value for Ranges<'_> {
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let _room = self.store.reader.as_ref().map(|reader| reader.hold(reader.content)).transpose()?;
        self.range(0, None, work)
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<usize> {
        let mut found = 0;
        self.with_range(start, out.len() as u64, &mut |data| {
            found = data.len();
            out[..found].copy_from_slice(data);
            Ok(())
        })?;
        Ok(found)
    }

    fn with_range(&self, start: u64, length: u64, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        // no value is longer than that, and a negative number would count from the end
        let start = i64::try_from(start).unwrap_or(i64::MAX);
        let most = usize::try_from(length).unwrap_or(usize::MAX);
        self.range(start, Some(length), &mut |data| work(&data[..data.len().min(most)]))
    }

    fn read_tail(&self, out: &mut [u8]) -> Result<(usize, Option<u64>)> {
        let mut found = 0;
        self.range(-(out.len() as i64), None, &mut |data| {
            found = data.len().min(out.len());
            out[..found].copy_from_slice(&data[..found]);
            Ok(())
        })?;
        Ok((found, None))
    }

    fn size(&self) -> Result<u64> {
        self.store.call(|py, store| {
            let size: Option<u64> = store.call_method1(intern!(py, "size"), (&self.key,))?.extract()?;
            Ok(size.ok_or(Error::Absent))
        })?
    }

    fn generation(&self) -> Result<Expected> {
        let known = self.generation.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(known.as_ref().map_or(Expected::Absent, |token| Expected::Foreign(token_of(token))))
    }

    fn parts(&self) -> Option<Parts> {
        Some(self.store.reader.as_ref().map_or(Parts { gap: 1 << 15, span: 1 << 23 }, |reader| reader.parts))
    }

    fn far(&self) -> Option<&dyn FarValue> {
        self.store.reader.is_some().then_some(self)
    }
}
