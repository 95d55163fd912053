//! The transpositions of the shuffles, for any kind of register. Called by `shuffle`.
//!
//! They consist of one step: interleaving the first half of an array of registers with the second. This rotates the bits
//! of the address of each byte by one. In elements of `P` bytes, a byte has the address (element, position); sorted into
//! planes it has the address (position, element): a few rotations lead from one to the other.
//!
//! The bits of a plane are transposed in eight registers: one byte each of eight elements becomes one byte in each of
//! eight rows. Both directions use the same exchange of bits between registers.

use std::mem::MaybeUninit;

use super::vector::{LANE, Machine, Vector};

/// Largest number of bytes of an element that are processed at a time.
const WIDEST: usize = 16;

/// Bytes in `WIDEST` registers of two lanes.
const BUFFER: usize = WIDEST * 2 * LANE;

#[inline(always)]
fn rotate<V: Vector, const N: usize>(registers: [V; N], times: u32) -> [V; N] {
    let mut now = registers;
    for _ in 0..times {
        let before = now;
        let mut index = 0;
        while index < N / 2 {
            now[2 * index] = before[index].low(before[index + N / 2]);
            now[2 * index + 1] = before[index].high(before[index + N / 2]);
            index += 1;
        }
    }
    now
}

/// Load registers, `apart` bytes from each other, with lanes `step` bytes apart.
///
/// # Safety
/// There are sixteen bytes at the places of all lanes.
#[inline(always)]
unsafe fn load_all<V: Vector, const N: usize>(
    machine: Machine<V>,
    from: *const u8,
    apart: usize,
    step: usize,
) -> [V; N] {
    // a loop without a closure, which the compiler might not make part of the function that uses wide registers
    // SAFETY: the caller guarantees the places of all lanes
    unsafe {
        let mut registers = [V::load(machine, from, step); N];
        let mut index = 1;
        while index < N {
            registers[index] = V::load(machine, from.add(index * apart), step);
            index += 1;
        }
        registers
    }
}

/// Store registers: first the first lanes of all, then the second lanes of all.
///
/// # Safety
/// There are `P` registers of memory.
#[inline(always)]
unsafe fn store_all<V: Vector, const P: usize>(registers: [V; P], to: *mut u8) {
    // SAFETY: the places of all lanes lie within this memory
    unsafe {
        if P == 1 {
            return registers[0].store(to, LANE);
        }
        // in the order of addresses, which is the fastest
        for index in (0..P - P % 2).step_by(2) {
            V::store_lanes::<false>([registers[index], registers[index + 1]], to.add(index * LANE));
        }
        if V::LANES == 2 {
            for index in (0..P - P % 2).step_by(2) {
                V::store_lanes::<true>([registers[index], registers[index + 1]], to.add((P + index) * LANE));
            }
        }
    }
}

/// Exchange bit `i` of byte `k` in register `b` with bit `b` of byte `k` in register `i`, for all of them.
#[inline(always)]
fn transpose_bits<V: Vector>(registers: [V; 8]) -> [V; 8] {
    let mut now = registers;
    for index in 0..4 {
        (now[index], now[index + 4]) = V::exchange::<4>(now[index], now[index + 4], 0x0f);
    }
    for index in [0, 1, 4, 5] {
        (now[index], now[index + 2]) = V::exchange::<2>(now[index], now[index + 2], 0x33);
    }
    for index in [0, 2, 4, 6] {
        (now[index], now[index + 1]) = V::exchange::<1>(now[index], now[index + 1], 0x55);
    }
    now
}

/// Merge `P` planes, `plane` bytes apart, to elements: as many as a register has bytes.
///
/// The elements are `stride` bytes apart.
///
/// # Safety
/// There are the bytes of a register in each plane, and as many elements at `to`.
#[inline(always)]
unsafe fn merge<V: Vector, const P: usize>(
    machine: Machine<V>,
    from: *const u8,
    plane: usize,
    to: *mut u8,
    stride: usize,
) {
    // SAFETY: the caller guarantees the planes and the elements; the buffer has the size of P registers
    unsafe {
        let registers = load_all::<V, P>(machine, from, plane, LANE);
        let registers = rotate::<V, P>(registers, P.ilog2());
        if stride == P {
            store_all(registers, to);
            return;
        }
        let mut buffer = MaybeUninit::<[u8; BUFFER]>::uninit();
        let buffer = buffer.as_mut_ptr().cast::<u8>();
        store_all(registers, buffer);
        for element in 0..V::LANES * LANE {
            to.add(element * stride).copy_from_nonoverlapping(buffer.add(element * P), P);
        }
    }
}

