"""New arrays with their elements, and the options that all functions which create arrays take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypedDict

import numpy as np

from tegula.arrays import Array
from tegula.chunking import as_shape
from tegula.creation import completing, new_array, remove_array
from tegula.errors import MetadataError, TegulaError
from tegula.places import refuse_overlap
from tegula.stores import Store
from tegula.values import as_data

__all__ = ["CREATION", "ArrayOptions", "FilledArrayOptions", "NewArrayOptions", "new_array_with", "type_of"]


class _Options(TypedDict, total=False):
    chunks: Any
    shards: Any
    codecs: Any
    checksum: bool
    order: Literal["C", "F"]
    dimension_names: Sequence[str | None] | None
    attributes: Mapping[str, Any] | None
    chunk_key_encoding: Any
    overwrite: bool
    write_empty_chunks: bool | None
    allow_pickle: bool
    format: str | None


class ArrayOptions(_Options, total=False):
    """What a new array can be besides its shape and type; see `tegula.create_array`."""

    fill_value: Any


class FilledArrayOptions(_Options, total=False):
    """The same, with a path in a store, of an array that is filled with a value."""

    path: str


class NewArrayOptions(ArrayOptions, total=False):
    """The same, with a path in a store, of any array."""

    path: str


CREATION = frozenset(ArrayOptions.__annotations__) - {"overwrite", "allow_pickle", "format"}
"""What `tegula.open` takes of a new array, besides its shape and type."""


def new_array_with(
    store: Store, path: str, data: Any = None, *, shape: Any = None, dtype: Any = None, **options: Any
) -> Array:
    """Create an array, and write its elements if there are any; options are those of `tegula.creation.new_array`.

    Shape and type are those of the elements unless they are given. Elements of an array with chunks (of h5py,
    zarr-python, dask or tegula) are read and written in parts. If that fails, the array is removed again.

    Raises
    ------
    MetadataError
        If neither shape nor elements are given, they contradict each other, or the elements are read from the place
        that is written to.
    """
    if data is None:
        for name, value in (("shape", shape), ("dtype", dtype)):
            if value is None:
                raise MetadataError(f"a new array needs a {name}, or data to take it from", field=name)
        return new_array(store, path, shape=shape, dtype=dtype, **options)
    if isinstance(data, Array):
        refuse_overlap(data.store, data.path, store, path)
    elif not _is_chunked(data):
        data = as_data(data)
    if shape is not None and as_shape(shape) != data.shape:
        raise MetadataError(f"the shape {shape} is not that of the data, {data.shape}", field="shape")
    dtype = type_of(data) if dtype is None else dtype
    array = new_array(store, path, shape=data.shape, dtype=dtype, **options, filled=False)
    try:
        with completing(array):
            if isinstance(data, np.ndarray):
                array[...] = data
            else:
                for region in array.iter_shards():
                    array[region] = np.asarray(data[region])
    except BaseException:  # Ctrl-C, too
        with suppress(TegulaError):
            remove_array(array)
        raise
    return array


def _is_chunked(data: Any) -> bool:
    """Return whether the elements are better read in parts, by slices and as arrays of NumPy."""
    if isinstance(data, (np.ndarray, np.generic)) or not all(hasattr(data, name) for name in ("chunks", "shape")):
        return False
    try:
        return np.dtype(data.dtype).kind != "O" and isinstance(data.shape, tuple)
    except (TypeError, AttributeError):
        return False


def type_of(data: Any) -> Any:
    """Return the type that stores some elements: ``str`` or ``bytes`` if Python's objects are all that.

    Examples
    --------
    >>> type_of(np.array(["a", "bc"], object)), type_of(np.array([1.5]))
    (<class 'str'>, dtype('float64'))
    """
    if isinstance(data, Array):
        return data.metadata.data_type
    dtype: np.dtype[Any] = np.dtype(data.dtype)
    if dtype.kind == "T":
        return str
    if dtype.kind == "O" and isinstance(data, np.ndarray):
        for kind in (str, bytes):
            if all(isinstance(item, kind) for item in data.flat):
                return kind
    return dtype
