//! Fault injection for tests: a hook is called before each system call of the store, and can make it fail or do less.
//!
//! A hook gets the name of the call and its path. It decides the fate of the call, records it, or ends the process.
//! Without a hook, a call only reads one more flag.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::errno::{Errno, Outcome};
use super::handles::{BorrowedFd, path_of};

/// The fate of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The call is carried out.
    Happen,
    /// The call does nothing, and fails with this number.
    Fail(i32),
    /// The call reads or writes at most this many bytes; calls that move no bytes are carried out.
    Short(usize),
}

/// A function that is called before each system call, with the call's name and path.
pub type Hook = Arc<dyn Fn(&'static str, &str) -> Fate + Send + Sync>;

/// The file or path of a call.
pub(super) enum Subject<'a> {
    /// An open file or directory.
    Open(BorrowedFd<'a>),
    /// A path, in pieces, relative to a directory.
    At(BorrowedFd<'a>, &'a [&'a [u8]]),
    /// No file.
    Nothing,
}

/// The time at which the clock stands still, unless it is `NO_TIME`.
static CLOCK: AtomicI64 = AtomicI64::new(NO_TIME);
const NO_TIME: i64 = i64::MIN;

static IS_SET: AtomicBool = AtomicBool::new(false);
static HOOK: RwLock<Option<Hook>> = RwLock::new(None);

/// Set or remove the hook that is called before each call of any thread.
pub fn set_hook(hook: Option<Hook>) {
    let mut place = HOOK.write().unwrap_or_else(PoisonError::into_inner);
    IS_SET.store(hook.is_some(), Ordering::SeqCst);
    *place = hook;
}

/// Stop the clock at a time in nanoseconds, or let it run again.
pub fn set_clock(time: Option<i64>) {
    CLOCK.store(time.unwrap_or(NO_TIME), Ordering::SeqCst);
}

/// Return the time at which the clock stands still.
pub(super) fn clock() -> Option<i64> {
    Some(CLOCK.load(Ordering::Relaxed)).filter(|&time| time != NO_TIME)
}

/// Ask for the fate of a call: the number of bytes that it may move, or its error.
#[inline]
pub(super) fn ask(call: &'static str, subject: Subject<'_>) -> Outcome<usize> {
    if IS_SET.load(Ordering::Relaxed) { ask_hook(call, &subject) } else { Ok(usize::MAX) }
}

#[cold]
fn ask_hook(call: &'static str, subject: &Subject<'_>) -> Outcome<usize> {
    // The hook is not called under the lock, since it may take long, or set another one.
    let Some(hook) = HOOK.read().unwrap_or_else(PoisonError::into_inner).clone() else { return Ok(usize::MAX) };
    match hook(call, &subject.path().to_string_lossy()) {
        Fate::Happen => Ok(usize::MAX),
        Fate::Fail(code) => Err(Errno(code)),
        Fate::Short(most) => Ok(most),
    }
}

impl Subject<'_> {
    fn path(&self) -> PathBuf {
        match self {
            Subject::Open(file) => path_of(*file),
            Subject::At(start, pieces) => path_of(*start).join(&*String::from_utf8_lossy(&pieces.concat())),
            Subject::Nothing => PathBuf::new(),
        }
    }
}
