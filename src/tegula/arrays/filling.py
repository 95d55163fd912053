"""Creating arrays from data, and the options of all functions that create arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypedDict

import numpy as np

from tegula.arrays.array import Array
from tegula.arrays.chunking import as_shape
from tegula.arrays.creation import completing, new_array, replaced, writable_format
from tegula.arrays.values import as_data, as_values
from tegula.engine.nodes.deleting import remove_array
from tegula.engine.nodes.replacing import Data, Replacement, replacing
from tegula.errors import MetadataError, NotFoundError, TegulaError
from tegula.metadata.data_types import DataType, as_data_type
from tegula.stores import Store

if TYPE_CHECKING:
    import numpy.typing as npt

    from tegula.arrays.arguments import ChunksLike, CodecsLike, FormatName, Order, ShardsLike

__all__ = [
    "CREATION",
    "ArrayOptions",
    "FilledArrayOptions",
    "NewArrayOptions",
    "new_array_from",
    "new_array_with",
    "type_of",
]


class _Options(TypedDict, total=False):
    chunks: ChunksLike
    shards: ShardsLike
    codecs: CodecsLike
    checksum: bool
    order: Order
    dimension_names: Sequence[str | None] | None
    attributes: Mapping[str, Any] | None
    chunk_key_encoding: Any
    overwrite: bool
    write_empty_chunks: bool | None
    allow_pickle: bool
    format: FormatName | None


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


_ATTEMPTS: Final = 100  # how often creating an array is tried while other processes create one there
CREATION = frozenset(ArrayOptions.__annotations__) - {"overwrite", "allow_pickle", "format"}
"""Options that `tegula.open` takes for a new array, besides shape and dtype."""


def new_array_with(
    store: Store, path: str, data: Any = None, *, shape: Any = None, dtype: Any = None, **options: Any
) -> Array:
    """Create an array, and write `data` to it if given.

    The options are those of `tegula.arrays.creation.new_array`.

    By default shape and dtype are those of `data`. A chunked array (of h5py, zarr-python, dask or tegula) is read and
    written in parts. After an error the new array is deleted, and a node that it would have replaced is as it was.

    Raises
    ------
    MetadataError
        If without `data` the shape or dtype is missing, or `shape` contradicts `data`.
    """
    if data is None:
        for name, value in (("shape", shape), ("dtype", dtype)):
            if value is None:
                raise MetadataError(f"a new array needs a {name}, or data", field=name)
        return new_array(store, path, shape=shape, dtype=dtype, **options)
    if not isinstance(data, Array) and not _is_chunked(data):
        data = _in_memory(data, dtype)
    if shape is not None and as_shape(shape) != data.shape:
        raise MetadataError(f"the shape {shape} is not that of the data, {data.shape}", field="shape")
    dtype = type_of(data) if dtype is None else dtype
    kind: Data = "memory" if isinstance(data, np.ndarray) else "lazy"
    for attempt in count(1):
        try:
            with new_array_from(store, path, kind, shape=data.shape, dtype=dtype, **options) as (array, replacement):
                if isinstance(data, np.ndarray):
                    array[...] = data
                else:
                    for region in array.iter_shards():
                        # np.asarray would drop the mask, which marks missing elements
                        array[region] = (
                            np.asarray(data[region]) if array.metadata.data_type.inner is None else data[region]
                        )
            return replaced(replacement, array)
        except NotFoundError as error:  # if another process has replaced the array, it is stored again
            if kind == "lazy" or not (error.is_stale and options.get("overwrite")) or attempt == _ATTEMPTS:
                raise
    raise AssertionError  # the loop has no other end


@contextmanager
def new_array_from(
    store: Store, path: str, data: Data, *, overwrite: bool = False, **options: Any
) -> Iterator[tuple[Array, Replacement]]:
    """Let the caller write all elements of a new array; then it takes the place of another node, if there is one.

    After an error, or Ctrl-C, the new array is deleted.

    Parameters
    ----------
    store, path : Store, str
        Where the array will be.
    data : {"memory", "lazy"}
        What the elements are made from; see `tegula.engine.nodes.replacing.Replacement`.
    overwrite : bool
        Whether it may replace another node.
    **options
        As for `tegula.arrays.creation.new_array`.

    Returns
    -------
    context manager of (Array, Replacement)
        The array to write to, and where it is; `tegula.arrays.creation.replaced` returns the array at its final place.
    """
    fmt = writable_format(options.get("format", "zarr3"), store)
    known = {name: options.pop(name) for name in ("reserved", "has_parent") if name in options}
    with replacing(store, path, fmt, overwrite, data, **known) as replacement:
        array = new_array(replacement.store, replacement.path, **options, **replacement.options, filled=False)
        try:
            with completing(array):
                yield array, replacement
            if overwrite and store.is_remote and not replacement.is_staged:  # others may have replaced it at once
                array.stored.check_exists()
        except BaseException:  # Ctrl-C, too
            with suppress(TegulaError):
                array.stored.check_exists()  # another node that has taken its place stays
                remove_array(array.stored, array.path)
            raise


def _in_memory(data: Any, dtype: Any) -> npt.NDArray[Any]:
    """Convert data for a new array to an ndarray; to records if the data type has missing elements."""
    if isinstance(dtype, (DataType, Mapping)) and (data_type := as_data_type(dtype)).inner is not None:
        return as_values(data, data_type, data_type.numpy)
    return as_data(data)


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
