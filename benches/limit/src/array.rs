//! Where the elements of an array are.

use serde::Deserialize;

/// How chunks are compressed; the levels are those of the benchmark's cases.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Codec {
    None,
    BloscLz4,
    BloscZstd,
    Zstd,
    Zlib,
    Gzip,
}

/// A two-dimensional array of a job.
#[derive(Deserialize)]
pub struct Array {
    pub path: String,
    pub document: String,
    pub shape: [usize; 2],
    pub chunk: [usize; 2],
    pub shard: Option<[usize; 2]>,
    pub item: usize,
    pub codec: Codec,
    pub fortran: bool,
    pub format: String,
}

/// Rows and columns from the first two to the last two, which are not included.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    pub rows: [usize; 2],
    pub columns: [usize; 2],
}

impl Area {
    pub fn height(&self) -> usize {
        self.rows[1] - self.rows[0]
    }

    pub fn width(&self) -> usize {
        self.columns[1] - self.columns[0]
    }

    pub fn elements(&self) -> usize {
        self.height() * self.width()
    }

    /// What is in both.
    pub fn within(&self, other: &Area) -> Area {
        let cut = |a: [usize; 2], b: [usize; 2]| [a[0].max(b[0]), a[1].min(b[1])];
        Area { rows: cut(self.rows, other.rows), columns: cut(self.columns, other.columns) }
    }

    /// The cells of a grid that it touches, in rows.
    pub fn cells(&self, cell: [usize; 2]) -> Vec<[usize; 2]> {
        let rows = self.rows[0] / cell[0]..self.rows[1].div_ceil(cell[0]);
        rows.flat_map(|i| (self.columns[0] / cell[1]..self.columns[1].div_ceil(cell[1])).map(move |j| [i, j])).collect()
    }

    pub fn of_cell(at: [usize; 2], cell: [usize; 2]) -> Area {
        Area { rows: [at[0] * cell[0], (at[0] + 1) * cell[0]], columns: [at[1] * cell[1], (at[1] + 1) * cell[1]] }
    }
}

impl Array {
    /// The elements of a file along both axes.
    pub fn file(&self) -> [usize; 2] {
        self.shard.unwrap_or(self.chunk)
    }

    pub fn name(&self, at: [usize; 2]) -> String {
        if self.format == "zarr2" { format!("{}.{}", at[0], at[1]) } else { format!("c/{}/{}", at[0], at[1]) }
    }

    pub fn chunk_bytes(&self) -> usize {
        self.chunk[0] * self.chunk[1] * self.item
    }

    /// The number of chunks in a shard, and how many of them are beside each other.
    pub fn inner(&self) -> (usize, usize) {
        let file = self.file();
        let across = file[1] / self.chunk[1];
        (file[0] / self.chunk[0] * across, across)
    }

    /// Bytes from a row and from a column of a chunk to the next.
    pub fn strides(&self) -> (usize, usize) {
        if self.fortran { (self.item, self.chunk[0] * self.item) } else { (self.chunk[1] * self.item, self.item) }
    }
}
