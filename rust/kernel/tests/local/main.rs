//! Local files: plain cases are handled, others are left to the Python store, and concurrent writers lose nothing.
#![cfg(any(target_os = "linux", target_os = "macos", windows))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // in what the tests share

#[path = "../local_files/mod.rs"]
mod local_files;
mod writers;

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use local_files::Whole;
#[cfg(unix)]
use local_files::this_program;
use tegula_kernel::stores::local::LocalFiles;
use tegula_kernel::stores::{Expected, Generation, Store, Value};
use tegula_kernel::{Error, Result};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A directory that is removed in the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = fs::canonicalize(std::env::temp_dir()).unwrap();
        let path = path.join(format!("local-files-{}-{count}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Place(path)
    }

    fn path(&self, key: &str) -> PathBuf {
        self.0.join(key)
    }

    /// A store that makes missing directories.
    fn store(&self) -> Whole {
        store_below(&self.0)
    }

    fn names(&self, key: &str) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.path(key))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn base_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}{}", path.display(), std::path::MAIN_SEPARATOR))
}

fn store_below(path: &Path) -> Whole {
    Whole::new(files_below(path))
}

fn files_below(path: &Path) -> LocalFiles {
    let root = path.to_owned();
    let prepare = move |parent: &str| match fs::create_dir_all(root.join(parent)) {
        Ok(()) => Ok(true),
        Err(error) => Err(Error::Store { message: error.to_string() }),
    };
    LocalFiles::new(base_of(path), false, Box::new(prepare))
}

fn get(store: &dyn Store, key: &str) -> Option<Vec<u8>> {
    store.open(key).unwrap().map(|mut value| all(&mut *value).unwrap())
}

fn all(value: &mut dyn Value) -> Result<Vec<u8>> {
    let mut found = Vec::new();
    value.with_all(&mut |bytes| {
        found = bytes.to_vec();
        Ok(())
    })?;
    Ok(found)
}

fn is_unusual<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Unusual))
}

fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|index| (index * 31 + index / 251) as u8).collect()
}

#[test]
fn values_of_all_sizes_come_back() {
    let place = Place::new();
    let store = place.store();
    let session = store.files.session("a/", 8192);
    let sizes = [0, 1, 4095, 4096, 4097, 8192, 65535, 65536, 1 << 20, (1 << 20) + 4096, 5 << 20, (5 << 20) + 3];
    for size in sizes {
        let value = pattern(size);
        let (head, tail) = value.split_at(size / 3);
        session.set("a/0.0", &[head, &[], tail], None).unwrap();
        assert!(get(&session, "a/0.0").unwrap() == value, "{size}");
        assert!(get(&*store, "a/0.0").unwrap() == value, "{size}");
        assert_eq!(session.open("a/0.0").unwrap().unwrap().size().unwrap(), size as u64);
    }
    assert_eq!(place.names("a"), ["0.0"]);
}

#[test]
fn many_parts_are_written_in_order() {
    let place = Place::new();
    let value = pattern(3001);
    let parts: Vec<&[u8]> = value.chunks(3).collect();
    place.store().set("a", &parts, None).unwrap();
    assert_eq!(fs::read(place.path("a")).unwrap(), value);
}

#[test]
fn values_are_read_in_parts() {
    let place = Place::new();
    fs::write(place.path("a"), pattern(10_000)).unwrap();
    let store = place.store();
    let mut value = store.open("a").unwrap().unwrap();
    let mut room = [0; 100];
    assert_eq!(value.read_at(5000, &mut room).unwrap(), 100);
    assert_eq!(room, pattern(10_000)[5000..5100]);
    assert_eq!(value.read_at(9990, &mut room).unwrap(), 10);
    assert_eq!(value.read_at(20_000, &mut room).unwrap(), 0);
    assert!(is_unusual(value.read_at(u64::MAX, &mut room)));
    assert_eq!(all(&mut *value).unwrap(), pattern(10_000));
}

