"""The document of a new Zarr v2 array, chosen to fit a spec; and the check whether an array fits a schema."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.metadata.data_types import DataType
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.chunk_shapes import choose_shape
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.zarr2_codecs import DEFAULT_COMPRESSOR
from tegula.tensorstore.drivers.domains import grid_numbers, ranks
from tegula.tensorstore.drivers.elements import Elements, fill_as_shown, fill_of, shown_part, stored_fill
from tegula.tensorstore.drivers.metadata import Metadata
from tegula.tensorstore.drivers.zarr2.layout import codec_of, effective_domain, effective_layout, inner_order
from tegula.tensorstore.drivers.zarr2.metadata import check_chunk
from tegula.tensorstore.drivers.zarr2.types import data_type, fill_to_document, type_of_name
from tegula.tensorstore.errors import StatusError, annotate, status
from tegula.tensorstore.index.domain import IndexDomain, merge_domains
from tegula.tensorstore.json.binding import dump, invalid

__all__ = ["check_schema", "new_document"]

_FINITE = 2**62 - 1


def new_document(
    constraints: Metadata, schema: Schema, field: str, void: bool, records: bool = False
) -> dict[str, Any]:
    """Choose the metadata of a new array, and return its document.

    Raises
    ------
    ValueError, NotImplementedError
        If the constraints are insufficient, or contradict each other.
    """
    # the elements, and the dimensions that they add
    if constraints.data_type is not None:
        kind, dtype = constraints.data_type, constraints.json["dtype"]
    else:
        kind, dtype = _chosen_type(schema, field, void, records)
    shown = shown_part(kind, field, void, records)
    # the domain and the chunks
    known = ranks(constraints.rank, schema.rank, shown)
    domain = effective_domain(known, constraints.shape, shown, schema.domain)
    if domain is None or known.chunked is None or any(end > _FINITE for end in domain.exclusive_max):
        raise invalid("domain must be specified")
    if any(unit is not None for unit in schema.dimension_units or ()):
        raise invalid("Dimension units not supported by zarr driver")
    layout = _merged_grids(effective_layout(schema.chunk_layout, known, constraints, shown))
    chunks = choose_shape(*grid_numbers(layout._grid("read"), domain.rank, domain.rank), domain.shape)[: known.chunked]
    check_chunk(chunks, kind.itemsize)
    # the other members, some of them determined by the constraints
    codec = codec_of(constraints)
    codecs = (codec if schema.codec is None else codec._merged(schema.codec)).to_json()
    members = constraints.json
    fill = _chosen_fill(constraints, schema, kind, dtype, shown)
    return {
        "zarr_format": 2,
        "shape": [*domain.shape[: known.chunked]],
        "chunks": [*chunks],
        "dtype": dtype,
        "compressor": codecs.get("compressor", DEFAULT_COMPRESSOR),
        "fill_value": fill_to_document(fill, kind),
        "order": members["order"] if "order" in members else _chosen_order(layout, known.chunked),
        "filters": codecs.get("filters"),
        "dimension_separator": members.get("dimension_separator", "."),
    }


def _chosen_type(schema: Schema, field: str, void: bool, records: bool) -> tuple[DataType, Any]:
    for name, value in (("field", field), ("open_as_void", void)):
        if value:
            raise invalid(f'"dtype" must be specified in "metadata" if "{name}" is specified')
    if schema.dtype is None:
        raise invalid('"dtype" must be specified')
    if records and schema.dtype.numpy_dtype.names:
        return data_type(json.loads(schema.dtype.name))
    text = type_of_name(schema.dtype.name)
    if text is None:
        raise invalid(f"Data type not supported: {schema.dtype.name}")
    return data_type(text)


def _merged_grids(layout: ChunkLayout) -> ChunkLayout:
    """Return the layout with the write chunk constraints applied to the read chunk, too: there is only one grid."""
    try:
        layout._merge_grid("read_chunk", layout._grid("write"))
    except StatusError as error:
        raise annotate(error, "write_chunk constraints not compatible with existing read_chunk constraints") from None
    return layout


def _chosen_order(layout: ChunkLayout, chunked: int) -> str:
    wanted = layout.inner_order or layout.inner_order_soft_constraint
    if wanted is None:
        return "C"
    for order in "CF":
        if [*wanted] == inner_order(order, chunked, len(wanted)):
            return order
    if layout.inner_order is not None:
        raise invalid(f'Invalid "inner_order" constraint: {{{", ".join(map(str, wanted))}}}')
    return "C"


def _chosen_fill(
    constraints: Metadata, schema: Schema, kind: DataType, dtype: Any, shown: Elements
) -> npt.NDArray[Any] | None:
    if "fill_value" in constraints.json or schema.fill_value is None:
        return constraints.fill
    if len(kind.numpy.names or "1") != 1 and not shown.dtype.numpy_dtype.names:
        problem = "Cannot specify fill_value through schema for structured zarr data type"
        raise invalid(f"Invalid fill_value: {problem} {dump(dtype)}")
    try:
        return stored_fill(schema.fill_value, kind, shown)
    except StatusError as error:
        raise annotate(error, "Invalid fill_value") from None


def check_schema(metadata: Metadata, schema: Schema, shown: Elements) -> None:
    """Raise unless metadata meets a schema.

    Raises
    ------
    ValueError
        If it does not meet a part of the schema.
    """
    # the elements and the dimensions
    rank = len(metadata.shape or ())
    full = rank + len(shown.shape)
    if schema.rank is not None and schema.rank != full:
        raise status("FAILED_PRECONDITION", f"Rank is {full}, but schema specifies rank of {schema.rank}")
    known = ranks(rank, full, shown)
    if schema.domain is not None:
        domain = effective_domain(known, metadata.shape, shown, None)
        if domain is not None:
            _check_domain(domain, schema.domain)
    if schema.dtype is not None and schema.dtype != shown.dtype:
        raise status(
            "FAILED_PRECONDITION",
            f"dtype from metadata ({shown.dtype.name}) does not match dtype in schema ({schema.dtype.name})",
        )
    # the chunks, the fill value and the codecs
    if schema._has_chunk_layout:
        layout = effective_layout(schema.chunk_layout, known, metadata, shown)
        if any(size and size > 0 for size in layout.codec_chunk.shape or ()):
            raise invalid("codec_chunk_shape not supported")
    if schema.fill_value is not None:
        _check_fill(metadata, schema.fill_value, shown)
    if schema.codec is not None:
        try:
            codec_of(metadata)._merged(schema.codec)
        except StatusError as error:
            raise annotate(error, "codec from metadata does not match codec in schema") from None
    if any(unit is not None for unit in schema.dimension_units or ()):
        raise invalid("Dimension units not supported by zarr driver")


def _check_domain(domain: IndexDomain, constraint: IndexDomain) -> None:
    try:
        merge_domains(domain, constraint)
    except StatusError as error:
        raise annotate(error, "domain from metadata does not match domain in schema") from None


def _check_fill(metadata: Metadata, constraint: npt.NDArray[Any], shown: Elements) -> None:
    wanted = fill_as_shown(constraint, shown)
    stored = fill_of(metadata.fill, shown)
    if stored is None:
        raise invalid(
            f"Invalid fill_value: schema requires fill value of {_shown(wanted)}, but metadata specifies no fill value"
        )
    if np.broadcast_to(stored, wanted.shape).tobytes() != wanted.tobytes():
        raise invalid(
            f"Invalid fill_value: schema requires fill value of {_shown(wanted)}, "
            f"but metadata specifies fill value of {_shown(stored)}"
        )


def _shown(values: npt.NDArray[Any]) -> str:
    """Return numbers as text for messages."""
    if values.ndim:
        return "{" + ", ".join(_shown(element) for element in values) + "}"
    return str(values[()]).lower() if values.dtype.kind == "b" else str(values[()])
