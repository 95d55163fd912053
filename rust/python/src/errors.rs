//! Conversion of the kernel's errors to the exceptions of `tegula.errors`.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule, PyTuple};
use tegula_kernel::Error;

static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// Convert an error of the kernel to an exception.
pub fn exception(py: Python<'_>, error: Error) -> PyErr {
    let (key, error) = match error {
        Error::At(key, inner) => (Some(key).filter(|key| !key.is_empty()), *inner),
        other => (None, other),
    };
    let (class, message, codec) = match error {
        Error::Foreign(inner) => match inner.downcast::<PyErr>() {
            Ok(error) => return with_key(py, *error, key),
            Err(_) => ("StoreError", "a store failed".into(), None),
        },
        Error::Codec { codec, message } => ("CodecError", message, Some(codec)),
        Error::Unsupported { codec, message } => ("UnsupportedError", message, Some(codec)),
        Error::Store { message } => ("StoreError", message, None),
        Error::System { message, errno } => {
            let made = make(py, "StoreError", &message, key, None).unwrap_or_else(|error| error);
            made.set_cause(py, system_error(py, errno).ok());
            return made;
        }
        Error::NotStored(coords) => return not_stored(py, coords, key).unwrap_or_else(|error| error),
        Error::Conflict | Error::Changed => ("ConflictError", error.to_string(), None),
        other => ("StoreError", other.to_string(), None),
    };
    make(py, class, &message, key, codec.filter(|name| !name.is_empty())).unwrap_or_else(|error| error)
}

fn errors(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    Ok(ERRORS.get_or_try_init(py, || Ok::<_, PyErr>(py.import("tegula.errors")?.unbind()))?.bind(py))
}

/// Make an exception of a class of `tegula.errors`.
fn make(py: Python<'_>, class: &str, message: &str, key: Option<String>, codec: Option<String>) -> PyResult<PyErr> {
    let places = PyDict::new(py);
    places.set_item("key", key)?;
    places.set_item("codec", codec)?;
    let value = errors(py)?.getattr(class)?.call((message,), Some(&places))?;
    Ok(PyErr::from_value(value))
}

/// Make the error for a chunk that is not stored, from its coordinates and those of the chunks around it.
fn not_stored(py: Python<'_>, mut coords: Vec<Vec<u64>>, key: Option<String>) -> PyResult<PyErr> {
    coords.reverse();
    let around = coords.into_iter().map(|each| PyTuple::new(py, each)).collect::<PyResult<Vec<_>>>()?;
    let made = errors(py)?.getattr("not_stored")?.call1((around,))?;
    Ok(with_key(py, PyErr::from_value(made), key))
}

/// Make the error for a value that has changed since it was read.
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
pub fn conflict(py: Python<'_>) -> PyErr {
    make(py, "ConflictError", "the value has changed since it was read", None, None).unwrap_or_else(|error| error)
}

/// Make the `OSError` for an error number.
pub fn system_error(py: Python<'_>, errno: i32) -> PyResult<PyErr> {
    let text = py.import("os")?.call_method1("strerror", (errno,))?;
    Ok(PyErr::from_value(py.get_type::<PyOSError>().call1((errno, text))?))
}

/// Add the key to an exception of a Python store.
fn with_key(py: Python<'_>, error: PyErr, key: Option<String>) -> PyErr {
    let add = || -> PyResult<()> {
        let value = error.value(py);
        if let Some(key) = key {
            if value.is_instance(&errors(py)?.getattr("TegulaError")?)? {
                let places = PyDict::new(py);
                places.set_item("key", key)?;
                value.call_method("within", (), Some(&places))?;
            }
        }
        Ok(())
    };
    match add() {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// Wrap an exception, so that the kernel passes it through.
pub fn foreign(error: PyErr) -> Error {
    Error::Foreign(Box::new(error))
}
