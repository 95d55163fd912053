//! Files below a directory, as `tegula.stores.local` keeps them. Both may work in the same directory at the same time:
//! `docs/design/local-files.md` describes the steps that they share.
//!
//! Only the plain case is handled here: files at the paths of their keys, in directories that are not reached through
//! links. Anything else is `Error::Unusual`, so that the Python store handles it. No directory stays open from one
//! operation to the next: if a directory was removed and made again, the values in the new one would seem missing.

pub mod bulk;
mod errno;
pub mod faults;
mod reading;
mod system;
mod waiting;
mod writing;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, TryLockError};

use reading::{LocalValue, SizeHint};
use system::{BENEATH, Errno, Outcome, THROUGH_NO_LINK};
use writing::{Condition, Directory, Failure, HIDDEN};

use crate::stores::{Expected, Generation, Piece, Store, Value};
use crate::{Error, Result};

/// Checks the directory of a prefix (without its last slash) and makes it if it is missing; an error means that this
/// was refused. Returns whether values may be put into it; links on the way to it are followed.
pub type Prepare = Box<dyn Fn(&str) -> Result<bool> + Send + Sync>;

// O_NONBLOCK: otherwise opening a named pipe among the files would block until it has a writer.
const READ: i32 = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOFOLLOW;
const DIRECTORY: i32 = libc::O_RDONLY | libc::O_DIRECTORY;
const PLACE: i32 = libc::O_PATH | libc::O_DIRECTORY;
const LOOK: i32 = libc::O_PATH | libc::O_NOFOLLOW;
const ATTEMPTS: usize = 50;
const REMEMBERED: usize = 65536;
const KEPT_OPEN: usize = 16;
const USUAL_SIZE: usize = 1 << 16;

/// Puts a file with a given name into a directory.
type InDirectory<'w> = dyn FnMut(&mut Directory, &[u8]) -> std::result::Result<(), Failure> + 'w;

/// A store of files below a directory.
///
/// Each operation walks the whole path; use a [`Session`] for many operations in a row.
pub struct LocalFiles {
    base: PathBuf,
    sync: bool,
    prepare: Prepare,
    anchor: Option<String>,
    hint: SizeHint,
    prepared: RwLock<HashSet<Box<str>>>,
    base_has_links: AtomicBool,
    has_no_locks: AtomicBool,
}

/// The values below a prefix, during one operation of a user: the directory is opened once.
pub struct Session<'a> {
    files: &'a LocalFiles,
    prefix: String,
    place: Option<OwnedFd>,
    hint: SizeHint,
    directories: Mutex<Vec<(Box<str>, Directory)>>,
}

impl LocalFiles {
    /// Make the store below `base`, an absolute path that ends in a slash. With `sync` a value and its name are on the
    /// disk when `set` returns. `prepare` is called before the first value is put into a directory, and again if the
    /// directory is missing or reached through a link.
    pub fn new(base: PathBuf, sync: bool, prepare: Prepare) -> LocalFiles {
        LocalFiles {
            base,
            sync,
            prepare,
            anchor: None,
            hint: SizeHint::new(USUAL_SIZE),
            prepared: RwLock::default(),
            base_has_links: AtomicBool::new(false),
            has_no_locks: AtomicBool::new(false),
        }
    }

    /// Let the store make directories by itself as long as the file of the key `anchor` exists, if there is such a key;
    /// only `prepare` makes the first one.
    pub fn making_directories(mut self, anchor: &str) -> LocalFiles {
        self.anchor = Some(anchor.to_owned());
        self
    }

