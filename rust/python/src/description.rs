//! Descriptions of arrays as Python passes them: objects whose attributes are read by the names of the fields here.
//!
//! [`crate::array`] reads the description of an array when it is opened, [`crate::strings`] that of its codecs.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use tegula_kernel::Error;
use tegula_kernel::array::Keys;
use tegula_kernel::chain::{Chain, Elements, Serializer, Sharding};
use tegula_kernel::codecs::{self, Codec};
use tegula_kernel::plan::ChunkAxis;

use crate::codecs::options;
use crate::errors::exception;

/// How deep shards may be nested.
const DEEPEST: usize = 32;
/// Largest index of a shard that `tegula.codecs.serializers.sharding` allows, in bytes.
const LARGEST_INDEX: u64 = 1 << 28;

/// A chain of codecs: `tegula.codecs.native.NativeChain`.
#[derive(FromPyObject)]
struct ChainParts<'py> {
    order: Option<Vec<usize>>,
    serializer: SerializerParts<'py>,
    buffers: Vec<Bound<'py, PyAny>>,
}

/// The array-to-bytes codec: `NativeElements` or `NativeShards` of the same module.
#[derive(FromPyObject)]
enum SerializerParts<'py> {
    Elements { itemsize: usize, swap: usize, is_text: bool },
    Shards { inner_shape: Vec<u64>, inner: Bound<'py, PyAny>, index: Bound<'py, PyAny>, index_at_start: bool },
}

/// An axis of the chunk grid: `tegula.metadata.chunk_grids.RegularAxis` or `VaryingAxis`.
#[derive(FromPyObject)]
pub enum AxisParts {
    /// Chunks of equal length.
    Regular { chunk: u64 },
    /// The length of each chunk.
    Varying { edges: Vec<u64> },
}

/// The encoding of chunk keys: `tegula.metadata.chunk_keys.ChunkKeyEncoding`.
#[derive(FromPyObject)]
pub struct KeyParts {
    separator: String,
    prefix: String,
    suffix: String,
    scalar: String,
    first_only: bool,
    is_reversed: bool,
}

impl KeyParts {
    /// Return the keys of an array at the path `above`.
    pub fn below(self, above: &str) -> Keys {
        let KeyParts { separator, prefix, suffix, scalar, first_only, is_reversed } = self;
        let scalar = if scalar.is_empty() { scalar } else { format!("{above}{scalar}") };
        Keys { prefix: format!("{above}{prefix}"), separator, suffix, scalar, first_only, is_reversed }
    }
}

/// Build the chain that a `NativeChain` describes; `big` says whether numbers in memory are big-endian.
pub fn chain(description: &Bound<'_, PyAny>, big: bool) -> PyResult<Chain> {
    nested(description, big, DEEPEST)
}

fn nested(description: &Bound<'_, PyAny>, big: bool, depth: usize) -> PyResult<Chain> {
    let Some(depth) = depth.checked_sub(1) else {
        let error = Error::unsupported("sharding_indexed", "shards are nested too deeply");
        return Err(exception(description.py(), error));
    };
    let parts: ChainParts<'_> = description.extract()?;
    let serializer = match parts.serializer {
        SerializerParts::Elements { itemsize, swap, is_text } => {
            Serializer::Elements(Elements { size: itemsize, swap, text: is_text.then_some(big) })
        }
        SerializerParts::Shards { inner_shape, .. } if inner_shape.contains(&0) => {
            return Err(PyTypeError::new_err("an inner chunk has no elements"));
        }
        SerializerParts::Shards { inner_shape, inner, index, index_at_start } => {
            Serializer::Shard(Box::new(Sharding {
                inner_shape,
                inner: nested(&inner, big, depth)?,
                index: nested(&index, false, depth)?,
                at_start: index_at_start,
            }))
        }
    };
    Ok(Chain { order: parts.order, serializer, buffers: buffers(&parts.buffers)? })
}

/// Build the bytes-to-bytes codecs, given in the order of encoding.
pub fn buffers(codecs: &[Bound<'_, PyAny>]) -> PyResult<Vec<Box<dyn Codec>>> {
    let build =
        |codec: &Bound<'_, PyAny>| codecs::build(&options(codec)?).map_err(|error| exception(codec.py(), error));
    codecs.iter().map(build).collect()
}

/// Make the axis of the chunk grid along `size` indices.
pub fn chunk_axis(axis: AxisParts, size: u64) -> PyResult<ChunkAxis> {
    let known = |length: u64| i64::try_from(length).is_ok();
    match axis {
        AxisParts::Regular { chunk } if chunk > 0 && known(chunk) && known(size) => {
            return Ok(ChunkAxis::Regular(chunk));
        }
        AxisParts::Varying { .. } if size == 0 => return Ok(ChunkAxis::Regular(1)), // an empty axis has no chunks
        AxisParts::Varying { edges } => {
            let mut starts = vec![0_u64];
            let mut end = 0_u64;
            for edge in edges {
                if end >= size {
                    break;
                }
                end = end.saturating_add(edge);
                starts.push(end);
            }
            if end >= size && known(end) && starts.is_sorted_by(|a, b| a < b) {
                return Ok(ChunkAxis::Varying(starts.into()));
            }
        }
        AxisParts::Regular { .. } => {}
    }
    Err(PyTypeError::new_err("the chunks do not cover the axis"))
}

/// Make the error for parts of a description that contradict each other.
pub fn contradiction() -> PyErr {
    PyValueError::new_err("the parts of the description contradict each other")
}

/// Check that a chain fits an array, which the kernel relies on; `size` is the size of an element in bytes.
pub fn check_chain(chain: &Chain, chunk_axes: &[ChunkAxis], size: usize) -> tegula_kernel::Result<()> {
    let unfit = || Error::unsupported("", "the codecs do not fit the array");
    if let Some(order) = &chain.order {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..chunk_axes.len()) {
            return Err(unfit());
        }
    }
    // elements of the array's data type, or shards
    let sharding = match &chain.serializer {
        Serializer::Elements(elements) if elements.size != size || size % elements.swap.max(1) != 0 => {
            return Err(unfit());
        }
        Serializer::Elements(_) => return Ok(()),
        Serializer::Shard(sharding) => sharding,
    };
    // the index has plain entries of two 64-bit integers
    let index = &sharding.index;
    if index.order.is_some() || index.elements().is_none_or(|elements| elements.size != 8 || elements.swap > 8) {
        return Err(Error::unsupported("sharding_indexed", "the layout of the index is not supported"));
    }
    if sharding.inner_shape.len() != chunk_axes.len() {
        return Err(unfit());
    }
    // shards are whole numbers of inner chunks, not too many of them
    let mut entries = 1_u64;
    for (position, &inner) in sharding.inner_shape.iter().enumerate() {
        let longest = match &chunk_axes[chain.order.as_ref().map_or(position, |order| order[position])] {
            ChunkAxis::Regular(length) if length % inner == 0 => *length,
            ChunkAxis::Varying(starts) if starts.iter().all(|start| start % inner == 0) => {
                starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
            }
            _ => return Err(unfit()),
        };
        entries = entries.saturating_mul(longest / inner);
    }
    if entries > LARGEST_INDEX / 16 {
        return Err(Error::unsupported("sharding_indexed", "the index of the shards is too large"));
    }
    let chunk_axes: Vec<ChunkAxis> = sharding.inner_shape.iter().map(|&length| ChunkAxis::Regular(length)).collect();
    check_chain(&sharding.inner, &chunk_axes, size)
}
