"""The metadata of new arrays of Zarr v3, chosen to fit a spec; and whether metadata fits a schema."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.errors import TegulaError
from tegula.metadata.data_types import as_data_type, data_type_to_json
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout, setting
from tegula.tensorstore.constraints.chunk_shapes import choose_shard_shapes
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.zarr3_codecs import Chain, Codec
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.zarr2_layout import fill_as_shown, ranks, shown_part
from tegula.tensorstore.drivers.zarr2_types import ZarrType
from tegula.tensorstore.drivers.zarr3_layout import (
    effective_domain,
    effective_layout,
    layout_of_chunks,
    merge_units,
)
from tegula.tensorstore.drivers.zarr3_metadata import Constraints, KeyEncoding, Metadata
from tegula.tensorstore.drivers.zarr3_resolution import Layout, check_shapes, resolve_chain
from tegula.tensorstore.drivers.zarr3_types import element_of, fill_to_document, no_fill, zarr_type
from tegula.tensorstore.errors import StatusError, annotate, status
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json.binding import dump, invalid

__all__ = ["check_schema", "new_metadata", "schema_fill", "type_of_schema"]


def type_of_schema(wanted: dtype) -> ZarrType:
    """Return the type to store for a data type.

    Raises
    ------
    ValueError
        If Zarr v3 has none.
    """
    name = wanted.name
    if name not in ("char", "byte", "json", "string", "ustring"):
        try:
            return zarr_type(data_type_to_json(as_data_type(wanted.numpy_dtype)))
        except TegulaError:
            pass
    raise invalid(f"Data type not supported: {name}")


def new_metadata(
    constraints: Constraints, schema: Schema, field: str, void: bool, chain: Chain | None, records: bool = False
) -> Metadata:
    """Choose the metadata of a new array.

    Parameters
    ----------
    constraints : Constraints
        The spec's ``metadata``.
    schema : Schema
        The spec's schema.
    field : str
        The field to show, ``""`` for none.
    void : bool
        Whether elements are shown as bytes.
    chain : Chain or None
        The codecs that metadata and schema ask for together.
    records : bool
        Whether elements are shown whole, all fields together.

    Raises
    ------
    ValueError
        If there is no such array.
    """
    if constraints.zarr is not None:
        zarr = constraints.zarr
    elif field:
        raise invalid('"dtype" must be specified in "metadata" if "field" is specified')
    elif schema.dtype is not None:
        zarr = type_of_schema(schema.dtype)
    else:
        raise invalid("dtype must be specified")
    shown = shown_part(zarr, field, void, records)
    known = ranks(constraints.rank, schema.rank, shown)
    domain = effective_domain(constraints, known, shown, schema.domain)
    if domain is None or any(size >= 2**62 for size in domain.shape):
        raise invalid("domain must be specified")
    rank = domain.rank - len(shown.shape)
    fill = _new_fill(constraints, schema, zarr, shown)
    try:
        units = merge_units(constraints.units, _outer_units(schema, rank))
    except StatusError as error:
        raise annotate(error, "Invalid dimension_units" if "merge" in error.sentence else "") from None
    layout = effective_layout(constraints, ranks(rank, domain.rank, shown), shown, schema.chunk_layout)
    read, write = _chunk_shapes(layout, domain, rank, constraints.codecs)
    if read != write and (chain is None or chain.sharding_height == 0):
        chain = Chain(serializer=Codec("sharding_indexed", _sharding(read, chain)))
    wanted = layout.inner_order if layout.inner_order is not None else layout.inner_order_soft_constraint
    order = None if wanted is None else tuple(axis for axis in wanted if axis < rank)
    codecs = resolve_chain(chain or Chain(), element_of(zarr), rank, Layout(order, read))
    check_shapes(codecs, write, zarr.itemsize)
    return Metadata(
        zarr_format=3,
        shape=tuple(domain.shape[:rank]),
        chunk_shape=write,
        zarr=zarr,
        fill=fill,
        keys=constraints.keys or KeyEncoding(),
        codecs=codecs,
        names=_names(domain, rank, constraints),
        units=units if units is not None and any(unit is not None for unit in units) else None,
        attributes=constraints.attributes,
        extensions=constraints.extensions,
    )


def _sharding(read: tuple[int, ...], inner: Chain | None) -> dict[str, Any]:
    return {"chunk_shape": [*read], **({} if inner is None else {"codecs": inner})}


def _outer_units(schema: Schema, rank: int) -> Any:
    units = schema.dimension_units
    return None if units is None else tuple(units[:rank])


def _names(domain: IndexDomain, rank: int, constraints: Constraints) -> tuple[str | None, ...]:
    given = constraints.names or (None,) * rank
    return tuple(label or ("" if name == "" else None) for label, name in zip(domain.labels[:rank], given))


def _chunk_shapes(
    layout: ChunkLayout, domain: IndexDomain, rank: int, codecs: Chain | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Choose the shapes of the chunks that are read and written; codecs without shards leave no choice between them."""
    if codecs is not None and codecs.sharding_height == 0:
        grid = layout.write_chunk
        for part in ("shape", "aspect_ratio", "elements"):
            with setting(f"write_chunk {part}"):
                grid.merge(layout.read_chunk, (part,))
        read = write = grid
    else:
        read, write = layout.read_chunk, layout.write_chunk
    full = domain.rank
    numbers = []
    for grid in (read, write):
        shape, ratio, count = grid.shape_vector(full), grid.aspect_ratio_vector(full), grid.count
        sizes = [size or 0 for size in shape.values[:rank]]
        ratios = [value or 0.0 for value in ratio.values[:rank]]
        numbers.append((sizes, ratios, None if count is None else count.value))
    hard = (read.shape_vector(full).hard[:rank], write.shape_vector(full).hard[:rank])
    return choose_shard_shapes(numbers[0], numbers[1], domain.shape[:rank], hard)


