//! Memory that codecs write into, and codecs of which the sizes follow from one another.
//!
//! Decoders fill what is there already, or the spare room of a vector: neither is set to zero first.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::Codec;
use crate::{Error, Result};

/// Memory to write into; it may hold nothing that has ever been set, so it can't be read.
pub(super) struct Room<'a> {
    start: *mut u8,
    size: usize,
    life: PhantomData<&'a mut [u8]>,
}

impl<'a> Room<'a> {
    /// Take bytes as room.
    pub fn of(out: &'a mut [u8]) -> Room<'a> {
        Room { start: out.as_mut_ptr(), size: out.len(), life: PhantomData }
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.size
    }

    /// Where they begin; `len` bytes from there may be written.
    pub fn start(&mut self) -> *mut u8 {
        self.start
    }

    /// The bytes, of which nothing is set yet.
    pub fn unset(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: so many bytes from the start belong to the room, which is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.size) }
    }

    /// What is left after the first `skip` bytes (nothing, if there are no more).
    pub fn after(&mut self, skip: usize) -> Room<'_> {
        let skip = skip.min(self.size);
        // SAFETY: `skip` bytes from the start lie within the room, or at its end.
        Room { start: unsafe { self.start.add(skip) }, size: self.size - skip, life: PhantomData }
    }

    /// Write `data` at the start.
    ///
    /// # Panics
    ///
    /// If there is not enough room.
    pub fn put(&mut self, data: &[u8]) {
        assert!(data.len() <= self.size, "the room is large enough");
        // SAFETY: the length has been checked, and the room is borrowed exclusively.
        unsafe { self.start.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
    }
}

/// Let `work` write up to `size` bytes behind those of `out`.
///
/// # Errors
///
/// `Memory` if there is none, and what `work` returns; `out` has its old length then.
///
/// # Safety
///
/// `work` returns a number of bytes that it has written, from the start of its room.
pub(super) unsafe fn append(
    out: &mut Vec<u8>,
    size: usize,
    work: impl FnOnce(Room<'_>) -> Result<usize>,
) -> Result<()> {
    out.try_reserve_exact(size).map_err(|_| Error::Memory { bytes: size })?;
    let old = out.len();
    let spare = out.spare_capacity_mut();
    let count = work(Room { start: spare.as_mut_ptr().cast(), size, life: PhantomData })?;
    assert!(count <= size, "no more was written than there is room");
    // SAFETY: `old` bytes were set before and `count` more have been written, all within the capacity reserved.
    unsafe { out.set_len(old + count) };
    Ok(())
}

/// A codec of which the encoded size follows from the size, the other way round perhaps with a look at the data.
///
/// # Safety
///
/// Where they return `Ok`, `encode` and `decode` have written all of their room.
pub(super) unsafe trait Resize: Send + Sync {
    /// The name for errors.
    fn name(&self) -> &str;

    /// How many bytes `size` bytes take once encoded.
    fn encoded(&self, size: usize) -> Result<usize>;

    /// How many bytes `data` decodes to.
    fn decoded(&self, data: &[u8]) -> Result<usize>;

    /// Encode into room of the size that `encoded` says.
    fn encode(&self, data: &[u8], room: Room<'_>) -> Result<()>;

    /// What `data` holds, where it is there to be borrowed; see [`Codec::payload`].
    fn payload<'a>(&self, _data: &'a [u8]) -> Option<Result<&'a [u8]>> {
        None
    }

    /// Decode into room of the size that `decoded` says.
    fn decode(&self, data: &[u8], room: Room<'_>) -> Result<()>;
}

/// The codec that a `Resize` is.
pub(super) struct Resized<T>(pub T);

impl<T: Resize> Codec for Resized<T> {
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
        self.0.decode(data, Room::of(out))
    }

    fn decode_up_to(&self, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let size = self.0.decoded(data)?;
        if size > limit {
            return Err(Error::wrong_size(self.name(), size, limit));
        }
        out.clear();
        // SAFETY: `decode` writes all of its room.
        unsafe { append(out, size, |room| self.0.decode(data, room).map(|()| size)) }
    }

    fn encode(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let size = self.0.encoded(data.len())?;
        out.clear();
        // SAFETY: `encode` writes all of its room.
        unsafe { append(out, size, |room| self.0.encode(data, room).map(|()| size)) }
    }
}
