//! Areas written: each file into a temporary one that is renamed.

use crate::array::{Area, Array};
use crate::codecs::bound;
use crate::files::{self, File};
use crate::memory::Block;
use crate::read::{Crew, entry_of};
use crate::tiles::{self, Tile};
use crate::worker::{Stored, Worker};
use std::io;

/// The values of a whole array in memory.
pub struct Values {
    pub bytes: Block,
}

/// Write the rows of an area that consists of whole files.
pub fn rows(crew: &Crew, array: &Array, root: &File, values: &Values, rows: [usize; 2]) -> io::Result<()> {
    let area = Area { rows, columns: [0, array.shape[1]] };
    let files = area.cells(array.file());
    if array.format != "zarr2" {
        files::make_directory(root, "c")?;
        for row in rows[0] / array.file()[0]..rows[1].div_ceil(array.file()[0]) {
            files::make_directory(root, &format!("c/{row}"))?;
        }
    }
    crew.pair.run(true, files.len(), &|thread, number| {
        let mut worker = crew.worker(thread);
        let whole = Area::of_cell(files[number], array.file());
        let name = array.name(files[number]);
        if array.shard.is_some() {
            let size = encode_shard(&mut worker, array, values, &whole)?;
            return files::replace(root, thread, &name, &[&worker.encoded.bytes()[..size]]);
        }
        let size = worker.encode(array, values, &whole, 0)?;
        match size {
            None => files::replace(root, thread, &name, &[worker.gathered(array, values, &whole)]),
            Some(size) => files::replace(root, thread, &name, &[&worker.encoded.bytes()[..size]]),
        }
    })
}

impl Worker {
    /// The elements of a chunk in its own order: where they are, or a copy in `self.chunk`.
    fn gathered<'a>(&'a self, array: &Array, values: &'a Values, chunk: &Area) -> &'a [u8] {
        let start = (chunk.rows[0] * array.shape[1] + chunk.columns[0]) * array.item;
        if is_contiguous(array) {
            &values.bytes.bytes()[start..start + array.chunk_bytes()]
        } else {
            &self.chunk.bytes()[..array.chunk_bytes()]
        }
    }

    fn gather(&mut self, array: &Array, values: &Values, chunk: &Area) -> io::Result<()> {
        if is_contiguous(array) {
            return Ok(());
        }
        let to = self.chunk.at_least(array.chunk_bytes())?.as_mut_ptr();
        let pitch = array.shape[1] * array.item;
        let (row, column) = array.strides();
        // SAFETY: the chunk lies within the values, and there is room for it.
        unsafe {
            let start = values.bytes.start().add(chunk.rows[0] * pitch + chunk.columns[0] * array.item);
            let from = Tile { start, row: pitch, column: array.item };
            if array.fortran {
                // columns and rows change their parts, so that the chunk is written in its own order
                let from = Tile { start, row: from.column, column: from.row };
                let to = Tile { start: to, row: column, column: row };
                tiles::copy(from, to, chunk.width(), chunk.height(), array.item);
            } else {
                plain_copy(from, Tile { start: to, row, column }, chunk, array.item);
            }
        }
        Ok(())
    }

    /// Encode a chunk to an offset of `self.encoded`; `None` if it is what was gathered.
    fn encode(&mut self, array: &Array, values: &Values, chunk: &Area, at: usize) -> io::Result<Option<usize>> {
        self.gather(array, values, chunk)?;
        if array.codec == crate::array::Codec::None {
            return Ok(None);
        }
        let mut encoded = std::mem::replace(&mut self.encoded, Block::none());
        let room = encoded.at_least(at + bound(array.chunk_bytes()))?;
        let mut codecs = std::mem::replace(&mut self.codecs, crate::codecs::Codecs::none());
        let size = codecs.encode(array.codec, array.item, self.gathered(array, values, chunk), &mut room[at..]);
        self.codecs = codecs;
        self.encoded = encoded;
        size.map(Some)
    }
}

/// Copy rows that are read again at once, so not past the cache.
unsafe fn plain_copy(from: Tile, to: Tile, area: &Area, item: usize) {
    for row in 0..area.height() {
        // SAFETY: as for `tiles::copy`.
        unsafe {
            to.start.add(row * to.row).copy_from_nonoverlapping(from.start.add(row * from.row), area.width() * item)
        };
    }
}

fn is_contiguous(array: &Array) -> bool {
    !array.fortran && array.chunk[1] == array.shape[1]
}

