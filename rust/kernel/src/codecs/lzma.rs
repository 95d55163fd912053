//! Not there yet.

use super::{Codec, Value};
use crate::{Error, Result};

pub(super) fn build(_options: &[Value]) -> Result<Box<dyn Codec>> {
    Err(Error::unsupported("lzma", "the kernel has no such codec yet"))
}
