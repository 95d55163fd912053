//! Adds rows to the ends of chunks, for appends that other writers may attempt at the same time. Called by the Python
//! module.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{fill_all, with_buffer};
use crate::array::Array;
use crate::last_chunk::{Extended, LARGEST};
use crate::memory::{try_concat, try_extend, try_resize, with_scratch};
use crate::read::{MISSING, at_key, count_rows};
use crate::stores::{Expected, Generation, Slice, Store};
use crate::strided_copy::content_size;
use crate::{Error, Result, pool};

/// The number of stored bytes from which on no more chunks are read before those are extended.
const MOST_HELD: u64 = 1 << 24;

/// Rows for the end of one chunk.
#[derive(Clone, Copy)]
pub struct Rows<'r> {
    /// Where the chunk is stored.
    pub store: &'r dyn Store,
    /// The array it belongs to.
    pub array: &'r Array,
    /// Its grid coordinates.
    pub coords: &'r [u64],
    /// How many of its rows are kept.
    pub kept: usize,
    /// The elements of the rows after them, as they are in memory.
    pub new: &'r [u8],
}

/// A chunk as it was read.
struct Old {
    expected: Expected,
    /// The number of stored bytes, if rows of it are kept.
    size: u64,
    kept: Kept,
}

/// The rows of a chunk that are kept.
enum Kept {
    Nothing,
    /// In these stored bytes.
    Encoded(Vec<u8>),
    /// In this content, which the last call has stored.
    Decoded(Vec<u8>),
}

/// The sizes of a chunk and its key.
struct Place {
    key: String,
    /// Bytes of a row.
    row: usize,
    /// Bytes of a whole chunk.
    whole: usize,
}

