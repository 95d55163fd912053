//! The compressors of Blosc, with contexts cached by each thread.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use blosc_src as _;
use libdeflate_sys as deflate;
use lz4_sys::LZ4_decompress_safe;
use zstd_sys as zstd;

use super::frame::Format;
use super::prefix;
use crate::codecs::zstd::set_options;

unsafe extern "C" {
    fn blosclz_compress(
        level: c_int,
        input: *const c_void,
        length: c_int,
        output: *mut c_void,
        capacity: c_int,
        split: c_int,
    ) -> c_int;
    fn blosclz_decompress(input: *const c_void, length: c_int, output: *mut c_void, capacity: c_int) -> c_int;
    fn LZ4_sizeofStateHC() -> c_int;
    fn LZ4_compress_HC_extStateHC(
        state: *mut c_void,
        input: *const c_char,
        output: *mut c_char,
        length: c_int,
        capacity: c_int,
        level: c_int,
    ) -> c_int;
}

/// A compressor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compressor {
    BloscLz,
    Lz4,
    Lz4Hc,
    Snappy,
    Zlib,
    Zstd,
}

impl Compressor {
    /// Return the compressor with a name.
    pub(super) fn named(name: &str) -> Option<Compressor> {
        Some(match name {
            "blosclz" => Compressor::BloscLz,
            "lz4" => Compressor::Lz4,
            "lz4hc" => Compressor::Lz4Hc,
            "snappy" => Compressor::Snappy,
            "zlib" => Compressor::Zlib,
            "zstd" => Compressor::Zstd,
            _ => return None,
        })
    }

    /// Return the compressed format that it writes.
    pub(super) fn format(self) -> Format {
        match self {
            Compressor::BloscLz => Format::BloscLz,
            Compressor::Lz4 | Compressor::Lz4Hc => Format::Lz4,
            Compressor::Snappy => Format::Snappy,
            Compressor::Zlib => Format::Zlib,
            Compressor::Zstd => Format::Zstd,
        }
    }

    /// Compress `from` to `to`; return the compressed size, or 0 if it does not fit.
    ///
    /// `split` says whether the stream is one of several in a block.
    pub(super) fn compress(self, level: i64, split: bool, from: &[u8], to: &mut [MaybeUninit<u8>]) -> usize {
        let (Ok(length), Ok(capacity), Ok(level)) = (from.len().try_into(), to.len().try_into(), level.try_into())
        else {
            return 0;
        };
        let (input, output): (*const c_char, *mut c_char) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
        let made = match self {
            // SAFETY: the lengths of input and output are correct, and the level is from 1 to 9
            Compressor::BloscLz => unsafe {
                blosclz_compress(level, input.cast(), length, output.cast(), capacity, split.into())
            },
            // SAFETY: the lengths of input and output are correct
            Compressor::Lz4 => unsafe { lz4_sys::LZ4_compress_fast(input, output, length, capacity, 10 - level) },
            Compressor::Lz4Hc => LZ4_HC.with_borrow_mut(|state| {
                let state = state_hc(state);
                // SAFETY: the lengths of input and output are correct, and the state has the required size
                unsafe { LZ4_compress_HC_extStateHC(state, input, output, length, capacity, level) }
            }),
            Compressor::Snappy => return compress_snappy(from, to),
            Compressor::Zlib => return compress_zlib(level, from, to),
            Compressor::Zstd => return compress_zstd(level, from, to),
        };
        usize::try_from(made).unwrap_or(0)
    }
}

/// Decompress `from` to exactly `to.len()` bytes; return whether that succeeded.
pub(super) fn decompress(format: Format, from: &[u8], to: &mut [MaybeUninit<u8>]) -> bool {
    let (Ok(length), Ok(capacity)) = (from.len().try_into(), c_int::try_from(to.len())) else { return false };
    match format {
        // SAFETY: the lengths of input and output are correct, and `is_bounded` rules out overflow in the library
        Format::BloscLz => unsafe {
            is_bounded(from, to.len())
                && blosclz_decompress(from.as_ptr().cast(), length, to.as_mut_ptr().cast(), capacity) == capacity
        },
        // SAFETY: the lengths of input and output are correct
        Format::Lz4 => unsafe {
            LZ4_decompress_safe(from.as_ptr().cast(), to.as_mut_ptr().cast(), length, capacity) == capacity
        },
        Format::Snappy => {
            to.fill(MaybeUninit::new(0));
            // SAFETY: all of it has just been initialised
            let to = unsafe { &mut *(std::ptr::from_mut(to) as *mut [u8]) };
            snap::raw::Decoder::new().decompress(from, to).is_ok_and(|length| length == to.len())
        }
        Format::Zlib => decompress_zlib(from, to),
        Format::Zstd => decompress_zstd(from, to),
    }
}

