"""The ``.zarray`` of Zarr v2 as TensorStore reads, checks and writes it.

`Constraints` are what a spec's ``metadata`` member says: any part of it. `Metadata` is a whole document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy.typing as npt

from tegula.errors import TegulaError
from tegula.formats.zarr2 import parse as parse_documents
from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.zarr2_codecs import compressor_from_json, filters_from_json
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.zarr2_types import ZarrType, fill_to_document, fill_value, zarr_type
from tegula.tensorstore.errors import as_status, status
from tegula.tensorstore.json.binding import (
    MISSING,
    array,
    at,
    dump,
    integer,
    invalid,
    known_only,
    member,
    obj,
    one_of,
)

__all__ = ["ANYTHING", "Constraints", "Metadata", "check_chunk", "check_constraints", "parse_stored"]

_MAX_SIZE: Final = 2**63 - 2
_MAX_RANK: Final = 32
COMPARED: Final = ("shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters")


@dataclass(frozen=True, slots=True)
class Constraints:
    """Any part of a ``.zarray``; what is not there is `MISSING`."""

    shape: Any = MISSING
    chunks: Any = MISSING
    zarr: Any = MISSING
    compressor: Any = MISSING
    fill: Any = MISSING
    order: Any = MISSING
    filters: Any = MISSING
    separator: Any = MISSING
    zarr_format: Any = MISSING
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rank(self) -> int | None:
        """Number of chunked dimensions, if that is known."""
        known = next((item for item in (self.shape, self.chunks) if item is not MISSING), None)
        return None if known is None else len(known)

    def to_json(self) -> dict[str, Any]:
        """Write what is there."""
        values = {
            "zarr_format": self.zarr_format,
            "shape": self.shape,
            "chunks": self.chunks,
            "dtype": self.zarr if self.zarr is MISSING else self.zarr.document,
            "compressor": self.compressor,
            "fill_value": self.fill if self.fill is MISSING else fill_to_document(self.fill, self.zarr),
            "order": self.order,
            "filters": self.filters,
            "dimension_separator": self.separator,
        }
        plain = {
            name: [*value] if isinstance(value, tuple) else value
            for name, value in values.items()
            if value is not MISSING
        }
        return {**self.extra, **plain}

    @staticmethod
    def from_json(value: Any) -> Constraints:
        """Read a spec's ``metadata``."""
        members = obj(value)
        if not members:
            return ANYTHING
        found = _read(members, required=False)
        known_only(members)
        return found


ANYTHING: Final = Constraints()