/// Add rows to the ends of chunks on up to `threads` threads, and return for each by how many bytes the stored chunk has
/// grown; `None` where this function does not support the array or the rows. In an array that is not dense the fill value
/// follows the rows.
///
/// This function first reads the chunks, unless the array still keeps them from the last call. Then it calls `check`, whose
/// error ends the call. It stores each chunk on condition that the chunk has not changed since it was read or kept. It reads
/// and stores large chunks a few at a time.
///
/// # Errors
///
/// `Conflict` if another chunk is stored. Some of the others may have been stored then.
pub fn extend(
    rows: &[Rows<'_>],
    threads: usize,
    check: &mut dyn FnMut() -> Result<()>,
    poll: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<Option<i64>>> {
    let mut grown = vec![None; rows.len()];
    let mut left = rows.iter().enumerate();
    loop {
        // some of the chunks, as they are
        let (mut work, mut held) = (Vec::new(), 0);
        while held < MOST_HELD {
            let Some((number, part)) = left.next() else { break };
            if let Some(place) = part.place()? {
                let old = part.read(&place)?;
                held += old.size;
                work.push((number, place, Mutex::new(old)));
            }
        }
        if work.is_empty() {
            return Ok(grown);
        }
        check()?;
        // the same chunks with their new rows
        let results: Vec<_> = work.iter().map(|_| AtomicI64::new(0)).collect();
        let task = |index: usize| {
            let (number, place, old) = &work[index];
            let mut old = old.lock().unwrap_or_else(PoisonError::into_inner);
            let nbytes = rows[*number].store(place, &mut old).map_err(|error| error.at(&place.key))?;
            results[index].store(nbytes as i64 - old.size as i64, Ordering::Relaxed);
            Ok(())
        };
        pool::run(threads, work.len(), &task, poll)?;
        for ((number, ..), result) in work.iter().zip(results) {
            grown[*number] = Some(result.into_inner());
        }
    }
}

impl Rows<'_> {
    /// Return the sizes and the key; `None` if `extend` does not support the array.
    fn place(&self) -> Result<Option<Place>> {
        let Rows { array, coords, .. } = self;
        let key = array.keys.encode(coords);
        let shape = array.chunk_shape(coords);
        let row = content_size(shape.get(1..).unwrap_or_default(), array.fill.len())?;
        let whole = content_size(&shape, array.fill.len())?;
        let plain = array.chain.sharding().is_none() && array.chain.order.is_none();
        let elements = array.chain.elements().filter(|elements| elements.swap < 2 && elements.text.is_none());
        let end = self.kept.saturating_mul(row).saturating_add(self.new.len());
        let fits = row > 0 && self.new.len() % row == 0 && end <= whole;
        Ok((plain && elements.is_some() && fits && !key.is_empty()).then_some(Place { key, row, whole }))
    }

    /// Read the present chunk, or only its state if none of its rows are kept. A chunk that the last call has stored is not
    /// looked at: if it is not the present one any more, storing the new one fails.
    fn read(&self, place: &Place) -> Result<Old> {
        if let Some(last) = self.array.last.take().filter(|last| self.continues(place, last)) {
            let expected = Expected::File(last.generation);
            return Ok(Old { expected, size: last.generation.size(), kept: Kept::Decoded(last.content) });
        }
        let found = Cell::new(None);
        at_key(self.store, &place.key, 1, &|store| {
            let mut old = Old { expected: Expected::Absent, size: 0, kept: Kept::Nothing };
            if let Some(value) = store.open_for_change(&place.key)? {
                old.expected = value.generation()?;
                if self.kept > 0 {
                    let mut bytes = Vec::new();
                    value.with_all(&mut |data| try_extend(&mut bytes, data))?;
                    (old.size, old.kept) = (bytes.len() as u64, Kept::Encoded(bytes));
                }
            }
            found.set(Some(old));
            Ok(())
        })?;
        found.into_inner().ok_or(Error::Conflict)
    }

    /// Whether the rows follow those of a chunk that was stored.
    fn continues(&self, place: &Place, last: &Extended) -> bool {
        self.kept > 0 && last.coords == self.coords && last.content.len() >= self.kept * place.row
    }

    /// Store the chunk with the new rows, and return the number of stored bytes.
    fn store(&self, place: &Place, old: &mut Old) -> Result<u64> {
        let Rows { array, kept, new, .. } = *self;
        let chain = &array.chain;
        let start = kept * place.row;
        let end = start + new.len();
        let length = if array.dense { end } else { place.whole };
        // the content that the last call has stored
        let bytes = match std::mem::replace(&mut old.kept, Kept::Nothing) {
            Kept::Decoded(mut content) => {
                content.truncate(start);
                try_extend(&mut content, new)?;
                try_resize(&mut content, length)?;
                fill_all(&mut content[end..], &array.fill);
                let (nbytes, generation) = self.put(place, &old.expected, &content)?;
                self.keep(generation.filter(|_| end < place.whole), content);
                return Ok(nbytes);
            }
            Kept::Encoded(bytes) => Some(bytes),
            Kept::Nothing => None,
        };
        // the old chunk, which may be longer than the new one, and has to hold the rows that are kept
        let stored = match &bytes {
            None if kept > 0 && array.dense => return Err(Error::Store { message: MISSING.into() }),
            None => 0,
            Some(_) if !array.dense => place.whole,
            Some(bytes) => {
                let count = count_rows(chain, &Slice(bytes), (place.whole / place.row) as u64, place.row)?;
                if count < kept as u64 {
                    return Err(Error::codec("", format!("there are {count} rows where the array has {kept}")));
                }
                count as usize * place.row
            }
        };
        with_scratch(length.max(stored), |chunk| {
            match &bytes {
                Some(bytes) if stored > 0 => chain.decode_buffers(bytes, &mut chunk[..stored])?,
                _ => fill_all(&mut chunk[..start], &array.fill),
            }
            chunk[start..end].copy_from_slice(new);
            fill_all(&mut chunk[end..length], &array.fill);
            let (nbytes, generation) = self.put(place, &old.expected, &chunk[..length])?;
            if generation.is_some() && end < place.whole && length <= LARGEST {
                self.keep(generation, try_concat(&[&chunk[..length]]).unwrap_or_default());
            }
            Ok(nbytes)
        })
    }

    /// Encode and store the content of a chunk; return the number of stored bytes, and the new state if it is known.
    fn put(&self, place: &Place, expected: &Expected, content: &[u8]) -> Result<(u64, Option<Generation>)> {
        let chain = &self.array.chain;
        let made = Cell::new((0, None));
        let put = |data: &[u8]| {
            at_key(self.store, &place.key, 1, &|store| {
                made.set((data.len() as u64, store.replace(&place.key, data, expected)?));
                Ok(())
            })
        };
        if chain.buffers.is_empty() {
            put(content)?;
        } else {
            with_buffer(|out| {
                chain.encode_buffers(content, 1, out)?;
                put(out)
            })?;
        }
        Ok(made.get())
    }

    /// Keep the content of the chunk for the next call; a full chunk is not extended again.
    fn keep(&self, generation: Option<Generation>, content: Vec<u8>) {
        if let Some(generation) = generation {
            self.array.last.keep(Extended { coords: self.coords.to_vec(), generation, content });
        }
    }
}