    /// Begin an operation on the values whose keys start with `prefix`, which is empty or ends in a slash; most are
    /// `hint` bytes long, or shorter.
    pub fn session(&self, prefix: &str, hint: usize) -> Session<'_> {
        // If the directory is missing or reached through a link, each value is looked for by its whole path.
        let plain = prefix.is_empty() || prefix.strip_suffix('/').is_some_and(|prefix| check_key(prefix).is_ok());
        let place = if plain { self.open_path(prefix, PLACE).ok() } else { None };
        let hint = SizeHint::new(hint);
        Session { files: self, prefix: prefix.to_owned(), place, hint, directories: Mutex::default() }
    }

    /// Open a path below the base that is reached through no link, except in the path of the base itself.
    fn open_path(&self, path: &str, flags: i32) -> Outcome<OwnedFd> {
        let base = self.base.as_os_str().as_bytes();
        if !self.base_has_links.load(Ordering::Relaxed) {
            match system::open_beneath(system::anywhere(), &[base, path.as_bytes()], flags, THROUGH_NO_LINK) {
                Err(Errno(libc::ELOOP)) => {}
                other => return other,
            }
        }
        let start = system::open_at(system::anywhere(), &[base], PLACE)?;
        let path = if path.is_empty() { "." } else { path };
        let found = system::open_beneath(start.as_fd(), &[path.as_bytes()], flags, BENEATH)?;
        self.base_has_links.store(true, Ordering::Relaxed);
        Ok(found)
    }

    fn open_file(&self, key: &str, flags: i32) -> Result<Option<OwnedFd>> {
        check_key(key)?;
        found(self.open_path(key, flags))
    }

    /// Open the directory of a key for changes; check it and make it first if that has not been done yet.
    fn directory(&self, parent: &str, again: bool) -> Result<Option<Directory>> {
        if again || !self.is_prepared(parent) {
            let made = !again && self.make_directory(parent)?;
            if !made && !(self.prepare)(parent)? {
                return Err(Error::Unusual);
            }
            self.remember(parent);
        }
        match self.open_path(parent, DIRECTORY) {
            Ok(file) => Ok(Some(Directory::new(file, self.sync))),
            Err(Errno(libc::ENOENT)) => Ok(None),
            Err(Errno(libc::ELOOP)) if again => {
                let pieces = [self.base.as_os_str().as_bytes(), parent.as_bytes()];
                let file = system::open_at(system::anywhere(), &pieces, DIRECTORY).map_err(|_| Error::Unusual)?;
                Ok(Some(Directory::new(file, self.sync)))
            }
            Err(Errno(libc::ELOOP)) => Ok(None),
            Err(_) => Err(Error::Unusual),
        }
    }

    /// Make a missing directory in one that exists, if `prepare` has allowed a directory of this store before. Returns
    /// whether the directory is new: then it holds nothing that has to be checked or removed.
    ///
    /// # Errors
    ///
    /// The name of the new directory can't be brought to the disk; the directory is removed again.
    fn make_directory(&self, path: &str) -> Result<bool> {
        let agreed = self.prepared.try_read().is_ok_and(|prepared| !prepared.is_empty());
        let Some(anchor) = self.anchor.as_ref().filter(|_| agreed && check_key(path).is_ok()) else { return Ok(false) };
        let anchor = [self.base.as_os_str().as_bytes(), anchor.as_bytes()];
        if !system::status_at(system::anywhere(), &anchor, libc::AT_SYMLINK_NOFOLLOW).is_ok_and(|found| found.is_file())
        {
            return Ok(false);
        }
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let Ok(above) = self.open_path(above, if self.sync { DIRECTORY } else { PLACE }) else { return Ok(false) };
        if system::make_directory(above.as_fd(), name.as_bytes()).is_err() {
            return Ok(false);
        }
        if self.sync {
            system::sync(above.as_fd()).map_err(|error| {
                // The next attempt has to make it again, since the name of an existing directory is assumed to be on disk.
                let _ = system::unlink(above.as_fd(), name.as_bytes(), libc::AT_REMOVEDIR);
                self.failed(path, Failure::System(error))
            })?;
        }
        Ok(true)
    }

    // Never wait for the lock: in a child of `fork` its holder may not exist.
    fn is_prepared(&self, parent: &str) -> bool {
        match self.prepared.try_read() {
            Ok(prepared) => prepared.contains(parent),
            Err(TryLockError::Poisoned(error)) => error.into_inner().contains(parent),
            Err(TryLockError::WouldBlock) => false,
        }
    }

    fn remember(&self, parent: &str) {
        if let Ok(mut prepared) = self.prepared.try_write() {
            if prepared.len() >= REMEMBERED {
                prepared.clear();
            }
            prepared.insert(parent.into());
        }
    }

    fn put(
        &self,
        session: Option<&Session<'_>>,
        key: &str,
        parts: &[&[u8]],
        expected: Option<&Expected>,
    ) -> Result<()> {
        let expected = condition(expected)?;
        self.change(session, key, &mut |directory, name| directory.replace(name, parts, expected).map(|_| ()))
    }

    /// Replace a file, and return the state of the new one; see `Store::replace`.
    fn put_reporting(
        &self,
        session: Option<&Session<'_>>,
        key: &str,
        value: &[u8],
        expected: &Expected,
    ) -> Result<Option<Generation>> {
        let expected = condition(Some(expected))?;
        let mut made = None;
        self.change(session, key, &mut |directory, name| {
            made = directory.reporting(|directory| directory.replace(name, &[value], expected))?;
            Ok(())
        })?;
        Ok(made)
    }

    /// Store a copy of a file with changes; see `Store::set_like`.
    fn put_like(
        &self,
        session: Option<&Session<'_>>,
        key: &str,
        old: &dyn Value,
        changes: &[Piece<'_>],
        expected: &Expected,
    ) -> Result<bool> {
        let (Some(old), Some(expected)) = (old.file(), condition(Some(expected))?) else { return Ok(false) };
        let mut done = false;
        self.change(session, key, &mut |directory, name| {
            done = directory.replace_like(name, old, changes, expected)?;
            Ok(())
        })?;
        Ok(done)
    }

    /// Call `work` with the directory of a key and the name of the file there; call it again if another
    /// process removes the directory before `work` is done.
    fn change(&self, session: Option<&Session<'_>>, key: &str, work: &mut InDirectory<'_>) -> Result<()> {
        check_key(key)?;
        if self.has_no_locks.load(Ordering::Relaxed) {
            return Err(Error::Unusual);
        }
        let (parent, name) = key.rsplit_once('/').unwrap_or(("", key));
        let mut again = false;
        for _ in 0..ATTEMPTS {
            let kept = session.and_then(|session| session.take(parent));
            let found = match kept {
                Some(directory) => Some(directory),
                None => self.directory(parent, again)?,
            };
            again = true;
            let Some(mut directory) = found else { continue };
            match work(&mut directory, name.as_bytes()) {
                Ok(()) => {
                    if let Some(session) = session {
                        session.keep(parent, directory);
                    }
                    return Ok(());
                }
                // Other processes remove an empty directory, so it may be gone before the file is in it.
                Err(Failure::System(Errno(libc::ENOENT))) => {}
                Err(failure) => {
                    drop(directory);
                    self.prune(parent);
                    return Err(self.failed(key, failure));
                }
            }
        }
        self.prune(parent);
        Err(self.error(key, "its directory keeps vanishing"))
    }

    /// Remove a directory and the directories above it as long as they hold nothing but temporary files of dead
    /// writers.
    fn prune(&self, mut parent: &str) {
        while !parent.is_empty() {
            let (above, name) = parent.rsplit_once('/').unwrap_or(("", parent));
            let Ok(directory) = self.open_path(above, PLACE) else { return };
            let remove = || system::unlink(directory.as_fd(), name.as_bytes(), libc::AT_REMOVEDIR);
            match remove() {
                Ok(()) => {}
                Err(Errno(libc::ENOTEMPTY)) if self.reclaim(parent) && remove().is_ok() => {}
                Err(_) => return,
            }
            parent = above;
        }
    }

    /// Remove the temporary files of dead writers from a directory that holds nothing else; return whether all are gone.
    fn reclaim(&self, parent: &str) -> bool {
        let Ok(directory) = self.open_path(parent, DIRECTORY) else { return false };
        let Ok(names) = system::names(directory.as_fd(), |name| name.starts_with(HIDDEN.as_bytes())) else {
            return false;
        };
        let directory = Directory::new(directory, false);
        names.iter().flatten().all(|name| directory.remove_leftover(name)) && names.is_some()
    }

    #[cold]
    fn failed(&self, key: &str, failure: Failure) -> Error {
        self.failed_to("write", key, failure)
    }

    #[cold]
    fn failed_to(&self, action: &str, key: &str, failure: Failure) -> Error {
        match failure {
            Failure::Conflict => Error::Conflict,
            Failure::Unshared | Failure::Coarse => Error::Unusual,
            Failure::Busy => Error::Unusual, // the Python store waits on: its wait can be interrupted and is reported
            Failure::NoLocks => {
                self.has_no_locks.store(true, Ordering::Relaxed);
                Error::Unusual
            }
            Failure::System(error) => {
                Error::System { message: self.message(action, key, &error.text()), errno: error.0 }
            }
        }
    }

    #[cold]
    fn error(&self, key: &str, cause: &str) -> Error {
        Error::Store { message: self.message("write", key, cause) }
    }

    fn message(&self, action: &str, key: &str, cause: &str) -> String {
        let path = self.base.join(Path::new(OsStr::from_bytes(key.as_bytes())));
        format!("can't {action} {}: {cause}", path.display())
    }
}

