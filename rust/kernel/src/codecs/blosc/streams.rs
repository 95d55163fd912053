//! The compressors of Blosc, with contexts cached by each thread.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use blosc_src as _;

use super::frame::Format;
use super::prefix;
use crate::codecs::libraries::deflate::{self, Container};
use crate::codecs::libraries::{lz4, zstd};
use crate::memory::{copy, zeros};

// SAFETY: the signatures are those of the library, which is compiled into this crate.
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
        let Ok(level) = c_int::try_from(level) else { return 0 };
        let made = match self {
            Compressor::BloscLz => return compress_blosclz(level, split, from, to),
            Compressor::Snappy => return compress_snappy(from, to),
            Compressor::Lz4 => lz4::encode(from, 10 - level, to),
            Compressor::Lz4Hc => LZ4_HC.with_borrow_mut(|state| lz4::encode_well(state, from, level, to)),
            Compressor::Zlib => compress_zlib(level, from, to),
            Compressor::Zstd => compress_zstd(level, from, to),
        };
        made.map_or(0, |made| made.len())
    }
}

/// Decompress `from` to exactly `to.len()` bytes; return whether that succeeded.
pub(super) fn decompress(format: Format, from: &[u8], to: &mut [MaybeUninit<u8>]) -> bool {
    let size = to.len();
    match format {
        Format::BloscLz => decompress_blosclz(from, to),
        Format::Lz4 => lz4::decode(from, to).is_some_and(|made| made.len() == size),
        Format::Snappy => snap::raw::Decoder::new().decompress(from, zeros(to)).is_ok_and(|length| length == size),
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

fn compress_blosclz(level: c_int, split: bool, from: &[u8], to: &mut [MaybeUninit<u8>]) -> usize {
    let (Ok(length), Ok(capacity)) = (from.len().try_into(), to.len().try_into()) else { return 0 };
    let (input, output) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
    // SAFETY: the lengths of input and output are correct, and the level is from 1 to 9
    let made = unsafe { blosclz_compress(level, input, length, output, capacity, split.into()) };
    usize::try_from(made).unwrap_or(0)
}

fn decompress_blosclz(from: &[u8], to: &mut [MaybeUninit<u8>]) -> bool {
    let (Ok(length), Ok(capacity)) = (from.len().try_into(), c_int::try_from(to.len())) else { return false };
    if !is_bounded(from, to.len()) {
        return false;
    }
    let (input, output) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
    // SAFETY: the lengths of input and output are correct, and `is_bounded` rules out overflow in the library
    unsafe { blosclz_decompress(input, length, output, capacity) == capacity }
}

thread_local! {
    static LZ4_HC: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static SNAPPY: RefCell<(Option<snap::raw::Encoder>, Vec<u8>)> = const { RefCell::new((None, Vec::new())) };
    static INFLATE: RefCell<Option<deflate::Decoder>> = const { RefCell::new(None) };
    static DEFLATE: RefCell<(c_int, Option<deflate::Encoder>)> = const { RefCell::new((0, None)) };
    static ZSTD_OUT: RefCell<Option<zstd::Decoder>> = const { RefCell::new(None) };
    static ZSTD_IN: RefCell<Option<zstd::Encoder>> = const { RefCell::new(None) };
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
        copy(&buffer[..made], &mut to[..made]);
        made
    })
}

fn compress_zlib<'t>(level: c_int, from: &[u8], to: &'t mut [MaybeUninit<u8>]) -> Option<&'t mut [u8]> {
    DEFLATE.with_borrow_mut(|(current, slot)| {
        if *current != level || slot.is_none() {
            // level 1 of libdeflate compresses much worse than that of zlib, level 2 does not
            (*current, *slot) = (level, deflate::Encoder::new(level.max(2)));
        }
        slot.as_mut().map(|encoder| encoder.encode(Container::Zlib, from, to))
    })
}

fn decompress_zlib(from: &[u8], to: &mut [MaybeUninit<u8>]) -> bool {
    INFLATE.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = deflate::Decoder::new();
        }
        let (Some(decoder), size) = (slot, to.len()) else { return false };
        decoder.decode(Container::Zlib, from, to).is_ok_and(|(made, _)| made.len() == size)
    })
}

/// Convert a level of Blosc to one of Zstandard, as c-blosc does.
fn zstd_level(level: c_int) -> c_int {
    if level < 9 { 2 * level - 1 } else { zstd::highest_level() }
}

fn compress_zstd<'t>(level: c_int, from: &[u8], to: &'t mut [MaybeUninit<u8>]) -> Option<&'t mut [u8]> {
    ZSTD_IN.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = zstd::Encoder::new();
        }
        let encoder = slot.as_mut()?;
        encoder.set_options(zstd_level(level), false).ok()?;
        encoder.encode(from, to).ok()
    })
}

/// The magic numbers of Zstandard frames: since version 0.8, and of version 0.7, which one release of c-blosc used.
const ZSTD_MAGICS: [[u8; 4]; 2] = [[0x28, 0xb5, 0x2f, 0xfd], [0x27, 0xb5, 0x2f, 0xfd]];

fn decompress_zstd(from: &[u8], to: &mut [MaybeUninit<u8>]) -> bool {
    // only one frame, since more of them could select decoders of versions that Blosc never used
    let one = |from: &[u8]| zstd::frame_length(from).is_ok_and(|length| length == from.len());
    if !from.first_chunk::<4>().is_some_and(|magic| ZSTD_MAGICS.contains(magic)) || !one(from) {
        return false;
    }
    ZSTD_OUT.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = zstd::Decoder::new();
        }
        let (Some(decoder), size) = (slot, to.len()) else { return false };
        decoder.decode(from, to).is_ok_and(|made| made.len() == size)
    })
}
