//! Output memory of codecs, and codecs whose encoded and decoded sizes are known in advance. Used by all codecs.
//!
//! A codec writes to an existing slice or to the spare capacity of a vector, which need not be initialised first.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::Codec;
use crate::{Error, Result};

/// Memory that a codec writes to; it may be uninitialised, so that it can not be read.
pub(super) struct OutputBuffer<'a> {
    start: *mut u8,
    size: usize,
    life: PhantomData<&'a mut [u8]>,
}

impl<'a> OutputBuffer<'a> {
    /// Write to a slice.
    pub fn new(out: &'a mut [u8]) -> OutputBuffer<'a> {
        OutputBuffer { start: out.as_mut_ptr(), size: out.len(), life: PhantomData }
    }

    /// Return the number of bytes.
    pub fn len(&self) -> usize {
        self.size
    }

    /// Return the address of the first byte; `len` bytes from there may be written.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start
    }

    /// Return the memory as uninitialised bytes.
    pub fn uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: `size` bytes from the start belong to the buffer, which is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.size) }
    }

    /// Return the rest after the first `skip` bytes; an empty buffer if there are no more.
    pub fn skip(&mut self, skip: usize) -> OutputBuffer<'_> {
        let skip = skip.min(self.size);
        // SAFETY: the address lies within the buffer or at its end.
        OutputBuffer { start: unsafe { self.start.add(skip) }, size: self.size - skip, life: PhantomData }
    }

    /// Write `data` at the start.
    ///
    /// # Panics
    ///
    /// If the buffer is too short.
    pub fn write(&mut self, data: &[u8]) {
        assert!(data.len() <= self.size, "the buffer is too short");
        // SAFETY: the length has been checked, and the buffer is borrowed exclusively.
        unsafe { self.start.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
    }
}

/// Append up to `size` bytes to `out`, which `work` writes.
///
/// # Errors
///
/// `Memory`, or the error of `work`; `out` keeps its length then.
///
/// # Safety
///
/// `work` returns the number of bytes that it has written at the start of its buffer.
pub(super) unsafe fn append(
    out: &mut Vec<u8>,
    size: usize,
    work: impl FnOnce(OutputBuffer<'_>) -> Result<usize>,
) -> Result<()> {
    out.try_reserve_exact(size).map_err(|_| Error::Memory { bytes: size })?;
    let old = out.len();
    let spare = out.spare_capacity_mut();
    let count = work(OutputBuffer { start: spare.as_mut_ptr().cast(), size, life: PhantomData })?;
    assert!(count <= size, "a codec has written beyond its buffer");
    // SAFETY: `old` bytes were initialised before and `count` more have been written, all within the capacity.
    unsafe { out.set_len(old + count) };
    Ok(())
}

/// A codec whose encoded size depends only on the size of its input, and whose decoded size is known without decoding.
///
/// # Safety
///
/// Where `encode` and `decode` return `Ok`, they have written all of their buffer.
pub(super) unsafe trait KnownSizeCodec: Send + Sync {
    /// The name for errors.
    fn name(&self) -> &str;

    /// Return the encoded size of `size` bytes.
    fn encoded(&self, size: usize) -> Result<usize>;

    /// Return the decoded size of `data`.
    fn decoded(&self, data: &[u8]) -> Result<usize>;

    /// Encode into a buffer of the size that `encoded` returns.
    fn encode(&self, data: &[u8], buffer: OutputBuffer<'_>) -> Result<()>;

    /// Return the decoded bytes as a part of `data`; see [`Codec::payload`].
    fn payload<'a>(&self, _data: &'a [u8]) -> Option<Result<&'a [u8]>> {
        None
    }

    /// Decode into a buffer of the size that `decoded` returns.
    fn decode(&self, data: &[u8], buffer: OutputBuffer<'_>) -> Result<()>;
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
        self.0.decode(data, OutputBuffer::new(out))
    }

    fn decode_up_to(&self, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let size = self.0.decoded(data)?;
        if size > limit {
            return Err(Error::wrong_size(self.name(), size, limit));
        }
        out.clear();
        // SAFETY: `decode` writes the whole buffer.
        unsafe { append(out, size, |buffer| self.0.decode(data, buffer).map(|()| size)) }
    }

    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let size = self.0.encoded(data.len())?;
        out.clear();
        // SAFETY: `encode` writes the whole buffer.
        unsafe { append(out, size, |buffer| self.0.encode(data, buffer).map(|()| size)) }
    }
}
