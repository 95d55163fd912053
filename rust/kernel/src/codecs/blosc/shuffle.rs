//! The byte shuffle and the bit shuffle of c-blosc 1: the bytes of all elements sorted by their position in the element;
//! for bits, also the bytes of each eight elements by their bits. Used by Blosc and by the filter `shuffle`.
//!
//! Bytes after the last whole element are copied. Bits are shuffled only if the number of elements is a multiple of
//! eight, otherwise everything is copied.

use std::mem::MaybeUninit;
use std::ops::Range;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::transpose;
use super::transpose::Task;
#[cfg(target_arch = "aarch64")]
use super::vector::arm::Neon;
#[cfg(target_arch = "x86_64")]
use super::vector::{
    Machine,
    x86::{Avx2, Sse2},
};
use crate::memory::{copy, initialised};

/// A shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::codecs) enum Filter {
    /// The byte shuffle.
    Bytes,
    /// The bit shuffle.
    Bits,
}

/// Shuffle elements of `size` bytes to `to`, which has the length of `from`; return it.
pub(in crate::codecs) fn shuffle<'t>(
    filter: Filter,
    size: usize,
    from: &[u8],
    to: &'t mut [MaybeUninit<u8>],
) -> &'t mut [u8] {
    if let Some((mut task, _)) = prepare(filter, size, from, 0..from.len(), to) {
        match filter {
            Filter::Bytes => shuffle_all(&mut task, 0),
            Filter::Bits => shuffle_all_bits(&mut task, 0),
        }
    }
    // SAFETY: every byte of `from` has been written to its place, of which no two are one
    unsafe { initialised(to, from.len()) }
}

/// Undo `shuffle`; `to` has the length of `from`, and is returned.
pub(in crate::codecs) fn unshuffle<'t>(
    filter: Filter,
    size: usize,
    from: &[u8],
    to: &'t mut [MaybeUninit<u8>],
) -> &'t mut [u8] {
    unshuffle_part(filter, size, from, 0..from.len(), to);
    // SAFETY: as in `shuffle`
    unsafe { initialised(to, from.len()) }
}

/// Undo `shuffle` for the bytes `part` of `to`; all others are undefined.
pub(super) fn unshuffle_part(filter: Filter, size: usize, from: &[u8], part: Range<usize>, to: &mut [MaybeUninit<u8>]) {
    let Some((mut task, first)) = prepare(filter, size, from, part, to) else { return };
    match filter {
        Filter::Bytes => unshuffle_all(&mut task, first),
        Filter::Bits => unshuffle_all_bits(&mut task, first),
    }
}

/// Return how many elements of a block of `length` bytes a filter moves; the bytes after them are copied.
pub(super) fn moved(filter: Filter, size: usize, length: usize) -> usize {
    let count = length / size;
    if (filter == Filter::Bits && count % 8 != 0) || (filter == Filter::Bytes && size == 1) { 0 } else { count }
}

/// Copy the bytes that a filter does not move; return the task for the others and its first element, if there are any.
fn prepare<'t>(
    filter: Filter,
    size: usize,
    from: &'t [u8],
    part: Range<usize>,
    to: &'t mut [MaybeUninit<u8>],
) -> Option<(Task<'t>, usize)> {
    assert!(size > 0 && from.len() == to.len() && part.end <= to.len(), "shuffles keep the length");
    let count = moved(filter, size, from.len());
    let (start, whole) = (part.start.min(part.end), count * size);
    let still = start.max(whole)..part.end.max(whole);
    copy(&from[still.clone()], &mut to[still]);
    let (mut first, mut end) = (start / size, part.end.div_ceil(size).min(count));
    if filter == Filter::Bits {
        (first, end) = (first / 8 * 8, end.next_multiple_of(8));
    }
    let (from, to) = (&from[..whole], &mut to[..whole]);
    (first < end).then_some((Task { from, to, size, count, end }, first))
}

/// Define the function that uses the widest registers of the machine, narrower ones for the rest, and `$rest` for the
/// last elements.
macro_rules! dispatch {
    ($name:ident, $kernel:ident, $rest:ident) => {
        fn $name(task: &mut Task<'_>, first: usize) {
            #[cfg(target_arch = "x86_64")]
            let first = {
                #[target_feature(enable = "avx2")]
                unsafe fn wide(machine: Machine<Avx2>, task: &mut Task<'_>, first: usize) -> usize {
                    let end = transpose::$kernel(machine, task, first);
                    transpose::$kernel(Sse2::machine(), task, end)
                }
                match Avx2::machine() {
                    // SAFETY: the machine has AVX2
                    Some(machine) => unsafe { wide(machine, task, first) },
                    None => transpose::$kernel(Sse2::machine(), task, first),
                }
            };
            #[cfg(target_arch = "aarch64")]
            let first = transpose::$kernel(Neon::machine(), task, first);
            $rest(task, first);
        }
    };
}

