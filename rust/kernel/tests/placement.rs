//! Where workers may run. The only test of its process, since each caller of the pool moves its workers.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // in what the tests share

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tegula_kernel::pool;

/// The processors on which this thread may run.
fn allowed() -> Vec<usize> {
    // SAFETY: a set of processors is a plain array of bits, and the system writes to a set of the given size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set), 0);
        set
    };
    // SAFETY: the numbers are bits of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&number| unsafe { libc::CPU_ISSET(number, &set) }).collect()
}

/// Let this thread run on these processors only.
fn allow(processors: &[usize]) {
    // SAFETY: the numbers are bits of the set, and the system reads a set of the given size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        processors.iter().for_each(|&number| libc::CPU_SET(number, &mut set));
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
    }
}

#[test]
fn a_worker_may_run_elsewhere_when_its_caller_has_moved() {
    let all = allowed();
    if all.len() < 2 {
        return;
    }
    let caller = std::thread::current().id();
    for turn in 0..21 {
        // the caller is on one of two processors, the other one in the next turn; a new worker inherits what it may use, so
        // it is made in a turn before
        if turn > 0 {
            allow(&all[turn % 2..=turn % 2]);
        }
        let (begun, seen) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let task = |_: usize| {
            // both threads take a task
            begun.fetch_add(1, Ordering::SeqCst);
            let since = Instant::now();
            while begun.load(Ordering::SeqCst) < 2 && since.elapsed() < Duration::from_secs(10) {
                std::thread::yield_now();
            }
            if std::thread::current().id() != caller {
                seen.lock().unwrap().push(allowed());
            }
            Ok(())
        };
        pool::run(2, 2, &task, &mut || Ok(())).unwrap();
        let here = all[turn % 2];
        for processors in seen.into_inner().unwrap() {
            assert!(
                processors.iter().any(|&other| other != here),
                "turn {turn}: only on the caller's processor {here}"
            );
        }
        std::thread::sleep(Duration::from_millis(2)); // the worker sleeps
    }
    allow(&all);
}
