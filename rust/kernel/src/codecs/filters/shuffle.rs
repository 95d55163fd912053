//! `shuffle`: first all first bytes of the elements, then all second ones, and so on.

use super::super::blosc::shuffle::{Filter, shuffle, unshuffle};
use super::super::room::{Resize, Resized, Room};
use super::super::{Codec, Value};
use super::unsupported;
use crate::{Error, Result};

const NAME: &str = "shuffle";

struct Shuffle {
    element: usize,
}

pub(super) fn build(options: &[Value]) -> Result<Box<dyn Codec>> {
    match options {
        [Value::Int(element)] => match usize::try_from((*element).max(1)) {
            Ok(element) => Ok(Box::new(Resized(Shuffle { element }))),
            Err(_) => Err(unsupported(NAME)),
        },
        _ => Err(unsupported(NAME)),
    }
}

impl Shuffle {
    fn check(&self, size: usize) -> Result<usize> {
        if size % self.element != 0 {
            return Err(Error::codec(NAME, format!("{size} bytes are not elements of {}", self.element)));
        }
        Ok(size)
    }
}

// SAFETY: whole elements are moved, each byte to a place of its own.
unsafe impl Resize for Shuffle {
    fn name(&self) -> &str {
        NAME
    }

    fn encoded(&self, size: usize) -> Result<usize> {
        self.check(size)
    }

    fn decoded(&self, data: &[u8]) -> Result<usize> {
        self.check(data.len())
    }

    fn encode(&self, data: &[u8], mut room: Room<'_>) -> Result<()> {
        shuffle(Filter::Bytes, self.element, data, room.unset());
        Ok(())
    }

    fn decode(&self, data: &[u8], mut room: Room<'_>) -> Result<()> {
        unshuffle(Filter::Bytes, self.element, data, room.unset());
        Ok(())
    }
}