/// Decompress at least the first `wanted` bytes of `from`, whose content has the size of `to`; return whether that
/// succeeded.
pub(super) fn decompress_start(format: Format, from: &[u8], wanted: usize, to: &mut [MaybeUninit<u8>]) -> bool {
    if format == Format::Lz4 && wanted < to.len() {
        // the library decides about streams that `prefix` refuses, so that parts are accepted exactly if the whole is
        return prefix::decompress(from, wanted, to) || decompress(format, from, to);
    }
    // the other formats can not be decompressed partly
    decompress(format, from, to)
}

/// Return whether no length in BloscLZ data can overflow the `i32` in which the library sums it.
///
/// Lengths are encoded as runs of 255; a run that exceeds the output is damaged. An overflow takes megabytes of them, or,
/// where pointers have 32 bits, an address may wrap around.
fn is_bounded(from: &[u8], capacity: usize) -> bool {
    let most = capacity / 255 + 64;
    (cfg!(target_pointer_width = "64") && from.len() < 1 << 22)
        || from.split(|byte| *byte != 255).all(|run| run.len() <= most)
}

/// A context of a C library, which is freed when its thread ends.
struct Context<T> {
    pointer: NonNull<T>,
    free: unsafe fn(*mut T),
}

impl<T> Context<T> {
    fn new(pointer: *mut T, free: unsafe fn(*mut T)) -> Option<Context<T>> {
        NonNull::new(pointer).map(|pointer| Context { pointer, free })
    }
}

impl<T> Drop for Context<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the matching allocation function, and is owned
        unsafe { (self.free)(self.pointer.as_ptr()) }
    }
}

type Slot<T> = RefCell<Option<Context<T>>>;

thread_local! {
    static LZ4_HC: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static SNAPPY: RefCell<(Option<snap::raw::Encoder>, Vec<u8>)> = const { RefCell::new((None, Vec::new())) };
    static INFLATE: Slot<deflate::libdeflate_decompressor> = const { RefCell::new(None) };
    static DEFLATE: RefCell<(c_int, Option<Context<deflate::libdeflate_compressor>>)> =
        const { RefCell::new((0, None)) };
    static ZSTD_OUT: Slot<zstd::ZSTD_DCtx> = const { RefCell::new(None) };
    static ZSTD_IN: Slot<zstd::ZSTD_CCtx> = const { RefCell::new(None) };
}

/// Return the state for LZ4 HC, aligned to eight bytes; each use initialises it.
fn state_hc(state: &mut Vec<u64>) -> *mut c_void {
    if state.is_empty() {
        // SAFETY: the function only returns a constant
        let bytes = unsafe { LZ4_sizeofStateHC() };
        state.resize(usize::try_from(bytes).unwrap_or(0).div_ceil(8), 0);
    }
    state.as_mut_ptr().cast()
}

fn compress_snappy(from: &[u8], to: &mut [MaybeUninit<u8>]) -> usize {
    SNAPPY.with_borrow_mut(|(encoder, buffer)| {
        let most = snap::raw::max_compress_len(from.len());
        if buffer.len() < most {
            buffer.resize(most, 0);
        }
        let made = encoder.get_or_insert_with(snap::raw::Encoder::new).compress(from, buffer).unwrap_or(0);
        // incompressible data is stored uncompressed
        if made >= from.len() || made > to.len() {
            return 0;
        }
        // SAFETY: both have at least `made` bytes
        unsafe { to.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(buffer.as_ptr(), made) };
        made
    })
}

fn compress_zlib(level: c_int, from: &[u8], to: &mut [MaybeUninit<u8>]) -> usize {
    DEFLATE.with_borrow_mut(|(current, slot)| {
        if *current != level || slot.is_none() {
            // level 1 of libdeflate compresses much worse than that of zlib, level 2 does not
            // SAFETY: the function takes any level; it returns null for an invalid one
            let made = unsafe { deflate::libdeflate_alloc_compressor(level.max(2)) };
            (*current, *slot) = (
                level,
                Context::new(made, |pointer| {
                    // SAFETY: the pointer comes from the allocation above
                    unsafe { deflate::libdeflate_free_compressor(pointer) }
                }),
            );
        }
        let Some(context) = slot else { return 0 };
        // SAFETY: the compressor belongs to this thread, and the lengths of input and output are correct
        unsafe {
            deflate::libdeflate_zlib_compress(
                context.pointer.as_ptr(),
                from.as_ptr().cast(),
                from.len(),
                to.as_mut_ptr().cast(),
                to.len(),
            )
        }
    })
}

