//! Transposition of small matrices, with SSE2 registers where there are any. Called by `tiles`.

use super::elements::{Mover, with_mover};

/// Return the smallest number of rows for which a blocked transposition of elements of `size` bytes is faster.
pub(super) fn least_rows(size: usize) -> usize {
    (16 / size).max(2)
}

/// Transpose a matrix: element `i` of column `j`, read at `source + j * pitch + i * size`, becomes element `j` of row `i`.
///
/// # Safety
///
/// `columns` columns of `rows` elements may be read; rows may be written, `width` bytes apart; `size` is 1, 2, 4, 8, 16.
pub(super) unsafe fn transpose(
    source: *const u8,
    pitch: isize,
    target: *mut u8,
    width: usize,
    rows: usize,
    columns: usize,
    size: usize,
) {
    let side = if cfg!(target_arch = "x86_64") && size < 16 { 16 / size } else { usize::MAX };
    let (across, down) = if side == usize::MAX { (0, 0) } else { (columns / side * side, rows / side * side) };
    // SAFETY: the squares and the rest beside and below them make up the matrix.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if side != usize::MAX {
            match size {
                1 => squares(source, pitch, target, width, (down, across), 1, sse2::bytes),
                2 => squares(source, pitch, target, width, (down, across), 2, sse2::words),
                4 => squares(source, pitch, target, width, (down, across), 4, sse2::doubles),
                _ => squares(source, pitch, target, width, (down, across), 8, sse2::quads),
            }
        }
        with_mover!(size, false, mover => {
            single(mover, source, pitch, target, width, size, (0..down, across..columns));
            single(mover, source, pitch, target, width, size, (down..rows, 0..columns));
        });
    }
}

/// Transpose element by element.
///
/// # Safety
///
/// As for [`transpose`], for the rows and columns given.
unsafe fn single<M: Mover>(
    mover: M,
    source: *const u8,
    pitch: isize,
    target: *mut u8,
    width: usize,
    size: usize,
    (rows, columns): (std::ops::Range<usize>, std::ops::Range<usize>),
) {
    for j in columns {
        let column = source.wrapping_offset(pitch.wrapping_mul(j as isize));
        for i in rows.clone() {
            // SAFETY: element (i, j) of the matrix.
            unsafe { mover.put(column.add(i * size), target.add(i * width + j * size)) }
        }
    }
}

/// Transpose square blocks with sides of 16 bytes.
///
/// # Safety
///
/// As for [`transpose`]; `rows` and `columns` are multiples of the square's side.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn squares(
    source: *const u8,
    pitch: isize,
    target: *mut u8,
    width: usize,
    (rows, columns): (usize, usize),
    size: usize,
    square: unsafe fn(*const u8, isize, *mut u8, usize),
) {
    let side = 16 / size;
    for j in (0..columns).step_by(side) {
        let column = source.wrapping_offset(pitch.wrapping_mul(j as isize));
        for i in (0..rows).step_by(side) {
            // SAFETY: the square lies within the matrix.
            unsafe { square(column.add(i * size), pitch, target.add(i * width + j * size), width) }
        }
    }
}

/// Square blocks with sides of 16 bytes, transposed in registers.
#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi8, _mm_unpackhi_epi16, _mm_unpackhi_epi32,
        _mm_unpackhi_epi64, _mm_unpacklo_epi8, _mm_unpacklo_epi16, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };

    /// Define the function that transposes a square of `$side` registers: it interleaves the first half of them with
    /// the second, `$times` times.
    macro_rules! square {
        ($(#[$doc:meta])* $name:ident, $side:literal, $times:literal, $low:ident, $high:ident) => {
            $(#[$doc])*
            ///
            /// # Safety
            ///
/// The square may be read at `source`, one register every `pitch` bytes, and written at `target`, one every `width`.
            #[inline(always)]
            pub(super) unsafe fn $name(source: *const u8, pitch: isize, target: *mut u8, width: usize) {
// SAFETY: the caller guarantees the square; the access may be unaligned.
                unsafe {
                    let mut held: [__m128i; $side] = std::array::from_fn(|j| {
                        _mm_loadu_si128(source.wrapping_offset(pitch.wrapping_mul(j as isize)).cast())
                    });
                    for _ in 0..$times {
                        held = std::array::from_fn(|k| {
                            let (a, b) = (held[k / 2], held[k / 2 + $side / 2]);
                            if k % 2 == 0 { $low(a, b) } else { $high(a, b) }
                        });
                    }
                    for (i, vector) in held.into_iter().enumerate() {
                        _mm_storeu_si128(target.add(i * width).cast(), vector);
                    }
                }
            }
        };
    }
    square!(
    /// Transpose 16 x 16 elements of one byte.
            bytes, 16, 4, _mm_unpacklo_epi8, _mm_unpackhi_epi8
        );
    square!(
    /// Transpose 8 x 8 elements of two bytes.
            words, 8, 3, _mm_unpacklo_epi16, _mm_unpackhi_epi16
        );
    square!(
    /// Transpose 4 x 4 elements of four bytes.
            doubles, 4, 2, _mm_unpacklo_epi32, _mm_unpackhi_epi32
        );
    square!(
    /// Transpose 2 x 2 elements of eight bytes.
            quads, 2, 1, _mm_unpacklo_epi64, _mm_unpackhi_epi64
        );
}