/// Replace the file `name` in the directory at a path by a file that holds `value`, in one step, and return the new
/// file's state.
///
/// The caller has checked the path and the name, and has removed the temporary files of dead writers there. With `sync`
/// the value and its name are on the disk afterwards.
///
/// # Errors
///
/// `Unusual` if the Python store has to do it; `Conflict` if the old file is not in the state `expected`. After any
/// error the old file is unchanged.
pub fn put_file(
    directory: &[u8],
    name: &[u8],
    value: &[u8],
    expected: Option<&Expected>,
    sync: bool,
) -> Result<Generation> {
    let expected = condition(expected)?;
    let failed = |error: Errno| Error::System { message: error.text(), errno: error.0 };
    let opened = system::open_at(system::anywhere(), &[directory], DIRECTORY).map_err(failed)?;
    Directory::new(opened, sync).put(name, value, expected).map_err(|failure| match failure {
        Failure::Conflict => Error::Conflict,
        Failure::System(error) => failed(error),
        // the Python store waits on for the lock, which can be interrupted and is reported
        Failure::NoLocks | Failure::Busy | Failure::Unshared | Failure::Coarse => Error::Unusual,
    })
}

impl Session<'_> {
    /// Open the file of a key; `None` if there is none.
    fn open_file(&self, key: &str, flags: i32) -> Result<Option<OwnedFd>> {
        let (Some(place), Some(name)) = (&self.place, key.strip_prefix(&*self.prefix)) else {
            return self.files.open_file(key, flags);
        };
        check_key(key)?;
        let answer = found(system::open_beneath(place.as_fd(), &[name.as_bytes()], flags, BENEATH))?;
        if answer.is_none() && is_gone(place.as_fd()) {
            return self.files.open_file(key, flags);
        }
        Ok(answer)
    }

    fn take(&self, parent: &str) -> Option<Directory> {
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        let index = directories.iter().rposition(|(name, _)| **name == *parent)?;
        Some(directories.swap_remove(index).1)
    }

    fn keep(&self, parent: &str, directory: Directory) {
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        if directories.len() >= KEPT_OPEN {
            directories.remove(0);
        }
        directories.push((parent.into(), directory));
    }
}

