//! One chunk read by one thread, with no more of it fetched and decoded than the piece wanted.

use crate::array::{Area, Array, Codec};
use crate::codecs::{Codecs, bound};
use crate::files::File;
use crate::memory::Block;
use crate::tiles::{self, Tile};
use std::io;

/// What a thread keeps for the next chunk.
pub struct Worker {
    pub codecs: Codecs,
    /// Bytes of a file.
    pub data: Block,
    /// A decoded chunk.
    pub chunk: Block,
    /// Encoded chunks.
    pub encoded: Block,
}

/// Where the bytes of a chunk are.
pub enum Stored<'a> {
    /// The file is the chunk.
    File(&'a File),
    /// So many bytes at an offset of a file.
    Part(&'a File, usize, usize),
    /// They have been read.
    Memory(&'a [u8]),
}

impl Stored<'_> {
    fn read(&self, into: &mut [u8], at: usize) -> io::Result<usize> {
        match self {
            Stored::File(file) => file.read_at(into, at),
            Stored::Part(file, offset, size) => {
                let wanted = into.len().min(size.saturating_sub(at));
                file.read_exact_at(&mut into[..wanted], offset + at).map(|()| wanted)
            }
            Stored::Memory(bytes) => {
                let wanted = into.len().min(bytes.len() - at);
                into[..wanted].copy_from_slice(&bytes[at..at + wanted]);
                Ok(wanted)
            }
        }
    }
}

impl Worker {
    pub fn new() -> io::Result<Worker> {
        Ok(Worker {
            codecs: Codecs::new(),
            data: Block::new(1 << 20)?,
            chunk: Block::new(1 << 20)?,
            encoded: Block::new(1 << 20)?,
        })
    }

    /// Bring a piece of a chunk to where it belongs.
    pub fn piece(&mut self, array: &Array, stored: &Stored<'_>, piece: &Area, to: Tile) -> io::Result<()> {
        let lines = Lines::of(array, piece);
        if array.codec == Codec::None {
            return self.plain(array, stored, piece, &lines, to);
        }
        let blosc = matches!(array.codec, Codec::BloscLz4 | Codec::BloscZstd);
        if blosc && lines.span() * array.item * 2 <= array.chunk_bytes() {
            return self.blocks(array, stored, piece, &lines, to);
        }
        if piece.elements() * array.item == array.chunk_bytes() && !array.fortran && to.row == array.strides().0 {
            // SAFETY: the chunk is contiguous where it belongs, and nobody else has that place.
            let place = unsafe { std::slice::from_raw_parts_mut(to.start, array.chunk_bytes()) };
            return self
                .fetch(array, stored)
                .and_then(|size| self.codecs.decode(array.codec, &self.data.bytes()[..size], place));
        }
        self.decode(array, stored)?;
        self.place(array, piece, lines.first, 0, to);
        Ok(())
    }

    /// Decode a chunk into `self.chunk`.
    pub fn decode(&mut self, array: &Array, stored: &Stored<'_>) -> io::Result<()> {
        let whole = self.chunk.at_least(array.chunk_bytes())?;
        if let Stored::Memory(bytes) = stored {
            return self.codecs.decode(array.codec, bytes, whole);
        }
        let size = self.fetch(array, stored)?;
        let whole = self.chunk.at_least(array.chunk_bytes())?;
        self.codecs.decode(array.codec, &self.data.bytes()[..size], whole)
    }

    /// Bring all bytes of a chunk into `self.data`.
    fn fetch(&mut self, array: &Array, stored: &Stored<'_>) -> io::Result<usize> {
        let room = bound(array.chunk_bytes());
        stored.read(self.data.at_least(room)?, 0)
    }

    /// Copy a piece out of `self.chunk`, which begins with the element number `first - skipped`.
    fn place(&mut self, array: &Array, piece: &Area, first: usize, skipped: usize, to: Tile) {
        let (row, column) = array.strides();
        // SAFETY: `self.chunk` holds all elements from `skipped` to the piece's last, and `to` has room for the piece.
        unsafe {
            let start = self.chunk.start().add((first - skipped) * array.item);
            tiles::copy(Tile { start, row, column }, to, piece.height(), piece.width(), array.item);
        }
    }

    /// Read a piece of an uncompressed chunk: the lines one by one, or all that is between them, whichever is cheaper.
    fn plain(&mut self, array: &Array, stored: &Stored<'_>, piece: &Area, lines: &Lines, to: Tile) -> io::Result<()> {
        let (line, first) = (lines.length * array.item, lines.first * array.item);
        let span = lines.span() * array.item;
        let direct = !array.fortran && (lines.count == 1 || (to.row == line && span == line * lines.count));
        // a call costs about as much as 4 KB more of one
        if !array.fortran && (direct || span > lines.count * (line + 4096)) {
            let (count, length) = if direct { (1, span) } else { (lines.count, line) };
            for number in 0..count {
                // SAFETY: the place has room for the piece's rows.
                let row = unsafe { std::slice::from_raw_parts_mut(to.start.add(number * to.row), length) };
                if stored.read(row, first + number * lines.pitch * array.item)? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            return Ok(());
        }
        if stored.read(self.chunk.at_least(span)?, first)? < span {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.place(array, piece, lines.first, lines.first, to);
        Ok(())
    }

    /// Decode those blocks of a Blosc chunk that hold the piece.
    fn blocks(&mut self, array: &Array, stored: &Stored<'_>, piece: &Area, lines: &Lines, to: Tile) -> io::Result<()> {
        self.load_blocks(array, stored, &[[lines.first, lines.first + lines.span()]])?;
        self.take(array, lines.first, lines.span())?;
        self.place(array, piece, lines.first, lines.first, to);
        Ok(())
    }

    /// Decode a run of elements into `self.chunk` from the blocks in `self.data`.
    fn take(&mut self, array: &Array, first: usize, count: usize) -> io::Result<()> {
        let into = self.chunk.at_least(count * array.item)?;
        // SAFETY: the frame is one that a contender wrote, what it needs of it is there, and there is room for the run.
        let got = unsafe {
            blosc_src::blosc_getitem(
                self.data.start().cast(),
                first as libc::c_int,
                count as libc::c_int,
                into.as_mut_ptr().cast(),
            )
        };
        if got == (count * array.item) as libc::c_int { Ok(()) } else { Err(io::Error::other("Blosc failed")) }
    }

    /// Bring the blocks that hold some runs of elements into `self.data`, at their places in the frame.
    fn load_blocks(&mut self, array: &Array, stored: &Stored<'_>, runs: &[[usize; 2]]) -> io::Result<()> {
        let room = bound(array.chunk_bytes());
        let data = self.data.at_least(room)?;
        if array.chunk_bytes() <= 128 << 10 {
            return stored.read(data, 0).map(|_| ());
        }
        let word =
            |data: &[u8], at: usize| u32::from_le_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]) as usize;
        let mut here = stored.read(&mut data[..4096], 0)?;
        let (bytes, block, end) = (word(data, 4), word(data, 8), word(data, 12));
        if data[2] & 2 != 0 {
            // stored as it is
            for [first, last] in runs {
                let (from, until) = (16 + first * array.item, 16 + last * array.item);
                stored.read(&mut data[from..until], from)?;
            }
            return Ok(());
        }
        let count = bytes.div_ceil(block);
        if here < 16 + 4 * count {
            here += stored.read(&mut data[here..16 + 4 * count], here)?;
        }
        let starts: Vec<usize> = (0..count).map(|number| word(data, 16 + 4 * number)).collect();
        let mut done = vec![false; count];
        for [first, last] in runs {
            for number in first * array.item / block..(last * array.item).div_ceil(block) {
                if std::mem::replace(&mut done[number], true) {
                    continue;
                }
                let from = starts[number];
                // blocks that several threads compressed are in any order
                let until = starts.iter().copied().filter(|start| *start > from).min().unwrap_or(end);
                if until > here {
                    stored.read(&mut data[from..until], from)?;
                }
            }
        }
        Ok(())
    }

    /// Bring single elements of a chunk to where they belong.
    pub fn elements(&mut self, array: &Array, stored: &Stored<'_>, elements: &[(usize, *mut u8)]) -> io::Result<()> {
        let size = array.chunk_bytes();
        let item = array.item;
        let put = |from: *const u8, to: *mut u8| {
            // SAFETY: both are places of one element.
            unsafe { to.copy_from_nonoverlapping(from, item) };
        };
        if array.codec == Codec::None && size > elements.len() * 8192 {
            let mut element = [0_u8; 8];
            for (number, to) in elements {
                stored.read(&mut element[..item], number * item)?;
                put(element.as_ptr(), *to);
            }
            return Ok(());
        }
        let blosc = matches!(array.codec, Codec::BloscLz4 | Codec::BloscZstd);
        // blocks of large chunks have some hundred KB
        if blosc && size >= elements.len() * (512 << 10) {
            let runs: Vec<[usize; 2]> = elements.iter().map(|(number, _)| [*number, number + 1]).collect();
            self.load_blocks(array, stored, &runs)?;
            for (number, to) in elements {
                self.take(array, *number, 1)?;
                put(self.chunk.start(), *to);
            }
            return Ok(());
        }
        self.decode(array, stored)?;
        for (number, to) in elements {
            // SAFETY: the element is one of the chunk.
            put(unsafe { self.chunk.start().add(number * item) }, *to);
        }
        Ok(())
    }
}

/// A piece of a chunk as lines of elements that are beside each other in it.
struct Lines {
    first: usize,
    count: usize,
    length: usize,
    pitch: usize,
}

impl Lines {
    fn of(array: &Array, piece: &Area) -> Lines {
        if array.fortran {
            let first = piece.columns[0] * array.chunk[0] + piece.rows[0];
            Lines { first, count: piece.width(), length: piece.height(), pitch: array.chunk[0] }
        } else {
            let first = piece.rows[0] * array.chunk[1] + piece.columns[0];
            Lines { first, count: piece.height(), length: piece.width(), pitch: array.chunk[1] }
        }
    }

    /// Elements from the first to the last.
    fn span(&self) -> usize {
        (self.count - 1) * self.pitch + self.length
    }
}
