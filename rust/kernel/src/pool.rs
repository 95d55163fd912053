//! Threads: one small pool for the whole process.

mod helpers;
mod job;

use std::sync::Arc;
use std::time::Instant;

use crate::Result;
use helpers::Pool;
use job::{INSIDE, Job, POLL};

pub use helpers::after_fork;
pub use job::given_up;

/// Run `task(0) … task(count - 1)` on the calling thread and up to `threads - 1` of the pool's.
///
/// Tasks are drawn one after the other from a counter, in order. The first error stops the drawing and is returned when
/// the tasks under way have ended; a panic in a task becomes an error too (`Error::Codec` of the codec `"kernel"`). With
/// `threads` 1 nothing but the calling thread is used. Several callers may run at once and share the pool's threads.
/// `poll` is called by the calling thread between tasks, at most every 50 ms; its error stops the work as well.
pub fn run(
    threads: usize,
    count: usize,
    task: &(dyn Fn(usize) -> Result<()> + Sync),
    poll: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let mut polls = Polls { poll, next: Some(Instant::now() + POLL) };
    if threads <= 1 || count <= 1 || INSIDE.get() {
        // A single task may well use the pool itself, as long as more threads than one are allowed.
        let _inside = Inside::enter(INSIDE.get() || threads <= 1);
        for index in 0..count {
            job::call(task, index)?;
            if index + 1 < count {
                polls.ask()?;
            }
        }
        return Ok(());
    }
    let _inside = Inside::enter(true);
    let pool = Pool::get();
    let job = Job::new(task, count, threads.min(count) - 1);
    // From here on nothing leaves this function, by panic either, before the job is closed: it borrows the task.
    let closing = Closing { pool, job: &job };
    pool.offer(&job);
    while job.work_once() {
        if let Err(error) = polls.ask() {
            job.fail(error);
        }
    }
    close(&job, pool);
    job.wait(|| polls.ask());
    drop(closing);
    job.outcome()
}

/// Let no helper in any more, and offer the job to none.
fn close(job: &Arc<Job>, pool: &Pool) {
    if job.close() {
        pool.withdraw(job);
    }
}

/// What the caller wants to be asked from time to time.
struct Polls<'a> {
    poll: &'a mut dyn FnMut() -> Result<()>,
    /// When to ask next; never again after an error.
    next: Option<Instant>,
}

impl Polls<'_> {
    /// Poll, if it is time to.
    fn ask(&mut self) -> Result<()> {
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

/// This thread's mark of being inside of a task, put back at the end.
struct Inside(bool);

impl Inside {
    fn enter(inside: bool) -> Inside {
        Inside(INSIDE.replace(inside))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

/// Closes a job and waits for the helpers in it, even if `poll` panics.
struct Closing<'a> {
    pool: &'static Pool,
    job: &'a Arc<Job>,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.job.stop();
        close(self.job, self.pool);
        self.job.wait(|| Ok(()));
    }
}