impl Store for Session<'_> {
    fn open(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        Ok(boxed(self.open_file(key, READ)?, &self.hint))
    }

    fn open_for_change(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        open_locked(|| self.open_file(key, READ), &self.hint)
    }

    fn set(&self, key: &str, parts: &[&[u8]], expected: Option<&Expected>) -> Result<()> {
        self.files.put(Some(self), key, parts, expected)
    }

    fn replace(&self, key: &str, value: &[u8], expected: &Expected) -> Result<Option<Generation>> {
        self.files.put_reporting(Some(self), key, value, expected)
    }

    fn waits(&self, key: &str) -> bool {
        self.open_file(key, READ).is_ok_and(|file| file.is_some_and(|file| system::would_wait(file.as_fd(), 0)))
    }

    fn set_like(&self, key: &str, old: &dyn Value, changes: &[Piece<'_>], expected: &Expected) -> Result<bool> {
        self.files.put_like(Some(self), key, old, changes, expected)
    }

    fn delete(&self, key: &str, expected: Option<&Expected>) -> Result<()> {
        agree_absent(self.open_file(key, LOOK)?, expected)
    }
}

impl Store for LocalFiles {
    fn open(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        Ok(boxed(self.open_file(key, READ)?, &self.hint))
    }

    fn open_for_change(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        open_locked(|| self.open_file(key, READ), &self.hint)
    }

