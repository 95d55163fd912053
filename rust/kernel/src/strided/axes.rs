//! The dimensions of a copy, sorted and merged for fast memory access.

/// The memory offsets of the elements along one dimension, in bytes.
#[derive(Clone, Copy, Debug)]
pub enum Offsets<'a> {
    /// A constant stride: negative to run backwards, zero to repeat one element.
    Strided(isize),
    /// Element `i` has the offset `list[i] * stride`.
    Indexed(&'a [i64], isize),
}

/// One dimension of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Dim<'a> {
    /// Number of elements.
    pub count: usize,
    /// Offsets in the source.
    pub source: Offsets<'a>,
    /// Offsets in the target.
    pub target: Offsets<'a>,
}

/// Number of axes that need no heap allocation.
const INLINE_AXES: usize = 8;

/// One side of an axis.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub stride: isize,
    pub list: Option<&'a [i64]>,
}

impl<'a> Side<'a> {
    fn new(offsets: Offsets<'a>, count: usize) -> Side<'a> {
        match offsets {
            Offsets::Strided(stride) => Side { stride, list: None },
            Offsets::Indexed(list, stride) => match progression(&list[..count]) {
                Some(step) => Side { stride: stride.wrapping_mul(step as isize), list: None },
                None => Side { stride, list: Some(&list[..count]) },
            },
        }
    }

    /// Return the offset of element `i`.
    #[inline(always)]
    pub fn at(&self, i: usize) -> isize {
        match self.list {
            None => self.stride.wrapping_mul(i as isize),
            Some(list) => self.stride.wrapping_mul(list[i] as isize),
        }
    }
}

/// Return the step of a list that is an arithmetic progression, otherwise `None`.
fn progression(list: &[i64]) -> Option<i64> {
    let [first, second, ..] = *list else { return None };
    let step = second.wrapping_sub(first);
    list.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == step).then_some(step)
}

/// One axis of at least two elements.
#[derive(Clone, Copy)]
pub(super) struct Axis<'a> {
    pub count: usize,
    pub source: Side<'a>,
    pub target: Side<'a>,
}

impl Axis<'_> {
    const NONE: Axis<'static> =
        Axis { count: 0, source: Side { stride: 0, list: None }, target: Side { stride: 0, list: None } };

    /// Return whether both sides have a constant stride.
    pub fn even(&self) -> bool {
        self.source.list.is_none() && self.target.list.is_none()
    }

    /// Return whether this axis and `inner` form a single axis on both sides.
    fn continues(&self, inner: &Axis<'_>) -> bool {
        let whole = inner.count as isize;
        self.even()
            && inner.even()
            && self.source.stride == inner.source.stride.wrapping_mul(whole)
            && self.target.stride == inner.target.stride.wrapping_mul(whole)
    }
}

/// All axes of a copy, outermost first.
pub(super) struct Axes<'a> {
    stack: [Axis<'a>; INLINE_AXES],
    heap: Vec<Axis<'a>>,
    used: usize,
    /// Offset of the first element in the source, and in the target.
    pub source: isize,
    pub target: isize,
    /// Bytes of an element.
    pub size: usize,
    /// Whether to reverse the bytes of each element.
    pub swap: bool,
}

