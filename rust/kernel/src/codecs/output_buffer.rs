//! Output memory of codecs, and codecs whose encoded and decoded sizes are known in advance. Used by all codecs.
//!
//! A codec writes to an existing slice or to the spare capacity of a vector, which need not be initialised first.

use std::mem::MaybeUninit;

use super::Codec;
use crate::memory::{as_uninit, as_uninit_mut, copy};
use crate::{Error, Result};

/// Memory that a codec fills from the start on; it may be uninitialised, so that it can not be read.
pub(super) struct OutputBuffer<'a> {
    room: &'a mut [MaybeUninit<u8>],
    /// The number of bytes at the start that have been written, and so are initialised.
    filled: usize,
}

impl<'a> OutputBuffer<'a> {
    /// Write to a slice.
    pub fn new(out: &'a mut [u8]) -> OutputBuffer<'a> {
        OutputBuffer { room: as_uninit_mut(out), filled: 0 }
    }

    /// Return the number of bytes that have been written.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Return the number of bytes that are left to be written.
    pub fn left(&self) -> usize {
        self.room.len() - self.filled
    }

    /// Write `data` next.
    ///
    /// # Panics
    ///
    /// If the buffer is too short.
    pub fn write(&mut self, data: &[u8]) {
        copy(data, &mut self.room[self.filled..][..data.len()]);
        self.filled += data.len();
    }

    /// Write items of `N` bytes next, as many as there is room for.
    #[inline(always)]
    pub fn write_each<const N: usize>(&mut self, items: impl Iterator<Item = [u8; N]>) {
        let mut count = 0;
        for (place, item) in self.room[self.filled..].chunks_exact_mut(N).zip(items) {
            place.copy_from_slice(as_uninit(&item));
            count += N;
        }
        self.filled += count;
    }

    /// Check that all of it has been written.
    ///
    /// # Panics
    ///
    /// If that is not so.
    fn finish(&self) -> Result<()> {
        assert!(self.left() == 0, "a codec has written too little");
        Ok(())
    }

    /// Call `work` with the memory that is left, of which it returns the bytes at the start that it has written; return
    /// their number.
    ///
    /// # Panics
    ///
    /// If it returns other memory.
    pub fn fill<E>(
        &mut self,
        work: impl FnOnce(&mut [MaybeUninit<u8>]) -> std::result::Result<&mut [u8], E>,
    ) -> std::result::Result<usize, E> {
        let room = &mut self.room[self.filled..];
        let start = room.as_ptr();
        let made = work(room)?;
        assert!(made.as_ptr() == start.cast(), "a codec has written elsewhere");
        self.filled += made.len();
        Ok(made.len())
    }
}

/// Append what `work` writes to `out`: up to `size` bytes.
///
/// # Errors
///
/// `Memory`, or the error of `work`; `out` keeps its length then.
pub(super) fn append<T>(
    out: &mut Vec<u8>,
    size: usize,
    work: impl FnOnce(&mut OutputBuffer<'_>) -> Result<T>,
) -> Result<T> {
    out.try_reserve_exact(size).map_err(|_| Error::Memory { bytes: size })?;
    let old = out.len();
    let mut buffer = OutputBuffer { room: &mut out.spare_capacity_mut()[..size], filled: 0 };
    let result = work(&mut buffer)?;
    let length = old + buffer.filled;
    // SAFETY: `old` bytes were initialised before, and the buffer has been filled with the others, within the capacity.
    unsafe { out.set_len(length) };
    Ok(result)
}

/// A codec whose encoded size depends only on the size of its input, and whose decoded size is known without decoding.
///
/// Where `encode` and `decode` return `Ok`, they have written all of their buffer.
pub(super) trait KnownSizeCodec: Send + Sync {
    /// The name for errors.
    fn name(&self) -> &str;

    /// Return the encoded size of `size` bytes.
    fn encoded(&self, size: usize) -> Result<usize>;

    /// Return the decoded size of `data`.
    fn decoded(&self, data: &[u8]) -> Result<usize>;

    /// Encode into a buffer of the size that `encoded` returns.
    fn encode(&self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()>;

    /// Return the decoded bytes as a part of `data`; see [`Codec::payload`].
    fn payload<'a>(&self, _data: &'a [u8]) -> Option<Result<&'a [u8]>> {
        None
    }

    /// Decode into a buffer of the size that `decoded` returns.
    fn decode(&self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()>;
}

/// Makes a [`Codec`] of a `KnownSizeCodec`.
pub(super) struct KnownSize<T>(pub T);

impl<T: KnownSizeCodec> Codec for KnownSize<T> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn encoded_size(&self, size: usize) -> Option<usize> {
        self.0.encoded(size).ok()
    }

    fn decoded_size(&self, data: &[u8]) -> Result<Option<usize>> {
        self.0.decoded(data).map(Some)
    }

    fn payload<'a>(&self, data: &'a [u8]) -> Option<Result<&'a [u8]>> {
        self.0.payload(data)
    }

    fn is_slow(&self) -> bool {
        false
    }

    fn decode(&self, data: &[u8], out: &mut [u8]) -> Result<()> {
        let size = self.0.decoded(data)?;
        if size != out.len() {
            return Err(Error::wrong_size(self.name(), size, out.len()));
        }
        let mut buffer = OutputBuffer::new(out);
        self.0.decode(data, &mut buffer)?;
        buffer.finish()
    }

    fn decode_up_to(&self, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let size = self.0.decoded(data)?;
        if size > limit {
            return Err(Error::wrong_size(self.name(), size, limit));
        }
        out.clear();
        append(out, size, |buffer| {
            self.0.decode(data, buffer)?;
            buffer.finish()
        })
    }

    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let size = self.0.encoded(data.len())?;
        out.clear();
        append(out, size, |buffer| {
            self.0.encode(data, buffer)?;
            buffer.finish()
        })
    }
}
