//! The byte shuffle and the bit shuffle of c-blosc 1: the bytes of all elements sorted by their position in the element;
//! for bits, also the bytes of each eight elements by their bits. Used by Blosc and by the filter `shuffle`.
//!
//! Bytes after the last whole element are copied. Bits are shuffled only if the number of elements is a multiple of
//! eight, otherwise everything is copied.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::transpose::{self, Task};
#[cfg(target_arch = "aarch64")]
use super::vector::arm::Neon;
#[cfg(target_arch = "x86_64")]
use super::vector::x86::{Avx2, Sse2};

/// A shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::codecs) enum Filter {
    /// The byte shuffle.
    Bytes,
    /// The bit shuffle.
    Bits,
}

/// Shuffle elements of `size` bytes; `to` has the length of `from`.
pub(in crate::codecs) fn shuffle(filter: Filter, size: usize, from: &[u8], to: &mut [MaybeUninit<u8>]) {
    let all = 0..from.len();
    // SAFETY: all of `from` is initialised
    let Some((task, _)) = (unsafe { prepare(filter, size, as_uninit(from), all, to) }) else { return };
    // SAFETY: the task covers whole elements of these two slices, multiples of eight for bits
    unsafe {
        match filter {
            Filter::Bytes => shuffle_rest(task, shuffle_fast(task, 0)),
            Filter::Bits => shuffle_bits_rest(task, shuffle_bits_fast(task, 0)),
        }
    }
}

/// Undo `shuffle`; `to` has the length of `from`.
pub(in crate::codecs) fn unshuffle(filter: Filter, size: usize, from: &[u8], to: &mut [MaybeUninit<u8>]) {
    // SAFETY: all of `from` is initialised
    unsafe { unshuffle_part(filter, size, as_uninit(from), 0..from.len(), to) }
}

/// Undo `shuffle` for the bytes `part` of `to`; all others are undefined.
///
/// # Safety
/// The bytes in `from` of the elements of this part are initialised; for bits, of all elements in the same groups of
/// eight.
pub(super) unsafe fn unshuffle_part(
    filter: Filter,
    size: usize,
    from: &[MaybeUninit<u8>],
    part: Range<usize>,
    to: &mut [MaybeUninit<u8>],
) {
    // SAFETY: the caller guarantees the same
    let Some((task, first)) = (unsafe { prepare(filter, size, from, part, to) }) else { return };
    // SAFETY: as in `shuffle`
    unsafe {
        match filter {
            Filter::Bytes => unshuffle_rest(task, unshuffle_fast(task, first)),
            Filter::Bits => unshuffle_bits_rest(task, unshuffle_bits_fast(task, first)),
        }
    }
}

/// View bytes as possibly uninitialised memory.
pub(super) fn as_uninit(from: &[u8]) -> &[MaybeUninit<u8>] {
    // SAFETY: the layout is the same, and a shared reference is not written to
    unsafe { &*(std::ptr::from_ref(from) as *const [MaybeUninit<u8>]) }
}

/// Return how many elements of a block of `length` bytes a filter moves; the bytes after them are copied.
pub(super) fn moved(filter: Filter, size: usize, length: usize) -> usize {
    let count = length / size;
    if (filter == Filter::Bits && count % 8 != 0) || (filter == Filter::Bytes && size == 1) { 0 } else { count }
}

/// Copy the bytes that a filter does not move; return the task for the others and its first element, if there are any.
///
/// # Safety
/// The bytes of `part` that are copied are initialised.
unsafe fn prepare(
    filter: Filter,
    size: usize,
    from: &[MaybeUninit<u8>],
    part: Range<usize>,
    to: &mut [MaybeUninit<u8>],
) -> Option<(Task, usize)> {
    assert!(size > 0 && from.len() == to.len() && part.end <= to.len(), "shuffles keep the length");
    let count = moved(filter, size, from.len());
    let (start, whole) = (part.start.min(part.end), count * size);
    let still = start.max(whole)..part.end.max(whole);
    to[still.clone()].copy_from_slice(&from[still]);
    let (mut first, mut end) = (start / size, part.end.div_ceil(size).min(count));
    if filter == Filter::Bits {
        (first, end) = (first / 8 * 8, end.next_multiple_of(8));
    }
    let task = Task { from: from.as_ptr().cast(), to: to.as_mut_ptr().cast(), size, count, end };
    (first < end).then_some((task, first))
}

