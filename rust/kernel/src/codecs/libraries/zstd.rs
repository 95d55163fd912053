//! libzstd.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::mem::MaybeUninit;

use zstd_sys::{
    ZSTD_CCtx, ZSTD_DCtx, ZSTD_ResetDirective, ZSTD_cParameter, ZSTD_dParameter, ZSTD_inBuffer, ZSTD_outBuffer,
};

use super::Context;
use crate::Error;
use crate::memory::initialised;

/// The library's cheapest way to find places to divide a block. With 0 the library chooses another, which takes a
/// twelfth more time for one per cent less output.
const SPLITTING: c_int = 2;

/// The logarithm of the largest window that the library supports.
const LARGEST_WINDOW: c_int = if usize::BITS == 64 { 31 } else { 30 };

/// Encoded bytes that are decoded at once where only the beginning of a frame is needed.
const STEP: usize = 64 * 1024;

// SAFETY: the signatures are those of the library. The functions compute numbers, or set options of the context that
// they are given; the name of an error is a constant.
unsafe extern "C" {
    safe fn ZSTD_compressBound(size: usize) -> usize;
    safe fn ZSTD_getErrorName(code: usize) -> *const c_char;
    safe fn ZSTD_isError(code: usize) -> c_uint;
    safe fn ZSTD_maxCLevel() -> c_int;
    safe fn ZSTD_versionNumber() -> c_uint;
    safe fn ZSTD_CCtx_reset(context: &mut ZSTD_CCtx, what: ZSTD_ResetDirective) -> usize;
    safe fn ZSTD_CCtx_setParameter(context: &mut ZSTD_CCtx, option: ZSTD_cParameter, value: c_int) -> usize;
    safe fn ZSTD_sizeof_CCtx(context: &ZSTD_CCtx) -> usize;
    safe fn ZSTD_DCtx_reset(context: &mut ZSTD_DCtx, what: ZSTD_ResetDirective) -> usize;
    safe fn ZSTD_DCtx_setParameter(context: &mut ZSTD_DCtx, option: ZSTD_dParameter, value: c_int) -> usize;
}

/// The code of an error.
pub(in crate::codecs) struct Failure(usize);

impl From<Failure> for Error {
    #[cold]
    fn from(failure: Failure) -> Error {
        // SAFETY: the name is a text that ends with a NUL and lives forever.
        let name = unsafe { CStr::from_ptr(ZSTD_getErrorName(failure.0)) };
        Error::codec("zstd", format!("libzstd reports: {}", name.to_string_lossy()))
    }
}

/// Return the result of a library function, or the error for which it stands.
fn checked(found: usize) -> Result<usize, Failure> {
    if ZSTD_isError(found) == 0 { Ok(found) } else { Err(Failure(found)) }
}

/// Return the version, as a number.
pub(in crate::codecs) fn version() -> u32 {
    ZSTD_versionNumber()
}

/// Return the highest level.
pub(in crate::codecs) fn highest_level() -> c_int {
    ZSTD_maxCLevel()
}

/// Return the largest encoded size of `size` bytes.
pub(in crate::codecs) fn bound(size: usize) -> Result<usize, Failure> {
    checked(ZSTD_compressBound(size))
}

/// Return the length of the first frame of `data`.
pub(in crate::codecs) fn frame_length(data: &[u8]) -> Result<usize, Failure> {
    // SAFETY: the library reads within the given slice.
    checked(unsafe { zstd_sys::ZSTD_findFrameCompressedSize(data.as_ptr().cast(), data.len()) })
}

/// A decoding context.
pub(in crate::codecs) struct Decoder(Context<ZSTD_DCtx, usize>);

impl Decoder {
    /// Make a context, if there is enough memory.
    pub fn new() -> Option<Decoder> {
        // SAFETY: the context is a new one.
        unsafe { Context::new(zstd_sys::ZSTD_createDCtx(), zstd_sys::ZSTD_freeDCtx) }.map(Decoder)
    }

