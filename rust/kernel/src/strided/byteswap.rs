//! Byte swaps of contiguous elements, in place or while copying.

use super::job::Job;
use super::rows;

/// Bytes that are swapped in a buffer before they are streamed to the target.
const PART: usize = 4096;

/// An integer whose bytes can be reversed.
pub(super) trait Word: Copy {
    fn reversed(self) -> Self;
}

macro_rules! words {
    ($($word:ty)*) => { $(impl Word for $word {
        #[inline(always)]
        fn reversed(self) -> Self { self.swap_bytes() }
    })* };
}
words!(u8 u16 u32 u64 u128);

/// Reverse each unit of `unit` bytes.
pub(super) fn in_place(data: &mut [u8], unit: usize) {
    match unit {
        0 | 1 => {}
        2 | 4 | 8 | 16 => {
            let start = data.as_mut_ptr();
            // SAFETY: the units lie within the slice, and each is read before it is written.
            unsafe { copied(start, start, data.len() / unit, unit) }
        }
        _ => data.chunks_exact_mut(unit).for_each(<[u8]>::reverse),
    }
}

/// Copy and byte-swap `count` elements of `size` bytes, 2, 4, 8 or 16, with the widest registers that the machine has.
///
/// # Safety
///
/// They may be read at `source` and written at `target`; the two are equal or do not overlap.
unsafe fn copied(source: *const u8, target: *mut u8, count: usize, size: usize) {
    #[inline(always)]
    unsafe fn plain(source: *const u8, target: *mut u8, count: usize, size: usize) {
        // SAFETY: the caller guarantees the elements.
        unsafe {
            match size {
                2 => words::<u16>(source, target, count),
                4 => words::<u32>(source, target, count),
                8 => words::<u64>(source, target, count),
                _ => words::<u128>(source, target, count),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        unsafe fn avx2(source: *const u8, target: *mut u8, count: usize, size: usize) {
            // SAFETY: the caller guarantees the same.
            unsafe { plain(source, target, count, size) }
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has AVX2, and the caller guarantees the rest.
            return unsafe { avx2(source, target, count, size) };
        }
    }
    // SAFETY: the caller guarantees the same.
    unsafe { plain(source, target, count, size) }
}

/// Copy and byte-swap words; source and target are equal or do not overlap.
///
/// # Safety
///
/// They may be read and written.
#[inline(always)]
unsafe fn words<W: Word>(source: *const u8, target: *mut u8, count: usize) {
    let (source, target) = (source.cast::<W>(), target.cast::<W>());
    for i in 0..count {
        // SAFETY: word `i` of `count`; the access may be unaligned.
        unsafe { target.add(i).write_unaligned(source.add(i).read_unaligned().reversed()) }
    }
}

/// Copy and byte-swap elements of 2, 4, 8 or 16 bytes that are contiguous on both sides.
///
/// # Safety
///
/// `count` elements may be read at the job's source and written at its target.
pub(super) unsafe fn row(job: Job, count: usize) {
    let size = job.size;
    if !job.bypass_cache || count * size < PART {
        // SAFETY: the caller guarantees the elements.
        return unsafe { copied(job.source, job.target, count, size) };
    }
    let mut buffer = std::mem::MaybeUninit::<[u8; PART]>::uninit();
    let part = buffer.as_mut_ptr().cast::<u8>();
    let mut done = 0;
    // Shorten the first part so that the others begin at a cache line.
    let mut step = (PART - job.target as usize % rows::LINE) / size;
    while done < count {
        step = step.min(count - done);
        let (source, target) = (job.source.wrapping_add(done * size), job.target.wrapping_add(done * size));
        // SAFETY: `step` elements from `done` on, which fit into the buffer.
        unsafe {
            copied(source, part, step, size);
            rows::lines(Job { source: part, target, size: step * size, swap: false, bypass_cache: true }, 1, 0, 0);
        }
        done += step;
        step = PART / size;
    }
}
