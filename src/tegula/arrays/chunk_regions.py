"""Regions of chunks: the part of an array that each chunk holds, generated one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from tegula.engine import StoredArray, part_of
from tegula.engine.visiting import cells, is_inside
from tegula.errors import SelectionError
from tegula.metadata.chunk_grids import ChunkGrid, regular_grid

__all__ = ["Region", "regions", "stored_regions"]

Region = tuple[slice, ...]


def regions(
    shape: tuple[int, ...], grid: ChunkGrid, selection: Any = None, inner: tuple[int, ...] | None = None
) -> Iterator[Region]:
    """Yield the region of each chunk in a part of an array, the last axis fastest.

    Parameters
    ----------
    shape, grid
        The array's shape, and its grid of chunks (or shards).
    selection : int, slice, or tuple of them, optional
        The part of the array; all of it by default.
    inner : tuple of int, optional
        Shape of the inner chunks, to yield their regions instead.

    Raises
    ------
    SelectionError
        If the selection does not fit the array, or is not made of ints and slices with steps of 1.

    Examples
    --------
    >>> [*regions((5,), regular_grid((2,)), slice(1, 4))]
    [(slice(1, 2, None),), (slice(2, 4, None),)]
    """
    axes = (grid if inner is None else regular_grid(inner)).axes
    bounds = _bounds(selection, shape)
    box = []
    for axis, (start, stop) in zip(axes, bounds):
        box.append((int(axis.locate(start)), int(axis.locate(stop - 1)) + 1) if start < stop else (0, 0))
    for coords in cells(box):
        yield tuple(
            slice(max(start, axis.start(number)), min(stop, axis.start(number) + axis.length(number)))
            for axis, number, (start, stop) in zip(axes, coords, bounds)
        )


def _bounds(selection: Any, shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return start and stop of a selection along each axis."""
    items: Sequence[Any] = selection if isinstance(selection, tuple) else () if selection is None else (selection,)
    dots = [position for position, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise SelectionError(f"a selection can have only one ellipsis: {selection!r:.80}")
    if dots:
        position = dots[0]
        more = [slice(None)] * (len(shape) - len(items) + 1)
        items = (*items[:position], *more, *items[position + 1 :])
    if len(items) > len(shape):
        raise SelectionError(f"{selection!r:.80} has more than {len(shape)} dimensions")
    out = []
    for item, size in zip((*items, *[slice(None)] * (len(shape) - len(items))), shape):
        if isinstance(item, slice) and item.step in (None, 1):
            try:
                start, stop, _ = item.indices(size)
            except TypeError as error:
                raise SelectionError(f"{item!r:.80} is not a slice: {error}") from error
            out.append((start, max(start, stop)))
        elif hasattr(item, "__index__") and not isinstance(item, bool):
            try:
                number = int(item.__index__())
            except TypeError as error:
                raise SelectionError(f"{item!r:.60} is not a single index: {error}") from error
            if not -size <= number < size:
                raise SelectionError(f"index {number} is out of range for an axis of length {size}")
            out.append((number % size, number % size + 1))
        else:
            raise SelectionError(f"chunks are selected by ints and slices with steps of 1, not by {item!r:.60}")
    return out


def stored_regions(array: StoredArray) -> tuple[Iterator[Region], bool]:
    """Return the regions to read, and whether all other elements hold the fill value.

    Where few chunks are stored, the regions are those of the stored chunks; otherwise they are all regions.
    """
    metadata = array.metadata
    number, size = prod(metadata.grid.counts(metadata.shape)), prod(metadata.shape)
    if array.is_sparse(number, size * metadata.data_type.numpy.itemsize):
        stored = (coords for coords, _ in array.stored_chunks() if is_inside(array, coords))
        return (part_of(array, coords) for coords in stored), True
    return regions(metadata.shape, metadata.grid), False
