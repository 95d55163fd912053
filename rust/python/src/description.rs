//! Descriptions of arrays as Python hands them in: objects whose attributes are named here as they are there.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use tegula_kernel::Error;
use tegula_kernel::array::{Chain, Elements, Keys, Serializer, Sharding};
use tegula_kernel::codecs::{self, Codec, Value};
use tegula_kernel::plan::Cut;

use crate::errors::exception;

/// How deep shards may lie within shards.
const DEEPEST: usize = 32;
/// The longest index that `tegula.codecs.sharding` lets a shard have, in bytes.
const LARGEST_INDEX: u64 = 1 << 28;

/// A chain of codecs: `tegula.codecs.native.NativeChain`.
#[derive(FromPyObject)]
struct ChainParts<'py> {
    order: Option<Vec<usize>>,
    serializer: SerializerParts<'py>,
    buffers: Vec<CodecParts<'py>>,
}

/// How elements become bytes: `NativeElements` or `NativeShards` of the same module.
#[derive(FromPyObject)]
enum SerializerParts<'py> {
    Elements { itemsize: usize, swap: usize, is_text: bool },
    Shards { inner_shape: Vec<u64>, inner: Bound<'py, PyAny>, index: Bound<'py, PyAny>, index_at_start: bool },
}

/// A codec of bytes: `NativeCodec` of the same module.
#[derive(FromPyObject)]
pub struct CodecParts<'py> {
    name: String,
    options: Vec<Bound<'py, PyAny>>,
}

/// How an axis is cut into chunks: `tegula.metadata.chunk_grids.RegularAxis` or `VaryingAxis`.
#[derive(FromPyObject)]
pub enum AxisParts {
    /// Chunks of one length.
    Regular { chunk: u64 },
    /// The length of each chunk.
    Varying { edges: Vec<u64> },
}

/// How keys of chunks are spelled: `tegula.metadata.chunk_keys.ChunkKeyEncoding`.
#[derive(FromPyObject)]
pub struct KeyParts {
    separator: String,
    prefix: String,
    suffix: String,
    scalar: String,
    first_only: bool,
}

impl KeyParts {
    /// The keys of an array whose keys all start with `above`.
    pub fn below(self, above: &str) -> Keys {
        let KeyParts { separator, prefix, suffix, scalar, first_only } = self;
        let scalar = if scalar.is_empty() { scalar } else { format!("{above}{scalar}") };
        Keys { prefix: format!("{above}{prefix}"), separator, suffix, scalar, first_only }
    }
}

/// Make the chain that a `NativeChain` describes; `big` says that numbers in memory are big-endian.
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
    Ok(Chain { order: parts.order, serializer, buffers: buffers(description.py(), &parts.buffers)? })
}

/// Build the codecs of bytes, given in the order of encoding.
pub fn buffers(py: Python<'_>, codecs: &[CodecParts<'_>]) -> PyResult<Vec<Box<dyn Codec>>> {
    let build = |codec: &CodecParts<'_>| {
        let options = codec.options.iter().map(value).collect::<PyResult<Vec<Value>>>()?;
        codecs::build(&codec.name, &options).map_err(|error| exception(py, error))
    };
    codecs.iter().map(build).collect()
}

fn value(item: &Bound<'_, PyAny>) -> PyResult<Value> {
    if item.is_none() {
        Ok(Value::None)
    } else if item.is_instance_of::<PyBool>() {
        Ok(Value::Bool(item.extract()?))
    } else if item.is_instance_of::<PyInt>() {
        Ok(Value::Int(item.extract()?))
    } else if item.is_instance_of::<PyFloat>() {
        Ok(Value::Float(item.extract()?))
    } else if item.is_instance_of::<PyString>() {
        Ok(Value::Text(item.extract()?))
    } else {
        Err(PyTypeError::new_err("an option is a number, a text or nothing"))
    }
}

/// Cut an axis of `size` indices.
pub fn cut(axis: AxisParts, size: u64) -> PyResult<Cut> {
    let known = |length: u64| i64::try_from(length).is_ok();
    match axis {
        AxisParts::Regular { chunk } if chunk > 0 && known(chunk) && known(size) => return Ok(Cut::Regular(chunk)),
        AxisParts::Varying { .. } if size == 0 => return Ok(Cut::Regular(1)), // there is nothing to cut
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
                return Ok(Cut::Varying(starts.into()));
            }
        }
        AxisParts::Regular { .. } => {}
    }
    Err(PyTypeError::new_err("the axis is not cut into chunks"))
}

/// Make the error for parts that do not belong together.
pub fn contradiction() -> PyErr {
    PyValueError::new_err("the parts of the description contradict each other")
}

/// Refuse chains that do not fit an array, since the kernel relies on that; `size` is that of an element.
pub fn check_chain(chain: &Chain, cuts: &[Cut], size: usize) -> tegula_kernel::Result<()> {
    let unfit = || Error::unsupported("", "the codecs do not fit the array");
    if let Some(order) = &chain.order {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..cuts.len()) {
            return Err(unfit());
        }
    }
    let sharding = match &chain.serializer {
        Serializer::Elements(elements) if elements.size != size || size % elements.swap.max(1) != 0 => {
            return Err(unfit());
        }
        Serializer::Elements(_) => return Ok(()),
        Serializer::Shard(sharding) => sharding,
    };
    let index = &sharding.index;
    if index.order.is_some() || index.elements().is_none_or(|elements| elements.size != 8 || elements.swap > 8) {
        return Err(Error::unsupported("sharding_indexed", "the index is laid out in an unusual way"));
    }
    if sharding.inner_shape.len() != cuts.len() {
        return Err(unfit());
    }
    let mut entries = 1_u64;
    for (position, &inner) in sharding.inner_shape.iter().enumerate() {
        let longest = match &cuts[chain.order.as_ref().map_or(position, |order| order[position])] {
            Cut::Regular(length) if length % inner == 0 => *length,
            Cut::Varying(starts) if starts.iter().all(|start| start % inner == 0) => {
                starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
            }
            _ => return Err(unfit()),
        };
        entries = entries.saturating_mul(longest / inner);
    }
    if entries > LARGEST_INDEX / 16 {
        return Err(Error::unsupported("sharding_indexed", "the index of the shards is too large"));
    }
    let cuts: Vec<Cut> = sharding.inner_shape.iter().map(|&length| Cut::Regular(length)).collect();
    check_chain(&sharding.inner, &cuts, size)
}
