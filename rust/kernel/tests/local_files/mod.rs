//! What the tests of local files share.

use std::ops::Deref;
use std::process::Command;
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

/// Return a command that starts this program again, by the emulator that runs it if there is one.
#[allow(dead_code)] // not each program starts itself
pub fn this_program() -> Command {
    let program = std::env::current_exe().unwrap();
    let emulator = std::env::var("TEGULA_EMULATOR").unwrap_or_default();
    let mut words = emulator.split_whitespace();
    let Some(first) = words.next() else { return Command::new(program) };
    let mut command = Command::new(first);
    command.args(words).arg(program);
    command
}
