//! Reversing the bytes of elements that lie next to each other.

use super::job::Job;
use super::rows;

/// Bytes that are reversed before they are streamed.
const PART: usize = 4096;

/// A number whose bytes can be reversed.
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

/// Make `$name`, which runs `$body` with the widest instructions that the machine has.
macro_rules! wide {
    ($(#[$doc:meta])* $vis:vis unsafe fn $name:ident($($arg:ident: $kind:ty),*) $body:block) => {
        $(#[$doc])*
        $vis unsafe fn $name($($arg: $kind),*) {
            #[inline(always)]
            unsafe fn plain($($arg: $kind),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                unsafe fn avx2($($arg: $kind),*) {
                    // SAFETY: the same promise.
                    unsafe { plain($($arg),*) }
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the machine has AVX2; else the same promise.
                    return unsafe { avx2($($arg),*) };
                }
            }
            // SAFETY: the same promise.
            unsafe { plain($($arg),*) }
        }
    };
}

wide! {
    /// Reverse each of `count` units of `unit` bytes.
    ///
    /// # Safety
    ///
    /// They may be read and written at `data`.
    pub(super) unsafe fn in_place(data: *mut u8, count: usize, unit: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match unit {
                0 | 1 => {}
                2 => words::<u16>(data, data, count),
                4 => words::<u32>(data, data, count),
                8 => words::<u64>(data, data, count),
                16 => words::<u128>(data, data, count),
                _ => std::slice::from_raw_parts_mut(data, count * unit).chunks_exact_mut(unit).for_each(<[u8]>::reverse),
            }
        }
    }
}

wide! {
    /// Copy `count` elements of `size` bytes, 2, 4, 8 or 16, reversed.
    ///
    /// # Safety
    ///
    /// They may be read at `source`, written at `target`.
    unsafe fn copied(source: *const u8, target: *mut u8, count: usize, size: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match size {
                2 => words::<u16>(source, target, count),
                4 => words::<u32>(source, target, count),
                8 => words::<u64>(source, target, count),
                _ => words::<u128>(source, target, count),
            }
        }
    }
}

/// Copy words reversed; source and target are the same or do not overlap.
///
/// # Safety
///
/// They may be read and written.
#[inline(always)]
unsafe fn words<W: Word>(source: *const u8, target: *mut u8, count: usize) {
    let (source, target) = (source.cast::<W>(), target.cast::<W>());
    for i in 0..count {
        // SAFETY: word `i` of `count`; nothing needs to be aligned.
        unsafe { target.add(i).write_unaligned(source.add(i).read_unaligned().reversed()) }
    }
}

/// Copy elements of 2, 4, 8 or 16 bytes that lie next to each other on both sides, reversed.
///
/// # Safety
///
/// `count` elements may be read at the job's source, written at its target.
pub(super) unsafe fn row(job: Job, count: usize) {
    let size = job.size;
    if !job.far || count * size < PART {
        // SAFETY: the caller's promise.
        return unsafe { copied(job.source, job.target, count, size) };
    }
    let mut room = std::mem::MaybeUninit::<[u8; PART]>::uninit();
    let part = room.as_mut_ptr().cast::<u8>();
    let mut done = 0;
    // The first part is shorter, so that the others begin with a cache line.
    let mut step = (PART - job.target as usize % rows::LINE) / size;
    while done < count {
        step = step.min(count - done);
        let (source, target) = (job.source.wrapping_add(done * size), job.target.wrapping_add(done * size));
        // SAFETY: elements from `done` on; no more than the part has room for.
        unsafe {
            copied(source, part, step, size);
            rows::lines(Job { source: part, target, size: step * size, swap: false, far: true }, 1, 0, 0);
        }
        done += step;
        step = PART / size;
    }
}
