"""Plans of jobs: the units of an operation, and the fingerprint of what it reads.

Units are numbered but never listed: the array and the box of a unit follow from its number by arithmetic on the sizes
of grids. If few chunks are stored, only units with stored chunks are visited.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from itertools import groupby
from math import prod
from typing import Any, Final

from tegula.arrays.array import Array
from tegula.errors import MetadataError
from tegula.jobs.owners import LATEST
from tegula.jobs.units import Box
from tegula.metadata.chunk_grids import ChunkGrid, cells
from tegula.metadata.nodes import NodeMetadata
from tegula.runtime.frozen import replace

__all__ = ["LARGEST", "Difference", "Piece", "Plan", "Unit", "are_facts", "description_of", "digest", "fingerprint_of",
    "is_count", "is_plan", "units_of",
]  # fmt: skip

LARGEST: Final = 10**100
"""No number in a plan or a record is as large."""

Coords = tuple[int, ...]
VERSION: Final = 1
_COUNTED: Final = 2**14  # a fingerprint counts the stored chunks of grids up to this size


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of work: a box of whole chunks or shards of the target, which one worker writes."""

    number: int  # in the job
    box: Box  # the part of the array
    chosen: tuple[Coords, ...] | None = None
    """If few chunks are stored: those in the box, as the work's `stored` has them."""

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(part.stop - part.start for part in self.box)


