//! Writers at the same time lose nothing, and a killed one leaves a whole value.

use std::fs;
use std::path::Path;
#[cfg(unix)]
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tegula_kernel::Error;
use tegula_kernel::stores::{Expected, Store};

use crate::local_files::{Whole, this_program};
use crate::{Place, all, get, keys, store_below};

/// Add one to the number in a value, `rounds` times; return how often another writer was faster.
fn count_up(store: &Whole, key: &str, rounds: usize, in_turn: bool) -> usize {
    let mut conflicts = 0;
    for _ in 0..rounds {
        let session = store.files.session("", 100);
        loop {
            let mut old = if in_turn { session.open_for_change(key) } else { session.open(key) }.unwrap();
            let (expected, number) = match &mut old {
                None => (Expected::Absent, 0),
                Some(value) => {
                    let expected = value.generation().unwrap();
                    (expected, u64::from_le_bytes(all(&mut **value).unwrap().try_into().unwrap()))
                }
            };
            if cfg!(windows) {
                old = None; // otherwise no other writer could replace it in wine
            }
            match session.set(key, &[&(number + 1).to_le_bytes()], Some(&expected)) {
                Ok(()) => break,
                Err(Error::Conflict) => conflicts += 1,
                Err(Error::Unusual) if cfg!(windows) => conflicts += 1, // wine takes milliseconds for each call
                Err(error) => panic!("{error}"),
            }
        }
    }
    conflicts
}

#[test]
fn concurrent_changes_are_not_lost() {
    for in_turn in [false, true] {
        let place = Place::new();
        let store = place.store();
        let (threads, rounds) = (4, if cfg!(windows) { 25 } else { 100 }); // wine takes milliseconds for each call
        let conflicts: usize = std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..threads).map(|_| scope.spawn(|| count_up(&store, "a", rounds, in_turn))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(get(&*store, "a").unwrap(), ((threads * rounds) as u64).to_le_bytes());
        assert_eq!(place.names(""), ["a"]);
        if in_turn && cfg!(unix) {
            assert!(conflicts < threads * 2, "{conflicts} changes were made in vain, although each took its turn");
        }
    }
}

#[test]
fn readers_see_whole_values_while_writers_replace_them() {
    let place = Place::new();
    let store = place.store();
    store.set("a", &[&[0; 8192]], None).unwrap();
    let until = Instant::now() + Duration::from_millis(200);
    std::thread::scope(|scope| {
        for writer in 0..2_u8 {
            let store = &store;
            scope.spawn(move || {
                let session = store.files.session("", 8192);
                let mut mark = writer;
                while Instant::now() < until {
                    mark = mark.wrapping_add(2);
                    session.set("a", &[&vec![mark; 1000 + usize::from(mark) * 16]], None).unwrap();
                }
            });
        }
        let session = store.files.session("", 8192);
        while Instant::now() < until {
            let value = get(&session, "a").unwrap();
            assert!(value.iter().all(|byte| *byte == value[0]));
            assert!(value[0] == 0 || value.len() == 1000 + usize::from(value[0]) * 16);
        }
    });
    assert_eq!(place.names(""), ["a"]);
}

#[cfg(unix)] // on Windows the store waits for no turns
#[test]
fn waiting_for_a_turn_ends_with_the_value() {
    let place = Place::new();
    let store = place.store();
    store.set("a", &[b"1"], None).unwrap();
    let held = store.open_for_change("a").unwrap().unwrap();
    let (begun, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begun.store(1, Ordering::SeqCst);
            let mut value = store.open_for_change("a").unwrap().unwrap();
            assert_eq!(all(&mut *value).unwrap(), b"2");
            done.store(1, Ordering::SeqCst);
        });
        while begun.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(done.load(Ordering::SeqCst), 0);
        store.set("a", &[b"2"], None).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(done.load(Ordering::SeqCst), 0, "the lock goes with the value, not with its name");
        drop(held);
    });
    assert_eq!(done.load(Ordering::SeqCst), 1);
}

#[test]
fn a_killed_writer_leaves_a_whole_value_and_no_lock() {
    if let Some(path) = std::env::var_os("LOCAL_FILES_CHILD") {
        let store = store_below(Path::new(&path));
        let session = store.files.session("", 100_000);
        for mark in (0..=255_u8).cycle() {
            session.set("a", &[&vec![mark; 100_000]], None).unwrap();
        }
    }
    let place = Place::new();
    let store = place.store();
    for round in 0..20 {
        let mut child = this_program()
            .args(["--exact", "writers::a_killed_writer_leaves_a_whole_value_and_no_lock", "--nocapture"])
            .env("LOCAL_FILES_CHILD", &place.0)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while !place.path("a").exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(1000 + 371 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let value = get(&*store, "a").unwrap();
        assert!(value.len() == 100_000 && value.iter().all(|byte| *byte == value[0]));
        store.set("a", &[b"mine"], None).unwrap();
        fs::remove_file(place.path("a")).unwrap();
        assert!(place.names("").iter().all(|name| name.starts_with(".tegula-") && name.ends_with(".tmp")));
    }
}

#[test]
fn what_is_deleted_is_so_while_other_writers_wait() {
    let place = Place::new();
    let store = place.store();
    fs::create_dir(place.path("c")).unwrap();
    fs::write(place.path("c/0"), b"old").unwrap();
    let written = std::thread::scope(|scope| {
        let mut writer = None;
        let done = store.files.delete_all(keys(&["c/0"]), &mut || {
            let other = &store;
            writer = Some(scope.spawn(move || other.set("c/0", &[b"new"], None)));
            std::thread::sleep(Duration::from_millis(50));
            Ok(fs::read(place.path("c/0")).unwrap() == b"old")
        });
        assert!(done.unwrap());
        writer.unwrap().join().unwrap()
    });
    written.unwrap();
    assert_eq!(fs::read(place.path("c/0")).unwrap(), b"new");
}

#[cfg(windows)]
#[test]
fn a_writer_waits_for_the_file_that_locks_a_directory_and_removes_it() {
    let place = Place::new();
    let store = place.store();
    let file = fs::File::options().read(true).write(true).create_new(true).open(place.path(".tegula-lock")).unwrap();
    file.lock().unwrap();
    assert!(matches!(store.set("a", &[b"x"], None), Err(Error::Unusual)), "a long wait is left to others");
    assert_eq!(place.names(""), [".tegula-lock"], "nothing else is left");
    drop(file);
    store.set("a", &[b"x"], None).unwrap();
    assert_eq!(place.names(""), ["a"]);
}
