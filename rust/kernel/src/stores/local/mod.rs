//! Files below a directory, as `tegula.stores.local.store` keeps them. Both may work in the same directory at the same time:
//! `docs/design/local-files.md` describes the steps that they share.
//!
//! Only the plain case is handled here: files at the paths of their keys, in directories that are not reached through
//! links. Anything else is `Error::Unusual`, so that the Python store handles it. An operation opens the directory of its
//! node once; `node` says when that stays open for the next one.

pub mod bulk;
#[cfg(unix)]
mod calls;
mod errno;
pub mod faults;
mod handles;
mod names;
mod node;
mod reading;
mod spelling;
mod system;
pub mod trial;
mod waiting;
mod writing;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};

use names::HIDDEN;
pub use node::Found;
use node::{Guard, Learnt, Node, Place};
use reading::LocalValue;
use spelling::Spelled;
use system::{AsFd, BorrowedFd, DIRECTORY, Errno, Flags, Last, Outcome, OwnedFd, PLACE, READ};
use writing::{Condition, Directory, Failure};

use crate::stores::files::SizeHint;
use crate::stores::{Expected, Generation, Piece, Store, Value};
use crate::{Error, Result, backoff};

/// Checks the directory of a prefix (without its last slash) and makes it if it is missing; an error means that this
/// was refused. Returns whether values may be put into it; links on the way to it are followed.
pub type Prepare = Box<dyn Fn(&str) -> Result<bool> + Send + Sync>;

/// Reads the document of the node, checks that it still describes the node, and returns what it has found. With `true` the
/// directory is another one, which is an error.
pub type Confirm = Box<dyn Fn(bool) -> Result<Found> + Send + Sync>;

const ATTEMPTS: usize = 50;
const REMEMBERED: usize = 65536;
const KEPT_OPEN: usize = 16;

/// Puts a file with a given name into a directory.
type InDirectory<'w> = dyn FnMut(&mut Directory, &[u8]) -> std::result::Result<(), Failure> + 'w;

/// A store of files below a directory; a [`Session`] reads and writes them.
pub struct LocalFiles {
    base: PathBuf,
    sync: bool,
    prepare: Prepare,
    anchor: Option<String>,
    node: Option<(Node, Confirm)>,
    prepared: RwLock<HashSet<Box<str>>>,
    base_has_links: AtomicBool,
    has_no_locks: AtomicBool,
    /// Where the file system ignores case.
    spelled: Option<Spelled>,
}

/// The values below a prefix, during one operation of a user: the session opens the directory once, and does not
/// see another directory that takes its place.
pub struct Session<'a> {
    files: &'a LocalFiles,
    prefix: String,
    place: Option<Arc<Place>>,
    /// For a read, whether the directory was open before.
    reads: Option<bool>,
    guard: Mutex<Option<Arc<Guard>>>,
    hint: SizeHint,
    directories: Mutex<Vec<(Box<str>, Directory)>>,
}