    /// Decode frames to the start of `out`; return what was written.
    pub fn decode<'o>(&mut self, data: &[u8], out: &'o mut [MaybeUninit<u8>]) -> Result<&'o mut [u8], Failure> {
        // SAFETY: the library keeps to the given slices, and has written as many bytes as it reports.
        unsafe {
            let (from, to) = (data.as_ptr().cast(), out.as_mut_ptr().cast());
            let size = checked(zstd_sys::ZSTD_decompressDCtx(self.0.get(), to, out.len(), from, data.len()))?;
            Ok(initialised(out, size))
        }
    }

    /// Decode the first `needed` bytes of a frame, and perhaps more, into `out`, which is as long as its whole content;
    /// return whether the frame is long enough.
    pub fn decode_beginning(
        &mut self,
        data: &[u8],
        needed: usize,
        out: &mut [MaybeUninit<u8>],
    ) -> Result<bool, Failure> {
        // With this option the library writes to one buffer, which has to last until the frame ends; the context
        // forgets it when the next operation resets it.
        checked(ZSTD_DCtx_reset(self.0.get(), ZSTD_ResetDirective::ZSTD_reset_session_only))?;
        let stable_output = ZSTD_dParameter::ZSTD_d_experimentalParam2;
        // the limit for windows limits memory, and windows take no memory here
        for (option, value) in [(stable_output, 1), (ZSTD_dParameter::ZSTD_d_windowLogMax, LARGEST_WINDOW)] {
            checked(ZSTD_DCtx_setParameter(self.0.get(), option, value))?;
        }
        let mut output = ZSTD_outBuffer { dst: out.as_mut_ptr().cast(), size: out.len(), pos: 0 };
        let mut input = ZSTD_inBuffer { src: data.as_ptr().cast(), size: 0, pos: 0 };
        while output.pos < needed {
            if input.size == data.len() && input.pos == input.size {
                return Ok(false);
            }
            input.size = input.size.saturating_add(STEP).min(data.len());
            // SAFETY: both buffers lie within the given slices, and the library keeps to them.
            checked(unsafe { zstd_sys::ZSTD_decompressStream(self.0.get(), &mut output, &mut input) })?;
        }
        Ok(true)
    }
}

/// An encoding context.
pub(in crate::codecs) struct Encoder(Context<ZSTD_CCtx, usize>);

impl Encoder {
    /// Make a context, if there is enough memory.
    pub fn new() -> Option<Encoder> {
        // SAFETY: the context is a new one.
        unsafe { Context::new(zstd_sys::ZSTD_createCCtx(), zstd_sys::ZSTD_freeCCtx) }.map(Encoder)
    }

    /// Return the size of the context, in bytes.
    pub fn size(&mut self) -> usize {
        ZSTD_sizeof_CCtx(self.0.get())
    }

    /// Set the options with which the next frames are encoded.
    pub fn set_options(&mut self, level: c_int, checksum: bool) -> Result<(), Failure> {
        // After an error, such as too little room, the context is in the middle of a frame.
        checked(ZSTD_CCtx_reset(self.0.get(), ZSTD_ResetDirective::ZSTD_reset_session_only))?;
        for (option, value) in [
            (ZSTD_cParameter::ZSTD_c_compressionLevel, level),
            (ZSTD_cParameter::ZSTD_c_checksumFlag, c_int::from(checksum)),
            (ZSTD_cParameter::ZSTD_c_experimentalParam20, SPLITTING),
        ] {
            checked(ZSTD_CCtx_setParameter(self.0.get(), option, value))?;
        }
        Ok(())
    }

    /// Encode a frame to the start of `out`; return it.
    pub fn encode<'o>(&mut self, data: &[u8], out: &'o mut [MaybeUninit<u8>]) -> Result<&'o mut [u8], Failure> {
        // SAFETY: the library keeps to the given slices, and has written as many bytes as it reports.
        unsafe {
            let (from, to) = (data.as_ptr().cast(), out.as_mut_ptr().cast());
            let size = checked(zstd_sys::ZSTD_compress2(self.0.get(), to, out.len(), from, data.len()))?;
            Ok(initialised(out, size))
        }
    }
}
