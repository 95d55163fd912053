//! Bytes that may be uninitialised: views of other bytes as such, and of initialised ones as plain bytes.

use std::mem::MaybeUninit;

/// View bytes as bytes that may be uninitialised.
pub fn as_uninit(bytes: &[u8]) -> &[MaybeUninit<u8>] {
    // SAFETY: the layout is the same, and a shared reference is not written to.
    unsafe { &*(std::ptr::from_ref(bytes) as *const [MaybeUninit<u8>]) }
}

/// View bytes as memory to write to.
pub fn as_uninit_mut(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: the layout is the same, and nothing in this crate makes bytes uninitialised.
    unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) }
}

/// View the first `count` bytes as initialised.
///
/// # Panics
///
/// If there are fewer.
///
/// # Safety
///
/// They have been written.
pub unsafe fn initialised(bytes: &mut [MaybeUninit<u8>], count: usize) -> &mut [u8] {
    let written = &mut bytes[..count];
    // SAFETY: the layout is the same, and the caller guarantees that they are initialised.
    unsafe { &mut *(std::ptr::from_mut(written) as *mut [u8]) }
}

/// Copy all of `from` to `to`, which is as long.
pub fn copy(from: &[u8], to: &mut [MaybeUninit<u8>]) {
    to.copy_from_slice(as_uninit(from));
}

/// Make all bytes zeros.
pub fn zeros(bytes: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    bytes.fill(MaybeUninit::new(0));
    let count = bytes.len();
    // SAFETY: all of them have just been written.
    unsafe { initialised(bytes, count) }
}
