//! One axis of a chunk grid, and the selection of a plan in one chunk along it.

use std::sync::Arc;

/// One axis of a chunk grid.
#[derive(Clone, Debug)]
pub enum ChunkAxis {
    /// Chunks of equal length.
    Regular(u64),
    /// Chunks of varying lengths: the start of each, and the end of the last.
    Varying(Arc<[u64]>),
}

impl ChunkAxis {
    /// Return the number of the chunk that holds an index.
    pub fn locate(&self, index: u64) -> u64 {
        match self {
            ChunkAxis::Regular(length) => index / length,
            ChunkAxis::Varying(starts) => locate(starts, index),
        }
    }

    /// Return the first index of chunk `number`.
    pub fn start(&self, number: u64) -> u64 {
        match self {
            ChunkAxis::Regular(length) => number * length,
            ChunkAxis::Varying(starts) => starts[number as usize],
        }
    }

    /// Return the length of chunk `number` as it is stored.
    pub fn length(&self, number: u64) -> u64 {
        match self {
            ChunkAxis::Regular(length) => *length,
            ChunkAxis::Varying(starts) => starts[number as usize + 1] - starts[number as usize],
        }
    }
}

/// Return the number of the chunk that holds an index, by the starts of the chunks.
pub(super) fn locate(starts: &[u64], index: u64) -> u64 {
    (starts.partition_point(|&start| start <= index) - 1) as u64
}

/// The indices selected along one axis of a chunk.
#[derive(Clone, Copy, Debug)]
pub enum Select<'a> {
    /// `count` indices `first`, `first + step`, … .
    Run {
        /// The first index within the chunk.
        first: u64,
        /// Number of indices.
        count: u64,
        /// Distance between two indices; negative to run backwards.
        step: i64,
    },
    /// The listed indices.
    List(&'a [i64]),
}

/// Where the selected elements lie along one axis of the work buffer.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// At consecutive indices from this one on.
    From(u64),
    /// At the listed indices.
    At(&'a [i64]),
}

/// The selection along one axis of a chunk, and its place in the work buffer.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The selected indices.
    pub select: Select<'a>,
    /// Their place in the work buffer.
    pub place: Place<'a>,
    /// Stride of the work buffer along this axis, in bytes; 0 for an axis that it does not have.
    pub stride: isize,
    /// Whether these are all indices of the chunk that lie within the array.
    pub whole: bool,
}

impl Part<'_> {
    /// Return the number of selected indices.
    pub fn count(&self) -> usize {
        match &self.select {
            Select::Run { count, .. } => *count as usize,
            Select::List(list) => list.len(),
        }
    }
}

/// One row of the table of an axis: the number of a chunk along the axis, and the selection in it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Number of the chunk.
    pub number: u64,
    /// The selection in it.
    pub part: Part<'a>,
}
