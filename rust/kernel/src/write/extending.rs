//! Adds rows to the end of a chunk, for appends that other writers may attempt at the same time. Called by the Python
//! module.

use super::{fill_all, with_buffer};
use crate::array::Array;
use crate::memory::with_scratch;
use crate::read::{MISSING, at_key, count_rows};
use crate::stores::{Expected, Slice, Store};
use crate::strided_copy::content_size;
use crate::{Error, Result, pool};

/// The new content of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'r> {
    /// The stored chunk, if there is one, …
    pub old: Option<&'r [u8]>,
    /// … and how many of its rows are kept.
    pub kept: usize,
    /// The elements of the rows after them, as they are in memory.
    pub new: &'r [u8],
}

/// Store the chunk at `coords` with other rows at its end, on condition that the stored chunk still is the expected one, and
/// return the number of stored bytes; `None` if the array is not one of plain elements in C order. In an array that is not
/// dense the fill value follows the rows.
///
/// # Errors
///
/// `Conflict` if another chunk is stored.
pub fn extend(
    store: &dyn Store,
    array: &Array,
    coords: &[u64],
    rows: Rows<'_>,
    expected: &Expected,
) -> Result<Option<u64>> {
    let chain = &array.chain;
    let key = array.keys.encode(coords);
    let shape = array.chunk_shape(coords);
    let row = content_size(shape.get(1..).unwrap_or_default(), array.fill.len())?;
    let plain = chain.sharding().is_none() && chain.order.is_none();
    let elements = chain.elements().filter(|elements| plain && row > 0 && elements.swap < 2 && elements.text.is_none());
    let whole = content_size(&shape, array.fill.len())?;
    let start = rows.kept.saturating_mul(row);
    let end = start.saturating_add(rows.new.len());
    if elements.is_none() || key.is_empty() || rows.new.len() % row != 0 || end > whole {
        return Ok(None);
    }
    // the old chunk, which may be longer than the new one, and has to hold the rows that are kept
    let stored = match rows.old.filter(|_| rows.kept > 0) {
        None if rows.kept > 0 && array.dense => return Err(Error::Store { message: MISSING.into() }.at(&key)),
        None => 0,
        Some(_) if !array.dense => whole,
        Some(old) => {
            let count = count_rows(chain, &Slice(old), shape[0], row).map_err(|error| error.at(&key))?;
            if count < rows.kept as u64 {
                let message = format!("there are {count} rows where the array has {}", rows.kept);
                return Err(Error::codec("", message).at(&key));
            }
            count as usize * row
        }
    };
    let length = if array.dense { end } else { whole };
    let mut nbytes = 0;
    pool::take_turn();
    let encoded = with_scratch(length.max(stored), |chunk| {
        match rows.old.filter(|_| stored > 0) {
            Some(old) => chain.decode_buffers(old, &mut chunk[..stored])?,
            None => fill_all(&mut chunk[..start], &array.fill),
        }
        chunk[start..end].copy_from_slice(rows.new);
        fill_all(&mut chunk[end..length], &array.fill);
        let mut put = |data: &[u8]| {
            nbytes = data.len() as u64;
            at_key(store, &key, 1, &|store| store.set(&key, &[data], Some(expected)))
        };
        if chain.buffers.is_empty() {
            return put(&chunk[..length]);
        }
        with_buffer(|out| {
            chain.encode_buffers(&chunk[..length], 1, out)?;
            put(out)
        })
    });
    encoded.map(|()| Some(nbytes)).map_err(|error| error.at(&key))
}