impl<'a> Axes<'a> {
    /// Make the axes of `dims`; `None` if there is nothing to copy.
    pub fn new(dims: &[Dim<'a>], size: usize, swap: usize) -> Option<Axes<'a>> {
        if size == 0 || dims.iter().any(|dim| dim.count == 0) {
            return None;
        }
        let heap = if dims.len() < INLINE_AXES { Vec::new() } else { vec![Axis::NONE; dims.len() + 1] };
        let mut axes =
            Axes { stack: [Axis::NONE; INLINE_AXES], heap, used: 0, source: 0, target: 0, size, swap: swap > 1 };
        for dim in dims {
            axes.add(dim);
        }
        if axes.swap && size != swap {
            // The units of an element form one more axis.
            let step = Offsets::Strided(swap as isize);
            axes.add(&Dim { count: size / swap, source: step, target: step });
            axes.size = swap;
        }
        Some(axes)
    }

    fn add(&mut self, dim: &Dim<'a>) {
        if dim.count == 1 {
            self.source = self.source.wrapping_add(first(&dim.source));
            self.target = self.target.wrapping_add(first(&dim.target));
            return;
        }
        // An arithmetic progression becomes a stride, and its start moves to the offset.
        let mut axis = Axis {
            count: dim.count,
            source: Side::new(dim.source, dim.count),
            target: Side::new(dim.target, dim.count),
        };
        if axis.source.list.is_none() {
            self.source = self.source.wrapping_add(first(&dim.source));
        }
        if axis.target.list.is_none() {
            self.target = self.target.wrapping_add(first(&dim.target));
        }
        if axis.even() && axis.target.stride < 0 {
            // Traverse the target forwards: the order of elements does not matter.
            let last = dim.count - 1;
            self.source = self.source.wrapping_add(axis.source.at(last));
            self.target = self.target.wrapping_add(axis.target.at(last));
            axis.source.stride = axis.source.stride.wrapping_neg();
            axis.target.stride = axis.target.stride.wrapping_neg();
        }
        let used = self.used;
        self.all()[used] = axis;
        self.used += 1;
    }

    fn all(&mut self) -> &mut [Axis<'a>] {
        if self.heap.is_empty() { &mut self.stack } else { &mut self.heap }
    }

    /// Return the axes, outermost first.
    pub fn list(&self) -> &[Axis<'a>] {
        if self.heap.is_empty() { &self.stack[..self.used] } else { &self.heap[..self.used] }
    }

    /// Sort the axes by the strides of the target, merge adjacent ones, and choose the two innermost.
    pub fn arrange(&mut self) {
        let used = self.used;
        let axes = &mut self.all()[..used];
        axes.sort_by_key(|axis| {
            std::cmp::Reverse((axis.target.stride.unsigned_abs(), axis.source.stride.unsigned_abs()))
        });
        self.join();
        self.widen();
        let used = self.used;
        let axes = &mut self.all()[..used];
        let Some((inner, outer)) = axes.split_last() else { return };
        // Move the outer axis with the smallest source stride next to the innermost one.
        let next = outer
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, axis)| axis.even() && axis.source.stride != 0)
            .min_by_key(|(_, axis)| axis.source.stride.unsigned_abs());
        if let Some((place, axis)) = next {
            let closer = axis.source.stride.unsigned_abs() < inner.source.stride.unsigned_abs();
            if closer {
                axes[place..used - 1].rotate_left(1);
            }
        }
    }

    /// Merge each outer axis that continues the inner one.
    fn join(&mut self) {
        let used = self.used;
        let axes = &mut self.all()[..used];
        let mut kept = 0;
        for place in 0..used {
            let axis = axes[place];
            if kept > 0 && axes[kept - 1].continues(&axis) {
                axes[kept - 1] = Axis { count: axes[kept - 1].count * axis.count, ..axis };
            } else {
                axes[kept] = axis;
                kept += 1;
            }
        }
        self.used = kept;
    }

    /// Turn the innermost axis into one wide element where it is contiguous on both sides.
    fn widen(&mut self) {
        let size = self.size as isize;
        if let (false, Some(axis)) = (self.swap, self.list().last()) {
            if axis.even() && axis.source.stride == size && axis.target.stride == size {
                self.size *= axis.count;
                self.used -= 1;
            }
        }
    }
}

/// Return the offset of the first element.
fn first(offsets: &Offsets<'_>) -> isize {
    match offsets {
        Offsets::Strided(_) => 0,
        Offsets::Indexed(list, stride) => stride.wrapping_mul(list[0] as isize),
    }
}
