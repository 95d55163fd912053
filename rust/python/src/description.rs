//! Descriptions of arrays as Python hands them in: tuples of names and numbers.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyTuple};
use tegula_kernel::array::{Chain, Elements, Keys, Serializer, Sharding};
use tegula_kernel::codecs::{self, Codec, Value};
use tegula_kernel::plan::Cut;

use crate::errors::exception;

/// `(order, serializer, buffers)`, as `CodecChain.native` gives it; `big` says that numbers in memory are big-endian.
pub fn chain(description: &Bound<'_, PyAny>, big: bool) -> PyResult<Chain> {
    let (order, serial, buffers): (Option<Vec<usize>>, Bound<'_, PyTuple>, Bound<'_, PyTuple>) = description.extract()?;
    let buffers = buffers.iter().map(|codec| build(&codec)).collect::<PyResult<_>>()?;
    Ok(Chain { order, serializer: serializer(&serial, big)?, buffers })
}

fn serializer(description: &Bound<'_, PyTuple>, big: bool) -> PyResult<Serializer> {
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
                inner: chain(&inner, big)?,
                index: chain(&index, false)?,
                at_start,
            })))
        }
        other => Err(PyTypeError::new_err(format!("no serializer is called {other:?}"))),
    }
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

/// An int for a regular axis; for any other a list of where chunks begin, and the last ends.
pub fn cut(description: &Bound<'_, PyAny>) -> PyResult<Cut> {
    if let Ok(length) = description.extract::<u64>() {
        if length > 0 {
            return Ok(Cut::Regular(length));
        }
    } else {
        let starts: Vec<u64> = description.extract()?;
        if starts.len() > 1 && starts[0] == 0 && starts.is_sorted_by(|a, b| a < b) {
            return Ok(Cut::Varying(starts));
        }
    }
    Err(PyTypeError::new_err("the axis is not cut into chunks"))
}

/// `(prefix, separator, suffix, scalar, first_only)`.
pub fn keys(description: &Bound<'_, PyAny>) -> PyResult<Keys> {
    let (prefix, separator, suffix, scalar, first_only) = description.extract()?;
    Ok(Keys { prefix, separator, suffix, scalar, first_only })
}
