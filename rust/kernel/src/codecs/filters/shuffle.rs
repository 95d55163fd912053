//! `shuffle`: the first bytes of all elements, then all second bytes, and so on.

use super::super::Codec;
use super::super::blosc::shuffle::{Filter, shuffle, unshuffle};
use super::super::output_buffer::{KnownSize, KnownSizeCodec, OutputBuffer};
use super::unsupported;
use crate::{Error, Result};

const NAME: &str = "shuffle";

struct Shuffle {
    element: usize,
}

pub(in crate::codecs) fn build(element: i64) -> Result<Box<dyn Codec>> {
    let element = usize::try_from(element.max(1)).map_err(|_| unsupported(NAME))?;
    Ok(Box::new(KnownSize(Shuffle { element })))
}

impl Shuffle {
    fn check(&self, size: usize) -> Result<usize> {
        if size % self.element != 0 {
            return Err(Error::codec(
                NAME,
                format!("{size} bytes are not a multiple of the element size {}", self.element),
            ));
        }
        Ok(size)
    }
}

impl KnownSizeCodec for Shuffle {
    fn name(&self) -> &str {
        NAME
    }

    fn encoded(&self, size: usize) -> Result<usize> {
        self.check(size)
    }

    fn decoded(&self, data: &[u8]) -> Result<usize> {
        self.check(data.len())
    }

    fn encode(&self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()> {
        buffer.fill(|out| Ok::<_, Error>(shuffle(Filter::Bytes, self.element, data, out))).map(drop)
    }

    fn decode(&self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()> {
        buffer.fill(|out| Ok::<_, Error>(unshuffle(Filter::Bytes, self.element, data, out))).map(drop)
    }
}
