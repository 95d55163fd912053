//! Values belong to one node: whatever takes its place at any moment, a read returns values of one directory in one
//! state, and a write never lands in another one.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // in what the tests share

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use tegula_kernel::stores::local::faults::{Fate, set_hook};
use tegula_kernel::stores::local::{Found, LocalFiles, Session};
use tegula_kernel::stores::{Expected, Generation, Store};
use tegula_kernel::{Error, Result};

static COUNT: AtomicU64 = AtomicU64::new(0);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
const DOCUMENT: &str = "zarr.json";
const NEW: &[u8] = b"what is to be there";
/// More than the time for which a directory stays open.
const PAUSE: Duration = Duration::from_millis(3);

/// What another program does to the node at some moment; gets the directory that both nodes are in.
type Deed = fn(&Path);
type Files = BTreeMap<String, Vec<u8>>;

/// Counts the steps of an operation, and does deeds before some of them.
struct Steps {
    root: PathBuf,
    done: Mutex<Vec<(&'static str, String)>>,
    deeds: Vec<(usize, Deed)>,
}

impl Steps {
    fn take(&self, step: &'static str, path: &str) {
        let number = {
            let mut done = self.done.lock().unwrap();
            done.push((step, path.to_owned()));
            done.len() - 1
        };
        for (_, deed) in self.deeds.iter().filter(|(at, _)| *at == number) {
            deed(&self.root);
        }
    }
}

static STEPS: Mutex<Option<Arc<Steps>>> = Mutex::new(None);

/// Run an operation with deeds before its steps, which are its system calls and the reads of the document; return the
/// steps, too.
fn during<T>(root: &Path, deeds: &[(usize, Deed)], work: impl FnOnce() -> T) -> (T, Vec<(&'static str, String)>) {
    let steps = Arc::new(Steps { root: root.to_owned(), done: Mutex::default(), deeds: deeds.to_vec() });
    *STEPS.lock().unwrap() = Some(Arc::clone(&steps));
    let taken = Arc::clone(&steps);
    set_hook(Some(Arc::new(move |call, path| {
        if Path::new(path).starts_with(&taken.root) {
            taken.take(call, path);
        }
        Fate::Happen
    })));
    let result = work();
    set_hook(None);
    *STEPS.lock().unwrap() = None;
    let done = steps.done.lock().unwrap().clone();
    (result, done)
}

fn step(name: &'static str, path: &Path) {
    let steps = STEPS.lock().unwrap().clone();
    if let Some(steps) = steps {
        steps.take(name, path.to_str().unwrap());
    }
}

/// Two directories, "node" and "other"; no other test runs at the same time.
struct World {
    root: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl World {
    /// Make them; the document of the other one describes the node as well if it is a `copy`.
    fn new(copy: bool) -> World {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // in memory if possible, since thousands of them are made
        let memory = PathBuf::from("/dev/shm");
        let root = fs::canonicalize(if memory.is_dir() { memory } else { std::env::temp_dir() }).unwrap();
        let root = root.join(format!("local-nodes-{}-{count}", std::process::id()));
        for (name, mark, chunks) in [("node", "A", &["0", "1"][..]), ("other", "B", &["0", "1", "2", "5"])] {
            let place = root.join(name);
            fs::create_dir_all(place.join("c")).unwrap();
            fs::write(place.join("mark"), mark).unwrap();
            fs::write(place.join(DOCUMENT), if copy { "A" } else { mark }).unwrap();
            for chunk in chunks {
                let path = place.join("c").join(chunk);
                fs::write(&path, format!("{mark}{chunk}")).unwrap();
                // a time of whole microseconds, which is rare, would be left to others
                let time = UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
                fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
            }
        }
        World { root, _alone: alone }
    }

    /// A store of the node; the document describes it if it begins with "A".
    fn files(&self) -> LocalFiles {
        files_of(&self.root, "node")
    }

    /// The files of the directory that was made with a mark, wherever it is now, and its empty directories.
    fn find(&self, mark: &str) -> Option<Files> {
        let places = fs::read_dir(&self.root).unwrap().map(|entry| entry.unwrap().path());
        let mut found = places.filter(|place| fs::read(place.join("mark")).is_ok_and(|found| found == mark.as_bytes()));
        found.next().map(|place| files_below(&place))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        set_hook(None);
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn files_of(root: &Path, name: &str) -> LocalFiles {
    let (prefix, document) = (format!("{name}/"), format!("{name}/{DOCUMENT}"));
    let (above, path) = (root.to_owned(), root.join(&document));
    let gone = || Error::Store { message: "gone".into() };
    let (at, key) = (path.clone(), document.clone());
    let prepare = move |parent: &str| {
        step("prepare", &at);
        if !at.exists() {
            return Err(gone());
        }
        fs::create_dir_all(above.join(parent)).map(|()| true).map_err(|_| gone())
    };
    let confirm = move |replaced: bool| {
        let wrong = || Error::Store { message: "replaced".into() };
        step("confirm", &path);
        if replaced {
            return Err(wrong());
        }
        let mut file = fs::File::open(&path).map_err(|_| gone())?;
        let mut text = String::new();
        std::io::Read::read_to_string(&mut file, &mut text).unwrap();
        let found = file.metadata().unwrap();
        step("confirmed", &path);
        let time = found.mtime() * 1_000_000_000 + found.mtime_nsec();
        let generation = Generation([found.ino(), time as u64, found.len()]);
        let found = Found { key: key.clone(), generation, shape: Vec::new() };
        if text.starts_with('A') { Ok(found) } else { Err(wrong()) }
    };
    let base = PathBuf::from(format!("{}/", root.display()));
    let files = LocalFiles::new(base, false, Box::new(prepare)).making_directories(&document);
    files.of_node(&document, &prefix, Box::new(confirm))
}

fn files_below(place: &Path) -> Files {
    let mut found = Files::new();
    let mut waiting = vec![place.to_owned()];
    while let Some(directory) = waiting.pop() {
        let entries: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        let name = |path: &Path| path.strip_prefix(place).unwrap().to_str().unwrap().to_owned();
        if entries.is_empty() {
            found.insert(name(&directory) + "/", Vec::new());
        }
        for path in entries {
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.insert(name(&path), fs::read(&path).unwrap());
            }
        }
    }
    found
}

// Deeds.

fn exchange(root: &Path) {
    let path = |name: &str| CString::new(root.join(name).to_str().unwrap()).unwrap();
    let (node, other) = (path("node"), path("other"));
    let here = libc::AT_FDCWD;
    // SAFETY: both paths end with a NUL.
    let code =
        unsafe { libc::syscall(libc::SYS_renameat2, here, node.as_ptr(), here, other.as_ptr(), libc::RENAME_EXCHANGE) };
    assert_eq!(code, 0);
}

fn replace(root: &Path) {
    move_away(root);
    fs::rename(root.join("other"), root.join("node")).unwrap();
}

fn move_away(root: &Path) {
    fs::rename(root.join("node"), root.join("away")).unwrap();
}

fn move_back(root: &Path) {
    fs::rename(root.join("away"), root.join("node")).unwrap();
}

fn remove(root: &Path) {
    fs::remove_dir_all(root.join("node")).unwrap();
}

fn put(path: &Path, value: &str) {
    let new = path.with_extension("new");
    fs::write(&new, value).unwrap();
    fs::rename(new, path).unwrap();
}

/// Store the document and the chunks of another node in the same directory.
fn redescribe(root: &Path) {
    put(&root.join("node").join(DOCUMENT), "B");
    std::thread::sleep(Duration::from_millis(1)); // storing a chunk takes longer than a check is believed
    for chunk in ["0", "1", "2"] {
        put(&root.join("node/c").join(chunk), &format!("B{chunk}"));
    }
}

/// Store the document of another node in the same directory.
fn rename_document(root: &Path) {
    put(&root.join("node").join(DOCUMENT), "B");
}

/// Store the document with other attributes.
fn rewrite(root: &Path) {
    put(&root.join("node").join(DOCUMENT), "A with attributes");
}

const REPLACEMENTS: [(&str, Deed); 5] =
    [("exchange", exchange), ("replace", replace), ("move", move_away), ("remove", remove), ("redescribe", redescribe)];
const RETURNS: [(&str, Deed, Deed); 2] = [("exchange", exchange, exchange), ("move", move_away, move_back)];

// Operations.

/// Call `work` in a new session until it is of one node, as the users of the store do.
fn repeated<'f, T>(files: &'f LocalFiles, reads: bool, work: impl Fn(&Session<'f>) -> Result<T>) -> Result<T> {
    for _ in 0..50 {
        let session = if reads { files.reading("", 100) } else { files.writing("", 100) };
        match work(&session?) {
            Err(error) if error.is_change() => {}
            done => return done,
        }
    }
    panic!("the node changes again and again")
}

type Values = Vec<Option<String>>;

fn read(files: &LocalFiles, chunks: &[&str]) -> Result<Values> {
    repeated(files, true, |session| {
        let values: Result<Values> = chunks.iter().map(|chunk| value(session, chunk)).collect();
        let absent = values.as_ref().is_ok_and(|values| values.contains(&None));
        session.check(absent).and(values)
    })
}

fn value(session: &Session<'_>, chunk: &str) -> Result<Option<String>> {
    let Some(value) = session.open(&format!("node/c/{chunk}"))? else { return Ok(None) };
    let mut found = String::new();
    value.with_all(&mut |bytes| {
        found = String::from_utf8(bytes.to_vec()).unwrap();
        Ok(())
    })?;
    Ok(Some(found))
}

const WHOLE: &[&str] = &["0", "1"];
const SPARSE: &[&str] = &["0", "2", "1"];

fn values(mark: &str, chunks: &[&str]) -> Values {
    chunks.iter().map(|chunk| (mark == "B" || *chunk != "2").then(|| format!("{mark}{chunk}"))).collect()
}

type Write = fn(&Session<'_>) -> Result<()>;

fn set(session: &Session<'_>) -> Result<()> {
    session.set("node/c/0", &[NEW], None)
}

fn create(session: &Session<'_>) -> Result<()> {
    session.set("node/c/5", &[NEW], Some(&Expected::Absent))
}

fn nest(session: &Session<'_>) -> Result<()> {
    session.set("node/d/0/0", &[NEW], None)
}

fn change(session: &Session<'_>) -> Result<()> {
    let Some(old) = session.open_for_change("node/c/0")? else { return Err(Error::Absent) };
    session.set("node/c/0", &[NEW], Some(&old.generation()?))
}

fn delete(session: &Session<'_>) -> Result<()> {
    session.delete("node/c/0", None)
}

fn delete_known(session: &Session<'_>) -> Result<()> {
    let Some(old) = session.open("node/c/0")? else { return Err(Error::Absent) };
    session.delete("node/c/0", Some(&old.generation()?))
}

/// Names, operations, the file that they change, and what it holds afterwards.
const WRITES: [(&str, Write, &str, Option<&[u8]>); 6] = [
    ("set", set, "c/0", Some(NEW)),
    ("create", create, "c/5", Some(NEW)),
    ("nest", nest, "d/0/0", Some(NEW)),
    ("change", change, "c/0", Some(NEW)),
    ("delete", delete, "c/0", None),
    ("delete known", delete_known, "c/0", None),
];

fn write(files: &LocalFiles, work: Write) -> Result<()> {
    repeated(files, false, |session| {
        session.check(false)?;
        work(session).or_else(|error| session.check(false).and(Err(error)))
    })
}

/// What a store knows before an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Nothing,
    State,
    /// The directory is open, unless the thread has to wait just then.
    Open,
}

fn prepare(world: &World, files: &LocalFiles, before: Before) {
    match before {
        Before::Nothing => {}
        Before::State => assert_eq!(read(files, WHOLE).unwrap(), values("A", WHOLE)),
        Before::Open => read_until(files, || open_directories(&world.root) > 0),
    }
}

fn read_until(files: &LocalFiles, done: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !done() {
        for _ in 0..40 {
            read(files, WHOLE).unwrap();
        }
        assert!(Instant::now() < until);
    }
}

/// How many directories right below a directory this process has open.
fn open_directories(root: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    links.filter(|path| path.parent() == Some(root)).count()
}

const STATES: [Before; 3] = [Before::Nothing, Before::State, Before::Open];

/// Call `test` with each number of a step, as long as it returns how many steps there were.
fn each_step(mut test: impl FnMut(usize) -> usize) {
    let mut number = 0;
    while test(number) > number {
        number += 1;
    }
    assert!(number > 3, "there were {number} steps");
}

// Laws.

#[test]
fn a_read_is_of_one_directory_whatever_takes_its_place() {
    for (name, deed) in REPLACEMENTS {
        for before in STATES {
            for (chunks, copy) in [(WHOLE, false), (WHOLE, true), (SPARSE, false), (SPARSE, true)] {
                each_step(|number| {
                    let world = World::new(copy);
                    let files = world.files();
                    prepare(&world, &files, before);
                    let (found, steps) = during(&world.root, &[(number, deed)], || read(&files, chunks));
                    let at = format!("{name} before step {number} of {steps:?}, {before:?}, copy: {copy}: {found:?}");
                    // the first operation may find the copy, since nothing is known of the node
                    let may_be_copy = copy && before == Before::Nothing && name != "redescribe";
                    if let Ok(found) = &found {
                        let allowed = *found == values("A", chunks) || (may_be_copy && *found == values("B", chunks));
                        assert!(allowed, "{at}");
                    }
                    // a directory that was replaced before may not say that a value is missing
                    assert!(number > 0 || chunks == WHOLE || may_be_copy || found.is_err(), "{at}");
                    if steps.len() <= number {
                        assert!(found.is_ok(), "{at}");
                        return steps.len();
                    }
                    // afterwards nothing of the old directory is believed
                    std::thread::sleep(PAUSE);
                    match read(&files, chunks) {
                        Ok(later) => assert!(may_be_copy && later == values("B", chunks), "{at}; later: {later:?}"),
                        Err(Error::Store { .. }) => {}
                        Err(error) => panic!("{at}; later: {error}"),
                    }
                    steps.len()
                });
            }
        }
    }
}

#[test]
fn a_directory_that_comes_back_is_read_as_if_it_had_stayed() {
    for (name, away, back) in RETURNS {
        for before in STATES {
            for (chunks, copy) in [(WHOLE, false), (SPARSE, false), (SPARSE, true)] {
                for later in 1..4 {
                    each_step(|number| {
                        let world = World::new(copy);
                        let files = world.files();
                        prepare(&world, &files, before);
                        let deeds = [(number, away), (number + later, back)];
                        let (found, steps) = during(&world.root, &deeds, || read(&files, chunks));
                        let at =
                            format!("{name}, steps {number} and {later} later of {steps:?}, {before:?}: {found:?}");
                        let may_be_copy = copy && before == Before::Nothing;
                        match found {
                            Ok(found) if may_be_copy && found == values("B", chunks) => {}
                            Ok(found) => assert_eq!(found, values("A", chunks), "{at}"),
                            Err(Error::Store { .. }) => {}
                            Err(_) => panic!("{at}"),
                        }
                        if number < steps.len() && steps.len() <= number + later {
                            back(&world.root);
                        }
                        std::thread::sleep(PAUSE);
                        if !may_be_copy {
                            assert_eq!(read(&files, chunks).unwrap(), values("A", chunks), "{at}");
                        }
                        steps.len()
                    });
                }
            }
        }
    }
}

/// Check what a write has done: all of it to its own directory, or nothing, and nothing to the other one, where no more
/// than empty directories may be left if it was in the place of the node for a moment.
fn check_write(
    world: &World,
    old: &(Files, Files),
    result: &Result<()>,
    (file, new): (&str, Option<&[u8]>),
    for_a_moment: bool,
    at: &str,
) {
    let mut other = world.find("B").unwrap();
    other.retain(|name, _| !(for_a_moment && name.ends_with('/')));
    assert_eq!(other, old.1, "{at}");
    let Some(found) = world.find("A") else { return };
    let mut expected = old.0.clone();
    if result.is_ok() {
        match new {
            Some(new) => expected.insert(file.to_owned(), new.to_owned()),
            None => expected.remove(file),
        };
    }
    assert_eq!(found, expected, "{at}");
}

#[test]
fn a_write_never_lands_in_another_directory() {
    for (name, deed) in REPLACEMENTS.into_iter().filter(|(name, _)| *name != "redescribe") {
        for (operation, work, file, new) in WRITES {
            for (before, copy) in [(Before::Nothing, false), (Before::State, false), (Before::State, true)] {
                each_step(|number| {
                    let world = World::new(copy);
                    let files = world.files();
                    prepare(&world, &files, before);
                    let old = (world.find("A").unwrap(), world.find("B").unwrap());
                    let (result, steps) = during(&world.root, &[(number, deed)], || write(&files, work));
                    let at = format!("{operation}, {name} before step {number} of {steps:?}, {before:?}: {result:?}");
                    check_write(&world, &old, &result, (file, new), false, &at);
                    assert!(number < steps.len() || result.is_ok(), "{at}");
                    steps.len()
                });
            }
        }
    }
}

#[test]
fn a_write_lands_in_a_directory_that_comes_back_or_not_at_all() {
    for (name, away, back) in RETURNS {
        for (operation, work, file, new) in WRITES {
            for (later, copy) in [(1, false), (2, false), (3, false), (1, true), (3, true)] {
                each_step(|number| {
                    let world = World::new(copy);
                    let files = world.files();
                    prepare(&world, &files, Before::State);
                    let old = (world.find("A").unwrap(), world.find("B").unwrap());
                    let deeds = [(number, away), (number + later, back)];
                    let (result, steps) = during(&world.root, &deeds, || write(&files, work));
                    let at = format!("{operation}, {name}, steps {number} and {later} later of {steps:?}: {result:?}");
                    check_write(&world, &old, &result, (file, new), true, &at);
                    steps.len()
                });
            }
        }
    }
}

#[test]
fn no_value_is_put_below_a_document_that_was_replaced_before_the_last_look() {
    for (operation, work, file, new) in WRITES {
        let mut refused = 0;
        each_step(|number| {
            let world = World::new(false);
            let files = world.files();
            prepare(&world, &files, Before::State);
            let mut old = (world.find("A").unwrap(), world.find("B").unwrap());
            let (result, steps) = during(&world.root, &[(number, rename_document as Deed)], || write(&files, work));
            let at = format!("{operation} before step {number} of {steps:?}: {result:?}");
            if number < steps.len() {
                old.0.insert(DOCUMENT.into(), b"B".to_vec());
            }
            check_write(&world, &old, &result, (file, new), false, &at);
            // another writer that takes the lock sees the value, or this one sees the new document
            if result.is_ok() {
                let look =
                    steps.iter().rposition(|(call, path)| *call == "fstatat" && path.ends_with(DOCUMENT)).unwrap();
                let puts = ["linkat", "renameat", "unlinkat"];
                let put = steps.iter().rposition(|(call, _)| puts.contains(call)).unwrap();
                let locks: Vec<_> = (0..steps.len()).filter(|at| steps[*at].0 == "flock").collect();
                let directory = world.root.join("node").join(file);
                let locked = |at: &&usize| Path::new(&steps[**at].1) == directory.parent().unwrap();
                let locks: Vec<_> = locks.iter().filter(locked).collect();
                assert!(*locks[locks.len() - 2] < look && look < put && put < *locks[locks.len() - 1], "{at}");
                assert!(look < number, "{at}");
            } else {
                assert!(matches!(&result, Err(Error::Store { message }) if message == "replaced"), "{at}");
                refused += 1;
            }
            steps.len()
        });
        assert!(refused > 3, "{operation}");
    }
}

#[test]
fn an_operation_goes_on_below_a_document_that_still_describes_the_node() {
    for before in STATES {
        each_step(|number| {
            let world = World::new(false);
            let files = world.files();
            prepare(&world, &files, before);
            let (found, steps) = during(&world.root, &[(number, rewrite as Deed)], || read(&files, SPARSE));
            assert_eq!(found.unwrap(), values("A", SPARSE), "before step {number} of {steps:?}");
            steps.len()
        });
    }
    for (operation, work, file, new) in WRITES {
        each_step(|number| {
            let world = World::new(false);
            let files = world.files();
            prepare(&world, &files, Before::State);
            let mut old = (world.find("A").unwrap(), world.find("B").unwrap());
            let (result, steps) = during(&world.root, &[(number, rewrite as Deed)], || write(&files, work));
            let at = format!("{operation} before step {number} of {steps:?}: {result:?}");
            assert!(result.is_ok(), "{at}");
            if number < steps.len() {
                old.0.insert(DOCUMENT.into(), b"A with attributes".to_vec());
            }
            check_write(&world, &old, &result, (file, new), false, &at);
            steps.len()
        });
    }
}

#[test]
fn a_session_is_told_of_a_change_once() {
    let world = World::new(false);
    let files = world.files();
    let session = files.reading("", 100).unwrap();
    assert_eq!(value(&session, "0").unwrap().unwrap(), "A0");
    rewrite(&world.root);
    assert!(session.check(false).unwrap_err().is_change());
    files.reading("", 100).unwrap().check(true).unwrap();
    let session = files.writing("", 100).unwrap();
    rename_document(&world.root);
    for work in [set as Write, create, nest, delete] {
        assert!(matches!(work(&session), Err(Error::Store { message }) if message == "replaced"));
    }
    for check in [true, false] {
        assert!(matches!(session.check(check), Err(Error::Store { message }) if message == "replaced"));
    }
}

#[test]
fn a_write_gives_up_below_a_document_that_keeps_changing() {
    for (operation, work, file, _) in WRITES {
        let world = World::new(false);
        let files = world.files();
        prepare(&world, &files, Before::State);
        let old = world.find("A").unwrap().get(file).cloned();
        let session = files.writing("", 100).unwrap();
        let root = world.root.clone();
        set_hook(Some(Arc::new(move |call, path| {
            if call == "flock" && Path::new(path).starts_with(root.join("node")) && Path::new(path).is_dir() {
                rewrite(&root);
            }
            Fate::Happen
        })));
        let result = work(&session);
        set_hook(None);
        assert!(result.as_ref().is_err_and(Error::is_change), "{operation}: {result:?}");
        assert_eq!(world.find("A").unwrap().get(file), old.as_ref(), "{operation}");
        assert!(world.find("A").unwrap().keys().all(|name| !name.ends_with('/')), "{operation}");
    }
}

#[test]
fn reads_that_follow_each_other_keep_one_directory_open() {
    let world = World::new(false);
    let files = world.files();
    assert_eq!(open_directories(&world.root), 0);
    read_until(&files, || open_directories(&world.root) == 1);
    for _ in 0..100 {
        read(&files, WHOLE).unwrap();
        assert!(open_directories(&world.root) <= 1);
    }
    // while it is open, nothing else is opened but the values
    let opens = |steps: &[(&str, String)]| {
        let node = world.root.join("node");
        steps.iter().filter(|(call, path)| *call == "openat2" && Path::new(path) == node).count()
    };
    let one = || opens(&during(&world.root, &[], || read(&files, WHOLE).unwrap()).1);
    let until = Instant::now() + Duration::from_secs(60);
    while one() != 0 {
        read_until(&files, || open_directories(&world.root) == 1);
        assert!(Instant::now() < until);
    }
    // after a pause it is closed, and opened anew
    read_until(&files, || open_directories(&world.root) == 1);
    std::thread::sleep(PAUSE);
    assert_eq!(one(), 1);
    assert_eq!(open_directories(&world.root), 0);
    read_until(&files, || open_directories(&world.root) == 1);
    drop(files);
    assert_eq!(open_directories(&world.root), 0);
}

#[test]
fn an_open_directory_is_opened_anew_although_no_read_pauses() {
    let world = World::new(false);
    let files = world.files();
    let node = world.root.join("node");
    let (mut opened, mut kept) = (Instant::now(), 0);
    let until = Instant::now() + Duration::from_millis(200);
    while Instant::now() < until || kept == 0 {
        let begun = Instant::now();
        let ((), steps) = during(&world.root, &[], || drop(read(&files, WHOLE).unwrap()));
        if steps.iter().any(|(call, path)| *call == "openat2" && Path::new(path) == node) {
            opened = Instant::now();
        } else {
            // the time is taken before the store looks at the clock, and `opened` after it does
            assert!(begun < opened + Duration::from_millis(1));
            kept += 1;
        }
    }
}

#[test]
fn no_more_than_so_many_directories_stay_open() {
    const MOST: usize = 64;
    let world = World::new(false);
    let name = |number: usize| format!("node{number}");
    let make = |number: usize| {
        fs::create_dir_all(world.root.join(name(number)).join("c")).unwrap();
        fs::write(world.root.join(name(number)).join(DOCUMENT), "A").unwrap();
        files_of(&world.root, &name(number))
    };
    let look = |files: &LocalFiles| repeated(files, true, |session| session.check(false)).unwrap();
    let opened = || open_directories(&world.root);
    let mut kept = Vec::new();
    let until = Instant::now() + Duration::from_secs(60);
    for number in 0..MOST {
        let files = make(number);
        while opened() == number {
            (0..40).for_each(|_| look(&files));
            assert!(Instant::now() < until);
        }
        kept.push(files);
    }
    let late = make(MOST);
    (0..1000).for_each(|_| look(&late));
    assert_eq!(opened(), MOST);
    kept.truncate(MOST - 1);
    while opened() < MOST {
        (0..40).for_each(|_| look(&late));
        assert!(Instant::now() < until);
    }
    drop((kept, late));
    assert_eq!(opened(), 0);
}
