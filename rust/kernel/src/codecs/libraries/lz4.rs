//! The LZ4 library.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use crate::memory::initialised;

// SAFETY: the signatures are those of the library. The safe functions only compute numbers.
unsafe extern "C" {
    safe fn LZ4_compressBound(size: c_int) -> c_int;
    safe fn LZ4_sizeofStateHC() -> c_int;
    safe fn LZ4_versionNumber() -> c_int;
    fn LZ4_compress_HC_extStateHC(
        state: *mut c_void,
        input: *const c_char,
        output: *mut c_char,
        length: c_int,
        capacity: c_int,
        level: c_int,
    ) -> c_int;
}

/// Return the version, as a number.
pub(in crate::codecs) fn version() -> u32 {
    LZ4_versionNumber() as u32
}

/// Return the largest encoded size of `size` bytes, if there is one.
pub(in crate::codecs) fn bound(size: c_int) -> Option<usize> {
    usize::try_from(LZ4_compressBound(size)).ok().filter(|&bound| bound > 0)
}

/// Decode a block to the start of `out`; return what was written, unless the block is damaged or too long.
pub(in crate::codecs) fn decode<'o>(data: &[u8], out: &'o mut [MaybeUninit<u8>]) -> Option<&'o mut [u8]> {
    let (length, capacity) = (data.len().try_into().ok()?, out.len().try_into().ok()?);
    // SAFETY: the library keeps to the given slices, and has written as many bytes as it reports.
    unsafe {
        let (from, to) = (data.as_ptr().cast(), out.as_mut_ptr().cast());
        let size = lz4_sys::LZ4_decompress_safe(from, to, length, capacity);
        Some(initialised(out, usize::try_from(size).ok()?))
    }
}

/// Encode a block to the start of `out`; return what was written, which is nothing if `out` is too short.
pub(in crate::codecs) fn encode<'o>(
    data: &[u8],
    acceleration: c_int,
    out: &'o mut [MaybeUninit<u8>],
) -> Option<&'o mut [u8]> {
    let (length, capacity) = (data.len().try_into().ok()?, out.len().try_into().ok()?);
    // SAFETY: as in `decode`.
    unsafe {
        let (from, to) = (data.as_ptr().cast(), out.as_mut_ptr().cast());
        let size = lz4_sys::LZ4_compress_fast(from, to, length, capacity, acceleration);
        Some(initialised(out, usize::try_from(size).ok()?))
    }
}

/// Encode as `encode` does, but better; `state` is memory that is used again.
pub(in crate::codecs) fn encode_well<'o>(
    state: &mut Vec<u64>,
    data: &[u8],
    level: c_int,
    out: &'o mut [MaybeUninit<u8>],
) -> Option<&'o mut [u8]> {
    let (length, capacity) = (data.len().try_into().ok()?, out.len().try_into().ok()?);
    let size = usize::try_from(LZ4_sizeofStateHC()).ok()?.div_ceil(size_of::<u64>());
    if state.len() < size {
        state.resize(size, 0);
    }
    // SAFETY: as in `decode`; the state is as large as the library asks for, and aligned to eight bytes.
    unsafe {
        let (state, from, to) = (state.as_mut_ptr().cast(), data.as_ptr().cast(), out.as_mut_ptr().cast());
        let size = LZ4_compress_HC_extStateHC(state, from, to, length, capacity, level);
        Some(initialised(out, usize::try_from(size).ok()?))
    }
}
