//! A directory opened for changes: whole files are put in place in one step, under a lock that ends with its holder.
//!
//! Other processes and threads follow the same steps at the same time, in Python (`tegula.stores.local.directories`) or here:
//! `docs/design/local-files.md` describes them.

use std::sync::Arc;

use super::names::{next_number, temporary_name};
use super::node::Guard;
use super::system::{self, AsFd, BorrowedFd, CHANGE, Errno, Last, NEW, NO_LOCKS, Outcome, OwnedFd, Status};
use super::waiting;
use crate::stores::{Generation, Piece};

/// How many times to choose from at random for a new file, since the clock may stand still.
const TIMES: u64 = 1 << 13;

/// The largest value whose blocks are allocated in advance, as in Python.
const MOST_ALLOCATED: usize = 1 << 22;

/// Why a file was not put in place; the old file is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A system call failed.
    System(Errno),
    /// The old file is not in the expected state.
    Conflict,
    /// The directory belongs to another node, or its node has changed.
    Changed,
    /// The directory can't be locked.
    NoLocks,
    /// Another writer has held the lock of the directory for long, or a signal came during the wait; on Windows also if a
    /// reader has had the old file open for long.
    Busy,
    /// The file system has no copies that share blocks.
    Unshared,
    /// The file system rounds times, so that the state of a file needs more than its time.
    Coarse,
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Failure {
        if system::is_busy(error) { Failure::Busy } else { Failure::System(error) }
    }
}

/// The state of the old file on which it is replaced; `None` for no file.
pub type Condition = Option<Generation>;

