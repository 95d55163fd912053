"""The functions of zarr 1.x that create and open arrays; what they create is Zarr v1."""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np

from tegula import engine
from tegula.chunking import as_shape
from tegula.creation import array_metadata, new_array_of
from tegula.errors import AlreadyExistsError, MetadataError
from tegula.formats import find_format
from tegula.formats.documents import Style, dump, load
from tegula.metadata.data_types import as_data_type
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Store
from tegula.zarr1.arrays import Array, SynchronizedArray
from tegula.zarr1.compression import normalise_compression
from tegula.zarr1.errors import ExistsError, MissingError
from tegula.zarr1.stores import DirectoryStore, as_store

__all__ = ["array", "chunks_of", "create", "describe", "empty", "full", "init_store", "ones", "open", "zeros"]

_FORMAT: Final = find_format("zarr1")
_STYLE: Final = Style(indent=4, sort_keys=True)
_ROWS: Final = 16
"""Rows of chunks that are copied at once from something that is not in memory."""


def describe(
    shape: Any, chunks: Any, dtype: Any, compression: Any, compression_opts: Any, fill_value: Any, order: Any
) -> ArrayMetadata:
    """Make the documents that zarr 1.1 would write, and read them."""
    lengths = as_shape(shape)
    data_type = as_data_type(np.dtype(float) if dtype is None else dtype)
    if chunks is None:
        raise MetadataError("chunks must be specified", field="chunks")
    if hasattr(chunks, "__index__") and not isinstance(chunks, bool):
        chunks = (chunks,)  # of the first dimension, unlike elsewhere in tegula; the others are not divided
    draft = array_metadata(_FORMAT, lengths, data_type, chunks, fill_value=None, codecs=None)
    documents = _FORMAT.serialize(_FORMAT.adapt(draft))
    name, options = normalise_compression(compression, compression_opts)
    changes = {
        "compression": name,
        "compression_opts": options,
        "fill_value": _fill_to_json(fill_value, data_type.numpy),
        "order": str(order).upper(),
    }
    documents["meta"] = dump({**load(documents["meta"], "meta"), **changes}, "meta", _STYLE)
    metadata = _FORMAT.parse(documents)
    if not isinstance(metadata, ArrayMetadata):
        raise MetadataError("the array could not be described", key="meta")
    return metadata


def _fill_to_json(value: Any, dtype: np.dtype[Any]) -> Any:
    """Give the values that JSON does not know a form that NumPy reads back; zarr 1.1 failed for these."""
    if isinstance(value, (np.datetime64, np.timedelta64)) and value.dtype.kind == dtype.kind:
        return int(value.astype(dtype).astype("i8"))
    if isinstance(value, (complex, np.complexfloating)) and value.imag == 0:
        return float(value.real)
    return value.decode("latin-1") if isinstance(value, bytes) else value


def init_store(
    store: Any,
    shape: Any,
    chunks: Any,
    dtype: Any = None,
    compression: str | None = "default",
    compression_opts: Any = None,
    fill_value: Any = None,
    order: str = "C",
    overwrite: bool = False,
) -> None:
    """Put an array without chunks into a store: the keys ``meta`` and ``attrs``.

    Parameters
    ----------
    store : MutableMapping or tegula store
        Where to; a `DirectoryStore`, a ``dict``, any mapping of keys to bytes.
    shape, chunks, dtype, compression, compression_opts, fill_value, order
        As for `create`.
    overwrite : bool
        Replace the array that is there; otherwise the store has to be empty.

    Raises
    ------
    ValueError
        If the store is not empty and `overwrite` is false, or an argument is not valid. Nothing has been written then.
    UnsupportedError
        If Zarr v1 has no arrays of that data type.

    Examples
    --------
    >>> store = {}
    >>> init_store(store, shape=(10000, 10000), chunks=(1000, 1000))
    >>> sorted(store), store["attrs"]
    (['attrs', 'meta'], b'{}')
    """
    kept = as_store(store)
    metadata = describe(shape, chunks, dtype, compression, compression_opts, fill_value, order)
    if not overwrite and next(kept.list(), None) is not None:
        raise ExistsError("the store is not empty; overwrite=True replaces what is there", path=kept.url)
    _put(kept, metadata, overwrite)


def _put(store: Store, metadata: ArrayMetadata, overwrite: bool) -> None:
    try:
        new_array_of(store, "", _FORMAT, metadata, overwrite, write_empty=True)
    except AlreadyExistsError as error:
        raise ExistsError(error.message).within(path=error.path, key=error.key) from error


