//! Local files, which the kernel opens itself.

use std::ffi::OsString;
use std::sync::Arc;

use pyo3::buffer::PyBuffer;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
use pyo3::types::PyBytes;
use pyo3::types::PyList;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
use tegula_kernel::stores::{Expected, Generation, Piece, Store, Value, local};
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
use tegula_kernel::{Error, Result};

use crate::asked::Asked;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
use crate::asked::Data;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
use crate::errors::{conflict, exception, foreign, system_error};

/// Files below a directory, which the kernel opens itself; anything unusual is left to the Python store.
#[pyclass(frozen, module = "tegula._kernel")]
pub struct LocalFiles {
    #[cfg(any(target_os = "linux", target_os = "macos", windows))]
    pub files: Arc<local::LocalFiles>,
    pub store: Arc<Asked>,
}

/// The key of a document, inode number, time and size of its file, and the shape of the array.
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
type FoundParts = (String, (u64, i64, u64), Vec<u64>);

#[pymethods]
impl LocalFiles {
    /// `base` is the absolute path of the directory; `prepare` checks and makes the directory of a key's prefix. The kernel
    /// makes the next ones by itself as long as the file of the key `anchor` exists.
    ///
    /// All keys begin with `prefix`, and belong to the node of a `document`, if there is one. `confirm` checks that it
    /// describes the node, and returns the document's key, inode number, time and size of its file, and the shape in it;
    /// with `True` it raises the error for a node that was replaced. `ignores_case` says that the file system does.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the parts of a description")]
    fn new(
        store: Py<PyAny>,
        base: OsString,
        sync: bool,
        prepare: Py<PyAny>,
        anchor: Option<&str>,
        prefix: &str,
        document: Option<&str>,
        confirm: Py<PyAny>,
        ignores_case: bool,
    ) -> LocalFiles {
        #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
        let _ = (base, sync, prepare, anchor, prefix, document, confirm, ignores_case);
        #[cfg(any(target_os = "linux", target_os = "macos", windows))]
        let files = {
            let prepare =
                move |parent: &str| Python::attach(|py| prepare.call1(py, (parent,))?.extract(py)).map_err(foreign);
            let files = local::LocalFiles::new(base.into(), sync, Box::new(prepare));
            let files = if let Some(anchor) = anchor { files.making_directories(anchor) } else { files };
            let files = if ignores_case { files.ignoring_case() } else { files };
            let confirm = move |replaced: bool| {
                let found = Python::attach(|py| confirm.call1(py, (replaced,))?.extract::<FoundParts>(py));
                let found = found.map_err(foreign)?;
                let (key, (inode, time, size), shape) = found;
                Ok(local::Found { key, generation: Generation([inode, time as u64, size]), shape })
            };
            if let Some(document) = document { files.of_node(document, prefix, Box::new(confirm)) } else { files }
        };
        LocalFiles {
            #[cfg(any(target_os = "linux", target_os = "macos", windows))]
            files: Arc::new(files),
            store: Arc::new(Asked { store, ranged: false, concurrency: 0, reader: None }),
        }
    }

    /// Whether the file system of a directory is one whose files the kernel may open itself.
    #[staticmethod]
    fn serves(directory: OsString) -> bool {
        #[cfg(any(target_os = "linux", target_os = "macos", windows))]
        return local::serves(directory.as_encoded_bytes());
        #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
        false
    }
}

/// Put a file in its place in a directory, and return its generation; `None` if the Python store has to do it.
///
/// `expected` is a generation as Python has it, or `None` for no condition.
#[pyfunction]
pub fn put_file(
    py: Python<'_>,
    directory: OsString,
    name: OsString,
    value: PyBuffer<u8>,
    expected: Option<&Bound<'_, PyAny>>,
    sync: bool,
) -> PyResult<Option<(u64, i64, u64)>> {
    #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
    {
        let _ = (py, directory, name, value, expected, sync);
        Ok(None)
    }
    #[cfg(any(target_os = "linux", target_os = "macos", windows))]
    {
        let Ok(expected) = expected.map(file_generation).transpose() else { return Ok(None) };
        let is_text = directory.to_str().is_some(); // on Windows only such paths can be passed on
        let (directory, name) = (directory.into_encoded_bytes(), name.into_encoded_bytes());
        if (cfg!(windows) && !is_text) || !value.readonly() || !value.is_c_contiguous() {
            return Ok(None);
        }
        let value = Data::Buffer(value);
        let put = || local::put_file(&directory, &name, value.bytes(), expected.as_ref(), sync);
        match py.detach(put) {
            Ok(made) => Ok(Some((made.0[0], made.time(), made.0[2]))),
            Err(Error::Unusual) => Ok(None),
            Err(Error::Conflict) => Err(conflict(py)),
            Err(Error::System { errno, .. }) => Err(system_error(py, errno)?),
            Err(error) => Err(exception(py, error)),
        }
    }
}