@dataclass(frozen=True, slots=True)
class Piece:
    """The units of one array.

    Examples
    --------
    >>> from tegula.metadata.chunk_grids import regular_grid
    >>> piece = Piece("x", (10, 7), regular_grid((4, 4)), first=100)
    >>> piece.count, piece.unit(103).box, piece.number((1, 1))
    (6, (slice(4, 8, None), slice(4, 7, None)), 103)
    """

    name: str  # path of the array below the source
    shape: tuple[int, ...]  # of the array that is cut into boxes
    grid: ChunkGrid  # of the boxes
    source: Mapping[str, Any] = field(default_factory=dict)  # the fingerprint of what is read
    target: str = ""  # the fingerprint of the documents that are written
    chunks: tuple[int, ...] = ()  # for the first of two passes, those of the temporary array that it writes
    first: int = 0  # number of the first unit; `Plan.add` numbers them
    described: str = ""  # a digest of the description by which the array was planned; see `description_of`

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of boxes along each axis."""
        return self.grid.counts(self.shape)

    @property
    def count(self) -> int:
        """Number of units."""
        return prod(self.counts)

    @property
    def stop(self) -> int:
        """The number after that of its last unit; an array without elements takes one number, too."""
        return self.first + max(1, self.count)

    def number(self, coords: Coords) -> int:
        """Return the number of the unit at grid coordinates."""
        number = 0
        for one, count in zip(coords, self.counts):
            number = number * count + one
        return self.first + number

    def unit(self, number: int, chosen: tuple[Coords, ...] | None = None) -> Unit:
        """Return the unit with the given number."""
        rest, coords = number - self.first, []
        for count in reversed(self.counts):
            rest, one = divmod(rest, count)
            coords.append(one)
        return Unit(number, self.grid.region(coords[::-1], self.shape), chosen)

    def as_dict(self) -> dict[str, Any]:
        """Return the piece as JSON values."""
        facts = {"name": self.name, "shape": [*self.shape], "box": [*self.grid.largest_chunk()]}
        facts |= {"chunks": [*self.chunks]} if self.chunks else {}
        return {**facts, "first": self.first, "units": self.count, "source": {**self.source}, "target": self.target}


def units_of(piece: Piece, stored: Iterator[tuple[Coords, Coords]] | None) -> Iterator[Unit]:
    """Yield the units of an array in order.

    Parameters
    ----------
    piece : Piece
        The array's part of the plan.
    stored : iterator, optional
        If few chunks are stored: the coordinates of the box and of the chunk, for each stored chunk in order.
    """
    if stored is None:
        every = cells([(0, count) for count in piece.counts])
        for number, coords in enumerate(every, piece.first):
            yield Unit(number, piece.grid.region(coords, piece.shape))
        return
    for coords, pairs in groupby(stored, lambda pair: pair[0]):
        yield piece.unit(piece.number(coords), tuple(chunk for _, chunk in pairs if chunk) or None)


@dataclass(slots=True)
class Plan:
    """The plan of a job: an operation, its options, and the units of each array."""

    operation: str
    options: dict[str, Any]  # the user's, as JSON values without secrets
    source: str  # what it reads and writes, as text for users
    target: str
    pieces: dict[str, Piece] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    units: int = 0

    def add(self, piece: Piece) -> None:
        """Add the units of an array, numbered after those of all arrays added before."""
        self.pieces[piece.name] = numbered = dataclasses.replace(piece, first=self.units)
        self.units = numbered.stop

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        facts = {"version": VERSION, "operation": self.operation, "options": self.options, "source": self.source}
        arrays = [piece.as_dict() for piece in self.pieces.values()]
        return {**facts, "target": self.target, "units": self.units, "groups": self.groups, "arrays": arrays}

    def facts(self) -> dict[str, Any]:
        """Return the part of the plan that must be the same to resume a job: all but the options, source and target."""
        return {name: value for name, value in self.as_dict().items() if name not in ("options", "source", "target")}

    def check_same(self, stored: Mapping[str, Any], where: str) -> None:
        """Refuse to resume a job that was begun with another plan: the one `stored` in its ledger.

        Raises
        ------
        MetadataError
            If the source has changed, or the operation or options differ; the message says which.
        """
        difference = self.difference(stored)
        if difference is not None and difference.in_source:
            raise MetadataError(f"the source has changed since the job began: {difference.what}; {_ANEW}", path=where)
        if difference is not None:
            what = f"{difference.what}; repeat the first command to resume the job, or {_ANEW}"
            raise MetadataError(what, path=where)

    def difference(self, stored: Mapping[str, Any]) -> Difference | None:
        """Return the first difference from a stored plan, or from its `facts`; ``None`` if there is none."""
        if isinstance(stored.get("changed"), str):
            return Difference(stored["changed"])
        now = json.loads(json.dumps(self.facts()))
        for name in ("version", "operation"):
            if stored.get(name) != now[name]:
                return Difference(f"the job's {name} is {stored.get(name)!r:.40}, not {now[name]!r}", in_source=False)
        old = {array["name"]: array for array in stored.get("arrays", ())}
        new = {array["name"]: array for array in now["arrays"]}
        for name in sorted({*old, *new}):
            if (name not in new or name not in old) and self.operation == "downsample":
                return Difference("the options would give other levels", in_source=False)
            if name not in new or name not in old:
                return Difference(f"{_node('array', name)} {'is gone' if name in old else 'has been added'}")
            if (found := _difference(name, old[name], new[name])) is not None:
                return found
        before, groups = stored.get("groups", {}), now["groups"]
        for name in sorted({*before, *groups}):
            if before.get(name) != groups.get(name):
                return Difference(f"{_node('group', name)} or its attributes are not the same")
        return None


_ANEW: Final = "start again with overwrite=True, or remove what it has written with `tegula jobs clean`"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two plans."""

    what: str  # what differs, in words
    in_source: bool = True  # whether the source has changed, rather than the options


