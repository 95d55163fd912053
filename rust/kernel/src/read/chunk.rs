//! Reads the selected part of one chunk. Called by `read` for each chunk of a plan, and by `shards` for inner chunks.

use crate::chain::{Chain, Elements};
use crate::memory::with_scratch;
use crate::plan::Item;
use crate::stores::{Slice, Value};
use crate::strided_copy::{StridedCopy, WorkBuffer, content_size};
use crate::{Error, Result, strided};

/// Values up to this length are read as a whole, in bytes.
pub(super) const SMALL: usize = 1 << 16;
/// Chunks from this length on are decoded by several threads where the codec allows it, in bytes.
pub(crate) const LARGE: usize = 1 << 20;
/// Chunks up to this length are decoded as a whole, in bytes.
const PAGE: usize = 1 << 12;

/// Return whether `count` chunks of `content` bytes take less time than waking another thread.
pub(super) fn is_small(chain: &Chain, count: usize, content: u64) -> bool {
    let weight = if chain.buffers.iter().any(|codec| codec.is_slow()) { 4 } else { 1 };
    (count as u64).saturating_mul(content.saturating_mul(weight).saturating_add(8192)) < 120_000
}

#[derive(Clone, Copy)]
/// The parameters of a read that are the same for all (inner) chunks of a value.
pub(super) struct Reading<'r> {
    pub chain: &'r Chain,
    pub fill: &'r [u8],
    pub work: WorkBuffer,
    pub threads: usize,
    /// Whether chunks that are not stored are an error.
    pub strict: bool,
}

impl Reading<'_> {
    /// Write the fill value to the places of a chunk that is not stored, unless that is an error.
    pub(super) fn missing(&self, shape: &[u64], item: &Item<'_>) -> Result<()> {
        if self.strict {
            return Err(Error::NotStored(vec![item.coords.to_vec()]));
        }
        let (work, size) = (self.work, self.fill.len());
        let stored = self.chain.stored_shape(shape);
        content_size(&stored, size)?;
        let mut points = Vec::new();
        let copy = StridedCopy::new(item, self.chain.order.as_deref(), &stored, size, &mut points)?;
        let value = &self.fill[work.offset..work.offset + work.size];
        // SAFETY: the caller of `read` guarantees the places in the work buffer.
        unsafe { strided::fill(work.start.offset(copy.target), &copy.dims, value) };
        Ok(())
    }

    /// Read the selection `item` of a chunk of `shape` that is stored as `value`.
    pub(super) fn value(&self, value: &dyn Value, shape: &[u64], item: &Item<'_>) -> Result<()> {
        let chain = self.chain;
        let stored = chain.stored_shape(shape);
        if let Some(sharding) = chain.sharding() {
            if chain.buffers.is_empty() {
                if self.prefers_whole_shard(sharding, value, &stored, item)? {
                    return value.with_all(&mut |data| self.shard(sharding, &Slice(data), &stored, item));
                }
                return self.shard(sharding, value, &stored, item);
            }
            return value.with_all(&mut |data| {
                let mut shard = Vec::new();
                decode_shard(chain, data, content_size(&stored, self.fill.len())?, &mut shard)?;
                self.shard(sharding, &Slice(&shard), &stored, item)
            });
        }
        // by blocks or by ranges, where only part of the chunk is needed or several threads may decode it
        let Some(elements) = chain.elements() else { return Ok(()) };
        let content = content_size(&stored, elements.size)?;
        let mut points = Vec::new();
        let copy = StridedCopy::new(item, chain.order.as_deref(), &stored, elements.size, &mut points)?;
        let partly = copy.count.saturating_mul(elements.size) < content;
        if let Some(blocks) = chain.blocks() {
            if content > LARGE || partly && content > PAGE {
                return self.by_blocks(blocks, value, content, &copy, elements);
            }
        } else if let Some(parts) = value.parts().filter(|_| chain.buffers.is_empty() && content > SMALL) {
            if partly && elements.text.is_none() {
                if let Some(depth) = copy.range_depth(content, elements.size, parts, &|at| value.is_cached(at)) {
                    return self.by_ranges(value, content, &copy, depth, elements);
                }
            }
            if elements.text.is_none() && self.by_pieces(value, content, &copy, elements)? {
                return Ok(());
            }
        }
        value.with_all(&mut |data| self.whole(data, content, &copy, elements))
    }

    /// Decode a whole chunk: directly into the work buffer if the layout is the same.
    pub(super) fn whole(&self, data: &[u8], content: usize, copy: &StridedCopy<'_>, elements: &Elements) -> Result<()> {
        if let Some(out) = self.direct_target(content, copy) {
            return self.chain.decode_content(data, out);
        }
        if self.chain.buffers.is_empty() && elements.text.is_none() {
            if data.len() != content {
                return Err(Error::wrong_size("bytes", data.len(), content));
            }
            self.copy_out(data, copy, elements.swap);
            return Ok(());
        }
        with_scratch(content, |chunk| {
            // all of a chunk of text has to be checked
            let needed = if elements.text.is_some() { content } else { copy.end(elements.size) };
            self.chain.decode_beginning(data, needed, chunk)?;
            self.place(chunk, copy, elements)
        })
    }

    /// Return the memory of the work buffer for a chunk that is decoded directly into it.
    pub(super) fn direct_target<'m>(&self, content: usize, copy: &StridedCopy<'_>) -> Option<&'m mut [u8]> {
        if !copy.is_contiguous || self.work.size != self.fill.len() {
            return None;
        }
        // SAFETY: the caller of `read` guarantees the places in the work buffer, which are these; chunks do not overlap.
        Some(unsafe { std::slice::from_raw_parts_mut(self.work.start.offset(copy.target), content) })
    }

    /// Copy the selected elements of a decoded chunk, in their stored byte order, into the work buffer.
    pub(super) fn place(&self, chunk: &mut [u8], copy: &StridedCopy<'_>, elements: &Elements) -> Result<()> {
        let mut swap = elements.swap;
        if elements.text.is_some() {
            elements.to_memory(chunk)?;
            swap = 0;
        }
        self.copy_out(chunk, copy, swap);
        Ok(())
    }

    /// Copy the selected elements of a chunk's content into the work buffer.
    ///
    /// # Panics
    ///
    /// If `chunk` is not the whole content.
    pub(super) fn copy_out(&self, chunk: &[u8], copy: &StridedCopy<'_>, swap: usize) {
        assert!(chunk.len() >= copy.content, "the content of the chunk is too short");
        // SAFETY: the caller of `read` guarantees that the elements lie within the chunk, and the work buffer.
        unsafe {
            let source = chunk.as_ptr().add(copy.source + self.work.offset);
            let target = self.work.start.offset(copy.target);
            strided::copy(source, target, &copy.dims, self.work.size, swap, self.work.bypass_cache);
        }
    }
}

/// Undo the codecs around a shard of `content` bytes of elements, whose encoded length is not known.
pub(crate) fn decode_shard(chain: &Chain, data: &[u8], content: usize, out: &mut Vec<u8>) -> Result<()> {
    // upper limit for the inner chunks, the index and unused space
    let most = content.saturating_mul(16).saturating_add(1 << 20);
    let mut current: Vec<u8> = Vec::new();
    for (position, codec) in chain.buffers.iter().rev().enumerate() {
        codec.decode_up_to(if position == 0 { data } else { &current }, most, out)?;
        std::mem::swap(out, &mut current);
    }
    *out = current;
    Ok(())
}
