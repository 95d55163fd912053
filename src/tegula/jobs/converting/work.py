"""The work of a conversion: its units, and what is done with each, in any process."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from math import prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tegula import config, engine
from tegula.arrays.array import Array
from tegula.engine.chunk_copies import part_of, stores_all
from tegula.engine.copying import chunks_with_values, copied_units, copy_chunks
from tegula.engine.stored import StoredArray
from tegula.engine.visiting import cells, in_order
from tegula.formats import find_format
from tegula.jobs.converting.budget import release
from tegula.jobs.converting.rewriting import rewrite_box, same_box, stored_blocks
from tegula.jobs.converting.targets import Axis
from tegula.jobs.ledger import Ledger
from tegula.jobs.plans import Unit
from tegula.jobs.runners.runner import Work
from tegula.jobs.units import Box
from tegula.metadata.chunk_grids import ChunkGrid
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Store

__all__ = ["Converting", "Place", "digest_of"]

Coords = tuple[int, ...]
Mode = Literal["copy", "rewrite", "verify"]


@dataclass(frozen=True)
class Place:
    """The array that a conversion writes, which need not have documents yet.

    Parameters
    ----------
    store, path : Store, str
        Where it is.
    documents : dict of str to bytes
        Its documents, as they are or will be.
    format : str
        Its format.
    options : dict
        Those of `tegula.engine.stored_array`.
    visible : bool
        Whether the documents are stored already.
    """

    store: Store
    path: str
    documents: dict[str, bytes]
    format: str
    options: dict[str, Any]
    visible: bool

    def open(self) -> Array:
        """Return the array for writing."""
        metadata = find_format(self.format).parse(self.documents)
        assert isinstance(metadata, ArrayMetadata)
        if not self.visible:  # without documents it does not look for the one that says it exists
            metadata = replace(metadata, documents={})
        return Array(engine.stored_array(self.store, self.path, metadata, **self.options), self.path, read_only=False)


class Converting(Work):
    """What is done with each unit of an array: chunks are copied, or values rewritten, or both sides compared.

    Parameters
    ----------
    name : str
        Path of the array below the source.
    source : Array
        What to read.
    axes : list
        The selected part of each axis, see `selected_axes`.
    place : Place
        What to write.
    mode : {"copy", "rewrite", "verify"}
        What to do.
    ledger : Ledger, optional
        Where units that are done are recorded.
    limits : dict, optional
        Settings of `tegula.config` that keep a process within its memory; never raised above what they are.
    """

    def __init__(
        self,
        name: str,
        source: Array,
        axes: list[Axis | int],
        place: Place,
        mode: Mode,
        ledger: Ledger | None,
        limits: dict[str, int] | None = None,
    ) -> None:
        self.name, self.source, self.axes, self.place = name, source, axes, place
        self.mode, self.ledger, self.limits = mode, ledger, limits or {}
        self.requests = max(source.store.concurrency, place.store.concurrency)
        self._latest = 0  # size of the latest unit

    def __reduce__(self) -> tuple[Any, ...]:
        facts = self.name, self.source, self.axes, self.place, self.mode, self.ledger, self.limits
        return _unpickled, (type(self), facts)

    @cached_property
    def target(self) -> Array:
        """The array that is written."""
        return self.place.open()

    def nbytes(self, unit: Unit) -> int:
        """Return about how many bytes a unit has in memory."""
        return unit.size * (self.source.itemsize + self.target.itemsize)

    def do(self, unit: Unit) -> dict[str, int]:
        """Do one unit, and return the bytes read and written, the chunks copied, and a checksum of the values."""
        if self.limits and unit.size != self._latest:
            release()  # units of one size use the memory of the last one again
            self._latest = unit.size
        if self.mode == "copy":
            total = {"read": 0, "written": 0, "copied": 0}
            for moved in copy_chunks(
                self.source._stored, self.target._stored, unit.chosen or self._chunks_in(unit.box)
            ):
                total["read"] += moved.before
                total["written"] += moved.after
                total["copied"] += moved.copied
            return total
        if self.mode == "rewrite":
            values = rewrite_box(self.source, self.axes, self.target, unit.box)
            checksum = 0 if self.ledger is None else _checksum(unit.box, values)
            return {"read": values.nbytes, "written": values.nbytes, "checksum": checksum}
        same = same_box(self.source, self.axes, self.target, unit.box)
        if same is None:
            return {"read": 0, "different": 1}
        return {"read": 2 * same.nbytes, "checksum": _checksum(unit.box, same)}

    @cached_property
    def units(self) -> StoredArray:
        """The array whose chunks or shards are copied one by one."""
        return copied_units(self.source._stored, self.target._stored)

    def _chunks_in(self, box: Box) -> Iterator[Coords]:
        """Yield the coordinates of the chunks that begin in a box: each begins in one box only."""
        found = []
        for axis, part in zip(self.units.metadata.grid.axes, box):
            first = int(axis.locate(part.start))
            first += int(axis.start(first)) < part.start
            found.append((first, int(axis.locate(part.stop - 1)) + 1))
        return cells(found)

    def stored(self, grid: ChunkGrid) -> Iterator[tuple[Coords, Coords]] | None:
        """Return the boxes and chunks to visit, in order, where few are stored; ``None`` stands for all boxes."""
        if self.mode != "copy":
            found = stored_blocks(self.source, self.axes, self.target, grid, compared=self.mode == "verify")
            return None if found is None else ((coords, ()) for coords in found)
        old = self.source._stored
        number = prod(old.metadata.grid.counts(old.metadata.shape))
        if stores_all(self.target._stored) or not old.is_sparse(number):
            return None

        def pairs() -> Iterator[Coords]:
            for coords in chunks_with_values(old, self.units):
                part = part_of(self.units, coords)
                yield (*(int(axis.locate(p.start)) for axis, p in zip(grid.axes, part)), *coords)

        ndim = old.metadata.ndim
        return ((pair[:ndim], pair[ndim:]) for pair in in_order(pairs))


def _unpickled(kind: type[Converting], facts: tuple[Any, ...]) -> Converting:
    """Return the work in a process that others have started for it, which then keeps within the limits."""
    found = kind(*facts)
    now = config.current()
    if lower := {name: value for name, value in found.limits.items() if value < getattr(now, name)}:
        config._put(**lower)
    return found


def _checksum(box: Box, values: npt.NDArray[Any]) -> int:
    """Return a checksum of the values of a box; those of all boxes combine by exclusive or."""
    if values.dtype.hasobject:
        crc = zlib.crc32(repr(values.tolist()).encode("utf-8", "surrogatepass"))
    else:
        crc = zlib.crc32(np.ascontiguousarray(values).reshape(-1).view("u1"))  # type: ignore[arg-type]
    where = ",".join(f"{part.start}:{part.stop}" for part in box)
    found = import_module("hashlib").blake2b(f"{where}={crc:08x}".encode(), digest_size=8)
    return int.from_bytes(found.digest(), "big")


def digest_of(total: dict[str, int]) -> str:
    """Return the digest of an array's values, from the sums over its units."""
    return f"{total.get('checksum', 0):016x}"
