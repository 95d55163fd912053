//! NumPy arrays and scalars, made and looked into through NumPy's C interface.

use std::ffi::{c_int, c_void};

use numpy::npyffi::{self, PY_ARRAY_API, PyArrayObject, npy_intp};
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use tegula_kernel::memory::Block;

/// From this size on results lie in memory of our own, which is used again.
const LARGE: usize = 1 << 18;

/// The owner of an array's memory, as its `base`.
#[pyclass(frozen, module = "tegula._kernel")]
struct Memory {
    #[expect(dead_code, reason = "gives its memory back when it is dropped")]
    block: Block,
}

/// Make an array that holds anything, in C order.
#[pyfunction]
pub fn empty<'py>(py: Python<'py>, shape: Vec<usize>, dtype: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyAny>> {
    new_array(py, &shape, dtype)
}

/// Make an array that holds anything, in C order; of a type without Python objects.
pub fn new_array<'py>(
    py: Python<'py>,
    shape: &[usize],
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyAny>> {
    use numpy::PyArrayDescrMethods;
    if dtype.has_object() {
        return Err(PyTypeError::new_err("only elements of a fixed size have a place in this memory"));
    }
    let size = shape.iter().try_fold(dtype.itemsize(), |size, &count| size.checked_mul(count));
    let size = size.filter(|&size| size <= isize::MAX as usize).ok_or_else(|| PyMemoryError::new_err("too large"))?;
    let mut dims: Vec<npy_intp> = shape.iter().map(|&count| count as npy_intp).collect();
    let block = if size >= LARGE {
        Some(
            Block::new(size)
                .map_err(|_| PyMemoryError::new_err(format!("there is not enough memory for {size} bytes")))?,
        )
    } else {
        None
    };
    let (data, flags) = match &block {
        Some(block) => (block.start().cast::<c_void>(), npyffi::NPY_ARRAY_CARRAY),
        None => (std::ptr::null_mut(), 0),
    };
    // SAFETY: the descriptor's reference is handed over; `dims` has as many members as there are dimensions; the memory,
    // if it is ours, is as large as the array and lives as long as its base, which is set before anybody sees the array.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            dtype.clone().into_ptr().cast(),
            dims.len() as c_int,
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            data,
            flags,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if let Some(block) = block {
            let base = Bound::new(py, Memory { block })?.into_any();
            if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast::<PyArrayObject>(), base.into_ptr()) < 0 {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(array)
    }
}

/// Make a scalar of an element's bytes.
pub fn scalar<'py>(py: Python<'py>, data: &mut [u8], dtype: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: `data` is as long as an element; what it holds is copied.
    unsafe {
        let made = PY_ARRAY_API.PyArray_Scalar(py, data.as_mut_ptr().cast(), dtype.as_ptr().cast(), ffi::Py_None());
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// Where an array's elements are.
pub struct View<'py> {
    array: Bound<'py, PyUntypedArray>,
}

impl<'py> View<'py> {
    /// Look into an array.
    pub fn new(array: &Bound<'py, PyAny>) -> PyResult<View<'py>> {
        Ok(View { array: array.cast::<PyUntypedArray>()?.clone() })
    }

    /// The first element's address.
    pub fn start(&self) -> *mut u8 {
        use numpy::PyUntypedArrayMethods;
        // SAFETY: the array is alive as long as `self`.
        unsafe { (*self.array.as_array_ptr()).fields.data.cast() }
    }

    /// Its lengths.
    pub fn shape(&self) -> &[usize] {
        use numpy::PyUntypedArrayMethods;
        self.array.shape()
    }

    /// Bytes between neighbours along each axis.
    pub fn strides(&self) -> &[isize] {
        use numpy::PyUntypedArrayMethods;
        self.array.strides()
    }

    /// Bytes of an element.
    pub fn item_size(&self) -> usize {
        use numpy::{PyArrayDescrMethods, PyUntypedArrayMethods};
        self.array.dtype().itemsize()
    }

    /// Whether it holds Python objects, which are more than their bytes.
    pub fn has_objects(&self) -> bool {
        use numpy::{PyArrayDescrMethods, PyUntypedArrayMethods};
        self.array.dtype().has_object()
    }

    /// Whether no two elements share memory, as far as that is easily told.
    pub fn is_disjoint(&self) -> bool {
        let mut axes: Vec<(usize, usize)> = (self.strides().iter().zip(self.shape()))
            .filter(|(_, count)| **count > 1)
            .map(|(stride, &count)| (stride.unsigned_abs(), count))
            .collect();
        axes.sort_unstable();
        let mut span = self.item_size();
        axes.into_iter().all(|(stride, count)| {
            let apart = stride >= span;
            span = span.saturating_add(stride.saturating_mul(count - 1));
            apart
        })
    }

    /// Whether it may be written to.
    pub fn is_writeable(&self) -> bool {
        use numpy::PyUntypedArrayMethods;
        // SAFETY: the array is alive as long as `self`.
        unsafe { (*self.array.as_array_ptr()).fields.flags & npyffi::NPY_ARRAY_WRITEABLE != 0 }
    }
}
