"""The document of a new Zarr v3 array, chosen to fit a spec; and the check whether an array fits a schema."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from tegula.errors import TegulaError
from tegula.metadata.data_types import DataType, as_data_type, data_type_to_json
from tegula.metadata.fill_values import default_fill
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout, setting
from tegula.tensorstore.constraints.chunk_shapes import choose_shard_shapes
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.zarr3_codecs import Chain, Codec
from tegula.tensorstore.drivers.domains import grid_numbers, ranks
from tegula.tensorstore.drivers.elements import Elements, shown_part, stored_fill
from tegula.tensorstore.drivers.metadata import Metadata
from tegula.tensorstore.drivers.zarr3.layout import (
    effective_domain,
    effective_layout,
    layout_of_chunks,
    merge_units,
)
from tegula.tensorstore.drivers.zarr3.metadata import units_to_json
from tegula.tensorstore.drivers.zarr3.resolution import Layout, check_shapes, resolve_chain
from tegula.tensorstore.drivers.zarr3.types import data_type, element_of, fill_to_document
from tegula.tensorstore.errors import StatusError, annotate, status
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json.binding import dump, invalid

__all__ = ["check_schema", "new_document"]


def type_of_schema(wanted: dtype) -> tuple[DataType, Any]:
    """Return the stored type for a data type, and its JSON.

    Raises
    ------
    ValueError
        If Zarr v3 has no such type.
    """
    name = wanted.name
    if name not in ("char", "byte", "json", "string", "ustring"):
        try:
            return data_type(data_type_to_json(as_data_type(wanted.numpy_dtype)))
        except TegulaError:
            pass
    raise invalid(f"Data type not supported: {name}")


def new_document(
    constraints: Metadata, schema: Schema, field: str, void: bool, chain: Chain | None, records: bool = False
) -> dict[str, Any]:
    """Choose the metadata of a new array, and return its document.

    Parameters
    ----------
    constraints : Metadata
        The spec's ``metadata``.
    schema : Schema
        The spec's schema.
    field : str
        The field to show; ``""`` for none.
    void : bool
        Whether to show elements as bytes.
    chain : Chain or None
        The codecs required by metadata and schema together.
    records : bool
        Whether to show whole elements, with all their fields.

    Raises
    ------
    ValueError
        If no array meets the spec.
    """
    # the elements, and the dimensions that they add
    if constraints.data_type is not None:
        kind, written = constraints.data_type, constraints.json["data_type"]
    elif field:
        raise invalid('"dtype" must be specified in "metadata" if "field" is specified')
    elif schema.dtype is not None:
        kind, written = type_of_schema(schema.dtype)
    else:
        raise invalid("dtype must be specified")
    shown = shown_part(kind, field, void, records)
    # the domain, the fill value and the units
    known = ranks(constraints.rank, schema.rank, shown)
    domain = effective_domain(constraints, known, shown, schema.domain)
    if domain is None or any(size >= 2**62 for size in domain.shape):
        raise invalid("domain must be specified")
    rank = domain.rank - len(shown.shape)
    fill = _new_fill(constraints, schema, kind, shown)
    try:
        units = merge_units(constraints.units, _outer_units(schema, rank))
    except StatusError as error:
        raise annotate(error, "Invalid dimension_units" if "merge" in error.sentence else "") from None
    # the chunks, and the codecs that encode them
    layout = effective_layout(constraints, ranks(rank, domain.rank, shown), shown, schema.chunk_layout)
    read, write = _chunk_shapes(layout, domain, rank, constraints.codecs)
    if read != write and (chain is None or chain.sharding_height == 0):
        chain = Chain(serializer=Codec("sharding_indexed", _sharding(read, chain)))
    wanted = layout.inner_order if layout.inner_order is not None else layout.inner_order_soft_constraint
    order = None if wanted is None else tuple(axis for axis in wanted if axis < rank)
    codecs = resolve_chain(chain or Chain(), element_of(kind), rank, Layout(order, read))
    check_shapes(codecs, write, kind.itemsize)
    # the document, with further members from the constraints
    names = _names(domain, rank, constraints)
    members = {name: v for name, v in constraints.json.items() if name not in ("dimension_names", "attributes")}
    attributes = dict(constraints.attributes)
    if units is not None and any(unit is not None for unit in units):
        attributes["dimension_units"] = units_to_json(units)
    return {
        "chunk_key_encoding": {"name": "default"},
        **members,
        "zarr_format": 3,
        "shape": [*domain.shape[:rank]],
        "data_type": written,
        "fill_value": fill_to_document(fill, kind),
        "chunk_grid": {"configuration": {"chunk_shape": [*write]}, "name": "regular"},
        "codecs": codecs.to_json(stored=True),
        **({"dimension_names": [*names]} if any(name is not None for name in names) else {}),
        **({"attributes": attributes} if attributes else {}),
    }


def _sharding(read: tuple[int, ...], inner: Chain | None) -> dict[str, Any]:
    return {"chunk_shape": [*read], **({} if inner is None else {"codecs": inner})}


def _outer_units(schema: Schema, rank: int) -> Any:
    units = schema.dimension_units
    return None if units is None else tuple(units[:rank])


def _names(domain: IndexDomain, rank: int, constraints: Metadata) -> tuple[str | None, ...]:
    names = constraints.names or (None,) * rank
    return tuple(label or ("" if name == "" else None) for label, name in zip(domain.labels[:rank], names))


def _chunk_shapes(
    layout: ChunkLayout, domain: IndexDomain, rank: int, codecs: Chain | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Choose the shapes of read and write chunks, which are the same if the codecs exclude sharding."""
    if codecs is not None and codecs.sharding_height == 0:
        grid = layout.write_chunk
        for part in ("shape", "aspect_ratio", "elements"):
            with setting(f"write_chunk {part}"):
                grid._merge(layout.read_chunk, (part,))
        read = write = grid
    else:
        read, write = layout.read_chunk, layout.write_chunk
    full = domain.rank
    numbers = [grid_numbers(grid, full, rank) for grid in (read, write)]
    hard = (read._shape_vector(full).hard[:rank], write._shape_vector(full).hard[:rank])
    return choose_shard_shapes(numbers[0], numbers[1], domain.shape[:rank], hard)


