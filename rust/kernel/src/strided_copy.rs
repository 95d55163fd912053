//! The strided copy between one chunk and the work buffer: the offsets of the selected elements on both sides.
//!
//! `read` and `write` make one from each item of a plan; `strided::copy` carries it out.

use crate::memory::{try_collect, try_repeat};
use crate::plan::{Item, Place, Select};
use crate::stores::Parts;
use crate::strided::{Dim, Offsets};
use crate::{Error, Result};

/// A request takes as long as reading this many more bytes, where they are in the memory of this machine, and where
/// not.
const CACHED_REQUEST: u64 = 1 << 12;
const OTHER_REQUEST: u64 = 1 << 14;

/// The work buffer: reading fills it, and writing takes elements from it.
#[derive(Clone, Copy, Debug)]
pub struct WorkBuffer {
    /// Address of the element at index 0 of every axis.
    pub start: *mut u8,
    /// Offset of the bytes that it holds of each element of the array (a field), …
    pub offset: usize,
    /// … and their number.
    pub size: usize,
    /// Whether it is so large that streaming stores, which bypass the caches, are faster.
    pub bypass_cache: bool,
}

// SAFETY: callers of `read` and `write` guarantee that no other code uses the memory during the call, and the chunks of a
// plan do not share elements of it.
unsafe impl Send for WorkBuffer {}
// SAFETY: as above.
unsafe impl Sync for WorkBuffer {}

/// The copy of the selected elements of one chunk.
#[derive(Debug)]
pub struct StridedCopy<'i> {
    /// Offset of the first element in the content of the chunk, in bytes.
    pub source: usize,
    /// Offset of the first element in the work buffer, in bytes.
    pub target: isize,
    /// The dimensions, where `source` is the chunk: outermost axis first, and the points before all axes.
    pub dims: Vec<Dim<'i>>,
    /// Number of elements.
    pub count: usize,
    /// Number of bytes of the chunk's content, within which all elements lie if the item lies within the chunk.
    pub content: usize,
    /// Whether the whole chunk is selected, and has the same layout in the work buffer.
    pub is_contiguous: bool,
}

/// The range of bytes of the chunk that the inner dimensions of a copy span.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Offset of the lowest byte from the first element: zero or negative.
    pub low: i64,
    /// Number of bytes.
    pub span: usize,
}

/// A block of a chunk's content, of which the bytes from `low` up to `high` are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    /// Number of the block.
    pub block: usize,
    /// Start of the needed bytes.
    pub low: usize,
    /// End of the needed bytes.
    pub high: usize,
}

