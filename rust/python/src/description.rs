//! Descriptions of arrays as Python hands them in: tuples of names and numbers.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyTuple};
use tegula_kernel::Error;
use tegula_kernel::array::{Chain, Elements, Keys, Serializer, Sharding};
use tegula_kernel::codecs::{self, Codec, Value};
use tegula_kernel::plan::Cut;

use crate::errors::exception;

/// How deep shards may lie within shards.
const DEEPEST: usize = 32;
/// The longest index that `tegula.codecs.sharding` lets a shard have, in bytes.
const LARGEST_INDEX: u64 = 1 << 28;

/// `(order, serializer, buffers)`, as `CodecChain.native` gives it; `big` says that numbers in memory are big-endian.
pub fn chain(description: &Bound<'_, PyAny>, big: bool) -> PyResult<Chain> {
    nested(description, big, DEEPEST)
}

fn nested(description: &Bound<'_, PyAny>, big: bool, depth: usize) -> PyResult<Chain> {
    if depth == 0 {
        return Err(exception(
            description.py(),
            Error::unsupported("sharding_indexed", "shards are nested too deeply"),
        ));
    }
    let (order, serial, buffers): (Option<Vec<usize>>, Bound<'_, PyTuple>, Bound<'_, PyTuple>) =
        description.extract()?;
    Ok(Chain { order, serializer: serializer(&serial, big, depth - 1)?, buffers: self::buffers(&buffers)? })
}

fn serializer(description: &Bound<'_, PyTuple>, big: bool, depth: usize) -> PyResult<Serializer> {
    let kind: String = description.get_item(0)?.extract()?;
    match kind.as_str() {
        "bytes" => {
            let (_, size, swap, text): (String, usize, usize, bool) = description.extract()?;
            Ok(Serializer::Elements(Elements { size, swap, text: text.then_some(big) }))
        }
        "sharding" => {
            type Parts<'py> = (String, Vec<u64>, Bound<'py, PyAny>, Bound<'py, PyAny>, bool);
            let (_, inner_shape, inner, index, at_start): Parts<'_> = description.extract()?;
            if inner_shape.contains(&0) {
                return Err(PyTypeError::new_err("an inner chunk has no elements"));
            }
            Ok(Serializer::Shard(Box::new(Sharding {
                inner_shape,
                inner: nested(&inner, big, depth)?,
                index: nested(&index, false, depth)?,
                at_start,
            })))
        }
        other => Err(PyTypeError::new_err(format!("no serializer is called {other:?}"))),
    }
}

/// The codecs of bytes, in the order of encoding.
pub fn buffers(descriptions: &Bound<'_, PyTuple>) -> PyResult<Vec<Box<dyn Codec>>> {
    descriptions.iter().map(|codec| build(&codec)).collect()
}

fn build(description: &Bound<'_, PyAny>) -> PyResult<Box<dyn Codec>> {
    let parts = description.cast::<PyTuple>()?;
    let name: String = parts.get_item(0)?.extract()?;
    let options = parts.iter().skip(1).map(|item| value(&item)).collect::<PyResult<Vec<Value>>>()?;
    codecs::build(&name, &options).map_err(|error| exception(description.py(), error))
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

/// An int for a regular axis; for any other a list of where chunks begin, and the last ends. `size` is the axis' length.
pub fn cut(description: &Bound<'_, PyAny>, size: u64) -> PyResult<Cut> {
    let known = |length: u64| i64::try_from(length).is_ok();
    if let Ok(length) = description.extract::<u64>() {
        if length > 0 && known(length) && known(size) {
            return Ok(Cut::Regular(length));
        }
    } else {
        let starts: Vec<u64> = description.extract()?;
        match starts.as_slice() {
            [0] if size == 0 => return Ok(Cut::Regular(1)), // there is nothing to cut
            [0, .., end] if *end >= size && known(*end) && starts.is_sorted_by(|a, b| a < b) => {
                return Ok(Cut::Varying(starts.into()));
            }
            _ => {}
        }
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

/// `(prefix, separator, suffix, scalar, first_only)`.
pub fn keys(description: &Bound<'_, PyAny>) -> PyResult<Keys> {
    let (prefix, separator, suffix, scalar, first_only) = description.extract()?;
    Ok(Keys { prefix, separator, suffix, scalar, first_only })
}
