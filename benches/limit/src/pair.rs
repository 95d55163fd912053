//! Two threads: the caller and one that waits to help.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What is done with a thread's number and a task's.
pub type Task<'a> = dyn Fn(usize, usize) -> io::Result<()> + Sync + 'a;

struct Order {
    task: *const Task<'static>,
    next: *const AtomicUsize,
    count: usize,
    /// Set by the helper when it begins, or by the caller when there is nothing left to help with.
    taken: Arc<AtomicBool>,
}

// SAFETY: whoever sets `taken` first has the word: the helper looks at the pointers only if it was the one, and then the
// caller of `Pair::run` keeps them alive until the helper has answered. Both point to shared things.
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
                if order.taken.swap(true, Ordering::AcqRel) {
                    continue;
                }
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
        let taken = Arc::new(AtomicBool::new(false));
        let order = Order { task: task_of_order, next: &next, count, taken: Arc::clone(&taken) };
        self.orders.send(order).map_err(|_| io::Error::other("the helping thread is gone"))?;
        let mine = work(0, task, &next, count);
        if !taken.swap(true, Ordering::AcqRel) {
            return mine;
        }
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let other = answers.recv().map_err(|_| io::Error::other("the helping thread is gone"))?;
        mine.and(other)
    }
}