impl<'i> StridedCopy<'i> {
    /// Compute the copy of the elements that `item` selects.
    ///
    /// Axis `i` of `stored` is axis `order[i]` of the chunk; `size` is the size of an element in bytes. `points` becomes
    /// the list of the points' offsets, which the result borrows.
    ///
    /// # Errors
    ///
    /// `Memory` if there is not enough for this list.
    pub fn new(
        item: &Item<'i>,
        order: Option<&[usize]>,
        stored: &[u64],
        size: usize,
        points: &'i mut Vec<i64>,
    ) -> Result<StridedCopy<'i>> {
        // the strides of the chunk, and whether the work buffer has the same ones
        let axis_of = |position: usize| order.map_or(position, |order| order[position]);
        let mut strides = vec![0_i64; stored.len()];
        let mut stride = size as i64;
        let mut is_contiguous = item.group.is_none();
        for position in (0..stored.len()).rev() {
            strides[position] = stride;
            if let Some(part) = &item.parts[axis_of(position)] {
                let whole = matches!(&part.select, Select::Run { first: 0, count, step }
                    if *count == stored[position] && (*step == 1 || *count == 1));
                let placed = stored[position] == 1 || part.stride as i64 == stride;
                is_contiguous &= whole && placed && matches!(part.place, Place::From(_));
            }
            stride = stride.saturating_mul(stored[position] as i64);
        }
        let content = stride as usize;
        // the points as the outermost dimension
        let (mut source, mut target, mut count) = (0_i64, 0_isize, 1_usize);
        let mut dims = Vec::with_capacity(stored.len() + 1);
        if let Some(group) = item.group {
            *points = try_repeat(group.count(), 0)?;
            for (&axis, offsets) in group.axes().iter().zip(group.offsets()) {
                let stride = (0..stored.len()).find(|&position| axis_of(position) == axis).map_or(0, |at| strides[at]);
                for (point, offset) in points.iter_mut().zip(offsets.iter()) {
                    *point += offset * stride;
                }
            }
            count = count.saturating_mul(group.count());
            let to = buffer_offsets(group.place(), group.stride(), &mut target);
            dims.push(Dim { count: group.count(), source: Offsets::Indexed(points, 1), target: to });
        }
        // the axes
        for (position, &stride) in strides.iter().enumerate() {
            let Some(part) = &item.parts[axis_of(position)] else { continue };
            let from = match &part.select {
                Select::Run { first, step, .. } => {
                    source += *first as i64 * stride;
                    Offsets::Strided((*step * stride) as isize)
                }
                Select::List(list) => Offsets::Indexed(list, stride as isize),
            };
            let to = buffer_offsets(part.place, part.stride, &mut target);
            count = count.saturating_mul(part.count());
            if part.count() != 1 || matches!(from, Offsets::Indexed(..)) || matches!(to, Offsets::Indexed(..)) {
                dims.push(Dim { count: part.count(), source: from, target: to });
            }
        }
        Ok(StridedCopy { source: source as usize, target, dims, count, content, is_contiguous })
    }

    /// Return the dimensions of the copy from the work buffer to the chunk.
    pub fn reversed(&self) -> Vec<Dim<'i>> {
        self.dims.iter().map(|dim| Dim { count: dim.count, source: dim.target, target: dim.source }).collect()
    }

    /// Return the range of the chunk that the dimensions from `depth` on span, for elements of `size` bytes.
    pub fn inner_span(&self, depth: usize, size: usize) -> Span {
        let (mut low, mut high) = (0_i64, 0_i64);
        for dim in &self.dims[depth..] {
            let (first, last) = match dim.source {
                Offsets::Strided(stride) => (0, (dim.count as i64 - 1) * stride as i64),
                Offsets::Indexed(list, stride) => {
                    let (least, most) = list
                        .iter()
                        .fold((i64::MAX, i64::MIN), |(least, most), &index| (least.min(index), most.max(index)));
                    (least.wrapping_mul(stride as i64), most.wrapping_mul(stride as i64))
                }
            };
            low += first.min(last);
            high += first.max(last);
        }
        Span { low, span: (high - low) as usize + size }
    }

    /// Return where the last of the selected elements, of `size` bytes each, ends in the chunk.
    pub fn end(&self, size: usize) -> usize {
        let Span { low, span } = self.inner_span(0, size);
        self.source.saturating_add_signed(low as isize).saturating_add(span)
    }

    /// Choose the number of outer dimensions to iterate over with one range request each; `None` if reading the whole
    /// chunk of `content` bytes is cheaper. `is_cached` says whether the byte at an offset is in memory.
    pub fn range_depth(
        &self,
        content: usize,
        size: usize,
        parts: Parts,
        is_cached: &dyn Fn(u64) -> bool,
    ) -> Option<usize> {
        let [cached, other] =
            [CACHED_REQUEST, OTHER_REQUEST].map(|bytes| self.cheapest_depth(content, size, parts.gap.min(bytes)));
        let Span { low, span } = self.inner_span(0, size);
        let middle = self.source.saturating_add_signed(low as isize).saturating_add(span / 2);
        if cached == other || is_cached(middle as u64) { cached } else { other }
    }

    fn cheapest_depth(&self, content: usize, size: usize, request: u64) -> Option<usize> {
        let request = request as f64;
        let (mut best, mut least) = (None, content as f64 + request);
        let mut requests = 1_f64;
        for depth in 0..=self.dims.len() {
            let cost = requests * (request + self.inner_span(depth, size).span as f64);
            if cost < least {
                (best, least) = (Some(depth), cost);
            }
            if depth < self.dims.len() {
                requests *= self.dims[depth].count as f64;
            }
        }
        best
    }

    /// Call `work` with the offsets in source and target of each index of the first `depth` dimensions.
    pub fn for_each_outer(&self, depth: usize, work: &mut dyn FnMut(i64, isize) -> Result<()>) -> Result<()> {
        self.outer(0, depth, 0, 0, work)
    }

    fn outer(
        &self,
        dim: usize,
        depth: usize,
        source: i64,
        target: isize,
        work: &mut dyn FnMut(i64, isize) -> Result<()>,
    ) -> Result<()> {
        if dim == depth {
            return work(source, target);
        }
        let Dim { count, source: from, target: to } = self.dims[dim];
        (0..count).try_for_each(|i| {
            self.outer(dim + 1, depth, source + offset(from, i), target + offset(to, i) as isize, work)
        })
    }

    /// Return the blocks that hold selected elements, in order; there are `count` blocks of `length` bytes.
    pub fn blocks(&self, length: usize, count: usize, size: usize) -> Result<Vec<Needed>> {
        let spans: Vec<Span> = (0..=self.dims.len()).map(|depth| self.inner_span(depth, size)).collect();
        let mut marked = try_collect((0..count).map(|block| Needed { block, low: usize::MAX, high: 0 }))?;
        self.mark(0, self.source as i64, length as i64, &spans, &mut marked);
        marked.retain(|needed| needed.low < needed.high);
        Ok(marked)
    }

    /// Mark the blocks that the dimensions from `depth` on touch, for one index of the outer ones.
    fn mark(&self, depth: usize, start: i64, length: i64, spans: &[Span], marked: &mut [Needed]) {
        let low = start + spans[depth].low;
        let high = low + spans[depth].span as i64;
        let (first, last) = (low / length, (high - 1) / length);
        let dense = match self.dims.get(depth) {
            None => true,
            Some(dim) => {
                matches!(dim.source, Offsets::Strided(stride) if depth + 1 == self.dims.len() && stride.abs() as i64 <= length)
            }
        };
        if first == last || dense {
            for block in first..=last {
                if let Some(needed) = usize::try_from(block).ok().and_then(|block| marked.get_mut(block)) {
                    let start = block * length;
                    needed.low = needed.low.min((low - start).max(0) as usize);
                    needed.high = needed.high.max((high - start).min(length) as usize);
                }
            }
            return;
        }
        let dim = self.dims[depth];
        for i in 0..dim.count {
            self.mark(depth + 1, start + offset(dim.source, i), length, spans, marked);
        }
    }
}

fn offset(offsets: Offsets<'_>, i: usize) -> i64 {
    match offsets {
        Offsets::Strided(stride) => stride as i64 * i as i64,
        Offsets::Indexed(list, stride) => list[i] * stride as i64,
    }
}

/// Return the offsets of a place in the work buffer, and add its start to `base`.
fn buffer_offsets<'i>(place: Place<'i>, stride: isize, base: &mut isize) -> Offsets<'i> {
    match place {
        Place::From(start) => {
            *base += start as isize * stride;
            Offsets::Strided(stride)
        }
        Place::At(list) => Offsets::Indexed(list, stride),
    }
}

/// Return the size in bytes of a chunk with this stored shape; an error if it exceeds the address space.
pub fn content_size(stored: &[u64], size: usize) -> Result<usize> {
    (stored.iter().try_fold(size, |bytes, &count| bytes.checked_mul(usize::try_from(count).ok()?)))
        .filter(|&bytes| bytes <= isize::MAX as usize)
        .ok_or(Error::Memory { bytes: usize::MAX })
}