def create(
    shape: Any,
    chunks: Any,
    dtype: Any = None,
    compression: str | None = "default",
    compression_opts: Any = None,
    fill_value: Any = None,
    order: str = "C",
    store: Any = None,
    synchronizer: Any = None,
    overwrite: bool = False,
) -> Array:
    """Create an array.

    Parameters
    ----------
    shape : int or sequence of int
        Length of each dimension.
    chunks : int or sequence of int or None
        Length of a chunk along each dimension. ``None`` in it, and what is missing at its end, is the whole dimension.
    dtype : dtype-like, optional
        Type of the elements, ``float64`` by default.
    compression : {"default", "blosc", "zlib", "gzip", "bz2", "lzma", "none", None}
        The compressor, Blosc with LZ4 by default.
    compression_opts : int or mapping, optional
        A level for zlib and bz2; ``cname``, ``clevel``, ``shuffle`` for Blosc; ``format``, ``check``, ``preset``,
        ``filters`` for lzma.
    fill_value : scalar, optional
        Value of elements that were never written; ``None`` leaves it undefined, which reads as zero.
    order : {"C", "F"}
        Order of the elements within a chunk.
    store : MutableMapping or tegula store, optional
        Where to; a new ``dict`` by default.
    synchronizer : ThreadSynchronizer or ProcessSynchronizer, optional
        What keeps writers apart where the store can't.
    overwrite : bool
        Replace the array that is in the store; otherwise the store has to be empty.

    Raises
    ------
    ValueError
        If the store is not empty and `overwrite` is false, or an argument is not valid. Nothing has been written then.
    UnsupportedError
        If Zarr v1 has no arrays of that data type.

    Examples
    --------
    >>> z = create((10000, 10000), chunks=(1000, 1000), compression_opts={"clevel": 3})
    >>> z.dtype, z.compression, z.compression_opts, z.fill_value
    (dtype('float64'), 'blosc', {'clevel': 3, 'cname': 'lz4', 'shuffle': 1}, None)
    """
    store = {} if store is None else store
    init_store(store, shape, chunks, dtype, compression, compression_opts, fill_value, order, overwrite)
    return _array(store, False, synchronizer)


def _array(store: Any, readonly: bool, synchronizer: Any) -> Array:
    return Array(store, readonly) if synchronizer is None else SynchronizedArray(store, synchronizer, readonly)


def empty(
    shape: Any,
    chunks: Any,
    dtype: Any = None,
    compression: str | None = "default",
    compression_opts: Any = None,
    order: str = "C",
    store: Any = None,
    synchronizer: Any = None,
) -> Array:
    """Create an array whose elements are not defined before they are written; the parameters are those of `create`.

    Examples
    --------
    >>> empty(100, chunks=10).fill_value is None
    True
    """
    return create(shape, chunks, dtype, compression, compression_opts, None, order, store, synchronizer)


def zeros(
    shape: Any,
    chunks: Any,
    dtype: Any = None,
    compression: str | None = "default",
    compression_opts: Any = None,
    order: str = "C",
    store: Any = None,
    synchronizer: Any = None,
) -> Array:
    """Create an array of zeros; the parameters are those of `create`.

    Examples
    --------
    >>> zeros((10000, 10000), chunks=(1000, 1000))[:2, :2]
    array([[0., 0.],
           [0., 0.]])
    """
    return create(shape, chunks, dtype, compression, compression_opts, 0, order, store, synchronizer)


def ones(
    shape: Any,
    chunks: Any,
    dtype: Any = None,
    compression: str | None = "default",
    compression_opts: Any = None,
    order: str = "C",
    store: Any = None,
    synchronizer: Any = None,
) -> Array:
    """Create an array of ones; the parameters are those of `create`.

    Examples
    --------
    >>> ones((10000, 10000), chunks=(1000, 1000))[:2, :2]
    array([[1., 1.],
           [1., 1.]])
    """
    return create(shape, chunks, dtype, compression, compression_opts, 1, order, store, synchronizer)


def full(
    shape: Any,
    chunks: Any,
    fill_value: Any = None,
    dtype: Any = None,
    compression: str | None = "default",
    compression_opts: Any = None,
    order: str = "C",
    store: Any = None,
    synchronizer: Any = None,
) -> Array:
    """Create an array that holds `fill_value` everywhere; the parameters are those of `create`.

    Examples
    --------
    >>> full((10000, 10000), chunks=(1000, 1000), fill_value=42)[:2, :2]
    array([[42., 42.],
           [42., 42.]])
    """
    return create(shape, chunks, dtype, compression, compression_opts, fill_value, order, store, synchronizer)


