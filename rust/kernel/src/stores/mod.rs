//! Stores of bytes. Local files are implemented here; every other store implements the same trait elsewhere.

mod files;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
pub mod local;
pub mod plain;

use crate::{Error, Result, memory};

/// Ranges up to this length are allocated without checking the size of the value.
const BELIEVED: u64 = 1 << 16;

/// The state of a value, to be compared with `==`: inode number, time of the last change, size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(pub [u64; 3]);

impl Generation {
    /// The time of the last change, in nanoseconds.
    pub fn time(&self) -> i64 {
        self.0[1] as i64
    }

    /// The number of bytes.
    pub fn size(&self) -> u64 {
        self.0[2]
    }

    /// Whether the time has whole microseconds, which stamps have only where the file system rounds them.
    pub fn is_rounded(&self) -> bool {
        self.time() % 1000 == 0
    }
}

/// The name of a state of a value, or of a range of one: no other state of any value has the same name while the
/// process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State(pub [u64; 7]);

/// A key-value store.
pub trait Store: Send + Sync {
    /// Open the value of `key` in its present state; `None` if there is neither a value nor anything else in its place.
    ///
    /// # Errors
    ///
    /// `Unusual` if only the store's own, slower way can answer; any other error is final.
    fn open(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>>;

    /// As `open`, for a value that is about to be replaced. If the store has locks, other writers that call this wait until
    /// the result is dropped, so that they do not all change the same old value in vain.
    fn open_for_change(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        self.open(key)
    }

    /// Store `parts`, one after the other, under `key` in one step; if `expected` is given, only if the state still equals
    /// it.
    ///
    /// # Errors
    ///
    /// `Conflict` if it is not. After any error the old value is unchanged.
    fn set(&self, key: &str, parts: &[&[u8]], expected: Option<&Expected>) -> Result<()>;

    /// As `set`, on condition that the state is the expected one; returns the new state if it is known.
    fn replace(&self, key: &str, value: &[u8], expected: &Expected) -> Result<Option<Generation>> {
        self.set(key, &[value], Some(expected)).map(|()| None)
    }

    /// Store a copy of `old`, which `changes` write pieces into and append pieces to, in one step as `set` does.
    ///
    /// Returns whether that was done: only where the copy shares the bytes of `old` on the disk.
    fn set_like(&self, _key: &str, _old: &dyn Value, _changes: &[Piece<'_>], _expected: &Expected) -> Result<bool> {
        Ok(false)
    }

    /// Remove the value of `key` if there is one; conditions and errors as for `set`.
    fn delete(&self, key: &str, expected: Option<&Expected>) -> Result<()>;

    /// Check that the values which were read since the operation began belong to the node that the caller has described:
    /// its document still has the state that was found to describe it. `absent` says that a value was missing.
    ///
    /// # Errors
    ///
    /// `Changed` if it has another state that describes the node, so that the operation has to be repeated; any other error
    /// if it does not describe the node. Each change of a value makes the same check by itself.
    fn check(&self, _absent: bool) -> Result<()> {
        Ok(())
    }

    /// How many requests should be under way at the same time; 0 for as many as there are cores.
    fn concurrency(&self) -> usize {
        0
    }

    /// Whether reading the value of `key` means waiting for a disk, so that many values are best read in parallel.
    fn waits(&self, _key: &str) -> bool {
        false
    }

    /// Wait until there is room in memory for one more chunk of the array; see [`Held`].
    fn acquire(&self) -> Result<()> {
        Ok(())
    }

    /// Give back the room that `acquire` has taken.
    fn release(&self) {}

    /// The store's own, slower way, which is tried after `Error::Unusual`.
    fn slow(&self) -> Option<&dyn Store> {
        None
    }
}

/// Room in memory for a chunk that is under way, given back when dropped. A thread that holds some may not take more.
pub struct Held<'s>(&'s dyn Store);

impl<'s> Held<'s> {
    /// Wait for room.
    pub fn new(store: &'s dyn Store) -> Result<Held<'s>> {
        store.acquire()?;
        Ok(Held(store))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A file that a value has open.
#[cfg(unix)]
pub type OpenFile<'v> = std::os::fd::BorrowedFd<'v>;
/// A file that a value has open.
#[cfg(windows)]
pub type OpenFile<'v> = std::os::windows::io::BorrowedHandle<'v>;

/// Bytes to be written, and where.
pub type Piece<'p> = (u64, &'p [u8]);

/// The state that a value must still have when it is changed.
#[derive(Debug)]
pub enum Expected {
    /// No value.
    Absent,
    /// The state of a local file.
    File(Generation),
    /// The state of a value in another store; only that store understands it.
    Foreign(Box<dyn std::any::Any + Send + Sync>),
}

/// A value in one state: all reads see the same state, even if other writers replace the value between them.
///
/// Where a store can't keep the state, reading fails with `Conflict` once it has changed.
pub trait Value: Send + Sync {
    /// Read the whole value, and pass it to `work`.
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Read `out.len()` bytes from `start` on; fewer if it ends before. Returns how many.
    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<usize>;

    /// Read `length` bytes from `start` on, fewer if it ends before, and hand them to `work`.
    fn with_range(&self, start: u64, length: u64, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        // the numbers may come from a damaged index: allocate no more than the value has
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

    /// The state in which it was opened.
    fn generation(&self) -> Result<Expected>;

    /// The name of the state in which it was opened; `None` if none is known that is cheaper than to read the value.
    fn state(&self) -> Result<Option<State>> {
        Ok(None)
    }

    /// Whether any change from now on gives the value another `state`, whichever writer makes it.
    fn is_settled(&self) -> bool {
        false
    }

    /// Announce ranges that will be read next, given as offsets and lengths, so that a disk can begin to read them.
    fn expect(&self, _ranges: &mut dyn Iterator<Item = (u64, u64)>) {}

    /// Whether `Store::set_like` may store copies that share the bytes of this value, and the value is so large that this
    /// is faster.
    fn is_shared(&self) -> bool {
        false
    }

    /// The file of the value.
    fn file(&self) -> Option<OpenFile<'_>> {
        None
    }

    /// How a value is best read by parts; `None` if it is best read as a whole.
    fn parts(&self) -> Option<Parts>;

    /// Whether the byte at `position` can be read without waiting for a device.
    fn is_cached(&self, _position: u64) -> bool {
        false
    }

    /// The value as one in a far store, where many ranges take no longer than one; `None` for other stores.
    fn far(&self) -> Option<&dyn FarValue> {
        None
    }
}

/// A value in a store that is far away.
pub trait FarValue {
    /// Return whether a shard of `nbytes` bytes is best read as a whole, to get `wanted` of a number of inner chunks.
    fn reads_whole(&self, nbytes: usize, wanted: usize, number: usize) -> Result<bool>;

    /// How many bytes may be requested together.
    fn at_once(&self) -> Result<u64>;

    /// Read ranges, given as offsets and lengths, all at once, and hand them to `work`; shorter ones at the end.
    fn with_ranges(&self, ranges: &[(u64, u64)], work: &mut dyn FnMut(&[&[u8]]) -> Result<()>) -> Result<()>;
}

/// How a value is best read by parts.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Reading up to this many unneeded bytes is cheaper than one more request.
    pub gap: u64,
    /// About this many bytes are read with one request.
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

/// A range of another value as a value; reading all of it is an error if the other value ends before.
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

    fn state(&self) -> Result<Option<State>> {
        Ok(self.value.state()?.map(|State(mut numbers)| {
            numbers[5] = numbers[5].saturating_add(self.start);
            numbers[6] += 1; // how many values it is within
            State(numbers)
        }))
    }

    fn is_settled(&self) -> bool {
        self.value.is_settled()
    }

    fn expect(&self, ranges: &mut dyn Iterator<Item = (u64, u64)>) {
        self.value.expect(&mut ranges.map(|(start, length)| (self.start.saturating_add(start), length)));
    }

    fn parts(&self) -> Option<Parts> {
        self.value.parts()
    }

    fn is_cached(&self, position: u64) -> bool {
        self.value.is_cached(self.start.saturating_add(position))
    }
}