fn decompress_zlib(from: &[u8], to: &mut [MaybeUninit<u8>]) -> bool {
    INFLATE.with_borrow_mut(|slot| {
        if slot.is_none() {
            // SAFETY: the function has no preconditions
            *slot = Context::new(unsafe { deflate::libdeflate_alloc_decompressor() }, |pointer| {
                // SAFETY: the pointer comes from the allocation above
                unsafe { deflate::libdeflate_free_decompressor(pointer) }
            });
        }
        let Some(context) = slot else { return false };
        // SAFETY: the decompressor belongs to this thread, and the lengths of input and output are correct. Without a pointer
        // for the decoded size, the library has to fill the output
        let result = unsafe {
            deflate::libdeflate_zlib_decompress(
                context.pointer.as_ptr(),
                from.as_ptr().cast(),
                from.len(),
                to.as_mut_ptr().cast(),
                to.len(),
                std::ptr::null_mut(),
            )
        };
        result == deflate::libdeflate_result_LIBDEFLATE_SUCCESS
    })
}

/// Convert a level of Blosc to one of Zstandard, as c-blosc does.
fn zstd_level(level: c_int) -> c_int {
    // SAFETY: the function only returns a constant
    if level < 9 { 2 * level - 1 } else { unsafe { zstd::ZSTD_maxCLevel() } }
}

fn compress_zstd(level: c_int, from: &[u8], to: &mut [MaybeUninit<u8>]) -> usize {
    ZSTD_IN.with_borrow_mut(|slot| {
        if slot.is_none() {
            // SAFETY: the function has no preconditions
            *slot = Context::new(unsafe { zstd::ZSTD_createCCtx() }, |pointer| {
                // SAFETY: the pointer comes from the allocation above
                unsafe { zstd::ZSTD_freeCCtx(pointer) };
            });
        }
        let Some(context) = slot else { return 0 };
        // SAFETY: the context belongs to this thread, and the lengths of input and output are correct
        unsafe {
            let (input, output) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
            let context = context.pointer.as_ptr();
            if set_options(context, zstd_level(level), false).is_err() {
                return 0;
            }
            let made = zstd::ZSTD_compress2(context, output, to.len(), input, from.len());
            if zstd::ZSTD_isError(made) == 0 { made } else { 0 }
        }
    })
}

/// The magic numbers of Zstandard frames: since version 0.8, and of version 0.7, which one release of c-blosc used.
const ZSTD_MAGICS: [[u8; 4]; 2] = [[0x28, 0xb5, 0x2f, 0xfd], [0x27, 0xb5, 0x2f, 0xfd]];

fn decompress_zstd(from: &[u8], to: &mut [MaybeUninit<u8>]) -> bool {
    // only one frame, since more of them could select decoders of versions that Blosc never used
    // SAFETY: the length of the input is correct
    let one = |from: &[u8]| unsafe { zstd::ZSTD_findFrameCompressedSize(from.as_ptr().cast(), from.len()) };
    if !from.first_chunk::<4>().is_some_and(|magic| ZSTD_MAGICS.contains(magic)) || one(from) != from.len() {
        return false;
    }
    ZSTD_OUT.with_borrow_mut(|slot| {
        if slot.is_none() {
            // SAFETY: the function has no preconditions
            *slot = Context::new(unsafe { zstd::ZSTD_createDCtx() }, |pointer| {
                // SAFETY: the pointer comes from the allocation above
                unsafe { zstd::ZSTD_freeDCtx(pointer) };
            });
        }
        let Some(context) = slot else { return false };
        // SAFETY: the context belongs to this thread, and the lengths of input and output are correct. Error codes are the
        // largest numbers, while the output has at most 2 GiB, so that an error never equals `to.len()`
        unsafe {
            let (input, output) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
            zstd::ZSTD_decompressDCtx(context.pointer.as_ptr(), output, to.len(), input, from.len()) == to.len()
        }
    })
}
