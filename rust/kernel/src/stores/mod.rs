//! Where bytes are kept. Local files are known here; every other store is behind the same trait, outside.

#[cfg(target_os = "linux")]
pub mod local;

use crate::Result;

/// The state of a value, to be compared with `==`; `None` stands for its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(pub [u64; 3]);

/// A key-value store.
pub trait Store: Send + Sync {
    /// Open the value of `key`, at the state that it has now; `None` if there is none.
    ///
    /// # Errors
    ///
    /// `Unusual` where only the store's own, slower way can tell; anything else is final.
    fn open(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>>;

    /// As `open`, for a value that is about to be replaced: where the store can, others who ask for it this way wait
    /// until the answer is dropped, so that they do not all change the same old value in vain.
    fn open_for_change(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        self.open(key)
    }

    /// Store `parts`, one after the other, under `key` in one step. With `expected` given, only if that is still the state.
    ///
    /// # Errors
    ///
    /// `Conflict` if it is not. After any error the old value stands.
    fn set(&self, key: &str, parts: &[&[u8]], expected: Option<&Expected>) -> Result<()>;

    /// Remove the value of `key` if there is one; conditions and errors as for `set`.
    fn delete(&self, key: &str, expected: Option<&Expected>) -> Result<()>;

    /// Say what stands in the way where `key` has no value and yet is not simply absent (a directory of that name).
    fn obstruction(&self, key: &str) -> Result<Option<String>>;

    /// How many requests should be under way at once: 0 for no more than there are cores.
    fn concurrency(&self) -> usize {
        0
    }
}

/// The state that a value must still have for it to be changed.
#[derive(Debug)]
pub enum Expected {
    /// None at all.
    Absent,
    /// That of a local file.
    File(Generation),
    /// That of another store, which knows what it means.
    Foreign(Box<dyn std::any::Any + Send + Sync>),
}

/// A value at one state: what is read from it belongs together, whoever replaces it meanwhile.
pub trait Value {
    /// Read all of it, and hand it to `work`.
    fn with_all(&mut self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Read `out.len()` bytes from `start` on; fewer if it ends before. Returns how many.
    fn read_at(&mut self, start: u64, out: &mut [u8]) -> Result<usize>;

    /// How long it is.
    fn size(&mut self) -> Result<u64>;

    /// The state it was opened at.
    fn generation(&mut self) -> Result<Expected>;

    /// Whether parts of it cost less than all of it; how many bytes one should rather read than ask a second time.
    fn gap(&self) -> u64 {
        32768
    }
}
