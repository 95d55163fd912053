//! Stores of the kernel: local files, or a store in Python.

use std::ffi::OsString;
use std::sync::Arc;

use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
use tegula_kernel::backoff;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
use tegula_kernel::stores::local;
use tegula_kernel::stores::{Expected, Store, Value, plain};
use tegula_kernel::{Error, Result};

use crate::asked::{Asked, Reader, Roomy};
use crate::attaching::attach;
use crate::errors::foreign;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
use crate::files::Files;
use crate::files::LocalFiles;

/// A store that lives in Python.
#[pyclass(frozen, module = "tegula._kernel")]
pub struct PythonStore {
    store: Arc<Asked>,
    files: Option<Arc<plain::PlainFiles>>,
}

#[pymethods]
impl PythonStore {
    /// `ranged` says whether values are read by parts, `concurrency` how many requests should be under way at once.
    ///
    /// A far store has a `reader` (`tegula.engine.reading.remote.ShardReader`), and chunks of up to `content` bytes.
    ///
    /// A store of files has a function `locate`, so that the kernel reads them. It checks the directory of a prefix, and
    /// returns its path, or `None` if there is nothing; `exact` says that the file system distinguishes case.
    #[new]
    #[pyo3(signature = (store, ranged, concurrency=0, reader=None, content=0, locate=None, exact=false))]
    #[expect(clippy::too_many_arguments, reason = "the parts of a description")]
    fn new(
        py: Python<'_>,
        store: Py<PyAny>,
        ranged: bool,
        concurrency: usize,
        reader: Option<Py<PyAny>>,
        content: u64,
        locate: Option<Py<PyAny>>,
        exact: bool,
    ) -> PyResult<PythonStore> {
        let reader = reader.map(|reader| Reader::new(reader.bind(py), content)).transpose()?;
        let files = locate.map(|locate| {
            let locate = move |parent: &str| {
                attach(|py| {
                    locate.call1(py, (parent,)).and_then(|found| found.extract::<Option<OsString>>(py)).map_err(
                        |error| {
                            // the store's own way says what is wrong; a signal ends the operation
                            if error.is_instance_of::<PyException>(py) { Error::Unusual } else { foreign(error) }
                        },
                    )
                })
            };
            Arc::new(plain::PlainFiles::new(Box::new(locate), exact))
        });
        Ok(PythonStore { store: Arc::new(Asked { store, ranged, concurrency, reader }), files })
    }
}

/// The kernel's side of a store.
pub enum Source {
    /// A Python store.
    Asked(Arc<Asked>),
    /// A Python store of files, which the kernel reads itself.
    Plain(Arc<plain::PlainFiles>, Arc<Asked>),
    /// Local files, and the Python store for anything unusual.
    #[cfg(any(target_os = "linux", target_os = "macos", windows))]
    Files(Arc<local::LocalFiles>, Arc<Asked>),
}

#[cfg_attr(
    not(any(target_os = "linux", target_os = "macos", windows)),
    expect(unused_variables, reason = "only the store of local files needs them")
)]
impl Source {
    /// The kernel's side of one of the classes above.
    pub fn new(store: &Bound<'_, PyAny>) -> PyResult<Source> {
        if let Ok(store) = store.cast::<PythonStore>() {
            let PythonStore { store, files } = store.get();
            return Ok(match files {
                Some(files) => Source::Plain(files.clone(), store.clone()),
                None => Source::Asked(store.clone()),
            });
        }
        let Ok(store) = store.cast::<LocalFiles>() else {
            return Err(PyTypeError::new_err("this is not a store of the kernel"));
        };
        let store = store.get();
        #[cfg(any(target_os = "linux", target_os = "macos", windows))]
        return Ok(Source::Files(store.files.clone(), store.store.clone()));
        #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
        Ok(Source::Asked(store.store.clone()))
    }

