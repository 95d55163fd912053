//! What a copy is about, apart from the axes.

/// What stays the same on the way down through the axes.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub source: *const u8,
    pub target: *mut u8,
    /// Bytes of an element.
    pub size: usize,
    /// Whether the bytes of each element are reversed.
    pub swap: bool,
    pub far: bool,
}
