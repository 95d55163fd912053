//! Names on a file system that ignores case: a key whose directory is stored under another spelling is not there, and what
//! has letters in its own name is left to the Python store, which looks at each.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use super::system::{self, AsFd, BorrowedFd, Errno, Outcome, OwnedFd};
use crate::{Error, Result};

const REMEMBERED: usize = 65536;

/// The directories that are known to be stored as their keys spell them.
#[derive(Default)]
pub struct Spelled(RwLock<HashSet<Box<str>>>);

/// Whether a file system that ignores case may take a name for another one.
fn has_twins(name: &str) -> bool {
    name.bytes().any(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii())
}

impl Spelled {
    /// Check the names in a key after its first `known` bytes; `open` opens a directory.
    ///
    /// # Errors
    ///
    /// `Unusual` if only the Python store can tell, or a directory is stored under another spelling.
    pub fn check(&self, key: &str, known: usize, open: impl Fn(&str) -> Outcome<OwnedFd>) -> Result<()> {
        let (parent, name) = key.rsplit_once('/').unwrap_or(("", key));
        if has_twins(name) {
            return Err(Error::Unusual);
        }
        let below = parent.get(known..).unwrap_or_default();
        if !has_twins(below) || self.0.read().unwrap_or_else(PoisonError::into_inner).contains(parent) {
            return Ok(());
        }
        let mut end = known;
        for name in below.split('/') {
            let above = parent[..end].trim_end_matches('/');
            end += name.len() + 1;
            if !has_twins(name) {
                continue;
            }
            let directory = match open(above) {
                Err(Errno(libc::ENOENT)) => return Ok(()),
                other => other.map_err(|_| Error::Unusual)?,
            };
            match spells(directory.as_fd(), name) {
                Ok(Some(true)) => {}
                Ok(None) => return Ok(()), // nothing is there
                _ => return Err(Error::Unusual),
            }
        }
        let mut spelled = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if spelled.len() >= REMEMBERED {
            spelled.clear();
        }
        spelled.insert(parent.into());
        Ok(())
    }
}

fn spells(directory: BorrowedFd<'_>, name: &str) -> Outcome<Option<bool>> {
    system::spelling(directory, name.as_bytes()).map(|found| found.map(|found| found == name.as_bytes()))
}