def _new_fill(constraints: Constraints, schema: Schema, zarr: ZarrType, shown: Elements) -> npt.NDArray[Any]:
    if constraints.fill is not None:
        return constraints.fill
    if schema.fill_value is None:
        return no_fill(zarr)
    if len(zarr.fields) != 1:
        raise invalid("Cannot specify fill_value through schema for structured zarr data type")
    try:
        return schema_fill(schema.fill_value, zarr, shown)
    except StatusError as error:
        raise annotate(error, "Invalid fill_value") from None


def schema_fill(value: npt.NDArray[Any], zarr: ZarrType, shown: Elements) -> npt.NDArray[Any]:
    """Return a schema's fill value as an element of the stored type.

    Raises
    ------
    ValueError
        If it has too many dimensions, or is not a value of the type.
    """
    source = np.asarray(value)
    whole = fill_as_shown(source, shown)
    element = zarr.fields[0].element
    with np.errstate(all="ignore"):
        converted = whole.astype(element)
    if element.kind in "iu" and source.dtype.kind in "iuf" and not np.array_equal(converted, whole):
        raise invalid(f"{dump(source.tolist())} is not a value of {shown.dtype.name}")
    out = no_fill(zarr)
    if zarr.numpy.kind == "O":
        out[()] = whole[()]
        return out
    return np.frombuffer(np.ascontiguousarray(converted).tobytes(), zarr.numpy).reshape(()).copy()


def check_schema(metadata: Metadata, schema: Schema, shown: Elements) -> None:
    """Raise unless metadata is as a schema wants it; the codecs are checked by the caller.

    Raises
    ------
    ValueError
        If it is not.
    """
    rank = len(metadata.shape)
    full = rank + len(shown.shape)
    if schema.rank is not None and schema.rank != full:
        text = f"Rank specified by schema ({schema.rank}) does not match rank specified by metadata ({full})"
        raise status("FAILED_PRECONDITION", text)
    if schema.domain is not None:
        effective_domain(metadata, ranks(rank, full, shown), shown, schema.domain)
    if schema.dtype is not None and schema.dtype != shown.dtype:
        text = f"data_type from metadata ({shown.dtype.name}) does not match dtype in schema ({schema.dtype.name})"
        raise status("FAILED_PRECONDITION", text)
    if schema.has_chunk_layout and schema.chunk_layout.rank != -1:
        layout = layout_of_chunks(schema.chunk_layout, rank, shown.shape, metadata.chunk_shape, metadata.codecs)
        if any(size is not None for size in layout.codec_chunk.shape or ()):
            raise invalid("codec_chunk_shape not supported")
    if schema.fill_value is not None:
        wanted = schema_fill(schema.fill_value, metadata.zarr, shown)
        if wanted.tobytes() != metadata.fill.tobytes():
            texts = [dump(fill_to_document(fill, metadata.zarr)) for fill in (wanted, metadata.fill)]
            text = f"schema requires fill value of {texts[0]}, but metadata specifies fill value of {texts[1]}"
            raise status("FAILED_PRECONDITION", f"Invalid fill_value: {text}")
    if schema.dimension_units is not None:
        try:
            merge_units(metadata.units or (None,) * rank, _outer_units(schema, rank))
        except StatusError as error:
            text = "dimension_units from metadata does not match dimension_units in schema"
            raise annotate(status("FAILED_PRECONDITION", error.sentence), text) from None