/// Encode all chunks of a shard and its index into `worker.encoded`, and return how many bytes there are.
fn encode_shard(worker: &mut Worker, array: &Array, values: &Values, shard: &Area) -> io::Result<usize> {
    let (count, _) = array.inner();
    worker.encoded.at_least((bound(array.chunk_bytes()) + 16) * count + 4)?;
    let mut index = Vec::with_capacity(16 * count + 4);
    let mut end = 0;
    for at in shard.cells(array.chunk) {
        let chunk = Area::of_cell(at, array.chunk);
        let size = match worker.encode(array, values, &chunk, end)? {
            Some(size) => size,
            None => {
                let mut encoded = std::mem::replace(&mut worker.encoded, Block::none());
                let bytes = worker.gathered(array, values, &chunk);
                encoded.bytes_mut()[end..end + bytes.len()].copy_from_slice(bytes);
                worker.encoded = encoded;
                array.chunk_bytes()
            }
        };
        index.extend_from_slice(&(end as u64).to_le_bytes());
        index.extend_from_slice(&(size as u64).to_le_bytes());
        end += size;
    }
    index.extend_from_slice(&crc32c::crc32c(&index).to_le_bytes());
    worker.encoded.bytes_mut()[end..end + index.len()].copy_from_slice(&index);
    Ok(end + index.len())
}

/// Set all elements of an area within one chunk to one value.
pub fn update(crew: &Crew, array: &Array, root: &File, area: &Area, value: &[u8]) -> io::Result<()> {
    let mut worker = crew.worker(0);
    let worker = &mut *worker;
    let at = [area.rows[0] / array.file()[0], area.columns[0] / array.file()[1]];
    let name = array.name(at);
    let file = files::open(root, &name)?;
    if array.shard.is_some() {
        return update_shard(worker, array, root, &file, &name, area, value);
    }
    worker.decode(array, &Stored::File(&file))?;
    drop(file);
    worker.fill(array, area, value);
    let size = worker.encode_chunk(array)?;
    files::replace(root, 0, &name, &[&worker.encoded.bytes()[..size]])
}

impl Worker {
    /// Put a value into an area of the chunk in `self.chunk`.
    fn fill(&mut self, array: &Array, area: &Area, value: &[u8]) {
        let (down, right) = array.strides();
        let whole = &mut self.chunk.bytes_mut()[..array.chunk_bytes()];
        for row in area.rows[0]..area.rows[1] {
            for column in area.columns[0]..area.columns[1] {
                let at = row % array.chunk[0] * down + column % array.chunk[1] * right;
                whole[at..at + array.item].copy_from_slice(value);
            }
        }
    }

    /// Encode the chunk in `self.chunk` into `self.encoded`.
    fn encode_chunk(&mut self, array: &Array) -> io::Result<usize> {
        let into = self.encoded.at_least(bound(array.chunk_bytes()))?;
        self.codecs.encode(array.codec, array.item, &self.chunk.bytes()[..array.chunk_bytes()], into)
    }
}

/// Read a shard, change one chunk of it, and write the shard with all the others as they are.
fn update_shard(
    worker: &mut Worker,
    array: &Array,
    root: &File,
    file: &File,
    name: &str,
    area: &Area,
    value: &[u8],
) -> io::Result<()> {
    let (count, across) = array.inner();
    let mut shard = std::mem::replace(&mut worker.data, Block::none());
    let size = file.read_at(shard.at_least(bound(array.chunk_bytes()) * count)?, 0)?;
    let bytes = &shard.bytes()[..size];
    let mut index = bytes[size - 4 - 16 * count..size - 4].to_vec();
    let at = [area.rows[0] / array.chunk[0], area.columns[0] / array.chunk[1]];
    let changed = at[0] % (count / across) * across + at[1] % across;
    let (offset, length) = entry_of(&index, changed);
    worker.decode(array, &Stored::Memory(&bytes[offset..offset + length]))?;
    worker.fill(array, area, value);
    let new = worker.encode_chunk(array)?;
    for number in 0..count {
        let (start, _) = entry_of(&index, number);
        if start > offset {
            let moved = (start + new - length) as u64;
            index[16 * number..16 * number + 8].copy_from_slice(&moved.to_le_bytes());
        }
    }
    index[16 * changed + 8..16 * changed + 16].copy_from_slice(&(new as u64).to_le_bytes());
    index.extend_from_slice(&crc32c::crc32c(&index).to_le_bytes());
    let after = &bytes[offset + length..size - 4 - 16 * count];
    files::replace(root, 0, name, &[&bytes[..offset], &worker.encoded.bytes()[..new], after, &index])?;
    worker.data = shard;
    Ok(())
}
