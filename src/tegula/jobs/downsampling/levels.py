"""Levels: the arrays of a pyramid, each computed from the one before, in boxes of whole chunks or shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np

from tegula import engine
from tegula.arrays.array import Array
from tegula.arrays.creation import sharded
from tegula.engine.copying.chunks import part_of
from tegula.engine.nodes.creating import read_back
from tegula.engine.stored.visiting import cells, check_number, stored_inside
from tegula.errors import MetadataError, UnsupportedError
from tegula.formats import find_format
from tegula.jobs import units
from tegula.jobs.ledger import Records
from tegula.jobs.plans import Unit
from tegula.jobs.publishing import Destination, Writing
from tegula.jobs.rewriting.estimating import Estimate
from tegula.jobs.rewriting.memory import granted, too_little
from tegula.jobs.units import Box, block_grid, in_boxes, itemsize_of
from tegula.metadata import geo, spacing
from tegula.metadata.chunk_grids import ChunkGrid, joined_grid, regular_grid
from tegula.metadata.fill_values import scalar_array
from tegula.metadata.nodes import ArrayMetadata, inner_codecs
from tegula.reductions.blocks import Reduction, supports
from tegula.runtime.executors import release
from tegula.stores import Store

__all__ = ["MOST_LEVELS", "ZARR3", "Reducing", "Step", "check_method", "masks_of", "steps_of"]

ZARR3: Final = find_format("zarr3")
MOST_LEVELS: Final = 64
_METHODS: Final = ("mean", "mode", "nearest")
_COPIES: Final = 4
"""Of the bytes of a box in memory: its elements, those of the level before, and both on their way through codecs."""
_CELL_BYTES: Final = 80  # of intermediate results for each element that is reduced at a time

Coords = tuple[int, ...]


def check_method(method: str, dtype: np.dtype[Any]) -> None:
    """Refuse a method that there is not, or the mean of elements that are not numbers, booleans or times."""
    if method not in _METHODS:
        raise MetadataError(f"method must be one of {', '.join(_METHODS)}, not {method!r:.40}", field="method")
    if method == "mean" and not (supports("mean", dtype) or dtype.kind in "mM"):
        raise UnsupportedError(f"elements of type {dtype} have no mean; pass method='mode' or 'nearest'", field="dtype")


def masks_of(array: Array, missing: Any) -> list[Any]:
    """Return the values that mark missing data, in the array's type."""
    if missing is None:
        return array.conventions.stored_masks
    if isinstance(missing, str) and missing == "fill_value":
        return [array.stored.fill[()]]
    several = missing if isinstance(missing, (list, tuple)) else [missing]
    try:
        return [scalar_array(value, array.metadata.data_type)[()] for value in several]
    except MetadataError as error:
        raise MetadataError(error.message, field="missing") from error


# --- levels before they exist


@dataclass(frozen=True, slots=True)
class Step:
    """A level to compute: its path in the group, the level before and itself as they will be, and how it is computed.

    At most `most` bytes are read at once; `grid` is that of its units.
    """

    name: str
    before: Array
    draft: Array
    most: int
    grid: ChunkGrid

    def estimate(self, factors: Sequence[int]) -> Estimate:
        """Estimate what it takes to compute the level, as if every chunk were stored."""
        before, draft = self.before, self.draft
        number = max(1, prod(self.grid.counts(draft.shape)))
        box = prod(min(length, max(1, size)) for length, size in zip(self.grid.largest_chunk(), draft.shape))
        nbytes, requests = box * draft.itemsize, sum(map(_values_of, (before, draft)))
        read = min(max(self.most, _piece_nbytes(before, draft, factors)), nbytes * prod(factors))
        return Estimate(number, before.nbytes, draft.nbytes, requests, nbytes + read)


