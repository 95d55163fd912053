//! How threads of the kernel call Python.
//!
//! The interpreter has a state for each thread that calls it. Making a state maps memory, and ending it unmaps memory,
//! which takes longer than many calls. So a thread of the pool keeps its state until the thread ends, as threads of
//! `threading` do.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use tegula_kernel::pool;

/// Whether the interpreter is ending, which releases all states itself.
static ENDING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The state of this thread, if the thread is one of the pool and has called Python.
    static STATE: OnceCell<State> = const { OnceCell::new() };
}

/// Call Python from a thread of the kernel; the thread gives up its turn first, so that another thread can work.
pub fn attach<T>(work: impl FnOnce(Python<'_>) -> T) -> T {
    pool::end_turn();
    // SAFETY: this may be called at any time.
    let is_new = unsafe { ffi::PyGILState_GetThisThreadState() }.is_null();
    Python::attach(|py| {
        if is_new {
            STATE.with(|state| {
                state.get_or_init(|| State::keep(py));
            });
        }
        work(py)
    })
}

/// Note that the interpreter begins to end.
#[pyfunction]
pub fn end() {
    ENDING.store(true, Ordering::Relaxed);
}

/// A state that outlives the call for which it was made; it ends with the thread.
struct State;

impl State {
    fn keep(_py: Python<'_>) -> State {
        // SAFETY: the thread is attached, and `drop` makes the matching call.
        unsafe { ffi::PyGILState_Ensure() };
        State
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if !ENDING.load(Ordering::Relaxed) {
            // SAFETY: the thread is attached, and this belongs to the call in `keep`.
            Python::try_attach(|_| unsafe { ffi::PyGILState_Release(ffi::PyGILState_STATE::PyGILState_LOCKED) });
        }
    }
}
