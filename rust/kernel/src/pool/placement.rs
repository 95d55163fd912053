//! The processors on which the threads of the pool are woken.
//!
//! Linux wakes a thread on an idle processor. But on a virtual machine it regards a processor as busy if the host has given
//! it to others while it was idle, and then wakes the thread on the processor of the thread that wakes it. Both share that
//! processor for tens of milliseconds, and the first operations after a pause take twice as long. So a worker avoids the
//! processor that its last job came from, since the caller of the next job most probably runs there. If there are only
//! two processors, a caller that has moved to the other one changes this before it wakes the worker.

#[cfg(target_os = "linux")]
mod system {
    use libc::{c_int, c_ulong, pid_t};

    /// The numbers of a set.
    const NUMBERS: usize = size_of::<libc::cpu_set_t>() / size_of::<c_ulong>();
    /// Bits of a number in a set.
    const BITS: usize = c_ulong::BITS as usize;

    /// A set of processors, laid out as `cpu_set_t`: the bits of each number from the lowest on.
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    struct Set([c_ulong; NUMBERS]);

    impl Set {
        /// Return the set without a processor; `None` if it is not in the set, or the only one.
        fn without(mut self, processor: usize) -> Option<Set> {
            let (numbers, bit) = (&mut self.0, 1 << (processor % BITS));
            let number = numbers.get_mut(processor / BITS).filter(|number| **number & bit != 0)?;
            *number &= !bit;
            numbers.iter().any(|number| *number != 0).then_some(self)
        }
    }

    // SAFETY: these functions only return a number.
    unsafe extern "C" {
        safe fn gettid() -> pid_t;
        safe fn sched_getcpu() -> c_int;
    }

    /// A thread that is kept off a processor until this is dropped.
    pub struct Elsewhere {
        thread: pid_t,
        all: Set,
        processor: usize,
    }

    /// Return the number of the processor that runs this thread.
    pub fn current() -> Option<usize> {
        usize::try_from(sched_getcpu()).ok()
    }

    /// Keep this thread off a processor; `None` if it may run on no other one.
    pub fn away_from(processor: usize) -> Option<Elsewhere> {
        let mut all = Set([0; NUMBERS]);
        // SAFETY: the system writes to a set of the given size.
        let known = unsafe { libc::sched_getaffinity(0, size_of::<Set>(), (&raw mut all).cast()) == 0 };
        let made = Elsewhere { thread: gettid(), all, processor };
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
            self.all.without(processor).is_some_and(|others| self.allow(&others))
        }

        fn allow(&self, processors: &Set) -> bool {
            // SAFETY: the system reads a set of the given size.
            unsafe { libc::sched_setaffinity(self.thread, size_of::<Set>(), (&raw const *processors).cast()) == 0 }
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
