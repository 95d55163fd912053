"""``zarr.meta``: functions that convert the document ``meta`` of an array to a dict, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tegula.errors import MetadataError, TegulaError
from tegula.formats import find_format
from tegula.formats.documents import load
from tegula.metadata.data_types import dtype_of_text
from tegula.metadata.nodes import ArrayMetadata
from tegula.zarr1.new_arrays import array_documents

__all__ = ["decode_dtype", "decode_metadata", "encode_dtype", "encode_metadata"]

_NAMES = ("shape", "chunks", "dtype", "compression", "compression_opts", "fill_value", "order")


def decode_metadata(b: Any) -> dict[str, Any]:
    """Return the document ``meta`` of an array as a dict.

    Raises
    ------
    MetadataError
        If the document is not valid.

    Examples
    --------
    >>> from tegula import zarr1 as zarr
    >>> meta = decode_metadata(zarr.zeros((20, 20), chunks=(10, 20), dtype="i4").store["meta"])
    >>> meta["shape"], meta["chunks"], meta["dtype"], meta["compression"], meta["order"]
    ((20, 20), (10, 20), dtype('int32'), 'blosc', 'C')
    """
    # the format checks the document; its errors become those of zarr 1.1
    raw = bytes(b, "utf-8") if isinstance(b, str) else bytes(b)
    document = load(raw, "meta")
    try:
        metadata = find_format("zarr1").parse({"meta": raw})
    except MetadataError:
        raise
    except TegulaError as error:
        raise MetadataError(error.message, key="meta", field=error.field) from error
    if not isinstance(metadata, ArrayMetadata):
        raise MetadataError("this is not the document of an array", key="meta")
    # the values are those of the document, except shape, chunks and data type
    return {
        "zarr_format": document["zarr_format"],
        "shape": metadata.shape,
        "chunks": tuple(document["chunks"]),
        "dtype": metadata.data_type.numpy,
        **{name: document[name] for name in _NAMES[3:]},
    }


def encode_metadata(meta: Mapping[str, Any]) -> bytes:
    """Return the document ``meta`` of an array from a dict, as `decode_metadata` returns it.

    Raises
    ------
    MetadataError
        If an entry of `meta` is missing or not valid.

    Examples
    --------
    >>> from tegula import zarr1 as zarr
    >>> store = zarr.zeros((20, 20), chunks=(10, 20), dtype="i4").store
    >>> encode_metadata(decode_metadata(store["meta"])) == store["meta"]
    True
    """
    missing = [name for name in _NAMES if name not in meta]
    if missing:
        raise MetadataError(f"the entry {missing[0]!r} is missing", key="meta", field=missing[0])
    return array_documents(*(meta[name] for name in _NAMES)).documents["meta"]


def encode_dtype(d: np.dtype[Any]) -> Any:
    """Convert a data type to its form in documents: a type string, or a list of fields.

    Examples
    --------
    >>> import numpy as np
    >>> encode_dtype(np.dtype("i4")), encode_dtype(np.dtype([("a", "i4"), ("b", "S3")]))
    ('<i4', [('a', '<i4'), ('b', '|S3')])
    """
    return d.str if d.fields is None else d.descr


def decode_dtype(d: Any) -> np.dtype[Any]:
    """Convert a data type from its form in documents.

    Raises
    ------
    MetadataError
        If it is not a data type.

    Examples
    --------
    >>> decode_dtype([["a", "<i4"], ["b", [["c", "|S3"]]]])
    dtype([('a', '<i4'), ('b', [('c', 'S3')])])
    """
    try:
        dtype: np.dtype[Any] = np.dtype(_fields(d))
    except (TypeError, ValueError, SyntaxError) as error:
        raise MetadataError(f"{d!r:.80} is not a data type: {error}", key="meta", field="dtype") from error
    return dtype


def _fields(d: Any) -> Any:
    """Convert lists of fields to the tuples that NumPy expects, and type strings to dtypes."""
    if isinstance(d, list):
        return [(name, _fields(inner), *rest) for name, inner, *rest in d]
    return dtype_of_text(d) if isinstance(d, str) else d
