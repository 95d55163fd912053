//! NumPy arrays and scalars: allocation of results, and access to the memory of arrays, through NumPy's C interface.

use std::ffi::{c_int, c_void};

use numpy::npyffi::{self, PY_ARRAY_API, PyArrayObject, npy_intp};
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::prelude::*;
use tegula_kernel::memory::Block;

/// Results from this size on use cached memory of the kernel, in bytes.
const LARGE: usize = 1 << 18;

/// The owner of the memory of an array, which is its `base`.
#[pyclass(frozen, module = "tegula._kernel")]
struct Memory {
    #[expect(dead_code, reason = "releases its memory when it is dropped")]
    block: Block,
}

/// Make an array in C order with undefined content.
#[pyfunction]
pub fn empty<'py>(py: Python<'py>, shape: Vec<usize>, dtype: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyAny>> {
    new_array(py, &shape, dtype)
}

/// Make an array in C order with undefined content, of a data type without Python objects.
pub fn new_array<'py>(
    py: Python<'py>,
    shape: &[usize],
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyAny>> {
    use numpy::PyArrayDescrMethods;
    if dtype.has_object() {
        return Err(PyTypeError::new_err("the data type must not hold Python objects"));
    }
    // memory: large results use a block of the kernel, small ones NumPy's own allocation
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
    // SAFETY: NumPy takes over the reference to the descriptor; `dims` has one item for each dimension; the memory of a
    // block has the size of the array and lives as long as its base, which is set before the array is returned.
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

/// Make a NumPy scalar of the bytes of an element.
pub fn scalar<'py>(py: Python<'py>, data: &mut [u8], dtype: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: `data` has the size of an element, and NumPy copies it. The base, an array whose data type NumPy would take
    // the size from, may be null.
    unsafe {
        let base = std::ptr::null_mut();
        let made = PY_ARRAY_API.PyArray_Scalar(py, data.as_mut_ptr().cast(), dtype.as_ptr().cast(), base);
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// The memory layout of an array.
pub struct View<'py> {
    array: Bound<'py, PyUntypedArray>,
}

impl<'py> View<'py> {
    /// Get the memory layout of an array.
    pub fn new(array: &Bound<'py, PyAny>) -> PyResult<View<'py>> {
        Ok(View { array: array.cast::<PyUntypedArray>()?.clone() })
    }

    fn object(&self) -> &PyArrayObject {
        use numpy::PyUntypedArrayMethods;
        // SAFETY: the array is alive as long as `self`.
        unsafe { &*self.array.as_array_ptr() }
    }

    /// Return the address of the first element.
    pub fn start(&self) -> *mut u8 {
        self.object().fields.data.cast()
    }

    /// Return the shape.
    pub fn shape(&self) -> &[usize] {
        use numpy::PyUntypedArrayMethods;
        self.array.shape()
    }

    /// Return the strides, in bytes.
    pub fn strides(&self) -> &[isize] {
        use numpy::PyUntypedArrayMethods;
        self.array.strides()
    }

    /// Return the size of an element, in bytes.
    pub fn item_size(&self) -> usize {
        use numpy::{PyArrayDescrMethods, PyUntypedArrayMethods};
        self.array.dtype().itemsize()
    }

    /// Return the number of bytes, `None` if the elements do not lie one after the other in C order.
    pub fn contiguous_bytes(&self) -> Option<usize> {
        use numpy::PyUntypedArrayMethods;
        let size = self.item_size();
        self.array.is_c_contiguous().then(|| self.array.len() * size)
    }

    /// Return whether the elements hold Python objects.
    pub fn has_objects(&self) -> bool {
        use numpy::{PyArrayDescrMethods, PyUntypedArrayMethods};
        self.array.dtype().has_object()
    }

    /// Return whether no two elements share memory; `false` if this is not obvious from the strides.
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

    /// Return whether the array is writeable.
    pub fn is_writeable(&self) -> bool {
        self.object().fields.flags & npyffi::NPY_ARRAY_WRITEABLE != 0
    }
}
