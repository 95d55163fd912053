//! `bz2`: one or more bzip2 streams, with zero bytes between and after them.

use bzip2::Compression;
use bzip2::{Action, Compress, Decompress, Status};

use super::Codec;
use super::output_buffer::OutputBuffer;
use super::streams::{self, Follow, Sink, Step, Stream};
use crate::memory::initialised;
use crate::{Error, Result};

const NAME: &str = "bz2";

struct Bz2 {
    level: u32,
}

pub(super) fn build(level: i64) -> Result<Box<dyn Codec>> {
    match level {
        1..=9 => Ok(Box::new(Bz2 { level: level as u32 })),
        _ => Err(Error::unsupported(NAME, "the level is not from 1 to 9")),
    }
}

struct Decoder(Decompress);

/// Return the difference of two counters of a stream.
fn moved(before: u64, after: u64) -> usize {
    usize::try_from(after - before).unwrap_or(usize::MAX)
}

impl Stream for Decoder {
    fn step(&mut self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<Step> {
        let (taken, mut ended) = (self.0.total_in(), false);
        buffer.fill(|out| {
            let made = self.0.total_out();
            match self.0.decompress_uninit(data, out) {
                Ok(Status::StreamEnd) => ended = true,
                Ok(Status::MemNeeded) => return Err(Error::Memory { bytes: 4 << 20 }),
                Ok(_) => {}
                Err(error) => return Err(Error::codec(NAME, format!("the compressed data is damaged ({error})"))),
            }
            // SAFETY: the library counts the bytes that it writes at the start.
            Ok(unsafe { initialised(out, moved(made, self.0.total_out())) })
        })?;
        Ok(Step { consumed: moved(taken, self.0.total_in()), ended })
    }
}

impl Bz2 {
    fn run(&self, data: &[u8], sink: &mut Sink<'_>) -> Result<usize> {
        streams::decode(NAME, || Ok(Decoder(Decompress::new(false))), &Follow::Padded(1), data, sink)
    }
}

impl Codec for Bz2 {
    fn name(&self) -> &str {
        NAME
    }

    fn decode(&self, data: &[u8], out: &mut [u8]) -> Result<()> {
        let size = out.len();
        let found = self.run(data, &mut Sink::Exact(out, 0))?;
        if found == size { Ok(()) } else { Err(Error::wrong_size(NAME, found, size)) }
    }

    fn decode_up_to(&self, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        self.run(data, &mut Sink::UpTo(out, limit)).map(drop)
    }

    fn encode(&self, mut data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut stream = Compress::new(Compression::new(self.level), 0);
        let bound = data.len() / 64 + 1024; // more than the library adds to incompressible data
        out.clear();
        out.try_reserve(data.len().saturating_add(bound)).map_err(|_| Error::Memory { bytes: data.len() })?;
        loop {
            if out.len() == out.capacity() {
                out.try_reserve(bound).map_err(|_| Error::Memory { bytes: bound })?;
            }
            let taken = stream.total_in();
            let action = if data.is_empty() { Action::Finish } else { Action::Run };
            let status = stream
                .compress_vec(data, out, action)
                .map_err(|error| Error::codec(NAME, format!("the data can't be compressed ({error})")))?;
            data = &data[moved(taken, stream.total_in())..];
            match status {
                Status::StreamEnd => return Ok(()),
                Status::MemNeeded => return Err(Error::Memory { bytes: 8 << 20 }),
                _ => {}
            }
        }
    }
}