def steps_of(
    base: Array, store: Store, path: str, reduction: Reduction, levels: int | None, max_memory: int | None
) -> Iterator[Step]:
    """Yield the levels of a group; by default until one fits into a chunk along every axis that gets shorter.

    Raises
    ------
    UnsupportedError
        If a level has more than ``max_chunks`` chunks that must all be computed, or one of them takes too much memory.
    """
    before, factors = base, reduction.factors
    for number in range(1, (MOST_LEVELS if levels is None else levels) + 1):
        axes = zip(before.shape, _longest_chunk(base), factors)
        if levels is None and all(size <= chunk for size, chunk, factor in axes if factor > 1):
            return
        name = f"s{number}"
        where = f"{path}/{name}".lstrip("/")
        shape = tuple(-(-size // factor) for size, factor in zip(before.shape, factors))
        metadata = read_back(ZARR3, _level_metadata(base, shape, number, reduction), where)
        stored = engine.stored_array(store, where, metadata, allow_pickle=base.allow_pickle)
        draft = Array(stored, where, read_only=True)
        if not _is_sparse_alike(before, draft, reduction):
            check_number(draft.stored, _values_of(draft), "downsampling")
        most = _share_of_memory(before, draft, factors, max_memory)
        yield Step(name, before, draft, most, block_grid(draft, draft, most))
        before = draft


def _level_metadata(base: Array, shape: tuple[int, ...], number: int, reduction: Reduction) -> ArrayMetadata:
    """Describe a level of another shape: with codecs, chunks and shards of the base, if it is large enough."""
    chunks = _longest_chunk(base)
    if base.shards is None:
        chunks = tuple(min(chunk, max(1, size)) for chunk, size in zip(chunks, shape))
    codecs = inner_codecs(base.metadata.codecs)
    names, total = base.dimension_names or (), [factor**number for factor in reduction.factors]
    attributes = spacing.of_level(base.metadata.attributes, base.ndim, total, reduction.method)
    attributes = geo.of_level(attributes, names, total, shape, reduction.method)
    metadata = replace(
        base.metadata, attributes=attributes, shape=shape, grid=regular_grid(chunks), codecs=codecs, documents={}
    )
    if base.shards is None:
        return metadata
    covering = [max(1, -(-size // chunk)) * chunk for size, chunk in zip(shape, chunks)]
    return sharded(ZARR3, metadata, tuple(map(min, base.shards, covering)))


def _longest_chunk(array: Array) -> tuple[int, ...]:
    """Return the shape of the largest chunk; for shards, of their inner chunks."""
    return array.metadata.grid.largest_chunk() if array.shards is None else array.chunks


def _values_of(array: Array) -> int:
    """Return the number of shards of an array, or of chunks if it has no shards."""
    return array.nchunks if array.nshards is None else array.nshards


def _share_of_memory(source: Array, target: Array, factors: Sequence[int], max_memory: int | None) -> int:
    """Return the bytes of a box of a level, and of the elements read at once for it; refuse a chunk that is larger."""
    if max_memory is None:
        return units.BLOCK_BYTES
    shared = 2 if source.store.is_remote or target.store.is_remote else 1
    chunk = target.metadata.grid.largest_chunk()
    needed = _COPIES * max(prod(chunk) * itemsize_of(target), _piece_nbytes(source, target, factors))
    if needed > granted(max_memory) // shared:
        raise too_little("compute", target, needed * shared, max_memory)
    return granted(max_memory) // shared // _COPIES


def _piece_nbytes(source: Array, target: Array, factors: Sequence[int]) -> int:
    """Return the least bytes to read at once for a level: those of a chunk, in whole blocks."""
    shape = _piece_of(source, target.metadata.grid.largest_chunk(), factors)
    return prod(shape) * prod(factors) * itemsize_of(source)


def _piece_of(source: Array, shape: Sequence[int], factors: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which a chunk of the level before is reduced, at most `shape`."""
    return tuple(min(size, -(-chunk // factor)) for chunk, factor, size in zip(_longest_chunk(source), factors, shape))


def _is_sparse_alike(source: Array, target: Array, reduction: Reduction) -> bool:
    """Return whether chunks that are not stored become chunks that need not be stored."""
    return not target.stored.stores_every_chunk and _keeps_fill(source, reduction)


def _keeps_fill(source: Array, reduction: Reduction) -> bool:
    """Return whether a block of fill values, whole or cut at the edges, becomes the fill value."""
    fill, shapes = source.stored.fill, zip(source.shape, reduction.factors)
    for shape in product(*({factor, size % factor or factor} for size, factor in shapes)):
        block = np.empty(shape, source.dtype)
        block[...] = fill
        result = replace(reduction, factors=shape).of(block).reshape(())
        same = result.astype(fill.dtype).tobytes() == fill.tobytes()
        if not (result.item() == fill.item() if result.dtype.hasobject else same):
            return False
    return True


# --- the work


class Reducing(Writing):
    """The work on each unit of a level: a box of it is computed from the level before, and written at once.

    `source` is the level before, `destination` is where the level is, and at most `most` bytes are read at once.
    """

    def __init__(
        self,
        name: str,
        source: Array,
        destination: Destination,
        reduction: Reduction,
        most: int,
        ledger: Records,
        limits: Mapping[str, int],
    ) -> None:
        super().__init__(name, source, destination, ledger, limits)
        self.reduction, self.most = reduction, most

    def nbytes(self, unit: Unit) -> int:
        """Return approximately how many bytes a unit takes in memory."""
        size: int = max(prod(part.stop - part.start for part in box) for box in self._boxes(unit))
        return size * (itemsize_of(self.target) + itemsize_of(self.source))

    def do(self, unit: Unit) -> dict[str, int]:
        """Compute a unit; return the bytes read and written."""
        amounts = [self._compute(box) for box in self._boxes(unit)]
        return {"read": sum(read for read, _ in amounts), "written": sum(written for _, written in amounts)}

    def _boxes(self, unit: Unit) -> Iterator[Box]:
        """Yield the box of a unit, or if few chunks are stored, those of its chunks or shards that are computed."""
        if unit.chosen is None:
            yield unit.box
            return
        for coords in unit.chosen:
            yield self.target.metadata.grid.region(coords, self.target.shape)

    def _compute(self, box: Box) -> tuple[int, int]:
        """Compute a box of whole chunks or shards, and write it at once; return the bytes read and written."""
        source, target, reduction = self.source, self.target, self.reduction
        shape = tuple(part.stop - part.start for part in box)
        values, nbytes = np.empty(shape, target.dtype), 0
        # pieces of whole chunks of the source, if these fit into memory
        most = self.most // (itemsize_of(source) * prod(reduction.factors))
        for piece in joined_grid(_piece_of(source, shape, reduction.factors), shape, most).regions(shape):
            part = tuple(
                slice((outer.start + inner.start) * factor, min((outer.start + inner.stop) * factor, size))
                for outer, inner, factor, size in zip(box, piece, reduction.factors, source.shape)
            )
            if reduction.method == "nearest":  # only the elements that are kept are read
                steps = tuple(slice(axis.start, axis.stop, step) for axis, step in zip(part, reduction.factors))
                read = values[piece] = source[steps]
            else:
                read = None  # frees its memory for the next piece
                if self.limits:
                    release()
                read = np.asarray(source[part])
                values[piece] = reduction.of(read, self.most // _CELL_BYTES)
            nbytes += read.nbytes
        target[box] = values
        return nbytes, values.nbytes

    def stored(self, grid: ChunkGrid) -> Iterator[tuple[Coords, Coords]] | None:
        """Return what to compute if few chunks are stored; see `Work.stored`."""
        own, old, target = self.target.metadata.grid, self.source.stored, self.target
        number = prod(own.counts(target.shape))
        if not (_is_sparse_alike(self.source, target, self.reduction) and old.is_sparse(number, target.nbytes)):
            return None

        def chunks() -> Iterator[Coords]:
            for coords in stored_inside(old):
                reached = []
                for part, factor, axis in zip(part_of(old, coords), self.reduction.factors, own.axes):
                    first, last = part.start // factor, (part.stop - 1) // factor
                    reached.append((int(axis.locate(first)), int(axis.locate(last)) + 1))
                yield from cells(reached)

        return in_boxes(target.stored, chunks, grid)
