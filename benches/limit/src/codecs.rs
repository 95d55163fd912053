//! Whole chunks encoded and decoded, with contexts that are used again.

use crate::array::Codec;
use std::io;

/// The contexts of one thread.
pub struct Codecs {
    unzstd: *mut zstd_sys::ZSTD_DCtx,
    zstd: *mut zstd_sys::ZSTD_CCtx,
    inflate: *mut libdeflate_sys::libdeflate_decompressor,
    deflate: *mut libdeflate_sys::libdeflate_compressor,
}

// SAFETY: contexts may move between threads as long as one uses them at a time.
unsafe impl Send for Codecs {}

fn wrong(codec: &str) -> io::Error {
    io::Error::other(format!("{codec} failed"))
}

impl Codecs {
    pub fn new() -> Codecs {
        // SAFETY: these only allocate; the process ends with them.
        unsafe {
            Codecs {
                unzstd: zstd_sys::ZSTD_createDCtx(),
                zstd: zstd_sys::ZSTD_createCCtx(),
                inflate: libdeflate_sys::libdeflate_alloc_decompressor(),
                deflate: libdeflate_sys::libdeflate_alloc_compressor(1),
            }
        }
    }

    /// No contexts at all, to stand in for those that are lent.
    pub fn none() -> Codecs {
        use std::ptr::null_mut;
        Codecs { unzstd: null_mut(), zstd: null_mut(), inflate: null_mut(), deflate: null_mut() }
    }

    /// Decode a whole chunk of exactly `into.len()` bytes.
    pub fn decode(&mut self, codec: Codec, data: &[u8], into: &mut [u8]) -> io::Result<()> {
        let (from, size) = (data.as_ptr(), into.len());
        let to = into.as_mut_ptr();
        // SAFETY: lengths are those of the slices; Blosc is told how much room there is and trusts its own header for
        // the input, which this program or one of the contenders wrote.
        let good = unsafe {
            match codec {
                Codec::None => {
                    into.copy_from_slice(data);
                    true
                }
                Codec::BloscLz4 | Codec::BloscZstd => {
                    blosc_src::blosc_decompress_ctx(from.cast(), to.cast(), size, 1) == size as libc::c_int
                }
                Codec::Zstd => {
                    zstd_sys::ZSTD_decompressDCtx(self.unzstd, to.cast(), size, from.cast(), data.len()) == size
                }
                Codec::Zlib | Codec::Gzip => {
                    let mut got = 0;
                    let call = match codec {
                        Codec::Zlib => libdeflate_sys::libdeflate_zlib_decompress,
                        _ => libdeflate_sys::libdeflate_gzip_decompress,
                    };
                    call(self.inflate, from.cast(), data.len(), to.cast(), size, &mut got) == 0 && got == size
                }
            }
        };
        if good { Ok(()) } else { Err(wrong("decoding")) }
    }

    /// Encode a chunk and return how many bytes it became.
    pub fn encode(&mut self, codec: Codec, item: usize, data: &[u8], into: &mut [u8]) -> io::Result<usize> {
        let (from, size) = (data.as_ptr(), data.len());
        let (to, room) = (into.as_mut_ptr(), into.len());
        // SAFETY: lengths are those of the slices, and the names are C strings.
        let put = unsafe {
            match codec {
                Codec::None => {
                    into[..size].copy_from_slice(data);
                    size
                }
                Codec::BloscLz4 | Codec::BloscZstd => {
                    let (name, shuffle) = if codec == Codec::BloscLz4 { (c"lz4", 1) } else { (c"zstd", 2) };
                    let put = blosc_src::blosc_compress_ctx(
                        5,
                        shuffle,
                        item,
                        size,
                        from.cast(),
                        to.cast(),
                        room,
                        name.as_ptr(),
                        0,
                        1,
                    );
                    usize::try_from(put).map_err(|_| wrong("Blosc"))?
                }
                Codec::Zstd => {
                    let put = zstd_sys::ZSTD_compressCCtx(self.zstd, to.cast(), room, from.cast(), size, 3);
                    if zstd_sys::ZSTD_isError(put) != 0 { 0 } else { put }
                }
                Codec::Zlib => {
                    libdeflate_sys::libdeflate_zlib_compress(self.deflate, from.cast(), size, to.cast(), room)
                }
                Codec::Gzip => {
                    libdeflate_sys::libdeflate_gzip_compress(self.deflate, from.cast(), size, to.cast(), room)
                }
            }
        };
        if put == 0 { Err(wrong("encoding")) } else { Ok(put) }
    }
}

/// Room that is enough for whatever `size` bytes become.
pub fn bound(size: usize) -> usize {
    size + size / 64 + 4096
}
