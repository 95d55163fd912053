//! What the tests of local files share.

use std::ops::Deref;
use std::sync::Mutex;

use tegula_kernel::stores::local::{LocalFiles, Session};

/// A store, and a session of all its values: the methods of both at the same time. It lives until the process ends.
pub struct Whole {
    pub files: &'static LocalFiles,
    all: Session<'static>,
}

/// What lives as long as the process, where a search for leaks finds it.
static KEPT: Mutex<Vec<&'static LocalFiles>> = Mutex::new(Vec::new());

impl Whole {
    pub fn new(files: LocalFiles) -> Whole {
        let files: &LocalFiles = Box::leak(Box::new(files));
        KEPT.lock().unwrap().push(files);
        Whole { files, all: files.session("", 1 << 16) }
    }
}

impl Deref for Whole {
    type Target = Session<'static>;

    fn deref(&self) -> &Session<'static> {
        &self.all
    }
}
