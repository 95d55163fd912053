//! Threads: one small pool for the whole process.

use crate::Result;

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
    let _ = (threads, count, task, poll);
    todo!()
}

/// Forget the threads, in a child process after `fork`: they do not exist there. New ones start when needed.
pub fn after_fork() {
    todo!()
}
