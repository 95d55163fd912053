"""Creating arrays from data, and the options of all functions that create arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypedDict

import numpy as np

from tegula.arrays.array import Array
from tegula.arrays.chunking import as_shape
from tegula.arrays.creation import completing, new_array
from tegula.arrays.values import as_data
from tegula.engine.deleting import remove_array
from tegula.errors import MetadataError, TegulaError
from tegula.stores import Store
from tegula.targets.paths import refuse_overlap

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
    """Options of a new array besides shape and dtype; see `tegula.create_array`."""

    fill_value: Any


class FilledArrayOptions(_Options, total=False):
    """Options of a new array that is filled with one value, and of where it is stored."""

    path: str
    storage_options: Mapping[str, Any] | None


class NewArrayOptions(ArrayOptions, total=False):
    """Options of a new array, and of where it is stored."""

    path: str
    storage_options: Mapping[str, Any] | None


CREATION = frozenset(ArrayOptions.__annotations__) - {"overwrite", "allow_pickle", "format"}
"""Options that `tegula.open` takes for a new array, besides shape and dtype."""


def new_array_with(
    store: Store, path: str, data: Any = None, *, shape: Any = None, dtype: Any = None, **options: Any
) -> Array:
    """Create an array, and write `data` to it if given.

    The options are those of `tegula.arrays.creation.new_array`.

    By default shape and dtype are those of `data`. A chunked array (of h5py, zarr-python, dask or tegula) is read and
    written in parts. After an error the new array is deleted.

    Raises
    ------
    MetadataError
        If without `data` the shape or dtype is missing, `shape` contradicts `data`, or `data` is an array that overlaps
        the new one in the store.
    """
    if data is None:
        for name, value in (("shape", shape), ("dtype", dtype)):
            if value is None:
                raise MetadataError(f"a new array needs a {name}, or data", field=name)
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
            remove_array(array._stored, array.path)
        raise
    return array


def _is_chunked(data: Any) -> bool:
    """Return whether `data` is a chunked array, which is read in parts."""
    if isinstance(data, (np.ndarray, np.generic)) or not all(hasattr(data, name) for name in ("chunks", "shape")):
        return False
    try:
        return np.dtype(data.dtype).kind != "O" and isinstance(data.shape, tuple)
    except (TypeError, AttributeError):
        return False


def type_of(data: Any) -> Any:
    """Return the data type for `data`; ``str`` or ``bytes`` for objects that are all of that type.

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
