//! The threads that help, and how they find something to do.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::job::{INSIDE, Job, leave_parent};

/// How long a helper looks out for more before it sleeps.
const LOOK_OUT: Duration = Duration::from_micros(10);
/// How long a helper sleeps before it ends.
const SLEEP: Duration = Duration::from_secs(30);
/// How many others a helper that begins wakes up: enough that many are soon awake, little enough to begin soon.
const WAKES: usize = 2;

/// The helpers of this process.
pub(super) struct Pool {
    state: Mutex<State>,
    /// The helpers sleep here.
    bell: Condvar,
    /// How many helpers are wanted by all jobs together; a hint for those who look out.
    wanted: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// The jobs that want more helpers, oldest first, and how many.
    offers: Vec<(Arc<Job>, usize)>,
    /// How many helpers there are.
    threads: usize,
    /// How many of them sleep and have not been rung for.
    asleep: usize,
    /// How many look out, and will see what is offered before they sleep.
    awake: usize,
    /// How many have been rung for and do not know it yet.
    rings: usize,
}

static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

impl Pool {
    /// Return the pool of this process.
    pub fn get() -> &'static Pool {
        let mut found = POOL.load(Ordering::Acquire);
        if found.is_null() {
            let new = Box::into_raw(Box::new(Pool {
                state: Mutex::default(),
                bell: Condvar::new(),
                wanted: AtomicUsize::new(0),
            }));
            match POOL.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => found = new,
                Err(other) => {
                    // SAFETY: made above, and nobody else knows of it.
                    drop(unsafe { Box::from_raw(new) });
                    found = other;
                }
            }
        }
        // SAFETY: what is stored there is never freed.
        unsafe { &*found }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offer a job to the helpers.
    pub fn offer(&'static self, job: &Arc<Job>) {
        let mut state = self.lock();
        state.offers.push((Arc::clone(job), job.helpers));
        self.wanted.fetch_add(job.helpers, Ordering::Relaxed);
        self.call(state, job.helpers, 1);
    }

    /// Take back what is still offered of a job.
    pub fn withdraw(&self, job: &Arc<Job>) {
        let mut state = self.lock();
        if let Some(place) = state.offers.iter().position(|(other, _)| Arc::ptr_eq(other, job)) {
            let (job, wanted) = state.offers.remove(place);
            self.wanted.fetch_sub(wanted, Ordering::Relaxed);
            drop(state);
            drop(job);
        }
    }

    /// Get up to `most` helpers to look for work: those awake, those asleep, then new ones, up to `limit` in all.
    fn call(&'static self, mut state: MutexGuard<'_, State>, limit: usize, most: usize) {
        let wanted = state.offers.iter().map(|(_, wanted)| wanted).sum::<usize>();
        let needed = most.min(wanted.saturating_sub(state.awake));
        let rung = needed.min(state.asleep);
        state.asleep -= rung;
        state.rings += rung;
        let started = (needed - rung).min(limit.saturating_sub(state.threads));
        state.threads += started;
        state.awake += rung + started;
        drop(state);
        for _ in 0..rung {
            self.bell.notify_one();
        }
        for place in 0..started {
            let thread = std::thread::Builder::new().name("tegula-kernel".to_owned());
            if thread.spawn(move || self.help()).is_err() {
                // The work gets done by those who are there.
                let mut state = self.lock();
                state.threads -= started - place;
                state.awake -= started - place;
                return;
            }
        }
    }

    /// Take the first offer, with the number of helpers that may join besides.
    fn take(&self, state: &mut State) -> Option<(Arc<Job>, usize)> {
        let (job, wanted) = state.offers.first_mut()?;
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        *wanted -= 1;
        let taken = (Arc::clone(job), *wanted);
        if *wanted == 0 {
            state.offers.remove(0);
        }
        Some(taken)
    }

    /// The life of a helper.
    fn help(&'static self) {
        INSIDE.set(true);
        let mut state = self.lock();
        loop {
            // Here this helper counts as awake.
            if let Some((job, more)) = self.take(&mut state) {
                state.awake -= 1;
                if more > 0 && job.wanting() {
                    self.call(state, job.helpers, WAKES.min(more));
                } else {
                    drop(state);
                }
                if let Some(guest) = job.enter() {
                    guest.work();
                }
                drop(job);
                state = self.lock();
                state.awake += 1;
                continue;
            }
            drop(state);
            self.look_out();
            state = self.lock();
            if !state.offers.is_empty() {
                continue;
            }
            match self.sleep(state) {
                Some(woken) => state = woken,
                None => return,
            }
        }
    }

    /// Wait a moment for an offer.
    fn look_out(&self) {
        let since = Instant::now();
        while self.wanted.load(Ordering::Relaxed) == 0 && since.elapsed() < LOOK_OUT {
            std::hint::spin_loop();
        }
    }

    /// Sleep until rung for; nothing if that takes so long that this helper ends.
    fn sleep<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Option<MutexGuard<'a, State>> {
        state.awake -= 1;
        state.asleep += 1;
        loop {
            let (woken, waited) = self.bell.wait_timeout(state, SLEEP).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if state.rings > 0 {
                // Whoever rang has counted this helper as awake.
                state.rings -= 1;
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

/// Forget the threads, in a child process after `fork`: they do not exist there. New ones start when needed.
pub fn after_fork() {
    INSIDE.set(false);
    leave_parent();
    POOL.store(std::ptr::null_mut(), Ordering::Release);
}
