//! `crc32c`, `crc32`, `adler32` and `fletcher32`: a checksum of four bytes before or after the data.

use super::Codec;
use super::libraries::deflate::adler32;
pub(crate) use super::libraries::deflate::crc32;
use super::output_buffer::{KnownSize, KnownSizeCodec, OutputBuffer};
use crate::{Error, Result};

const SIZE: usize = 4;

struct Checksum {
    name: &'static str,
    sum: fn(&[u8]) -> u32,
    at_start: bool,
}

/// Build the checksum codec of a name.
pub(super) fn build(name: &'static str, at_start: bool) -> Box<dyn Codec> {
    let sum: fn(&[u8]) -> u32 = match name {
        "crc32c" => crc32c::crc32c,
        "crc32" => crc32,
        "adler32" => adler32,
        _ => fletcher32,
    };
    Box::new(KnownSize(Checksum { name, sum, at_start }))
}

/// Words that are summed in parallel.
const LANES: usize = 8;

/// Words of a lane that are summed before a reduction: 256 · 257 / 2 · 65535 fits 32 bits.
const ROWS: usize = 256;

/// Compute the Fletcher-32 checksum of HDF5: two sums of big-endian 16-bit words modulo 65535, where 0 becomes 65535
/// unless all data is zero.
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

/// Sum the words, and sum the partial sums after each of them.
fn sum_rows(rows: std::slice::ChunksExact<'_, u8>) -> (u64, u64) {
    let (mut plain, mut weighted) = ([0u32; LANES], [0u32; LANES]);
    for row in rows {
        for lane in 0..LANES {
            plain[lane] += u32::from(row[2 * lane]) << 8 | u32::from(row[2 * lane + 1]);
            weighted[lane] += plain[lane];
        }
    }
    // word `lane` of a row occurs in `lane` fewer partial sums than the first one
    let weight = |lane: usize| LANES as u64 * u64::from(weighted[lane]) - lane as u64 * u64::from(plain[lane]);
    ((0..LANES).map(|lane| u64::from(plain[lane])).sum(), (0..LANES).map(weight).sum())
}

/// Return the number from 1 to 65535 that is equal modulo 65535, or 0 for 0.
fn reduce(sum: u64) -> u64 {
    if sum == 0 { 0 } else { (sum - 1) % 65535 + 1 }
}

impl Checksum {
    /// Check that the data is not empty for `fletcher32`, as numcodecs does.
    fn takes(&self, size: usize) -> Result<()> {
        if size == 0 && self.name == "fletcher32" {
            return Err(Error::codec(self.name, "the data is empty"));
        }
        Ok(())
    }
}

impl KnownSizeCodec for Checksum {
    fn name(&self) -> &str {
        self.name
    }

    fn encoded(&self, size: usize) -> Result<usize> {
        size.checked_add(SIZE).ok_or(Error::Memory { bytes: size })
    }

    fn decoded(&self, data: &[u8]) -> Result<usize> {
        data.len().checked_sub(SIZE).ok_or_else(|| Error::codec(self.name, "the data is shorter than its checksum"))
    }

    fn encode(&self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()> {
        self.takes(data.len())?;
        let sum = (self.sum)(data).to_le_bytes();
        if self.at_start {
            buffer.write(&sum);
            buffer.write(data);
        } else {
            buffer.write(data);
            buffer.write(&sum);
        }
        Ok(())
    }

    fn payload<'a>(&self, data: &'a [u8]) -> Option<Result<&'a [u8]>> {
        Some(self.checked(data))
    }

    fn decode(&self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()> {
        buffer.write(self.checked(data)?);
        Ok(())
    }
}

impl Checksum {
    /// Return the data without its checksum, after checking it.
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