def _new_fill(constraints: Metadata, schema: Schema, kind: DataType, shown: Elements) -> npt.NDArray[Any]:
    if constraints.fill is not None:
        return constraints.fill
    if schema.fill_value is None:
        return default_fill(kind)
    if len(kind.numpy.names or "1") != 1:
        raise invalid("Cannot specify fill_value through schema for structured zarr data type")
    try:
        return stored_fill(schema.fill_value, kind, shown)
    except StatusError as error:
        raise annotate(error, "Invalid fill_value") from None


def check_schema(metadata: Metadata, schema: Schema, shown: Elements) -> None:
    """Raise unless metadata meets a schema; the caller checks the codecs.

    Raises
    ------
    ValueError
        If it does not meet a part of the schema.
    """
    # the elements and the dimensions
    rank, kind = len(metadata.shape or ()), metadata.data_type
    full = rank + len(shown.shape)
    if schema.rank is not None and schema.rank != full:
        text = f"Rank specified by schema ({schema.rank}) does not match rank specified by metadata ({full})"
        raise status("FAILED_PRECONDITION", text)
    if schema.domain is not None:
        effective_domain(metadata, ranks(rank, full, shown), shown, schema.domain)
    if schema.dtype is not None and schema.dtype != shown.dtype:
        text = f"data_type from metadata ({shown.dtype.name}) does not match dtype in schema ({schema.dtype.name})"
        raise status("FAILED_PRECONDITION", text)
    # the chunks, the fill value and the units
    if schema._has_chunk_layout and schema.chunk_layout.rank != -1:
        layout = layout_of_chunks(schema.chunk_layout, rank, shown.shape, metadata.chunk_shape, metadata.codecs)
        if any(size is not None for size in layout.codec_chunk.shape or ()):
            raise invalid("codec_chunk_shape not supported")
    if schema.fill_value is not None and kind is not None and metadata.fill is not None:
        wanted = stored_fill(schema.fill_value, kind, shown)
        texts = [dump(fill_to_document(fill, kind)) for fill in (wanted, metadata.fill)]
        if texts[0] != texts[1]:
            text = f"schema requires fill value of {texts[0]}, but metadata specifies fill value of {texts[1]}"
            raise status("FAILED_PRECONDITION", f"Invalid fill_value: {text}")
    if schema.dimension_units is not None:
        try:
            merge_units(metadata.units or (None,) * rank, _outer_units(schema, rank))
        except StatusError as error:
            text = "dimension_units from metadata does not match dimension_units in schema"
            raise annotate(status("FAILED_PRECONDITION", error.sentence), text) from None
