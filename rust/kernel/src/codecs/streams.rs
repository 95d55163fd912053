//! Compressed streams that stop where their room ends: the loop that bzip2 and LZMA share.
//!
//! A stream that has filled all the room is given one byte more: that tells whether it holds more than it should.

use super::room::{Room, append};
use crate::{Error, Result};

/// What a decoder has done in one call.
pub(super) struct Step {
    /// Bytes of input that it has taken.
    pub consumed: usize,
    /// Bytes of output that it has written.
    pub produced: usize,
    /// Whether the stream has ended.
    pub ended: bool,
}

/// A decoder of one stream.
///
/// # Safety
///
/// `step` has written as many bytes at the start of its room as it says, and taken no more input than there is.
pub(super) unsafe trait Stream {
    /// Go on as far as input and room allow.
    fn step(&mut self, data: &[u8], room: Room<'_>) -> Result<Step>;
}

/// What may follow a stream.
pub(super) enum Follow {
    /// Nothing.
    Nothing,
    /// More streams.
    Streams,
    /// More streams, with zero bytes between and after them, a multiple of so many.
    Padded(usize),
}

/// Where decoded bytes go.
pub(super) enum Sink<'a> {
    /// Into exactly this many bytes, of which so many are there.
    Exact(&'a mut [u8], usize),
    /// Into a vector of at most so many bytes.
    UpTo(&'a mut Vec<u8>, usize),
}

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

    /// Let the stream write into what room there is, or can be made.
    fn step(&mut self, stream: &mut dyn Stream, data: &[u8]) -> Result<Step> {
        match self {
            Sink::Exact(out, done) => {
                let step = stream.step(data, Room::of(out).after(*done))?;
                *done += step.produced;
                Ok(step)
            }
            Sink::UpTo(out, limit) => {
                let spare = out.capacity() - out.len();
                let size = if spare > 0 { spare } else { out.len().max(FIRST) }.min(*limit - out.len());
                let mut found = None;
                // SAFETY: a stream writes as many bytes as it says.
                unsafe {
                    append(out, size, |room| {
                        let step = stream.step(data, room)?;
                        Ok(found.insert(step).produced)
                    })?;
                }
                found.ok_or(Error::Memory { bytes: size })
            }
        }
    }
}

/// Decode one stream or several into `sink`; return how many bytes there are.
pub(super) fn decode<S: Stream>(
    name: &str,
    start: impl Fn() -> Result<S>,
    follow: &Follow,
    mut data: &[u8],
    sink: &mut Sink<'_>,
) -> Result<usize> {
    let mut total = 0;
    loop {
        let mut stream = start()?;
        loop {
            let (mut probe, full) = ([0], sink.full());
            let step = if full { stream.step(data, Room::of(&mut probe))? } else { sink.step(&mut stream, data)? };
            if full && step.produced > 0 {
                return Err(Error::codec(name, format!("there are more than {} bytes", sink.limit())));
            }
            total += step.produced;
            data = &data[step.consumed..];
            if step.ended {
                break;
            }
            if step.consumed == 0 && step.produced == 0 {
                return Err(Error::codec(name, "the compressed data is truncated"));
            }
        }
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
