"""Index transforms from JSON and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.tensorstore.errors import invalid
from tegula.tensorstore.index.composition import Maps, Transform, is_explicitly_empty
from tegula.tensorstore.index.domain import IndexDomain, bounds_from_json, bounds_to_json
from tegula.tensorstore.index.intervals import EXCLUSIVE_INFINITY, INFINITY, MAX_RANK, UNBOUNDED, Interval, closed
from tegula.tensorstore.index.output_maps import IndexArray, OutputIndexMap
from tegula.tensorstore.json.binding import (
    MISSING,
    array,
    array_of,
    int64,
    integer,
    known_only,
    member,
    nested_array,
    nested_shape,
    obj,
    take,
)

__all__ = ["identity_maps", "is_identity", "transform_from_json", "transform_to_json", "validated"]


def identity_maps(rank: int) -> Maps:
    """Return the output maps of the identity transform."""
    return tuple([OutputIndexMap._single(dim) for dim in range(rank)])


def is_identity(maps: Maps, rank: int) -> bool:
    """Return whether output maps are those of the identity transform."""
    return len(maps) == rank and all(
        output_map._dimension == dim and output_map._offset == 0 and output_map._stride == 1
        for dim, output_map in enumerate(maps)
    )


def validated(domain: IndexDomain, maps: Maps) -> Maps:
    """Check output maps against their domain; return constants for stride 0 and for index arrays if it is empty."""
    if len(maps) > MAX_RANK:
        raise invalid(f"Invalid output rank: {len(maps)}")
    empty = is_explicitly_empty(domain)
    return tuple([_validated(domain, output, output_map, empty) for output, output_map in enumerate(maps)])


def _validated(domain: IndexDomain, output: int, output_map: OutputIndexMap, empty: bool) -> OutputIndexMap:
    where = f"output dimension {output}"
    dim, values = output_map._dimension, output_map._array
    if dim is not None and not 0 <= dim < domain.rank:
        raise invalid(f"{where}: there is no input dimension {dim}")
    if not output_map._stride and (dim is not None or values is not None):
        return OutputIndexMap._constant(output_map._offset)
    if values is None:
        return output_map
    # an index array must fit the domain
    shape = domain.shape
    if values.ndim != len(shape) or any(size not in (1, full) for size, full in zip(values.shape, shape)):
        raise invalid(f"{where}: an index array of shape {values.shape} does not fit the input shape {shape}")
    for dim, size in enumerate(values.shape):
        if size != 1 and not empty and (domain._implicit_lower[dim] or domain._implicit_upper[dim]):
            raise invalid(f"{where}: an index array depends on input dimension {dim}, which has implicit bounds")
    return OutputIndexMap._constant(0) if empty else output_map


def transform_from_json(json: Any) -> Transform:
    """Read a transform."""
    members = obj(json)
    # `bounds_from_json` refuses unknown members
    output = members.pop("output", MISSING)
    domain = IndexDomain._make(*bounds_from_json(members, "input_"))
    if output is MISSING:
        return domain, identity_maps(domain.rank)
    with member("output"):
        if len(array(output)) > MAX_RANK:
            raise invalid(f"Rank {len(output)} is outside valid range [0, {MAX_RANK}]")
        maps = tuple(array_of(output, _map_from_json))
    return domain, validated(domain, maps)


def _map_from_json(json: Any) -> OutputIndexMap:
    members = obj(json)
    offset = take(members, "offset", int64, 0)
    if "input_dimension" in members and "index_array" in members:
        raise invalid('"input_dimension" and "index_array" exclude each other')
    kind = next((name for name in ("input_dimension", "index_array") if name in members), None)
    if kind is None and "stride" in members:
        raise invalid('"stride" needs "input_dimension" or "index_array"')
    stride = take(members, "stride", int64, 1)
    if kind == "input_dimension":
        output_map = OutputIndexMap._single(take(members, kind, int64), offset, stride)
    elif kind == "index_array":
        values = take(members, kind, _array_from_json)
        output_map = OutputIndexMap._of_array(
            values, offset, stride, take(members, "index_array_bounds", _range_from_json, UNBOUNDED)
        )
    else:
        output_map = OutputIndexMap._constant(offset)
    known_only(members)
    return output_map


def _array_from_json(value: Any) -> IndexArray:
    elements = nested_array(value, nested_shape(value))
    indices = np.empty(elements.shape, np.int64)
    for position in np.ndindex(indices.shape):
        indices[position] = int64(elements[position])
    return indices


def _range_from_json(value: Any) -> Interval:
    array(value, 2)
    return closed(*array_of(value, _bound_from_json))


def _bound_from_json(value: Any) -> int:
    if value in ("-inf", "+inf"):
        return INFINITY if value == "+inf" else -INFINITY
    return integer(value, -INFINITY, INFINITY, '64-bit signed integer or "-inf" or "+inf"')


def transform_to_json(domain: IndexDomain, maps: Maps) -> dict[str, Any]:
    """Convert a transform to JSON; the output maps of the identity are left out."""
    document = bounds_to_json(domain._parts(), "input_")
    if not is_identity(maps, domain.rank):
        document["output"] = [_map_to_json(output_map) for output_map in maps]
    return document


def _map_to_json(output_map: OutputIndexMap) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if output_map._array is not None:
        document["index_array"] = output_map._array.tolist()
        lower, upper = output_map._range
        if output_map._array.size and not (
            lower <= int(output_map._array.min()) and int(output_map._array.max()) < upper
        ):
            document["index_array_bounds"] = [
                "-inf" if lower == -INFINITY else lower,
                "+inf" if upper == EXCLUSIVE_INFINITY else upper - 1,
            ]
    if output_map._dimension is not None:
        document["input_dimension"] = output_map._dimension
    if output_map._offset:
        document["offset"] = output_map._offset
    if output_map._stride != 1 and (output_map._array is not None or output_map._dimension is not None):
        document["stride"] = output_map._stride
    return document
