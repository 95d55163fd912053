//! The C libraries of the codecs as safe functions. Used by the codecs of these names, and by `blosc`.
//!
//! These modules declare a C function as safe if no argument can make it unsound, and wrap a function that takes an
//! address and a length in one that takes a slice.

pub(super) mod deflate;
pub(super) mod lz4;
pub(super) mod zstd;

use std::ptr::NonNull;

/// A context of a library, which is freed when dropped.
struct Context<T, R> {
    pointer: NonNull<T>,
    free: unsafe extern "C" fn(*mut T) -> R,
}

// SAFETY: a context is owned, and not tied to a thread.
unsafe impl<T, R> Send for Context<T, R> {}

impl<T, R> Context<T, R> {
    /// Take over a new context; `None` if there was not enough memory for it.
    ///
    /// # Safety
    ///
    /// Nothing else uses the context, which any thread may use; `free` frees it.
    unsafe fn new(pointer: *mut T, free: unsafe extern "C" fn(*mut T) -> R) -> Option<Context<T, R>> {
        NonNull::new(pointer).map(|pointer| Context { pointer, free })
    }

    /// Return the context, of which only the library knows what it holds.
    fn get(&mut self) -> &mut T {
        // SAFETY: the context is owned, and alive until this is dropped.
        unsafe { self.pointer.as_mut() }
    }
}

impl<T, R> Drop for Context<T, R> {
    fn drop(&mut self) {
        // SAFETY: by the contract of `new`; it is not used any more.
        unsafe { (self.free)(self.pointer.as_ptr()) };
    }
}
