//! Four bytes of checksum beside the data: `crc32c`, `crc32`, `adler32` [Bool at_start], and `fletcher32` [] after it.

use super::room::{Resize, Resized, Room};
use super::{Codec, Value};
use crate::{Error, Result};

const SIZE: usize = 4;

struct Checksum {
    name: &'static str,
    sum: fn(&[u8]) -> u32,
    at_start: bool,
}

pub(super) fn build(name: &str, options: &[Value]) -> Result<Box<dyn Codec>> {
    let (name, sum): (_, fn(&[u8]) -> u32) = match name {
        "crc32c" => ("crc32c", crc32c::crc32c),
        "crc32" => ("crc32", crc32),
        "adler32" => ("adler32", adler32),
        _ => ("fletcher32", fletcher32),
    };
    let at_start = match options {
        [Value::Bool(at_start)] if name != "fletcher32" => *at_start,
        [] if name == "fletcher32" => false,
        _ => return Err(Error::unsupported(name, "the options are not whether the checksum comes first")),
    };
    Ok(Box::new(Resized(Checksum { name, sum, at_start })))
}

pub(crate) fn crc32(data: &[u8]) -> u32 {
    // SAFETY: the function reads the data, nothing else.
    unsafe { libdeflate_sys::libdeflate_crc32(0, data.as_ptr().cast(), data.len()) }
}

fn adler32(data: &[u8]) -> u32 {
    // SAFETY: the function reads the data, nothing else.
    unsafe { libdeflate_sys::libdeflate_adler32(1, data.as_ptr().cast(), data.len()) }
}

/// Words that are summed side by side.
const LANES: usize = 8;

/// Words of a lane that are summed before anything is reduced: 256 · 257 / 2 · 65535 fits 32 bits.
const ROWS: usize = 256;

/// Compute the checksum of HDF5: two sums of big-endian 16-bit words, where 65535 and 0 are the same but for data of
/// zeros only.
fn fletcher32(data: &[u8]) -> u32 {
    let (mut low, mut high) = (0u64, 0u64);
    for block in data.chunks(2 * LANES * ROWS) {
        let rows = block.chunks_exact(2 * LANES);
        let (rest, count) = (rows.remainder(), (rows.len() * LANES) as u64);
        let (plain, weighted) = sum_rows(rows);
        high = reduce(high + low * count + weighted);
        low = reduce(low + plain);
        for word in rest.chunks(2) {
            low += u64::from(word[0]) << 8 | word.get(1).map_or(0, |byte| u64::from(*byte));
            high += low;
        }
        (low, high) = (reduce(low), reduce(high));
    }
    (high as u32) << 16 | low as u32
}

/// Sum the words, and the sums that there are after each of them.
fn sum_rows(rows: std::slice::ChunksExact<'_, u8>) -> (u64, u64) {
    let (mut plain, mut weighted) = ([0u32; LANES], [0u32; LANES]);
    for row in rows {
        for lane in 0..LANES {
            plain[lane] += u32::from(row[2 * lane]) << 8 | u32::from(row[2 * lane + 1]);
            weighted[lane] += plain[lane];
        }
    }
    // word `lane` of a row counts `lane` times less than the first one
    let weight = |lane: usize| LANES as u64 * u64::from(weighted[lane]) - lane as u64 * u64::from(plain[lane]);
    ((0..LANES).map(|lane| u64::from(plain[lane])).sum(), (0..LANES).map(weight).sum())
}

/// Return the number from 1 to 65535 that is the same modulo 65535, or 0 for 0.
fn reduce(sum: u64) -> u64 {
    if sum == 0 { 0 } else { (sum - 1) % 65535 + 1 }
}

impl Checksum {
    /// Check that the function takes the data; numcodecs refuses to sum nothing with `fletcher32`.
    fn takes(&self, size: usize) -> Result<()> {
        if size == 0 && self.name == "fletcher32" {
            return Err(Error::codec(self.name, "there is nothing to sum"));
        }
        Ok(())
    }
}

// SAFETY: encoding writes the data and four bytes, decoding copies all but four.
unsafe impl Resize for Checksum {
    fn name(&self) -> &str {
        self.name
    }

    fn encoded(&self, size: usize) -> Result<usize> {
        size.checked_add(SIZE).ok_or(Error::Memory { bytes: size })
    }

    fn decoded(&self, data: &[u8]) -> Result<usize> {
        data.len().checked_sub(SIZE).ok_or_else(|| Error::codec(self.name, "the data is shorter than its checksum"))
    }

    fn encode(&self, data: &[u8], mut room: Room<'_>) -> Result<()> {
        self.takes(data.len())?;
        let sum = (self.sum)(data).to_le_bytes();
        if self.at_start {
            room.put(&sum);
            room.after(SIZE).put(data);
        } else {
            room.put(data);
            room.after(data.len()).put(&sum);
        }
        Ok(())
    }

    fn payload<'a>(&self, data: &'a [u8]) -> Option<Result<&'a [u8]>> {
        Some(self.checked(data))
    }

    fn decode(&self, data: &[u8], mut room: Room<'_>) -> Result<()> {
        room.put(self.checked(data)?);
        Ok(())
    }
}

impl Checksum {
    /// Return what the checksum is of, if it is.
    fn checked<'a>(&self, data: &'a [u8]) -> Result<&'a [u8]> {
        let parts = if self.at_start {
            data.split_first_chunk().map(|(sum, rest)| (rest, sum))
        } else {
            data.split_last_chunk()
        };
        let Some((content, sum)) = parts else {
            return Err(Error::codec(self.name, "the data is shorter than its checksum"));
        };
        self.takes(content.len())?;
        if (self.sum)(content) != u32::from_le_bytes(*sum) {
            return Err(Error::codec(self.name, "the checksum does not match the data"));
        }
        Ok(content)
    }
}