/// The new contents of a file.
enum Content<'c> {
    /// These parts, one after the other.
    Parts(&'c [&'c [u8]]),
    /// A copy of another file, with pieces written to their places.
    Like(BorrowedFd<'c>, &'c [Piece<'c>]),
}

/// A file that has been written: its stamp, and its state if the caller needs it.
#[derive(Clone, Copy)]
struct Made {
    time: i64,
    state: Option<Generation>,
}

/// An open directory. Its descriptor holds the lock, so it belongs to one thread at a time.
#[derive(Debug)]
pub struct Directory {
    file: OwnedFd,
    sync: bool,
    /// Whether closing a file never reports an error that came after its writing.
    closes_silently: bool,
    /// Whether blocks are allocated before a file is written that replaces another one.
    allocates: bool,
    takes_unnamed: bool,
    replaced_last: bool,
    /// Whether the caller needs the states of new files.
    reports: bool,
    /// What has to hold before a change.
    guard: Option<Arc<Guard>>,
}

impl Directory {
    /// Take a directory that was opened for reading.
    pub fn new(file: OwnedFd, sync: bool) -> Directory {
        let (is_local, is_memory) = system::local_disk(file.as_fd());
        Directory {
            file,
            sync,
            closes_silently: is_local,
            allocates: !is_memory,
            takes_unnamed: is_local,
            replaced_last: false,
            reports: false,
            guard: None,
        }
    }

    /// Let all changes fail unless `guard` holds.
    pub fn guarded(self, guard: Option<Arc<Guard>>) -> Directory {
        Directory { guard, ..self }
    }

    /// Put a file that holds `value` in the place of `name`, as `replace` does, and return the state of the new file.
    ///
    /// Only on local disks whose file system keeps fine times; otherwise the error is `Coarse`.
    pub fn put(mut self, name: &[u8], value: &[u8], expected: Option<Condition>) -> Result<Generation, Failure> {
        if !self.closes_silently {
            return Err(Failure::Coarse);
        }
        if expected.is_none() {
            self.replaced_last = system::stands_at(self.file.as_fd(), name)?;
        }
        let made = self.reporting(|directory| directory.replace(name, &[value], expected))?;
        made.ok_or(Failure::Coarse)
    }

    /// Call `work`, which learns the states of new files where the disk is local; elsewhere they may change later.
    pub fn reporting<T>(&mut self, work: impl FnOnce(&mut Directory) -> T) -> T {
        self.reports = self.closes_silently;
        let result = work(self);
        self.reports = false;
        result
    }

    /// Put a file made of `parts` in the place of `name` in one step, if the old file is in the expected state.
    ///
    /// Returns the state of the new file if that is wanted.
    pub fn replace(
        &mut self,
        name: &[u8],
        parts: &[&[u8]],
        expected: Option<Condition>,
    ) -> Result<Option<Generation>, Failure> {
        let is_new = expected.map_or(!self.replaced_last, |expected| expected.is_none());
        let created = if is_new && self.takes_unnamed { self.create(name, parts, expected)? } else { None };
        let made = match created {
            Some(made) => made,
            None => self.rename(name, &Content::Parts(parts), expected)?,
        };
        self.sync_names()?;
        Ok(made.state)
    }

    /// As `replace`, with a copy of the file `old` that shares its blocks, and pieces written to their places in it. Returns
    /// whether the file system can do that.
    pub fn replace_like(
        &self,
        name: &[u8],
        old: BorrowedFd<'_>,
        changes: &[Piece<'_>],
        expected: Condition,
    ) -> Result<bool, Failure> {
        match self.rename(name, &Content::Like(old, changes), Some(expected)) {
            Ok(_) => self.sync_names().map(|()| true),
            Err(Failure::Unshared) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Sync the names to the disk, if the store is durable.
    pub fn sync_names(&self) -> Result<(), Failure> {
        if self.sync {
            system::sync(self.file.as_fd())?;
        }
        Ok(())
    }

    /// Remove a file or a link, and leave a directory alone; return whether there was one.
    pub fn remove(&self, name: &[u8]) -> Result<bool, Failure> {
        match system::unlink(self.file.as_fd(), name) {
            Ok(()) => Ok(true),
            Err(Errno(libc::ENOENT | libc::EISDIR)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Remove a temporary file whose writer has died; return whether it is gone.
    pub fn remove_leftover(&self, name: &[u8]) -> bool {
        name.ends_with(b".tmp")
            && system::open_at(self.file.as_fd(), &[name], CHANGE)
                .and_then(|file| system::lock(file.as_fd()))
                .and_then(|()| system::unlink(self.file.as_fd(), name))
                .is_ok()
    }

    /// Put a file where there is most likely none: it is written without a name, so that nothing is left if its writer
    /// is killed, and then gets its name. Returns `None` if the file is not in place: the file system has no files
    /// without names.
    fn create(&mut self, name: &[u8], parts: &[&[u8]], expected: Option<Condition>) -> Result<Option<Made>, Failure> {
        let Ok(file) = system::open_unnamed(self.file.as_fd()) else {
            self.takes_unnamed = false;
            return Ok(None); // if the other way fails too, its error says why
        };
        let mut made = self.fill(&file, &Content::Parts(parts))?;
        let (mut linked, mut replaced) = (true, false);
        self.locked(|directory| {
            if expected.is_some() {
                directory.check(name, expected)?;
            }
            match system::link(file.as_fd(), directory.file.as_fd(), name) {
                Ok(()) => {}
                Err(Errno(libc::EEXIST)) => {
                    replaced = true;
                    made = directory.link_over(&file, name, made)?;
                }
                Err(_) => linked = false,
            }
            Ok(())
        })?;
        self.takes_unnamed = linked;
        self.replaced_last |= replaced;
        Ok(linked.then_some(made))
    }

    /// Put a file without a name in the place of another one, while the directory is locked.
    fn link_over(&self, file: &OwnedFd, name: &[u8], made: Made) -> Result<Made, Failure> {
        // A process that sweeps the directory removes temporary files that are not locked: their writers are dead.
        let _ = system::lock(file.as_fd());
        let temporary = temporary_name(system::random)?;
        system::link(file.as_fd(), self.file.as_fd(), &temporary)?;
        let result = self.put_in_place(&temporary, name, made, None).inspect_err(|_| self.clear(&temporary));
        system::unlock(file.as_fd());
        result
    }

    /// Write a file under a temporary name, and rename it.
    fn rename(&self, name: &[u8], content: &Content<'_>, expected: Option<Condition>) -> Result<Made, Failure> {
        let temporary = temporary_name(system::random)?;
        let replaces = expected.map_or(self.replaced_last, |expected| expected.is_some());
        self.write(&temporary, content, replaces)
            .and_then(|(mut made, alive)| {
                let result = self.locked(|directory| {
                    made = directory.put_in_place(&temporary, name, made, expected)?;
                    Ok(())
                });
                if let Some(alive) = alive {
                    system::unlock(alive.as_fd());
                }
                result.map(|()| made)
            })
            .inspect_err(|_| self.clear(&temporary))
    }

    /// Rename a temporary file while the directory is locked, if the file that it replaces is in the expected state.
    fn put_in_place(
        &self,
        temporary: &[u8],
        name: &[u8],
        made: Made,
        expected: Option<Condition>,
    ) -> Result<Made, Failure> {
        let made = match self.check(name, expected)? {
            Some(old) => self.make_later(temporary, made, old)?,
            None => made,
        };
        system::rename(self.file.as_fd(), temporary, name)?;
        Ok(made)
    }

    fn clear(&self, temporary: &[u8]) {
        let _ = system::unlink(self.file.as_fd(), temporary);
    }

    /// Give a file a later time than the old file that it replaces. So no state recurs even if inode numbers do, and even
    /// if the clock stands still or is set back.
    fn make_later(&self, name: &[u8], made: Made, old: Generation) -> Result<Made, Failure> {
        // Some file systems with fine times keep multiples of 100 ns.
        let least = old.time().saturating_add(1000);
        if made.time >= least {
            return Ok(made);
        }
        let time = fine_time(least);
        system::stamp_at(self.file.as_fd(), name, time)?;
        let state = self.state(|| system::status_at(self.file.as_fd(), &[name], Last::Followed))?;
        Ok(Made { time, state })
    }

    /// Return the state of a new file if the caller needs it.
    fn state(&self, look: impl FnOnce() -> Outcome<Status>) -> Result<Option<Generation>, Failure> {
        if !self.reports {
            return Ok(None);
        }
        let state = look()?.generation;
        if state.is_rounded() { Err(Failure::Coarse) } else { Ok(Some(state)) }
    }

    /// Write a temporary file. While the returned descriptor is open, its lock keeps other processes from removing the
    /// file as a leftover.
    fn write(&self, name: &[u8], content: &Content<'_>, replaces: bool) -> Result<(Made, Option<OwnedFd>), Failure> {
        let file = system::open_at(self.file.as_fd(), &[name], NEW)?;
        let _ = system::lock(file.as_fd());
        let size = match content {
            Content::Parts(parts) => parts.iter().fold(0, |size: usize, part| size.saturating_add(part.len())),
            Content::Like(..) => 0,
        };
        if self.allocates && replaces && 0 < size && size <= MOST_ALLOCATED {
            // Without this, ext4 would write a file that has no blocks yet to the disk before it replaces another.
            system::allocate(file.as_fd(), size);
        }
        let made = self.fill(&file, content)?;
        if self.closes_silently {
            return Ok((made, Some(file)));
        }
        let alive = system::duplicate(file.as_fd()).ok();
        system::close(file)?; // before the file is put in place, since NFS reports failed writes only here
        Ok((made, alive))
    }

    /// Write the contents of a file, and stamp it with a time that no other file of its inode number has.
    fn fill(&self, file: &OwnedFd, content: &Content<'_>) -> Result<Made, Failure> {
        match content {
            Content::Parts(parts) => system::write_all(file.as_fd(), parts)?,
            Content::Like(old, changes) => {
                system::share(file.as_fd(), *old).map_err(|_| Failure::Unshared)?;
                changes.iter().try_for_each(|(start, piece)| system::write_at(file.as_fd(), *start, piece))?;
            }
        }
        // Inode numbers are used again soon, and the system's own stamps are the same for milliseconds.
        let time = new_time()?;
        system::stamp(file.as_fd(), time)?;
        if self.sync {
            system::sync(file.as_fd())?;
        }
        let state = self.state(|| system::status(file.as_fd()))?;
        Ok(Made { time, state })
    }

    /// Return the state of the file at a name; compare it with the expected one, if there is one.
    pub fn check(&self, name: &[u8], expected: Option<Condition>) -> Result<Option<Generation>, Failure> {
        let current = match system::status_at(self.file.as_fd(), &[name], Last::Followed) {
            Ok(status) if status.is_directory() => None,
            Ok(status) => Some(status.generation),
            Err(Errno(libc::ENOENT)) => None,
            Err(_) if expected.is_none() => None, // for example a circular link, which is replaced
            Err(error) => return Err(error.into()),
        };
        if expected.is_none_or(|expected| expected == current) { Ok(current) } else { Err(Failure::Conflict) }
    }

    /// Call `work` while no other writer changes the directory.
    pub fn locked(&self, work: impl FnOnce(&Directory) -> Result<(), Failure>) -> Result<(), Failure> {
        if cfg!(windows) && !self.closes_silently {
            return Err(Failure::NoLocks); // only the Python store knows such file systems
        }
        let lock = waiting::lock(|| system::lock_directory(self.file.as_fd())).map_err(|error| match error.0 {
            libc::EINTR => Failure::Busy,
            code if NO_LOCKS.contains(&code) => Failure::NoLocks,
            _ => error.into(),
        })?;
        let holds = self.guard.as_ref().is_none_or(|guard| guard.holds());
        let result = if holds { work(self) } else { Err(Failure::Changed) };
        system::unlock_directory(lock);
        result
    }
}

/// Return a time within 10 µs of now to stamp a file with, which shows whether the file system keeps it. The next 8,192
/// times of a thread differ although the clock stands still.
fn new_time() -> Outcome<i64> {
    let now = system::now()?;
    let drawn = (next_number(system::random)? % TIMES) as i64;
    Ok(now - now.rem_euclid(10_000) + drawn / 900 * 1000 + 100 + drawn % 900)
}

/// Return a time that shows whether the file system keeps it, at most 100 ns later; see `tegula.stores.local.generations`.
fn fine_time(time: i64) -> i64 {
    if time.rem_euclid(1000) < 100 { time.saturating_add(100) } else { time }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static COUNT: AtomicUsize = AtomicUsize::new(0);
    const MANY: usize = if cfg!(windows) { 20 } else { 200 };

    /// Whether a lock was waited for too long: wine takes milliseconds for each call.
    fn is_slow(failure: Failure) -> bool {
        cfg!(windows) && failure == Failure::Busy
    }

    /// Call `work` with a new directory, for each way to write into it.
    fn each_way(sync: bool, work: impl Fn(&PathBuf, &mut dyn FnMut() -> Directory)) {
        for takes_unnamed in [true, false] {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("directory-{}-{count}", std::process::id()));
            fs::create_dir(&path).unwrap();
            work(&path, &mut || {
                let path = path.as_os_str().as_encoded_bytes();
                let opened = system::open_at(system::anywhere(), &[path], system::DIRECTORY).unwrap();
                let mut directory = Directory::new(opened, sync);
                directory.takes_unnamed &= takes_unnamed;
                directory
            });
            fs::remove_dir_all(&path).unwrap();
        }
    }

    fn names(path: &PathBuf) -> Vec<String> {
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn generation(directory: &Directory, name: &[u8]) -> Generation {
        system::status_at(directory.file.as_fd(), &[name], Last::Followed).unwrap().generation
    }

    #[test]
    fn each_way_puts_whole_files_in_place() {
        for sync in [false, true] {
            each_way(sync, |path, open| {
                let mut directory = open();
                for expected in [None, None, Some(None)] {
                    if expected.is_some() {
                        fs::remove_file(path.join("a")).unwrap();
                    }
                    directory.replace(b"a", &[b"ab", b"", b"c"], expected).unwrap();
                    assert_eq!(fs::read(path.join("a")).unwrap(), b"abc");
                }
                let old = generation(&directory, b"a");
                directory.replace(b"a", &[b"new"], Some(Some(old))).unwrap();
                for wrong in [Some(old), None] {
                    assert_eq!(directory.replace(b"a", &[b"x"], Some(wrong)), Err(Failure::Conflict));
                }
                assert_eq!(fs::read(path.join("a")).unwrap(), b"new");
                assert_eq!(names(path), ["a"]);
            });
        }
    }

    #[test]
    fn each_way_tells_the_state_of_the_new_file() {
        each_way(false, |path, open| {
            let mut seen = Vec::new();
            for number in 0..20 {
                let old = seen.last().copied();
                let expected = if number % 3 == 1 { None } else { Some(old) };
                let made = open().put(b"a", b"value", expected).unwrap();
                assert_eq!(made, generation(&open(), b"a"));
                assert!(!seen.contains(&made));
                for wrong in [old, None] {
                    assert_eq!(open().put(b"a", b"x", Some(wrong)), Err(Failure::Conflict));
                }
                seen.push(made);
            }
            assert_eq!(fs::read(path.join("a")).unwrap(), b"value");
            assert_eq!(names(path), ["a"]);
        });
    }

    #[cfg(unix)] // what fails is the same elsewhere, but not its error
    #[test]
    fn each_way_fails_without_a_trace() {
        each_way(false, |path, open| {
            fs::create_dir(path.join("a")).unwrap();
            for _ in 0..2 {
                let result = open().replace(b"a", &[b"x"], None);
                assert_eq!(result, Err(Failure::System(Errno(libc::EISDIR))));
            }
            let long = [b'n'; 300];
            assert_eq!(open().replace(&long, &[b"x"], None), Err(Failure::System(Errno(libc::ENAMETOOLONG))));
            assert_eq!(names(path), ["a"]);
            let mut directory = open();
            fs::remove_dir(path.join("a")).unwrap();
            fs::remove_dir(path).unwrap();
            for expected in [None, Some(None)] {
                let gone = Err(Failure::System(Errno(libc::ENOENT)));
                assert_eq!(directory.replace(b"a", &[b"x"], expected), gone);
            }
            fs::create_dir(path).unwrap();
        });
    }

    #[test]
    fn one_of_many_creates_a_file_whichever_way_they_go() {
        each_way(false, |path, open| {
            let mut directories: Vec<_> = (0..4).map(|_| open()).collect();
            directories[0].takes_unnamed = false; // at least one goes the other way
            let wins = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for mut directory in directories {
                    let wins = &wins;
                    scope.spawn(move || {
                        for number in 0..MANY {
                            match directory.replace(format!("{number}").as_bytes(), &[b"x"], Some(None)) {
                                Ok(_) => wins.fetch_add(1, Ordering::Relaxed),
                                Err(failure) => {
                                    assert!(failure == Failure::Conflict || is_slow(failure));
                                    0
                                }
                            };
                        }
                    });
                }
            });
            assert!(wins.load(Ordering::Relaxed) == MANY || cfg!(windows));
            assert_eq!(names(path).len(), wins.load(Ordering::Relaxed));
        });
    }

    #[test]
    fn the_last_of_several_unconditional_writers_is_kept_whole() {
        each_way(false, |path, open| {
            let directories: Vec<_> = (0..4_u8).map(|mark| (mark, open())).collect();
            std::thread::scope(|scope| {
                for (mark, mut directory) in directories {
                    scope.spawn(move || {
                        for _ in 0..MANY / 2 {
                            let done = directory.replace(b"a", &[&[mark; 5000], &[mark; 5000]], None);
                            assert!(done.is_ok() || done.is_err_and(is_slow));
                        }
                    });
                }
            });
            let value = fs::read(path.join("a")).unwrap();
            assert!(value.len() == 10_000 && value.iter().all(|byte| *byte == value[0]));
            assert_eq!(names(path), ["a"]);
        });
    }

    #[test]
    fn times_are_later_than_those_they_replace_although_the_clock_stands_still() {
        each_way(false, |path, open| {
            let mut directory = open();
            directory.replace(b"a", &[b"x"], Some(None)).unwrap();
            let first = generation(&directory, b"a");
            let later = first.time() + 10_000_000_000;
            let file = fs::File::options().write(true).open(path.join("a")).unwrap();
            system::stamp(file.as_fd(), later).unwrap(); // from here the clock seems to have gone back
            drop(file);
            let mut old = generation(&directory, b"a");
            assert_eq!(old.time(), later);
            for _ in 0..50 {
                directory.replace(b"a", &[b"y"], Some(Some(old))).unwrap();
                let new = generation(&directory, b"a");
                assert!(new.time() > old.time() && new.time() < later + 1_000_000);
                assert!(!new.is_rounded());
                old = new;
            }
        });
    }

    #[test]
    fn a_time_that_is_kept_never_looks_rounded() {
        for time in [0, 99, 100, 999, 1000, -1, -1000, 1_700_000_000_000_000_000, i64::MAX] {
            let fine = fine_time(time);
            assert!(fine == i64::MAX || (fine - time <= 100 && fine.rem_euclid(1000) >= 100));
        }
        let times: std::collections::HashSet<_> = (0..8192).map(|_| new_time().unwrap()).collect();
        assert_eq!(times.len(), 8192);
        assert!(times.iter().all(|time| fine_time(*time) == *time));
    }
}
