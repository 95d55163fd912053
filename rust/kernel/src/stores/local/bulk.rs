//! Looks for or deletes many values together: each directory is opened once, and locked once for many of its files.

use std::os::fd::{AsFd, OwnedFd};

use super::system;
use super::writing::Directory;
use super::{DIRECTORY, LocalFiles, PLACE, check_key, found};
use crate::{Error, Result};

/// So many files are deleted before the directory is unlocked for other writers, and the caller is asked again.
const BATCH: usize = 512;

impl LocalFiles {
    /// Whether a file or directory stands in the place of one of these keys; keys of one directory should follow each
    /// other.
    ///
    /// # Errors
    ///
    /// `Unusual` if only the store's own, slower way can answer.
    pub fn any(&self, keys: impl Iterator<Item = String>) -> Result<bool> {
        let mut last: Option<(String, Option<OwnedFd>)> = None;
        for key in keys {
            check_key(&key)?;
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
    /// state which `holds` looks at puts its file in place before the call, or after the files are gone. Returns
    /// whether `holds` has always returned true.
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
            check_key(&key)?;
            let parent = key.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
            let mut batch = vec![key];
            while batch.len() < BATCH
                && let Some(key) = keys.next_if(|next| next.rsplit_once('/').map_or("", |(other, _)| other) == parent)
            {
                check_key(&key)?;
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