def array(
    data: Any,
    chunks: Any = None,
    dtype: Any = None,
    compression: str | None = "default",
    compression_opts: Any = None,
    fill_value: Any = None,
    order: str = "C",
    store: Any = None,
    synchronizer: Any = None,
) -> Array:
    """Create an array that holds `data`.

    Parameters
    ----------
    data : array_like
        Its shape, and if they are not given, its dtype and chunks are taken over. What is no ndarray but has a shape
        and a dtype, such as an array of h5py, is copied in parts.
    chunks, dtype, compression, compression_opts, fill_value, order, store, synchronizer
        As for `create`.

    Examples
    --------
    >>> import numpy as np
    >>> z = array(np.arange(6).reshape(2, 3), chunks=(1, 3), dtype="i4")
    >>> z[1], z.initialized
    (array([3, 4, 5], dtype=int32), 2)
    """
    if not hasattr(data, "shape") or not hasattr(data, "dtype"):
        data = np.asanyarray(data)
    shape = tuple(data.shape)
    if chunks is None:
        chunks = (data.chunklen, *shape[1:]) if hasattr(data, "chunklen") else chunks_of(data, shape)
    dtype = data.dtype if dtype is None else dtype
    z = create(shape, chunks, dtype, compression, compression_opts, fill_value, order, store, synchronizer)
    if isinstance(data, np.ndarray):
        z[...] = data
        return z
    step = _ROWS * z.chunks[0]
    for start in range(0, shape[0], step):
        z[start : start + step] = np.asarray(data[start : start + step])
    return z


def open(
    path: Any,
    mode: str = "a",
    shape: Any = None,
    chunks: Any = None,
    dtype: Any = None,
    compression: str | None = "default",
    compression_opts: Any = None,
    fill_value: Any = 0,
    order: str = "C",
    synchronizer: Any = None,
) -> Array:
    """Open or create an array in a directory.

    Parameters
    ----------
    path : str, path, MutableMapping or tegula store
        The directory, or anything that is a store.
    mode : {"a", "r", "r+", "w", "w-", "x"}
        ``r`` reads and ``r+`` also writes what exists; ``a`` creates it if it does not; ``w`` creates it anew, deleting
        the array that is there; ``w-`` and ``x`` create it and fail if it exists.
    shape, chunks, dtype, compression, compression_opts, fill_value, order, synchronizer
        As for `create`; they say what to create and do not matter for what exists.

    Raises
    ------
    ValueError
        If the mode asks for an array that exists and none does, or the other way round; if there are chunks without
        ``meta`` and the mode is not ``w``; if an argument is not valid, or what is there can't be read.
    UnsupportedError
        If Zarr v1 has no arrays of that data type, or tegula no means to read what is there.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> root = tempfile.TemporaryDirectory()
    >>> path = os.path.join(root.name, "example.zarr")
    >>> z = open(path, mode="w", shape=(100, 100), chunks=(10, 10), dtype="i4")
    >>> z[:] = np.arange(10000).reshape(100, 100)
    >>> bool(np.all(open(path, mode="r")[:] == z[:]))
    True
    >>> root.cleanup()
    """
    if mode not in ("r", "r+", "a", "w", "w-", "x"):
        raise MetadataError(f"mode must be one of r, r+, a, w, w-, x, not {mode!r}", field="mode")
    store = DirectoryStore._at(path) if isinstance(path, (str, os.PathLike)) else path
    kept = as_store(store)
    exists = mode != "w" and engine.read_metadata(kept, "") is not None
    if exists and mode in ("w-", "x"):
        raise ExistsError("there is an array already", path=kept.url)
    if not exists:
        if mode in ("r", "r+"):
            raise MissingError("there is no array", path=kept.url)
        if shape is None:
            raise MetadataError("a new array needs a shape", path=kept.url, field="shape")
        metadata = describe(shape, chunks, dtype, compression, compression_opts, fill_value, order)
        if mode != "w" and next(engine.stored_array(kept, "", metadata).stored_chunks(), None) is not None:
            raise ExistsError("there are chunks without their meta; mode='w' deletes them", path=kept.url)
        try:
            _put(kept, metadata, mode == "w")
        except ExistsError:
            if mode != "a":  # with "a", another process has created it first
                raise
    return _array(store, mode == "r", synchronizer)


def chunks_of(data: Any, shape: tuple[int, ...]) -> Any:
    """Return the chunks of something that has such, if they have as many dimensions as `shape`; else ``None``."""
    chunks = getattr(data, "chunks", None)
    return chunks if isinstance(chunks, (tuple, list)) and len(chunks) == len(shape) else None
