"""Members of metadata documents as constraints: those in a spec, or all of a stored document.

`tegula.formats` decides what a document says. `Reader` brings its members into the form in which TensorStore writes
them, so that those of a spec can be compared with those that are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy.typing as npt

from tegula.metadata.data_types import DataType
from tegula.metadata.fill_value_json import fill_from_json
from tegula.tensorstore.constraints.unit import Units
from tegula.tensorstore.constraints.zarr3_codecs import Chain
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.errors import StatusError, status
from tegula.tensorstore.index.domain import IndexDomain, check_labels, merge_domains
from tegula.tensorstore.index.intervals import EXCLUSIVE_INFINITY
from tegula.tensorstore.json.binding import MAX_RANK, MISSING, array, array_of, dump, integer, invalid, member

__all__ = [
    "Metadata",
    "Ranks",
    "ReadFill",
    "Reader",
    "effective_domain",
    "fill_of_spec",
    "mismatch",
    "ranks",
]

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
    units: Units | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rank(self) -> int | None:
        """Number of dimensions; None if it is unknown."""
        known = (self.shape, self.names, self.chunk_shape, self.units)
        return next((len(values) for values in known if values is not None), None)


class Reader:
    """A reader of the members of an object, which are removed; those with an element per dimension have the same rank.

    Attributes
    ----------
    json : dict
        The members read so far, in the form that is written.
    parts : dict
        The values of members that are attributes of `Metadata`.
    """

    def __init__(self, members: dict[str, Any]) -> None:
        self.members = members
        self.rank: int | None = None
        self.json: dict[str, Any] = {}
        self.parts: dict[str, Any] = {}

    def take(
        self, name: str, read: Callable[[Any], Any], write: Callable[[Any], Any] | None = None, part: str = ""
    ) -> Any:
        """Return the value of a member, and note it and the form in which it is written; ``None`` if it is missing."""
        if name not in self.members:
            return None
        with member(name):
            result = read(self.members.pop(name))
            self.json[name] = result if write is None else write(result)
        if part:
            self.parts[part] = result
        return result

    def metadata(self, others: Mapping[str, Any], **parts: Any) -> Metadata:
        """Return all that was read, together with other members and parts."""
        return Metadata(json={**others, **self.json}, **self.parts, **parts)

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

    def take_sizes(self, name: str, part: str, least: int = 0) -> None:
        """Read a member with a size for each dimension."""
        self.take(name, lambda value: self.sizes(value, least), list, part)

    def take_fill(
        self,
        type_name: str,
        data_type: DataType | None,
        read: ReadFill,
        write: Callable[[Any, DataType], Any],
    ) -> None:
        """Read the ``fill_value``, which needs the type of the elements beside it."""
        if data_type is not None:
            self.take("fill_value", lambda value: read(value, data_type), lambda fill: write(fill, data_type), "fill")
        elif "fill_value" in self.members:
            with member("fill_value"):
                raise invalid(f'must be specified in conjunction with "{type_name}"')


def fill_of_spec(value: Any, data_type: DataType) -> npt.NDArray[Any]:
    """Read a ``fill_value`` in a spec, for which fewer forms are accepted than in stored documents."""
    is_whole = isinstance(value, float) and value.is_integer()
    return fill_from_json(int(value) if is_whole and "int" in data_type.numpy.name else value, data_type)


def mismatch(name: str, wanted: Any, stored: Any) -> StatusError:
    """Return the error for a stored member that differs from the spec."""
    received = "nothing" if stored is MISSING else dump(stored)
    return status("FAILED_PRECONDITION", f"Expected {dump(name)} of {dump(wanted)} but received: {received}")


# --- dimensions: those of the array come first, then those of its elements


@dataclass(frozen=True, slots=True)
class Ranks:
    """The number of chunked dimensions and of all dimensions; None if unknown."""

    chunked: int | None
    full: int | None


def ranks(chunked: int | None, full: int | None, shown: Elements | None) -> Ranks:
    """Derive either number of dimensions from the other, if the shown part of the elements is known."""
    inner = None if shown is None else len(shown.shape)
    if inner is not None:
        if full is None and chunked is not None:
            full = chunked + inner
        elif full is not None and chunked is None:
            chunked = full - inner
    wrong = full is not None and chunked is not None and (chunked > full if inner is None else chunked + inner != full)
    if wrong or (chunked is not None and chunked < 0):
        raise invalid(f"Rank specified by schema ({full}) is not compatible with metadata")
    return Ranks(chunked, full)


def effective_domain(
    metadata: Metadata, known: Ranks, shown: Elements | None, wanted: IndexDomain | None
) -> IndexDomain | None:
    """Return the domain that metadata and a constraint on the domain together determine; None if it is unknown.

    The upper bounds of the array's own dimensions are implicit, all others explicit.
    """
    extents = known.chunked == 0 or metadata.shape is not None or metadata.names is not None
    complete = extents and (shown is not None or known.chunked == known.full)
    if known.full is None or (wanted is None and not complete):
        return None
    inner = () if shown is None else shown.shape
    outer = known.full - len(inner)
    sizes = metadata.shape or (EXCLUSIVE_INFINITY,) * outer
    labels = _labels_of(metadata.names) or ("",) * outer
    domain = IndexDomain(
        inclusive_min=[0] * known.full,
        exclusive_max=(*sizes, *inner),
        implicit_upper_bounds=[*[True] * outer, *[False] * len(inner)],
        labels=(*labels, *[""] * len(inner)),
    )
    merged = domain if wanted is None else merge_domains(wanted, domain)
    return merged._with(implicit_lower=[False] * known.full, implicit_upper=[*domain.implicit_upper_bounds])


def _labels_of(names: Sequence[str | None] | None) -> list[str] | None:
    """Return dimension names as labels; ``None`` if there are no names, or they are not valid as labels."""
    if names is None:
        return None
    labels = [name or "" for name in names]
    try:
        check_labels(labels)
    except StatusError:
        return None
    return labels