    fn set(&self, key: &str, parts: &[&[u8]], expected: Option<&Expected>) -> Result<()> {
        self.put(None, key, parts, expected)
    }

    fn replace(&self, key: &str, value: &[u8], expected: &Expected) -> Result<Option<Generation>> {
        self.put_reporting(None, key, value, expected)
    }

    fn waits(&self, key: &str) -> bool {
        self.open_file(key, READ).is_ok_and(|file| file.is_some_and(|file| system::would_wait(file.as_fd(), 0)))
    }

    fn set_like(&self, key: &str, old: &dyn Value, changes: &[Piece<'_>], expected: &Expected) -> Result<bool> {
        self.put_like(None, key, old, changes, expected)
    }

    fn delete(&self, key: &str, expected: Option<&Expected>) -> Result<()> {
        agree_absent(self.open_file(key, LOOK)?, expected)
    }
}

impl std::fmt::Debug for LocalFiles {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("LocalFiles").field("base", &self.base).field("sync", &self.sync).finish_non_exhaustive()
    }
}

fn boxed(file: Option<OwnedFd>, hint: &SizeHint) -> Option<Box<dyn Value + '_>> {
    file.map(|file| Box::new(LocalValue::new(file, hint)) as Box<dyn Value>)
}

/// Open a file and lock it; if it was replaced or removed during the wait, open the new file.
///
/// The lock only saves work, and nothing relies on it, so the wait is short.
fn open_locked<'a>(
    open: impl Fn() -> Result<Option<OwnedFd>>,
    hint: &'a SizeHint,
) -> Result<Option<Box<dyn Value + 'a>>> {
    for _ in 0..ATTEMPTS {
        let Some(file) = open()? else { return Ok(None) };
        let mut value = LocalValue::new(file, hint);
        if value.wait_for_lock()?.links > 0 {
            return Ok(Some(Box::new(value)));
        }
    }
    Ok(boxed(open()?, hint))
}

/// Succeed if there is nothing to delete. If there is, the Python store deletes it, and directories that become empty.
fn agree_absent(file: Option<OwnedFd>, expected: Option<&Expected>) -> Result<()> {
    match (file, condition(expected)?) {
        (Some(_), _) => Err(Error::Unusual),
        (None, Some(Some(_))) => Err(Error::Conflict),
        (None, _) => Ok(()),
    }
}

fn condition(expected: Option<&Expected>) -> Result<Option<Condition>> {
    match expected {
        None => Ok(None),
        Some(Expected::Absent) => Ok(Some(None)),
        // for files with a rounded time the Python store knows more of the state
        Some(Expected::File(generation)) if generation.is_rounded() => Err(Error::Unusual),
        Some(Expected::File(generation)) => Ok(Some(Some(*generation))),
        Some(Expected::Foreign(_)) => Err(Error::Unusual),
    }
}

/// Refuse keys that can't name a file of the store, or lead out of it; the Python store then raises the error.
fn check_key(key: &str) -> Result<()> {
    let wrong = |segment: &str| matches!(segment, "" | "." | "..") || segment.starts_with(HIDDEN);
    if key.bytes().any(|byte| byte == 0) || key.split('/').any(wrong) { Err(Error::Unusual) } else { Ok(()) }
}

fn found(file: Outcome<OwnedFd>) -> Result<Option<OwnedFd>> {
    match file {
        Ok(file) => Ok(Some(file)),
        Err(Errno(libc::ENOENT)) => Ok(None),
        Err(_) => Err(Error::Unusual),
    }
}

/// Whether an open directory has been removed: nothing is found in it, although a new one may stand at its path.
fn is_gone(directory: BorrowedFd<'_>) -> bool {
    system::status(directory).map_or(true, |status| status.links == 0)
}
