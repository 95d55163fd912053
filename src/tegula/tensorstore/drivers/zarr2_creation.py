"""The metadata of new arrays of Zarr v2, chosen to fit a spec; and whether metadata fits a schema."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.chunk_shapes import choose_shape
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.zarr2_codecs import DEFAULT_COMPRESSOR
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.zarr2_layout import (
    effective_domain,
    effective_layout,
    fill_as_shown,
    fill_of,
    inner_order,
    ranks,
    shown_part,
)
from tegula.tensorstore.drivers.zarr2_metadata import Constraints, Metadata, check_chunk
from tegula.tensorstore.drivers.zarr2_types import ZarrType, type_of_name, zarr_type
from tegula.tensorstore.errors import StatusError, annotate, status
from tegula.tensorstore.index.domain import IndexDomain, merge_domains
from tegula.tensorstore.json.binding import MISSING, dump, invalid

__all__ = ["check_schema", "codec_of", "new_metadata"]

_FINITE = 2**62 - 1


def codec_of(compressor: Any, filters: Any) -> CodecSpec:
    """Return the codec spec that metadata gives; what is not known is left out of it."""
    json: dict[str, Any] = {"driver": "zarr", "filters": None if filters is MISSING else filters}
    if compressor is not MISSING:
        json["compressor"] = compressor
    return CodecSpec(json)


def new_metadata(constraints: Constraints, schema: Schema, field: str, void: bool, records: bool = False) -> Metadata:
    """Choose the metadata of a new array.

    Raises
    ------
    ValueError, NotImplementedError
        If the constraints say too little, or contradict each other.
    """
    zarr = constraints.zarr
    if zarr is MISSING:
        zarr = _chosen_type(schema, field, void, records)
    shown = shown_part(zarr, field, void, records)
    known = ranks(constraints.rank, schema.rank, shown)
    domain = effective_domain(known, constraints.shape, shown, schema.domain)
    if domain is None or known.chunked is None or any(end > _FINITE for end in domain.exclusive_max):
        raise invalid("domain must be specified")
    if any(unit is not None for unit in schema.dimension_units or ()):
        raise invalid("Dimension units not supported by zarr driver")
    layout = _merged_grids(
        effective_layout(schema.chunk_layout, known, constraints.chunks, constraints.order, shown), domain.rank
    )
    grid = layout.grid("read")
    chunks = choose_shape(
        [size or 0 for size in grid.shape_vector(domain.rank).values],
        [ratio or 0.0 for ratio in grid.aspect_ratio_vector(domain.rank).values],
        None if grid.count is None else grid.count.value,
        domain.shape,
    )
    codec = _merged_codec(codec_of(constraints.compressor, constraints.filters), schema.codec).to_json()
    metadata = Metadata(
        shape=domain.shape[: known.chunked],
        chunks=chunks[: known.chunked],
        zarr=zarr,
        compressor=codec.get("compressor", DEFAULT_COMPRESSOR),
        fill=_chosen_fill(constraints, schema, zarr, shown),
        order=constraints.order if constraints.order is not MISSING else _chosen_order(layout, known.chunked),
        filters=codec.get("filters"),
        separator="." if constraints.separator is MISSING else constraints.separator,
    )
    check_chunk(metadata)
    check_schema(metadata, schema, shown)
    return metadata


def _chosen_type(schema: Schema, field: str, void: bool, records: bool) -> ZarrType:
    for name, given in (("field", field), ("open_as_void", void)):
        if given:
            raise invalid(f'"dtype" must be specified in "metadata" if "{name}" is specified')
    if schema.dtype is None:
        raise invalid('"dtype" must be specified')
    if records and schema.dtype.numpy_dtype.names:
        return zarr_type(json.loads(schema.dtype.name))
    text = type_of_name(schema.dtype.name)
    if text is None:
        raise invalid(f"Data type not supported: {schema.dtype.name}")
    return zarr_type(text)


def _merged_grids(layout: ChunkLayout, rank: int) -> ChunkLayout:
    """Return the layout with what is asked of written chunks asked of read ones, too: there is one grid only."""
    try:
        layout.merge_grid("read_chunk", layout.grid("write"))
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


def _merged_codec(codec: CodecSpec, constraint: CodecSpec | None) -> CodecSpec:
    return codec if constraint is None else codec.merged(constraint)


def _chosen_fill(constraints: Constraints, schema: Schema, zarr: ZarrType, shown: Elements) -> npt.NDArray[Any] | None:
    if constraints.fill is not MISSING or schema.fill_value is None:
        return None if constraints.fill is MISSING else constraints.fill
    if len(zarr.fields) != 1 and not shown.dtype.numpy_dtype.names:
        problem = "Cannot specify fill_value through schema for structured zarr data type"
        raise invalid(f"Invalid fill_value: {problem} {dump(zarr.document)}")
    try:
        values = fill_as_shown(schema.fill_value, shown).astype(shown.dtype.numpy_dtype)
    except StatusError as error:
        raise annotate(error, "Invalid fill_value") from None
    stored = values.dtype if values.dtype.kind in "SV" else zarr.fields[0].element
    raw = np.ascontiguousarray(values.astype(stored)).tobytes()
    return np.frombuffer(raw, zarr.numpy).reshape(()).copy() if raw else np.zeros((), zarr.numpy)


def check_schema(metadata: Metadata, schema: Schema, shown: Elements) -> None:
    """Raise unless metadata is as a schema says.

    Raises
    ------
    ValueError
        If it is not.
    """
    full = len(metadata.shape) + len(shown.shape)
    if schema.rank is not None and schema.rank != full:
        raise status("FAILED_PRECONDITION", f"Rank is {full}, but schema specifies rank of {schema.rank}")
    known = ranks(len(metadata.shape), full, shown)
    if schema.domain is not None:
        domain = effective_domain(known, metadata.shape, shown, None)
        if domain is not None:
            _check_domain(domain, schema.domain)
    if schema.dtype is not None and schema.dtype != shown.dtype:
        raise status(
            "FAILED_PRECONDITION",
            f"dtype from metadata ({shown.dtype.name}) does not match dtype in schema ({schema.dtype.name})",
        )
    if schema.has_chunk_layout:
        layout = effective_layout(schema.chunk_layout, known, metadata.chunks, metadata.order, shown)
        if any(size and size > 0 for size in layout.codec_chunk.shape or ()):
            raise invalid("codec_chunk_shape not supported")
    if schema.fill_value is not None:
        _check_fill(metadata, schema.fill_value, shown)
    if schema.codec is not None:
        try:
            codec_of(metadata.compressor, metadata.filters).merged(schema.codec)
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
    wanted = fill_as_shown(constraint, shown).astype(shown.dtype.numpy_dtype)
    found = fill_of(metadata.fill, shown)
    if found is None:
        raise invalid(
            f"Invalid fill_value: schema requires fill value of {_shown(wanted)}, but metadata specifies no fill value"
        )
    if np.broadcast_to(found, wanted.shape).tobytes() != wanted.tobytes():
        raise invalid(
            f"Invalid fill_value: schema requires fill value of {_shown(wanted)}, "
            f"but metadata specifies fill value of {_shown(found)}"
        )


def _shown(values: npt.NDArray[Any]) -> str:
    """Return numbers as messages show them."""
    if values.ndim:
        return "{" + ", ".join(_shown(item) for item in values) + "}"
    return str(values[()]).lower() if values.dtype.kind == "b" else str(values[()])
