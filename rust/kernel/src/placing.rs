//! Where the elements of one chunk are in memory: in the chunk's content on one side, in the work buffer on the other.

use crate::memory::{gathered, repeated};
use crate::plan::{Item, Place, Select};
use crate::stores::Parts;
use crate::strided::{Dim, Walk};
use crate::{Error, Result};

/// The work buffer: what is filled by reading, and emptied by writing.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Where its element at index 0 of every axis is.
    pub start: *mut u8,
    /// Which bytes of the array's elements it holds: where they begin, …
    pub offset: usize,
    /// … and how many there are.
    pub size: usize,
    /// Whether it is so large that nothing of it stays in the caches.
    pub far: bool,
}

// SAFETY: callers of `read` and `write` vouch that nobody else uses the memory meanwhile; the chunks of a plan do not
// share elements of it.
unsafe impl Send for Work {}
// SAFETY: as above.
unsafe impl Sync for Work {}

/// Where the elements that are taken of one chunk are.
#[derive(Debug)]
pub struct Placing<'i> {
    /// Bytes from the start of the chunk's content to the first of them.
    pub source: usize,
    /// Bytes from the start of the work buffer to its place there.
    pub target: isize,
    /// How to go on from there: `source` is the chunk, outermost axis first (the points, if there are any, before all).
    pub dims: Vec<Dim<'i>>,
    /// How many elements there are.
    pub count: usize,
    /// Whether they are all of the chunk, and lie in the work buffer as they do in the chunk.
    pub in_one_piece: bool,
}

/// What the inner dimensions of a placing span in the chunk.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The lowest byte, from where they begin: zero or negative.
    pub low: i64,
    /// How many bytes from there.
    pub span: usize,
}

/// A block of a chunk's content that is needed: the bytes of it from `low` up to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    /// The block's number.
    pub block: usize,
    /// Where what is needed of it begins.
    pub low: usize,
    /// Where that ends.
    pub high: usize,
}

