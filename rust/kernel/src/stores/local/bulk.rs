//! Looks for, reads or deletes many values together: each directory is opened once, and locked once for many of its
//! files.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::reading::LocalValue;
use super::system::{self, AsFd, DIRECTORY, Errno, Last, OwnedFd, PLACE, READ};
use super::writing::Directory;
use super::{LocalFiles, found, trial};
use crate::memory::with_scratch;
use crate::stores::files::read_all;
use crate::{Error, Result, pool};

/// How many files are deleted before the directory is unlocked for other writers, and `holds` is called again.
const BATCH: usize = 512;
/// How many files a thread looks up or reads before it takes more.
const SHARE: usize = 16;

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// These are its first bytes.
    Bytes(Vec<u8>),
    /// There is no such file.
    Absent,
}

/// Read files below the directory `base`, up to `most` bytes of each, with up to `threads` threads; `None` stands for a
/// file that only the Python store can read.
pub fn read_files(base: PathBuf, keys: &[String], most: usize, threads: usize) -> Vec<Option<Content>> {
    let files = LocalFiles::new(base, false, Box::new(|_| Ok(false)));
    let session = files.session("", most);
    answers(keys, threads, |key| match session.open_file(key, READ)? {
        None => Ok(Content::Absent),
        Some(file) => with_scratch(most, |buffer| {
            let size = read_all(&LocalValue::new(file, &session.hint), buffer)?.unwrap_or(most);
            Ok(Content::Bytes(buffer[..size].to_vec()))
        }),
    })
}

/// Whether there are plain files at paths below a directory, looked at with up to `threads` threads; `None` stands for
/// a path that only the Python store can look at.
pub fn find_files(directory: &[u8], paths: &[String], threads: usize) -> Vec<Option<bool>> {
    let Ok(place) = system::open_at(system::anywhere(), &[directory], PLACE) else { return vec![None; paths.len()] };
    answers(paths, threads, |path| match system::status_at(place.as_fd(), &[path.as_bytes()], Last::Itself) {
        Ok(status) if status.is_file() => Ok(true),
        Err(Errno(libc::ENOENT)) => Ok(false),
        _ => Err(Error::Unusual),
    })
}

/// Call `one` for each of the keys, with up to `threads` threads; `None` stands for an error.
fn answers<T: Send + Sync>(keys: &[String], threads: usize, one: impl Fn(&str) -> Result<T> + Sync) -> Vec<Option<T>> {
    if !trial::is_passed() {
        return keys.iter().map(|_| None).collect();
    }
    let answers: Vec<OnceLock<T>> = keys.iter().map(|_| OnceLock::new()).collect();
    let share = |number: usize| {
        for index in number * SHARE..keys.len().min((number + 1) * SHARE) {
            if let Ok(answer) = one(&keys[index]) {
                let _ = answers[index].set(answer);
            }
        }
        Ok(())
    };
    let _ = pool::run(threads, keys.len().div_ceil(SHARE), &share, &mut || Ok(()));
    answers.into_iter().map(OnceLock::into_inner).collect()
}

impl LocalFiles {
    /// Whether a file or directory is in the place of one of these keys; keys of one directory should be adjacent. Another
    /// node may have taken the place: the caller relies on the answer only if it can change the document afterwards.
    ///
    /// # Errors
    ///
    /// `Unusual` if only the store's own, slower way can answer.
    pub fn any(&self, keys: impl Iterator<Item = String>) -> Result<bool> {
        let mut last: Option<(String, Option<OwnedFd>)> = None;
        for key in keys {
            self.check_key(&key)?;
            let (parent, name) = key.rsplit_once('/').unwrap_or(("", &key));
            if last.as_ref().is_none_or(|(known, _)| known != parent) {
                last = Some((parent.to_owned(), found(self.open_path(parent, PLACE))?));
            }
            let Some((_, Some(directory))) = &last else { continue };
            match system::stands_at(directory.as_fd(), name.as_bytes()) {
                Ok(false) => {}
                Ok(true) => return Ok(true),
                Err(_) => return Err(Error::Unusual),
            }
        }
        Ok(false)
    }

    /// Delete the files of these keys, as long as `holds` returns true.
    ///
    /// `holds` is called while a directory is locked, before some of its files are deleted. So a writer that relies on the
    /// state that `holds` checks puts its file in place either before that call, or after the files have been deleted. It
    /// checks as well that the chunks are those of the same array still.
    /// Returns whether `holds` has always returned true.
    ///
    /// # Errors
    ///
    /// `Unusual` if only the store's own, slower way can delete them; some may have been deleted.
    pub fn delete_all(
        &self,
        keys: impl Iterator<Item = String>,
        holds: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<bool> {
        let mut keys = keys.peekable();
        while let Some(key) = keys.next() {
            self.check_key(&key)?;
            let parent = key.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
            let mut batch = vec![key];
            while batch.len() < BATCH
                && let Some(key) = keys.next_if(|next| next.rsplit_once('/').map_or("", |(other, _)| other) == parent)
            {
                self.check_key(&key)?;
                batch.push(key);
            }
            let Some(file) = found(self.open_path(&parent, DIRECTORY))? else { continue };
            let directory = Directory::new(file, self.sync);
            let skip = if parent.is_empty() { 0 } else { parent.len() + 1 };
            let (mut answer, mut removed) = (Ok(true), false);
            let locked = directory.locked(|directory| {
                answer = holds();
                if matches!(answer, Ok(true)) {
                    for name in batch.iter().filter_map(|key| key.as_bytes().get(skip..)) {
                        removed |= directory.remove(name)?;
                    }
                }
                Ok(())
            });
            let done = locked.and_then(|()| if removed { directory.sync_names() } else { Ok(()) });
            drop(directory);
            if removed {
                self.prune(&parent);
            }
            done.map_err(|failure| self.failed_to("delete", &parent, failure))?;
            if !answer? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
