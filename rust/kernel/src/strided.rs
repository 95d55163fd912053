//! Copies between memory of different strides: the one inner loop of reading and writing.

/// How one dimension of a copy walks through memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub enum Walk<'a> {
    /// The same distance each time; negative where it runs backwards, zero where one element is for all.
    Even(isize),
    /// Element `i` lies at `list[i] * stride`.
    Listed(&'a [i64], isize),
}

/// One dimension of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Dim<'a> {
    /// How many elements.
    pub count: usize,
    /// The way through the source.
    pub source: Walk<'a>,
    /// The way through the target.
    pub target: Walk<'a>,
}

/// Copy elements of `size` bytes from `source` to `target`.
///
/// `dims` may be in any order. `swap` is the length of the units of which the bytes are reversed: 0 for none, 8 for
/// complex128. The two places do not overlap. `far` says that the target is large and not read again soon, so that
/// copying past the caches (streaming stores) may pay.
///
/// # Safety
///
/// Every element that `dims` lead to lies within memory that may be read at `source`, written at `target`.
pub unsafe fn copy(source: *const u8, target: *mut u8, dims: &[Dim<'_>], size: usize, swap: usize, far: bool) {
    let _ = (source, target, dims, size, swap, far);
    todo!()
}

/// Put `value` everywhere; `dims` as for [`copy`], their `source` is not looked at.
///
/// # Safety
///
/// Every element that `dims` lead to lies within memory that may be written at `target`.
pub unsafe fn fill(target: *mut u8, dims: &[Dim<'_>], value: &[u8]) {
    let _ = (target, dims, value);
    todo!()
}

/// Reverse the bytes of each unit of `unit` bytes (2, 4, 8, 16 or any other) in place.
pub fn swap_in_place(data: &mut [u8], unit: usize) {
    let _ = (data, unit);
    todo!()
}

/// Whether every element of `data`, contiguous elements of `value.len()` bytes, is `value`, bit for bit.
pub fn all_equal(data: &[u8], value: &[u8]) -> bool {
    let _ = (data, value);
    todo!()
}
