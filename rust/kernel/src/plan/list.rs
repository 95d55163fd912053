//! Tables of lists: the indices of an index array, divided among the chunks of an axis.

use super::axis::{Part, Place, Row, Select};

/// The table of the indices of an index array along one axis, sorted by chunk.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The chunk's number along the axis, for each row.
    pub numbers: Vec<u64>,
    /// Row `i` has the items `bounds[i]` to `bounds[i + 1]` of the lists below.
    pub bounds: Vec<usize>,
    /// For each row, whether its offsets are consecutive, and whether they are all indices of the chunk within the array.
    pub traits: Vec<(bool, bool)>,
    /// The indices within their chunk.
    pub offsets: Vec<i64>,
    /// The index of each in the work buffer; `None` if that is its index in this list.
    pub positions: Option<Vec<i64>>,
    /// Stride of the work buffer, in bytes.
    pub stride: isize,
}

impl List {
    pub(super) fn row(&self, row: usize) -> Row<'_> {
        let (begin, end) = (self.bounds[row], self.bounds[row + 1]);
        let offsets = &self.offsets[begin..end];
        let (consecutive, whole) = self.traits[row];
        let (select, place) = match &self.positions {
            // With listed positions even consecutive offsets are a list.
            Some(positions) => (Select::List(offsets), Place::At(&positions[begin..end])),
            None if consecutive => (
                Select::Run { first: offsets[0] as u64, count: offsets.len() as u64, step: 1 },
                Place::From(begin as u64),
            ),
            None => (Select::List(offsets), Place::From(begin as u64)),
        };
        Row { number: self.numbers[row], part: Part { select, place, stride: self.stride, whole } }
    }
}
