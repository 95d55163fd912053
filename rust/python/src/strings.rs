//! Chunks of variable-length strings: text or bytes as Python objects. Called by `tegula.engine.stored.strings`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyString};
use tegula_kernel::codecs::{Codec, sequence, vlen};

use crate::description;
use crate::errors::exception;

/// `vlen-utf8` or `vlen-bytes`, and the bytes-to-bytes codecs that follow.
#[pyclass(frozen, module = "tegula._kernel")]
pub struct Strings {
    text: bool,
    buffers: Vec<Box<dyn Codec>>,
}

#[pymethods]
impl Strings {
    /// `is_text` says whether elements are text or bytes; `buffers` are bytes-to-bytes codecs in the order of encoding.
    #[new]
    #[pyo3(signature = (*, is_text, buffers))]
    fn new(is_text: bool, buffers: Vec<Bound<'_, PyAny>>) -> PyResult<Strings> {
        Ok(Strings { text: is_text, buffers: description::buffers(&buffers)? })
    }

    /// Decode a chunk to a list of `count` elements; no codec may decode to more than `most` bytes.
    fn decode<'py>(&self, py: Python<'py>, data: &[u8], count: usize, most: usize) -> PyResult<Bound<'py, PyList>> {
        let decoded = py.detach(|| {
            let mut content = Vec::new();
            sequence::decode_up_to(&self.buffers, data, most, &mut content)?;
            let ranges = if self.text { vlen::parse_text(&content, count) } else { vlen::parse(&content, count) };
            ranges.map(|ranges| (content, ranges))
        });
        let (content, ranges) = decoded.map_err(|error| exception(py, error))?;
        let elements = ranges.into_iter().map(|(start, end)| &content[start..end]);
        if self.text {
            let strings = elements.map(|element| std::str::from_utf8(element).unwrap_or_default());
            PyList::new(py, strings.map(|string| PyString::new(py, string)).collect::<Vec<_>>())
        } else {
            PyList::new(py, elements.map(|element| PyBytes::new(py, element)).collect::<Vec<_>>())
        }
    }

    /// Encode a list of elements to a chunk; `None` if one of them has another type.
    fn encode<'py>(&self, py: Python<'py>, elements: &Bound<'py, PyList>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let elements: Vec<Bound<'py, PyAny>> = elements.iter().collect();
        let mut items = Vec::with_capacity(elements.len());
        for element in &elements {
            let Some(item) = self.bytes_of(element) else { return Ok(None) };
            items.push(item);
        }
        let encoded = py.detach(|| {
            let mut content = Vec::new();
            vlen::join(&items, &mut content)?;
            let mut out = Vec::new();
            sequence::encode(&self.buffers, &content, 1, &mut out)?;
            Ok(out)
        });
        let encoded = encoded.map_err(|error| exception(py, error))?;
        Ok(Some(PyBytes::new(py, &encoded)))
    }
}

impl Strings {
    /// Return the bytes of an element; `None` and 0, the initial values of object arrays, are the empty string.
    fn bytes_of<'e>(&self, element: &'e Bound<'_, PyAny>) -> Option<&'e [u8]> {
        if self.text {
            if let Ok(text) = element.cast::<PyString>() {
                return text.to_str().ok().map(str::as_bytes);
            }
        } else if let Ok(data) = element.cast::<PyBytes>() {
            return Some(data.as_bytes());
        }
        let initial =
            element.is_none() || element.cast_exact::<PyInt>().is_ok_and(|number| matches!(number.extract(), Ok(0)));
        initial.then_some(&[])
    }
}
