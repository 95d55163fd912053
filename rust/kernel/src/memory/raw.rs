//! Memory of the system: aligned allocations, and mappings for large blocks.

use std::alloc::Layout;

use crate::{Error, Result};

/// Alignment of every allocation, in bytes.
pub(super) const ALIGN: usize = 64;
/// From this size on an allocation is a separate mapping, in bytes.
pub(super) const LARGE: usize = 1 << 20;
/// Size of a huge page, in bytes.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;

/// Return the capacity to allocate for `size` bytes.
pub(super) fn rounded(size: usize) -> Result<usize> {
    #[cfg(target_os = "linux")]
    let unit = if size >= LARGE { HUGE } else { ALIGN };
    #[cfg(not(target_os = "linux"))]
    let unit = ALIGN;
    match size.checked_next_multiple_of(unit) {
        Some(capacity) if capacity <= isize::MAX as usize - (4 << 20) => Ok(capacity),
        _ => Err(Error::Memory { bytes: size }),
    }
}

/// Memory of the system, which is released when dropped.
#[derive(Debug)]
pub(super) struct Memory {
    start: *mut u8,
    capacity: usize,
}

// SAFETY: the memory is owned, and not tied to a thread.
unsafe impl Send for Memory {}
// SAFETY: a shared reference only exposes the address.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocate `capacity` bytes, as returned by [`rounded`]; `zeroed` says that they must be initialised.
    pub fn allocate(capacity: usize, zeroed: bool) -> Result<Memory> {
        let failed = Error::Memory { bytes: capacity };
        if capacity == 0 {
            return Ok(Memory { start: std::ptr::without_provenance_mut(ALIGN), capacity });
        }
        #[cfg(target_os = "linux")]
        if capacity >= LARGE {
            return map(capacity).map(|start| Memory { start, capacity }).ok_or(failed);
        }
        let Ok(layout) = Layout::from_size_align(capacity, ALIGN) else { return Err(failed) };
        // SAFETY: the size of the layout is not 0.
        let start = unsafe { if zeroed { std::alloc::alloc_zeroed(layout) } else { std::alloc::alloc(layout) } };
        if start.is_null() { Err(failed) } else { Ok(Memory { start, capacity }) }
    }

    /// Return the address of the first byte.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Return the number of bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Allow the system to reclaim the pages under memory pressure, until they are written again: their content is
    /// undefined from now on.
    pub fn mark_reclaimable(&mut self) {
        #[cfg(target_os = "linux")]
        if self.capacity >= LARGE {
            // SAFETY: a separate mapping of this size, whose content may be lost.
            unsafe { libc::madvise(self.start.cast(), self.capacity, libc::MADV_FREE) };
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.capacity == 0 {
            return;
        }
        #[cfg(target_os = "linux")]
        if self.capacity >= LARGE {
            // SAFETY: a separate mapping of this size, which is not used any more.
            unsafe { libc::munmap(self.start.cast(), self.capacity) };
            return;
        }
        if let Ok(layout) = Layout::from_size_align(self.capacity, ALIGN) {
            // SAFETY: allocated with the same layout, and not used any more.
            unsafe { std::alloc::dealloc(self.start, layout) }
        }
    }
}

/// Map `capacity` bytes, a multiple of the huge page size, aligned to huge pages; no page is touched.
#[cfg(target_os = "linux")]
fn map(capacity: usize) -> Option<*mut u8> {
    let length = capacity.checked_add(HUGE)?;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, at any address.
    let found = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
    if found == libc::MAP_FAILED {
        return None;
    }
    let found = found.cast::<u8>();
    let before = found.align_offset(HUGE).min(HUGE);
    let (start, after) = (found.wrapping_add(before), HUGE - before);
    // SAFETY: the parts before and after the aligned one belong to the new mapping, which is not used yet. A system
    // that ignores the advice does no harm.
    unsafe {
        if before > 0 {
            libc::munmap(found.cast(), before);
        }
        if after > 0 {
            libc::munmap(start.add(capacity).cast(), after);
        }
        libc::madvise(start.cast(), capacity, libc::MADV_HUGEPAGE);
    }
    Some(start)
}

/// Return the physical memory of this machine, in bytes.
pub(super) fn physical() -> usize {
    #[cfg(unix)]
    {
        // SAFETY: the queries have no side effects.
        let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
        if let (Ok(pages), Ok(page)) = (usize::try_from(pages), usize::try_from(page)) {
            return pages.saturating_mul(page);
        }
    }
    (4_u64 << 30).try_into().unwrap_or(usize::MAX)
}
