//! `lzma`: the XZ and LZMA formats of Python's `lzma` module, without custom filters. There may be several XZ streams
//! in a row, with zero bytes between them, but only one LZMA stream.

use liblzma::stream::{Action, Check, Error as LzmaError, LzmaOptions, Status, Stream as Library};

use super::Codec;
use super::output_buffer::OutputBuffer;
use super::streams::{self, Follow, Sink, Step, Stream};
use crate::memory::initialised;
use crate::{Error, Result};

const NAME: &str = "lzma";
const DEFAULT_PRESET: u32 = 6;
const EXTREME: i64 = 1 << 31;

/// Memory limit of a decoder for small chunks, in bytes; the highest preset needs half of it.
const DICTIONARY: u64 = 1 << 27;

struct Lzma {
    alone: bool,
    check: Check,
    preset: u32,
}

pub(super) fn build(container: i64, check: i64, preset: Option<i64>) -> Result<Box<dyn Codec>> {
    let alone = match container {
        1 => false,
        2 => true,
        _ => return Err(Error::unsupported(NAME, "the container format is neither XZ nor LZMA")),
    };
    let preset = match preset {
        None => DEFAULT_PRESET,
        Some(preset) if matches!(preset & !EXTREME, 0..=9) => preset as u32,
        Some(_) => return Err(Error::unsupported(NAME, "the preset is not from 0 to 9")),
    };
    let check = match check {
        -1 if !alone => Check::Crc64,
        -1 | 0 => Check::None,
        1 if !alone => Check::Crc32,
        4 if !alone => Check::Crc64,
        10 if !alone => Check::Sha256,
        _ => return Err(Error::unsupported(NAME, "the container format has no such check")),
    };
    Ok(Box::new(Lzma { alone, check, preset }))
}

#[cold]
fn failed(error: LzmaError) -> Error {
    match error {
        LzmaError::Mem => Error::Memory { bytes: DICTIONARY as usize },
        other => Error::codec(NAME, format!("liblzma reports: {other}")),
    }
}

struct Decoder(Library);

impl Stream for Decoder {
    fn step(&mut self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<Step> {
        let (taken, mut ended) = (self.0.total_in(), false);
        buffer.fill(|out| {
            let made = self.0.total_out();
            let status = self.0.process_uninit(data, out, Action::Run).map_err(failed)?;
            ended = matches!(status, Status::StreamEnd);
            // SAFETY: the library counts the bytes that it writes at the start.
            Ok::<_, Error>(unsafe { initialised(out, (self.0.total_out() - made) as usize) })
        })?;
        Ok(Step { consumed: (self.0.total_in() - taken) as usize, ended }) // within the slice
    }
}

impl Lzma {
    fn run(&self, data: &[u8], sink: &mut Sink<'_>, limit: usize) -> Result<usize> {
        let memory = DICTIONARY.max(limit as u64);
        if self.alone {
            let start = || Library::new_lzma_decoder(memory).map(Decoder).map_err(failed);
            streams::decode(NAME, start, &Follow::Nothing, data, sink)
        } else {
            let start = || Library::new_stream_decoder(memory, 0).map(Decoder).map_err(failed);
            streams::decode(NAME, start, &Follow::Padded(4), data, sink)
        }
    }

    fn encoder(&self) -> std::result::Result<Library, LzmaError> {
        if self.alone {
            Library::new_lzma_encoder(&LzmaOptions::new_preset(self.preset)?)
        } else {
            Library::new_easy_encoder(self.preset, self.check)
        }
    }
}

impl Codec for Lzma {
    fn name(&self) -> &str {
        NAME
    }

    fn decode(&self, data: &[u8], out: &mut [u8]) -> Result<()> {
        let size = out.len();
        let found = self.run(data, &mut Sink::Exact(out, 0), size)?;
        if found == size { Ok(()) } else { Err(Error::wrong_size(NAME, found, size)) }
    }

    fn decode_up_to(&self, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        self.run(data, &mut Sink::UpTo(out, limit), limit).map(drop)
    }

    fn encode(&self, mut data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut stream = self.encoder().map_err(failed)?;
        out.clear();
        loop {
            if out.len() == out.capacity() {
                let more = (data.len() / 2).max(4096);
                out.try_reserve(more).map_err(|_| Error::Memory { bytes: more })?;
            }
            let taken = stream.total_in();
            let status = stream.process_vec(data, out, Action::Finish).map_err(failed)?;
            data = &data[(stream.total_in() - taken) as usize..];
            if matches!(status, Status::StreamEnd) {
                return Ok(());
            }
        }
    }
}