#[test]
fn a_value_read_while_another_is_read_is_right() {
    let place = Place::new();
    fs::write(place.path("a"), pattern(100)).unwrap();
    fs::write(place.path("b"), pattern(200)).unwrap();
    let store = place.store();
    let mut seen = 0;
    let outer = store.open("a").unwrap().unwrap();
    outer
        .with_all(&mut |bytes| {
            assert_eq!(get(&*store, "b").unwrap(), pattern(200));
            assert_eq!(bytes, pattern(100));
            seen += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, 1);
}

#[cfg(unix)] // wine keeps the name of what is deleted or replaced while it is open
#[test]
fn an_open_value_stays_what_it_was() {
    let place = Place::new();
    let store = place.store();
    store.set("a", &[b"old"], None).unwrap();
    let mut value = store.open("a").unwrap().unwrap();
    store.set("a", &[b"new value"], None).unwrap();
    assert_eq!(all(&mut *value).unwrap(), b"old");
    assert_eq!(value.size().unwrap(), 3);
}

#[cfg(unix)]
#[test]
fn generations_are_those_of_the_system() {
    let place = Place::new();
    let store = place.store();
    store.set("a", &[b"abc"], None).unwrap();
    let found = fs::metadata(place.path("a")).unwrap();
    let mtime = (found.mtime() * 1_000_000_000 + found.mtime_nsec()) as u64;
    let expected = Generation([found.ino(), mtime, 3]);
    assert!(
        matches!(store.open("a").unwrap().unwrap().generation().unwrap(), Expected::File(seen) if seen == expected)
    );
}

#[cfg(unix)]
#[test]
fn times_differ_between_files_written_one_after_the_other() {
    let place = Place::new();
    let store = place.store();
    let session = store.files.session("", 100);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..500 {
        session.set("a", &[b"same"], None).unwrap();
        assert!(seen.insert(fs::metadata(place.path("a")).unwrap().mtime_nsec()));
    }
}

#[cfg(unix)]
#[test]
fn only_what_is_not_there_is_missing() {
    let place = Place::new();
    fs::write(place.path("file"), b"x").unwrap();
    fs::create_dir(place.path("dir")).unwrap();
    fs::create_dir(place.path("real")).unwrap();
    fs::write(place.path("real/0"), b"x").unwrap();
    symlink("nowhere", place.path("dangling")).unwrap();
    symlink("file", place.path("link")).unwrap();
    symlink("real", place.path("linked")).unwrap();
    symlink("/etc", place.path("out")).unwrap();
    symlink("circle", place.path("circle")).unwrap();
    let store = place.store();
    for prefix in ["", "linked/", "dir/", "missing/", "file/", "dangling/"] {
        let session = store.files.session(prefix, 8192);
        for stores in [&*store as &dyn Store, &session] {
            for key in ["missing", "missing/0", "dir/0", "dir/0/1"] {
                assert!(stores.open(key).unwrap().is_none(), "{key}");
                assert!(stores.open_for_change(key).unwrap().is_none(), "{key}");
                stores.delete(key, None).unwrap();
                stores.delete(key, Some(&Expected::Absent)).unwrap();
                let gone = Expected::File(Generation([1, 2, 3]));
                assert!(matches!(stores.delete(key, Some(&gone)), Err(Error::Conflict)), "{key}");
            }
            for key in
                ["dangling", "link", "linked/0", "linked/1", "out/passwd", "circle", "circle/0", "file/0", "dangling/0"]
            {
                assert!(is_unusual(stores.open(key)), "{key}");
                assert!(is_unusual(stores.open_for_change(key)), "{key}");
            }
            for key in ["linked/0", "out/passwd", "circle/0", "file/0", "dangling/0"] {
                assert!(is_unusual(stores.delete(key, None)), "{key}");
            }
            stores.delete("dir", None).unwrap();
            let mut value = stores.open("dir").unwrap().unwrap();
            assert!(is_unusual(value.size()));
            assert!(is_unusual(value.read_at(0, &mut [0; 9])));
            assert!(is_unusual(all(&mut *value)));
            assert!(is_unusual(stores.open_for_change("dir")));
        }
    }
}

#[test]
fn keys_that_name_no_value_are_left_to_others() {
    let place = Place::new();
    fs::create_dir(place.path("a")).unwrap();
    fs::write(place.path("secret"), b"x").unwrap();
    let store = place.store();
    let session = store.files.session("a/", 100);
    let wrong = [
        "",
        "/",
        "a/",
        "a//b",
        "../secret",
        "a/../secret",
        "a/..",
        ".",
        "a/./b",
        "a\0b",
        ".tegula-x",
        "a/.tegula-lock",
    ];
    for stores in [&*store as &dyn Store, &session] {
        for key in wrong {
            assert!(is_unusual(stores.open(key)), "{key:?}");
            assert!(is_unusual(stores.open_for_change(key)), "{key:?}");
            assert!(is_unusual(stores.set(key, &[b"x"], None)), "{key:?}");
            assert!(is_unusual(stores.delete(key, None)), "{key:?}");
        }
    }
    for prefix in ["..", "../", "a", "/", "a/../"] {
        let session = store.files.session(prefix, 100);
        assert_eq!(get(&session, "secret").unwrap(), b"x");
    }
}

#[cfg(unix)]
#[test]
fn pipes_neither_block_nor_are_values() {
    let place = Place::new();
    let path = std::ffi::CString::new(place.path("pipe").to_str().unwrap()).unwrap();
    // SAFETY: the path ends with a NUL.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o666) }, 0);
    assert!(fs::symlink_metadata(place.path("pipe")).unwrap().file_type().is_fifo());
    let store = place.store();
    assert!(is_unusual(all(&mut *store.open("pipe").unwrap().unwrap())));
    assert!(is_unusual(store.open("pipe").unwrap().unwrap().size()));
    assert!(is_unusual(store.open("pipe").unwrap().unwrap().read_at(0, &mut [0; 4])));
    assert!(is_unusual(store.open_for_change("pipe")));
    let _writer = fs::OpenOptions::new().read(true).write(true).open(place.path("pipe")).unwrap();
    std::io::Write::write_all(&mut &_writer, b"not a value").unwrap();
    assert!(is_unusual(all(&mut *store.open("pipe").unwrap().unwrap())));
}

#[cfg(unix)]
#[test]
fn directories_that_may_not_be_entered_are_left_to_others() {
    // SAFETY: the call only returns a number.
    if unsafe { libc::geteuid() } == 0 {
        return; // root may do everything
    }
    let place = Place::new();
    fs::create_dir(place.path("closed")).unwrap();
    fs::set_permissions(place.path("closed"), fs::Permissions::from_mode(0o0)).unwrap();
    let store = place.store();
    assert!(is_unusual(store.open("closed/0")));
    assert!(is_unusual(store.files.session("closed/", 100).open("closed/0")));
    fs::set_permissions(place.path("closed"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(unix)]
#[test]
fn the_root_may_be_a_link() {
    let place = Place::new();
    fs::create_dir(place.path("real")).unwrap();
    symlink("real", place.path("root")).unwrap();
    let store = store_below(&place.path("root"));
    for stores in [&*store as &dyn Store, &store.files.session("a/", 100), &store.files.session("", 100)] {
        stores.set("a/0/1", &[b"abc"], None).unwrap();
        assert_eq!(get(stores, "a/0/1").unwrap(), b"abc");
        assert!(stores.open("a/0/2").unwrap().is_none());
    }
    symlink("../../real", place.path("real/a/up")).unwrap();
    assert!(is_unusual(store.files.session("a/", 100).open("a/up/0")));
    assert_eq!(fs::read(place.path("real/a/0/1")).unwrap(), b"abc");
}

#[cfg(unix)] // wine keeps the name of what is deleted or replaced while it is open
#[test]
fn a_root_made_again_is_another_one() {
    let place = Place::new();
    let store = store_below(&place.path("root"));
    let session = store.files.session("a/", 100);
    assert!(session.open("a/0").unwrap().is_none());
    session.set("a/0", &[b"first"], None).unwrap();
    let session = store.files.session("a/", 100);
    session.set("a/1", &[b"first"], None).unwrap();
    for stores in [&*store as &dyn Store, &session] {
        fs::remove_dir_all(place.path("root")).unwrap();
        assert!(stores.open("a/0").unwrap().is_none());
        fs::create_dir_all(place.path("root/a")).unwrap();
        fs::write(place.path("root/a/0"), b"second").unwrap();
        assert_eq!(get(stores, "a/0").unwrap(), b"second");
        stores.set("a/1", &[b"third"], None).unwrap();
        assert_eq!(fs::read(place.path("root/a/1")).unwrap(), b"third");
    }
}

#[cfg(unix)]
#[test]
fn links_to_directories_are_written_through_if_the_policy_agrees() {
    let place = Place::new();
    fs::create_dir(place.path("real")).unwrap();
    symlink("real", place.path("linked")).unwrap();
    let store = place.store();
    store.files.session("linked/", 100).set("linked/0", &[b"abc"], None).unwrap();
    assert_eq!(fs::read(place.path("real/0")).unwrap(), b"abc");

    let with = |prepare| Whole::new(LocalFiles::new(base_of(&place.0), false, prepare));
    let refusing = with(Box::new(|_| Err(Error::Store { message: "no".into() })));
    assert!(matches!(refusing.set("linked/1", &[b"x"], None), Err(Error::Store { message }) if message == "no"));
    let unsure = with(Box::new(|_| Ok(false)));
    assert!(is_unusual(unsure.set("linked/1", &[b"x"], None)));
    assert_eq!(place.names("real"), ["0"]);
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_a_value_is_replaced() {
    let place = Place::new();
    fs::write(place.path("target"), b"old").unwrap();
    symlink("target", place.path("a")).unwrap();
    symlink("nowhere", place.path("b")).unwrap();
    let store = place.store();
    store.set("a", &[b"new"], None).unwrap();
    store.set("b", &[b"new"], Some(&Expected::Absent)).unwrap();
    assert_eq!(fs::read(place.path("target")).unwrap(), b"old");
    for key in ["a", "b"] {
        assert!(fs::symlink_metadata(place.path(key)).unwrap().is_file());
        assert_eq!(fs::read(place.path(key)).unwrap(), b"new");
    }
}

#[test]
fn a_directory_is_never_replaced() {
    let place = Place::new();
    fs::create_dir(place.path("a")).unwrap();
    // the Python store replaces an empty one
    assert!(matches!(place.store().set("a", &[b"x"], Some(&Expected::Absent)), Err(Error::Unusual)));
    assert!(place.path("a").is_dir());
    assert_eq!(place.names(""), ["a"]);
}

#[test]
fn a_value_is_set_only_if_it_is_as_expected() {
    let place = Place::new();
    let store = place.store();
    let session = store.files.session("", 100);
    for stores in [&*store as &dyn Store, &session] {
        let _ = fs::remove_file(place.path("a"));
        let conflict = |expected: &Expected| matches!(stores.set("a", &[b"x"], Some(expected)), Err(Error::Conflict));
        assert!(conflict(&Expected::File(Generation([1, 2, 3]))));
        stores.set("a", &[b"abc"], Some(&Expected::Absent)).unwrap();
        assert!(conflict(&Expected::Absent));
        let old = stores.open("a").unwrap().unwrap().generation().unwrap();
        stores.set("a", &[b"abd"], Some(&old)).unwrap();
        assert!(conflict(&old));
        assert!(is_unusual(stores.set("a", &[b"x"], Some(&Expected::Foreign(Box::new(1))))));
        assert_eq!(get(stores, "a").unwrap(), b"abd");
        assert_eq!(place.names(""), ["a"]);
    }
}

#[test]
fn a_value_is_deleted_only_if_it_is_as_expected() {
    let place = Place::new();
    let store = place.store();
    let session = store.files.session("a/", 100);
    for stores in [&*store as &dyn Store, &session] {
        stores.set("a/b/0", &[b"abc"], None).unwrap();
        let old = stores.open("a/b/0").unwrap().unwrap().generation().unwrap();
        stores.set("a/b/0", &[b"abd"], Some(&old)).unwrap();
        for wrong in [old, Expected::Absent] {
            assert!(matches!(stores.delete("a/b/0", Some(&wrong)), Err(Error::Conflict)));
        }
        assert!(is_unusual(stores.delete("a/b/0", Some(&Expected::Foreign(Box::new(1))))));
        assert_eq!(get(stores, "a/b/0").unwrap(), b"abd");
        let new = stores.open("a/b/0").unwrap().unwrap().generation().unwrap();
        stores.delete("a/b/0", Some(&new)).unwrap();
        assert!(stores.open("a/b/0").unwrap().is_none());
        if cfg!(unix) {
            // wine removes a directory that is open only when it is closed
            assert!(place.names("").is_empty(), "directories that become empty go, too");
        }
    }
}

#[cfg(unix)]
#[test]
fn links_are_deleted_and_what_they_lead_to_stays() {
    let place = Place::new();
    fs::create_dir(place.path("dir")).unwrap();
    fs::write(place.path("file"), b"x").unwrap();
    for (key, target) in [("link", "file"), ("linked", "dir"), ("dangling", "nowhere"), ("circle", "circle")] {
        symlink(target, place.path(key)).unwrap();
        place.store().delete(key, None).unwrap();
        assert_eq!(place.names(""), ["dir", "file"], "{key}");
    }
}

#[cfg(unix)] // wine keeps the name of what is deleted or replaced while it is open
#[test]
fn directories_that_vanish_are_made_again() {
    let place = Place::new();
    let store = place.store();
    let session = store.files.session("a/", 100);
    for round in 0..3_u8 {
        for stores in [&*store as &dyn Store, &session] {
            stores.set("a/b/0", &[&[round]], None).unwrap();
            fs::remove_dir_all(place.path("a")).unwrap();
        }
    }
    session.set("a/b/0", &[b"x"], None).unwrap();
    assert_eq!(place.names("a/b"), ["0"]);
}

#[cfg(unix)]
#[test]
fn directories_made_for_nothing_are_removed() {
    let place = Place::new();
    let store = place.store();
    let name = format!("a/b/{}", "n".repeat(300));
    let error = store.set(&name, &[b"x"], None).unwrap_err();
    assert!(matches!(&error, Error::System { errno: libc::ENAMETOOLONG, .. }), "{error}");
    assert!(place.names("").is_empty());
}

/// A store that makes missing directories, and how often it was asked to.
fn counting_store(place: &Place) -> (LocalFiles, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let (root, count) = (place.0.clone(), asked.clone());
    let prepare = move |parent: &str| {
        count.fetch_add(1, Ordering::Relaxed);
        fs::create_dir_all(root.join(parent)).map(|()| true).map_err(|_| Error::Unusual)
    };
    (LocalFiles::new(base_of(&place.0), false, Box::new(prepare)), asked)
}

#[test]
fn the_policy_is_asked_once_for_each_directory() {
    let place = Place::new();
    let (store, asked) = counting_store(&place);
    let store = Whole::new(store);
    for _ in 0..3 {
        let session = store.files.session("a/", 100);
        for key in ["a/0/0", "a/0/1", "a/1/0", "a/1/1"] {
            session.set(key, &[b"x"], None).unwrap();
            store.set(key, &[b"x"], None).unwrap();
        }
    }
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[cfg(unix)]
#[test]
fn only_the_first_directory_takes_the_policy_if_the_anchor_is_there() {
    for anchored in [true, false] {
        let place = Place::new();
        let (store, asked) = counting_store(&place);
        let store = Whole::new(store.making_directories("zarr.json"));
        if anchored {
            fs::write(place.path("zarr.json"), b"{}").unwrap();
        }
        let session = store.files.session("c/", 100);
        for key in ["c/0/0", "c/0/1", "c/1/0", "c/2/0"] {
            session.set(key, &[b"x"], None).unwrap();
        }
        assert_eq!(asked.load(Ordering::Relaxed), if anchored { 1 } else { 3 });
        // a directory that another program has made may hold temporary files of dead writers, and one may lie in a link
        fs::create_dir(place.path("c/3")).unwrap();
        symlink("c", place.path("linked")).unwrap();
        session.set("c/3/0", &[b"x"], None).unwrap();
        store.set("linked/4/0", &[b"x"], None).unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), if anchored { 4 } else { 6 });
        assert_eq!(place.names("c"), ["0", "1", "2", "3", "4"]);
    }
}

#[cfg(unix)]
/// Run one test of this file in a process of its own, that has the variable set.
fn in_child(test: &str, value: &str) -> std::process::Output {
    this_program()
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("LOCAL_FILES_CHILD", value)
        .output()
        .unwrap()
}

#[cfg(unix)]
#[test]
fn too_many_open_files_are_left_to_others() {
    if std::env::var_os("LOCAL_FILES_CHILD").is_none() {
        let output = in_child("too_many_open_files_are_left_to_others", "1");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("a")).unwrap();
    fs::write(place.path("a/0"), b"abc").unwrap();
    let store = place.store();
    let session = store.files.session("a/", 100);
    let limit = libc::rlimit { rlim_cur: 3, rlim_max: 3 };
    let mut old = limit;
    // SAFETY: both calls get structures of the right kind.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut old);
        let limit = libc::rlimit { rlim_max: old.rlim_max, ..limit };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
    let late = store.files.session("a/", 100);
    for stores in [&*store as &dyn Store, &session, &late] {
        assert!(is_unusual(stores.open("a/0")));
        assert!(is_unusual(stores.open("a/1")));
        assert!(is_unusual(stores.set("a/0", &[b"x"], None)));
        assert!(is_unusual(stores.delete("a/0", None)));
    }
    // SAFETY: as above.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const old) };
    assert_eq!(get(&session, "a/0").unwrap(), b"abc");
    assert_eq!(place.names("a"), ["0"]);
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_old_value() {
    let place = Place::new();
    fs::create_dir(place.path("disk")).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "none"])
        .arg(place.path("disk"))
        .output()
        .is_ok_and(|output| output.status.success());
    if !mounted {
        return; // only root may mount
    }
    let files = files_below(&place.path("disk"));
    let store = files.session("", 100);
    store.set("a", &[b"old"], None).unwrap();
    let old = store.open("a").unwrap().unwrap().generation().unwrap();
    let large = vec![1; 1 << 20];
    let results: Vec<_> = [None, Some(&old)].into_iter().map(|expected| store.set("a", &[&large], expected)).collect();
    let (kept, names) = (get(&store, "a"), place.names("disk"));
    drop((old, store)); // with a file open there, it could not be unmounted
    assert!(Command::new("umount").arg(place.path("disk")).status().unwrap().success());
    let message = format!("can't write {}: No space left on device", place.path("disk/a").display());
    for result in results {
        assert_eq!(result.unwrap_err().to_string(), message);
    }
    assert_eq!(kept.unwrap(), b"old");
    assert_eq!(names, ["a"]);
}

fn keys(names: &[&str]) -> std::vec::IntoIter<String> {
    names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>().into_iter()
}

#[cfg(unix)]
#[test]
fn many_keys_are_looked_for_at_once() {
    let place = Place::new();
    let store = place.store();
    fs::create_dir_all(place.path("c/1")).unwrap();
    fs::write(place.path("c/1/4"), b"x").unwrap();
    symlink("nowhere", place.path("c/7")).unwrap();
    symlink("c", place.path("d")).unwrap();
    assert!(!store.files.any(keys(&[])).unwrap());
    assert!(!store.files.any(keys(&["c/0/1", "c/0/2", "c/1/3", "a", "b"])).unwrap());
    assert!(store.files.any(keys(&["c/0/1", "c/1/3", "c/1/4"])).unwrap());
    assert!(store.files.any(keys(&["c/6", "c/7"])).unwrap()); // a request for it gets the error
    assert!(store.files.any(keys(&["c/1"])).unwrap());
    for strange in ["d/1/3", "c/../c/1/4", "c//1", ".tegula-x", "c/1/4/5"] {
        assert!(matches!(store.files.any(keys(&[strange])), Err(Error::Unusual)), "{strange}");
    }
}

#[test]
fn many_keys_are_deleted_at_once() {
    let place = Place::new();
    let store = place.store();
    fs::create_dir_all(place.path("c/0")).unwrap();
    fs::create_dir_all(place.path("c/1/9")).unwrap();
    let all: Vec<String> =
        (0..1200).map(|number| format!("c/0/{number}")).chain(["c/1/0".into(), "c/1/9".into()]).collect();
    for key in &all[..1201] {
        fs::write(place.path(key), key).unwrap();
    }
    let mut asked = 0;
    let refused = store.files.delete_all(all.clone().into_iter(), &mut || {
        asked += 1;
        Ok(asked < 2)
    });
    assert_eq!((refused.unwrap(), asked), (false, 2));
    let left = place.names("c/0").len();
    assert!(0 < left && left < 1200);
    let failed = store.files.delete_all(all.clone().into_iter(), &mut || Err(Error::Conflict));
    assert!(matches!(failed, Err(Error::Conflict)));
    assert_eq!(place.names("c/0").len(), left);
    let absent = ["x/0".to_owned(), "c/5/1".to_owned()];
    assert!(store.files.delete_all(absent.into_iter().chain(all), &mut || Ok(true)).unwrap());
    assert_eq!(place.names("c"), ["1"]);
    assert_eq!(place.names("c/1"), ["9"]);
    let outside = store.files.delete_all(keys(&["c/1/../1/9"]), &mut || Ok(true));
    assert!(matches!(outside, Err(Error::Unusual)));
}

#[test]
fn where_case_is_ignored_a_directory_counts_only_as_it_is_spelled() {
    let place = Place::new();
    let store = Whole::new(files_below(&place.0).ignoring_case());
    assert!(store.open("c/0/0").unwrap().is_none());
    for key in ["c/0/0", "c/1", "0.0"] {
        store.set(key, &[b"x"], None).unwrap();
        assert_eq!(get(&*store, key).unwrap(), b"x");
    }
    for key in ["zarr.json", "c/a", "c/\u{e4}"] {
        assert!(is_unusual(store.open(key)), "{key}"); // each of them may have another spelling
        assert!(is_unusual(store.set(key, &[b"x"], None)), "{key}");
        assert!(is_unusual(store.delete(key, None)), "{key}");
    }
    let ignored = place.path("C").exists();
    assert_eq!(is_unusual(store.open("C/1")), ignored);
    if ignored {
        assert!(is_unusual(store.set("C/1", &[b"x"], None)));
        assert!(is_unusual(store.delete("C/1", None)));
        assert!(is_unusual(store.files.any(keys(&["C/2"]))));
    }
    assert!(store.files.any(keys(&["c/1"])).unwrap());
    assert!(store.files.delete_all(keys(&["c/0/0", "c/1"]), &mut || Ok(true)).unwrap());
    assert!(store.open("c/0/0").unwrap().is_none() && store.open("c/1").unwrap().is_none());
}
