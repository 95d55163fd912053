//! Not there yet.

use super::{Codec, Value};
use crate::{Error, Result};

pub(super) fn build(_options: &[Value]) -> Result<Box<dyn Codec>> {
    Err(Error::unsupported("lz4", "the kernel has no such codec yet"))
}
