//! Copies of rows: many bytes that are contiguous on both sides.

use super::job::Job;

/// Shorter rows are not streamed, since too few of their bytes are whole cache lines.
#[cfg(target_arch = "x86_64")]
const STREAMED: usize = 128;
/// Rows up to this length are copied inline, in bytes.
const INLINE: usize = 256;
/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// Copy `count` rows of `job.size` bytes with constant strides.
///
/// # Safety
///
/// All of them may be read at the source and written at the target.
#[inline]
pub(super) unsafe fn lines(job: Job, count: usize, from: isize, to: isize) {
    #[cfg(target_arch = "x86_64")]
    {
        if job.bypass_cache && job.size >= STREAMED && is_x86_feature_detected!("avx") {
            // SAFETY: the caller guarantees the rows, and the machine has AVX.
            return unsafe { streamed(job, count, from, to) };
        }
    }
    // SAFETY: the caller guarantees the rows.
    unsafe {
        if job.size <= INLINE {
            each(job, count, from, to, |source, target| short(source, target, job.size));
        } else {
            each(job, count, from, to, |source, target| std::ptr::copy_nonoverlapping(source, target, job.size));
        }
    }
}

/// Call `put` with the source and the target of each row.
///
/// # Safety
///
/// `put` may be called with every row.
#[inline(always)]
unsafe fn each(job: Job, count: usize, from: isize, to: isize, put: impl Fn(*const u8, *mut u8)) {
    let (mut source, mut target) = (job.source, job.target);
    for _ in 0..count {
        put(source, target);
        source = source.wrapping_offset(from);
        target = target.wrapping_offset(to);
    }
}

/// Copy rows with streaming stores, except for partial cache lines at both ends.
///
/// # Safety
///
/// As for [`lines`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn streamed(job: Job, count: usize, from: isize, to: isize) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};

    let (mut source, mut target) = (job.source, job.target);
    for _ in 0..count {
        let head = target.align_offset(LINE).min(job.size);
        let body = (job.size - head) / LINE * LINE;
        let tail = job.size - head - body;
        // SAFETY: head, body and tail make up the row, which the caller guarantees; the body is aligned.
        unsafe {
            if head > 0 {
                short(source, target, head);
            }
            for place in (head..head + body).step_by(LINE) {
                let line = source.add(place).cast::<__m256i>();
                let (low, high) = (_mm256_loadu_si256(line), _mm256_loadu_si256(line.add(1)));
                _mm256_stream_si256(target.add(place).cast(), low);
                _mm256_stream_si256(target.add(place).cast::<__m256i>().add(1), high);
            }
            if tail > 0 {
                short(source.add(head + body), target.add(head + body), tail);
            }
        }
        source = source.wrapping_offset(from);
        target = target.wrapping_offset(to);
    }
}

/// Order all streaming stores before later stores.
#[inline]
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 machine has this instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Copy a few bytes.
///
/// # Safety
///
/// They may be read at `source` and written at `target`, which do not overlap.
#[inline(always)]
pub(super) unsafe fn short(source: *const u8, target: *mut u8, size: usize) {
    // SAFETY: the caller guarantees the bytes; each pair of words covers `size` bytes and stays within them.
    unsafe {
        match size {
            0 => {}
            1 => target.write(source.read()),
            2..=3 => pair::<u16>(source, target, size),
            4..=7 => pair::<u32>(source, target, size),
            8..=15 => pair::<u64>(source, target, size),
            16..=31 => pair::<[u64; 2]>(source, target, size),
            _ => {
                // The last word may overlap the one before.
                for place in (0..size - 31).step_by(32) {
                    word::<[u64; 4]>(source, target, place);
                }
                word::<[u64; 4]>(source, target, size - 32);
            }
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
    // SAFETY: both words lie within `size` bytes.
    unsafe {
        word::<W>(source, target, 0);
        word::<W>(source, target, size - size_of::<W>());
    }
}

/// Copy one word.
///
/// # Safety
///
/// It may be read `place` bytes after `source` and written `place` bytes after `target`.
#[inline(always)]
unsafe fn word<W: Copy>(source: *const u8, target: *mut u8, place: usize) {
    // SAFETY: the caller guarantees the word; the access may be unaligned.
    unsafe { target.add(place).cast::<W>().write_unaligned(source.add(place).cast::<W>().read_unaligned()) }
}
