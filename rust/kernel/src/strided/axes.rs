//! The dimensions of a copy, brought into the order and the number that suits the machine.

/// How one dimension of a copy walks through memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub enum Walk<'a> {
    /// The same distance each time; negative where it runs backwards, zero where one element is for all.
    Even(isize),
    /// Element `i` lies at `list[i] * stride`.
    Listed(&'a [i64], isize),
}

/// One dimension of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Dim<'a> {
    /// How many elements.
    pub count: usize,
    /// The way through the source.
    pub source: Walk<'a>,
    /// The way through the target.
    pub target: Walk<'a>,
}

/// How many axes find room without an allocation.
const ROOM: usize = 8;

/// One side of an axis.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub stride: isize,
    pub list: Option<&'a [i64]>,
}

impl<'a> Side<'a> {
    fn new(walk: Walk<'a>, count: usize) -> Side<'a> {
        match walk {
            Walk::Even(stride) => Side { stride, list: None },
            Walk::Listed(list, stride) => match progression(&list[..count]) {
                Some(step) => Side { stride: stride.wrapping_mul(step as isize), list: None },
                None => Side { stride, list: Some(&list[..count]) },
            },
        }
    }

    /// Return where element `i` lies.
    #[inline(always)]
    pub fn at(&self, i: usize) -> isize {
        match self.list {
            None => self.stride.wrapping_mul(i as isize),
            Some(list) => self.stride.wrapping_mul(list[i] as isize),
        }
    }
}

/// Return the step of a list of numbers that are evenly apart.
fn progression(list: &[i64]) -> Option<i64> {
    let [first, second, ..] = *list else { return None };
    let step = second.wrapping_sub(first);
    list.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == step).then_some(step)
}

/// One axis: at least two elements.
#[derive(Clone, Copy)]
pub(super) struct Axis<'a> {
    pub count: usize,
    pub source: Side<'a>,
    pub target: Side<'a>,
}

impl Axis<'_> {
    const NONE: Axis<'static> =
        Axis { count: 0, source: Side { stride: 0, list: None }, target: Side { stride: 0, list: None } };

    /// Return whether neither side needs a list.
    pub fn even(&self) -> bool {
        self.source.list.is_none() && self.target.list.is_none()
    }

    /// Return whether this axis, around `inner`, is but its continuation.
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
    stack: [Axis<'a>; ROOM],
    heap: Vec<Axis<'a>>,
    used: usize,
    /// Where the first element lies.
    pub source: isize,
    pub target: isize,
    /// Bytes of an element.
    pub size: usize,
    /// Whether the bytes of each element are reversed.
    pub swap: bool,
}

impl<'a> Axes<'a> {
    /// Make the axes of `dims`; nothing if there is nothing to copy.
    pub fn new(dims: &[Dim<'a>], size: usize, swap: usize) -> Option<Axes<'a>> {
        if size == 0 || dims.iter().any(|dim| dim.count == 0) {
            return None;
        }
        let heap = if dims.len() < ROOM { Vec::new() } else { vec![Axis::NONE; dims.len() + 1] };
        let mut axes = Axes { stack: [Axis::NONE; ROOM], heap, used: 0, source: 0, target: 0, size, swap: swap > 1 };
        for dim in dims {
            axes.add(dim);
        }
        if axes.swap && size != swap {
            // An element of several units is one more axis, of units.
            let step = Walk::Even(swap as isize);
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
        // A list that is a progression begins anywhere.
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
            // Forwards through the target: the order makes no difference.
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

    /// Order the axes as the target lies in memory, join what belongs together, and choose the two innermost.
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
        // Of the others, the one along which the source lies closest together goes next to the innermost.
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

    /// Join axes of which the outer continues the inner.
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

    /// Make one element of the innermost axis where its elements lie next to each other on both sides.
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

/// Return where the first element lies.
fn first(walk: &Walk<'_>) -> isize {
    match walk {
        Walk::Even(_) => 0,
        Walk::Listed(list, stride) => stride.wrapping_mul(list[0] as isize),
    }
}