/// Split elements, `stride` bytes apart, into `P` planes: the inverse of `merge`.
///
/// # Safety
/// As for `merge`, with source and target exchanged.
#[inline(always)]
unsafe fn split<V: Vector, const P: usize>(
    machine: Machine<V>,
    from: *const u8,
    stride: usize,
    to: *mut u8,
    plane: usize,
) {
    // SAFETY: as in `merge`
    unsafe {
        let mut buffer = MaybeUninit::<[u8; BUFFER]>::uninit();
        let mut start = from;
        if stride != P {
            let buffer = buffer.as_mut_ptr().cast::<u8>();
            for element in 0..V::LANES * LANE {
                buffer.add(element * P).copy_from_nonoverlapping(from.add(element * stride), P);
            }
            start = buffer;
        }
        let registers = load_all::<V, P>(machine, start, LANE, LANE * P);
        let registers = if P == 1 { registers } else { rotate::<V, P>(registers, LANE.ilog2()) };
        for (index, register) in registers.into_iter().enumerate() {
            register.store(to.add(index * plane), LANE);
        }
    }
}

/// Call `$name::<V, P>(place, ...)` for all `$size` bytes of the elements, as many bytes `P` at a time as possible.
macro_rules! in_pieces {
    ($size:expr, $name:ident($($argument:expr),*)) => {{
        let mut place = 0;
        while place < $size {
            place += match $size - place {
                16.. => { $name::<V, 16>(place, $($argument),*); 16 }
                8.. => { $name::<V, 8>(place, $($argument),*); 8 }
                4.. => { $name::<V, 4>(place, $($argument),*); 4 }
                2.. => { $name::<V, 2>(place, $($argument),*); 2 }
                _ => { $name::<V, 1>(place, $($argument),*); 1 }
            };
        }
    }};
}

/// The parameters of these functions: the memory of source and target, the size and number of the elements, and the
/// element before which to stop.
pub(super) struct Task<'t> {
    pub(super) from: &'t [u8],
    pub(super) to: &'t mut [MaybeUninit<u8>],
    pub(super) size: usize,
    pub(super) count: usize,
    pub(super) end: usize,
}

/// What the pieces of a task need: the addresses of all elements, their size and number, and those of the piece.
#[derive(Clone, Copy)]
struct Piece {
    from: *const u8,
    to: *mut u8,
    size: usize,
    count: usize,
    first: usize,
    end: usize,
}

/// Define the function that applies `$piece` to elements from `first` on while they fill units of `$unit` elements; it
/// returns the first one that is left. The number of elements, and `first`, are multiples of `$multiple`.
macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident, $piece:ident, $unit:ident, $multiple:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name<V: Vector>(machine: Machine<V>, task: &mut Task<'_>, first: usize) -> usize {
            let Task { from, to, size, count, end } = task;
            let whole = size.checked_mul(*count);
            assert!(whole == Some(from.len()) && whole == Some(to.len()) && first <= *end && *end <= *count);
            assert!(is_whole(first, $multiple) && is_whole(*count, $multiple));
            let end = first + (*end - first) / $unit::<V>() * $unit::<V>();
            let piece =
                Piece { from: from.as_ptr(), to: to.as_mut_ptr().cast(), size: *size, count: *count, first, end };
            // SAFETY: there are `size * count` bytes at both addresses, and the elements from `first` to `end` are
            // among them, a multiple of the unit
            unsafe { in_pieces!(piece.size, $piece(machine, piece)) }
            end
        }
    };
}

kernel!(
    /// Unshuffle elements.
    unshuffle, unshuffle_piece, step, 1
);
kernel!(
    /// Shuffle elements.
    shuffle, shuffle_piece, step, 1
);
kernel!(
    /// Undo the bit shuffle of elements.
    unshuffle_bits, unshuffle_bits_piece, tile, 8
);
kernel!(
    /// Apply the bit shuffle to elements.
    shuffle_bits, shuffle_bits_piece, tile, 8
);

