"""The work of a conversion: its units, and what is done with each, in any process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from math import prod
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.engine.copying.chunk_copies import ChunkCopies, stores_all
from tegula.engine.copying.chunks import chunks_with_values, copier_of, copy_chunks
from tegula.engine.stored.array import StoredArray
from tegula.engine.stored.visiting import batches, cells
from tegula.errors import UnsupportedError
from tegula.jobs.checksum import digest_of_array
from tegula.jobs.ledger import Ledger, add_amounts
from tegula.jobs.plans import Unit
from tegula.jobs.publishing import Destination
from tegula.jobs.rewriting.boxes import parts_of, rewrite_box, same_box, stored_blocks
from tegula.jobs.rewriting.memory import release
from tegula.jobs.rewriting.targets import Axis
from tegula.jobs.runners.runner import Work
from tegula.jobs.units import Box, in_boxes, itemsize_of
from tegula.metadata.chunk_grids import ChunkGrid
from tegula.reductions import PRIME, Loss, Precision, Sums, sums_of_values

__all__ = ["Converting", "digest_of", "loss_of"]

Coords = tuple[int, ...]
Mode = Literal["copy", "rewrite", "verify"]
_SUMS: Final = ("sum 0", "sum 1", "weight 0", "weight 1")
_UNSUMMED: Final = "without a sum"
_TOGETHER: Final = 256  # chunks
_ERRORS: Final = ("largest error", "largest relative error")


class Converting(Work):
    """The work on each unit of an array: chunks are copied, or values rewritten, or both sides compared.

    Parameters
    ----------
    name : str
        Path of the array below the source.
    source : Array
        What to read.
    axes : list
        The selected part of each axis, see `selected_axes`.
    destination : Destination
        What to write.
    mode : {"copy", "rewrite", "verify"}
        What to do.
    ledger : Ledger, optional
        Where units that are done are recorded.
    limits : mapping, optional
        Settings that keep a process within its memory; see `Work`.
    precision : Precision, optional
        How values change.
    """

    def __init__(
        self,
        name: str,
        source: Array,
        axes: list[Axis | int],
        destination: Destination,
        mode: Mode,
        ledger: Ledger | None,
        limits: Mapping[str, int] | None = None,
        precision: Precision | None = None,
    ) -> None:
        self.name, self.source, self.axes, self.destination = name, source, axes, destination
        self.mode, self.ledger, self.limits, self.precision = mode, ledger, limits or {}, precision
        self.requests = max(source.store.concurrency, destination.store.concurrency)
        self.is_remote = source.store.is_remote or destination.store.is_remote
        self._latest = 0  # size of the latest unit

    def __reduce__(self) -> tuple[Any, ...]:
        facts = self.name, self.source, self.axes, self.destination, self.mode, self.ledger, self.limits, self.precision
        return type(self), facts

    @cached_property
    def target(self) -> Array:
        """The array that is written."""
        return self.destination.open()

    def nbytes(self, unit: Unit) -> int:
        """Return approximately how many bytes a unit takes in memory; chunks that are copied take room one by one."""
        if self.mode == "copy":
            return 0
        size = unit.size
        if unit.chosen is not None:  # few chunks, one after the other
            chunk = max(prod(array.metadata.grid.largest_chunk()) for array in (self.source, self.target))
            size = min(size, len(unit.chosen) * chunk)
        return size * (itemsize_of(self.source) + itemsize_of(self.target))

    def do(self, unit: Unit) -> dict[str, int]:
        """Do one unit; return the bytes read and written, chunks copied, the largest error, or sums of the values."""
        if self.limits and unit.size != self._latest:
            release()  # units of one size reuse the memory of the last one
            self._latest = unit.size
        if self.mode == "copy":
            total = {"read": 0, "written": 0, "copied": 0, "stored": 0}
            for moved in copy_chunks(self.copier, unit.chosen or self._chunks_in(unit.box)):
                total["read"] += moved.before
                total["written"] += moved.after
                total["copied"] += moved.copied
                total["stored"] += moved.stored
            return total
        results = Counter[str](read=0)
        for box in parts_of(self.source, self.axes, self.target, unit.box, unit.chosen):
            add_amounts(results, self._rewritten(box) if self.mode == "rewrite" else self._compared(box))
        return results

    def _rewritten(self, box: Box) -> dict[str, int]:
        """Write the new values of a box; return the bytes, the largest error, and the sums if they are recorded."""
        values, loss = rewrite_box(self.source, self.axes, self.target, box, self.precision)
        results = _amounts_of(loss) if self.precision is not None else {}
        if self.ledger is not None:
            results |= _sums(box, values, self.target)
        return {"read": values.nbytes, "written": values.nbytes, **results}

    def _compared(self, box: Box) -> dict[str, int]:
        """Compare the values of a box; return the bytes and the sums, or that it differs."""
        same = same_box(self.source, self.axes, self.target, box, self.precision)
        return {"different": 1} if same is None else {"read": 2 * same.nbytes, **_sums(box, same, self.target)}

    @cached_property
    def copier(self) -> ChunkCopies:
        """The function that copies chunks or shards one by one."""
        return copier_of(self.source.stored, self.target.stored)

    @property
    def units(self) -> StoredArray:
        """The array whose chunks or shards are copied one by one."""
        return self.copier.units

    def _chunks_in(self, box: Box) -> Iterator[Coords]:
        """Yield the coordinates of the chunks that begin in a box: each begins in one box only."""
        bounds = []
        for axis, part in zip(self.units.metadata.grid.axes, box):
            first = int(axis.locate(part.start))
            first += int(axis.start(first)) < part.start
            bounds.append((first, int(axis.locate(part.stop - 1)) + 1))
        return cells(bounds)

    def stored(self, grid: ChunkGrid) -> Iterator[tuple[Coords, Coords]] | None:
        """Return the boxes and chunks to visit, in order, if few chunks are stored; ``None`` for all boxes."""
        if self.mode != "copy":
            compared = self.mode == "verify"
            return stored_blocks(self.source, self.axes, self.target, grid, self.precision, compared=compared)
        old = self.source.stored
        number = prod(old.metadata.grid.counts(old.metadata.shape))
        if stores_all(self.target.stored) or not old.is_sparse(number):
            return None
        chunks = in_boxes(self.units, partial(chunks_with_values, old, self.units), grid)
        return chunks if self.ledger is not None else _together(chunks)


def _together(found: Iterator[tuple[Coords, Coords]]) -> Iterator[tuple[Coords, Coords]]:
    """Put chunks into the box of the first of several, since threads share the chunks of one unit."""
    for some in batches(found, _TOGETHER):
        yield from ((some[0][0], chunk) for _, chunk in some)


def _sums(box: Box, values: npt.NDArray[Any], array: Array) -> dict[str, int]:
    """Return the sums of a box, from which the checksum of the array is computed."""
    try:
        sums = sums_of_values(values, box, array.metadata.data_type)
    except UnsupportedError:  # objects of any class
        return {_UNSUMMED: 1}
    return dict(zip(_SUMS, (*sums.values, *sums.weights)))


def digest_of(array: Array, total: Mapping[str, int]) -> str:
    """Return the checksum of an array's values, as of `tegula.checksum`; empty for objects that have none."""
    if total.get(_UNSUMMED):
        return ""
    numbers = [total.get(name, 0) % PRIME for name in _SUMS]
    half = len(numbers) // 2
    return digest_of_array(array, Sums(tuple(numbers[:half]), tuple(numbers[half:])))


def loss_of(total: Mapping[str, int]) -> Loss:
    """Return the largest error of an array's values, from the results of its units."""
    return Loss(*(float(np.int64(total.get(name, 0)).view(np.float64)) for name in _ERRORS))


def _amounts_of(loss: Loss) -> dict[str, int]:
    """Return errors as integers that sort in the same order: the bits of non-negative floats."""
    return {name: int(np.float64(error).view(np.int64)) for name, error in zip(_ERRORS, loss)}
