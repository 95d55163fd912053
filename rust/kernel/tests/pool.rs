//! The pool under load: errors, panics, nesting, many callers, and a child process.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tegula_kernel::pool::Spare;
use tegula_kernel::{Error, Result, pool};

fn never() -> Result<()> {
    Ok(())
}

#[test]
fn every_task_runs_once() {
    for threads in [1, 2, 3, 8] {
        for count in [0, 1, 2, 7, 1000] {
            let seen: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            let task = |index: usize| {
                seen[index].fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            pool::run(threads, count, &task, &mut never).unwrap();
            assert!(seen.iter().all(|times| times.load(Ordering::Relaxed) == 1), "{threads} threads, {count} tasks");
        }
    }
}

#[test]
fn short_calls_by_many_callers() {
    let sum = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for round in 0..2000 {
                    let mine = AtomicUsize::new(0);
                    let task = |index: usize| {
                        mine.fetch_add(index + 1, Ordering::Relaxed);
                        Ok(())
                    };
                    pool::run(2 + round % 5, 6, &task, &mut never).unwrap();
                    assert_eq!(mine.load(Ordering::Relaxed), 21);
                    sum.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), 16000);
}

#[test]
fn one_thread_is_the_calling_one() {
    let here = std::thread::current().id();
    let alone = |_: usize| {
        assert_eq!(std::thread::current().id(), here);
        Ok(())
    };
    pool::run(1, 50, &alone, &mut never).unwrap();
    let nested = |_: usize| pool::run(4, 5, &alone, &mut never);
    pool::run(1, 5, &nested, &mut never).unwrap();
}

#[test]
fn many_slow_tasks_run_side_by_side() {
    let now = AtomicUsize::new(0);
    let most = AtomicUsize::new(0);
    let task = |_: usize| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(400));
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    };
    pool::run(64, 64, &task, &mut never).unwrap();
    assert!(most.into_inner() > 8);
    assert_eq!(now.into_inner(), 0);
}

#[test]
fn the_first_error_stops_the_work() {
    for threads in [1, 2, 6] {
        let done = AtomicUsize::new(0);
        let task = |index: usize| {
            done.fetch_add(1, Ordering::SeqCst);
            if index == 5 { Err(Error::Conflict) } else { Ok(()) }
        };
        let result = pool::run(threads, 1_000_000_000, &task, &mut never);
        assert!(matches!(result, Err(Error::Conflict)));
        let after = done.load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(done.load(Ordering::SeqCst), after, "a task ran on after the call");
    }
}

