//! The description of an array: its chunk grid, its chunk keys, its codecs and its fill value.
//!
//! The Python module makes it once for each array; `read` and `write` use it.

use crate::chain::Chain;
use crate::last_chunk::LastChunk;
use crate::plan::ChunkAxis;

/// An array as it is stored.
pub struct Array {
    /// Number of indices along each axis.
    pub shape: Vec<u64>,
    /// The axes of the chunk grid.
    pub chunk_axes: Vec<ChunkAxis>,
    /// The encoding of chunk keys.
    pub keys: Keys,
    /// The codecs of a chunk.
    pub chain: Chain,
    /// The fill value: the bytes of one element.
    pub fill: Vec<u8>,
    /// Whether every chunk must be stored, and the last one holds only the rows of the array (bcolz).
    pub dense: bool,
    /// The chunk that was extended last.
    pub last: LastChunk,
}

impl Array {
    /// Return the shape of a chunk as it is stored.
    pub fn chunk_shape(&self, coords: &[u64]) -> Vec<u64> {
        self.chunk_axes.iter().zip(coords).map(|(axis, &number)| axis.length(number)).collect()
    }

    /// Return whether part of a chunk lies beyond the array, where another process may have appended elements.
    pub fn overhangs(&self, coords: &[u64]) -> bool {
        (self.chunk_axes.iter().zip(&self.shape).zip(coords))
            .any(|((axis, &size), &number)| axis.start(number).saturating_add(axis.length(number)) > size)
    }
}

/// The encoding of chunk keys; see `tegula.metadata.chunk_keys`.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Text before the coordinates.
    pub prefix: String,
    /// Text between two coordinates.
    pub separator: String,
    /// Text after the coordinates.
    pub suffix: String,
    /// The key of the only chunk of an array without dimensions.
    pub scalar: String,
    /// Whether the key holds only the first coordinate.
    pub first_only: bool,
    /// Whether the key holds the coordinates in reverse order.
    pub is_reversed: bool,
}

impl Keys {
    /// Return the key of the chunk at `coords`.
    pub fn encode(&self, coords: &[u64]) -> String {
        if coords.is_empty() {
            return self.scalar.clone();
        }
        let mut key = String::with_capacity(self.prefix.len() + self.suffix.len() + 8 * coords.len());
        key.push_str(&self.prefix);
        for position in 0..if self.first_only { 1 } else { coords.len() } {
            if position > 0 {
                key.push_str(&self.separator);
            }
            push_number(&mut key, coords[if self.is_reversed { coords.len() - 1 - position } else { position }]);
        }
        key.push_str(&self.suffix);
        key
    }
}

/// Append a number in decimal digits.
fn push_number(text: &mut String, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend(digits[start..].iter().map(|&digit| digit as char));
}

/// Iterator over the grid coordinates in a box, in C order.
pub struct Coords {
    bounds: Vec<(u64, u64)>,
    next: Option<Vec<u64>>,
}

impl Coords {
    /// Iterate over the coordinates within `bounds`: start and stop along each axis.
    pub fn new(bounds: Vec<(u64, u64)>) -> Coords {
        let empty = bounds.iter().any(|(start, stop)| start >= stop);
        let next = (!empty).then(|| bounds.iter().map(|(start, _)| *start).collect());
        Coords { bounds, next }
    }
}

impl Iterator for Coords {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        let current = self.next.take()?;
        let mut following = current.clone();
        for (number, (start, stop)) in following.iter_mut().zip(&self.bounds).rev() {
            *number += 1; // at most `stop`
            if *number < *stop {
                self.next = Some(following);
                break;
            }
            *number = *start;
        }
        Some(current)
    }
}
