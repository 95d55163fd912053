"""Functions that initialize stores: they write the documents of a new array as zarr 1.1 does."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tegula.arrays.chunking import as_shape
from tegula.arrays.creation import array_metadata, new_array_of
from tegula.errors import AlreadyExistsError, MetadataError
from tegula.formats import find_format
from tegula.formats.documents import load
from tegula.formats.json_encoding import dump
from tegula.formats.keys import Style
from tegula.metadata.data_types import as_data_type
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Store
from tegula.zarr1.compression import normalise_compression
from tegula.zarr1.errors import ExistsError
from tegula.zarr1.stores import as_store

__all__ = ["array_documents", "init_store", "put_array"]

_FORMAT: Final = find_format("zarr1")
_STYLE: Final = Style(indent=4, sort_keys=True)


def array_documents(
    shape: Any, chunks: Any, dtype: Any, compression: Any, compression_opts: Any, fill_value: Any, order: Any
) -> ArrayMetadata:
    """Return the metadata of a new array, with the documents that zarr 1.1 writes.

    Parameters
    ----------
    shape, chunks, dtype, compression, compression_opts, fill_value, order
        As for `tegula.zarr1.create`.

    Raises
    ------
    MetadataError
        If an argument is not valid.
    UnsupportedError
        If Zarr v1 can't hold arrays of the data type.
    """
    lengths = as_shape(shape)
    data_type = as_data_type(np.dtype(float) if dtype is None else dtype)
    if chunks is None:
        raise MetadataError("chunks must be specified", field="chunks")
    if hasattr(chunks, "__index__") and not isinstance(chunks, bool):
        chunks = (chunks,)  # an int divides only the first dimension, unlike elsewhere in tegula
    # the format describes shape, chunks and data type; zarr 1.1 wrote the rest as the user gave it
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
        raise MetadataError("the metadata of the array could not be read back", key="meta")
    return metadata


def _fill_to_json(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a fill value to JSON; zarr 1.1 failed for dates, complex numbers and bytes."""
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
    """Initialize a store: write the documents of a new array, ``meta`` and ``attrs``.

    Parameters
    ----------
    store : MutableMapping or tegula store
        The store: a `DirectoryStore`, a ``dict``, or any mapping of keys to bytes.
    shape, chunks, dtype, compression, compression_opts, fill_value, order
        As for `create`.
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
    >>> store = {}
    >>> init_store(store, shape=(10000, 10000), chunks=(1000, 1000))
    >>> sorted(store), store["attrs"]
    (['attrs', 'meta'], b'{}')
    """
    opened = as_store(store)
    metadata = array_documents(shape, chunks, dtype, compression, compression_opts, fill_value, order)
    if not overwrite and next(opened.list(), None) is not None:
        raise ExistsError("the store is not empty; overwrite=True replaces the array in it", path=opened.url)
    put_array(opened, metadata, overwrite)


def put_array(store: Store, metadata: ArrayMetadata, overwrite: bool) -> None:
    """Store the documents of a new array.

    Raises
    ------
    ExistsError
        If a node exists and `overwrite` is false.
    """
    try:
        new_array_of(store, "", _FORMAT, metadata, overwrite, write_empty=True)
    except AlreadyExistsError as error:
        raise ExistsError(error.message).within(path=error.path, key=error.key) from error
