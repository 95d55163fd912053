//! What is asked for of one chunk, read and put to its place.

use crate::array::{Chain, Elements};
use crate::memory::with_scratch;
use crate::placing::{Placing, Work, content_size};
use crate::plan::Item;
use crate::stores::{Slice, Value};
use crate::{Error, Result, strided};

/// Values up to this length are read as a whole rather than by parts.
pub(super) const SMALL: usize = 1 << 16;
/// Chunks from this length on are decoded by several threads, where their codec allows it.
pub(crate) const LARGE: usize = 1 << 20;
/// Chunks up to this length are decoded as a whole.
const PAGE: usize = 1 << 12;

/// Put the fill value where a missing chunk is asked for.
pub(super) fn fill(chain: &Chain, shape: &[u64], item: &Item<'_>, value: &[u8], work: Work) -> Result<()> {
    let stored = chain.stored_shape(shape);
    content_size(&stored, value.len())?;
    let mut points = Vec::new();
    let placing = Placing::new(item, chain.order.as_deref(), &stored, value.len(), &mut points)?;
    let value = &value[work.offset..work.offset + work.size];
    // SAFETY: the caller of `read` vouches for the work buffer's places.
    unsafe { strided::fill(work.start.offset(placing.target), &placing.dims, value) };
    Ok(())
}

#[derive(Clone, Copy)]
pub(super) struct Reading<'r> {
    pub chain: &'r Chain,
    pub fill: &'r [u8],
    pub work: Work,
    pub threads: usize,
}

impl Reading<'_> {
    /// Read part of a chunk of `shape` that is stored as `value`.
    pub(super) fn value(&self, value: &dyn Value, shape: &[u64], item: &Item<'_>) -> Result<()> {
        let chain = self.chain;
        let stored = chain.stored_shape(shape);
        if let Some(sharding) = chain.sharding() {
            if chain.buffers.is_empty() {
                return self.shard(sharding, value, &stored, item);
            }
            return value.with_all(&mut |data| {
                let mut shard = Vec::new();
                decode_shard(chain, data, content_size(&stored, self.fill.len())?, &mut shard)?;
                self.shard(sharding, &Slice(&shard), &stored, item)
            });
        }
        let Some(elements) = chain.elements() else { return Ok(()) };
        let content = content_size(&stored, elements.size)?;
        let mut points = Vec::new();
        let placing = Placing::new(item, chain.order.as_deref(), &stored, elements.size, &mut points)?;
        let partly = placing.count.saturating_mul(elements.size) < content;
        if let Some(blocks) = chain.blocks() {
            if content > LARGE && self.threads > 1 || partly && content > PAGE {
                return self.by_blocks(blocks, value, content, &placing, elements);
            }
        } else if chain.buffers.is_empty() && partly && content > SMALL && elements.text.is_none() {
            if let Some(parts) = value.parts() {
                if let Some(depth) = placing.depth(content, elements.size, parts) {
                    return self.by_ranges(value, content, &placing, depth, elements);
                }
            }
        }
        value.with_all(&mut |data| self.whole(data, content, &placing, elements))
    }

    /// Decode all of a chunk, straight to its place if it lies there in one piece.
    pub(super) fn whole(&self, data: &[u8], content: usize, placing: &Placing<'_>, elements: &Elements) -> Result<()> {
        if let Some(out) = self.in_one_piece(content, placing) {
            return self.chain.decode_content(data, out);
        }
        if self.chain.buffers.is_empty() && elements.text.is_none() {
            if data.len() != content {
                return Err(Error::wrong_size("bytes", data.len(), content));
            }
            // SAFETY: the chunk's content has been checked to be all there.
            unsafe { self.copy(data, placing, elements.swap) };
            return Ok(());
        }
        with_scratch(content, |chunk| {
            self.chain.decode_buffers(data, chunk)?;
            self.place(chunk, placing, elements)
        })
    }

    /// The memory of the target that a whole chunk fills as it is.
    pub(super) fn in_one_piece<'m>(&self, content: usize, placing: &Placing<'_>) -> Option<&'m mut [u8]> {
        if !placing.in_one_piece || self.work.size != self.fill.len() {
            return None;
        }
        // SAFETY: the caller of `read` vouches for the work buffer's places, which are these; chunks do not overlap.
        Some(unsafe { std::slice::from_raw_parts_mut(self.work.start.offset(placing.target), content) })
    }

    pub(super) fn place(&self, chunk: &mut [u8], placing: &Placing<'_>, elements: &Elements) -> Result<()> {
        let mut swap = elements.swap;
        if elements.text.is_some() {
            elements.to_memory(chunk)?;
            swap = 0;
        }
        // SAFETY: `chunk` holds all of the content.
        unsafe { self.copy(chunk, placing, swap) };
        Ok(())
    }

    /// Copy what is asked for of a chunk's content.
    ///
    /// # Safety
    ///
    /// All that `placing` leads to lies within `chunk`.
    pub(super) unsafe fn copy(&self, chunk: &[u8], placing: &Placing<'_>, swap: usize) {
        // SAFETY: as above for the source; the caller of `read` vouches for the work buffer.
        unsafe {
            let source = chunk.as_ptr().add(placing.source + self.work.offset);
            let target = self.work.start.offset(placing.target);
            strided::copy(source, target, &placing.dims, self.work.size, swap, self.work.far);
        }
    }
}

/// Undo the buffer codecs around a shard of `content` bytes of elements, whose encoded length is not known.
pub(crate) fn decode_shard(chain: &Chain, data: &[u8], content: usize, out: &mut Vec<u8>) -> Result<()> {
    // an index, and room that is not used any more, take as much as the elements at the very most
    let most = content.saturating_mul(16).saturating_add(1 << 20);
    let mut current: Vec<u8> = Vec::new();
    for (position, codec) in chain.buffers.iter().rev().enumerate() {
        codec.decode_up_to(if position == 0 { data } else { &current }, most, out)?;
        std::mem::swap(out, &mut current);
    }
    *out = current;
    Ok(())
}
