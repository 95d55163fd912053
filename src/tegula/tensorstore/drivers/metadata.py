"""Members of metadata documents as constraints: those in a spec, or all of a stored document.

`tegula.formats` decides what a document says. `Reader` brings its members into the form in which TensorStore writes
them, so that those of a spec can be compared with those that are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, TypeAlias

import numpy.typing as npt

from tegula.metadata.data_types import DataType
from tegula.metadata.fill_value_json import fill_from_json
from tegula.tensorstore.constraints.unit import Unit
from tegula.tensorstore.constraints.zarr3_codecs import Chain
from tegula.tensorstore.errors import StatusError, status
from tegula.tensorstore.json.binding import MAX_RANK, MISSING, array, array_of, dump, integer, invalid, member

__all__ = ["Metadata", "ReadFill", "Reader", "fill_of_spec", "mismatch"]

ReadFill: TypeAlias = Callable[[Any, DataType], npt.NDArray[Any] | None]
_MAX_SIZE: Final = 2**63 - 2


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

    @property
    def rank(self) -> int | None:
        """Number of dimensions; None if it is unknown."""
        known = (self.shape, self.names, self.chunk_shape, self.units)
        return next((len(values) for values in known if values is not None), None)

    def with_members(self, shape: tuple[int, ...], **members: Any) -> Self:
        """Return a copy with another shape, and with some members of the JSON replaced."""
        return replace(self, json={**self.json, "shape": [*shape], **members}, shape=shape)


class Reader:
    """A reader of the members of an object; those with an element for each dimension must have the same rank.

    Parameters
    ----------
    members : dict
        The object; members are removed as they are read.

    Attributes
    ----------
    json : dict
        The members read so far, in the form that is written.
    """

    def __init__(self, members: dict[str, Any]) -> None:
        self.members = members
        self.rank: int | None = None
        self.json: dict[str, Any] = {}

    def take(self, name: str, read: Callable[[Any], Any], write: Callable[[Any], Any] | None = None) -> Any:
        """Return the value of a member, and note the form in which it is written; ``None`` if it is missing."""
        if name not in self.members:
            return None
        with member(name):
            result = read(self.members.pop(name))
            self.json[name] = result if write is None else write(result)
        return result

    def per_dimension(self, value: Any, read: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Read an array with an element for each dimension."""
        values = array(value, self.rank)
        if len(values) > MAX_RANK:
            raise invalid(f"Rank {len(values)} is outside valid range [0, {MAX_RANK}]")
        self.rank = len(values)
        return tuple(array_of(values, read))

    def sizes(self, value: Any, least: int = 0) -> tuple[int, ...]:
        """Read an array with a size for each dimension."""
        return self.per_dimension(value, lambda size: integer(size, least, _MAX_SIZE))

    def take_sizes(self, name: str, least: int = 0) -> tuple[int, ...] | None:
        """Return the value of a member with a size for each dimension."""
        sizes: tuple[int, ...] | None = self.take(name, lambda value: self.sizes(value, least), list)
        return sizes

    def take_fill(
        self,
        type_name: str,
        data_type: DataType | None,
        read: ReadFill,
        write: Callable[[Any, DataType], Any],
    ) -> Any:
        """Return the ``fill_value``, which needs the type of the elements beside it."""
        if data_type is not None:
            return self.take("fill_value", lambda value: read(value, data_type), lambda fill: write(fill, data_type))
        if "fill_value" in self.members:
            with member("fill_value"):
                raise invalid(f'must be specified in conjunction with "{type_name}"')
        return None


def fill_of_spec(value: Any, data_type: DataType) -> npt.NDArray[Any]:
    """Read a ``fill_value`` in a spec, for which fewer forms are accepted than in stored documents."""
    is_whole = isinstance(value, float) and value.is_integer()
    return fill_from_json(int(value) if is_whole and "int" in data_type.numpy.name else value, data_type)


def mismatch(name: str, wanted: Any, stored: Any) -> StatusError:
    """Return the error for a stored member that differs from the spec."""
    received = "nothing" if stored is MISSING else dump(stored)
    return status("FAILED_PRECONDITION", f"Expected {dump(name)} of {dump(wanted)} but received: {received}")