def _difference(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Difference | None:
    """Compare two plans for one array."""
    one, other = old["source"], new["source"]
    if "missing chunks" in other and "missing chunks" not in one:
        what = f"what is done of {_node('array', name)} was read with missing_chunks='fill', not 'error'"
        return Difference(what, in_source=False)
    for what in sorted((one.keys() | other.keys()) - {"missing chunks"}):
        if what != "documents" and one.get(what) != other.get(what):
            facts = f"{_fact(what, one.get(what))} then, {_fact(what, other.get(what))} now"
            return Difference(f"{_node('array', name)} had {facts}")
    documents = one.get("documents", {}), other.get("documents", {})
    if documents[0] != documents[1]:
        names = sorted(key for key in documents[0] | documents[1] if documents[0].get(key) != documents[1].get(key))
        return Difference(f"{', '.join(names)} of {_node('array', name)} is not the same")
    if any(old.get(what) != new.get(what) for what in ("target", "shape", "box", "first", "chunks")):
        what = f"the options would give {_node('array', name)} other metadata or units"
        return Difference(what, in_source=False)
    return None


def _node(kind: str, name: str) -> str:
    return f"the {kind} {name!r}" if name else f"the {kind}"


def _fact(what: str, value: Any) -> str:
    if what == "stored chunks" and isinstance(value, list) and len(value) == 2:
        return f"{value[0]} stored chunks of {value[1]} bytes in all"
    return f"{what} {value}"


def fingerprint_of(node: Array | NodeMetadata) -> dict[str, Any]:
    """Return the facts about a node that must not change while a job reads it.

    These are digests of its documents and the shape of an array; for an array with a small chunk grid also the number
    of its stored chunks and their bytes; and whether chunks that are not stored are errors.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=(3, 4), dtype="i4")
    >>> sorted(fingerprint_of(a)), fingerprint_of(a)["shape"]
    (['documents', 'shape', 'stored chunks'], [3, 4])
    """
    if not isinstance(node, Array):
        return {"documents": _digests(node)}
    facts: dict[str, Any] = {"documents": _digests(node.metadata), "shape": [*node.shape]}
    number = prod(node.metadata.grid.counts(node.shape))
    if number <= _COUNTED and node.store.listable:
        facts["stored chunks"] = [*node.stored.amount_stored()]
    if node.stored.is_strict:
        facts["missing chunks"] = "error"
    return facts


def description_of(array: Array) -> str:
    """Return a digest of what an array's documents say about its chunks and shape, without attributes.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=3, dtype="i4")
    >>> before = description_of(a)
    >>> a.attrs["unit"] = "m"
    >>> description_of(a) == before
    True
    """
    return digest(repr(replace(array.metadata, attributes={}, dimension_names=None)).encode())


def _digests(metadata: NodeMetadata) -> dict[str, str]:
    return {key: digest(raw) for key, raw in sorted(metadata.documents.items())}


def digest(raw: bytes) -> str:
    """Return a digest of bytes as hexadecimal text.

    Examples
    --------
    >>> digest(b"")
    'cae66941d9efbd404e4d88758ea67670'
    """
    text: str = import_module("hashlib").blake2b(raw, digest_size=16).hexdigest()
    return text


def are_facts(document: Mapping[str, Any]) -> bool:
    """Return whether a document has the facts of a plan (`Plan.facts`), as far as they are used."""
    arrays = document.get("arrays")
    plain = isinstance(document.get("groups"), dict) and is_count(document.get("units"))
    return plain and isinstance(arrays, list) and all(map(_is_piece, arrays))


def is_plan(document: Mapping[str, Any]) -> bool:
    """Return whether a document is a stored plan, as far as it is used."""
    begun: Any = document.get("begun")
    texts = all(isinstance(document.get(name), str) for name in ("operation", "source", "target"))
    return texts and type(begun) in (int, float) and 0 <= begun < LATEST and are_facts(document)


def _is_piece(piece: Any) -> bool:
    if not isinstance(piece, dict) or not isinstance(piece.get("name"), str):
        return False
    source = piece.get("source")
    documents = source.get("documents", {}) if isinstance(source, dict) else None
    return isinstance(documents, dict) and all(is_count(piece.get(name)) for name in ("first", "units"))


def is_count(value: Any) -> bool:
    """Return whether a value of a document is a count: a whole number from 0 on, below `LARGEST`."""
    return type(value) is int and 0 <= value < LARGEST
