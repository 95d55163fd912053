//! Memory mapped on its own and advised to use huge pages.

use std::io;
use std::ptr;

const HUGE: usize = 2 << 20;

/// Bytes that start at a huge page; they are not touched until someone does.
pub struct Block {
    map: *mut u8,
    mapped: usize,
    start: *mut u8,
    size: usize,
}

// SAFETY: the mapping is owned, and nothing of it is tied to a thread.
unsafe impl Send for Block {}
// SAFETY: a shared block is only read.
unsafe impl Sync for Block {}

impl Block {
    pub fn new(size: usize) -> io::Result<Block> {
        let mapped = size.div_ceil(HUGE).max(1) * HUGE + HUGE;
        // SAFETY: an anonymous mapping at an address of the system's choice touches nothing that exists.
        let map = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = map.cast::<u8>();
        // SAFETY: the mapping is larger than `size` by a huge page, so the rounded address lies within.
        let start = unsafe { map.add(map.align_offset(HUGE)) };
        // SAFETY: advice about our own mapping.
        #[cfg(target_os = "linux")]
        unsafe {
            libc::madvise(map.cast(), mapped, libc::MADV_HUGEPAGE);
        }
        Ok(Block { map, mapped, start, size })
    }

    /// No memory at all, to stand in for a block that is lent.
    pub fn none() -> Block {
        Block { map: ptr::null_mut(), mapped: 0, start: ptr::dangling_mut(), size: 0 }
    }

    pub fn start(&self) -> *mut u8 {
        self.start
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `size` bytes from `start` are mapped; anonymous memory is zeroed.
        unsafe { std::slice::from_raw_parts(self.start, self.size) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.size) }
    }

    /// At least `size` bytes, the same ones every time unless more are wanted than ever before.
    pub fn at_least(&mut self, size: usize) -> io::Result<&mut [u8]> {
        if size > self.size {
            *self = Block::new(size)?;
        }
        Ok(&mut self.bytes_mut()[..size])
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.map.is_null() {
            return;
        }
        // SAFETY: this is the mapping that `new` made, and nobody holds a reference into it.
        unsafe {
            libc::munmap(self.map.cast(), self.mapped);
        }
    }
}
