//! Memory as the system gives it.

use std::alloc::Layout;

use crate::{Error, Result};

/// What every piece of memory is aligned to.
pub(super) const ALIGN: usize = 64;
/// From here on memory is mapped on its own.
pub(super) const LARGE: usize = 1 << 20;
/// The size of a huge page.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;

/// Return how many bytes are taken where `size` are needed.
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

/// Take `capacity` bytes, a number from [`rounded`]; `zeroed` where they must be defined.
pub(super) fn take(capacity: usize, zeroed: bool) -> Result<*mut u8> {
    let failed = Error::Memory { bytes: capacity };
    if capacity == 0 {
        return Ok(std::ptr::without_provenance_mut(ALIGN));
    }
    #[cfg(target_os = "linux")]
    if capacity >= LARGE {
        return map(capacity).ok_or(failed);
    }
    let Ok(layout) = Layout::from_size_align(capacity, ALIGN) else { return Err(failed) };
    // SAFETY: the layout's size is not 0.
    let start = unsafe { if zeroed { std::alloc::alloc_zeroed(layout) } else { std::alloc::alloc(layout) } };
    if start.is_null() { Err(failed) } else { Ok(start) }
}

/// Give back what [`take`] returned for the same `capacity`.
///
/// # Safety
///
/// Nothing uses the memory any more.
pub(super) unsafe fn give(start: *mut u8, capacity: usize) {
    if capacity == 0 {
        return;
    }
    #[cfg(target_os = "linux")]
    if capacity >= LARGE {
        // SAFETY: a mapping of its own, of this size.
        unsafe { libc::munmap(start.cast(), capacity) };
        return;
    }
    if let Ok(layout) = Layout::from_size_align(capacity, ALIGN) {
        // SAFETY: taken with the same layout.
        unsafe { std::alloc::dealloc(start, layout) }
    }
}

/// Map `capacity` bytes, a multiple of huge pages, aligned to them; no page is touched.
#[cfg(target_os = "linux")]
fn map(capacity: usize) -> Option<*mut u8> {
    let length = capacity.checked_add(HUGE)?;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, anywhere.
    let found = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
    if found == libc::MAP_FAILED {
        return None;
    }
    let found = found.cast::<u8>();
    let before = found.align_offset(HUGE).min(HUGE);
    let (start, after) = (found.wrapping_add(before), HUGE - before);
    // SAFETY: what lies before and after the aligned part belongs to the new mapping, which nothing uses yet. Advice
    // that the system does not take is no failure.
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

/// Let the system take the pages when it needs them, as long as they are not written again; until then they stay.
///
/// # Safety
///
/// The memory was taken with this `capacity`, and nothing reads what it holds any more.
pub(super) unsafe fn offer(start: *mut u8, capacity: usize) {
    #[cfg(target_os = "linux")]
    if capacity >= LARGE {
        // SAFETY: a mapping of its own, of this size, whose content matters to nobody.
        unsafe { libc::madvise(start.cast(), capacity, libc::MADV_FREE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, capacity);
}

/// Return the bytes of memory that this machine has.
pub(super) fn physical() -> usize {
    #[cfg(unix)]
    {
        // SAFETY: questions without side effects.
        let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
        if let (Ok(pages), Ok(page)) = (usize::try_from(pages), usize::try_from(page)) {
            return pages.saturating_mul(page);
        }
    }
    (4_u64 << 30).try_into().unwrap_or(usize::MAX)
}
