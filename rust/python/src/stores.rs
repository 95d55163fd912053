//! Stores: local files, which the kernel opens itself, and Python stores, whose methods it calls.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
#[cfg(target_os = "linux")]
use tegula_kernel::stores::local;
use tegula_kernel::stores::{Expected, Parts, Store, Value};
use tegula_kernel::{Error, Result};

use crate::errors::{exception, foreign};

/// A store that lives in Python.
#[pyclass(frozen, module = "tegula._kernel")]
pub struct PythonStore {
    store: Arc<Asked>,
}

#[pymethods]
impl PythonStore {
    /// `ranged` tells whether values are read by parts, `concurrency` how many requests should be under way at once.
    #[new]
    fn new(store: Py<PyAny>, ranged: bool, concurrency: usize) -> PythonStore {
        PythonStore { store: Arc::new(Asked { store, ranged, concurrency }) }
    }
}

/// Files below a directory, which the kernel opens itself; anything unusual is left to the Python store.
#[pyclass(frozen, module = "tegula._kernel")]
pub struct LocalFiles {
    #[cfg(target_os = "linux")]
    files: Arc<local::LocalFiles>,
    store: Arc<Asked>,
}

#[pymethods]
impl LocalFiles {
    /// `base` is the absolute path of the directory; `prepare` checks and makes the directory of a key's prefix.
    #[new]
    fn new(store: Py<PyAny>, base: String, sync: bool, prepare: Py<PyAny>) -> LocalFiles {
        #[cfg(not(target_os = "linux"))]
        let _ = (base, sync, prepare);
        LocalFiles {
            #[cfg(target_os = "linux")]
            files: Arc::new(local::LocalFiles::new(
                base.into(),
                sync,
                Box::new(move |parent| Python::attach(|py| prepare.call1(py, (parent,))?.extract(py)).map_err(foreign)),
            )),
            store: Arc::new(Asked { store, ranged: false, concurrency: 0 }),
        }
    }
}

/// Call `hook` before each system call that the kernel makes for local files; for tests.
///
/// It is given the call's name and the path that it is about, and returns `None` to let it go ahead, or an object with
/// the attribute `errno` or `most`. Without a hook none is asked any more. With `clock` the clock stands still at that
/// time.
#[pyfunction]
#[pyo3(signature = (hook=None, clock=None))]
pub fn faults(hook: Option<Py<PyAny>>, clock: Option<i64>) {
    #[cfg(target_os = "linux")]
    local::faults::set_clock(clock);
    #[cfg(target_os = "linux")]
    local::faults::set_hook(hook.map(|hook| -> local::faults::Hook {
        Arc::new(move |call, path| {
            Python::attach(|py| {
                fate(hook.bind(py), call, path).unwrap_or_else(|error| {
                    error.write_unraisable(py, Some(hook.bind(py)));
                    local::faults::Fate::Happen
                })
            })
        })
    }));
    #[cfg(not(target_os = "linux"))]
    drop((hook, clock));
}

/// The effect of a fault: the call fails, or reads or writes at most so many bytes.
#[cfg(target_os = "linux")]
#[derive(FromPyObject)]
enum FaultParts {
    Fail { errno: i32 },
    Short { most: usize },
}

#[cfg(target_os = "linux")]
fn fate(hook: &Bound<'_, PyAny>, call: &str, path: &str) -> PyResult<local::faults::Fate> {
    use local::faults::Fate;
    Ok(match hook.call1((call, path))?.extract::<Option<FaultParts>>()? {
        None => Fate::Happen,
        Some(FaultParts::Fail { errno }) => Fate::Fail(errno),
        Some(FaultParts::Short { most }) => Fate::Short(most),
    })
}

/// The kernel's side of a store.
pub enum Source {
    /// A Python store.
    Asked(Arc<Asked>),
    /// Local files, and the Python store for anything unusual.
    #[cfg(target_os = "linux")]
    Files(Arc<local::LocalFiles>, Arc<Asked>),
}

impl Source {
    /// The kernel's side of one of the classes above.
    pub fn new(store: &Bound<'_, PyAny>) -> PyResult<Source> {
        if let Ok(store) = store.cast::<PythonStore>() {
            return Ok(Source::Asked(store.get().store.clone()));
        }
        let Ok(store) = store.cast::<LocalFiles>() else {
            return Err(PyTypeError::new_err("this is not a store of the kernel"));
        };
        let store = store.get();
        #[cfg(target_os = "linux")]
        return Ok(Source::Files(store.files.clone(), store.store.clone()));
        #[cfg(not(target_os = "linux"))]
        Ok(Source::Asked(store.store.clone()))
    }

