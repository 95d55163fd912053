//! Variable-length strings: the layout of `vlen-utf8` and `vlen-bytes`. Called by the Python module.
//!
//! The number of elements comes first, then each element after its length in bytes; all numbers are little-endian
//! 32-bit integers.

use crate::{Error, Result};

const NAME: &str = "vlen";
const NUMBER: usize = 4;

fn number(data: &[u8], position: usize) -> Option<usize> {
    let bytes = data.get(position..)?.first_chunk::<NUMBER>()?;
    usize::try_from(u32::from_le_bytes(*bytes)).ok()
}

/// Locate each of `expected` elements in `data`: return its start and end.
///
/// # Errors
///
/// `Codec` if there are more or fewer elements, or if their lengths do not add up to the length of the data.
pub fn parse(data: &[u8], expected: usize) -> Result<Vec<(usize, usize)>> {
    let least = expected.checked_add(1).and_then(|count| count.checked_mul(NUMBER));
    if least.is_none_or(|least| data.len() < least) || number(data, 0) != Some(expected) {
        return Err(Error::codec(NAME, format!("the data does not hold {expected} elements")));
    }
    let mut ranges = Vec::new();
    ranges.try_reserve_exact(expected).map_err(|_| Error::Memory { bytes: expected })?;
    let mut position = NUMBER;
    for _ in 0..expected {
        let length = number(data, position);
        let start = position + NUMBER; // within the data if there is a length
        position = match length {
            Some(length) if length <= data.len() - start => start + length,
            _ => return Err(Error::codec(NAME, "the data ends before its last element")),
        };
        ranges.push((start, position));
    }
    if position != data.len() {
        return Err(Error::codec(NAME, "the lengths of the elements and that of the data differ"));
    }
    Ok(ranges)
}

/// Locate the elements as `parse` does, and check that each is UTF-8.
///
/// # Errors
///
/// Those of `parse`, and `Codec` if an element is not UTF-8.
pub fn parse_text(data: &[u8], expected: usize) -> Result<Vec<(usize, usize)>> {
    let ranges = parse(data, expected)?;
    for (index, &(start, end)) in ranges.iter().enumerate() {
        if std::str::from_utf8(&data[start..end]).is_err() {
            return Err(Error::codec(NAME, format!("element {index} is not UTF-8")));
        }
    }
    Ok(ranges)
}

/// Encode `items`; the result replaces the content of `out`.
///
/// # Errors
///
/// `Codec` if the number of items or a length exceeds 32 bits; `Memory` if there is not enough.
pub fn join(items: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
    let pack = |size: usize| match u32::try_from(size) {
        Ok(size) => Ok(size.to_le_bytes()),
        Err(_) => Err(Error::codec(NAME, format!("{size} does not fit 32 bits"))),
    };
    let size = items.iter().fold(NUMBER, |size, item| size.saturating_add(item.len()).saturating_add(NUMBER));
    out.clear();
    out.try_reserve_exact(size).map_err(|_| Error::Memory { bytes: size })?;
    out.extend_from_slice(&pack(items.len())?);
    for item in items {
        out.extend_from_slice(&pack(item.len())?);
        out.extend_from_slice(item);
    }
    Ok(())
}
