//! Local files read by their paths, on every system: plain files are read, anything else is left to the Python store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // in what the tests share

use std::fs;
use std::path::{MAIN_SEPARATOR_STR, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tegula_kernel::Error;
use tegula_kernel::stores::plain::{PlainFiles, Reading};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A directory that is removed in the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("plain-files-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Place(path)
    }

    /// Files whose directories are found, and how often one was looked for.
    fn files(&self, is_exact: bool) -> (PlainFiles, Arc<AtomicUsize>) {
        let (root, asked) = (self.0.clone(), Arc::new(AtomicUsize::new(0)));
        let count = asked.clone();
        let locate = move |parent: &str| {
            count.fetch_add(1, Ordering::Relaxed);
            let path = root.join(parent);
            match path.metadata() {
                Ok(found) if found.is_dir() => Ok(Some(path.join("").into_os_string())),
                Ok(_) => Err(Error::Unusual),
                Err(_) => Ok(None),
            }
        };
        (PlainFiles::new(Box::new(locate), is_exact), asked)
    }

    fn put(&self, key: &str, value: &[u8]) {
        let path = self.0.join(key.replace('/', MAIN_SEPARATOR_STR));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn get(files: &Reading<'_>, key: &str) -> Result<Option<Vec<u8>>, Error> {
    let Some(value) = files.open(key)? else { return Ok(None) };
    let mut found = None;
    value.with_all(&mut |data| {
        found = Some(data.to_vec());
        Ok(())
    })?;
    Ok(found)
}

fn is_unusual(files: &Reading<'_>, key: &str) -> bool {
    matches!(get(files, key), Err(Error::Unusual))
}

#[test]
fn whole_values_and_parts_are_those_of_the_files() {
    let place = Place::new();
    let (files, asked) = place.files(false);
    for hint in [0, 100, 1 << 21] {
        for size in [0, 1, 100, 4095, 70_000, 3_000_000] {
            let value: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            place.put("c/0/1", &value);
            let reading = files.reading(hint);
            assert_eq!(get(&reading, "c/0/1").unwrap().unwrap(), value);
            let opened = reading.open("c/0/1").unwrap().unwrap();
            assert_eq!(opened.size().unwrap(), size as u64);
            let mut part = [0; 50];
            for start in [0, 60, size, size + 9] {
                let wanted = &value[start.min(size)..(start + 50).min(size)];
                assert_eq!(opened.read_at(start as u64, &mut part).unwrap(), wanted.len());
                assert_eq!(&part[..wanted.len()], wanted);
            }
            assert!(opened.read_at(u64::MAX - 3, &mut part).is_err() || size == 0);
        }
    }
    assert_eq!(asked.load(Ordering::Relaxed), 18, "once for each operation");
}

#[test]
fn a_value_that_is_replaced_while_it_is_open_stays_the_same() {
    let place = Place::new();
    let (files, _) = place.files(false);
    place.put("0", b"old value");
    let reading = files.reading(16);
    let old = reading.open("0").unwrap().unwrap();
    place.put("new", b"new");
    if cfg!(windows) {
        fs::rename(place.0.join("0"), place.0.join("aside")).unwrap(); // wine replaces no file that is open
    }
    fs::rename(place.0.join("new"), place.0.join("0")).unwrap();
    let mut room = [0; 16];
    assert_eq!(old.read_at(0, &mut room).unwrap(), 9);
    assert_eq!(&room[..9], b"old value");
    assert_eq!(get(&reading, "0").unwrap().unwrap(), b"new");
}

#[test]
fn what_is_not_there_is_absent() {
    let place = Place::new();
    let (files, asked) = place.files(false);
    place.put("c/0/0", b"x");
    let reading = files.reading(10);
    for key in ["c/0/1", "c/1/0", "c/1/1", "7"] {
        assert_eq!(get(&reading, key).unwrap(), None, "{key}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[test]
fn names_that_a_file_system_may_change_are_left_to_python() {
    let place = Place::new();
    let names = ["a", "c.0.0", "NUL", "0.", "..", ".", "", ".1", "0:1", "0\\1", "0 ", "1\0", "é", ".tegula-1-0.tmp"];
    let (files, exact) = (place.files(false).0, place.files(true).0);
    for name in names {
        assert!(is_unusual(&files.reading(10), name), "{name:?}");
        assert!(is_unusual(&files.reading(10), &format!("0/{name}")), "{name:?}");
        let is_device = cfg!(windows) && name == "NUL";
        let is_word = name.starts_with(|first: char| first.is_ascii_alphabetic()) && !is_device;
        assert_eq!(is_unusual(&exact.reading(10), name), !is_word, "{name:?}");
    }
    for name in ["0", "0.0", "12-3", "1_0"] {
        place.put(name, name.as_bytes());
        assert_eq!(get(&files.reading(10), name).unwrap().unwrap(), name.as_bytes());
    }
}

#[test]
fn directories_links_and_pipes_are_left_to_python() {
    let place = Place::new();
    place.put("1/2", b"x");
    place.put("3", b"x");
    let (files, _) = place.files(false);
    let reading = files.reading(10);
    assert!(is_unusual(&reading, "1"));
    assert!(is_unusual(&reading, "3/4"));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(place.0.join("3"), place.0.join("5")).unwrap();
        assert!(is_unusual(&reading, "5"));
        let status = std::process::Command::new("mkfifo").arg(place.0.join("6")).status().unwrap();
        assert!(status.success() && is_unusual(&reading, "6"));
    }
}

#[test]
fn many_threads_read_together() {
    let place = Place::new();
    for number in 0..64_u64 {
        place.put(&format!("c/{}/{}", number / 8, number % 8), &number.to_le_bytes());
    }
    let (files, _) = place.files(false);
    let reading = files.reading(8);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..64_u64 {
                    let key = format!("c/{}/{}", number / 8, number % 8);
                    assert_eq!(get(&reading, &key).unwrap().unwrap(), number.to_le_bytes());
                }
            });
        }
    });
}
