"""Units of work: the arrays of a hierarchy, and boxes of whole chunks that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from threading import Lock
from typing import Final

from tegula.arrays.array import Array
from tegula.arrays.chunk_regions import Indices
from tegula.engine import StoredArray
from tegula.engine.copying.chunk_copies import part_of
from tegula.engine.stored.visiting import cells, in_order, stored_inside
from tegula.metadata.chunk_grids import ChunkGrid, joined_grid

__all__ = [
    "BLOCK_BYTES", "Box", "Progress", "block_grid", "blocks_of", "boxes", "chunk_boxes", "in_boxes", "itemsize_of",
    "one_at_a_time", "pairs_in_order", "selected",
]  # fmt: skip

BLOCK_BYTES: Final = 2**26
_BLOCK_CHUNKS: Final = 2**13
_OBJECT_BYTES: Final = 64  # assumed size of an element of variable length

Coords = tuple[int, ...]
Box = tuple[slice, ...]
Progress = Callable[[str, int, int], None]
"""Called with the path of an array, the bytes done, and its total bytes."""


def block_grid(source: Array, target: Array, most: int | None = None) -> ChunkGrid:
    """Return a grid of boxes of whole target chunks, joined up to the size of the source's chunks where memory allows.

    `most` is the maximum size of a box in bytes, by default `BLOCK_BYTES`.
    """
    grid, shape = target.metadata.grid, target.shape
    if not shape or not grid.is_regular:
        return grid
    most, itemsize = BLOCK_BYTES if most is None else most, itemsize_of(target)
    chunk = block = grid.largest_chunk()
    reach = source.metadata.grid.largest_chunk()
    if len(reach) == len(chunk) and reach != chunk:
        wider = tuple(-(-max(new, old) // new) * new for new, old in zip(chunk, reach))
        if prod(wider) * itemsize <= most and prod(wider) // prod(chunk) <= _BLOCK_CHUNKS:
            block = wider
    return joined_grid(block, shape, min(most // max(1, itemsize), _BLOCK_CHUNKS * prod(chunk)))


def itemsize_of(array: Array) -> int:
    """Return the bytes of an element in memory; an estimate for variable length."""
    dtype = array.dtype
    return _OBJECT_BYTES if dtype.hasobject else dtype.itemsize


def blocks_of(array: Array, axes: Indices, grid: ChunkGrid) -> Iterator[tuple[Coords, Coords]]:
    """Yield the coordinates of each block that holds a part of a stored chunk of an array, and those of the chunk.

    `axes` has the indices along each axis that the grid covers.
    """
    for coords in stored_inside(array.stored):
        if (box := selected(part_of(array.stored, coords), axes)) is not None:
            yield from ((block, coords) for block in cells(grid.touched(box)))


def selected(part: Box, axes: Indices) -> Box | None:
    """Return where a part of an array lies in a selection of it; ``None`` if nothing of the part is selected.

    Examples
    --------
    >>> selected((slice(10, 20), slice(0, 5)), (range(12, 32, 2), 3)), selected((slice(0, 5),), (range(5, 8),))
    ((slice(0, 4, None),), None)
    """
    box = []
    for inside, axis in zip(part, axes):
        if isinstance(axis, int):
            if not inside.start <= axis < inside.stop:
                return None
            continue
        start, step, size = axis.start, axis.step, len(axis)
        low, high = (inside.start, inside.stop - 1) if step > 0 else (inside.stop - 1, inside.start)
        first, last = max(0, -((start - low) // step)), min(size - 1, (high - start) // step)
        if first > last:
            return None
        box.append(slice(first, last + 1))
    return tuple(box)


def in_boxes(
    array: StoredArray, chunks: Callable[[], Iterator[Coords]], grid: ChunkGrid
) -> Iterator[tuple[Coords, Coords]]:
    """Yield for some chunks of an array the coordinates of the box in which each begins, and its own, in order.

    `chunks` returns them in any order, and may be called several times; `grid` is that of the boxes.
    """

    def pairs() -> Iterator[Coords]:
        for coords in chunks():
            starts = (axis.start(number) for axis, number in zip(array.metadata.grid.axes, coords))
            yield (*(int(axis.locate(int(start))) for axis, start in zip(grid.axes, starts)), *coords)

    return pairs_in_order(pairs, array.metadata.ndim)


def pairs_in_order(pairs: Callable[[], Iterator[Coords]], ndim: int) -> Iterator[tuple[Coords, Coords]]:
    """Yield the coordinates of boxes and of chunks in order; `pairs` returns both in one tuple, in any order."""
    return ((pair[:ndim], pair[ndim:]) for pair in in_order(pairs))


def boxes(array: Array) -> Iterator[Box]:
    """Yield boxes of an array that fit into memory and do not overlap.

    Where few chunks are stored, only boxes with stored chunks are yielded; all other elements hold the fill value.
    """
    for box in chunk_boxes(array):
        yield from _cut(array, box)


def chunk_boxes(array: Array) -> Iterator[Box]:
    """Yield boxes of whole chunks, as `boxes` does, but also shards that are too large for one block."""
    stored = array.stored
    if stored.is_sparse(prod(stored.metadata.grid.counts(array.shape)), array.nbytes):
        yield from (part_of(stored, coords) for coords in stored_inside(stored))
        return
    yield from block_grid(array, array).regions(array.shape)


def one_at_a_time(progress: Progress | None) -> Progress | None:
    """Return a function for several threads to call, which calls `progress` for one of them at a time."""
    if progress is None:
        return None
    lock, call = Lock(), progress

    def report(path: str, done: int, total: int) -> None:
        with lock:
            call(path, done, total)

    return report


def _cut(array: Array, box: Box) -> Iterator[Box]:
    """Cut a shard that is too large for one block along its first axes, at its inner chunks."""
    shape = tuple(part.stop - part.start for part in box)
    if array.shards is None or prod(shape) * itemsize_of(array) <= BLOCK_BYTES:
        yield box
        return
    for inner in joined_grid(array.chunks, shape, BLOCK_BYTES // itemsize_of(array)).regions(shape):
        yield tuple(slice(outer.start + part.start, outer.start + part.stop) for outer, part in zip(box, inner))
