//! The compressors inside of Blosc, each with what is worth keeping from one call to the next.

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

unsafe extern "C" {
    fn blosclz_compress(
        level: c_int,
        input: *const c_void,
        length: c_int,
        output: *mut c_void,
        room: c_int,
        split: c_int,
    ) -> c_int;
    fn blosclz_decompress(input: *const c_void, length: c_int, output: *mut c_void, room: c_int) -> c_int;
    fn LZ4_sizeofStateHC() -> c_int;
    fn LZ4_compress_HC_extStateHC(
        state: *mut c_void,
        input: *const c_char,
        output: *mut c_char,
        length: c_int,
        room: c_int,
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
    /// Find a compressor by its name in the options.
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

    /// The format of what it makes.
    pub(super) fn format(self) -> Format {
        match self {
            Compressor::BloscLz => Format::BloscLz,
            Compressor::Lz4 | Compressor::Lz4Hc => Format::Lz4,
            Compressor::Snappy => Format::Snappy,
            Compressor::Zlib => Format::Zlib,
            Compressor::Zstd => Format::Zstd,
        }
    }

    /// Compress `from` into `to`, and return how many bytes that took; 0 if it did not fit.
    ///
    /// `split` says whether this is one of several streams of a block.
    pub(super) fn compress(self, level: i64, split: bool, from: &[u8], to: &mut [MaybeUninit<u8>]) -> usize {
        let (Ok(length), Ok(room), Ok(level)) = (from.len().try_into(), to.len().try_into(), level.try_into()) else {
            return 0;
        };
        let (input, output): (*const c_char, *mut c_char) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
        let made = match self {
            // SAFETY: input and output are as long as said, the level is one of 1 to 9
            Compressor::BloscLz => unsafe {
                blosclz_compress(level, input.cast(), length, output.cast(), room, split.into())
            },
            // SAFETY: input and output are as long as said
            Compressor::Lz4 => unsafe { lz4_sys::LZ4_compress_fast(input, output, length, room, 10 - level) },
            Compressor::Lz4Hc => LZ4_HC.with_borrow_mut(|state| {
                let state = state_hc(state);
                // SAFETY: input and output are as long as said, the state has the size that was asked for
                unsafe { LZ4_compress_HC_extStateHC(state, input, output, length, room, level) }
            }),
            Compressor::Snappy => return compress_snappy(from, to),
            Compressor::Zlib => return compress_zlib(level, from, to),
            Compressor::Zstd => return compress_zstd(level, from, to),
        };
        usize::try_from(made).unwrap_or(0)
    }
}

/// Decompress `from` into all of `to`, and return whether that went well.
pub(super) fn decompress(format: Format, from: &[u8], to: &mut [MaybeUninit<u8>]) -> bool {
    let (Ok(length), Ok(room)) = (from.len().try_into(), c_int::try_from(to.len())) else { return false };
    match format {
        // SAFETY: input and output are as long as said, and the input's lengths don't overflow its sums
        Format::BloscLz => unsafe {
            is_bounded(from, to.len())
                && blosclz_decompress(from.as_ptr().cast(), length, to.as_mut_ptr().cast(), room) == room
        },
        // SAFETY: input and output are as long as said
        Format::Lz4 => unsafe {
            LZ4_decompress_safe(from.as_ptr().cast(), to.as_mut_ptr().cast(), length, room) == room
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

/// Decompress at least the first `wanted` bytes of what `from` holds for all of `to`, and return whether that went well.
pub(super) fn decompress_start(format: Format, from: &[u8], wanted: usize, to: &mut [MaybeUninit<u8>]) -> bool {
    if format == Format::Lz4 && wanted < to.len() {
        // what is odd to one of the two, a distance of 0 say, is for the other to judge, as it judges the whole
        return prefix::decompress(from, wanted, to) || decompress(format, from, to);
    }
    // the others know no way to stop before the end
    decompress(format, from, to)
}

/// Whether no length in data of blosclz can get past the `i32` that it is added up in.
///
/// Lengths are coded as runs of 255; one that is longer than what the output could take is damaged. It takes megabytes
/// to overflow, or, where pointers have 32 bits, to go around.
fn is_bounded(from: &[u8], room: usize) -> bool {
    let most = room / 255 + 64;
    (cfg!(target_pointer_width = "64") && from.len() < 1 << 22)
        || from.split(|byte| *byte != 255).all(|run| run.len() <= most)
}

/// A context of a C library, freed with its thread.
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
        // SAFETY: the pointer came from the function that belongs to `free`, and nobody else has it
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

/// Return the state for LZ4 HC, which has to be aligned to eight bytes and is initialised by each use.
fn state_hc(state: &mut Vec<u64>) -> *mut c_void {
    if state.is_empty() {
        // SAFETY: this function only returns a constant
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
        // what did not shrink is better stored as it is
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
            // the lowest level misses much of what that of zlib finds, the next one does not
            // SAFETY: any level may be asked for; where there is none like it, the answer is null
            let made = unsafe { deflate::libdeflate_alloc_compressor(level.max(2)) };
            (*current, *slot) = (
                level,
                Context::new(made, |pointer| {
                    // SAFETY: `Context` has its pointer from just above
                    unsafe { deflate::libdeflate_free_compressor(pointer) }
                }),
            );
        }
        let Some(context) = slot else { return 0 };
        // SAFETY: the compressor is this thread's own, input and output are as long as said
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
            // SAFETY: nothing is asked of the caller
            *slot = Context::new(unsafe { deflate::libdeflate_alloc_decompressor() }, |pointer| {
                // SAFETY: `Context` has its pointer from just above
                unsafe { deflate::libdeflate_free_decompressor(pointer) }
            });
        }
        let Some(context) = slot else { return false };
        // SAFETY: the decompressor is this thread's own, input and output are as long as said; without a place for the
        // length of the output it has to fill all of it
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

/// Translate a level of Blosc as c-blosc does.
fn zstd_level(level: c_int) -> c_int {
    // SAFETY: this function only returns a constant
    if level < 9 { 2 * level - 1 } else { unsafe { zstd::ZSTD_maxCLevel() } }
}

fn compress_zstd(level: c_int, from: &[u8], to: &mut [MaybeUninit<u8>]) -> usize {
    ZSTD_IN.with_borrow_mut(|slot| {
        if slot.is_none() {
            // SAFETY: nothing is asked of the caller
            *slot = Context::new(unsafe { zstd::ZSTD_createCCtx() }, |pointer| {
                // SAFETY: `Context` has its pointer from just above
                unsafe { zstd::ZSTD_freeCCtx(pointer) };
            });
        }
        let Some(context) = slot else { return 0 };
        // SAFETY: the context is this thread's own, input and output are as long as said
        unsafe {
            let (input, output) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
            let level = zstd_level(level);
            let made = zstd::ZSTD_compressCCtx(context.pointer.as_ptr(), output, to.len(), input, from.len(), level);
            if zstd::ZSTD_isError(made) == 0 { made } else { 0 }
        }
    })
}

/// What frames of zstd start with: since version 0.8, and of version 0.7, which one release of c-blosc came with.
const ZSTD_MAGICS: [[u8; 4]; 2] = [[0x28, 0xb5, 0x2f, 0xfd], [0x27, 0xb5, 0x2f, 0xfd]];

fn decompress_zstd(from: &[u8], to: &mut [MaybeUninit<u8>]) -> bool {
    // one frame is all there may be, lest more of them bring decoders of versions into play that Blosc never used
    // SAFETY: the input is as long as said
    let one = |from: &[u8]| unsafe { zstd::ZSTD_findFrameCompressedSize(from.as_ptr().cast(), from.len()) };
    if !from.first_chunk::<4>().is_some_and(|magic| ZSTD_MAGICS.contains(magic)) || one(from) != from.len() {
        return false;
    }
    ZSTD_OUT.with_borrow_mut(|slot| {
        if slot.is_none() {
            // SAFETY: nothing is asked of the caller
            *slot = Context::new(unsafe { zstd::ZSTD_createDCtx() }, |pointer| {
                // SAFETY: `Context` has its pointer from just above
                unsafe { zstd::ZSTD_freeDCtx(pointer) };
            });
        }
        let Some(context) = slot else { return false };
        // SAFETY: the context is this thread's own, input and output are as long as said. An error is never `to.len()`:
        // errors are the largest numbers there are, and the output at most 2 GiB
        unsafe {
            let (input, output) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
            zstd::ZSTD_decompressDCtx(context.pointer.as_ptr(), output, to.len(), input, from.len()) == to.len()
        }
    })
}