impl<'i> Placing<'i> {
    /// Find the places of what `item` takes of a chunk.
    ///
    /// Axis `i` of `stored` is the chunk's axis `order[i]`; `size` is that of an element. `points` is memory for the
    /// places of points, which the result borrows.
    ///
    /// # Errors
    ///
    /// `Memory` if there is not enough for these.
    pub fn new(
        item: &Item<'i>,
        order: Option<&[usize]>,
        stored: &[u64],
        size: usize,
        points: &'i mut Vec<i64>,
    ) -> Result<Placing<'i>> {
        let axis_of = |position: usize| order.map_or(position, |order| order[position]);
        let mut strides = vec![0_i64; stored.len()];
        let mut stride = size as i64;
        let mut in_one_piece = item.group.is_none();
        for position in (0..stored.len()).rev() {
            strides[position] = stride;
            if let Some(part) = &item.parts[axis_of(position)] {
                let whole = matches!(&part.select, Select::Run { first: 0, count, step }
                    if *count == stored[position] && (*step == 1 || *count == 1));
                let placed = stored[position] == 1 || part.stride as i64 == stride;
                in_one_piece &= whole && placed && matches!(part.place, Place::From(_));
            }
            stride = stride.saturating_mul(stored[position] as i64);
        }
        let (mut source, mut target, mut count) = (0_i64, 0_isize, 1_usize);
        let mut dims = Vec::with_capacity(stored.len() + 1);
        if let Some(group) = item.group {
            *points = repeated(group.count(), 0)?;
            for (&axis, offsets) in group.axes().iter().zip(group.offsets()) {
                let stride = (0..stored.len()).find(|&position| axis_of(position) == axis).map_or(0, |at| strides[at]);
                for (point, offset) in points.iter_mut().zip(offsets.iter()) {
                    *point += offset * stride;
                }
            }
            count = count.saturating_mul(group.count());
            let walk = place(group.place(), group.stride(), &mut target);
            dims.push(Dim { count: group.count(), source: Walk::Listed(points, 1), target: walk });
        }
        for (position, &stride) in strides.iter().enumerate() {
            let Some(part) = &item.parts[axis_of(position)] else { continue };
            let from = match &part.select {
                Select::Run { first, step, .. } => {
                    source += *first as i64 * stride;
                    Walk::Even((*step * stride) as isize)
                }
                Select::List(list) => Walk::Listed(list, stride as isize),
            };
            let to = place(part.place, part.stride, &mut target);
            count = count.saturating_mul(part.count());
            if part.count() != 1 || matches!(from, Walk::Listed(..)) || matches!(to, Walk::Listed(..)) {
                dims.push(Dim { count: part.count(), source: from, target: to });
            }
        }
        Ok(Placing { source: source as usize, target, dims, count, in_one_piece })
    }

    /// The dimensions for copying from the work buffer to the chunk.
    pub fn backwards(&self) -> Vec<Dim<'i>> {
        self.dims.iter().map(|dim| Dim { count: dim.count, source: dim.target, target: dim.source }).collect()
    }

    /// What the dimensions from `depth` on span, of elements of `size` bytes.
    pub fn inner(&self, depth: usize, size: usize) -> Span {
        let (mut low, mut high) = (0_i64, 0_i64);
        for dim in &self.dims[depth..] {
            let (first, last) = match dim.source {
                Walk::Even(stride) => (0, (dim.count as i64 - 1) * stride as i64),
                Walk::Listed(list, stride) => {
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

    /// How many of the outer dimensions to go through one by one, reading a range for each; `None` if reading all of a
    /// chunk of `content` bytes costs less.
    pub fn depth(&self, content: usize, size: usize, parts: Parts) -> Option<usize> {
        let request = parts.gap.min(8192) as f64;
        let (mut best, mut least) = (None, content as f64 + request);
        let mut requests = 1_f64;
        for depth in 0..=self.dims.len() {
            let cost = requests * (request + self.inner(depth, size).span as f64);
            if cost < least {
                (best, least) = (Some(depth), cost);
            }
            if depth < self.dims.len() {
                requests *= self.dims[depth].count as f64;
            }
        }
        best
    }

    /// Call `work` with the bytes to add to source and target, for each index of the first `depth` dimensions.
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
        (0..count)
            .try_for_each(|i| self.outer(dim + 1, depth, source + step(from, i), target + step(to, i) as isize, work))
    }

    /// The blocks of `length` bytes each that hold what is taken, of `count` blocks in all; in order.
    pub fn blocks(&self, length: usize, count: usize, size: usize) -> Result<Vec<Needed>> {
        let spans: Vec<Span> = (0..=self.dims.len()).map(|depth| self.inner(depth, size)).collect();
        let mut marked = gathered((0..count).map(|block| Needed { block, low: usize::MAX, high: 0 }))?;
        self.mark(0, self.source as i64, length as i64, &spans, &mut marked);
        marked.retain(|needed| needed.low < needed.high);
        Ok(marked)
    }

    fn mark(&self, depth: usize, start: i64, length: i64, spans: &[Span], marked: &mut [Needed]) {
        let low = start + spans[depth].low;
        let high = low + spans[depth].span as i64;
        let (first, last) = (low / length, (high - 1) / length);
        let dense = match self.dims.get(depth) {
            None => true,
            Some(dim) => {
                matches!(dim.source, Walk::Even(stride) if depth + 1 == self.dims.len() && stride.abs() as i64 <= length)
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
            self.mark(depth + 1, start + step(dim.source, i), length, spans, marked);
        }
    }
}

fn step(walk: Walk<'_>, i: usize) -> i64 {
    match walk {
        Walk::Even(stride) => stride as i64 * i as i64,
        Walk::Listed(list, stride) => list[i] * stride as i64,
    }
}

fn place<'i>(place: Place<'i>, stride: isize, base: &mut isize) -> Walk<'i> {
    match place {
        Place::From(start) => {
            *base += start as isize * stride;
            Walk::Even(stride)
        }
        Place::At(list) => Walk::Listed(list, stride),
    }
}

/// Refuse what does not fit into the address space.
pub fn content_size(stored: &[u64], size: usize) -> Result<usize> {
    (stored.iter().try_fold(size, |bytes, &count| bytes.checked_mul(usize::try_from(count).ok()?)))
        .filter(|&bytes| bytes <= isize::MAX as usize)
        .ok_or(Error::Memory { bytes: usize::MAX })
}