@dataclass(frozen=True, slots=True)
class Metadata:
    """A whole ``.zarray``."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    zarr: ZarrType
    compressor: dict[str, Any] | None
    fill: npt.NDArray[Any] | None
    order: str
    filters: list[dict[str, Any]] | None = None
    separator: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    parts: dict[tuple[str, bool, bool], Elements] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What specs have shown of the elements, by `field`, `void` and `records`."""
    _nodes: dict[str, ArrayMetadata] = field(default_factory=dict, init=False, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Write the document."""
        document: dict[str, Any] = {
            **self.extra,
            "zarr_format": 2,
            "shape": [*self.shape],
            "chunks": [*self.chunks],
            "dtype": self.zarr.document,
            "compressor": self.compressor,
            "fill_value": fill_to_document(self.fill, self.zarr),
            "order": self.order,
            "filters": self.filters,
        }
        if self.separator is not None:
            document["dimension_separator"] = self.separator
        return document

    def constraints(self, separator: str) -> Constraints:
        """Return the constraints that only this document meets, and others with the same chunks."""
        return Constraints.from_json(replace(self, separator=separator, extra={}).to_json())

    def encode(self) -> bytes:
        """Return the bytes of the document."""
        return dump(self.to_json()).encode("utf-8", "surrogatepass")

    def resized(self, shape: tuple[int, ...]) -> Metadata:
        """Return the same with another shape."""
        return replace(self, shape=shape)

    def compatible(self, other: Metadata) -> bool:
        """Whether the chunks mean the same in both: everything is equal but the shape."""
        mine, others = replace(self, shape=(), extra={}).to_json(), replace(other, shape=(), extra={}).to_json()
        return len(self.shape) == len(other.shape) and dump(mine) == dump(others)

    def node(self, separator: str) -> ArrayMetadata:
        """Return the array's description as the lower floors have it.

        Raises
        ------
        ValueError, NotImplementedError
            If they can't hold it.
        """
        known = self._nodes.get(separator)
        if known is None:
            known = self._nodes[separator] = self._node(separator)
        return known

    def _node(self, separator: str) -> ArrayMetadata:
        document = {**self.to_json(), "dimension_separator": self.separator or separator}
        try:
            found = parse_documents({".zarray": dump(document).encode("utf-8", "surrogatepass")})
        except TegulaError as error:
            raise as_status(error) from error
        if not isinstance(found, ArrayMetadata):
            raise invalid("not an array")
        return replace(found, fill_value=found.fill_value if self.zarr.variable else self.fill, documents={})


@lru_cache(maxsize=64)
def parse_stored(raw: bytes) -> Metadata:
    """Read a stored document; what it says of one is remembered for a while.

    Raises
    ------
    ValueError
        If it is none.
    """
    try:
        value = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_constant, parse_int=_number)
    except (ValueError, RecursionError):
        raise status("FAILED_PRECONDITION", "Invalid JSON") from None
    try:
        members = obj(value)
        found = _read(members, required=True)
    except TegulaError as error:
        raise status("FAILED_PRECONDITION", as_status(error).sentence) from None
    separator = None if found.separator is MISSING else found.separator
    if found.fill is not None:
        found.fill.flags.writeable = False
    return Metadata(
        found.shape,
        found.chunks,
        found.zarr,
        found.compressor,
        found.fill,
        found.order,
        found.filters,
        separator,
        members,
    )


def _number(text: str) -> int | float:
    """Read an integer as 64 bits hold it."""
    value = int(text) if len(text) < 21 else float(text)
    return value if -(2**63) <= value < 2**64 else float(value)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _read(members: dict[str, Any], *, required: bool) -> Constraints:
    """Take the members of a document out of `members`."""
    found: dict[str, Any] = {}

    def take(name: str, attribute: str, read: Any, *, optional: bool = False) -> None:
        value = members.pop(name, MISSING)
        if value is MISSING and (optional or not required):
            return
        with member(name):
            found[attribute] = read(value)

    take("zarr_format", "zarr_format", lambda value: integer(value, 2, 2))
    take("shape", "shape", lambda value: _sizes(value, 0, None))
    take("chunks", "chunks", lambda value: _sizes(value, 1, len(found["shape"]) if "shape" in found else None))
    take("dtype", "zarr", zarr_type)
    take("compressor", "compressor", compressor_from_json)
    if "fill_value" in members and "zarr" not in found:
        raise invalid('Error parsing object member "fill_value": must be specified in conjunction with "dtype"')
    take("fill_value", "fill", lambda value: fill_value(value, found["zarr"]))
    take("order", "order", lambda value: one_of(value, ("C", "F")))
    take("filters", "filters", filters_from_json)
    if "zarr" in found:
        with member("dtype"):
            found["zarr"] = found["zarr"].of_filters(found.get("filters"))
    take("dimension_separator", "separator", lambda value: one_of(value, (".", "/")), optional=True)
    return Constraints(**found)


def _sizes(value: Any, least: int, rank: int | None) -> tuple[int, ...]:
    items = array(value)
    if len(items) > _MAX_RANK:
        raise invalid(f"Rank {len(items)} is outside valid range [0, {_MAX_RANK}]")
    items = array(items, rank)
    sizes = []
    for position, item in enumerate(items):
        with at(position):
            sizes.append(integer(item, least, _MAX_SIZE))
    return tuple(sizes)


def check_chunk(metadata: Metadata) -> None:
    """Refuse chunks that no machine can address.

    Raises
    ------
    ValueError
        If they have too many elements or bytes.
    """
    elements = prod(metadata.chunks)
    if elements >= 2**63 - 1:
        raise invalid(f"Product of chunk dimensions {{{', '.join(map(str, metadata.chunks))}}} is too large")
    if elements * metadata.zarr.itemsize >= 2**63:
        raise invalid("Total number of bytes per chunk is too large")


def check_constraints(constraints: Constraints, metadata: Metadata) -> None:
    """Raise unless a stored document is as a spec says.

    Raises
    ------
    ValueError
        If a member is another one.
    """
    if constraints is ANYTHING:
        return
    wanted, stored = constraints.to_json(), metadata.to_json()
    for name in COMPARED:
        if name in wanted and dump(wanted[name]) != dump(stored[name]):
            raise status(
                "FAILED_PRECONDITION",
                f"Expected {dump(name)} of {dump(wanted[name])} but received: {dump(stored[name])}",
            )
    separator = metadata.separator
    if separator is not None and constraints.separator is not MISSING and separator != constraints.separator:
        raise status(
            "FAILED_PRECONDITION",
            f'Expected "dimension_separator" of {dump(constraints.separator)} but received: {dump(separator)}',
        )
