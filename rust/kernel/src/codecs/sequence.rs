//! Several bytes-to-bytes codecs applied one after the other. Called by `chain` and by the Python module for
//! variable-length strings.

use super::Codec;
use crate::memory::{try_extend, with_scratch};
use crate::{Error, Result};

/// Apply `codecs` in order, with up to `threads` threads where the first codec supports them.
pub fn encode(codecs: &[Box<dyn Codec>], content: &[u8], threads: usize, out: &mut Vec<u8>) -> Result<()> {
    let Some((first, rest)) = codecs.split_first() else {
        out.clear();
        try_extend(out, content)?;
        return Ok(());
    };
    first.encode_by(content, threads, out)?;
    let mut spare = Vec::new();
    for codec in rest {
        std::mem::swap(out, &mut spare);
        codec.encode(&spare, out)?;
    }
    Ok(())
}

/// Undo `codecs` in reverse order where the decoded sizes are not known; none may decode to more than `limit` bytes.
pub fn decode_up_to(codecs: &[Box<dyn Codec>], data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
    let Some((last, before)) = codecs.split_last() else {
        out.clear();
        try_extend(out, data)?;
        return Ok(());
    };
    last.decode_up_to(data, limit, out)?;
    let mut spare = Vec::new();
    for codec in before.iter().rev() {
        std::mem::swap(out, &mut spare);
        codec.decode_up_to(&spare, limit, out)?;
    }
    Ok(())
}

/// Undo `codecs` in reverse order, to exactly `out.len()` bytes.
pub fn decode_exact(codecs: &[Box<dyn Codec>], data: &[u8], out: &mut [u8]) -> Result<()> {
    match codecs {
        [] if data.len() == out.len() => {
            out.copy_from_slice(data);
            Ok(())
        }
        [] => Err(Error::wrong_size("bytes", data.len(), out.len())),
        [only] => only.decode(data, out),
        [before @ .., last] => {
            with_last_undone(before, last.as_ref(), data, out.len(), &mut |inner| decode_exact(before, inner, out))
        }
    }
}

/// Undo the last of several codecs, and call `work` with the result; all of them decode to `content` bytes.
fn with_last_undone(
    before: &[Box<dyn Codec>],
    last: &dyn Codec,
    data: &[u8],
    content: usize,
    work: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    if let Some(inner) = last.payload(data) {
        return work(inner?);
    }
    // the size of the result follows from `content`, unless a codec before makes sizes that depend on values
    let mut fixed = Some(content);
    let mut limit = content;
    for codec in before {
        fixed = fixed.and_then(|size| codec.encoded_size(size));
        // compressed data can be larger than the original, but not by much
        limit = fixed.unwrap_or_else(|| limit.saturating_mul(2).saturating_add(65536));
    }
    if let Some(size) = fixed {
        return with_scratch(size, |inner| {
            last.decode(data, inner)?;
            work(inner)
        });
    }
    let mut inner = Vec::new();
    last.decode_up_to(data, limit, &mut inner)?;
    work(&inner)
}