    /// Do something with the store, many chunks at once or a few.
    pub fn with<T>(&self, prefix: &str, hint: usize, many: bool, work: impl FnOnce(&dyn Store) -> T) -> T {
        match self {
            Source::Asked(store) => work(store.as_ref()),
            #[cfg(target_os = "linux")]
            Source::Files(files, slow) if many => work(&Files { fast: &files.session(prefix, hint), slow }),
            #[cfg(target_os = "linux")]
            Source::Files(files, slow) => work(&Files { fast: files.as_ref(), slow }),
        }
    }
}

impl Source {
    /// Whether any of these keys has a value; `Unusual` if the Python store has to be asked.
    pub fn any(&self, keys: impl Iterator<Item = String>) -> Result<bool> {
        match self {
            Source::Asked(_) => Err(Error::Unusual),
            #[cfg(target_os = "linux")]
            Source::Files(files, _) => files.any(keys),
        }
    }

    /// Delete these keys as long as `holds` returns true, and return whether it always did; `Unusual` as above.
    pub fn delete_all(
        &self,
        keys: impl Iterator<Item = String>,
        holds: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<bool> {
        match self {
            Source::Asked(_) => Err(Error::Unusual),
            #[cfg(target_os = "linux")]
            Source::Files(files, _) => files.delete_all(keys, holds),
        }
    }
}

/// Local files for one operation.
#[cfg(target_os = "linux")]
struct Files<'s, F> {
    fast: F,
    slow: &'s Asked,
}

#[cfg(target_os = "linux")]
impl<F: std::ops::Deref<Target: Store> + Send + Sync> Store for Files<'_, F> {
    fn open(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        self.fast.open(key)
    }

    fn open_for_change(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        self.fast.open_for_change(key)
    }

    fn set(&self, key: &str, parts: &[&[u8]], expected: Option<&Expected>) -> Result<()> {
        self.fast.set(key, parts, expected)
    }

    fn delete(&self, key: &str, expected: Option<&Expected>) -> Result<()> {
        self.fast.delete(key, expected)
    }

    fn slow(&self) -> Option<&dyn Store> {
        Some(self.slow)
    }
}

/// A Python store, whose methods are called under the interpreter's lock.
pub struct Asked {
    store: Py<PyAny>,
    ranged: bool,
    concurrency: usize,
}

impl Asked {
    /// Call a method, and turn its errors into the kernel's.
    fn call<T>(&self, work: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        Python::attach(|py| {
            work(py, self.store.bind(py)).map_err(|error| {
                let conflict = error.get_type(py).name().is_ok_and(|name| name == "ConflictError");
                if conflict { Error::Conflict } else { foreign(error) }
            })
        })
    }

    /// Refuse a key without a value in whose place something else stands, if that is possible in this store.
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
            let data = store.call_method1(intern!(py, "get"), (key,))?;
            if data.is_none() {
                self.check_absent(py, key)?;
                return Ok(None);
            }
            let value: Box<dyn Value> =
                Box::new(Whole { data: data.cast_into::<PyBytes>()?.unbind(), generation: None });
            Ok(Some(value))
        })
    }

    fn open_for_change(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        self.call(|py, store| {
            let answer = store.call_method(intern!(py, "get"), (key,), Some(&with_generation(py)?))?;
            let answer = answer.cast_into::<PyTuple>()?;
            let data = answer.get_item(0)?;
            if data.is_none() {
                self.check_absent(py, key)?;
                return Ok(None);
            }
            let generation = Some(answer.get_item(1)?.unbind());
            let value: Box<dyn Value> = Box::new(Whole { data: data.cast_into::<PyBytes>()?.unbind(), generation });
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
        self.concurrency
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

/// A value that has been fetched as a whole.
struct Whole {
    data: Py<PyBytes>,
    generation: Option<Py<PyAny>>,
}

impl Whole {
    fn data(&self) -> &[u8] {
        // SAFETY: bytes never change, and are alive as long as `self` has a reference; their address can be asked for
        // without the interpreter's lock.
        unsafe {
            let object = self.data.as_ptr();
            let size = pyo3::ffi::PyBytes_Size(object);
            std::slice::from_raw_parts(pyo3::ffi::PyBytes_AsString(object).cast::<u8>(), size as usize)
        }
    }
}

impl Value for Whole {
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        work(self.data())
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<usize> {
        tegula_kernel::stores::Slice(self.data()).read_at(start, out)
    }

    fn with_range(&self, start: u64, length: u64, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        tegula_kernel::stores::Slice(self.data()).with_range(start, length, work)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.data().len() as u64)
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
            let answer =
                store.call_method(intern!(py, "get"), (&self.key, (start, length)), Some(&with_generation(py)?))?;
            let (data, generation) = answer.extract::<(Option<Bound<'_, PyBytes>>, Bound<'_, PyAny>)>()?;
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
                Some(data) => Ok(Ok(data.unbind())),
            }
        })??;
        Whole { data, generation: None }.with_all(work)
    }
}

impl Value for Ranges<'_> {
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
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
        // no value is longer than that, and a negative number would be one from the end
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
        Some(Parts { gap: 1 << 15, span: 1 << 23 })
    }
}
