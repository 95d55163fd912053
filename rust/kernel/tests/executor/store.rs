//! A store in memory that counts requests, and fails or changes values on request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tegula_kernel::stores::{Expected, Generation, Parts, Piece, Store, Value};
use tegula_kernel::{Error, Result};

/// How values are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// As a whole only.
    Whole,
    /// By parts, in the state in which they were opened, as local files are.
    Parts(u64, u64),
    /// By ranges of the present value, as other stores are.
    Ranges(u64, u64),
}

type Stored = (u64, Arc<Vec<u8>>);

pub struct Memory {
    values: Mutex<BTreeMap<String, Stored>>,
    pub reading: Reading,
    generations: AtomicU64,
    pub calls: AtomicUsize,
    /// How many bytes were returned.
    pub bytes: AtomicUsize,
    /// Which call fails, from 1 on.
    pub fails: AtomicUsize,
    /// After each of so many ranges, the next of `versions` replaces the value.
    pub churn: AtomicUsize,
    pub versions: Mutex<Vec<Vec<u8>>>,
    /// The bytes added to the size of values and missing at the end of ranges, as if values had shrunk.
    pub lie: u64,
    pub shrunk: usize,
    /// Whether values are changed by writing into copies of them, and how many were changed so.
    pub shares: bool,
    pub shared: AtomicUsize,
    /// How long a writer waits between reading and changing a value.
    pub pause: std::time::Duration,
}

impl Memory {
    pub fn new(reading: Reading) -> Memory {
        Memory {
            values: Mutex::default(),
            reading,
            generations: AtomicU64::new(1),
            calls: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            fails: AtomicUsize::new(0),
            churn: AtomicUsize::new(0),
            versions: Mutex::default(),
            lie: 0,
            shrunk: 0,
            shares: false,
            shared: AtomicUsize::new(0),
            pause: std::time::Duration::ZERO,
        }
    }

    /// The same values, read in another way.
    pub fn other(&self, reading: Reading) -> Memory {
        let values = self.values().clone();
        Memory { values: Mutex::new(values), ..Memory::new(reading) }
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<String, Stored>> {
        self.values.lock().unwrap()
    }

    pub fn put(&self, key: &str, data: Vec<u8>) {
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        self.values().insert(key.to_owned(), (generation, Arc::new(data)));
    }

    pub fn get(&self, key: &str) -> Option<Arc<Vec<u8>>> {
        self.values().get(key).map(|stored| stored.1.clone())
    }

    pub fn keys(&self) -> Vec<String> {
        self.values().keys().cloned().collect()
    }

    pub fn remove(&self, key: &str) {
        self.values().remove(key);
    }

    fn tick(&self) -> Result<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if call == self.fails.load(Ordering::Relaxed) {
            return Err(Error::Store { message: "failure on request".into() });
        }
        Ok(())
    }

    fn count(&self, data: &[u8]) {
        self.bytes.fetch_add(data.len(), Ordering::Relaxed);
    }

    fn check(values: &BTreeMap<String, Stored>, key: &str, expected: Option<&Expected>) -> Result<()> {
        let found = values.get(key).map(|stored| stored.0);
        match (expected, found) {
            (None, _) | (Some(Expected::Absent), None) => Ok(()),
            (Some(Expected::File(state)), Some(found)) if state.0[0] == found => Ok(()),
            _ => Err(Error::Conflict),
        }
    }
}

impl Store for Memory {
    fn open(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        if matches!(self.reading, Reading::Ranges(..)) {
            return Ok(Some(Box::new(Ranges { store: self, key: key.to_owned(), known: Mutex::new(None) })));
        }
        self.open_for_change(key)
    }

