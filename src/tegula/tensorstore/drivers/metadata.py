"""Metadata documents of Zarr v2 and v3: all members of a stored document, or the members in a spec.

The members are JSON. `Reader` checks them, with TensorStore's error messages, and converts them to the form that is
written; `tegula.formats` reads the array from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy.typing as npt

from tegula.errors import TegulaError
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.unit import Unit
from tegula.tensorstore.constraints.zarr3_codecs import Chain
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.errors import StatusError, as_status, status
from tegula.tensorstore.json.binding import MISSING, array, at, dump, integer, invalid, member, obj
from tegula.tensorstore.json.values import parse

__all__ = ["Metadata", "Reader", "described", "mismatch", "parsed"]

_MAX_SIZE: Final = 2**63 - 2
_MAX_RANK: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Members of a metadata document.

    Attributes
    ----------
    json : mapping
        The members, in the form that is written.
    shape, chunk_shape : tuple of int or None
        Shape of the array and of its chunks, if given.
    data_type : DataType or None
        Type of the elements, if given.
    fill : 0-d ndarray or None
        The fill value, if there is one.
    codecs : Chain or None
        Zarr v3: the codecs, if given.
    names, units : tuple or None
        Zarr v3: name and unit of each dimension.
    attributes : mapping
        Zarr v3: the user's attributes in the document.
    parts : dict
        Cache of the parts of the elements that specs show, by field name and flags.
    nodes : dict
        Cache of the array that a complete document describes, by the default separator of chunk keys.
    """

    json: Mapping[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] | None = None
    chunk_shape: tuple[int, ...] | None = None
    data_type: DataType | None = None
    fill: npt.NDArray[Any] | None = None
    codecs: Chain | None = None
    names: tuple[str | None, ...] | None = None
    units: tuple[Unit | None, ...] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    parts: dict[tuple[str, bool, bool], Elements] = field(default_factory=dict, compare=False, repr=False)
    nodes: dict[str, ArrayMetadata] = field(default_factory=dict, compare=False, repr=False)

    @property
    def rank(self) -> int | None:
        """Number of dimensions; None if it is unknown."""
        known = (self.shape, self.names, self.chunk_shape, self.units)
        return next((len(values) for values in known if values is not None), None)

    def has_chunks_of(self, other: Metadata) -> bool:
        """Return whether two documents describe the same chunks; shape and attributes may differ."""
        return self is other or _about_chunks(self.json) == _about_chunks(other.json)

    def with_members(self, shape: tuple[int, ...], **members: Any) -> Self:
        """Return a copy with another shape, and with some members of the JSON replaced."""
        return replace(self, json={**self.json, "shape": [*shape], **members}, shape=shape, nodes={})


def _about_chunks(members: Mapping[str, Any]) -> str:
    """Return the text of the members that must not change while an array is open."""
    free = {
        name for name, value in members.items() if isinstance(value, dict) and value.get("must_understand") is False
    }
    return dump({name: members[name] for name in members.keys() - free - {"shape", "attributes"}})


class Reader:
    """A reader of the members of an object; those with an element for each dimension must have the same rank.

    Parameters
    ----------
    members : dict
        The object; members are removed as they are read.
    required : bool
        Whether each member is required, as in a stored document.

    Attributes
    ----------
    json : dict
        The members read so far, in the form that is written.
    """

    def __init__(self, members: dict[str, Any], required: bool) -> None:
        self.members = members
        self.required = required
        self.rank: int | None = None
        self.json: dict[str, Any] = {}

    def take(self, name: str, read: Callable[[Any], Any], *, optional: bool = False) -> Any:
        """Return the value of a member; ``None`` if an optional member is missing."""
        value = self.members.pop(name, MISSING)
        if value is MISSING and (optional or not self.required):
            return None
        with member(name):
            result = read(value)
        self.json[name] = [*result] if isinstance(result, tuple) else result
        return result

    def per_dimension(self, value: Any, read: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Read an array with an element for each dimension."""
        values = array(value)
        if len(values) > _MAX_RANK:
            raise invalid(f"Rank {len(values)} is outside valid range [0, {_MAX_RANK}]")
        values = array(values, self.rank)
        self.rank = len(values)
        out = []
        for position, element in enumerate(values):
            with at(position):
                out.append(read(element))
        return tuple(out)

    def sizes(self, value: Any, least: int) -> tuple[int, ...]:
        """Read an array with a size for each dimension."""
        return self.per_dimension(value, lambda size: integer(size, least, _MAX_SIZE))


def parsed(
    raw: bytes, read: Callable[[dict[str, Any]], Metadata], code: str, parse_int: Callable[[str], Any] = int
) -> Metadata:
    """Read a stored document.

    Parameters
    ----------
    raw : bytes
        The document.
    read : callable
        Reads its members.
    code : str
        Status code of the error for a document that is not JSON.
    parse_int : callable
        Reads an integer.

    Raises
    ------
    ValueError
        If the document does not describe an array.
    """
    try:
        value = parse(raw, parse_int)
    except (ValueError, RecursionError):
        raise status(code, "Invalid JSON") from None
    try:
        metadata = read(obj(value))
    except TegulaError as error:
        raise status("FAILED_PRECONDITION", as_status(error).sentence) from None
    if metadata.fill is not None:
        metadata.fill.flags.writeable = False
    return metadata


def described(describe: Callable[[dict[str, Any]], ArrayMetadata], members: dict[str, Any]) -> ArrayMetadata:
    """Return the array that a format reads from the members of a document.

    Raises
    ------
    ValueError, NotImplementedError
        If the format cannot read them.
    """
    try:
        return describe(members)
    except TegulaError as error:
        raise as_status(error) from error


def mismatch(name: str, wanted: Any, stored: Any) -> StatusError:
    """Return the error for a stored member that differs from the spec."""
    received = "<discarded>" if stored is MISSING else dump(stored)
    return status("FAILED_PRECONDITION", f"Expected {dump(name)} of {dump(wanted)} but received: {received}")
