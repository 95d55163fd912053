//! The processors on which the threads of the pool are woken.
//!
//! Linux wakes a thread on an idle processor. But on a virtual machine it regards a processor as busy if the host has given
//! it to others while it was idle, and then wakes the thread on the processor of the thread that wakes it. Both share that
//! processor for tens of milliseconds, and the first operations after a pause take twice as long. So a worker avoids the
//! processor that its last job came from, since the caller of the next job most probably runs there. If there are only
//! two processors, a caller that has moved to the other one changes this before it wakes the worker.

#[cfg(target_os = "linux")]
mod system {
    use std::mem::{size_of, zeroed};

    /// A thread that is kept off a processor until this is dropped.
    pub struct Elsewhere {
        thread: libc::pid_t,
        all: libc::cpu_set_t,
        processor: usize,
    }

    /// Return the number of the processor that runs this thread.
    pub fn current() -> Option<usize> {
        // SAFETY: the call only returns a number, or -1.
        usize::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    /// Keep this thread off a processor; `None` if it may run on no other one.
    pub fn away_from(processor: usize) -> Option<Elsewhere> {
        // SAFETY: the call only returns a number.
        let thread = unsafe { libc::gettid() };
        // SAFETY: a set of processors is a plain array of bits, and zeros are an empty one.
        let mut all: libc::cpu_set_t = unsafe { zeroed() };
        // SAFETY: the system writes to a set of the given size.
        let known = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut all) == 0 };
        let made = Elsewhere { thread, all, processor };
        if known && made.restrict(processor) {
            return Some(made);
        }
        std::mem::forget(made);
        None
    }

    impl Elsewhere {
        /// Keep the thread off this processor instead, unless that is the one already.
        pub fn leave_out(&mut self, processor: usize) {
            if self.processor != processor && self.restrict(processor) {
                self.processor = processor;
            }
        }

        fn restrict(&self, processor: usize) -> bool {
            if processor >= 8 * size_of::<libc::cpu_set_t>() {
                return false;
            }
            let mut others = self.all;
            // SAFETY: the number is one of the set's bits.
            let several = unsafe {
                libc::CPU_CLR(processor, &mut others);
                libc::CPU_ISSET(processor, &self.all) && libc::CPU_COUNT(&others) > 0
            };
            several && self.allow(&others)
        }

        fn allow(&self, processors: &libc::cpu_set_t) -> bool {
            // SAFETY: the system reads a set of the given size.
            unsafe { libc::sched_setaffinity(self.thread, size_of::<libc::cpu_set_t>(), processors) == 0 }
        }
    }

    impl Drop for Elsewhere {
        fn drop(&mut self) {
            self.allow(&self.all);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub struct Elsewhere;

    pub fn current() -> Option<usize> {
        None
    }

    pub fn away_from(_processor: usize) -> Option<Elsewhere> {
        None
    }

    impl Elsewhere {
        pub fn leave_out(&mut self, _processor: usize) {}
    }
}

pub(super) use system::{Elsewhere, away_from, current};

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn allowed() -> Vec<usize> {
        // SAFETY: the system writes to a set of the given size.
        let set = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set), 0);
            set
        };
        // SAFETY: the numbers are bits of the set.
        (0..8 * size_of::<libc::cpu_set_t>()).filter(|&number| unsafe { libc::CPU_ISSET(number, &set) }).collect()
    }

    #[test]
    fn a_processor_is_left_out_until_the_guard_is_dropped() {
        let all = allowed();
        for &processor in &all {
            let guard = away_from(processor);
            assert_eq!(guard.is_some(), all.len() > 1);
            if guard.is_some() {
                assert_eq!(allowed(), all.iter().copied().filter(|&other| other != processor).collect::<Vec<_>>());
                assert!(current() != Some(processor));
            }
            // the thread is kept off another processor, also by another thread
            if let (Some(mut guard), Some(&other)) = (guard, all.iter().find(|&&other| other != processor)) {
                std::thread::scope(|scope| scope.spawn(|| guard.leave_out(other)).join().unwrap());
                assert_eq!(allowed(), all.iter().copied().filter(|&left| left != other).collect::<Vec<_>>());
                drop(guard);
            }
            assert_eq!(allowed(), all);
        }
        assert!(away_from(usize::MAX).is_none());
        assert_eq!(allowed(), all);
    }
}
