//! Registers of 16 bytes, and how the bytes of two of them are put alternately: with what every processor of its kind has.

/// Bytes in a register.
pub(super) const ROW: usize = 16;

pub(super) use kind::{Row, interleave, separate};

/// Read a row.
///
/// # Safety
///
/// 16 bytes can be read at `from`.
#[inline(always)]
pub(super) unsafe fn load(from: *const u8) -> Row {
    // SAFETY: any bits are a row, and it is read without regard to alignment.
    unsafe { from.cast::<Row>().read_unaligned() }
}

/// Write a row.
///
/// # Safety
///
/// 16 bytes can be written at `to`.
#[inline(always)]
pub(super) unsafe fn store(to: *mut u8, row: Row) {
    // SAFETY: it is written without regard to alignment.
    unsafe { to.cast::<Row>().write_unaligned(row) }
}

#[cfg(target_arch = "x86_64")]
mod kind {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_packus_epi16, _mm_set1_epi16, _mm_srli_epi16, _mm_unpackhi_epi8, _mm_unpacklo_epi8,
    };

    /// A register.
    pub type Row = __m128i;

    /// Put the bytes of two rows alternately.
    #[inline(always)]
    pub fn interleave(one: Row, other: Row) -> (Row, Row) {
        // SAFETY: every processor of this kind has SSE2.
        unsafe { (_mm_unpacklo_epi8(one, other), _mm_unpackhi_epi8(one, other)) }
    }

    /// Undo `interleave`.
    #[inline(always)]
    pub fn separate(one: Row, other: Row) -> (Row, Row) {
        // SAFETY: every processor of this kind has SSE2.
        unsafe {
            let low = _mm_set1_epi16(0xff);
            let even = _mm_packus_epi16(_mm_and_si128(one, low), _mm_and_si128(other, low));
            let odd = _mm_packus_epi16(_mm_srli_epi16::<8>(one), _mm_srli_epi16::<8>(other));
            (even, odd)
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod kind {
    use std::arch::aarch64::{uint8x16_t, vuzp1q_u8, vuzp2q_u8, vzip1q_u8, vzip2q_u8};

    /// A register.
    pub type Row = uint8x16_t;

    /// Put the bytes of two rows alternately.
    #[inline(always)]
    pub fn interleave(one: Row, other: Row) -> (Row, Row) {
        // SAFETY: every processor of this kind has NEON.
        unsafe { (vzip1q_u8(one, other), vzip2q_u8(one, other)) }
    }

    /// Undo `interleave`.
    #[inline(always)]
    pub fn separate(one: Row, other: Row) -> (Row, Row) {
        // SAFETY: every processor of this kind has NEON.
        unsafe { (vuzp1q_u8(one, other), vuzp2q_u8(one, other)) }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod kind {
    use std::array::from_fn;

    /// Bytes that the compiler may have a register for.
    pub type Row = [u8; 16];

    /// Put the bytes of two rows alternately.
    #[inline(always)]
    pub fn interleave(one: Row, other: Row) -> (Row, Row) {
        let pick = |start: usize| {
            from_fn(|index| if index % 2 == 0 { one[start + index / 2] } else { other[start + index / 2] })
        };
        (pick(0), pick(8))
    }

    /// Undo `interleave`.
    #[inline(always)]
    pub fn separate(one: Row, other: Row) -> (Row, Row) {
        let pick = |start: usize| {
            from_fn(|index| {
                let place = start + 2 * index;
                if place < 16 { one[place] } else { other[place - 16] }
            })
        };
        (pick(0), pick(1))
    }
}
