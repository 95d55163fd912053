//! State of a process that a forked child makes anew, since another thread of its parent may have held a lock in it.

use std::sync::atomic::{AtomicPtr, Ordering};

/// A value of this process, which the first call makes.
pub(crate) struct OfProcess<T>(AtomicPtr<T>);

impl<T: Send + Sync> OfProcess<T> {
    /// Make a place without a value.
    pub const fn empty() -> OfProcess<T> {
        OfProcess(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Return the value, made by `make` if there is none. It is never freed, even if another thread makes one as well.
    pub fn get(&self, make: impl FnOnce() -> T) -> &'static T
    where
        T: 'static,
    {
        let mut found = self.0.load(Ordering::Acquire);
        if found.is_null() {
            let new = std::ptr::from_mut(Box::leak(Box::new(make())));
            found = match self.0.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => new,
                Err(other) => other,
            };
        }
        // SAFETY: the address of a box that was leaked, here or by another call.
        unsafe { &*found }
    }

    /// Forget the value.
    pub fn forget(&self) {
        self.0.store(std::ptr::null_mut(), Ordering::Release);
    }
}