/// Read files below a directory, up to `most` bytes of each; `None` stands for no file, `False` for one that the Python
/// store has to read.
#[pyfunction]
pub fn read_files<'py>(
    py: Python<'py>,
    directory: OsString,
    keys: Vec<String>,
    most: usize,
    threads: usize,
) -> PyResult<Bound<'py, PyList>> {
    #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
    {
        let _ = (directory, most, threads);
        PyList::new(py, keys.iter().map(|_| false))
    }
    #[cfg(any(target_os = "linux", target_os = "macos", windows))]
    {
        let answers = py.detach(|| local::bulk::read_files(directory.into(), &keys, most, threads));
        let found = PyList::empty(py);
        for answer in answers {
            match answer {
                Some(local::bulk::Content::Bytes(value)) => found.append(PyBytes::new(py, &value))?,
                Some(local::bulk::Content::Absent) => found.append(py.None())?,
                None => found.append(false)?,
            }
        }
        Ok(found)
    }
}

/// Whether there are plain files at paths below a directory; `None` stands for one that the Python store has to look at.
#[pyfunction]
pub fn find_files(py: Python<'_>, directory: OsString, paths: Vec<String>, threads: usize) -> Vec<Option<bool>> {
    #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
    {
        let _ = (py, directory, threads);
        vec![None; paths.len()]
    }
    #[cfg(any(target_os = "linux", target_os = "macos", windows))]
    py.detach(|| local::bulk::find_files(directory.as_encoded_bytes(), &paths, threads))
}

/// The state that a generation of the Python store stands for; an error for generations that the kernel does not know.
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
fn file_generation(token: &Bound<'_, PyAny>) -> PyResult<Expected> {
    if let Ok((inode, time, size)) = token.extract::<(u64, i64, u64)>() {
        return Ok(Expected::File(Generation([inode, time as u64, size])));
    }
    if token.extract::<&str>()? == "absent" {
        return Ok(Expected::Absent);
    }
    Err(PyTypeError::new_err("this state is not one of a file"))
}

/// Call `hook` before each system call that the kernel makes for local files; for tests.
///
/// The hook gets the call's name and path, and returns `None` to let the call go ahead, or an object with the attribute
/// `errno` or `most`. Without an argument the hook is removed. With `clock` the clock stands still at that time.
#[pyfunction]
#[pyo3(signature = (hook=None, clock=None))]
pub fn faults(hook: Option<Py<PyAny>>, clock: Option<i64>) {
    #[cfg(any(target_os = "linux", target_os = "macos", windows))]
    local::faults::set_clock(clock);
    #[cfg(any(target_os = "linux", target_os = "macos", windows))]
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
    #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
    drop((hook, clock));
}

/// The effect of a fault: the call fails, or reads or writes at most so many bytes.
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
#[derive(FromPyObject)]
enum FaultParts {
    Fail { errno: i32 },
    Short { most: usize },
}

#[cfg(any(target_os = "linux", target_os = "macos", windows))]
fn fate(hook: &Bound<'_, PyAny>, call: &str, path: &str) -> PyResult<local::faults::Fate> {
    use local::faults::Fate;
    Ok(match hook.call1((call, path))?.extract::<Option<FaultParts>>()? {
        None => Fate::Happen,
        Some(FaultParts::Fail { errno }) => Fate::Fail(errno),
        Some(FaultParts::Short { most }) => Fate::Short(most),
    })
}

/// Local files for one operation.
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
pub struct Files<'s> {
    pub fast: local::Session<'s>,
    pub slow: &'s Asked,
}

#[cfg(any(target_os = "linux", target_os = "macos", windows))]
impl Store for Files<'_> {
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

    fn replace(&self, key: &str, value: &[u8], expected: &Expected) -> Result<Option<Generation>> {
        self.fast.replace(key, value, expected)
    }

    fn set_like(&self, key: &str, old: &dyn Value, changes: &[Piece<'_>], expected: &Expected) -> Result<bool> {
        self.fast.set_like(key, old, changes, expected)
    }

    fn waits(&self, key: &str) -> bool {
        self.fast.waits(key)
    }

    fn check(&self, absent: bool) -> Result<()> {
        self.fast.check(absent)
    }

    fn slow(&self) -> Option<&dyn Store> {
        Some(self.slow)
    }
}
