//! Reads local files on every system, by their paths.
//!
//! The Python store finds and checks the directory of each key; the kernel opens the files in it, and reads them. It
//! reads only files that are there and whose names every file system takes as they are, or the names that the caller says
//! this one does. Anything else is `Error::Unusual`, and so are all changes. `local` does more, on Linux.

mod system;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::files::{self, Bytes, SizeHint};
use super::{Expected, Parts, Value};
use crate::{Error, Result};

/// Checks the directory of a prefix (without its last slash), and returns its path, ending in a separator; `None` if
/// there is nothing at its path.
pub type Locate = Box<dyn Fn(&str) -> Result<Option<OsString>> + Send + Sync>;

/// The files below a directory; [`Reading`] reads them.
pub struct PlainFiles {
    locate: Locate,
    is_exact: bool,
}

/// Files, while one operation of a user reads them: each directory is checked once.
pub struct Reading<'f> {
    files: &'f PlainFiles,
    hint: SizeHint,
    places: RwLock<HashMap<Box<str>, Option<Arc<OsString>>>>,
}

/// An open file, which does not change when other writers replace it.
struct PlainValue<'r> {
    file: File,
    hint: &'r SizeHint,
    size: OnceLock<u64>,
}

impl PlainFiles {
    /// Make the store whose directories `locate` finds; `is_exact` says that the file system takes ASCII letters, too, as
    /// they are.
    pub fn new(locate: Locate, is_exact: bool) -> PlainFiles {
        PlainFiles { locate, is_exact }
    }

    /// Begin to read values, most of which are `hint` bytes long, or shorter.
    pub fn reading(&self, hint: usize) -> Reading<'_> {
        Reading { files: self, hint: SizeHint::new(hint), places: RwLock::default() }
    }

    /// Whether the name of a file means the same to every file system: no letters whose case may be ignored, no device
    /// of Windows, and nothing at the end that Windows drops.
    fn is_plain(&self, name: &str) -> bool {
        let plain = |byte: u8| {
            byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'_') || (self.is_exact && byte.is_ascii_alphabetic())
        };
        name.bytes().all(plain) && !name.starts_with('.') && !name.ends_with('.') && !name.is_empty()
    }
}

impl Reading<'_> {
    /// Open the value of `key`; see `Store::open`.
    ///
    /// # Errors
    ///
    /// `Unusual` if only the Python store can answer.
    pub fn open(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        let (parent, name) = key.rsplit_once('/').unwrap_or(("", key));
        if !self.files.is_plain(name) {
            return Err(Error::Unusual);
        }
        let Some(place) = self.place(parent)? else { return Ok(None) };
        let mut path = OsString::with_capacity(place.len() + name.len());
        path.push(place.as_os_str());
        path.push(name);
        let file = match system::open(&PathBuf::from(path)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(_) => return Err(Error::Unusual),
        };
        let value = PlainValue { file, hint: &self.hint, size: OnceLock::new() };
        if cfg!(windows) {
            value.nbytes()?; // what is read from a link has no meaning
        }
        Ok(Some(Box::new(value)))
    }

    fn place(&self, parent: &str) -> Result<Option<Arc<OsString>>> {
        if let Some(known) = self.places.read().unwrap_or_else(PoisonError::into_inner).get(parent) {
            return Ok(known.clone());
        }
        let found = (self.files.locate)(parent)?.map(Arc::new);
        self.places.write().unwrap_or_else(PoisonError::into_inner).insert(parent.into(), found.clone());
        Ok(found)
    }
}

impl std::fmt::Debug for PlainFiles {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("PlainFiles").field("is_exact", &self.is_exact).finish_non_exhaustive()
    }
}

impl Bytes for PlainValue<'_> {
    fn read(&self, room: &mut [u8], position: u64) -> Result<usize> {
        system::read(&self.file, room, position).map_err(|_| Error::Unusual)
    }

    fn nbytes(&self) -> Result<u64> {
        if let Some(size) = self.size.get() {
            return Ok(*size);
        }
        let size = system::size(&self.file).ok().flatten().ok_or(Error::Unusual)?;
        Ok(*self.size.get_or_init(|| size))
    }

    fn known_nbytes(&self) -> Option<u64> {
        self.size.get().copied()
    }
}

impl Value for PlainValue<'_> {
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        files::with_all(self, self.hint, work)
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<usize> {
        files::read_at(self, start, out)
    }

    fn size(&self) -> Result<u64> {
        self.nbytes()
    }

    fn generation(&self) -> Result<Expected> {
        Err(Error::Unusual)
    }

    fn parts(&self) -> Option<Parts> {
        Some(files::PARTS)
    }
}