/// Whether the store may be used below a directory: elsewhere than on Linux, on a local disk whose file system is known.
pub fn serves(directory: &[u8]) -> bool {
    let is_known = |place: OwnedFd| system::local_disk(place.as_fd()).0;
    cfg!(target_os = "linux")
        || (system::open_at(system::anywhere(), &[directory], PLACE).is_ok_and(is_known) && trial::is_passed())
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
            node: None,
            prepared: RwLock::default(),
            base_has_links: AtomicBool::new(cfg!(windows)),
            has_no_locks: AtomicBool::new(false),
            spelled: None,
        }
    }

    /// Let the store make directories by itself as long as the file of the key `anchor` exists, if there is such a key;
    /// only `prepare` makes the first one.
    pub fn making_directories(mut self, anchor: &str) -> LocalFiles {
        self.anchor = Some(anchor.to_owned());
        self
    }

    /// Let all values belong to the node whose document has a key; all keys begin with `prefix`.
    pub fn of_node(mut self, document: &str, prefix: &str, confirm: Confirm) -> LocalFiles {
        self.node = Some((Node::new(document, prefix), confirm));
        self
    }

    /// Let the file system ignore case.
    pub fn ignoring_case(mut self) -> LocalFiles {
        self.spelled = Some(Spelled::default());
        self
    }

    /// Refuse keys that can't name a file of the store, or whose directory may have another spelling.
    fn check_key(&self, key: &str) -> Result<()> {
        check_key(key)?;
        let Some(spelled) = &self.spelled else { return Ok(()) };
        let prefix = self.node.as_ref().map_or("", |(node, _)| node.prefix());
        let known = if key.starts_with(prefix) { prefix.len() } else { 0 };
        spelled.check(key, known, |path| self.open_path(path, DIRECTORY))
    }

    /// Begin a read of values whose keys start with `prefix`, which is empty or ends in a slash; most are `hint` bytes
    /// long, or shorter. If all values belong to a node, its prefix is taken.
    ///
    /// # Errors
    ///
    /// The node is gone.
    pub fn reading(&self, prefix: &str, hint: usize) -> Result<Session<'_>> {
        match self.node.as_ref().and_then(|(node, _)| node.open()) {
            Some(place) => Ok(self.session_at(prefix, hint, Some(place)).reading(true)),
            None => Ok(self.writing(prefix, hint)?.reading(false)),
        }
    }

    /// Begin any other operation on such values; errors are as for `reading`.
    pub fn writing(&self, prefix: &str, hint: usize) -> Result<Session<'_>> {
        let Some((node, _)) = &self.node else { return Ok(self.session(prefix, hint)) };
        if !node.is_known()
            && let Some(place) = self.confirm()?
        {
            return Ok(self.session_at(prefix, hint, Some(place)));
        }
        for attempt in 0..backoff::ATTEMPTS {
            match self.open_path(node.prefix(), PLACE) {
                Ok(file) => return Ok(self.session_at(prefix, hint, Some(Arc::new(Place::new(file))))),
                // gone, or only for a moment
                Err(Errno(libc::ENOENT)) => drop(self.confirm()?),
                Err(_) => return Ok(self.session_at(prefix, hint, None)),
            }
            backoff::wait(attempt);
        }
        Err(Error::Changed)
    }

    /// Begin an operation that may be the first one on a node.
    pub fn session(&self, prefix: &str, hint: usize) -> Session<'_> {
        let prefix = self.node.as_ref().map_or(prefix, |(node, _)| node.prefix());
        self.session_at(prefix, hint, self.open_place(prefix))
    }

    fn session_at(&self, prefix: &str, hint: usize, place: Option<Arc<Place>>) -> Session<'_> {
        let prefix = self.node.as_ref().map_or(prefix, |(node, _)| node.prefix()).to_owned();
        let (hint, guard) = (SizeHint::new(hint), Mutex::default());
        Session { files: self, prefix, place, reads: None, guard, hint, directories: Mutex::default() }
    }

    /// The shape that the node's array is known to have now, if an array of `shape` would end beyond it along some axis.
    pub fn cuts(&self, shape: &[u64]) -> Option<Vec<u64>> {
        self.node.as_ref().and_then(|(node, _)| node.cuts(shape))
    }

    fn base(&self) -> &[u8] {
        self.base.as_os_str().as_encoded_bytes()
    }

    /// Learn the present state of the node's document, which has to describe the node still; return its directory.
    fn confirm(&self) -> Result<Option<Arc<Place>>> {
        let Some((node, confirm)) = &self.node else { return Ok(None) };
        for attempt in 0..backoff::ATTEMPTS {
            let found = confirm(false)?;
            let place = self.open_place(node.prefix());
            match node.learn(found, place.as_ref().map(|place| place.file.as_fd()), self.base()) {
                Learnt::Known => return Ok(place),
                Learnt::Changed => backoff::wait(attempt),
                Learnt::Replaced => return confirm(true).map(|_| None),
            }
        }
        Err(Error::Changed)
    }

    /// Open the directory of a prefix. If it is missing or reached through a link, each value is looked for by its path.
    fn open_place(&self, prefix: &str) -> Option<Arc<Place>> {
        let plain = prefix.is_empty() || prefix.strip_suffix('/').is_some_and(|prefix| check_key(prefix).is_ok());
        let opened = if plain { self.open_path(prefix, PLACE).ok() } else { None };
        opened.map(|file| Arc::new(Place::new(file)))
    }

    /// Open a path below the base that is reached through no link, except in the path of the base itself.
    fn open_path(&self, path: &str, flags: Flags) -> Outcome<OwnedFd> {
        let base = self.base();
        if !self.base_has_links.load(Ordering::Relaxed) {
            match system::open_beneath(system::anywhere(), &[base, path.as_bytes()], flags) {
                Err(Errno(libc::ELOOP)) => {}
                other => return other,
            }
        }
        let start = system::open_at(system::anywhere(), &[base], PLACE)?;
        let path = if path.is_empty() { "." } else { path };
        let found = system::open_beneath(start.as_fd(), &[path.as_bytes()], flags)?;
        self.base_has_links.store(true, Ordering::Relaxed);
        Ok(found)
    }

    fn open_file(&self, key: &str, flags: Flags) -> Result<Option<OwnedFd>> {
        self.check_key(key)?;
        found(self.open_path(key, flags))
    }

    /// Open the directory of a key for changes; check it and make it first if that has not been done yet.
    fn directory(&self, session: &Session<'_>, parent: &str, again: bool) -> Result<Option<Directory>> {
        if again || !self.is_prepared(parent) {
            let made = !again && self.make_directory(parent)?;
            if !made && !(self.prepare)(parent)? {
                return Err(Error::Unusual);
            }
            self.remember(parent);
        }
        let opened = match session.open_directory(parent) {
            Ok(file) => file,
            // made in a directory that has taken the place of the session's
            Err(Errno(libc::ENOENT)) if again && self.node.is_some() && session.is_replaced() => {
                return Err(Error::Changed);
            }
            Err(Errno(libc::ENOENT)) => return Ok(None),
            Err(Errno(libc::ELOOP)) if again => {
                let pieces = [self.base(), parent.as_bytes()];
                system::open_at(system::anywhere(), &pieces, DIRECTORY).map_err(|_| Error::Unusual)?
            }
            Err(Errno(libc::ELOOP)) => return Ok(None),
            Err(_) => return Err(Error::Unusual),
        };
        Ok(Some(Directory::new(opened, self.sync).guarded(session.guard()?)))
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
        let anchor = [self.base(), anchor.as_bytes()];
        if !system::status_at(system::anywhere(), &anchor, Last::Itself).is_ok_and(|found| found.is_file()) {
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
                let _ = system::remove_directory(above.as_fd(), name.as_bytes());
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

    fn put(&self, session: &Session<'_>, key: &str, parts: &[&[u8]], expected: Option<&Expected>) -> Result<()> {
        let expected = condition(expected)?;
        self.change(session, key, &mut |directory, name| directory.replace(name, parts, expected).map(|_| ()))
    }

    /// Replace a file, and return the state of the new one; see `Store::replace`.
    fn put_reporting(
        &self,
        session: &Session<'_>,
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
        session: &Session<'_>,
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

    /// Call `work` with the directory of a key and the name of the file there; call it again if another process removes
    /// the directory before `work` is done, or if the document of the node has changed and describes it still.
    fn change(&self, session: &Session<'_>, key: &str, work: &mut InDirectory<'_>) -> Result<()> {
        self.check_key(key)?;
        if self.has_no_locks.load(Ordering::Relaxed) || system::is_too_long(self.base(), key) {
            return Err(Error::Unusual);
        }
        let (parent, name) = key.rsplit_once('/').unwrap_or(("", key));
        // a directory that was made for nothing goes
        self.change_in(session, (parent, name), key, work).inspect_err(|_| self.prune(parent))
    }

    fn change_in(
        &self,
        session: &Session<'_>,
        (parent, name): (&str, &str),
        key: &str,
        work: &mut InDirectory<'_>,
    ) -> Result<()> {
        let (mut again, mut changed) = (false, false);
        for _ in 0..ATTEMPTS {
            let kept = session.take(parent);
            let found = match kept {
                Some(directory) => Some(directory),
                None => self.directory(session, parent, again)?,
            };
            again = true;
            let Some(mut directory) = found else { continue };
            match work(&mut directory, name.as_bytes()) {
                Ok(()) => {
                    session.keep(parent, directory);
                    return Ok(());
                }
                // Other processes remove an empty directory, so it may be gone before the file is in it.
                Err(Failure::System(Errno(libc::ENOENT))) => changed = false,
                Err(Failure::Changed) => {
                    session.renew()?;
                    changed = true;
                }
                Err(failure) => return Err(self.failed(key, failure)),
            }
        }
        if changed { Err(Error::Changed) } else { Err(self.error(key, "its directory keeps vanishing")) }
    }

    /// Remove a directory and the directories above it as long as they hold nothing but temporary files of dead
    /// writers.
    fn prune(&self, mut parent: &str) {
        while !parent.is_empty() {
            let (above, name) = parent.rsplit_once('/').unwrap_or(("", parent));
            let Ok(directory) = self.open_path(above, PLACE) else { return };
            let remove = || system::remove_directory(directory.as_fd(), name.as_bytes());
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
            Failure::Changed => Error::Changed,
            Failure::Unshared | Failure::Coarse => Error::Unusual,
            Failure::Busy => Error::Unusual, // the Python store waits on: its wait can be interrupted and is reported
            Failure::NoLocks => {
                self.has_no_locks.store(true, Ordering::Relaxed);
                Error::Unusual
            }
            Failure::System(Errno(libc::EISDIR)) => Error::Unusual, // the Python store removes it if no file lies below
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
        let path = self.base.join(key);
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
    if !trial::is_passed() {
        return Err(Error::Unusual);
    }
    let expected = condition(expected)?;
    let failed = |error: Errno| Error::System { message: error.text(), errno: error.0 };
    let opened = system::open_at(system::anywhere(), &[directory], DIRECTORY).map_err(failed)?;
    Directory::new(opened, sync).put(name, value, expected).map_err(|failure| match failure {
        Failure::Conflict => Error::Conflict,
        Failure::Changed => Error::Changed,
        Failure::System(error) => failed(error),
        // the Python store waits on for the lock, which can be interrupted and is reported
        Failure::NoLocks | Failure::Busy | Failure::Unshared | Failure::Coarse => Error::Unusual,
    })
}

impl Session<'_> {
    fn reading(mut self, is_kept: bool) -> Self {
        self.reads = Some(is_kept);
        self
    }

    /// Open the file of a key; `None` if there is none.
    fn open_file(&self, key: &str, flags: Flags) -> Result<Option<OwnedFd>> {
        let (Some(place), Some(name)) = (&self.place, key.strip_prefix(&*self.prefix)) else {
            return self.files.open_file(key, flags);
        };
        self.files.check_key(key)?;
        let answer = found(system::open_beneath(place.file.as_fd(), &[name.as_bytes()], flags))?;
        if answer.is_none() && self.files.node.is_none() && is_gone(place.file.as_fd()) {
            return self.files.open_file(key, flags);
        }
        Ok(answer)
    }

    /// Open the directory of keys, given without its last slash.
    fn open_directory(&self, parent: &str) -> Outcome<OwnedFd> {
        match (&self.place, self.files.node.is_some()) {
            (Some(place), true) if parent.len() + 1 == self.prefix.len() && self.prefix.starts_with(parent) => {
                system::open_beneath(place.file.as_fd(), &[b"."], DIRECTORY)
            }
            (Some(place), true) if parent.starts_with(&self.prefix) => {
                let name = &parent[self.prefix.len()..];
                let name = if name.is_empty() { "." } else { name };
                system::open_beneath(place.file.as_fd(), &[name.as_bytes()], DIRECTORY)
            }
            _ => self.files.open_path(parent, DIRECTORY),
        }
    }

    /// Whether another directory than that of the session, or none, is at its path.
    fn is_replaced(&self) -> bool {
        let identity = |file: BorrowedFd<'_>| system::status(file).map(|status| status.identity()).ok();
        let now = self.files.open_place(&self.prefix);
        let (then, now) = (self.place.as_ref(), now.as_ref());
        then.and_then(|place| identity(place.file.as_fd())) != now.and_then(|place| identity(place.file.as_fd()))
    }

    /// What each write of this session has to compare.
    fn guard(&self) -> Result<Option<Arc<Guard>>> {
        let Some((node, _)) = &self.files.node else { return Ok(None) };
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            *guard = Some(Arc::new(node.guard(self.place.as_ref(), self.files.base())?));
        }
        Ok(guard.clone())
    }

    /// Learn the state of the document after a write has found that it has changed. If the array has become shorter, the
    /// write has to begin again: it may lead beyond the end.
    fn renew(&self) -> Result<()> {
        let before = self.files.node.as_ref().map(|(node, _)| node.shape());
        self.files.confirm()?;
        if before.is_some_and(|shape| self.files.cuts(&shape).is_some()) {
            return Err(Error::Changed);
        }
        self.directories.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.guard.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    /// Delete the file of a key, if it is in the expected state, and directories that become empty.
    fn remove(&self, key: &str, expected: Option<Condition>) -> Result<()> {
        self.files.check_key(key)?;
        let (parent, name) = key.rsplit_once('/').unwrap_or(("", key));
        for _ in 0..ATTEMPTS {
            let file = match self.open_directory(parent) {
                Ok(file) => file,
                Err(Errno(libc::ENOENT)) if expected.flatten().is_none() => return Ok(()),
                Err(Errno(libc::ENOENT)) => return Err(Error::Conflict),
                Err(_) => return Err(Error::Unusual),
            };
            let directory = Directory::new(file, self.files.sync).guarded(self.guard()?);
            let mut removed = false;
            let done = directory.locked(|directory| {
                directory.check(name.as_bytes(), expected)?;
                removed = directory.remove(name.as_bytes())?;
                Ok(())
            });
            let done = done.and_then(|()| if removed { directory.sync_names() } else { Ok(()) });
            drop(directory);
            if removed {
                self.files.prune(parent);
            }
            match done {
                Err(Failure::Changed) => self.renew()?,
                done => return done.map_err(|failure| self.files.failed_to("delete", key, failure)),
            }
        }
        Err(Error::Changed)
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
        self.files.put(self, key, parts, expected)
    }

    fn replace(&self, key: &str, value: &[u8], expected: &Expected) -> Result<Option<Generation>> {
        self.files.put_reporting(self, key, value, expected)
    }

    fn waits(&self, key: &str) -> bool {
        cfg!(target_os = "linux")
            && self.open_file(key, READ).is_ok_and(|file| file.is_some_and(|file| system::would_wait(file.as_fd(), 0)))
    }

    fn set_like(&self, key: &str, old: &dyn Value, changes: &[Piece<'_>], expected: &Expected) -> Result<bool> {
        self.files.put_like(self, key, old, changes, expected)
    }

    fn delete(&self, key: &str, expected: Option<&Expected>) -> Result<()> {
        self.remove(key, condition(expected)?)
    }

    fn check(&self, absent: bool) -> Result<()> {
        let Some((node, _)) = &self.files.node else { return Ok(()) };
        let (place, base) = (self.place.as_ref(), self.files.base());
        let held = match self.reads {
            // the directory may have been moved since it was opened: then nothing is known about what is absent
            Some(true) if absent => {
                node.close();
                return Err(Error::Changed);
            }
            Some(is_kept) => node.held(place, base, is_kept),
            None => node.holds(place, base),
        };
        if held {
            return Ok(());
        }
        self.files.confirm()?;
        Err(Error::Changed)
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
            #[cfg(windows)]
            if !value.can_be_replaced() {
                return Ok(Some(Box::new(reading::Kept::new(&value)?)));
            }
            return Ok(Some(Box::new(value)));
        }
    }
    Ok(boxed(open()?, hint))
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
    let wrong =
        |segment: &str| matches!(segment, "" | "." | "..") || segment.starts_with(HIDDEN) || !system::is_plain(segment);
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
