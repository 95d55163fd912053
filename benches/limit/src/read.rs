//! Areas and points of an array.

use crate::array::{Area, Array};
use crate::codecs::bound;
use crate::files::{self, File};
use crate::pair::Pair;
use crate::tiles::Tile;
use crate::worker::{Stored, Worker};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the work is done with.
pub struct Crew {
    pub pair: Pair,
    pub workers: [Mutex<Worker>; 2],
}

impl Crew {
    pub fn new() -> io::Result<Crew> {
        Ok(Crew { pair: Pair::new(), workers: [Mutex::new(Worker::new()?), Mutex::new(Worker::new()?)] })
    }

    pub fn worker(&self, thread: usize) -> MutexGuard<'_, Worker> {
        self.workers[thread].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Read an area into rows that lie `pitch` bytes apart.
pub fn area(crew: &Crew, array: &Array, root: &File, area: &Area, to: *mut u8, pitch: usize) -> io::Result<()> {
    let place = Tile { start: to, row: pitch, column: array.item };
    let files = area.cells(array.file());
    let touched: usize = files.len() * 10_000 + area.elements() * array.item;
    crew.pair.run(touched > 200_000, files.len(), &|thread, number| {
        let mut worker = crew.worker(thread);
        let at = files[number];
        let file = files::open(root, &array.name(at))?;
        let whole = Area::of_cell(at, array.file());
        let part = whole.within(area);
        if array.shard.is_none() {
            return worker.piece(
                array,
                &Stored::File(&file),
                &relative(&part, &whole),
                inside(place, area, &part, array),
            );
        }
        shard(&mut worker, array, &file, &part, |chunk| inside(place, area, chunk, array))
    })
}

/// Where a part of an area begins in the place of the area.
fn inside(place: Tile, area: &Area, part: &Area, array: &Array) -> Tile {
    let offset = (part.rows[0] - area.rows[0]) * place.row + (part.columns[0] - area.columns[0]) * array.item;
    // SAFETY: the part lies within the area, for which there is room.
    Tile { start: unsafe { place.start.add(offset) }, ..place }
}

fn relative(part: &Area, whole: &Area) -> Area {
    Area {
        rows: part.rows.map(|row| row - whole.rows[0]),
        columns: part.columns.map(|column| column - whole.columns[0]),
    }
}

/// Read what is wanted of a shard: with one read if it is all of it, else chunk by chunk.
fn shard(
    worker: &mut Worker,
    array: &Array,
    file: &File,
    part: &Area,
    place: impl Fn(&Area) -> Tile,
) -> io::Result<()> {
    let (count, across) = array.inner();
    let chunks = part.cells(array.chunk);
    let number = |at: [usize; 2]| at[0] % (count / across) * across + at[1] % across;
    let mut entries = vec![0_u8; if chunks.len() > 1 { 16 * count } else { 16 }];
    let mut whole = std::mem::replace(&mut worker.encoded, crate::memory::Block::none());
    let everything = chunks.len() == count;
    let size = if everything {
        let size = file.read_at(whole.at_least(bound(array.chunk_bytes()) * count)?, 0)?;
        entries.copy_from_slice(&whole.bytes()[size - 4 - 16 * count..size - 4]);
        size
    } else {
        let size = file.size()?;
        let skipped = if chunks.len() > 1 { 0 } else { number(chunks[0]) };
        file.read_exact_at(&mut entries, size - 4 - 16 * (count - skipped))?;
        size
    };
    for at in &chunks {
        let entry = if chunks.len() > 1 { number(*at) } else { 0 };
        let (offset, length) = entry_of(&entries, entry);
        if offset + length > size {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let cell = Area::of_cell(*at, array.chunk);
        let wanted = cell.within(part);
        let piece = relative(&wanted, &cell);
        if everything {
            let bytes = &whole.bytes()[offset..offset + length];
            worker.memory_piece(array, bytes, &piece, place(&wanted))?;
        } else {
            worker.piece(array, &Stored::Part(file, offset, length), &piece, place(&wanted))?;
        }
    }
    worker.encoded = whole;
    Ok(())
}

/// Offset and length of a chunk in a shard.
pub fn entry_of(index: &[u8], number: usize) -> (usize, usize) {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&index[at..at + 8]);
        u64::from_le_bytes(bytes) as usize
    };
    (word(16 * number), word(16 * number + 8))
}

impl Worker {
    /// Bring a piece of a chunk whose bytes are in memory to where it belongs.
    fn memory_piece(&mut self, array: &Array, bytes: &[u8], piece: &Area, to: Tile) -> io::Result<()> {
        if array.codec != crate::array::Codec::None {
            self.decode(array, &Stored::Memory(bytes))?;
        }
        let start = match array.codec {
            crate::array::Codec::None => bytes.as_ptr().cast_mut(),
            _ => self.chunk.start(),
        };
        let (row, column) = array.strides();
        // SAFETY: the piece is the whole chunk, which starts there, and `to` has room for it.
        unsafe { crate::tiles::copy(Tile { start, row, column }, to, piece.height(), piece.width(), array.item) };
        Ok(())
    }
}

/// Addresses that two threads write to, each to its own ones.
#[derive(Clone, Copy)]
struct Place(*mut u8);

// SAFETY: every element has one task.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

/// Read many points at once: those of a chunk together.
pub fn points(crew: &Crew, array: &Array, root: &File, points: &[[usize; 2]], to: *mut u8) -> io::Result<()> {
    let file = array.file();
    let mut groups: BTreeMap<[usize; 4], Vec<(usize, Place)>> = BTreeMap::new();
    for (number, [row, column]) in points.iter().enumerate() {
        let key = [row / file[0], column / file[1], row / array.chunk[0], column / array.chunk[1]];
        let (r, c) = (row % array.chunk[0], column % array.chunk[1]);
        let element = if array.fortran { c * array.chunk[0] + r } else { r * array.chunk[1] + c };
        // SAFETY: there is room for all points.
        groups.entry(key).or_default().push((element, Place(unsafe { to.add(number * array.item) })));
    }
    let groups: Vec<_> = groups.into_iter().collect();
    crew.pair.run(groups.len() > 8, groups.len(), &|thread, number| {
        let mut worker = crew.worker(thread);
        let ([i, j, row, column], wanted) = &groups[number];
        let file = files::open(root, &array.name([*i, *j]))?;
        let wanted: Vec<_> = wanted.iter().map(|(element, place)| (*element, place.0)).collect();
        if array.shard.is_none() {
            return worker.elements(array, &Stored::File(&file), &wanted);
        }
        let (count, across) = array.inner();
        let inner = row % (count / across) * across + column % across;
        let mut entry = [0_u8; 16];
        file.read_exact_at(&mut entry, file.size()? - 4 - 16 * (count - inner))?;
        let (offset, length) = entry_of(&entry, 0);
        worker.elements(array, &Stored::Part(&file, offset, length), &wanted)
    })
}
