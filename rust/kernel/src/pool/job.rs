//! One call of [`run`](super::run): what its threads share.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// How much time lies between two polls.
pub(super) const POLL: Duration = Duration::from_millis(50);
/// The bit of [`Job::inside`] that lets nobody in any more.
const CLOSED: usize = 1 << (usize::BITS - 1);
/// How long the caller looks out for the last helpers before it sleeps.
const LOOK_OUT: Duration = Duration::from_micros(20);

/// How many forks lie between the first process and this one.
static FORKS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread is carrying out a task already.
    pub(super) static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The job that this thread helps with.
    static HELPED: RefCell<Option<Arc<Job>>> = const { RefCell::new(None) };
}

/// A task of any index.
type Task<'a> = dyn Fn(usize) -> Result<()> + Sync + 'a;

/// The tasks of one call.
///
/// The task is borrowed from the caller of `run`. A helper calls it only between a successful [`Job::enter`] and the
/// drop of what that returned; both count in `inside`. The caller closes the job, after which nobody enters, and waits
/// until nobody is inside, before `run` returns or unwinds.
pub(super) struct Job {
    task: *const Task<'static>,
    count: usize,
    /// The next task to be drawn.
    next: AtomicUsize,
    /// How many helpers may be in a task, and whether more may enter.
    inside: AtomicUsize,
    /// How many helpers there may be.
    pub helpers: usize,
    failure: Mutex<Option<Error>>,
    /// Whether there is a failure.
    failed: AtomicBool,
    caller: Thread,
    /// What [`FORKS`] was in the process in which this job was begun.
    forks: usize,
}

// SAFETY: the task may be shared (`Sync`), and is called only while the caller keeps it, as said above.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    /// Make the job; the caller must close it and wait before `task` ends.
    pub fn new(task: &Task<'_>, count: usize, helpers: usize) -> Arc<Job> {
        // SAFETY: only the lifetime changes; what is said above sees to it.
        let task = unsafe { std::mem::transmute::<*const Task<'_>, *const Task<'static>>(task) };
        Arc::new(Job {
            task,
            count,
            next: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            helpers,
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
            caller: std::thread::current(),
            forks: FORKS.load(Ordering::Relaxed),
        })
    }

    /// Draw a task and carry it out; return whether there may be another.
    ///
    /// For the caller of `run` before the job is closed, and for helpers that have entered.
    pub fn work_once(&self) -> bool {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        if index >= self.count {
            return false;
        }
        // SAFETY: the task lives as long as a caller who has not closed the job, or a helper inside, needs it.
        if let Err(error) = call(unsafe { &*self.task }, index) {
            self.fail(error);
        }
        true
    }

    /// Return whether tasks are left.
    pub fn wanting(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.count
    }

    /// Draw no more tasks.
    pub fn stop(&self) {
        self.next.store(self.count, Ordering::Relaxed);
    }

    /// Stop because of an error; the first one is kept.
    pub fn fail(&self, error: Error) {
        self.stop();
        self.failed.store(true, Ordering::Relaxed);
        if self.orphaned() {
            // The lock may be held by a thread that does not exist any more.
            return;
        }
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_none() {
            *failure = Some(error);
        }
    }

    /// Enter as a helper, unless the job is closed.
    pub fn enter(self: &Arc<Job>) -> Option<Guest> {
        let more = |inside: usize| (inside & CLOSED == 0).then_some(inside + 1);
        let entered = self.inside.fetch_update(Ordering::Acquire, Ordering::Relaxed, more);
        entered.is_ok().then(|| Guest(Arc::clone(self)))
    }

    /// Let no helper in any more; return whether the pool may still offer the job.
    pub fn close(&self) -> bool {
        self.inside.fetch_or(CLOSED, Ordering::Acquire) & CLOSED == 0 && !self.orphaned()
    }

    /// Wait until no helper is inside.
    pub fn wait(&self, mut poll: impl FnMut() -> Result<()>) {
        let mut since = None;
        while self.inside.load(Ordering::Acquire) != CLOSED {
            if self.orphaned() {
                return;
            }
            if since.get_or_insert_with(Instant::now).elapsed() < LOOK_OUT {
                std::hint::spin_loop();
                continue;
            }
            std::thread::park_timeout(POLL);
            if let Err(error) = poll() {
                self.fail(error);
            }
        }
    }

    /// Return whether this is a child process of the one in which the job was begun: nobody helps here.
    fn orphaned(&self) -> bool {
        self.forks != FORKS.load(Ordering::Relaxed)
    }

    /// Return what has become of the job.
    pub fn outcome(&self) -> Result<()> {
        if self.orphaned() {
            return Err(Error::codec("kernel", "the process was forked within a call"));
        }
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// A helper inside of a job.
pub(super) struct Guest(Arc<Job>);

impl Guest {
    /// Carry out tasks until there are no more.
    pub fn work(&self) {
        HELPED.set(Some(Arc::clone(&self.0)));
        while self.0.work_once() {}
        HELPED.set(None);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if self.0.inside.fetch_sub(1, Ordering::Release) == CLOSED | 1 {
            self.0.caller.unpark();
        }
    }
}

/// Note that this is a child process, in which no job was begun yet.
pub(super) fn leave_parent() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Whether this thread helps with a job that has failed elsewhere, so that it is to wait for nothing any more.
pub fn given_up() -> bool {
    HELPED.with_borrow(|job| job.as_ref().is_some_and(|job| job.failed.load(Ordering::Relaxed)))
}

/// Call a task; make an error of its panic.
pub(super) fn call(task: &Task<'_>, index: usize) -> Result<()> {
    match catch_unwind(AssertUnwindSafe(|| task(index))) {
        Ok(result) => result,
        Err(payload) => Err(Error::codec("kernel", format!("a task panicked: {}", message(&*payload)))),
    }
}

/// Return what a panic said.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
