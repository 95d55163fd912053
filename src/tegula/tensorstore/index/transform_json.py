"""Index transforms from JSON and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.tensorstore.errors import StatusError, annotate, status
from tegula.tensorstore.index.composition import Maps, Transform
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.domain_json import bounds_from_json, bounds_to_json
from tegula.tensorstore.index.intervals import EXCLUSIVE_INFINITY, INFINITY, MAX_INT64, MAX_RANK, Interval, closed
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.json.binding import array, at, dump, expected, integer, known_only, member, obj

__all__ = ["identity_maps", "is_identity", "transform_from_json", "transform_to_json", "validated"]


def identity_maps(rank: int) -> Maps:
    """Return the output maps that change nothing."""
    return tuple([OutputIndexMap._single(dim) for dim in range(rank)])


def is_identity(maps: Maps, rank: int) -> bool:
    """Tell whether these output maps change nothing."""
    return len(maps) == rank and all(
        item._dimension == dim and item._offset == 0 and item._stride == 1 for dim, item in enumerate(maps)
    )


def validated(domain: IndexDomain, maps: Maps) -> Maps:
    """Check output maps against the domain they are over; returns them in their plain form."""
    if len(maps) > MAX_RANK:
        raise status("INVALID_ARGUMENT", f"Invalid output rank: {len(maps)}")
    empty = 0 in domain.shape
    return tuple([_validated(domain, output, item, empty) for output, item in enumerate(maps)])


def _validated(domain: IndexDomain, output: int, item: OutputIndexMap, empty: bool) -> OutputIndexMap:
    rank = domain.rank
    if item._dimension is not None:
        if not 0 <= item._dimension < rank:
            raise status(
                "INVALID_ARGUMENT",
                f"Input dimension {item._dimension} specified for output dimension {output} "
                f"is outside valid range [0, {rank})",
            )
        return item if item._stride else OutputIndexMap._constant(item._offset)
    values = item._array
    if values is None:
        return item
    if not item._stride:
        return OutputIndexMap._constant(item._offset)
    if values.ndim != rank:
        raise status(
            "INVALID_ARGUMENT",
            f"Index array for output dimension {output} has rank {values.ndim} but must have rank {rank}",
        )
    shape = domain.shape
    for dim, size in enumerate(values.shape):
        if size == 1:
            continue
        if size != shape[dim]:
            texts = [", ".join(map(str, sizes)) for sizes in (values.shape, shape)]
            raise status(
                "INVALID_ARGUMENT",
                f"Index array for output dimension {output} has shape {{{texts[0]}}} "
                f"which does not match input_shape {{{texts[1]}}}",
            )
        if domain._implicit_lower[dim] or domain._implicit_upper[dim]:
            raise status(
                "INVALID_ARGUMENT",
                f"Index array for output dimension {output} depends on input dimension {dim} with implicit bounds",
            )
    return OutputIndexMap._constant(0) if empty else item


def transform_from_json(json: Any) -> Transform:
    """Read a transform."""
    output: list[Maps | None] = [None]

    def read_output(members: dict[str, Any], rank: int) -> None:
        if "output" in members:
            with member("output"):
                output[0] = _maps_from_json(members.pop("output"))

    try:
        domain = IndexDomain._make(*bounds_from_json(json, "input_", read_output))
        maps = identity_maps(domain.rank) if output[0] is None else validated(domain, output[0])
    except StatusError as error:
        raise annotate(error, "Error parsing index transform from JSON") from None
    return domain, maps


def _maps_from_json(json: Any) -> Maps:
    items = array(json)
    if len(items) > MAX_RANK:
        raise status("INVALID_ARGUMENT", f"Rank {len(items)} is outside valid range [0, {MAX_RANK}]")
    maps = []
    for position, item in enumerate(items):
        with at(position):
            maps.append(_map_from_json(item))
    return tuple(maps)


def _map_from_json(json: Any) -> OutputIndexMap:
    members = obj(json)
    offset = _integer_member(members, "offset", 0)
    if "input_dimension" in members and "index_array" in members:
        raise status("INVALID_ARGUMENT", 'At most one of "input_dimension", "index_array" members is allowed')
    kind = next((name for name in ("input_dimension", "index_array") if name in members), None)
    if kind is None and "stride" in members:
        with member("stride"):
            raise status(
                "INVALID_ARGUMENT",
                'Either "input_dimension" or "index_array" must be specified in conjunction with "stride"',
            )
    stride = _integer_member(members, "stride", 1)
    if kind == "input_dimension":
        made = OutputIndexMap._single(_integer_member(members, kind, 0), offset, stride)
    elif kind == "index_array":
        with member(kind):
            values = _array_from_json(members.pop(kind))
        index_range = (-INFINITY, EXCLUSIVE_INFINITY)
        if "index_array_bounds" in members:
            with member("index_array_bounds"):
                index_range = _range_from_json(members.pop("index_array_bounds"))
        made = OutputIndexMap._of_array(values, offset, stride, index_range)
    else:
        made = OutputIndexMap._constant(offset)
    known_only(members)
    return made


def _integer_member(members: dict[str, Any], name: str, default: int) -> int:
    if name not in members:
        return default
    with member(name):
        return _integer(members.pop(name))


def _integer(value: Any) -> int:
    try:
        return integer(value, -MAX_INT64 - 1, MAX_INT64)
    except StatusError:
        raise expected("64-bit signed integer", value) from None


def _array_from_json(value: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    shape: list[int] = []
    inner = value
    while isinstance(inner, (list, tuple)):
        shape.append(len(inner))
        if not inner:
            break
        inner = inner[0]
    made = np.empty(shape, np.int64)
    _fill(made, value, tuple(shape), ())
    made.flags.writeable = False
    return made


def _fill(made: np.ndarray[Any, Any], value: Any, shape: tuple[int, ...], position: tuple[int, ...]) -> None:
    depth = len(position)
    shown = ", ".join(map(str, position))
    if depth == len(shape):
        try:
            made[position] = _integer(value)
        except StatusError as error:
            if not position:
                raise
            raise annotate(error, f"Error parsing array element at position {{{shown}}}") from None
        return
    if not isinstance(value, (list, tuple)):
        raise expected("array", value)
    if len(value) != shape[depth]:
        sizes = ", ".join(map(str, shape))
        raise status(
            "INVALID_ARGUMENT",
            f"Expected array of shape {{{sizes}}}, but found array element {dump(value)} of length {len(value)} "
            f"at position {{{shown}}}.",
        )
    for index, item in enumerate(value):
        _fill(made, item, shape, (*position, index))


def _range_from_json(value: Any) -> Interval:
    bounds = array(value, 2)
    infinite = {"-inf": -INFINITY, "+inf": INFINITY}
    parsed = []
    for position, item in enumerate(bounds):
        with at(position):
            if isinstance(item, str) and item in infinite:
                parsed.append(infinite[item])
                continue
            try:
                parsed.append(integer(item, -INFINITY, INFINITY))
            except StatusError:
                raise expected('64-bit signed integer or "-inf" or "+inf"', item) from None
    return closed(parsed[0], parsed[1])


def transform_to_json(domain: IndexDomain, maps: Maps) -> dict[str, Any]:
    """Write a transform; output maps that change nothing are left out."""
    document = bounds_to_json(domain._parts(), "input_")
    if not is_identity(maps, domain.rank):
        document["output"] = [_map_to_json(item) for item in maps]
    return document


def _map_to_json(item: OutputIndexMap) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if item._array is not None:
        document["index_array"] = item._array.tolist()
        lower, upper = item._range
        if item._array.size and not (lower <= int(item._array.min()) and int(item._array.max()) < upper):
            document["index_array_bounds"] = [
                "-inf" if lower == -INFINITY else lower,
                "+inf" if upper == EXCLUSIVE_INFINITY else upper - 1,
            ]
    if item._dimension is not None:
        document["input_dimension"] = item._dimension
    if item._offset:
        document["offset"] = item._offset
    if item._stride != 1 and (item._array is not None or item._dimension is not None):
        document["stride"] = item._stride
    return document