#[test]
fn a_panic_becomes_an_error() {
    for threads in [1, 3] {
        for _ in 0..20 {
            let task = |index: usize| {
                assert!(index != 7, "seven");
                Ok(())
            };
            match pool::run(threads, 100, &task, &mut never) {
                Err(Error::Codec { codec, message }) => {
                    assert_eq!(codec, "kernel");
                    assert!(message.contains("seven"), "{message}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn nested_calls_do_their_work() {
    let sum = AtomicUsize::new(0);
    let task = |outer: usize| {
        let inner = |index: usize| {
            sum.fetch_add(outer * 100 + index, Ordering::Relaxed);
            Ok(())
        };
        pool::run(4, 10, &inner, &mut never)
    };
    pool::run(4, 20, &task, &mut never).unwrap();
    let expected: usize = (0..20).map(|outer| (0..10).map(|index| outer * 100 + index).sum::<usize>()).sum();
    assert_eq!(sum.into_inner(), expected);
}

#[test]
fn a_single_task_may_use_the_pool() {
    let threads = Mutex::new(std::collections::HashSet::new());
    let inner = |_: usize| {
        std::thread::sleep(Duration::from_millis(20));
        threads.lock().unwrap().insert(std::thread::current().id());
        Ok(())
    };
    pool::run(4, 1, &|_| pool::run(4, 16, &inner, &mut never), &mut never).unwrap();
    assert!(threads.into_inner().unwrap().len() > 1);
}

#[test]
fn polls_come_now_and_then_and_stop_the_work() {
    for threads in [1, 3] {
        let mut times = Vec::new();
        let task = |_: usize| {
            std::thread::sleep(Duration::from_millis(2));
            Ok(())
        };
        let start = Instant::now();
        let mut poll = || {
            times.push(start.elapsed());
            if times.len() == 3 { Err(Error::Unusual) } else { Ok(()) }
        };
        let result = pool::run(threads, 1_000_000, &task, &mut poll);
        assert!(matches!(result, Err(Error::Unusual)));
        assert_eq!(times.len(), 3);
        // not the pauses between them: a poll may itself be late
        assert!(times.iter().zip(1..).all(|(time, count)| *time >= count * Duration::from_millis(50)));
    }
}

#[test]
fn polls_come_while_waiting_for_the_last_workers() {
    let caller = std::thread::current().id();
    let (ended, come) = (AtomicUsize::new(0), AtomicBool::new(false));
    let task = |_: usize| {
        if std::thread::current().id() == caller {
            // A busy machine may take its time to wake a worker.
            let start = Instant::now();
            while !come.load(Ordering::SeqCst) && start.elapsed() < Duration::from_secs(30) {
                std::thread::sleep(Duration::from_millis(1));
            }
        } else {
            come.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(300));
        }
        ended.fetch_add(1, Ordering::SeqCst);
        Ok(())
    };
    let mut polls = 0;
    let mut poll = || {
        polls += 1;
        if polls == 2 { Err(Error::Unusual) } else { Ok(()) }
    };
    let result = pool::run(2, 2, &task, &mut poll);
    assert_eq!(polls, 2, "an error ends the polling");
    assert_eq!(ended.into_inner(), 2, "both tasks end before the call does");
    assert!(matches!(result, Err(Error::Unusual)));
}

#[test]
fn a_poll_that_panics_leaves_no_task_behind() {
    let inside = AtomicUsize::new(0);
    let task = |_: usize| {
        inside.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(7));
        inside.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    };
    let mut poll = || panic!("poll");
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pool::run(4, 10_000, &task, &mut poll)));
    assert!(caught.is_err());
    assert_eq!(inside.load(Ordering::SeqCst), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_process_starts_over() {
    let busy = |_: usize| {
        std::thread::sleep(Duration::from_millis(1));
        Ok(())
    };
    pool::run(4, 8, &busy, &mut never).unwrap();
    std::thread::scope(|scope| {
        // Another thread keeps the pool busy, and holds its locks now and then.
        scope.spawn(|| pool::run(3, 300, &busy, &mut never).unwrap());
        for _ in 0..10 {
            // SAFETY: the child calls this crate only, and ends by itself.
            let child = unsafe { libc::fork() };
            if child == 0 {
                pool::after_fork();
                let sum = AtomicUsize::new(0);
                let task = |index: usize| {
                    sum.fetch_add(index, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(1));
                    Ok(())
                };
                let good = pool::run(3, 10, &task, &mut never).is_ok() && sum.into_inner() == 45;
                // SAFETY: ends the child without running what belongs to the parent.
                unsafe { libc::_exit(if good { 0 } else { 1 }) };
            }
            assert!(child > 0);
            let mut status = -1;
            // SAFETY: waits for the child made above.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_forked_during_a_call_gets_an_error() {
    let mut child = -1;
    let task = |_: usize| {
        std::thread::sleep(Duration::from_millis(30));
        Ok(())
    };
    let mut poll = || {
        if child == -1 {
            // SAFETY: as above.
            child = unsafe { libc::fork() };
            if child == 0 {
                pool::after_fork();
            }
        }
        Ok(())
    };
    let result = pool::run(3, 20, &task, &mut poll);
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::_exit(if result.is_err() { 0 } else { 1 }) };
    }
    result.unwrap();
    let mut status = -1;
    // SAFETY: as above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[test]
fn no_more_threads_work_at_once_than_there_are_turns() {
    for limit in [1, 2, 5] {
        let (working, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let task = |index: usize| {
            pool::in_turns(limit, || {
                for _ in 0..3 {
                    std::thread::sleep(Duration::from_micros(50 * (index as u64 % 7))); // waits for a store
                    pool::take_turn();
                    pool::take_turn(); // has one already
                    most.fetch_max(working.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_micros(100));
                    working.fetch_sub(1, Ordering::SeqCst);
                    if index % 5 > 0 {
                        pool::end_turn(); // else it ends with the task, or in a panic
                    } else if index == 35 {
                        panic!("in its turn");
                    }
                }
                Ok(())
            })
        };
        assert!(pool::run(16, 200, &task, &mut never).is_err());
        most.store(0, Ordering::SeqCst);
        pool::run(16, 34, &task, &mut never).unwrap();
        assert!((1..=limit).contains(&most.load(Ordering::SeqCst)));
    }
}

#[test]
fn what_a_thread_leaves_in_its_turn_another_one_takes() {
    static SPARE: Spare<usize> = Spare::empty();
    assert_eq!(SPARE.give(1), Some(1)); // this thread needs no turn
    pool::in_turns(1, || {
        pool::take_turn();
        assert_eq!(SPARE.give(2), None);
        assert_eq!(SPARE.give(3), Some(3)); // there is one for each turn
        pool::end_turn();
        assert_eq!(SPARE.take(), None);
    });
    let other = || {
        pool::in_turns(1, || {
            pool::take_turn();
            SPARE.take()
        })
    };
    assert_eq!(std::thread::spawn(other).join().unwrap(), Some(2));
}
