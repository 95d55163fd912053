"""The ``.zarray`` of an array: reading it with TensorStore's error messages, and comparing it with a spec."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, Final

from tegula.formats.zarr2 import OBJECT_CODECS, describe
from tegula.metadata.data_types import BYTES, OBJECT, STRING, DataType
from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.zarr2_codecs import compressor_from_json, filters_from_json
from tegula.tensorstore.drivers.metadata import Metadata, Reader, described, mismatch, parsed
from tegula.tensorstore.drivers.zarr2.types import data_type, fill_to_document, fill_value, unsupported
from tegula.tensorstore.json.binding import dump, integer, invalid, known_only, member, obj, one_of

__all__ = ["ANYTHING", "check_chunk", "check_constraints", "constraints_from_json", "node_of", "parse_stored"]

ANYTHING: Final = Metadata()
_COMPARED: Final = ("shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters")
_SEPARATOR: Final = "dimension_separator"


def constraints_from_json(value: Any) -> Metadata:
    """Read a spec's ``metadata``.

    Raises
    ------
    ValueError
        If a member is not valid.
    """
    members = obj(value)
    if not members:
        return ANYTHING
    constraints = _read(members, required=False)
    known_only(members)
    return constraints


@lru_cache(maxsize=64)
def parse_stored(raw: bytes) -> Metadata:
    """Read a stored document; recent results are cached.

    Raises
    ------
    ValueError
        If the document does not describe an array.
    """
    return parsed(raw, partial(_read, required=True), "FAILED_PRECONDITION", _number)


def _number(text: str) -> int | float:
    """Read an integer; one that does not fit 64 bits becomes a float."""
    value = int(text) if len(text) < 21 else float(text)
    return value if -(2**63) <= value < 2**64 else float(value)


def _read(members: dict[str, Any], *, required: bool) -> Metadata:
    """Remove the members of a document from `members` and read them."""
    reader = Reader(members, required)
    take, json = reader.take, reader.json
    # the array and its grid
    take("zarr_format", lambda value: integer(value, 2, 2))
    shape = take("shape", partial(reader.sizes, least=0))
    chunks = take("chunks", partial(reader.sizes, least=1))
    # the elements; the type of objects depends on the filters
    kind: DataType | None = None
    if (read_type := take("dtype", data_type)) is not None:
        kind, json["dtype"] = read_type
    take("compressor", compressor_from_json)
    fill = None
    if kind is not None:
        fill = take("fill_value", partial(fill_value, data_type=kind))
        if "fill_value" in json:
            json["fill_value"] = fill_to_document(fill, kind)
    elif "fill_value" in members:
        raise invalid('Error parsing object member "fill_value": must be specified in conjunction with "dtype"')
    take("order", lambda value: one_of(value, ("C", "F")))
    filters = take("filters", filters_from_json)
    if kind is OBJECT:
        with member("dtype"):
            kind = _object_type(filters)
    # the keys of chunks
    take(_SEPARATOR, lambda value: one_of(value, (".", "/")), optional=True)
    return Metadata(json=json, shape=shape, chunk_shape=chunks, data_type=kind, fill=fill)


def _object_type(filters: list[dict[str, Any]] | None) -> DataType:
    """Return the type of objects that the filters encode."""
    name = f"numcodecs.{filters[0]['id']}" if filters else ""
    if name not in OBJECT_CODECS - {"numcodecs.pickle"}:
        raise unsupported("|O")
    return {"numcodecs.vlen-utf8": STRING, "numcodecs.vlen-bytes": BYTES}.get(name, OBJECT)


def node_of(metadata: Metadata, separator: str) -> ArrayMetadata:
    """Return the array that a complete document describes; `separator` is used if the document has none.

    Raises
    ------
    ValueError, NotImplementedError
        If the array cannot be read.
    """
    node = metadata.nodes.get(separator)
    if node is None:
        node = metadata.nodes[separator] = described(describe, {_SEPARATOR: separator, **metadata.json})
    return node


def check_chunk(shape: Sequence[int], itemsize: int) -> None:
    """Refuse chunks whose size does not fit 64 bits.

    Raises
    ------
    ValueError
        If a chunk has too many elements or bytes.
    """
    if prod(shape) >= 2**63 - 1:
        raise invalid(f"Product of chunk dimensions {{{', '.join(map(str, shape))}}} is too large")
    if prod(shape) * itemsize >= 2**63:
        raise invalid("Total number of bytes per chunk is too large")


def check_constraints(constraints: Metadata, metadata: Metadata) -> None:
    """Raise unless a stored document has the members that a spec requires.

    Raises
    ------
    ValueError
        If a member has a different value.
    """
    wanted, stored = constraints.json, metadata.json
    names = (*_COMPARED, _SEPARATOR) if _SEPARATOR in stored else _COMPARED
    for name in names:
        if name in wanted and dump(wanted[name]) != dump(stored[name]):
            raise mismatch(name, wanted[name], stored[name])