    /// The shape that the array is known to have now, if one of `shape` would end beyond it; never for a store in Python.
    pub fn cuts(&self, shape: &[u64]) -> Option<Vec<u64>> {
        match self {
            Source::Asked(_) | Source::Plain(..) => None,
            #[cfg(any(target_os = "linux", target_os = "macos", windows))]
            Source::Files(files, _) => files.cuts(shape),
        }
    }

    /// Call `work` with the store, for an operation on so many chunks; it has room for all of them if there is plenty. If
    /// the node changes meanwhile, `work` is called again.
    pub fn with<T>(
        &self,
        (prefix, hint): (&str, usize),
        chunks: usize,
        reads: bool,
        mut work: impl FnMut(&dyn Store) -> Result<T>,
    ) -> Result<T> {
        match self {
            Source::Asked(store) => match store.room_for(chunks) {
                Some(room) => work(&Roomy { store, _room: room }),
                None => work(store.as_ref()),
            },
            Source::Plain(files, slow) => work(&Plain { fast: files.reading(hint), slow }),
            #[cfg(any(target_os = "linux", target_os = "macos", windows))]
            Source::Files(files, slow) => {
                for attempt in 0..backoff::ATTEMPTS {
                    let fast = if reads { files.reading(prefix, hint) } else { files.writing(prefix, hint) };
                    match work(&Files { fast: fast?, slow }) {
                        Err(error) if error.is_change() => backoff::wait(attempt),
                        done => return done,
                    }
                }
                Err(Error::Conflict)
            }
        }
    }
}

/// Files that the kernel reads, and a Python store for anything else, for one operation.
pub struct Plain<'s> {
    fast: plain::Reading<'s>,
    slow: &'s Asked,
}

impl Store for Plain<'_> {
    fn open(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        self.fast.open(key)
    }

    fn open_for_change(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        self.slow.open_for_change(key)
    }

    fn set(&self, key: &str, parts: &[&[u8]], expected: Option<&Expected>) -> Result<()> {
        self.slow.set(key, parts, expected)
    }

    fn delete(&self, key: &str, expected: Option<&Expected>) -> Result<()> {
        self.slow.delete(key, expected)
    }

    fn slow(&self) -> Option<&dyn Store> {
        Some(self.slow)
    }
}

/// The store of a [`Source`].
pub enum Near<'s> {
    /// A Python store.
    Asked(&'s Asked),
    /// Local files, and the Python store for anything unusual.
    #[cfg(any(target_os = "linux", target_os = "macos", windows))]
    Files(Files<'s>),
}

impl Near<'_> {
    /// The store itself.
    pub fn store(&self) -> &dyn Store {
        match self {
            Near::Asked(store) => *store,
            #[cfg(any(target_os = "linux", target_os = "macos", windows))]
            Near::Files(files) => files,
        }
    }
}

#[cfg_attr(
    not(any(target_os = "linux", target_os = "macos", windows)),
    expect(unused_variables, reason = "only the store of local files needs them")
)]
impl Source {
    /// The store, for an operation on single chunks of several arrays.
    pub fn near(&self, (prefix, hint): (&str, usize)) -> Result<Near<'_>> {
        match self {
            Source::Asked(store) | Source::Plain(_, store) => Ok(Near::Asked(store)),
            #[cfg(any(target_os = "linux", target_os = "macos", windows))]
            Source::Files(files, slow) => Ok(Near::Files(Files { fast: files.writing(prefix, hint)?, slow })),
        }
    }

    /// Whether any of these keys has a value; `Unusual` if only the Python store can tell.
    pub fn any(&self, keys: impl Iterator<Item = String>) -> Result<bool> {
        match self {
            Source::Asked(_) | Source::Plain(..) => Err(Error::Unusual),
            #[cfg(any(target_os = "linux", target_os = "macos", windows))]
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
            Source::Asked(_) | Source::Plain(..) => Err(Error::Unusual),
            #[cfg(any(target_os = "linux", target_os = "macos", windows))]
            Source::Files(files, _) => files.delete_all(keys, holds),
        }
    }
}