/// Return whether a number is a multiple of another.
fn is_whole(number: usize, multiple: usize) -> bool {
    number % multiple == 0
}

/// Return the number of elements that a register has bytes for.
const fn step<V: Vector>() -> usize {
    V::LANES * LANE
}

/// Return the number of elements whose bits are transposed at a time.
const fn tile<V: Vector>() -> usize {
    8 * V::LANES * LANE
}

/// A buffer for `WIDEST` planes of a tile.
type Tile = MaybeUninit<[u8; WIDEST * 8 * 2 * LANE]>;

/// Unshuffle the bytes from `place` on of the elements.
///
/// # Safety
/// There are `size * count` bytes at both addresses, `place + P` is at most `size`, `end` at most `count`, and the
/// elements from `first` to `end` fill registers. This holds for the other three functions, too, for bits with tiles
/// instead of registers; then `count` and `first` are multiples of eight.
#[inline(always)]
unsafe fn unshuffle_piece<V: Vector, const P: usize>(place: usize, machine: Machine<V>, piece: Piece) {
    let Piece { from, to, size, count, first, end } = piece;
    for element in (first..end).step_by(step::<V>()) {
        // SAFETY: place + P is at most the size of elements, and `element` at least a register before their end
        unsafe {
            merge::<V, P>(machine, from.add(place * count + element), count, to.add(element * size + place), size)
        }
    }
}

#[inline(always)]
unsafe fn shuffle_piece<V: Vector, const P: usize>(place: usize, machine: Machine<V>, piece: Piece) {
    let Piece { from, to, size, count, first, end } = piece;
    for element in (first..end).step_by(step::<V>()) {
        // SAFETY: as in `unshuffle_piece`
        unsafe {
            split::<V, P>(machine, from.add(element * size + place), size, to.add(place * count + element), count)
        }
    }
}

#[inline(always)]
unsafe fn unshuffle_bits_piece<V: Vector, const P: usize>(place: usize, machine: Machine<V>, piece: Piece) {
    let Piece { from, to, size, count, first, end } = piece;
    let (row, tile) = (count / 8, tile::<V>());
    let mut buffer = Tile::uninit();
    let buffer = buffer.as_mut_ptr().cast::<u8>();
    for element in (first..end).step_by(tile) {
        // SAFETY: plane `place + plane` is one of the elements', and in each of its eight rows there is a register from
        // element / 8 on; the buffer has space for P planes of `tile` bytes, and `to` for the elements. Those of one
        // byte go directly to their places
        unsafe {
            for plane in 0..P {
                let rows = from.add((place + plane) * count + element / 8);
                let registers = load_all::<V, 8>(machine, rows, row, LANE);
                let registers = rotate::<V, 8>(transpose_bits(registers), 3);
                store_all(registers, if size == 1 { to.add(element) } else { buffer.add(plane * tile) });
            }
            for step in (0..if size == 1 { 0 } else { tile }).step_by(step::<V>()) {
                merge::<V, P>(machine, buffer.add(step), tile, to.add((element + step) * size + place), size);
            }
        }
    }
}

#[inline(always)]
unsafe fn shuffle_bits_piece<V: Vector, const P: usize>(place: usize, machine: Machine<V>, piece: Piece) {
    let Piece { from, to, size, count, first, end } = piece;
    let (row, tile) = (count / 8, tile::<V>());
    let mut buffer = Tile::uninit();
    let buffer = buffer.as_mut_ptr().cast::<u8>();
    for element in (first..end).step_by(tile) {
        // SAFETY: as in `unshuffle_bits_piece`
        unsafe {
            for step in (0..if size == 1 { 0 } else { tile }).step_by(step::<V>()) {
                split::<V, P>(machine, from.add((element + step) * size + place), size, buffer.add(step), tile);
            }
            for plane in 0..P {
                let source = if size == 1 { from.add(element) } else { buffer.add(plane * tile).cast_const() };
                let registers = load_all::<V, 8>(machine, source, LANE, 8 * LANE);
                let registers = transpose_bits(rotate::<V, 8>(registers, LANE.ilog2()));
                let rows = to.add((place + plane) * count + element / 8);
                for (bit, register) in registers.into_iter().enumerate() {
                    register.store(rows.add(bit * row), LANE);
                }
            }
        }
    }
}
