"""Levels: the arrays of a pyramid, each computed from the one before, in boxes of whole chunks or shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tegula.arrays.array import Array
from tegula.arrays.creation import sharded
from tegula.engine.copying.chunks import part_of
from tegula.engine.stored.visiting import cells, check_number, is_inside
from tegula.errors import UnsupportedError
from tegula.formats import find_format
from tegula.jobs import units
from tegula.jobs.downsampling.reducing import reduced
from tegula.jobs.ledger import Ledger
from tegula.jobs.plans import Unit
from tegula.jobs.publishing import Place
from tegula.jobs.rewriting.memory import grant_for, granted, release
from tegula.jobs.runners.runner import Work
from tegula.jobs.units import Box, block_grid, in_order, itemsize_of, pieces
from tegula.metadata.chunk_grids import ChunkGrid, regular_grid
from tegula.metadata.nodes import ArrayMetadata, inner_codecs

__all__ = [
    "Reducing", "Reduction", "check_amount", "level_grid", "level_metadata", "longest_chunk", "piece_nbytes",
    "shapes_of", "share_of_memory",
]  # fmt: skip

_MOST_LEVELS = 64
_COPIES = 4  # of the bytes of a box: its elements, those of the level before, and both on their way through codecs
_CELL_BYTES = 80  # of intermediate results for each element that is reduced at a time

Coords = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reduction:
    """The reduction of each block of elements to one.

    Parameters
    ----------
    factors : tuple of int
        The shape of a block.
    method : {"mean", "mode", "nearest"}
        How the one is computed.
    masks : tuple of scalar
        Values that mark missing data.
    """

    factors: tuple[int, ...]
    method: str
    masks: tuple[Any, ...]


def shapes_of(
    shape: tuple[int, ...], chunks: tuple[int, ...], factors: Sequence[int], levels: int | None
) -> list[tuple[int, ...]]:
    """Return the shapes of the levels of a pyramid, from that of the whole array.

    By default there are as many levels as it takes until one fits into a chunk along every axis that gets shorter.

    Examples
    --------
    >>> shapes_of((5, 1000, 700), (1, 256, 256), (1, 2, 2), None)
    [(5, 1000, 700), (5, 500, 350), (5, 250, 175)]
    """
    found = [shape]
    while len(found) <= (_MOST_LEVELS if levels is None else levels):
        last = found[-1]
        inside = all(size <= chunk for size, chunk, factor in zip(last, chunks, factors) if factor > 1)
        if levels is None and inside:
            break
        found.append(tuple(-(-size // factor) for size, factor in zip(last, factors)))
    return found


def level_metadata(base: Array, shape: tuple[int, ...]) -> ArrayMetadata:
    """Describe a level of another shape: with codecs, chunks and shards of the base, if it is large enough."""
    chunks = longest_chunk(base)
    if base.shards is None:
        chunks = tuple(min(chunk, max(1, size)) for chunk, size in zip(chunks, shape))
    codecs = inner_codecs(base.metadata.codecs)
    metadata = replace(base.metadata, shape=shape, grid=regular_grid(chunks), codecs=codecs, documents={})
    if base.shards is None:
        return metadata
    whole = [max(1, -(-size // chunk)) * chunk for size, chunk in zip(shape, chunks)]
    return sharded(find_format("zarr3"), metadata, tuple(map(min, base.shards, whole)))


def longest_chunk(array: Array) -> tuple[int, ...]:
    """Return the shape of the largest chunk; for shards, of their inner chunks."""
    return array.metadata.grid.largest_chunk() if array.shards is None else array.chunks


def share_of_memory(source: Array, target: Array, factors: Sequence[int], max_memory: int | None) -> int:
    """Return the bytes of a box of a level, and of the elements read at once for it.

    Raises
    ------
    UnsupportedError
        If one chunk or shard of the level, or the chunks read for a chunk, do not fit. The message says
            how much memory they need.
    """
    if max_memory is None:
        return units.BLOCK_BYTES
    far = 2 if source.store.is_remote or target.store.is_remote else 1
    whole = target.metadata.grid.largest_chunk()
    needed = _COPIES * max(prod(whole) * itemsize_of(target), piece_nbytes(source, target, factors))
    if needed > granted(max_memory) // far:
        least, what = grant_for(needed * far), "chunk" if target.shards is None else "shard"
        raise UnsupportedError(
            f"to compute one {what} of shape {tuple(whole)} takes {least} bytes of memory, and max_memory is "
            f"{max_memory}; raise max_memory to at least {least}, or choose smaller {what}s",
            field="max_memory",
        )
    return granted(max_memory) // far // _COPIES


def piece_nbytes(source: Array, target: Array, factors: Sequence[int]) -> int:
    """Return the least bytes to read at once for a level: those of a chunk, in whole blocks."""
    shape = _piece_of(source, target.metadata.grid.largest_chunk(), factors)
    return prod(shape) * prod(factors) * itemsize_of(source)


def _piece_of(source: Array, shape: Sequence[int], factors: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which a chunk of the level before is reduced, at most `shape`."""
    return tuple(min(size, -(-chunk // factor)) for chunk, factor, size in zip(longest_chunk(source), factors, shape))


def check_amount(source: Array, target: Array, reduction: Reduction) -> None:
    """Refuse a level of more than ``max_chunks`` chunks that must all be computed, though few may be stored."""
    if not _is_sparse_alike(source, target, reduction):
        number = target.nchunks if target.nshards is None else target.nshards
        check_number(target.stored, number, "downsampling")


def _is_sparse_alike(source: Array, target: Array, reduction: Reduction) -> bool:
    """Return whether chunks that are not stored become chunks that need not be stored."""
    return not target.stored.stores_every_chunk and _keeps_fill(source, reduction)


def _keeps_fill(source: Array, reduction: Reduction) -> bool:
    """Return whether a block of fill values, whole or cut at the edges, becomes the fill value."""
    fill = source.stored.fill
    for shape in product(*({step, size % step or step} for size, step in zip(source.shape, reduction.factors))):
        block = np.empty(shape, source.dtype)
        block[...] = fill
        result = reduced(block, shape, reduction.method, reduction.masks).reshape(())
        if result.dtype.hasobject:
            if result.item() != fill.item():
                return False
        elif result.astype(fill.dtype).tobytes() != fill.tobytes():
            return False
    return True


class Reducing(Work):
    """The work on each unit of a level: a box of it is computed from the level before, and written at once.

    Parameters
    ----------
    name : str
        Path of the level in the group.
    source : Array
        The level before.
    place : Place
        The level.
    reduction : Reduction
        How its elements are computed.
    most : int
        Bytes to read at once.
    ledger : Ledger, optional
        Where units that are done are recorded.
    limits : mapping
        Settings that keep a process within its memory; see `Work`.
    """

    def __init__(
        self,
        name: str,
        source: Array,
        place: Place,
        reduction: Reduction,
        most: int,
        ledger: Ledger | None,
        limits: Mapping[str, int],
    ) -> None:
        self.name, self.source, self.place, self.reduction = name, source, place, reduction
        self.most, self.ledger, self.limits = most, ledger, limits
        self.requests = max(source.store.concurrency, place.store.concurrency)
        self.is_remote = source.store.is_remote or place.store.is_remote

    def __reduce__(self) -> tuple[Any, ...]:
        facts = self.name, self.source, self.place, self.reduction, self.most, self.ledger, self.limits
        return type(self), facts

    @cached_property
    def target(self) -> Array:
        """The array that is written."""
        return self.place.open()

    def nbytes(self, unit: Unit) -> int:
        """Return approximately how many bytes a unit takes in memory."""
        size: int = max(prod(part.stop - part.start for part in box) for box in self._boxes(unit))
        return size * (itemsize_of(self.target) + itemsize_of(self.source))

    def do(self, unit: Unit) -> dict[str, int]:
        """Compute a unit; return the bytes read and written."""
        total = {"read": 0, "written": 0}
        for box in self._boxes(unit):
            total["read"] += self._compute(box)
            total["written"] += prod(part.stop - part.start for part in box) * self.target.itemsize
        return total

    def _boxes(self, unit: Unit) -> Iterator[Box]:
        """Yield the box of a unit, or if few chunks are stored, those of its chunks or shards that are computed."""
        if unit.chosen is None:
            yield unit.box
            return
        for coords in unit.chosen:
            yield self.target.metadata.grid.region(coords, self.target.shape)

    def _compute(self, box: Box) -> int:
        """Compute a box of whole chunks or shards, and write it at once; return the bytes read."""
        source, target, reduction = self.source, self.target, self.reduction
        shape = tuple(part.stop - part.start for part in box)
        values, read = np.empty(shape, target.dtype), 0
        # pieces of whole chunks of the source, if these fit into memory
        most = self.most // (itemsize_of(source) * prod(reduction.factors))
        for piece in pieces(shape, _piece_of(source, shape, reduction.factors), most):
            places = zip(box, piece, reduction.factors, source.shape)
            part = tuple(
                slice((outer.start + inner.start) * factor, min((outer.start + inner.stop) * factor, size))
                for outer, inner, factor, size in places
            )
            if reduction.method == "nearest":  # only the elements that are kept are read
                steps = tuple(slice(axis.start, axis.stop, step) for axis, step in zip(part, reduction.factors))
                found = values[piece] = source[steps]
            else:
                found = None  # frees its memory for the next piece
                if self.limits:
                    release()
                found = np.asarray(source[part])
                cells = self.most // _CELL_BYTES
                values[piece] = reduced(found, reduction.factors, reduction.method, reduction.masks, cells)
            read += found.nbytes
        target[box] = values
        return read

    def stored(self, grid: ChunkGrid) -> Iterator[tuple[Coords, Coords]] | None:
        """Return the boxes and chunks to compute, in order, if few chunks are stored; ``None`` for all boxes."""
        own, old, target = self.target.metadata.grid, self.source.stored, self.target
        number = prod(own.counts(target.shape))
        if not (_is_sparse_alike(self.source, target, self.reduction) and old.is_sparse(number, target.nbytes)):
            check_amount(self.source, target, self.reduction)
            return None

        def pairs() -> Iterator[Coords]:
            for coords, _ in old.stored_chunks():
                if not is_inside(old, coords):
                    continue
                reached = []
                for part, factor, axis in zip(part_of(old, coords), self.reduction.factors, own.axes):
                    first, last = part.start // factor, (part.stop - 1) // factor
                    reached.append((int(axis.locate(first)), int(axis.locate(last)) + 1))
                for chunk in cells(reached):
                    starts = (int(axis.start(one)) for axis, one in zip(own.axes, chunk))
                    yield (*(int(axis.locate(start)) for axis, start in zip(grid.axes, starts)), *chunk)

        ndim = target.ndim
        return ((pair[:ndim], pair[ndim:]) for pair in in_order(pairs))


def level_grid(source: Array, target: Array, factors: Sequence[int], max_memory: int | None) -> ChunkGrid:
    """Return the grid of the units of a level, which fit into `max_memory`."""
    return block_grid(target, target, share_of_memory(source, target, factors, max_memory))
