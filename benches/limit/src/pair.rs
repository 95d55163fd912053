//! Two threads: the caller and one that waits to help.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// What is done with a thread's number and a task's.
pub type Task<'a> = dyn Fn(usize, usize) -> io::Result<()> + Sync + 'a;

struct Order {
    task: *const Task<'static>,
    next: *const AtomicUsize,
    count: usize,
}

// SAFETY: the caller of `Pair::run` keeps both pointers alive until the helper has answered, and both are shared things.
unsafe impl Send for Order {}

/// The helping thread and the channels to it.
pub struct Pair {
    orders: Sender<Order>,
    answers: Mutex<Receiver<io::Result<()>>>,
}

fn work(thread: usize, task: &Task<'_>, next: &AtomicUsize, count: usize) -> io::Result<()> {
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= count {
            return Ok(());
        }
        task(thread, index)?;
    }
}

impl Pair {
    pub fn new() -> Pair {
        let (orders, inbox) = channel::<Order>();
        let (outbox, answers) = channel();
        thread::spawn(move || {
            for order in inbox {
                // SAFETY: see `Order`.
                let (task, next) = unsafe { (&*order.task, &*order.next) };
                if outbox.send(work(1, task, next, order.count)).is_err() {
                    return;
                }
            }
        });
        Pair { orders, answers: Mutex::new(answers) }
    }

    /// Do `task` for 0 … count - 1, on both threads or on the caller's only.
    pub fn run(&self, both: bool, count: usize, task: &Task<'_>) -> io::Result<()> {
        let next = AtomicUsize::new(0);
        if !both || count < 2 {
            return work(0, task, &next, count);
        }
        let raw: *const Task<'_> = task;
        // SAFETY: only the lifetime is changed; the helper is done with the task before this function returns.
        let task_of_order = unsafe { std::mem::transmute::<*const Task<'_>, *const Task<'static>>(raw) };
        let order = Order { task: task_of_order, next: &next, count };
        self.orders.send(order).map_err(|_| io::Error::other("the helping thread is gone"))?;
        let mine = work(0, task, &next, count);
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let other = answers.recv().map_err(|_| io::Error::other("the helping thread is gone"))?;
        mine.and(other)
    }
}
