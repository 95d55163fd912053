"""``zarr.meta``: the document ``meta`` of an array as a dict, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tegula.errors import MetadataError, TegulaError
from tegula.formats import find_format
from tegula.formats.documents import load
from tegula.metadata.nodes import ArrayMetadata
from tegula.zarr1.creating import describe

__all__ = ["decode_dtype", "decode_metadata", "encode_dtype", "encode_metadata"]

_NAMES = ("shape", "chunks", "dtype", "compression", "compression_opts", "fill_value", "order")


def decode_metadata(b: Any) -> dict[str, Any]:
    """Read the document of an array.

    Raises
    ------
    MetadataError
        If it is not valid.

    Examples
    --------
    >>> from tegula import zarr1 as zarr
    >>> meta = decode_metadata(zarr.zeros((20, 20), chunks=(10, 20), dtype="i4").store["meta"])
    >>> meta["shape"], meta["chunks"], meta["dtype"], meta["compression"], meta["order"]
    ((20, 20), (10, 20), dtype('int32'), 'blosc', 'C')
    """
    raw = bytes(b, "utf-8") if isinstance(b, str) else bytes(b)
    document = load(raw, "meta")
    try:
        metadata = find_format("zarr1").parse({"meta": raw})
    except MetadataError:
        raise
    except TegulaError as error:
        raise MetadataError(error.message, key="meta", field=error.field) from error
    if not isinstance(metadata, ArrayMetadata):
        raise MetadataError("this is no document of an array", key="meta")
    return {
        "zarr_format": document["zarr_format"],
        "shape": metadata.shape,
        "chunks": tuple(document["chunks"]),
        "dtype": metadata.data_type.numpy,
        **{name: document[name] for name in _NAMES[3:]},
    }


def encode_metadata(meta: Mapping[str, Any]) -> bytes:
    """Write the document of an array.

    Raises
    ------
    MetadataError
        If something is missing in `meta`, or not valid.

    Examples
    --------
    >>> from tegula import zarr1 as zarr
    >>> store = zarr.zeros((20, 20), chunks=(10, 20), dtype="i4").store
    >>> encode_metadata(decode_metadata(store["meta"])) == store["meta"]
    True
    """
    missing = [name for name in _NAMES if name not in meta]
    if missing:
        raise MetadataError(f"there is no {missing[0]!r}", key="meta", field=missing[0])
    return describe(*(meta[name] for name in _NAMES)).documents["meta"]


def encode_dtype(d: np.dtype[Any]) -> Any:
    """Return the form that a data type has in JSON: its name, or a list of its fields.

    Examples
    --------
    >>> import numpy as np
    >>> encode_dtype(np.dtype("i4")), encode_dtype(np.dtype([("a", "i4"), ("b", "S3")]))
    ('<i4', [('a', '<i4'), ('b', '|S3')])
    """
    return d.str if d.fields is None else d.descr


def decode_dtype(d: Any) -> np.dtype[Any]:
    """Return the data type that stands in a document.

    Raises
    ------
    MetadataError
        If it is none.

    Examples
    --------
    >>> decode_dtype([["a", "<i4"], ["b", [["c", "|S3"]]]])
    dtype([('a', '<i4'), ('b', [('c', 'S3')])])
    """
    try:
        dtype: np.dtype[Any] = np.dtype(_fields(d))
    except (TypeError, ValueError, SyntaxError) as error:
        raise MetadataError(f"{d!r:.80} is no data type: {error}", key="meta", field="dtype") from error
    return dtype


def _fields(d: Any) -> Any:
    """Make tuples of the lists that stand for fields, which NumPy insists on."""
    return [(name, _fields(inner), *rest) for name, inner, *rest in d] if isinstance(d, list) else d
