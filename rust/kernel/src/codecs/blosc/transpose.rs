//! The transpositions of the shuffles, for any kind of register. Called by `shuffle`.
//!
//! They consist of one step: interleaving the first half of an array of registers with the second. This rotates the bits
//! of the address of each byte by one. In elements of `P` bytes, a byte has the address (element, position); sorted into
//! planes it has the address (position, element): a few rotations lead from one to the other.
//!
//! The bits of a plane are transposed in eight registers: one byte each of eight elements becomes one byte in each of
//! eight rows. Both directions use the same exchange of bits between registers.

use super::vector::Vector;

/// Bytes of a lane.
pub(super) const LANE: usize = 16;

/// Largest number of bytes of an element that are processed at a time.
const WIDEST: usize = 16;

/// Bytes in `WIDEST` registers of two lanes.
const BUFFER: usize = WIDEST * 2 * LANE;

#[inline(always)]
unsafe fn rotate<V: Vector, const N: usize>(registers: [V; N], times: u32) -> [V; N] {
    let mut now = registers;
    for _ in 0..times {
        let before = now;
        let mut index = 0;
        while index < N / 2 {
            // SAFETY: the caller guarantees the instruction set
            unsafe {
                now[2 * index] = before[index].low(before[index + N / 2]);
                now[2 * index + 1] = before[index].high(before[index + N / 2]);
            }
            index += 1;
        }
    }
    now
}

