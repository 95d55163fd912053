//! Classifies the bytes of a block of JSON: quotes, brackets, white space. Called by `tokens`.
//!
//! On x86-64 it compares 16 bytes at a time; a portable loop, which compilers do not vectorise, is 30 times slower.

/// Bytes of a block: one for each bit of a mask.
pub const BLOCK: usize = 64;

/// The bytes of a block by kind: one bit for each byte, the lowest bit for the first byte.
pub struct Masks {
    pub quotes: u64,
    pub backslashes: u64,
    /// Brackets, colons and commas.
    pub operators: u64,
    /// Spaces and control characters.
    pub spaces: u64,
    /// Control characters.
    pub controls: u64,
    /// Whether all bytes are ASCII.
    pub ascii: bool,
}

/// Return the masks of a block.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn masks(bytes: &[u8; BLOCK]) -> Masks {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };

    let mut found = Masks { quotes: 0, backslashes: 0, operators: 0, spaces: 0, controls: 0, ascii: true };
    for part in 0..BLOCK / 16 {
        // SAFETY: every x86-64 machine has SSE2, and the unaligned load reads 16 of the 64 bytes.
        let [quotes, backslashes, operators, spaces, controls, beyond] = unsafe {
            let bytes = _mm_loadu_si128(bytes.as_ptr().add(part * 16).cast::<__m128i>());
            let is = |byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
            let upper = _mm_or_si128(bytes, _mm_set1_epi8(0x20)); // brackets become braces
            let braces =
                _mm_or_si128(_mm_cmpeq_epi8(upper, _mm_set1_epi8(0x7b)), _mm_cmpeq_epi8(upper, _mm_set1_epi8(0x7d)));
            let most = |byte: u8| _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(byte as i8)), bytes);
            let operators = _mm_or_si128(braces, _mm_or_si128(is(b':'), is(b',')));
            [is(b'"'), is(b'\\'), operators, most(b' '), most(0x1f), bytes]
                .map(|mask| u64::from(_mm_movemask_epi8(mask) as u16) << (part * 16))
        };
        found.ascii &= beyond == 0;
        found.quotes |= quotes;
        found.backslashes |= backslashes;
        found.operators |= operators;
        found.spaces |= spaces;
        found.controls |= controls;
    }
    found
}

/// Return the masks of a block.
#[cfg(not(target_arch = "x86_64"))]
pub fn masks(bytes: &[u8; BLOCK]) -> Masks {
    let mut found = Masks { quotes: 0, backslashes: 0, operators: 0, spaces: 0, controls: 0, ascii: true };
    for (at, byte) in bytes.iter().enumerate() {
        let bit = 1 << at;
        match byte {
            b'"' => found.quotes |= bit,
            b'\\' => found.backslashes |= bit,
            b'{' | b'}' | b'[' | b']' | b':' | b',' => found.operators |= bit,
            b' ' => found.spaces |= bit,
            0..=0x1f => {
                found.spaces |= bit;
                found.controls |= bit;
            }
            0x80.. => found.ascii = false,
            _ => {}
        }
    }
    found
}
