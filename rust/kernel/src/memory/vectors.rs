//! Fallible allocation of vectors whose length depends on data or on a request: missing memory is an error, not an abort.

use crate::{Error, Result};

/// Make an empty vector with capacity for `count` elements.
///
/// # Errors
///
/// `Memory` if the system refuses it, as for all functions of this module.
pub fn try_with_capacity<T>(count: usize) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(count).map_err(|_| out_of_memory::<T>(count))?;
    Ok(vector)
}

/// Make a vector that holds one value `count` times.
pub fn try_repeat<T: Clone>(count: usize, value: T) -> Result<Vec<T>> {
    let mut vector = try_with_capacity(count)?;
    vector.resize(count, value);
    Ok(vector)
}

/// Collect the items of an iterator into a vector.
pub fn try_collect<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let items = items.into_iter();
    let mut vector = try_with_capacity(items.size_hint().0)?;
    for item in items {
        try_push(&mut vector, item)?;
    }
    Ok(vector)
}

/// Concatenate slices of bytes.
pub fn try_concat(parts: &[&[u8]]) -> Result<Vec<u8>> {
    let mut vector = try_with_capacity(parts.iter().map(|part| part.len()).fold(0, usize::saturating_add))?;
    parts.iter().for_each(|part| vector.extend_from_slice(part));
    Ok(vector)
}

/// Append bytes.
pub fn try_extend(vector: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    vector.try_reserve(bytes.len()).map_err(|_| out_of_memory::<u8>(vector.len().saturating_add(bytes.len())))?;
    vector.extend_from_slice(bytes);
    Ok(())
}

/// Make a vector of bytes `length` long, with zeros at the end.
pub fn try_resize(vector: &mut Vec<u8>, length: usize) -> Result<()> {
    vector.try_reserve(length.saturating_sub(vector.len())).map_err(|_| out_of_memory::<u8>(length))?;
    vector.resize(length, 0);
    Ok(())
}

/// Append an element.
pub fn try_push<T>(vector: &mut Vec<T>, item: T) -> Result<()> {
    if vector.len() == vector.capacity() {
        vector.try_reserve(1).map_err(|_| out_of_memory::<T>(vector.len().saturating_mul(2)))?;
    }
    vector.push(item);
    Ok(())
}

#[cold]
fn out_of_memory<T>(count: usize) -> Error {
    Error::Memory { bytes: count.saturating_mul(size_of::<T>()) }
}
