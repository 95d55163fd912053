//! Vectors whose length depends on data or on a request: where the memory is missing they are an error, never an abort.

use crate::{Error, Result};

/// Make a vector with room for `count` elements.
///
/// # Errors
///
/// `Memory` if the system refuses it, as for all functions of this module.
pub fn reserved<T>(count: usize) -> Result<Vec<T>> {
    let mut made = Vec::new();
    made.try_reserve_exact(count).map_err(|_| missing::<T>(count))?;
    Ok(made)
}

/// Make a vector of `count` times one value.
pub fn repeated<T: Clone>(count: usize, value: T) -> Result<Vec<T>> {
    let mut made = reserved(count)?;
    made.resize(count, value);
    Ok(made)
}

/// Make a vector of what an iterator yields.
pub fn gathered<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let items = items.into_iter();
    let mut made = reserved(items.size_hint().0)?;
    for item in items {
        push(&mut made, item)?;
    }
    Ok(made)
}

/// Join slices of bytes.
pub fn joined(parts: &[&[u8]]) -> Result<Vec<u8>> {
    let mut made = reserved(parts.iter().map(|part| part.len()).fold(0, usize::saturating_add))?;
    parts.iter().for_each(|part| made.extend_from_slice(part));
    Ok(made)
}

/// Add bytes.
pub fn extend(vector: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    vector.try_reserve(bytes.len()).map_err(|_| missing::<u8>(vector.len().saturating_add(bytes.len())))?;
    vector.extend_from_slice(bytes);
    Ok(())
}

/// Add an element.
pub fn push<T>(vector: &mut Vec<T>, item: T) -> Result<()> {
    if vector.len() == vector.capacity() {
        vector.try_reserve(1).map_err(|_| missing::<T>(vector.len().saturating_mul(2)))?;
    }
    vector.push(item);
    Ok(())
}

#[cold]
fn missing<T>(count: usize) -> Error {
    Error::Memory { bytes: count.saturating_mul(size_of::<T>()) }
}
