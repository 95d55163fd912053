"""Batches of zarr-python's codec pipeline: the selection of the array behind a list of chunks.

zarr-python divides a selection into chunks before it calls a pipeline, and passes a list: for each chunk its key, the
selection in it, and the place in the result. This module puts the selection together again, so that the engine carries
it out in one call. It guesses the selection from the first and the last chunk along each axis, and compares it with
every chunk of the list. Lists that differ are left to zarr-python.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tegula.metadata.chunk_grids import ChunkAxis, ChunkGrid, VaryingAxis
from tegula.metadata.chunk_keys import ChunkKeyEncoding

__all__ = ["Selected", "place_of", "selected"]

Item = tuple[Any, Any, Any, Any, bool]
"""``(getter or setter, chunk spec, chunk selection, selection of the result, whether the chunk is complete)``."""


class Selected(NamedTuple):
    """A selection, and the array lengths that it needs.

    Parameters
    ----------
    kind : {"basic", "orthogonal", "vectorized"}
        The kind of selection, as in `tegula.indexing`.
    selection : tuple
        The selection.
    ends : tuple of int
        For each axis the index after the last one.
    limits : tuple of int
        For each axis the end of the last chunk.
    """

    kind: str
    selection: tuple[Any, ...]
    ends: tuple[int, ...]
    limits: tuple[int, ...]


def place_of(key: str, keys: ChunkKeyEncoding, ndim: int) -> tuple[str, tuple[int, ...]] | None:
    """Split the key of a chunk into the prefix of its array and the coordinates.

    Examples
    --------
    >>> from tegula.metadata.chunk_keys import V2_KEYS, default_keys
    >>> place_of("era/t/c/0/12", default_keys(), 2), place_of("0.12", V2_KEYS, 2)
    (('era/t/', (0, 12)), ('', (0, 12)))
    """
    match = None if keys.digits else _pattern(keys, ndim).fullmatch(key)
    if match is None:
        return None
    prefix, *numbers = match.groups()
    return prefix or "", (*map(int, numbers),)


@lru_cache(64)
def _pattern(keys: ChunkKeyEncoding, ndim: int) -> re.Pattern[str]:
    numbers = re.escape(keys.separator).join(["(0|[1-9][0-9]*)"] * ndim)
    chunk = re.escape(keys.prefix) + numbers + re.escape(keys.suffix) if ndim else re.escape(keys.scalar)
    return re.compile(f"(.*/)?{chunk}")


def selected(batch: Sequence[Item], keys: ChunkKeyEncoding, grid: ChunkGrid, drop: tuple[int, ...]) -> Selected | None:
    """Return the selection behind a batch, ``None`` if it can't be found.

    Parameters
    ----------
    batch : sequence of tuple
        The chunks, as a pipeline gets them.
    keys, grid : ChunkKeyEncoding, ChunkGrid
        The array's.
    drop : tuple of int
        Axes that are selected by an int, in a selection that also has arrays.
    """
    ndim = len(grid.axes)
    first, last = place_of(batch[0][0].path, keys, ndim), place_of(batch[-1][0].path, keys, ndim)
    if first is None or last is None:
        return None
    prefix = first[0]
    if type(batch[0][3]) is not tuple:
        return _points(batch, prefix, keys, grid)
    # lists of boxes are the product of the chunks along each axis, in C order
    if any(len(item[2]) != ndim for item in batch):
        return None
    coords: list[Sequence[int]] = [range(start, stop + 1) for start, stop in zip(first[1], last[1])]
    if prod(map(len, coords)) != len(batch):  # some chunks are left out
        coords = _numbers(batch, keys, ndim)
        if prod(map(len, coords)) != len(batch):
            return None
    places, template = [*product(*coords)], keys.template(ndim, prefix)
    if [item[0].path for item in batch] != [template.format(*each) for each in places] or not _fits(
        batch, places, grid
    ):
        return None
    return _boxes(batch, coords, grid, drop)


def _fits(batch: Sequence[Item], places: Sequence[tuple[int, ...]], grid: ChunkGrid) -> bool:
    """Return whether the chunks have the shapes of those in the grid, which may have grown since."""
    if grid.is_regular:
        return bool(batch[0][1].shape == grid.largest_chunk())
    ends = [len(cut.edges) if isinstance(cut, VaryingAxis) else None for cut in grid.axes]
    return all(
        all(end is None or number < end for number, end in zip(place, ends))
        and item[1].shape == grid.chunk_shape(place)
        for item, place in zip(batch, places)
    )


def _numbers(batch: Sequence[Item], keys: ChunkKeyEncoding, ndim: int) -> list[Sequence[int]]:
    """Return the numbers of the chunks along each axis, in the order of their first occurrence."""
    found = [place[1] for item in batch if (place := place_of(item[0].path, keys, ndim)) is not None]
    return [[*dict.fromkeys(numbers)] for numbers in zip(*found)]


def _boxes(
    batch: Sequence[Item], coords: Sequence[Sequence[int]], grid: ChunkGrid, drop: tuple[int, ...]
) -> Selected | None:
    """Return a basic or orthogonal selection."""
    counts = [len(each) for each in coords]
    strides = [prod(counts[axis + 1 :]) for axis in range(len(counts))]
    # along each axis: the selection in each chunk, and its place in the result, where ints have no axis
    inner = [
        [batch[number * stride][2][axis] for number in range(count)]
        for axis, (count, stride) in enumerate(zip(counts, strides))
    ]
    arrays = any(isinstance(items[0], np.ndarray) for items in inner)
    kept = [axis for axis in range(len(counts)) if axis not in drop and isinstance(inner[axis][0], (slice, np.ndarray))]
    if any(len(item[3]) != len(kept) for item in (batch[0], batch[-1])):
        return None
    outer = {
        axis: [batch[number * strides[axis]][3][position] for number in range(counts[axis])]
        for position, axis in enumerate(kept)
    }
    # compare every chunk with the selections along its axes
    if not _agree([item[2] for item in batch], inner, arrays):
        return None
    if not _agree([item[3] for item in batch], [outer[axis] for axis in kept], arrays, counts, kept):
        return None
    chosen = []
    for axis, (numbers, cut) in enumerate(zip(coords, grid.axes)):
        found = _axis(inner[axis], outer.get(axis), numbers, cut, dropped=axis in drop)
        if found is None:
            return None
        chosen.append(found)
    limits = [cut.start(max(numbers)) + cut.length(max(numbers)) for numbers, cut in zip(coords, grid.axes)]
    return Selected(
        "orthogonal" if arrays else "basic",
        tuple([item for item, _ in chosen]),
        tuple([end for _, end in chosen]),
        tuple(limits),
    )


def _agree(
    found: list[Any],
    columns: Sequence[Sequence[Any]],
    arrays: bool,
    counts: Sequence[int] = (),
    axes: Sequence[int] = (),
) -> bool:
    """Return whether the selections of all chunks are the product of those along each axis."""
    if counts:  # axes without a column are not compared
        columns = [columns[axes.index(axis)] if axis in axes else [None] * count for axis, count in enumerate(counts)]
        expected = [tuple([item for item in each if item is not None]) for each in product(*columns)]
    else:
        expected = [*product(*columns)]
    if not arrays:
        return found == expected
    return all(len(one) == len(two) and all(map(_same, one, two)) for one, two in zip(found, expected))


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        return one is two or bool(np.array_equal(one, two))
    return type(one) is type(two) and bool(one == two)


def _axis(
    inner: Sequence[Any], outer: Sequence[Any] | None, numbers: Sequence[int], cut: ChunkAxis, *, dropped: bool
) -> tuple[Any, int] | None:
    """Return the selection along one axis, and the index after the last one."""
    first = inner[0]
    if isinstance(first, slice):
        return _slice(inner, outer or (), numbers, cut)
    if not isinstance(first, np.ndarray) or dropped:
        if len(inner) != 1 or np.size(first) != 1:
            return None
        index = cut.start(numbers[0]) + int(np.ravel(first)[0])
        return index, index + 1
    # index arrays, to which np.ix_ has given as many dimensions as the array has
    parts = [cut.start(number) + _indices(item) for number, item in zip(numbers, inner)]
    places = [np.r_[item] if isinstance(item, slice) else np.ravel(item) for item in outer or ()]
    if [len(part) for part in parts] != [len(place) for place in places]:
        return None
    where, found = np.concatenate(places), np.concatenate(parts)
    index_array = np.full(len(where), -1)
    if len(where) and not (int(where.min()) >= 0 and int(where.max()) < len(where)):
        return None
    index_array[where] = found
    if -1 in index_array:
        return None
    return index_array, int(found.max(initial=-1)) + 1


def _indices(item: Any) -> Any:
    """Return the indices that an index array or a mask along one axis selects."""
    flat = np.ravel(item)
    return np.flatnonzero(flat) if flat.dtype == bool else flat


def _slice(
    inner: Sequence[Any], outer: Sequence[Any], numbers: Sequence[int], cut: ChunkAxis
) -> tuple[slice, int] | None:
    """Return the slice along one axis that the selections in the chunks add up to."""
    step = inner[0].step or 1
    start = cut.start(numbers[0]) + inner[0].start
    place = last = 0
    for number, item, target in zip(numbers, inner, outer):
        count = len(range(item.start, item.stop, item.step or 1))
        here = cut.start(number) + item.start
        fits = here == start + place * step and (item.step or 1) == step and count > 0
        if not fits or (target.start, target.stop, target.step or 1) != (place, place + count, 1):
            return None
        place += count
        last = here + (count - 1) * step
    return slice(start, last + 1, step), last + 1


def _points(batch: Sequence[Item], prefix: str, keys: ChunkKeyEncoding, grid: ChunkGrid) -> Selected | None:
    """Return the selection by coordinates that the selections in the chunks add up to."""
    ndim = len(grid.axes)
    indices: list[list[Any]] = [[] for _ in range(ndim)]
    places: list[Any] = []
    limits = [0] * ndim
    chunks = [place_of(item[0].path, keys, ndim) for item in batch]
    if not _fits(batch, [found[1] for found in chunks if found is not None], grid):
        return None
    # the indices of each chunk along each axis, and their places in the result
    for (_, _, inner, outer, _), found in zip(batch, chunks):
        if found is None or found[0] != prefix or type(inner) is not tuple or len(inner) != ndim:
            return None
        place = np.r_[outer] if isinstance(outer, slice) else outer
        if not isinstance(place, np.ndarray) or place.ndim != 1:
            return None
        for axis, (part, number, cut) in enumerate(zip(inner, found[1], grid.axes)):
            if not isinstance(part, np.ndarray) or part.shape != place.shape:
                return None
            indices[axis].append(part + cut.start(number))
            limits[axis] = max(limits[axis], cut.start(number) + cut.length(number))
        places.append(place)
    # each place of the result must be filled
    where = np.concatenate(places)
    seen = np.zeros(len(where), bool)
    if len(where) and not (int(where.min()) >= 0 and int(where.max()) < len(where)):
        return None
    seen[where] = True
    if not seen.all():
        return None
    # the indices in the order of the result
    points = []
    for parts in indices:
        along = np.empty(len(where), np.int64)
        along[where] = np.concatenate(parts)
        points.append(along)
    ends = tuple([int(along.max(initial=-1)) + 1 for along in points])
    return Selected("vectorized", tuple(points), ends, tuple(limits))
