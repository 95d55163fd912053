"""Regions of an array: of ints and slices, and of each chunk; and a search for a value chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from tegula.engine import StoredArray, part_of
from tegula.engine.stored.visiting import cells, stored_inside
from tegula.errors import SelectionError
from tegula.indexing.normalise import itemise
from tegula.metadata.chunk_grids import ChunkGrid, as_slice, regular_grid
from tegula.views.operators import OperationError

__all__ = [
    "Indices",
    "Region",
    "are_whole_chunks",
    "count_stored",
    "holds",
    "indices_of",
    "inner_grid",
    "regions",
    "selection_of",
]  # fmt: skip

Region = tuple[slice, ...]
Indices = tuple[int | range, ...]
"""The index, or the indices, along each axis."""


def inner_grid(array: StoredArray) -> ChunkGrid:
    """Return the grid of chunks, of inner chunks if there are shards."""
    sharding = array.chain.sharding
    return array.metadata.grid if sharding is None else regular_grid(sharding.inner_shape)


def count_stored(array: StoredArray) -> int:
    """Return the number of stored chunks; a stored shard counts as all its inner chunks."""
    sharding, grid = array.chain.sharding, array.metadata.grid
    if sharding is None:
        return sum(1 for _ in array.stored_chunks())
    return sum(prod(sharding.grid_shape(grid.chunk_shape(coords))) for coords, _ in array.stored_chunks())


def regions(shape: tuple[int, ...], grid: ChunkGrid, selection: Any = None) -> Iterator[Region]:
    """Yield the region of each chunk in a part of an array, the last axis fastest.

    Parameters
    ----------
    shape, grid
        The array's shape, and its grid of chunks or shards.
    selection : int, slice, or tuple of them, optional
        The part of the array; all of it by default.

    Raises
    ------
    SelectionError
        If the selection does not fit the array, or is not made of ints and slices with steps of 1.

    Examples
    --------
    >>> [*regions((5,), regular_grid((2,)), slice(1, 4))]
    [(slice(1, 2, None),), (slice(2, 4, None),)]
    """
    bounds = [*_bounds(selection, shape)]
    box = []
    for axis, (start, stop) in zip(grid.axes, bounds):
        box.append((int(axis.locate(start)), int(axis.locate(stop - 1)) + 1) if start < stop else (0, 0))
    for coords in cells(box):
        yield tuple(
            slice(max(start, axis.start(number)), min(stop, axis.start(number) + axis.length(number)))
            for axis, number, (start, stop) in zip(grid.axes, coords, bounds)
        )


def are_whole_chunks(grid: ChunkGrid, part: Sequence[int | slice], shape: Sequence[int]) -> bool:
    """Return whether selected elements are those of whole chunks or shards.

    Examples
    --------
    >>> grid = regular_grid((4,))
    >>> [are_whole_chunks(grid, [part], (10,)) for part in (slice(4, 10), slice(7, None, -1), slice(2, 4))]
    [True, True, False]
    """
    for item, axis, size in zip(part, grid.axes, shape):
        numbers = range(size)[item] if isinstance(item, slice) else range(item, item + 1)
        if not numbers:
            continue
        first, last = sorted((numbers[0], numbers[-1]))
        end = int(axis.locate(last))
        edges = int(axis.start(int(axis.locate(first)))), min(size, int(axis.start(end)) + int(axis.length(end)))
        if abs(numbers.step) != 1 or (first, last + 1) != edges:
            return False
    return True


def indices_of(selection: Any, shape: tuple[int, ...]) -> Indices:
    """Return the index or the indices along each axis that ints and slices select.

    Raises
    ------
    SelectionError
        If the selection does not fit the array, or is not made of ints and slices.

    Examples
    --------
    >>> indices_of((..., slice(3, None, -2), -1), (2, 5, 6))
    (range(0, 2), range(3, -1, -2), 5)
    """
    found: list[int | range] = []
    for item in itemise(selection, shape):
        if isinstance(item, slice):
            try:
                found.append(range(*item.indices(shape[len(found)])))
            except (TypeError, ValueError) as error:
                raise SelectionError(f"{item!r:.80} is not a slice: {error}") from error
        elif isinstance(item, int):
            found.append(item)
        elif item is not ...:
            raise SelectionError(f"a part is selected by ints and slices, not by {selection!r:.80}")
    return tuple(found)


def selection_of(indices: Indices) -> tuple[int | slice, ...]:
    """Return the selection of some indices.

    Examples
    --------
    >>> selection_of((range(3, -1, -2), 5))
    (slice(3, None, -2), 5)
    """
    return tuple(as_slice(item) if isinstance(item, range) else item for item in indices)


def _bounds(selection: Any, shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield start and stop of a selection along each axis."""
    for item in indices_of(... if selection is None else selection, shape):
        axis = item if isinstance(item, range) else range(item, item + 1)
        if axis.step != 1:
            raise SelectionError(f"chunks are selected by ints and slices with steps of 1, not by {selection!r:.60}")
        yield axis.start, max(axis.start, axis.stop)


def holds(array: Any, value: object) -> bool:
    """Return whether an element of an array is equal to a value; chunks are read until it is found.

    Raises
    ------
    OperationError
        If the value is not a single element.
    """
    wanted: Any = np.asarray(value, array.dtype) if array.dtype.names else value
    if np.ndim(wanted):
        raise OperationError(f"`in` looks for single elements, not {value!r:.60}", path=array.location)
    stored_regions, missing = _stored_regions(array.stored)
    if missing and np.any(np.asarray(array.stored.fill) == wanted):
        return True
    return any(np.any(np.asarray(array[region]) == wanted) for region in stored_regions)


def _stored_regions(array: StoredArray) -> tuple[Iterator[Region], bool]:
    """Return the regions to read, and whether all other elements hold the fill value.

    Where few chunks are stored, the regions are those of the stored chunks; otherwise they are all regions.
    """
    metadata = array.metadata
    number, size = prod(metadata.grid.counts(metadata.shape)), prod(metadata.shape)
    if array.is_sparse(number, size * metadata.data_type.numpy.itemsize):
        stored = stored_inside(array)
        return (part_of(array, coords) for coords in stored), True
    return regions(metadata.shape, metadata.grid), False
