//! The worker threads of the pool, and the queue of jobs from which they take work.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use super::job::{IN_TASK, Job, count_fork};
use super::placement::{self, Elsewhere};
use super::turns::Turns;
use crate::forks::OfProcess;

/// How long an idle worker spins before it sleeps.
const SPIN: Duration = Duration::from_micros(10);
/// How long a worker sleeps before its thread ends.
const SLEEP: Duration = Duration::from_secs(30);
/// How many others a starting worker wakes: a few, so that many wake up soon without delaying this one.
const WAKE_AT_ONCE: usize = 2;

/// The worker threads of this process.
pub(super) struct Pool {
    state: Mutex<State>,
    /// Wakes sleeping workers.
    wakeup: Condvar,
    /// Number of workers wanted by all jobs together; a hint for spinning workers.
    wanted: AtomicUsize,
    cores: usize,
    pub turns: Turns,
}

#[derive(Default)]
struct State {
    /// The jobs that want more workers, oldest first, and how many.
    queue: Vec<(Arc<Job>, usize)>,
    /// Number of worker threads.
    threads: usize,
    /// Number of workers that sleep and have not been woken.
    asleep: usize,
    /// Number of workers that spin or have been woken, and look at the queue before they sleep.
    awake: usize,
    /// Number of workers that have been woken but have not run yet.
    wakeups: usize,
    /// The workers that leave out a processor, by the numbers of their threads in the pool.
    elsewhere: Vec<(u64, Elsewhere)>,
    /// Number of workers that have been started.
    started: u64,
}

impl State {
    /// Let the calling worker, which has this number, leave out a processor, or none.
    fn leave_out(&mut self, worker: u64, processor: Option<usize>) {
        let place = self.elsewhere.iter().position(|(other, _)| *other == worker);
        match (place, processor) {
            (Some(place), None) => drop(self.elsewhere.swap_remove(place)),
            (Some(place), Some(processor)) => self.elsewhere[place].1.leave_out(processor),
            (None, Some(processor)) => {
                self.elsewhere.extend(placement::away_from(processor).map(|found| (worker, found)))
            }
            (None, None) => {}
        }
    }
}

static POOL: OfProcess<Pool> = OfProcess::empty();

impl Pool {
    /// Return the pool of this process.
    pub fn get() -> &'static Pool {
        POOL.get(|| Pool {
            state: Mutex::default(),
            wakeup: Condvar::new(),
            wanted: AtomicUsize::new(0),
            cores: available_parallelism().map_or(1, NonZero::get),
            turns: Turns::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Add a job to the queue, and wake a worker.
    pub fn submit(&'static self, job: &Arc<Job>) {
        let mut state = self.lock();
        // with two processors, if the caller has moved here since the last job, the workers could run only here
        if let Some(here) = job.came_from.filter(|_| self.cores == 2 && job.workers < self.cores) {
            state.elsewhere.iter_mut().for_each(|(_, elsewhere)| elsewhere.leave_out(here));
        }
        state.queue.push((Arc::clone(job), job.workers));
        self.wanted.fetch_add(job.workers, Ordering::Relaxed);
        self.wake(state, job.workers, 1);
    }

    /// Remove a job from the queue.
    pub fn remove(&self, job: &Arc<Job>) {
        let mut state = self.lock();
        if let Some(place) = state.queue.iter().position(|(other, _)| Arc::ptr_eq(other, job)) {
            let (job, wanted) = state.queue.remove(place);
            self.wanted.fetch_sub(wanted, Ordering::Relaxed);
            drop(state);
            drop(job);
        }
    }

    /// Make up to `most` workers look at the queue: awake ones, sleeping ones, then new threads, up to `limit` in all.
    fn wake(&'static self, mut state: MutexGuard<'_, State>, limit: usize, most: usize) {
        let wanted = state.queue.iter().map(|(_, wanted)| wanted).sum::<usize>();
        let needed = most.min(wanted.saturating_sub(state.awake));
        let woken = needed.min(state.asleep);
        state.asleep -= woken;
        state.wakeups += woken;
        let started = (needed - woken).min(limit.saturating_sub(state.threads));
        state.threads += started;
        state.awake += woken + started;
        drop(state);
        for _ in 0..woken {
            self.wakeup.notify_one();
        }
        for place in 0..started {
            let thread = std::thread::Builder::new().name("tegula-kernel".to_owned());
            if thread.spawn(move || self.run_worker()).is_err() {
                // Without more threads the existing ones do the work.
                let mut state = self.lock();
                state.threads -= started - place;
                state.awake -= started - place;
                return;
            }
        }
    }

    /// Take the first job of the queue, and the number of workers that may join besides.
    fn take(&self, state: &mut State) -> Option<(Arc<Job>, usize)> {
        let (job, wanted) = state.queue.first_mut()?;
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        *wanted -= 1;
        let taken = (Arc::clone(job), *wanted);
        if *wanted == 0 {
            state.queue.remove(0);
        }
        Some(taken)
    }

    /// Run a worker thread until it has slept for `SLEEP`.
    fn run_worker(&'static self) {
        IN_TASK.set(true);
        let mut came_from = None;
        let mut state = self.lock();
        state.started += 1;
        let worker = state.started;
        loop {
            // At this point the worker counts as awake.
            if let Some((job, more)) = self.take(&mut state) {
                state.awake -= 1;
                if more > 0 && job.has_tasks() {
                    self.wake(state, job.workers, WAKE_AT_ONCE.min(more));
                } else {
                    drop(state);
                }
                if let Some(entered) = job.enter() {
                    entered.work();
                }
                // where threads mostly wait there are more of them than processors
                came_from = job.came_from.filter(|_| job.workers < self.cores);
                drop(job);
                state = self.lock();
                state.awake += 1;
                continue;
            }
            let up = state.threads - state.asleep;
            drop(state);
            // if threads wait for a store, there are more threads than cores, and another thread can use this core
            if up <= self.cores {
                self.spin();
            }
            state = self.lock();
            if !state.queue.is_empty() {
                continue;
            }
            state.leave_out(worker, came_from);
            match self.sleep(state) {
                Some(woken) => state = woken,
                None => return self.lock().leave_out(worker, None),
            }
        }
    }

    /// Wait a moment for a job.
    fn spin(&self) {
        let since = Instant::now();
        while self.wanted.load(Ordering::Relaxed) == 0 && since.elapsed() < SPIN {
            std::hint::spin_loop();
        }
    }

    /// Sleep until woken; `None` after `SLEEP`, when the thread ends.
    fn sleep<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Option<MutexGuard<'a, State>> {
        state.awake -= 1;
        state.asleep += 1;
        loop {
            let (woken, waited) = self.wakeup.wait_timeout(state, SLEEP).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if state.wakeups > 0 {
                // The thread that woke this one has counted it as awake.
                state.wakeups -= 1;
                return Some(state);
            }
            if waited.timed_out() {
                state.asleep -= 1;
                state.threads -= 1;
                return None;
            }
        }
    }
}

/// Replace the pool in a child process after `fork`, where its threads do not exist. New ones start when needed.
pub fn after_fork() {
    IN_TASK.set(false);
    count_fork();
    POOL.forget();
}
