//! A thread pool for the whole process. Called by `read`, `write` and the Blosc codec through [`run`].

mod job;
mod placement;
mod turns;
mod workers;

use std::sync::Arc;
use std::time::Instant;

use crate::Result;
use job::{IN_TASK, Job, POLL};
use workers::Pool;

pub use job::given_up;
pub use turns::{Spare, end_turn, in_turns};
pub use workers::after_fork;

/// Run `task(0) … task(count - 1)` on the calling thread and on up to `threads - 1` threads of the pool.
///
/// Threads take tasks from a counter, in order. After the first error no more tasks start, and the error is returned when
/// the running tasks have ended; a panic in a task becomes an error, too (`Error::Codec` of the codec `"kernel"`). With
/// `threads` 1, or inside another task, only the calling thread works. Several callers may run at the same time and share
/// the threads of the pool. The calling thread calls `poll` between tasks, at most every 50 ms; an error of `poll` stops
/// the work as well.
pub fn run(
    threads: usize,
    count: usize,
    task: &(dyn Fn(usize) -> Result<()> + Sync),
    poll: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let mut polls = Polls { poll, next: Some(Instant::now() + POLL) };
    if threads <= 1 || count <= 1 || IN_TASK.get() {
        // A single task may use the pool itself, provided more than one thread is allowed.
        let _inside = Inside::enter(IN_TASK.get() || threads <= 1);
        for index in 0..count {
            job::call(task, index)?;
            if index + 1 < count {
                polls.poll_if_due()?;
            }
        }
        return Ok(());
    }
    let _inside = Inside::enter(true);
    let pool = Pool::get();
    let job = Job::new(task, count, threads.min(count) - 1);
    // The job borrows the task, so that it must be closed before this function returns or unwinds.
    let closing = CloseOnDrop { pool, job: &job };
    pool.submit(&job);
    while job.work_once() {
        if let Err(error) = polls.poll_if_due() {
            job.fail(error);
        }
    }
    close(&job, pool);
    job.wait(|| polls.poll_if_due());
    drop(closing);
    job.outcome()
}

/// Wait until this thread may work, inside [`in_turns`]. Until [`end_turn`] it must neither call a store nor wait for
/// another thread.
pub fn take_turn() {
    turns::take(|| &Pool::get().turns);
}

/// Let no more workers enter the job, and remove it from the queue.
fn close(job: &Arc<Job>, pool: &Pool) {
    if job.close() {
        pool.remove(job);
    }
}

/// The caller's `poll`, called from time to time.
struct Polls<'a> {
    poll: &'a mut dyn FnMut() -> Result<()>,
    /// Time of the next call; `None` after an error.
    next: Option<Instant>,
}

impl Polls<'_> {
    /// Call `poll` if it is due.
    fn poll_if_due(&mut self) -> Result<()> {
        let Some(next) = self.next else { return Ok(()) };
        let now = Instant::now();
        if now < next {
            return Ok(());
        }
        let answer = (self.poll)();
        self.next = answer.is_ok().then_some(now + POLL);
        answer
    }
}

/// Sets the mark of this thread for being inside a task, and restores it when dropped.
struct Inside(bool);

impl Inside {
    fn enter(inside: bool) -> Inside {
        Inside(IN_TASK.replace(inside))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        IN_TASK.set(self.0);
    }
}

/// Closes a job and waits for its workers when dropped, so that this happens even if `poll` panics.
struct CloseOnDrop<'a> {
    pool: &'static Pool,
    job: &'a Arc<Job>,
}

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.job.stop();
        close(self.job, self.pool);
        self.job.wait(|| Ok(()));
    }
}
