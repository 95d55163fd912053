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

/// Allocate `capacity` bytes, as returned by [`rounded`]; `zeroed` says that they must be initialised.
pub(super) fn allocate(capacity: usize, zeroed: bool) -> Result<*mut u8> {
    let failed = Error::Memory { bytes: capacity };
    if capacity == 0 {
        return Ok(std::ptr::without_provenance_mut(ALIGN));
    }
    #[cfg(target_os = "linux")]
    if capacity >= LARGE {
        return map(capacity).ok_or(failed);
    }
    let Ok(layout) = Layout::from_size_align(capacity, ALIGN) else { return Err(failed) };
    // SAFETY: the size of the layout is not 0.
    let start = unsafe { if zeroed { std::alloc::alloc_zeroed(layout) } else { std::alloc::alloc(layout) } };
    if start.is_null() { Err(failed) } else { Ok(start) }
}

/// Release what [`allocate`] returned for the same `capacity`.
///
/// # Safety
///
/// The memory is not used any more.
pub(super) unsafe fn release(start: *mut u8, capacity: usize) {
    if capacity == 0 {
        return;
    }
    #[cfg(target_os = "linux")]
    if capacity >= LARGE {
        // SAFETY: a separate mapping of this size.
        unsafe { libc::munmap(start.cast(), capacity) };
        return;
    }
    if let Ok(layout) = Layout::from_size_align(capacity, ALIGN) {
        // SAFETY: allocated with the same layout.
        unsafe { std::alloc::dealloc(start, layout) }
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

/// Allow the system to reclaim the pages under memory pressure, until they are written again.
///
/// # Safety
///
/// The memory was allocated with this `capacity`, and its content is not read any more.
pub(super) unsafe fn mark_reclaimable(start: *mut u8, capacity: usize) {
    #[cfg(target_os = "linux")]
    if capacity >= LARGE {
        // SAFETY: a separate mapping of this size, whose content may be lost.
        unsafe { libc::madvise(start.cast(), capacity, libc::MADV_FREE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, capacity);
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
