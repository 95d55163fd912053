//! Parameters of a copy, apart from its axes.

/// Addresses and element format of a copy, or of a part of it.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub source: *const u8,
    pub target: *mut u8,
    /// Bytes of an element.
    pub size: usize,
    /// Whether to reverse the bytes of each element.
    pub swap: bool,
    /// Whether to write with streaming stores.
    pub bypass_cache: bool,
}
