//! `tegula._kernel`: the kernel as a Python module. `_kernel.pyi` describes it.
//!
//! Each operation of a user is one call. Names, metadata documents, messages and policy belong to Python. It has checked
//! the arguments, but memory safety does not rely on that.

mod array;
mod asked;
mod attaching;
mod codecs;
mod description;
mod errors;
mod extending;
mod files;
mod output;
mod plans;
mod selection;
mod stores;
mod strings;

use std::collections::BTreeMap;

use numpy::PyArray1;
use pyo3::prelude::*;
use tegula_kernel::{json, memory, pool};

/// Return the versions of the compiled-in libraries.
#[pyfunction]
fn versions() -> BTreeMap<&'static str, String> {
    tegula_kernel::codecs::versions()
}

/// Return the instruction sets that the kernel uses on this machine.
#[pyfunction]
fn features() -> Vec<&'static str> {
    tegula_kernel::codecs::features()
}

/// Return the names of the codecs.
#[pyfunction]
#[pyo3(name = "codecs")]
fn codec_names() -> Vec<&'static str> {
    tegula_kernel::codecs::NAMES.to_vec()
}

/// List the members of the objects along a chain of keys in a JSON document; see `tegula_kernel::json`.
#[pyfunction]
fn index_members<'py>(py: Python<'py>, text: &[u8], chain: Vec<String>) -> Option<Vec<Bound<'py, PyArray1<u32>>>> {
    let chain: Vec<&str> = chain.iter().map(String::as_str).collect();
    let levels = py.detach(|| json::index_members(text, &chain))?;
    Some(levels.into_iter().map(|level| PyArray1::from_vec(py, level)).collect())
}

/// Release the memory that is cached for reuse.
#[pyfunction]
fn trim() {
    memory::trim();
}

/// Return whether this thread works for an operation that has failed on another thread.
#[pyfunction]
fn given_up() -> bool {
    pool::given_up()
}

/// Reset the thread pool and the memory cache in a child process after a fork.
#[pyfunction]
fn after_fork() {
    memory::after_fork();
    pool::after_fork();
}

// nothing relies on the interpreter's lock: classes are frozen, and shared state has locks of its own
#[pymodule(gil_used = false)]
fn _kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // The first use of NumPy's functions finds them through Python code, and panics if a signal ends that. Here it is an error.
    numpy::get_array_module(module.py())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<array::Array>()?;
    module.add_class::<files::LocalFiles>()?;
    module.add_class::<strings::Strings>()?;
    module.add_class::<stores::PythonStore>()?;
    module.add_function(wrap_pyfunction!(extending::extend, module)?)?;
    module.add_function(wrap_pyfunction!(output::empty, module)?)?;
    module.add_function(wrap_pyfunction!(index_members, module)?)?;
    module.add_function(wrap_pyfunction!(files::read_files, module)?)?;
    module.add_function(wrap_pyfunction!(files::find_files, module)?)?;
    module.add_function(wrap_pyfunction!(files::put_file, module)?)?;
    module.add_function(wrap_pyfunction!(files::faults, module)?)?;
    module.add_function(wrap_pyfunction!(versions, module)?)?;
    module.add_function(wrap_pyfunction!(features, module)?)?;
    module.add_function(wrap_pyfunction!(codec_names, module)?)?;
    module.add_function(wrap_pyfunction!(trim, module)?)?;
    module.add_function(wrap_pyfunction!(given_up, module)?)?;
    module.add_function(wrap_pyfunction!(after_fork, module)?)?;
    module.py().import("atexit")?.call_method1("register", (wrap_pyfunction!(attaching::end, module)?,))?;
    Ok(())
}
