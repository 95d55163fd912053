//! `bz2` [Int level]: bzip2 streams, of which several may follow one another.

use bzip2::Compression;
use bzip2::{Action, Compress, Decompress, Status};

use super::room::Room;
use super::streams::{self, Follow, Sink, Step, Stream};
use super::{Codec, Value};
use crate::{Error, Result};

const NAME: &str = "bz2";

struct Bz2 {
    level: u32,
}

pub(super) fn build(options: &[Value]) -> Result<Box<dyn Codec>> {
    match options {
        [Value::Int(level @ 1..=9)] => Ok(Box::new(Bz2 { level: *level as u32 })),
        _ => Err(Error::unsupported(NAME, "the options are not a level from 1 to 9")),
    }
}

struct Decoder(Decompress);

/// Return the bytes between two counters of a stream, which are of calls that move less than 2^32 bytes.
fn moved(before: u64, after: u64) -> usize {
    usize::try_from(after - before).unwrap_or(usize::MAX)
}

// SAFETY: the library counts the bytes that it takes and writes, at the places that it is given.
unsafe impl Stream for Decoder {
    fn step(&mut self, data: &[u8], mut room: Room<'_>) -> Result<Step> {
        let (taken, made) = (self.0.total_in(), self.0.total_out());
        // SAFETY: the room is that large, and `MaybeUninit` may hold anything.
        let out = unsafe { std::slice::from_raw_parts_mut(room.start().cast(), room.len()) };
        let status = self.0.decompress_uninit(data, out);
        let step = |ended| Step {
            consumed: moved(taken, self.0.total_in()),
            produced: moved(made, self.0.total_out()),
            ended,
        };
        match status {
            Ok(Status::StreamEnd) => Ok(step(true)),
            Ok(Status::MemNeeded) => Err(Error::Memory { bytes: 4 << 20 }),
            Ok(_) => Ok(step(false)),
            Err(error) => Err(Error::codec(NAME, format!("the compressed data is damaged ({error})"))),
        }
    }
}

impl Bz2 {
    fn run(&self, data: &[u8], sink: &mut Sink<'_>) -> Result<usize> {
        streams::decode(NAME, || Ok(Decoder(Decompress::new(false))), &Follow::Streams, data, sink)
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
        let bound = data.len() / 64 + 1024; // more than the library can add to what can't be compressed
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
