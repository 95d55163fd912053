//! Each system call of the local store fails, or does less than it could: afterwards the old value is there, or the new
//! one.
#![cfg(any(target_os = "linux", target_os = "macos", windows))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // in what the tests share

use std::fs;
#[cfg(unix)]
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::sync::atomic::AtomicI32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use tegula_kernel::stores::local::faults::{Fate, set_hook};
use tegula_kernel::stores::local::{LocalFiles, trial};
use tegula_kernel::stores::{Expected, Store};
use tegula_kernel::{Error, Result};

static COUNT: AtomicU64 = AtomicU64::new(0);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// The first of them do in wine, where each call takes milliseconds.
const ERRORS: [i32; 5] = [libc::ENOSPC, libc::EACCES, libc::EIO, libc::EMFILE, libc::EINTR];
const TRIED: usize = if cfg!(windows) { 2 } else { ERRORS.len() };
const OLD: &[u8] = b"what was there";
const NEW: &[u8] = b"what is to be there";

type Calls = Arc<Mutex<Vec<(&'static str, String)>>>;

/// A directory with the value of "a/old"; no other test sets a hook at the same time.
struct Place {
    path: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Place {
    fn new() -> Place {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = fs::canonicalize(std::env::temp_dir()).unwrap();
        let path = path.join(format!("local-faults-{}-{count}", std::process::id()));
        fs::create_dir_all(path.join("a")).unwrap();
        fs::write(path.join("a/old"), OLD).unwrap();
        // a time of whole microseconds, which is rare, would be left to others
        let time = UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
        fs::File::options().write(true).open(path.join("a/old")).unwrap().set_modified(time).unwrap();
        Place { path, _alone: alone }
    }

    fn store(&self, sync: bool) -> LocalFiles {
        let root = self.path.clone();
        let prepare = move |parent: &str| match fs::create_dir_all(root.join(parent)) {
            Ok(()) => Ok(true),
            Err(error) => Err(Error::Store { message: error.to_string() }),
        };
        let base = PathBuf::from(format!("{}{}", self.path.display(), std::path::MAIN_SEPARATOR));
        LocalFiles::new(base, sync, Box::new(prepare)).making_directories("a/old")
    }

    /// Run an operation while `fate` decides each call by number and name; return the calls, too.
    fn under<T>(
        &self,
        fate: impl Fn(usize, &str) -> Fate + Send + Sync + 'static,
        work: impl FnOnce() -> T,
    ) -> (T, Vec<(&'static str, String)>) {
        let (calls, root) = (Calls::default(), self.path.clone());
        let log = Arc::clone(&calls);
        set_hook(Some(Arc::new(move |call, path| {
            if Path::new(path).starts_with(&root) {
                let mut log = log.lock().unwrap();
                log.push((call, path.to_owned()));
                fate(log.len() - 1, call)
            } else {
                Fate::Happen
            }
        })));
        let result = work();
        set_hook(None);
        let calls = calls.lock().unwrap().clone();
        (result, calls)
    }

    fn value(&self, key: &str) -> Option<Vec<u8>> {
        fs::read(self.path.join(key)).ok()
    }

    /// Check that no temporary files and no locks are left.
    fn check(&self) {
        for directory in
            ["", "a", "a/first", "a/second"].map(|name| self.path.join(name)).iter().filter(|path| path.exists())
        {
            let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
            assert_eq!(names.filter(|name| name.as_encoded_bytes().starts_with(b".tegula")).count(), 0);
            #[cfg(unix)] // elsewhere the lock is one of the files
            {
                let file = fs::File::open(directory).unwrap();
                // SAFETY: the call touches no memory.
                assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }, 0);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        set_hook(None);
        let _ = fs::remove_dir_all(&self.path);
    }
}

type Work = fn(&LocalFiles) -> Result<()>;

fn read(store: &LocalFiles) -> Result<()> {
    let session = store.session("a/", 100);
    let Some(value) = session.open("a/old")? else { panic!("the value counts as missing") };
    let mut found = Vec::new();
    value.with_all(&mut |bytes| {
        found = bytes.to_vec();
        Ok(())
    })?;
    assert_eq!(found, OLD);
    value.generation().map(|_| ())
}

fn create(store: &LocalFiles) -> Result<()> {
    let session = store.session("a/", 100);
    session.set("a/new", &[NEW], Some(&Expected::Absent))
}

fn replace(store: &LocalFiles) -> Result<()> {
    let session = store.session("a/", 100);
    session.set("a/old", &[NEW], None)
}

fn nest(store: &LocalFiles) -> Result<()> {
    let session = store.session("a/", 100);
    session.set("a/first/0", &[NEW], None)?;
    session.set("a/second/0", &[NEW], None)
}

fn change(store: &LocalFiles) -> Result<()> {
    let session = store.session("a/", 100);
    let generation = match session.open_for_change("a/old")? {
        Some(value) => value.generation()?,
        None => panic!("the value counts as missing"),
    };
    session.set("a/old", &[NEW], Some(&generation))
}

fn delete(store: &LocalFiles) -> Result<()> {
    store.delete_all(["a/old".to_owned()].into_iter(), &mut || Ok(true)).map(|_| ())
}

fn remove(store: &LocalFiles) -> Result<()> {
    let session = store.session("a/", 100);
    let generation = session.open("a/old")?.map(|value| value.generation());
    let Some(generation) = generation else { panic!("the value counts as missing") };
    session.delete("a/old", Some(&generation?))
}

fn look(store: &LocalFiles) -> Result<()> {
    store.any(["a/none".to_owned(), "a/old".to_owned()].into_iter()).map(|found| assert!(found))
}

const WORKS: [(&str, Work); 8] = [
    ("read", read),
    ("create", create),
    ("nest", nest),
    ("replace", replace),
    ("change", change),
    ("delete", delete),
    ("remove", remove),
    ("look", look),
];

#[test]
fn a_call_that_fails_leaves_the_old_value_or_the_new_one() {
    for (name, work) in WORKS {
        for sync in [false, true] {
            for &code in &ERRORS[..TRIED] {
                let mut number = 0;
                let mut failures = 0;
                loop {
                    let place = Place::new();
                    let store = place.store(sync);
                    let fate = move |at, _: &str| if at == number { Fate::Fail(code) } else { Fate::Happen };
                    let (result, calls) = place.under(fate, || work(&store));
                    let at = format!("{name}, call {number}, error {code}: {result:?} after {calls:?}");
                    failures += usize::from(result.is_err());
                    match result {
                        Ok(()) | Err(Error::Unusual) => {}
                        Err(Error::System { errno, ref message }) => {
                            assert_eq!(errno, code, "{at}");
                            assert!(message.contains(place.path.to_str().unwrap()), "{at}");
                        }
                        Err(_) => panic!("{at}"),
                    }
                    place.check();
                    let old = place.value("a/old");
                    match name {
                        "nest" => assert!(place.value("a/second/0").is_none_or(|value| value == NEW), "{at}"),
                        "create" => assert!(place.value("a/new").is_none_or(|value| value == NEW), "{at}"),
                        "delete" | "remove" => assert!(old.is_none_or(|value| value == OLD), "{at}"),
                        "read" | "look" => assert_eq!(old.unwrap(), OLD, "{at}"),
                        _ => assert!(old.as_deref() == Some(OLD) || old.as_deref() == Some(NEW), "{at}"),
                    }
                    if calls.len() <= number {
                        break;
                    }
                    number += 1;
                }
                assert!(number > 1, "{name}: {number} calls");
                assert!(failures > 0, "{name} with {code} has never failed");
            }
        }
    }
}

#[test]
fn reads_and_writes_that_a_signal_ends_are_tried_again() {
    for (name, work) in WORKS {
        let place = Place::new();
        let store = place.store(true);
        let fate = |at, call: &str| {
            if at % 2 == 0 && ["read", "write", "fsync"].contains(&call) {
                Fate::Fail(libc::EINTR)
            } else {
                Fate::Happen
            }
        };
        let (result, calls) = place.under(fate, || work(&store));
        result.unwrap_or_else(|error| panic!("{name}: {error} after {calls:?}"));
        place.check();
    }
}

#[test]
fn writes_that_do_less_are_gone_on_with_unless_they_do_nothing() {
    for (work, key) in [(create as Work, "a/new"), (replace, "a/old"), (change, "a/old")] {
        for most in [1, 3, 0] {
            let place = Place::new();
            let store = place.store(false);
            let before = place.value(key);
            let fate = move |_, call: &str| if call == "write" { Fate::Short(most) } else { Fate::Happen };
            let (result, calls) = place.under(fate, || work(&store));
            if most > 0 {
                result.unwrap();
                assert_eq!(place.value(key).unwrap(), NEW);
                assert!(calls.iter().filter(|(call, _)| *call == "write").count() * most >= NEW.len());
            } else {
                assert!(matches!(result, Err(Error::System { errno: libc::EIO, .. })), "{result:?}");
                assert_eq!(place.value(key), before);
            }
            place.check();
        }
    }
}

#[test]
fn reads_of_some_pages_are_gone_on_with() {
    let place = Place::new();
    let value: Vec<u8> = (0..50_000_u32).map(|number| (number % 251) as u8).collect();
    fs::write(place.path.join("a/long"), &value).unwrap();
    let store = place.store(false);
    let fate = |_, call: &str| if call == "read" { Fate::Short(8192) } else { Fate::Happen };
    let ((), calls) = place.under(fate, || {
        let session = store.session("a/", 100);
        let opened = session.open("a/long").unwrap().unwrap();
        let mut found = Vec::new();
        let mut keep = |bytes: &[u8]| {
            found = bytes.to_vec();
            Ok(())
        };
        opened.with_all(&mut keep).unwrap();
        assert!(found == value);
        let mut part = vec![0; 30_000];
        assert_eq!(opened.read_at(7, &mut part).unwrap(), part.len());
        assert!(part == value[7..30_007]);
    });
    assert!(calls.iter().filter(|(call, _)| *call == "read").count() >= 10);
}

#[test]
fn a_file_is_synced_before_it_has_its_name_and_the_name_after() {
    for work in [create as Work, replace, change] {
        let place = Place::new();
        let store = place.store(true);
        let (result, calls) = place.under(|_, _| Fate::Happen, || work(&store));
        result.unwrap();
        let directory = place.path.join("a");
        let named = calls.iter().rposition(|(call, _)| ["linkat", "renameat"].contains(call)).unwrap();
        let wrote = calls.iter().rposition(|(call, _)| *call == "write").unwrap();
        let syncs: Vec<_> = (0..calls.len()).filter(|at| calls[*at].0 == "fsync").collect();
        assert_eq!(syncs.len(), 2, "{calls:?}");
        assert!(wrote < syncs[0] && syncs[0] < named && named < syncs[1], "{calls:?}");
        assert_eq!(Path::new(&calls[syncs[1]].1), directory);
    }
}

#[test]
fn a_directory_whose_name_is_not_synced_is_made_anew() {
    let place = Place::new();
    let store = place.store(true);
    store.session("", 100).set("a/first/0", &[NEW], None).unwrap();
    let write = || store.session("", 100).set("a/second/0", &[NEW], None);
    let fate = |_, call: &str| if call == "fsync" { Fate::Fail(libc::EIO) } else { Fate::Happen };
    let (result, calls) = place.under(fate, write);
    assert!(matches!(result, Err(Error::System { errno: libc::EIO, .. })), "{result:?} after {calls:?}");
    assert!(!place.path.join("a/second").exists());
    let (result, calls) = place.under(|_, _| Fate::Happen, write);
    result.unwrap();
    let above = |(call, path): &(_, String)| *call == "fsync" && Path::new(path) == place.path.join("a");
    assert!(calls.iter().any(above), "{calls:?}");
}

#[cfg(unix)]
#[test]
fn a_child_that_is_forked_during_a_write_does_not_keep_the_new_file_locked() {
    for (name, work) in [("replace", replace as Work), ("change", change)] {
        let place = Place::new();
        let store = place.store(false);
        let child = Arc::new(AtomicI32::new(0));
        let forked = Arc::clone(&child);
        let fate = move |_, call: &str| {
            if call == "renameat" {
                // SAFETY: the child calls nothing but functions that a signal handler may call as well.
                match unsafe { libc::fork() } {
                    // SAFETY: as above.
                    0 => unsafe {
                        libc::sleep(60);
                        libc::_exit(0);
                    },
                    child => forked.store(child, Ordering::SeqCst),
                }
            }
            Fate::Happen
        };
        let (result, calls) = place.under(fate, || work(&store));
        let file = fs::File::open(place.path.join("a/old")).unwrap();
        // SAFETY: the call touches no memory.
        let free = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 };
        let child = child.load(Ordering::SeqCst);
        assert!(child > 0, "{name}: {result:?} after {calls:?}");
        // SAFETY: the child was started here and has not been waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        result.unwrap();
        assert!(free, "{name} after {calls:?}");
    }
}

#[cfg(unix)]
#[test]
fn what_a_dead_writer_left_keeps_no_directory_from_going() {
    for (name, alive) in [(".tegula-1-0.tmp", false), (".tegula-1-0.tmp", true), (".tegula-lock", true)] {
        let place = Place::new();
        let left = fs::File::create(place.path.join("a").join(name)).unwrap();
        if alive {
            // SAFETY: the call touches no memory.
            assert_eq!(unsafe { libc::flock(left.as_raw_fd(), libc::LOCK_EX) }, 0);
        }
        delete(&place.store(false)).unwrap();
        assert_eq!(place.path.join("a").exists(), alive);
        assert!(!place.path.join("a/old").exists());
    }
}

#[test]
fn without_a_hook_none_is_asked() {
    let place = Place::new();
    let store = place.store(false);
    let calls = Calls::default();
    let log = Arc::clone(&calls);
    set_hook(Some(Arc::new(move |call, path| {
        log.lock().unwrap().push((call, path.to_owned()));
        Fate::Happen
    })));
    read(&store).unwrap();
    set_hook(None);
    let count = calls.lock().unwrap().len();
    assert!(count > 0);
    read(&store).unwrap();
    assert_eq!(calls.lock().unwrap().len(), count);
}

#[test]
fn the_trial_fails_if_a_call_does_and_leaves_nothing() {
    let place = Place::new();
    let (passed, calls) = place.under(|_, _| Fate::Happen, || trial::passes(&place.path));
    assert!(passed && calls.len() > 40, "{passed} after {} calls", calls.len());
    let mut failed = 0;
    for (number, call) in calls.iter().enumerate() {
        let fate = move |now, _: &str| if now == number { Fate::Fail(libc::EIO) } else { Fate::Happen };
        let (passed, _) = place.under(fate, || trial::passes(&place.path));
        failed += usize::from(!passed);
        let left: Vec<_> = fs::read_dir(&place.path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["a"], "{call:?}");
    }
    // what only saves work, such as a hint to the disk, may fail
    assert!(failed * 2 > calls.len(), "{failed} of {}", calls.len());
}
