//! Locks on local files: the store waits for the locks of others, and releases its own after use.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // in what the tests share

mod local_files;

use std::fs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use local_files::Whole;
use tegula_kernel::Error;
use tegula_kernel::stores::Store;
use tegula_kernel::stores::local::LocalFiles;

static COUNT: AtomicU64 = AtomicU64::new(0);

fn place() -> (PathBuf, Whole) {
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("local-locks-{}-{count}", std::process::id()));
    fs::create_dir(&path).unwrap();
    let store = LocalFiles::new(PathBuf::from(format!("{}/", path.display())), false, Box::new(|_| Ok(true)));
    (path, Whole::new(store))
}

fn lock(file: &fs::File, operation: i32) -> bool {
    // SAFETY: the call touches no memory.
    unsafe { libc::flock(file.as_raw_fd(), operation) == 0 }
}

#[test]
fn a_writer_waits_while_another_has_the_directory_locked() {
    let (path, store) = place();
    let directory = fs::File::open(&path).unwrap();
    let session = store.files.session("", 100);
    for key in ["new", "new", "other"] {
        assert!(lock(&directory, libc::LOCK_EX));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                session.set(key, &[b"x"], None).unwrap();
                done.store(true, Ordering::SeqCst);
            });
            std::thread::sleep(Duration::from_millis(50));
            assert!(!done.load(Ordering::SeqCst));
            assert!(lock(&directory, libc::LOCK_UN));
        });
        assert!(done.load(Ordering::SeqCst));
        assert!(lock(&directory, libc::LOCK_EX | libc::LOCK_NB), "the lock was given up");
        assert!(lock(&directory, libc::LOCK_UN));
    }
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_long_wait_is_left_to_the_slow_way() {
    let (path, store) = place();
    let directory = fs::File::open(&path).unwrap();
    assert!(lock(&directory, libc::LOCK_EX));
    assert!(matches!(store.set("a", &[b"x"], None), Err(Error::Unusual)));
    assert!(lock(&directory, libc::LOCK_UN));
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "nothing is left");
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_value_that_stays_locked_can_be_changed_all_the_same() {
    let (path, store) = place();
    store.set("a", &[b"x"], None).unwrap();
    let file = fs::File::open(path.join("a")).unwrap();
    assert!(lock(&file, libc::LOCK_EX));
    let value = store.open_for_change("a").unwrap().unwrap();
    store.set("a", &[b"y"], Some(&value.generation().unwrap())).unwrap();
    assert_eq!(fs::read(path.join("a")).unwrap(), b"y");
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_rounded_time_is_left_to_the_slow_way() {
    let (path, store) = place();
    store.set("a", &[b"x"], None).unwrap();
    assert!(store.open("a").unwrap().unwrap().generation().is_ok());
    let whole = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    fs::File::options().write(true).open(path.join("a")).unwrap().set_modified(whole).unwrap();
    assert!(matches!(store.open("a").unwrap().unwrap().generation(), Err(Error::Unusual)));
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_turn_ends_although_a_forked_child_has_the_file_open() {
    let (path, store) = place();
    store.set("a", &[b"x"], None).unwrap();
    let held = store.open_for_change("a").unwrap().unwrap();
    let file = fs::File::open(path.join("a")).unwrap();
    assert!(!lock(&file, libc::LOCK_EX | libc::LOCK_NB));
    // SAFETY: the child calls nothing but functions that a signal handler may call as well.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe {
            libc::sleep(60);
            libc::_exit(0);
        }
    }
    assert!(child > 0);
    drop(held);
    let free = lock(&file, libc::LOCK_EX | libc::LOCK_NB);
    // SAFETY: the child was started here and has not been waited for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert!(free);
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_temporary_file_that_is_being_written_is_locked() {
    let (path, store) = place();
    store.set("a", &[b"x"], None).unwrap();
    let large = vec![1; 16 << 20];
    let done = AtomicBool::new(false);
    let until = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let session = store.files.session("", 100);
            session.set("a", &[b"y"], None).unwrap(); // from now on it expects to replace
            while !done.load(Ordering::SeqCst) && Instant::now() < until {
                session.set("a", &[&large], None).unwrap();
            }
        });
        while !done.load(Ordering::SeqCst) && Instant::now() < until {
            for entry in fs::read_dir(&path).unwrap().flatten() {
                let name = entry.file_name().into_string().unwrap();
                // The file is locked before anything is written to it.
                let begun = entry.metadata().is_ok_and(|found| found.len() > 0);
                if name.starts_with(".tegula-") && begun {
                    let locked =
                        fs::File::open(entry.path()).is_ok_and(|file| !lock(&file, libc::LOCK_SH | libc::LOCK_NB));
                    done.fetch_or(locked && entry.path().exists(), Ordering::SeqCst);
                }
            }
        }
    });
    assert!(done.load(Ordering::SeqCst));
    fs::remove_dir_all(path).unwrap();
}
