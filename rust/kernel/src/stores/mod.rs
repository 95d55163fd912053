//! Where bytes are kept. Local files are known here; every other store is behind the same trait, outside.

#[cfg(target_os = "linux")]
pub mod local;

use crate::{Error, Result, memory};

/// Ranges up to this length are made room for without a look at how long the value is.
const BELIEVED: u64 = 1 << 16;

/// The state of a value, to be compared with `==`: inode number, time of the last change, size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(pub [u64; 3]);

impl Generation {
    /// The time of the last change, in nanoseconds.
    pub fn time(&self) -> i64 {
        self.0[1] as i64
    }

    /// Whether the time has whole microseconds, which stamps have only where the file system rounds them.
    pub fn is_rounded(&self) -> bool {
        self.time() % 1000 == 0
    }
}

/// A key-value store.
pub trait Store: Send + Sync {
    /// Open the value of `key`, at the state that it has now; `None` if there is none, and nothing else in its place either.
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

    /// How many requests should be under way at once: 0 for no more than there are cores.
    fn concurrency(&self) -> usize {
        0
    }

    /// The store's own, slower way, to be tried after `Error::Unusual`.
    fn slow(&self) -> Option<&dyn Store> {
        None
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
///
/// Where a store can't keep the state, reading fails with `Conflict` once it has changed.
pub trait Value: Send + Sync {
    /// Read all of it, and hand it to `work`.
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Read `out.len()` bytes from `start` on; fewer if it ends before. Returns how many.
    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<usize>;

    /// Read `length` bytes from `start` on, fewer if it ends before, and hand them to `work`.
    fn with_range(&self, start: u64, length: u64, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        // whoever asks may go by numbers that are damaged: no room is made for what is not there
        let length = if length > BELIEVED { length.min(self.size()?.saturating_sub(start)) } else { length };
        let length = usize::try_from(length).map_err(|_| Error::Memory { bytes: usize::MAX })?;
        memory::with_scratch(length, |data| {
            let found = self.read_at(start, data)?;
            work(&data[..found])
        })
    }

    /// Read the last `out.len()` bytes; fewer if there are no more. Returns how many, and how long the value is if known.
    fn read_tail(&self, out: &mut [u8]) -> Result<(usize, Option<u64>)> {
        let size = self.size()?;
        let start = size.saturating_sub(out.len() as u64);
        let length = (size - start) as usize;
        let found = self.read_at(start, &mut out[..length])?;
        Ok((found, Some(size)))
    }

    /// How long it is.
    fn size(&self) -> Result<u64>;

    /// The state it was opened at.
    fn generation(&self) -> Result<Expected>;

    /// How a value is best read by parts; `None` if it is best read as a whole.
    fn parts(&self) -> Option<Parts>;
}

/// How a value is best read by parts.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Up to so many bytes are rather read in vain than asked for with one more request.
    pub gap: u64,
    /// About so many bytes are read at once.
    pub span: u64,
}

/// Bytes in memory as a value.
pub struct Slice<'d>(pub &'d [u8]);

impl Slice<'_> {
    /// Return up to `length` bytes from `start` on.
    fn range(&self, start: u64, length: u64) -> &[u8] {
        let rest = usize::try_from(start).ok().and_then(|start| self.0.get(start..)).unwrap_or_default();
        &rest[..usize::try_from(length).map_or(rest.len(), |length| length.min(rest.len()))]
    }
}

impl Value for Slice<'_> {
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        work(self.0)
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<usize> {
        let found = self.range(start, out.len() as u64);
        out[..found.len()].copy_from_slice(found);
        Ok(found.len())
    }

    fn with_range(&self, start: u64, length: u64, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        work(self.range(start, length))
    }

    fn size(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn generation(&self) -> Result<Expected> {
        Ok(Expected::Absent)
    }

    fn parts(&self) -> Option<Parts> {
        None
    }
}

/// A range of another value as a value; it is an error to read all of it where the other value ends before.
pub struct Within<'v> {
    /// The other value.
    pub value: &'v dyn Value,
    /// Where the range begins.
    pub start: u64,
    /// How long it is.
    pub length: u64,
}

impl Value for Within<'_> {
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.value.with_range(self.start, self.length, &mut |data| {
            if data.len() as u64 != self.length {
                return Err(Error::codec("sharding_indexed", "an inner chunk lies outside its shard"));
            }
            work(data)
        })
    }

    fn with_range(&self, start: u64, length: u64, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let length = self.length.saturating_sub(start).min(length);
        self.value.with_range(self.start.saturating_add(start), length, work)
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<usize> {
        let length = self.length.saturating_sub(start).min(out.len() as u64) as usize;
        self.value.read_at(self.start.saturating_add(start), &mut out[..length])
    }

    fn size(&self) -> Result<u64> {
        Ok(self.length)
    }

    fn generation(&self) -> Result<Expected> {
        self.value.generation()
    }

    fn parts(&self) -> Option<Parts> {
        self.value.parts()
    }
}
