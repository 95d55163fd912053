//! Copies of rows: many bytes that lie next to each other on both sides.

use super::Job;

/// Copy `count` rows of `job.size` bytes that lie evenly apart.
///
/// # Safety
///
/// All of them may be read at the source, written at the target.
pub(super) unsafe fn lines(job: Job, count: usize, from: isize, to: isize) {
    let (mut source, mut target) = (job.source, job.target);
    for _ in 0..count {
        // SAFETY: the caller's promise; the step beyond the last is never followed.
        unsafe { std::ptr::copy_nonoverlapping(source, target, job.size) };
        source = source.wrapping_offset(from);
        target = target.wrapping_offset(to);
    }
}

/// Copy a few bytes.
///
/// # Safety
///
/// They may be read at `source`, written at `target`, which do not overlap.
#[inline(always)]
pub(super) unsafe fn short(source: *const u8, target: *mut u8, size: usize) {
    // SAFETY: the caller's promise; the halves of a pair overlap, but stay within `size` bytes.
    unsafe {
        match size {
            8..=16 => pair::<u64>(source, target, size),
            4..=7 => pair::<u32>(source, target, size),
            2..=3 => pair::<u16>(source, target, size),
            _ => std::ptr::copy_nonoverlapping(source, target, size),
        }
    }
}

/// Copy the first and the last word of `size` bytes.
///
/// # Safety
///
/// As for [`short`], and `size` is between once and twice the size of a word.
#[inline(always)]
unsafe fn pair<W: Copy>(source: *const u8, target: *mut u8, size: usize) {
    let last = size - size_of::<W>();
    // SAFETY: both words lie within `size` bytes.
    unsafe {
        let (head, tail) = (source.cast::<W>().read_unaligned(), source.add(last).cast::<W>().read_unaligned());
        target.cast::<W>().write_unaligned(head);
        target.add(last).cast::<W>().write_unaligned(tail);
    }
}
