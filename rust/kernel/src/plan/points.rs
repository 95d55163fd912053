//! Tables of points: the points of a coordinate or mask selection, divided among the chunks.

use super::axis::Place;
use crate::Result;
use crate::memory::try_repeat;

/// Points with coordinates on several axes together, sorted by chunk.
#[derive(Clone, Debug, Default)]
pub struct Points {
    /// The axes on which the points have coordinates.
    pub axes: Vec<usize>,
    /// The numbers of the chunk along these axes, for each group in turn.
    pub numbers: Vec<u64>,
    /// Group `i` has the points `bounds[i]` to `bounds[i + 1]`.
    pub bounds: Vec<usize>,
    /// For each group, whether its points are all elements of the chunk within the array, along these axes.
    pub whole: Vec<bool>,
    /// The index of each point within its chunk, for each of the axes.
    pub offsets: Vec<Vec<i64>>,
    /// The index of each point in the work buffer; `None` if that is its index in these lists.
    pub positions: Option<Vec<i64>>,
    /// Stride of the work buffer, in bytes.
    pub stride: isize,
}

/// The points of one chunk.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    pub(super) points: &'a Points,
    pub(super) index: usize,
}

impl<'a> Group<'a> {
    /// Return the axes on which the points have coordinates.
    pub fn axes(&self) -> &'a [usize] {
        &self.points.axes
    }

    /// Return the numbers of the chunk along these axes.
    pub fn numbers(&self) -> &'a [u64] {
        let count = self.points.axes.len();
        &self.points.numbers[self.index * count..(self.index + 1) * count]
    }

    /// Return the index of each point within the chunk, for each of these axes.
    pub fn offsets(&self) -> impl Iterator<Item = &'a [i64]> + use<'a> {
        let (begin, end) = self.range();
        self.points.offsets.iter().map(move |offsets| &offsets[begin..end])
    }

    /// Return the place of the points in the work buffer.
    pub fn place(&self) -> Place<'a> {
        let (begin, end) = self.range();
        match &self.points.positions {
            Some(positions) => Place::At(&positions[begin..end]),
            None => Place::From(begin as u64),
        }
    }

    /// Stride of the work buffer, in bytes.
    pub fn stride(&self) -> isize {
        self.points.stride
    }

    /// Return whether the points are all elements of the chunk within the array, along these axes.
    pub fn whole(&self) -> bool {
        self.points.whole[self.index]
    }

    /// Return the number of points.
    pub fn count(&self) -> usize {
        let (begin, end) = self.range();
        end - begin
    }

    fn range(&self) -> (usize, usize) {
        (self.points.bounds[self.index], self.points.bounds[self.index + 1])
    }
}

/// Return whether points, which all lie in a box, cover every element of it.
///
/// # Errors
///
/// `Memory` if there is not enough for one flag for each element of the box.
pub fn covers_box(offsets: &[&[i64]], lengths: &[u64]) -> Result<bool> {
    let count = offsets.first().map_or(0, |list| list.len());
    let volume = lengths.iter().try_fold(1_u64, |volume, &length| volume.checked_mul(length)).unwrap_or(u64::MAX);
    if (count as u64) < volume || volume <= 1 {
        return Ok(count > 0 && volume == 1);
    }
    let mut hit = try_repeat(volume as usize, false)?;
    for i in 0..count {
        let flat = offsets.iter().zip(lengths).fold(0, |flat, (list, &length)| flat * length + list[i] as u64);
        hit[flat as usize] = true;
    }
    Ok(!hit.contains(&false))
}
