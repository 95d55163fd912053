//! `tegula._kernel`: the kernel as a module of Python.
//!
//! The seam is crossed once for each operation of a user. Python owns names, documents, messages and policy; what comes
//! in has been checked there, but nothing here relies on it where memory is at stake.

mod array;
mod description;
mod errors;
mod output;
mod selection;
mod stores;

use std::collections::BTreeMap;

use pyo3::prelude::*;
use tegula_kernel::{codecs, memory, pool};

/// The versions of the libraries within.
#[pyfunction]
fn versions() -> BTreeMap<&'static str, String> {
    codecs::versions()
}

/// The instruction sets that are used where they pay.
#[pyfunction]
fn features() -> Vec<&'static str> {
    codecs::features()
}

/// The names of the codecs within.
#[pyfunction]
fn codec_names() -> Vec<&'static str> {
    codecs::NAMES.to_vec()
}

/// Give back to the system the memory that is kept to be used again.
#[pyfunction]
fn trim() {
    memory::trim();
}

/// To be called in a child process after a fork.
#[pyfunction]
fn after_fork() {
    memory::after_fork();
    pool::after_fork();
}

#[pymodule]
fn _kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<array::Array>()?;
    module.add_class::<stores::LocalFiles>()?;
    module.add_class::<stores::PythonStore>()?;
    module.add_function(wrap_pyfunction!(output::empty, module)?)?;
    module.add_function(wrap_pyfunction!(versions, module)?)?;
    module.add_function(wrap_pyfunction!(features, module)?)?;
    module.add_function(wrap_pyfunction!(codec_names, module)?)?;
    module.add_function(wrap_pyfunction!(trim, module)?)?;
    module.add_function(wrap_pyfunction!(after_fork, module)?)
}
