"""The functions of zarr 1.x that create and open arrays. New arrays are in the format Zarr v1."""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np

from tegula import engine
from tegula.errors import MetadataError
from tegula.zarr1.arrays import Array, SynchronizedArray
from tegula.zarr1.errors import ExistsError, MissingError
from tegula.zarr1.new_arrays import array_documents, init_store, put_array
from tegula.zarr1.stores import DirectoryStore, as_store

__all__ = ["array", "chunks_of", "create", "empty", "full", "ones", "open", "zeros"]

_CHUNK_ROWS: Final = 16  # rows of chunks that are copied at once from an array that is not in memory


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
        Length of a chunk along each dimension; an int is the length along the first one. Dimensions that have no
        number, or ``None``, are not divided.
    dtype : dtype-like, optional
        Data type of the elements; ``float64`` by default.
    compression : {"default", "blosc", "zlib", "gzip", "bz2", "lzma", "none", None}
        The compressor; Blosc with LZ4 by default.
    compression_opts : int or mapping, optional
        The level for zlib and bz2; ``cname``, ``clevel``, ``shuffle`` for Blosc; ``format``, ``check``, ``preset``,
        ``filters`` for lzma.
    fill_value : scalar, optional
        Value of elements that were never written. ``None`` leaves it undefined; tegula then reads zeros.
    order : {"C", "F"}
        Order of the elements within a chunk.
    store : MutableMapping or tegula store, optional
        The store; a new ``dict`` by default.
    synchronizer : ThreadSynchronizer or ProcessSynchronizer, optional
        Lets one process at a time write to a store without locks of its own.
    overwrite : bool
        Replace the array in the store. Otherwise the store must be empty.

    Raises
    ------
    ValueError
        If the store is not empty and `overwrite` is false, or an argument is not valid. Then nothing is written.
    UnsupportedError
        If Zarr v1 can't hold arrays of the data type.

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
    """Create an array without a fill value; the parameters are those of `create`.

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
    """Create an array filled with `fill_value`; the parameters are those of `create`.

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
    """Create an array from `data`.

    Parameters
    ----------
    data : array_like
        The elements. The new array has the shape of `data`, and by default its dtype and chunks. Data with a shape and
        a dtype that are not in memory, such as a dataset of h5py, are copied in parts.
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
    step = _CHUNK_ROWS * z.chunks[0]
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
        The directory, or a store.
    mode : {"a", "r", "r+", "w", "w-", "x"}
        ``r`` opens an array for reading, ``r+`` for reading and writing; ``a`` also creates it if it does not exist.
        ``w`` deletes an existing array and creates a new one; ``w-`` and ``x`` create one and fail if it exists.
    shape, chunks, dtype, compression, compression_opts, fill_value, order, synchronizer
        As for `create`; they have no effect on an existing array.

    Raises
    ------
    ValueError
        If the mode needs an existing array and there is none, or a new one and there is one; if there are chunks
        without ``meta`` and the mode is not ``w``; if an argument is not valid, or the existing array can't be read.
    UnsupportedError
        If Zarr v1 can't hold arrays of the data type, or tegula can't read the existing array.

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
    # find out whether the array exists, and whether the mode allows that
    store = DirectoryStore._at(path) if isinstance(path, (str, os.PathLike)) else path
    opened = as_store(store)
    exists = mode != "w" and engine.read_metadata(opened, "") is not None
    if exists and mode in ("w-", "x"):
        raise ExistsError("an array already exists", path=opened.url)
    # create it
    if not exists:
        if mode in ("r", "r+"):
            raise MissingError("there is no array", path=opened.url)
        if shape is None:
            raise MetadataError("a new array needs a shape", path=opened.url, field="shape")
        metadata = array_documents(shape, chunks, dtype, compression, compression_opts, fill_value, order)
        # as in zarr 1.1, also in a mapping, which the creation of other arrays does not list
        if mode != "w" and next(engine.stored_array(opened, "", metadata).stored_chunks(), None) is not None:
            raise ExistsError("there are chunks without the document 'meta'; mode='w' deletes them", path=opened.url)
        try:
            put_array(opened, metadata, mode == "w")
        except ExistsError:
            if mode != "a":  # with "a", use the array that another process has just created
                raise
    return _array(store, mode == "r", synchronizer)


def chunks_of(data: Any, shape: tuple[int, ...]) -> Any:
    """Return the attribute ``chunks`` of an array if it has a number for each dimension, else ``None``."""
    chunks = getattr(data, "chunks", None)
    return chunks if isinstance(chunks, (tuple, list)) and len(chunks) == len(shape) else None