    fn open_for_change(&self, key: &str) -> Result<Option<Box<dyn Value + '_>>> {
        self.tick()?;
        let found = self.values().get(key).cloned();
        if !self.pause.is_zero() {
            std::thread::sleep(self.pause);
        }
        Ok(found.map(|stored| Box::new(Snapshot { store: self, stored }) as Box<dyn Value>))
    }

    fn set(&self, key: &str, parts: &[&[u8]], expected: Option<&Expected>) -> Result<()> {
        self.tick()?;
        let mut values = self.values();
        Memory::check(&values, key, expected)?;
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        values.insert(key.to_owned(), (generation, Arc::new(parts.concat())));
        Ok(())
    }

    fn set_like(&self, key: &str, old: &dyn Value, changes: &[Piece<'_>], expected: &Expected) -> Result<bool> {
        self.tick()?;
        let mut data = Vec::new();
        old.with_all(&mut |old| {
            data.extend_from_slice(old);
            Ok(())
        })?;
        for &(start, piece) in changes {
            let start = start as usize;
            assert!(start <= data.len(), "a hole");
            data.resize(data.len().max(start + piece.len()), 0);
            data[start..start + piece.len()].copy_from_slice(piece);
        }
        self.shared.fetch_add(1, Ordering::Relaxed);
        self.set(key, &[&data], Some(expected))?;
        Ok(true)
    }

    fn delete(&self, key: &str, expected: Option<&Expected>) -> Result<()> {
        self.tick()?;
        let mut values = self.values();
        Memory::check(&values, key, expected)?;
        values.remove(key);
        Ok(())
    }
}

/// A value in the state in which it was opened.
struct Snapshot<'s> {
    store: &'s Memory,
    stored: Stored,
}

impl Snapshot<'_> {
    fn rest(&self, start: u64) -> &[u8] {
        let end = self.stored.1.len().saturating_sub(self.store.shrunk);
        usize::try_from(start).ok().and_then(|start| self.stored.1.get(start..end)).unwrap_or_default()
    }
}

impl Value for Snapshot<'_> {
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.store.tick()?;
        self.store.count(&self.stored.1);
        work(&self.stored.1)
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<usize> {
        self.store.tick()?;
        let rest = self.rest(start);
        let length = rest.len().min(out.len());
        out[..length].copy_from_slice(&rest[..length]);
        self.store.count(&rest[..length]);
        Ok(length)
    }

    fn size(&self) -> Result<u64> {
        Ok((self.stored.1.len() as u64).saturating_add(self.store.lie))
    }

    fn generation(&self) -> Result<Expected> {
        Ok(Expected::File(Generation([self.stored.0, 0, 0])))
    }

    fn is_shared(&self) -> bool {
        self.store.shares
    }

    fn parts(&self) -> Option<Parts> {
        match self.store.reading {
            Reading::Parts(gap, span) => Some(Parts { gap, span }),
            _ => None,
        }
    }
}

/// A value that is read again each time.
struct Ranges<'s> {
    store: &'s Memory,
    key: String,
    known: Mutex<Option<u64>>,
}

impl Ranges<'_> {
    fn fetch(&self) -> Result<Arc<Vec<u8>>> {
        self.store.tick()?;
        let found = self.store.values().get(&self.key).cloned();
        let turns = &self.store.churn;
        if turns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |turns| turns.checked_sub(1)).is_ok() {
            let mut versions = self.store.versions.lock().unwrap();
            versions.rotate_left(1);
            self.store.put(&self.key, versions[0].clone());
        }
        let generation = found.as_ref().map_or(0, |stored| stored.0);
        let mut known = self.known.lock().unwrap();
        if *known.get_or_insert(generation) != generation {
            return Err(Error::Conflict);
        }
        found.map(|stored| stored.1).ok_or(Error::Absent)
    }
}

impl Value for Ranges<'_> {
    fn with_all(&self, work: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let data = self.fetch()?;
        self.store.count(&data);
        work(&data)
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<usize> {
        let data = self.fetch()?;
        let end = data.len().saturating_sub(self.store.shrunk);
        let rest = usize::try_from(start).ok().and_then(|start| data.get(start..end)).unwrap_or_default();
        let length = rest.len().min(out.len());
        out[..length].copy_from_slice(&rest[..length]);
        self.store.count(&rest[..length]);
        Ok(length)
    }

    fn read_tail(&self, out: &mut [u8]) -> Result<(usize, Option<u64>)> {
        let data = self.fetch()?;
        let length = data.len().min(out.len());
        out[..length].copy_from_slice(&data[data.len() - length..]);
        self.store.count(&out[..length]);
        Ok((length, None))
    }

    fn size(&self) -> Result<u64> {
        Ok((self.fetch()?.len() as u64).saturating_add(self.store.lie))
    }

    fn generation(&self) -> Result<Expected> {
        Ok(Expected::File(Generation([self.known.lock().unwrap().unwrap_or(0), 0, 0])))
    }

    fn parts(&self) -> Option<Parts> {
        match self.store.reading {
            Reading::Ranges(gap, span) => Some(Parts { gap, span }),
            _ => None,
        }
    }
}
