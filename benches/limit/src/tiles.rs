//! Rectangles of elements moved between a chunk and an array.

/// A rectangle in memory: where it starts, and the bytes from a row and a column to the next.
#[derive(Clone, Copy)]
pub struct Tile {
    pub start: *mut u8,
    pub row: usize,
    pub column: usize,
}

// SAFETY: whoever makes tiles for two threads makes them of different rectangles.
unsafe impl Send for Tile {}
// SAFETY: as above.
unsafe impl Sync for Tile {}

/// Copy `rows` x `columns` elements of `item` bytes.
///
/// # Safety
///
/// Both rectangles lie in memory that may be read or written, and they do not overlap.
pub unsafe fn copy(from: Tile, to: Tile, rows: usize, columns: usize, item: usize) {
    // SAFETY: the offsets stay within the rectangles that the caller vouches for.
    unsafe {
        if columns * rows == 1 {
            return to.start.copy_from_nonoverlapping(from.start, item);
        }
        if from.column == item && to.column == item {
            let line = columns * item;
            let stream = rows * line >= 8192
                && line.is_multiple_of(64)
                && to.start.addr().is_multiple_of(64)
                && to.row.is_multiple_of(64);
            for row in 0..rows {
                line_copy(from.start.add(row * from.row), to.start.add(row * to.row), line, stream);
            }
            if stream {
                fence();
            }
            return;
        }
        match item {
            1 => transpose::<u8>(from, to, rows, columns),
            2 => transpose::<u16>(from, to, rows, columns),
            4 => transpose::<u32>(from, to, rows, columns),
            _ => transpose::<u64>(from, to, rows, columns),
        }
    }
}

/// Copy element by element, in squares that stay in the cache.
unsafe fn transpose<T: Copy>(from: Tile, to: Tile, rows: usize, columns: usize) {
    const SIDE: usize = 32;
    for top in (0..rows).step_by(SIDE) {
        for left in (0..columns).step_by(SIDE) {
            for row in top..(top + SIDE).min(rows) {
                for column in left..(left + SIDE).min(columns) {
                    // SAFETY: as the caller of `copy` vouches.
                    unsafe {
                        let value = from.start.add(row * from.row + column * from.column).cast::<T>().read_unaligned();
                        to.start.add(row * to.row + column * to.column).cast::<T>().write_unaligned(value);
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn line_copy(from: *const u8, to: *mut u8, size: usize, stream: bool) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    // SAFETY: `size` bytes are good on both sides; with `stream`, `to` and `size` are multiples of 64.
    unsafe {
        if !stream {
            return to.copy_from_nonoverlapping(from, size);
        }
        for at in (0..size).step_by(64) {
            let (source, target) = (from.add(at).cast::<__m128i>(), to.add(at).cast::<__m128i>());
            let line = [0, 1, 2, 3].map(|part| _mm_loadu_si128(source.add(part)));
            for (part, value) in line.into_iter().enumerate() {
                _mm_stream_si128(target.add(part), value);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn fence() {
    // SAFETY: every x86-64 has it.
    unsafe { std::arch::x86_64::_mm_sfence() }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn line_copy(from: *const u8, to: *mut u8, size: usize, _stream: bool) {
    // SAFETY: `size` bytes are good on both sides.
    unsafe { to.copy_from_nonoverlapping(from, size) }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn fence() {}