/// Define the function that uses the widest registers of the machine, and narrower ones for the rest.
macro_rules! dispatch {
    ($name:ident, $kernel:ident) => {
        /// # Safety
        /// As for the function of that name in `transpose`.
        #[cfg(target_arch = "x86_64")]
        unsafe fn $name(task: Task, first: usize) -> usize {
            #[target_feature(enable = "avx2")]
            unsafe fn wide(task: Task, first: usize) -> usize {
                // SAFETY: the machine has AVX2; the caller guarantees the rest
                unsafe {
                    let end = transpose::$kernel::<Avx2>(task, first);
                    transpose::$kernel::<Sse2>(task, end)
                }
            }
            // SAFETY: AVX2 is used only if the machine has it, and every x86-64 machine has SSE2
            unsafe {
                if is_x86_feature_detected!("avx2") {
                    wide(task, first)
                } else {
                    transpose::$kernel::<Sse2>(task, first)
                }
            }
        }

        /// # Safety
        /// As for the function of that name in `transpose`.
        #[cfg(target_arch = "aarch64")]
        unsafe fn $name(task: Task, first: usize) -> usize {
            // SAFETY: every aarch64 machine has NEON; the caller guarantees the rest
            unsafe { transpose::$kernel::<Neon>(task, first) }
        }

        /// # Safety
        /// None: it leaves everything to the loops over single elements.
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        unsafe fn $name(_: Task, first: usize) -> usize {
            first
        }
    };
}

dispatch!(shuffle_fast, shuffle);
dispatch!(unshuffle_fast, unshuffle);
dispatch!(shuffle_bits_fast, shuffle_bits);
dispatch!(unshuffle_bits_fast, unshuffle_bits);

/// Shuffle the elements from `first` on one by one.
///
/// # Safety
/// There are `size * count` bytes at both addresses of the task; this holds for the three functions below too.
unsafe fn shuffle_rest(task: Task, first: usize) {
    let Task { from, to, size, count, end } = task;
    for place in 0..size {
        for element in first..end {
            // SAFETY: element < end <= count and place < size
            unsafe { *to.add(place * count + element) = *from.add(element * size + place) }
        }
    }
}

unsafe fn unshuffle_rest(task: Task, first: usize) {
    let Task { from, to, size, count, end } = task;
    for element in first..end {
        for place in 0..size {
            // SAFETY: element < end <= count and place < size
            unsafe { *to.add(element * size + place) = *from.add(place * count + element) }
        }
    }
}

unsafe fn shuffle_bits_rest(task: Task, first: usize) {
    let Task { from, to, size, count, end } = task;
    for place in 0..size {
        for element in (first..end).step_by(8) {
            // SAFETY: count, first and end are multiples of eight, so that there are eight elements from each on, and one byte
            // for them in each of the eight rows of count / 8 bytes
            unsafe {
                let bytes = std::array::from_fn(|index| *from.add((element + index) * size + place));
                for (bit, byte) in transpose_eight(bytes).into_iter().enumerate() {
                    *to.add(place * count + bit * (count / 8) + element / 8) = byte;
                }
            }
        }
    }
}

unsafe fn unshuffle_bits_rest(task: Task, first: usize) {
    let Task { from, to, size, count, end } = task;
    for place in 0..size {
        for element in (first..end).step_by(8) {
            // SAFETY: as in `shuffle_bits_rest`
            unsafe {
                let rows = std::array::from_fn(|bit| *from.add(place * count + bit * (count / 8) + element / 8));
                for (index, byte) in transpose_eight(rows).into_iter().enumerate() {
                    *to.add((element + index) * size + place) = byte;
                }
            }
        }
    }
}

