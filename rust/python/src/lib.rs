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
mod texts;

use std::collections::BTreeMap;

use numpy::PyArray1;
use pyo3::prelude::*;
use tegula_kernel::{codecs, json, memory, pool};

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
#[pyo3(name = "codecs")]
fn codec_names() -> Vec<&'static str> {
    codecs::NAMES.to_vec()
}

/// List the members of a JSON document's objects along a chain of keys; see `tegula_kernel::json`.
#[pyfunction]
fn index_members<'py>(py: Python<'py>, text: &[u8], chain: Vec<String>) -> Option<Vec<Bound<'py, PyArray1<u32>>>> {
    let chain: Vec<&str> = chain.iter().map(String::as_str).collect();
    let levels = py.detach(|| json::index_members(text, &chain))?;
    Some(levels.into_iter().map(|level| PyArray1::from_vec(py, level)).collect())
}

/// Give back to the system the memory that is kept to be used again.
#[pyfunction]
fn trim() {
    memory::trim();
}

/// Return whether this thread helps with an operation that has failed elsewhere.
#[pyfunction]
fn given_up() -> bool {
    pool::given_up()
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
    module.add_class::<texts::Texts>()?;
    module.add_class::<stores::PythonStore>()?;
    module.add_function(wrap_pyfunction!(output::empty, module)?)?;
    module.add_function(wrap_pyfunction!(index_members, module)?)?;
    module.add_function(wrap_pyfunction!(stores::faults, module)?)?;
    module.add_function(wrap_pyfunction!(versions, module)?)?;
    module.add_function(wrap_pyfunction!(features, module)?)?;
    module.add_function(wrap_pyfunction!(codec_names, module)?)?;
    module.add_function(wrap_pyfunction!(trim, module)?)?;
    module.add_function(wrap_pyfunction!(given_up, module)?)?;
    module.add_function(wrap_pyfunction!(after_fork, module)?)
}
