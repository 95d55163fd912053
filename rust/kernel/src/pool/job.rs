//! A job: the state that the threads of one call of [`run`](super::run) share.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::placement;
use crate::{Error, Result};

/// Time between two polls.
pub(super) const POLL: Duration = Duration::from_millis(50);
/// The bit of [`Job::inside`] that marks a job as closed to workers.
const CLOSED: usize = 1 << (usize::BITS - 1);
/// How long the caller spins for the last workers before it sleeps.
const SPIN: Duration = Duration::from_micros(20);

/// Number of forks between the first process and this one.
static FORKS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
/// Whether this thread is running a task.
    pub(super) static IN_TASK: Cell<bool> = const { Cell::new(false) };
/// The job that this worker thread has entered.
    static CURRENT_JOB: RefCell<Option<Arc<Job>>> = const { RefCell::new(None) };
}

/// The function that carries out the task of an index.
type Task<'a> = dyn Fn(usize) -> Result<()> + Sync + 'a;

/// The tasks of one call.
///
/// The task is borrowed from the caller of `run`. A worker calls it only between a successful [`Job::enter`] and the
/// drop of the [`ActiveWorker`]; `inside` counts these. The caller closes the job, after which no worker enters, and
/// waits until `inside` is zero, before `run` returns or unwinds.
pub(super) struct Job {
    task: *const Task<'static>,
    count: usize,
    /// Index of the next task.
    next: AtomicUsize,
    /// Number of workers inside, and the bit `CLOSED`.
    inside: AtomicUsize,
    /// Largest number of workers.
    pub workers: usize,
    /// The processor that ran the caller when it made the job.
    pub came_from: Option<usize>,
    failure: Mutex<Option<Error>>,
    /// Whether there is a failure.
    failed: AtomicBool,
    caller: Thread,
    /// [`FORKS`] of the process that began this job.
    forks: usize,
}

// SAFETY: the task is `Sync`, and is called only while the caller keeps it alive (see above).
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    /// Make the job; the caller must close it and wait before the lifetime of `task` ends.
    pub fn new(task: &Task<'_>, count: usize, workers: usize) -> Arc<Job> {
        // SAFETY: only the lifetime changes, and the task is not called after it (see above).
        let task = unsafe { std::mem::transmute::<*const Task<'_>, *const Task<'static>>(task) };
        Arc::new(Job {
            task,
            count,
            next: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            workers,
            came_from: placement::current(),
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
            caller: std::thread::current(),
            forks: FORKS.load(Ordering::Relaxed),
        })
    }

    /// Take the next task and run it; return whether there may be another.
    ///
    /// For the caller of `run` before it closes the job, and for workers that have entered.
    pub fn work_once(&self) -> bool {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        if index >= self.count {
            return false;
        }
        // SAFETY: the task lives until the caller has closed the job and no worker is inside.
        if let Err(error) = call(unsafe { &*self.task }, index) {
            self.fail(error);
        }
        true
    }

    /// Return whether there are tasks left.
    pub fn has_tasks(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.count
    }

    /// Start no more tasks.
    pub fn stop(&self) {
        self.next.store(self.count, Ordering::Relaxed);
    }

    /// Stop because of an error; `outcome` returns the first one.
    pub fn fail(&self, error: Error) {
        self.stop();
        self.failed.store(true, Ordering::Relaxed);
        if self.is_forked() {
            // A thread of the parent process may have held the lock.
            return;
        }
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_none() {
            *failure = Some(error);
        }
    }

    /// Enter as a worker, unless the job is closed.
    pub fn enter(self: &Arc<Job>) -> Option<ActiveWorker> {
        let more = |inside: usize| (inside & CLOSED == 0).then_some(inside + 1);
        let entered = self.inside.fetch_update(Ordering::Acquire, Ordering::Relaxed, more);
        entered.is_ok().then(|| ActiveWorker(Arc::clone(self)))
    }

    /// Let no more workers enter; return whether the job may still be in the queue of the pool.
    pub fn close(&self) -> bool {
        self.inside.fetch_or(CLOSED, Ordering::Acquire) & CLOSED == 0 && !self.is_forked()
    }

    /// Wait until no worker is inside.
    pub fn wait(&self, mut poll: impl FnMut() -> Result<()>) {
        let mut since = None;
        while self.inside.load(Ordering::Acquire) != CLOSED {
            if self.is_forked() {
                return;
            }
            if since.get_or_insert_with(Instant::now).elapsed() < SPIN {
                std::hint::spin_loop();
                continue;
            }
            std::thread::park_timeout(POLL);
            if let Err(error) = poll() {
                self.fail(error);
            }
        }
    }

    /// Return whether this is a forked child of the process that began the job, where its workers do not exist.
    fn is_forked(&self) -> bool {
        self.forks != FORKS.load(Ordering::Relaxed)
    }

    /// Return the result of the job.
    pub fn outcome(&self) -> Result<()> {
        if self.is_forked() {
            return Err(Error::codec("kernel", "the process was forked during the call"));
        }
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// A worker inside a job.
pub(super) struct ActiveWorker(Arc<Job>);

impl ActiveWorker {
    /// Run tasks until there are no more.
    pub fn work(&self) {
        CURRENT_JOB.set(Some(Arc::clone(&self.0)));
        while self.0.work_once() {}
        CURRENT_JOB.set(None);
    }
}

impl Drop for ActiveWorker {
    fn drop(&mut self) {
        if self.0.inside.fetch_sub(1, Ordering::Release) == CLOSED | 1 {
            self.0.caller.unpark();
        }
    }
}

/// Note that this is a forked child process, so that jobs of the parent are recognised.
pub(super) fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Return whether this thread works for a job that has failed on another thread, so that it must not wait any longer.
pub fn given_up() -> bool {
    CURRENT_JOB.with_borrow(|job| job.as_ref().is_some_and(|job| job.failed.load(Ordering::Relaxed)))
}

/// Call a task, and convert a panic to an error.
pub(super) fn call(task: &Task<'_>, index: usize) -> Result<()> {
    match catch_unwind(AssertUnwindSafe(|| task(index))) {
        Ok(result) => result,
        Err(payload) => Err(Error::codec("kernel", format!("a task panicked: {}", panic_message(&*payload)))),
    }
}

/// Return the message of a panic.
fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