dispatch!(shuffle_all, shuffle, shuffle_rest);
dispatch!(unshuffle_all, unshuffle, unshuffle_rest);
dispatch!(shuffle_all_bits, shuffle_bits, shuffle_bits_rest);
dispatch!(unshuffle_all_bits, unshuffle_bits, unshuffle_bits_rest);

/// Shuffle the elements from `first` on one by one.
fn shuffle_rest(task: &mut Task<'_>, first: usize) {
    let Task { from, to, size, count, end } = task;
    for place in 0..*size {
        for element in first..*end {
            to[place * *count + element].write(from[element * *size + place]);
        }
    }
}

fn unshuffle_rest(task: &mut Task<'_>, first: usize) {
    let Task { from, to, size, count, end } = task;
    for element in first..*end {
        for place in 0..*size {
            to[element * *size + place].write(from[place * *count + element]);
        }
    }
}

/// Shuffle the bits of the elements from `first` on in groups of eight.
fn shuffle_bits_rest(task: &mut Task<'_>, first: usize) {
    let Task { from, to, size, count, end } = task;
    for place in 0..*size {
        for element in (first..*end).step_by(8) {
            let bytes = std::array::from_fn(|index| from[(element + index) * *size + place]);
            for (bit, byte) in transpose_eight(bytes).into_iter().enumerate() {
                to[place * *count + bit * (*count / 8) + element / 8].write(byte);
            }
        }
    }
}

fn unshuffle_bits_rest(task: &mut Task<'_>, first: usize) {
    let Task { from, to, size, count, end } = task;
    for place in 0..*size {
        for element in (first..*end).step_by(8) {
            let rows = std::array::from_fn(|bit| from[place * *count + bit * (*count / 8) + element / 8]);
            for (index, byte) in transpose_eight(rows).into_iter().enumerate() {
                to[(element + index) * *size + place].write(byte);
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
    use crate::memory::as_uninit_mut;

    /// Return the sizes or counts to test: every fifth under Miri, which interprets the code slowly.
    fn tried(all: &[usize]) -> impl Iterator<Item = usize> + '_ {
        all.iter().copied().step_by(if cfg!(miri) { 5 } else { 1 })
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

    fn run<T>(function: impl Fn(&mut [MaybeUninit<u8>]) -> T, length: usize) -> Vec<u8> {
        let mut to = vec![0xa5; length];
        function(as_uninit_mut(&mut to));
        to
    }

    #[test]
    fn shuffles_are_what_they_are_defined_as() {
        let sizes: Vec<usize> = (1..=20).chain([24, 31, 32, 33, 48, 100, 255]).collect();
        let counts = [0, 1, 7, 8, 15, 16, 24, 31, 33, 48, 64, 120, 128, 136, 256, 264, 384, 640, 1000, 1001];
        for filter in [Filter::Bytes, Filter::Bits] {
            for size in tried(&sizes) {
                for count in tried(&counts) {
                    for more in [0, size / 2] {
                        let from = noise(size * count + more);
                        let expected = by_definition(filter, size, &from);
                        let shuffled = run(|to| shuffle(filter, size, &from, to).len(), from.len());
                        assert_eq!(shuffled, expected, "{filter:?} {size} {count} {more}");
                        let back = run(|to| unshuffle(filter, size, &shuffled, to).len(), from.len());
                        assert_eq!(back, from, "{filter:?} {size} {count} {more}");
                    }
                }
            }
        }
    }

    #[test]
    fn parts_are_unshuffled_like_the_whole() {
        for filter in [Filter::Bytes, Filter::Bits] {
            for size in tried(&[1, 2, 3, 4, 8, 12, 16, 17]) {
                for count in tried(&[0, 1, 8, 33, 64, 640, 1001, 1024]) {
                    let from = noise(size * count + size / 2);
                    let shuffled = run(|to| shuffle(filter, size, &from, to).len(), from.len());
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
                        let part = |to: &mut [_]| unshuffle_part(filter, size, &shuffled, start..end, to);
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
        type Kernel = fn(Machine<Sse2>, &mut Task<'_>, usize) -> usize;
        let bytes: [Kernel; 2] = [transpose::shuffle::<Sse2>, transpose::unshuffle::<Sse2>];
        let bits: [Kernel; 2] = [transpose::shuffle_bits::<Sse2>, transpose::unshuffle_bits::<Sse2>];
        let count = if cfg!(miri) { 128 } else { 1024 };
        for size in [1, 2, 3, 4, 8, 12, 16, 17] {
            let from = noise(size * count);
            for (filter, [there, back]) in [(Filter::Bytes, bytes), (Filter::Bits, bits)] {
                let shuffled = by_definition(filter, size, &from);
                for (kernel, from, expected) in [(there, &from, &shuffled), (back, &shuffled, &from)] {
                    let apply = |to: &mut [MaybeUninit<u8>]| {
                        let mut task = Task { from, to, size, count, end: count };
                        assert_eq!(kernel(Sse2::machine(), &mut task, 0), count);
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