/// Store registers: first the first lanes of all, then the second lanes of all.
#[inline(always)]
unsafe fn store_all<V: Vector, const P: usize>(registers: [V; P], to: *mut u8) {
    // SAFETY: the caller guarantees the instruction set, and for P registers of memory
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
unsafe fn transpose_bits<V: Vector>(registers: [V; 8]) -> [V; 8] {
    let mut now = registers;
    // SAFETY: the caller guarantees the instruction set
    unsafe {
        for index in 0..4 {
            (now[index], now[index + 4]) = V::exchange::<4>(now[index], now[index + 4], 0x0f);
        }
        for index in [0, 1, 4, 5] {
            (now[index], now[index + 2]) = V::exchange::<2>(now[index], now[index + 2], 0x33);
        }
        for index in [0, 2, 4, 6] {
            (now[index], now[index + 1]) = V::exchange::<1>(now[index], now[index + 1], 0x55);
        }
    }
    now
}

/// Merge `P` planes, `plane` bytes apart, to elements: as many as a register has bytes.
///
/// The elements are `stride` bytes apart.
#[inline(always)]
unsafe fn merge<V: Vector, const P: usize>(from: *const u8, plane: usize, to: *mut u8, stride: usize) {
    // SAFETY: the caller guarantees the instruction set, for LANES * LANE bytes in each of P planes and as many elements
    // at `to`; the buffer has the size of P registers
    unsafe {
        let registers: [V; P] = std::array::from_fn(|index| V::load(from.add(index * plane), LANE));
        let registers = rotate::<V, P>(registers, P.ilog2());
        if stride == P {
            store_all(registers, to);
            return;
        }
        let mut buffer = std::mem::MaybeUninit::<[u8; BUFFER]>::uninit();
        let buffer = buffer.as_mut_ptr().cast::<u8>();
        store_all(registers, buffer);
        for element in 0..V::LANES * LANE {
            to.add(element * stride).copy_from_nonoverlapping(buffer.add(element * P), P);
        }
    }
}

/// Split elements, `stride` bytes apart, into `P` planes: the inverse of `merge`.
#[inline(always)]
unsafe fn split<V: Vector, const P: usize>(from: *const u8, stride: usize, to: *mut u8, plane: usize) {
    // SAFETY: as in `merge`, with source and target exchanged
    unsafe {
        let mut buffer = std::mem::MaybeUninit::<[u8; BUFFER]>::uninit();
        let mut start = from;
        if stride != P {
            let buffer = buffer.as_mut_ptr().cast::<u8>();
            for element in 0..V::LANES * LANE {
                buffer.add(element * P).copy_from_nonoverlapping(from.add(element * stride), P);
            }
            start = buffer;
        }
        let registers: [V; P] = std::array::from_fn(|index| V::load(start.add(index * LANE), LANE * P));
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

/// The parameters of these functions: the addresses of source and target, the size and number of the elements, and the
/// element before which to stop.
#[derive(Clone, Copy)]
pub(super) struct Task {
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
    pub(super) size: usize,
    pub(super) count: usize,
    pub(super) end: usize,
}

/// Unshuffle elements from `first` on while they fill registers; return the first one that is left.
///
/// # Safety
/// The machine has the instruction set of `V`, there are `size * count` bytes at both addresses of the task, and `first`
/// to `end` is a range of elements.
#[inline(always)]
pub(super) unsafe fn unshuffle<V: Vector>(task: Task, first: usize) -> usize {
    #[inline(always)]
    unsafe fn piece<V: Vector, const P: usize>(place: usize, task: Task, first: usize, end: usize) {
        let Task { from, to, size, count, .. } = task;
        for element in (first..end).step_by(V::LANES * LANE) {
            // SAFETY: place + P is at most the size of elements, and `element` at least a register before their end
            unsafe { merge::<V, P>(from.add(place * count + element), count, to.add(element * size + place), size) }
        }
    }
    let end = first + (task.end - first) / (V::LANES * LANE) * (V::LANES * LANE);
    // SAFETY: the caller guarantees the same
    unsafe { in_pieces!(task.size, piece(task, first, end)) }
    end
}

/// Shuffle elements from `first` on while they fill registers; return the first one that is left.
///
/// # Safety
/// As for `unshuffle`.
#[inline(always)]
pub(super) unsafe fn shuffle<V: Vector>(task: Task, first: usize) -> usize {
    #[inline(always)]
    unsafe fn piece<V: Vector, const P: usize>(place: usize, task: Task, first: usize, end: usize) {
        let Task { from, to, size, count, .. } = task;
        for element in (first..end).step_by(V::LANES * LANE) {
            // SAFETY: as in `unshuffle`
            unsafe { split::<V, P>(from.add(element * size + place), size, to.add(place * count + element), count) }
        }
    }
    let end = first + (task.end - first) / (V::LANES * LANE) * (V::LANES * LANE);
    // SAFETY: the caller guarantees the same
    unsafe { in_pieces!(task.size, piece(task, first, end)) }
    end
}

/// Return the number of elements whose bits are transposed at a time.
const fn tile<V: Vector>() -> usize {
    8 * V::LANES * LANE
}

/// A buffer for `WIDEST` planes of a tile.
type Tile = std::mem::MaybeUninit<[u8; WIDEST * 8 * 2 * LANE]>;

/// Undo the bit shuffle for elements from `first` on while they fill tiles; return the first one that is left.
///
/// # Safety
/// As for `unshuffle`; `count`, `first` and `end` are multiples of eight.
#[inline(always)]
pub(super) unsafe fn unshuffle_bits<V: Vector>(task: Task, first: usize) -> usize {
    #[inline(always)]
    unsafe fn piece<V: Vector, const P: usize>(place: usize, task: Task, first: usize, end: usize) {
        let Task { from, to, size, count, .. } = task;
        let (row, tile) = (count / 8, tile::<V>());
        let mut buffer = Tile::uninit();
        let buffer = buffer.as_mut_ptr().cast::<u8>();
        for element in (first..end).step_by(tile) {
            for plane in 0..P {
                // SAFETY: plane `place + plane` is one of the task's, and in each of its eight rows there is a register
                // from element / 8 on; the tile has space for P planes. Elements of one byte go directly to their places
                unsafe {
                    let rows = from.add((place + plane) * count + element / 8);
                    let registers: [V; 8] = std::array::from_fn(|bit| V::load(rows.add(bit * row), LANE));
                    let registers = rotate::<V, 8>(transpose_bits(registers), 3);
                    let target = if size == 1 { to.add(element) } else { buffer.add(plane * tile) };
                    store_all(registers, target);
                }
            }
            if size == 1 {
                continue;
            }
            for step in (0..tile).step_by(V::LANES * LANE) {
                // SAFETY: the tile's planes are `tile` bytes each, and `to` has space for its elements
                unsafe { merge::<V, P>(buffer.add(step), tile, to.add((element + step) * size + place), size) }
            }
        }
    }
    let end = first + (task.end - first) / tile::<V>() * tile::<V>();
    // SAFETY: the caller guarantees the same
    unsafe { in_pieces!(task.size, piece(task, first, end)) }
    end
}

/// Apply the bit shuffle to elements from `first` on while they fill tiles; return the first one that is left.
///
/// # Safety
/// As for `unshuffle_bits`.
#[inline(always)]
pub(super) unsafe fn shuffle_bits<V: Vector>(task: Task, first: usize) -> usize {
    #[inline(always)]
    unsafe fn piece<V: Vector, const P: usize>(place: usize, task: Task, first: usize, end: usize) {
        let Task { from, to, size, count, .. } = task;
        let (row, tile) = (count / 8, tile::<V>());
        let mut buffer = Tile::uninit();
        let buffer = buffer.as_mut_ptr().cast::<u8>();
        for element in (first..end).step_by(tile) {
            for step in (0..if size == 1 { 0 } else { tile }).step_by(V::LANES * LANE) {
                // SAFETY: as in `unshuffle_bits`
                unsafe { split::<V, P>(from.add((element + step) * size + place), size, buffer.add(step), tile) }
            }
            for plane in 0..P {
                // SAFETY: as in `unshuffle_bits`
                unsafe {
                    let source = if size == 1 { from.add(element) } else { buffer.add(plane * tile).cast_const() };
                    let registers: [V; 8] = std::array::from_fn(|index| V::load(source.add(index * LANE), 8 * LANE));
                    let registers = transpose_bits(rotate::<V, 8>(registers, LANE.ilog2()));
                    let rows = to.add((place + plane) * count + element / 8);
                    for (bit, register) in registers.into_iter().enumerate() {
                        register.store(rows.add(bit * row), LANE);
                    }
                }
            }
        }
    }
    let end = first + (task.end - first) / tile::<V>() * tile::<V>();
    // SAFETY: the caller guarantees the same
    unsafe { in_pieces!(task.size, piece(task, first, end)) }
    end
}
