//! Copy loops over single elements, specialised by element size.

use super::axes::Axis;
use super::byteswap::Word;
use super::job::Job;
use super::{byteswap, rows};

/// How to copy one element.
pub(super) trait Mover: Copy {
    /// Copy one element.
    ///
    /// # Safety
    ///
    /// The element may be read at `source` and written at `target`.
    unsafe fn put(self, source: *const u8, target: *mut u8);
}

/// Elements of the size of a machine word, copied unchanged or byte-swapped.
#[derive(Clone, Copy)]
pub(super) struct Whole<W, const SWAP: bool>(pub std::marker::PhantomData<W>);

impl<W: Word, const SWAP: bool> Mover for Whole<W, SWAP> {
    #[inline(always)]
    unsafe fn put(self, source: *const u8, target: *mut u8) {
        // SAFETY: the caller guarantees the element; the access may be unaligned.
        unsafe {
            let word = source.cast::<W>().read_unaligned();
            target.cast::<W>().write_unaligned(if SWAP { word.reversed() } else { word });
        }
    }
}

/// Elements of any size.
#[derive(Clone, Copy)]
pub(super) struct Bytes(pub usize);

impl Mover for Bytes {
    #[inline(always)]
    unsafe fn put(self, source: *const u8, target: *mut u8) {
        // SAFETY: the caller guarantees the element; the two do not overlap.
        unsafe { rows::short(source, target, self.0) }
    }
}

/// Elements of any size, byte-swapped.
#[derive(Clone, Copy)]
pub(super) struct Reversed(pub usize);

impl Mover for Reversed {
    #[inline(always)]
    unsafe fn put(self, source: *const u8, target: *mut u8) {
        for i in 0..self.0 {
            // SAFETY: within the element, which the caller guarantees.
            unsafe { target.add(i).write(source.add(self.0 - 1 - i).read()) }
        }
    }
}

/// Evaluate `$call` with `$mover` bound to the `Mover` for elements of `$size` bytes: one instance for each kind.
macro_rules! with_mover {
    ($size:expr, $swap:expr, $mover:ident => $call:expr) => {{
        use std::marker::PhantomData;
        use $crate::strided::elements::{Bytes, Reversed, Whole};
        macro_rules! whole {
            ($word:ty, $reverse:literal) => {{
                let $mover = Whole::<$word, $reverse>(PhantomData);
                $call
            }};
        }
        match ($size, $swap) {
            (1, _) => whole!(u8, false),
            (2, false) => whole!(u16, false),
            (4, false) => whole!(u32, false),
            (8, false) => whole!(u64, false),
            (16, false) => whole!(u128, false),
            (2, true) => whole!(u16, true),
            (4, true) => whole!(u32, true),
            (8, true) => whole!(u64, true),
            (16, true) => whole!(u128, true),
            (size, false) => {
                let $mover = Bytes(size);
                $call
            }
            (size, true) => {
                let $mover = Reversed(size);
                $call
            }
        }
    }};
}
pub(super) use with_mover;

/// Copy one element.
///
/// # Safety
///
/// The element may be read at the source and written at the target.
pub(super) unsafe fn one(job: Job) {
    if job.size > 16 && !job.swap {
        // SAFETY: the caller guarantees the element.
        return unsafe { rows::lines(job, 1, 0, 0) };
    }
    // SAFETY: the caller guarantees all elements.
    with_mover!(job.size, job.swap, mover => unsafe { mover.put(job.source, job.target) })
}

/// Copy the elements of one axis.
///
/// # Safety
///
/// All of them may be read at the source and written at the target.
pub(super) unsafe fn line(job: Job, axis: &Axis<'_>) {
    let long = job.size > 16 && !job.swap;
    let (from, to) = (axis.source.stride, axis.target.stride);
    // SAFETY: the caller guarantees all elements.
    unsafe {
        if !axis.even() {
            if long {
                each(job, axis, |source, target| rows::lines(Job { source, target, ..job }, 1, 0, 0));
            } else {
                with_mover!(job.size, job.swap, mover => each(job, axis, |source, target| mover.put(source, target)));
            }
        } else if long {
            rows::lines(job, axis.count, from, to);
        } else if job.swap && matches!(job.size, 2 | 4 | 8 | 16) && (from, to) == (job.size as isize, job.size as isize)
        {
            byteswap::row(job, axis.count);
        } else {
            with_mover!(job.size, job.swap, mover => even(mover, job, axis.count, from, to));
        }
    }
}

/// Call `put` with the source and target of each element of an axis with indexed offsets.
///
/// # Safety
///
/// `put` may be called with every element of the axis.
#[inline(always)]
unsafe fn each(job: Job, axis: &Axis<'_>, put: impl Fn(*const u8, *mut u8)) {
    let (from, to) = (axis.source, axis.target);
    match (from.list, to.list) {
        // The most frequent case, elements gathered from the source, has a specialised loop.
        (Some(list), None) => {
            let mut target = job.target;
            for place in list {
                put(job.source.wrapping_offset(from.stride.wrapping_mul(*place as isize)), target);
                target = target.wrapping_offset(to.stride);
            }
        }
        _ => {
            for i in 0..axis.count {
                put(job.source.wrapping_offset(from.at(i)), job.target.wrapping_offset(to.at(i)));
            }
        }
    }
}

/// Copy `count` elements with constant strides.
///
/// # Safety
///
/// All of them may be read at the source and written at the target.
#[inline(always)]
unsafe fn even<M: Mover>(mover: M, job: Job, count: usize, from: isize, to: isize) {
    let (mut source, mut target) = (job.source, job.target);
    for _ in 0..count {
        // SAFETY: the caller guarantees all elements; the address beyond the last is not accessed.
        unsafe { mover.put(source, target) };
        source = source.wrapping_offset(from);
        target = target.wrapping_offset(to);
    }
}
