//! libdeflate.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use libdeflate_sys::{libdeflate_compressor, libdeflate_decompressor};

use super::Context;
use crate::memory::initialised;

/// The containers of DEFLATE.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::codecs) enum Container {
    Gzip,
    Zlib,
}

/// The reasons not to decode a member.
pub(in crate::codecs) enum Failure {
    /// The output is too short.
    Short,
    /// The data is damaged.
    Damaged,
}

// SAFETY: the signatures are those of the library. The functions compute numbers.
unsafe extern "C" {
    safe fn libdeflate_gzip_compress_bound(context: &mut libdeflate_compressor, size: usize) -> usize;
    safe fn libdeflate_zlib_compress_bound(context: &mut libdeflate_compressor, size: usize) -> usize;
}

/// Return the CRC-32 of `data`.
pub(crate) fn crc32(data: &[u8]) -> u32 {
    // SAFETY: the function reads the data, nothing else.
    unsafe { libdeflate_sys::libdeflate_crc32(0, data.as_ptr().cast(), data.len()) }
}

/// Return the Adler-32 checksum of `data`.
pub(in crate::codecs) fn adler32(data: &[u8]) -> u32 {
    // SAFETY: the function reads the data, nothing else.
    unsafe { libdeflate_sys::libdeflate_adler32(1, data.as_ptr().cast(), data.len()) }
}

/// A decompressor.
pub(in crate::codecs) struct Decoder(Context<libdeflate_decompressor, ()>);

impl Decoder {
    /// Make a decompressor, if there is enough memory.
    pub fn new() -> Option<Decoder> {
        // SAFETY: the context is a new one.
        unsafe {
            Context::new(libdeflate_sys::libdeflate_alloc_decompressor(), libdeflate_sys::libdeflate_free_decompressor)
        }
        .map(Decoder)
    }

    /// Decode the first member of `data` to the start of `out`; return what was written, and the length of the member.
    pub fn decode<'o>(
        &mut self,
        container: Container,
        data: &[u8],
        out: &'o mut [MaybeUninit<u8>],
    ) -> Result<(&'o mut [u8], usize), Failure> {
        let inflate = match container {
            Container::Gzip => libdeflate_sys::libdeflate_gzip_decompress_ex,
            Container::Zlib => libdeflate_sys::libdeflate_zlib_decompress_ex,
        };
        let (mut taken, mut made) = (0, 0);
        // SAFETY: the library keeps to the given slices, and has written as many bytes as it reports.
        unsafe {
            let (from, to) = (data.as_ptr().cast(), out.as_mut_ptr().cast());
            match inflate(self.0.get(), from, data.len(), to, out.len(), &mut taken, &mut made) {
                libdeflate_sys::libdeflate_result_LIBDEFLATE_SUCCESS => Ok((initialised(out, made), taken)),
                libdeflate_sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => Err(Failure::Short),
                _ => Err(Failure::Damaged),
            }
        }
    }
}

/// A compressor.
pub(in crate::codecs) struct Encoder(Context<libdeflate_compressor, ()>);

impl Encoder {
    /// Make a compressor for a level, if there is such a level and enough memory.
    pub fn new(level: c_int) -> Option<Encoder> {
        // SAFETY: the context is a new one.
        unsafe {
            Context::new(libdeflate_sys::libdeflate_alloc_compressor(level), libdeflate_sys::libdeflate_free_compressor)
        }
        .map(Encoder)
    }

    /// Return the largest encoded size of `size` bytes.
    pub fn bound(&mut self, container: Container, size: usize) -> usize {
        match container {
            Container::Gzip => libdeflate_gzip_compress_bound(self.0.get(), size),
            Container::Zlib => libdeflate_zlib_compress_bound(self.0.get(), size),
        }
    }

    /// Encode `data` to the start of `out`; return what was written, which is nothing if `out` is too short.
    pub fn encode<'o>(&mut self, container: Container, data: &[u8], out: &'o mut [MaybeUninit<u8>]) -> &'o mut [u8] {
        let deflate = match container {
            Container::Gzip => libdeflate_sys::libdeflate_gzip_compress,
            Container::Zlib => libdeflate_sys::libdeflate_zlib_compress,
        };
        // SAFETY: the library keeps to the given slices, and has written as many bytes as it reports.
        unsafe {
            let (from, to) = (data.as_ptr().cast(), out.as_mut_ptr().cast());
            let size = deflate(self.0.get(), from, data.len(), to, out.len());
            initialised(out, size)
        }
    }
}
