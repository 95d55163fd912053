//! Decompresses only the beginning of an LZ4 stream. Called by `streams`.
//!
//! The LZ4 library can stop early too, but copies the last match byte by byte. Well compressible data has long matches,
//! so the library takes longer than for decompressing everything.

use std::mem::MaybeUninit;

use crate::memory::copy;

/// Bytes of one copy, which is used for shorter pieces too where the output is long enough.
const STRIDE: usize = 16;

/// Decompress at least the first `wanted` bytes of the stream `from`, whose content has the size of `to`; return whether
/// that succeeded.
///
/// `wanted` is at most the length of `to`; after these bytes `to` is undefined.
pub(super) fn decompress(from: &[u8], wanted: usize, to: &mut [MaybeUninit<u8>]) -> bool {
    debug_assert!(wanted <= to.len());
    decode(from, wanted, to).is_some_and(|reached| reached >= wanted)
}

/// Decompress until `wanted` bytes are reached or the stream ends; return the number of bytes, or `None` if it is damaged.
fn decode(from: &[u8], wanted: usize, to: &mut [MaybeUninit<u8>]) -> Option<usize> {
    let (mut at, mut done) = (0, 0);
    while done < wanted {
        // literals
        let token = usize::from(*from.get(at)?);
        at += 1;
        let literals = length(from, &mut at, token >> 4)?;
        let fits = at + STRIDE <= from.len() && done + STRIDE <= to.len();
        if literals <= STRIDE && fits {
            // SAFETY: both have a stride of bytes left, and one of them is borrowed exclusively
            unsafe { copy_stride(from.as_ptr().add(at), to.as_mut_ptr().cast::<u8>().add(done)) };
        } else {
            let source = from.get(at..at.checked_add(literals)?)?;
            let target = to.get_mut(done..done.checked_add(literals)?)?;
            copy(source, target);
        }
        (at, done) = (at + literals, done + literals);
        if done >= wanted || at == from.len() {
            break;
        }
        // a match
        let distance = usize::from(u16::from_le_bytes(*from.get(at..)?.first_chunk()?));
        at += 2;
        let matched = length(from, &mut at, token & 15)?.checked_add(4)?;
        if distance == 0 || distance > done || matched > to.len().checked_sub(done)? {
            return None;
        }
        if distance >= STRIDE && matched <= 2 * STRIDE && done + 2 * STRIDE <= to.len() {
            // SAFETY: `to` has two strides left. The bytes of the first copy are initialised, as they lie before `done`; those
            // of the second lie before `done` too, or the first copy has initialised them
            unsafe {
                let target = to.as_mut_ptr().cast::<u8>().add(done);
                copy_stride(target.sub(distance), target);
                copy_stride(target.sub(distance).add(STRIDE), target.add(STRIDE));
            }
        } else {
            repeat(to, done, distance, matched.min(wanted - done));
        }
        done += matched;
    }
    Some(done)
}

/// Read a length whose first four bits come from a token.
#[inline(always)]
fn length(from: &[u8], at: &mut usize, bits: usize) -> Option<usize> {
    let mut length = bits;
    if bits == 15 {
        loop {
            let more = *from.get(*at)?;
            *at += 1;
            length = length.checked_add(more.into())?;
            if more != 255 {
                break;
            }
        }
    }
    Some(length)
}

/// # Safety
/// There is a stride of bytes at both ends, and they do not overlap.
#[inline(always)]
unsafe fn copy_stride(from: *const u8, to: *mut u8) {
    // SAFETY: the caller guarantees the bytes
    unsafe { to.copy_from_nonoverlapping(from, STRIDE) }
}

/// Write `count` bytes from `done` on, each equal to the one `distance`, at least one, before it.
fn repeat(to: &mut [MaybeUninit<u8>], done: usize, distance: usize, count: usize) {
    let (before, after) = to[..done + count].split_at_mut(done);
    let source = &before[done - distance..];
    if let [only] = source {
        after.fill(*only);
        return;
    }
    let mut made = distance.min(count);
    after[..made].copy_from_slice(&source[..made]);
    while made < count {
        // `made` is a multiple of the period
        let (from, rest) = after.split_at_mut(made);
        let step = made.min(rest.len());
        rest[..step].copy_from_slice(&from[..step]);
        made += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::libraries::lz4;
    use crate::memory::as_uninit_mut;

    fn compressed(data: &[u8]) -> Vec<u8> {
        let mut out = vec![0_u8; data.len() + data.len() / 255 + 16];
        let made = lz4::encode(data, 1, as_uninit_mut(&mut out)).unwrap().len();
        out.truncate(made);
        out
    }

    /// Data with repetitions of all kinds.
    fn data(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % below
        };
        let mut out = Vec::new();
        while out.len() < length {
            let count = [3, 20, 300, 5000][random(4)];
            let count = 1 + random(count);
            match random(3) {
                0 => out.extend((0..count).map(|_| random(256) as u8)),
                _ if out.is_empty() => {}
                kind => {
                    let most = if kind == 1 { 40 } else { 3000 };
                    let distance = 1 + random(out.len().min(most));
                    (0..count).for_each(|_| out.push(out[out.len() - distance]));
                }
            }
        }
        out.truncate(length);
        out
    }

    #[test]
    fn beginnings_are_those_of_the_whole() {
        for seed in 0..40 {
            let data = data(seed, 1 + 500 * seed as usize);
            let from = compressed(&data);
            for wanted in (0..40).map(|part| data.len() * part / 40).chain([data.len() - 1, data.len()]) {
                let mut found = vec![0xa5_u8; data.len()];
                assert!(decompress(&from, wanted, as_uninit_mut(&mut found)));
                assert!(found[..wanted] == data[..wanted], "{seed} {wanted}");
            }
            let mut more = vec![MaybeUninit::new(0); data.len() + 1];
            assert!(!decompress(&from, data.len() + 1, &mut more), "there is no more");
        }
    }

    #[test]
    fn damage_does_no_harm() {
        let data = data(7, 3000);
        let from = compressed(&data);
        let mut held = 0;
        for end in 0..from.len() {
            let mut to = vec![MaybeUninit::new(0); data.len()];
            held += usize::from(!decompress(&from[..end], data.len(), &mut to));
        }
        assert_eq!(held, from.len());
        for round in 0..30_000_usize {
            let mut damaged = from.clone();
            let place = round.wrapping_mul(7919) % damaged.len();
            damaged[place] = [0, 1, 0xff, 0xf0, 0x0f, (round >> 3) as u8][round % 6];
            let mut to = vec![MaybeUninit::new(0); data.len()];
            decompress(&damaged, 1 + round % data.len(), &mut to);
        }
    }
}
