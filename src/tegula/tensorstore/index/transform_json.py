"""Index transforms from JSON and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.tensorstore.errors import StatusError, annotate, invalid
from tegula.tensorstore.index.composition import Maps, Transform, is_explicitly_empty
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.domain_json import bounds_from_json, bounds_to_json
from tegula.tensorstore.index.intervals import EXCLUSIVE_INFINITY, INFINITY, MAX_RANK, Interval, closed
from tegula.tensorstore.index.output_maps import UNBOUNDED, IndexArray, OutputIndexMap
from tegula.tensorstore.json.arguments import braces
from tegula.tensorstore.json.binding import MISSING, array, array_of, int64, integer, known_only, member, obj, take
from tegula.tensorstore.json.nested import nested_array, nested_shape

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
    rank = domain.rank
    # a single input dimension
    if output_map._dimension is not None:
        if not 0 <= output_map._dimension < rank:
            raise invalid(
                f"Input dimension {output_map._dimension} specified for output dimension {output} "
                f"is outside valid range [0, {rank})"
            )
        return output_map if output_map._stride else OutputIndexMap._constant(output_map._offset)
    # a constant
    values = output_map._array
    if values is None:
        return output_map
    if not output_map._stride:
        return OutputIndexMap._constant(output_map._offset)
    # an index array, which must fit the domain
    if values.ndim != rank:
        raise invalid(f"Index array for output dimension {output} has rank {values.ndim} but must have rank {rank}")
    shape = domain.shape
    for dim, size in enumerate(values.shape):
        if size == 1:
            continue
        if size != shape[dim]:
            texts = [", ".join(map(str, sizes)) for sizes in (values.shape, shape)]
            raise invalid(
                f"Index array for output dimension {output} has shape {{{texts[0]}}} "
                f"which does not match input_shape {{{texts[1]}}}"
            )
        if not empty and (domain._implicit_lower[dim] or domain._implicit_upper[dim]):
            raise invalid(
                f"Index array for output dimension {output} depends on input dimension {dim} with implicit bounds"
            )
    return OutputIndexMap._constant(0) if empty else output_map


def transform_from_json(json: Any) -> Transform:
    """Read a transform."""
    try:
        members = obj(json)
        # `bounds_from_json` refuses unknown members
        output = members.pop("output", MISSING)
        domain = IndexDomain._make(*bounds_from_json(members, "input_"))
        if output is MISSING:
            return domain, identity_maps(domain.rank)
        with member("output"):
            maps = _maps_from_json(output)
        return domain, validated(domain, maps)
    except StatusError as error:
        raise annotate(error, "Error parsing index transform from JSON") from None


def _maps_from_json(json: Any) -> Maps:
    count = len(array(json))
    if count > MAX_RANK:
        raise invalid(f"Rank {count} is outside valid range [0, {MAX_RANK}]")
    return tuple(array_of(json, _map_from_json))


def _map_from_json(json: Any) -> OutputIndexMap:
    members = obj(json)
    offset = take(members, "offset", int64, 0)
    if "input_dimension" in members and "index_array" in members:
        raise invalid('At most one of "input_dimension", "index_array" members is allowed')
    kind = next((name for name in ("input_dimension", "index_array") if name in members), None)
    if kind is None and "stride" in members:
        with member("stride"):
            raise invalid('Either "input_dimension" or "index_array" must be specified in conjunction with "stride"')
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
        try:
            indices[position] = int64(elements[position])
        except StatusError as error:
            if not position:
                raise
            raise annotate(error, f"Error parsing array element at position {braces(position)}") from None
    indices.flags.writeable = False
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
