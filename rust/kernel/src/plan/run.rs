//! Tables of runs: the indices of an int or a slice, divided among the chunks of an axis.

use std::sync::Arc;

use super::axis::{ChunkAxis, Part, Place, Row, Select, locate};
use crate::Result;
use crate::memory::try_push;

/// The table of the indices `first, first + step, …` of an axis, divided among its chunks. Rows are computed on demand.
#[derive(Clone, Debug)]
pub struct Run {
    first: u64,
    step: i64,
    count: u64,
    /// Index of the first in the work buffer, and the stride there in bytes.
    start: u64,
    stride: isize,
    /// Length of the axis.
    size: u64,
    division: Division,
    pub(super) rows: usize,
}

/// The division of the indices of a run among chunks.
#[derive(Clone, Debug)]
enum Division {
    /// Chunks of equal length.
    Regular(u64),
    /// Chunks with the given starts; row `i` has the run's indices from position `bounds[i]` on.
    Varying { starts: Arc<[u64]>, bounds: Vec<u64> },
}

impl Run {
    /// Divide `count` indices of an axis of length `size`; their place in the work buffer begins at `start`.
    ///
    /// # Errors
    ///
    /// `Memory` if the table for chunks of varying lengths does not fit; chunks of equal length need no table.
    pub fn new(
        (first, step, count): (u64, i64, u64),
        (start, stride): (u64, isize),
        chunk_axis: &ChunkAxis,
        size: u64,
    ) -> Result<Run> {
        let mut run = Run { first, step, count, start, stride, size, division: Division::Regular(1), rows: 0 };
        match chunk_axis {
            ChunkAxis::Regular(length) => run.divide(*length),
            ChunkAxis::Varying(starts) => {
                let (mut bounds, mut done) = (Vec::new(), 0);
                while done < count {
                    try_push(&mut bounds, done)?;
                    let number = locate(starts, run.index(done)) as usize;
                    let edge = if step > 0 { starts[number + 1] - 1 } else { starts[number] };
                    done = run.first_beyond(edge);
                }
                run.rows = bounds.len();
                run.division = Division::Varying { starts: Arc::clone(starts), bounds };
            }
        }
        Ok(run)
    }

    /// Divide among chunks of equal length, as `new` does.
    pub(super) fn regular(
        (first, step, count): (u64, i64, u64),
        (start, stride): (u64, isize),
        length: u64,
        size: u64,
    ) -> Run {
        let mut run = Run { first, step, count, start, stride, size, division: Division::Regular(length), rows: 0 };
        run.divide(length);
        run
    }

    fn divide(&mut self, length: u64) {
        self.division = Division::Regular(length);
        let rows = if self.count == 0 || self.step.unsigned_abs() >= length {
            self.count
        } else {
            (self.index(self.count - 1) / length).abs_diff(self.first / length) + 1
        };
        self.rows = usize::try_from(rows).unwrap_or(usize::MAX);
    }

    /// Return the index after the highest one; 0 if there is none.
    pub(super) fn end(&self) -> u64 {
        if self.count == 0 { 0 } else { self.first.max(self.index(self.count - 1)) + 1 }
    }

    /// Return the index at a position of the run.
    fn index(&self, position: u64) -> u64 {
        self.first.wrapping_add_signed(self.step.wrapping_mul(position as i64))
    }

    /// Return the first position whose index lies beyond `edge` in the direction of the run, at most `count`.
    fn first_beyond(&self, edge: u64) -> u64 {
        let distance = if self.step > 0 { edge.checked_sub(self.first) } else { self.first.checked_sub(edge) };
        let position = match self.step.unsigned_abs() {
            1 => distance.map_or(0, |distance| distance.saturating_add(1)),
            step => distance.map_or(0, |distance| distance / step + 1),
        };
        position.min(self.count)
    }

    /// Compute a row: the chunk's number, and the positions of the run that lie in it.
    pub(super) fn row(&self, row: u64) -> Row<'static> {
        let (number, begin, length, from, to);
        match &self.division {
            Division::Regular(chunk) => {
                length = *chunk;
                if self.step.unsigned_abs() >= length {
                    number = self.index(row) / length;
                    begin = number * length;
                    (from, to) = (row, row + 1);
                } else if self.step > 0 {
                    number = self.first / length + row;
                    begin = number * length;
                    from = if row == 0 { 0 } else { self.first_beyond(begin - 1) };
                    to = self.first_beyond(begin + (length - 1));
                } else {
                    number = self.first / length - row;
                    begin = number * length;
                    from = if row == 0 { 0 } else { self.first_beyond(begin + length) };
                    to = self.first_beyond(begin);
                }
            }
            Division::Varying { starts, bounds } => {
                from = bounds[row as usize];
                to = bounds.get(row as usize + 1).copied().unwrap_or(self.count);
                number = locate(starts, self.index(from));
                begin = starts[number as usize];
                length = starts[number as usize + 1] - begin;
            }
        }
        // the positions from..to of the run lie in this chunk, whose first index is `begin`
        let count = to - from;
        let part = Part {
            select: Select::Run { first: self.index(from) - begin, count, step: if count > 1 { self.step } else { 1 } },
            place: Place::From(self.start + from),
            stride: self.stride,
            whole: count == length.min(self.size - begin),
        };
        Row { number, part }
    }
}
