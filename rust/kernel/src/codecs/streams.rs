//! The decoding loop for streaming decompressors. Called by `bz2` and `lzma`.
//!
//! A stream that has filled the output gets one byte more, which shows whether it is longer than it should be.

use super::output_buffer::{OutputBuffer, append};
use crate::{Error, Result};

/// The result of one call of a decoder.
pub(super) struct Step {
    /// Bytes of input consumed.
    pub consumed: usize,
    /// Whether the stream has ended.
    pub ended: bool,
}

/// A decoder of one stream.
pub(super) trait Stream {
    /// Decode as far as input and buffer allow.
    fn step(&mut self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<Step>;
}

/// What may follow a stream.
pub(super) enum Follow {
    /// Nothing.
    Nothing,
    /// More streams, with zero bytes between and after them: a multiple of this number.
    Padded(usize),
}

/// The target of decoded bytes.
pub(super) enum Sink<'a> {
    /// A slice, and the number of bytes already written to it.
    Exact(&'a mut [u8], usize),
    /// A vector of at most this length.
    UpTo(&'a mut Vec<u8>, usize),
}

/// Initial capacity of a vector, in bytes.
const FIRST: usize = 64 * 1024;

impl Sink<'_> {
    fn limit(&self) -> usize {
        match self {
            Sink::Exact(out, _) => out.len(),
            Sink::UpTo(_, limit) => *limit,
        }
    }

    fn full(&self) -> bool {
        match self {
            Sink::Exact(out, done) => out.len() == *done,
            Sink::UpTo(out, limit) => out.len() >= *limit,
        }
    }

    /// Decode into the free space of the target, which grows if it can; return the number of bytes as well.
    fn step(&mut self, stream: &mut dyn Stream, data: &[u8]) -> Result<(Step, usize)> {
        match self {
            Sink::Exact(out, done) => {
                let found = step(stream, data, &mut OutputBuffer::new(&mut out[*done..]))?;
                *done += found.1;
                Ok(found)
            }
            Sink::UpTo(out, limit) => {
                let spare = out.capacity() - out.len();
                let size = if spare > 0 { spare } else { out.len().max(FIRST) }.min(*limit - out.len());
                append(out, size, |buffer| step(stream, data, buffer))
            }
        }
    }
}

/// Decode into a buffer; return the number of bytes as well.
fn step(stream: &mut dyn Stream, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<(Step, usize)> {
    let step = stream.step(data, buffer)?;
    Ok((step, buffer.filled()))
}

/// Decode one or more streams into `sink`; return the number of decoded bytes.
pub(super) fn decode<S: Stream>(
    name: &str,
    start: impl Fn() -> Result<S>,
    follow: &Follow,
    mut data: &[u8],
    sink: &mut Sink<'_>,
) -> Result<usize> {
    let mut total = 0;
    loop {
        // one stream, to its end; a full target gets one more byte to detect a longer stream
        let mut stream = start()?;
        loop {
            let (mut probe, full) = ([0], sink.full());
            let (step, produced) = if full {
                step(&mut stream, data, &mut OutputBuffer::new(&mut probe))?
            } else {
                sink.step(&mut stream, data)?
            };
            if full && produced > 0 {
                return Err(Error::codec(name, format!("there are more than {} bytes", sink.limit())));
            }
            total += produced;
            data = &data[step.consumed..];
            if step.ended {
                break;
            }
            if step.consumed == 0 && produced == 0 {
                return Err(Error::codec(name, "the compressed data is truncated"));
            }
        }
        // what follows it
        if let Follow::Padded(unit) = follow {
            let zeros = data.iter().take_while(|&&byte| byte == 0).count();
            data = if zeros % unit == 0 { &data[zeros..] } else { data };
        }
        if data.is_empty() {
            return Ok(total);
        }
        if let Follow::Nothing = follow {
            return Err(Error::codec(name, format!("{} bytes follow the compressed data", data.len())));
        }
    }
}