/// Transpose eight by eight bits.
fn transpose_eight(bytes: [u8; 8]) -> [u8; 8] {
    let mut bits = u64::from_le_bytes(bytes);
    for (shift, mask) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)] {
        let moved = (bits ^ (bits >> shift)) & mask;
        bits ^= moved ^ (moved << shift);
    }
    bits.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unshuffle(filter: Filter, size: usize, from: &[u8], to: &mut [MaybeUninit<u8>]) {
        // SAFETY: all of `from` is initialised
        unsafe { unshuffle_part(filter, size, as_uninit(from), 0..to.len(), to) }
    }

    /// Bytes that don't repeat early.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ length as u64;
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..length).map(next).collect()
    }

    /// The definition, bit by bit.
    fn by_definition(filter: Filter, size: usize, from: &[u8]) -> Vec<u8> {
        let count = from.len() / size;
        let mut to = from.to_vec();
        if filter == Filter::Bytes {
            for (element, bytes) in from.chunks_exact(size).enumerate() {
                for (place, byte) in bytes.iter().enumerate() {
                    to[place * count + element] = *byte;
                }
            }
        } else if count % 8 == 0 {
            to[..count * size].fill(0);
            for element in 0..count {
                for bit in 0..size * 8 {
                    let value = from[element * size + bit / 8] >> (bit % 8) & 1;
                    to[bit * (count / 8) + element / 8] |= value << (element % 8);
                }
            }
        }
        to
    }

    fn run(function: impl Fn(&mut [MaybeUninit<u8>]), length: usize) -> Vec<u8> {
        let mut to = vec![MaybeUninit::new(0xa5); length];
        function(&mut to);
        // SAFETY: all of it was initialised above
        to.into_iter().map(|byte| unsafe { byte.assume_init() }).collect()
    }

    #[test]
    fn shuffles_are_what_they_are_defined_as() {
        for filter in [Filter::Bytes, Filter::Bits] {
            for size in (1..=20).chain([24, 31, 32, 33, 48, 100, 255]) {
                for count in [0, 1, 7, 8, 15, 16, 24, 31, 33, 48, 64, 120, 128, 136, 256, 264, 384, 640, 1000, 1001] {
                    for more in [0, size / 2] {
                        let from = noise(size * count + more);
                        let expected = by_definition(filter, size, &from);
                        let shuffled = run(|to| shuffle(filter, size, &from, to), from.len());
                        assert_eq!(shuffled, expected, "{filter:?} {size} {count} {more}");
                        let back = run(|to| unshuffle(filter, size, &shuffled, to), from.len());
                        assert_eq!(back, from, "{filter:?} {size} {count} {more}");
                    }
                }
            }
        }
    }

    #[test]
    fn parts_are_unshuffled_like_the_whole() {
        for filter in [Filter::Bytes, Filter::Bits] {
            for size in [1, 2, 3, 4, 8, 12, 16, 17] {
                for count in [0, 1, 8, 33, 64, 640, 1001, 1024] {
                    let from = noise(size * count + size / 2);
                    let shuffled = run(|to| shuffle(filter, size, &from, to), from.len());
                    let ends = [
                        0,
                        1,
                        7,
                        size,
                        33 * size,
                        300 * size + 1,
                        from.len() / 2,
                        from.len().saturating_sub(1),
                        from.len(),
                    ];
                    let ends: Vec<usize> = ends.into_iter().filter(|&end| end <= from.len()).collect();
                    for (start, end) in ends.iter().flat_map(|&start| ends.iter().map(move |&end| (start, end))) {
                        // SAFETY: all of it is initialised
                        let part = |to: &mut [_]| unsafe {
                            unshuffle_part(filter, size, as_uninit(&shuffled), start..end, to);
                        };
                        let back = run(part, from.len());
                        let wanted = start..end.max(start);
                        assert_eq!(back[wanted.clone()], from[wanted], "{filter:?} {size} {count} {start} {end}");
                    }
                }
            }
        }
    }

    /// Machines with AVX2 use SSE2 for the last elements only.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn narrow_registers_do_the_same() {
        type Kernel = unsafe fn(Task, usize) -> usize;
        let bytes: [Kernel; 2] = [transpose::shuffle::<Sse2>, transpose::unshuffle::<Sse2>];
        let bits: [Kernel; 2] = [transpose::shuffle_bits::<Sse2>, transpose::unshuffle_bits::<Sse2>];
        for size in [1, 2, 3, 4, 8, 12, 16, 17] {
            let from = noise(size * 1024);
            for (filter, [there, back]) in [(Filter::Bytes, bytes), (Filter::Bits, bits)] {
                let shuffled = by_definition(filter, size, &from);
                for (kernel, from, expected) in [(there, &from, &shuffled), (back, &shuffled, &from)] {
                    let apply = |to: &mut [MaybeUninit<u8>]| {
                        let to = to.as_mut_ptr().cast();
                        let task = Task { from: from.as_ptr(), to, size, count: 1024, end: 1024 };
                        // SAFETY: both have 1024 elements, and these registers are there
                        assert_eq!(unsafe { kernel(task, 0) }, 1024);
                    };
                    assert_eq!(&run(apply, from.len()), expected, "{filter:?} {size}");
                }
            }
        }
    }

    #[test]
    #[ignore = "a measurement"]
    fn speed() {
        for size in [1, 2, 3, 4, 8, 12, 16, 24] {
            let (more, mut buffer) = (noise((128 << 10) + 64), vec![MaybeUninit::uninit(); (128 << 10) + 64]);
            let from = &more[more.as_ptr().align_offset(64)..][..128 << 10];
            let start = buffer.as_ptr().align_offset(64);
            let to = &mut buffer[start..][..128 << 10];
            let mut line = format!("{size:3}");
            for filter in [Filter::Bytes, Filter::Bits] {
                for function in [shuffle, unshuffle] {
                    let once = |_| {
                        let start = std::time::Instant::now();
                        for _ in 0..20 {
                            function(filter, size, from, to);
                        }
                        start.elapsed()
                    };
                    let best = (0..50).map(once).min().unwrap();
                    line += &format!(" {:8.1}", 20.0 * from.len() as f64 / best.as_nanos() as f64);
                }
            }
            println!("{line} GB/s (shuffle, unshuffle, of bits shuffle, unshuffle)");
        }
    }
}
