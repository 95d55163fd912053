"""Rewriting: reads values from one array and writes them to another block by block, and compares them afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.engine.visiting import cells, check_number
from tegula.errors import CodecError
from tegula.indexing.normalise import as_slice
from tegula.jobs.comparing.differences import equal_json
from tegula.jobs.converting.precision import Loss, Precision
from tegula.jobs.converting.targets import Axis
from tegula.jobs.units import Box, block_grid, blocks_of, box_results, in_order
from tegula.metadata.chunk_grids import ChunkGrid
from tegula.metadata.fill_values import is_empty

__all__ = [
    "check_amount", "rewrite", "rewrite_box", "same_attributes", "same_box", "same_values", "stored_blocks",
]  # fmt: skip

Coords = tuple[int, ...]
_PIECE: Final = 2**20  # bytes that are compared at once


def check_amount(source: Array, target: Array, precision: Precision | None = None) -> None:
    """Refuse a conversion that would have to store more than ``max_chunks`` chunks.

    Raises
    ------
    UnsupportedError
        If it would: the target stores every chunk, or its fill value is not the new value of the source's.
    """
    old, new = source._stored, target._stored
    if not old.metadata.dense and (new.stores_every_chunk or not _same_fill(source, target, precision)):
        check_number(new, target.nchunks if target.nshards is None else target.nshards, "storing every chunk")


def rewrite(
    source: Array, axes: list[Axis | int], target: Array, precision: Precision | None = None
) -> Iterator[tuple[int, Loss]]:
    """Write the selected values of an array to another; yield the number of elements of each block, and their error."""

    def moved(block: Box) -> Loss:
        return rewrite_box(source, axes, target, block, precision)[1]

    blocks = _blocks(source, axes, target, precision, compared=False)
    return ((size, loss) for loss, size in box_results(moved, blocks, target, source))


def rewrite_box(
    source: Array, axes: list[Axis | int], target: Array, box: Box, precision: Precision | None = None
) -> tuple[npt.NDArray[Any], Loss]:
    """Write the selected values of an array to a box of another; return them, and their largest error."""
    values, loss = _new_values(source, axes, box, precision)
    target[box] = values
    return values, loss


def same_box(
    source: Array, axes: list[Axis | int], target: Array, box: Box, precision: Precision | None = None
) -> npt.NDArray[Any] | None:
    """Return the values of a box of an array if they equal the selected values of another one, else ``None``."""
    values = np.asarray(target[box])
    return values if _identical(_new_values(source, axes, box, precision)[0], values) else None


def _new_values(
    source: Array, axes: list[Axis | int], box: Box, precision: Precision | None
) -> tuple[npt.NDArray[Any], Loss]:
    """Return the new values of a box, and their largest error."""
    values = _read_block(source, axes, box)
    if precision is None:
        return values, Loss()
    try:
        return precision.apply(values, [part.start for part in box])
    except CodecError as error:
        raise error.within(path=source._place) from None


def same_values(
    source: Array, axes: list[Axis | int], target: Array, attributes: Mapping[str, Any], progress: Callable[[int], None]
) -> bool:
    """Return whether an array holds the selected values of another, and these attributes.

    `progress` is called with the number of elements compared so far.
    """
    written = Array(target._stored, target.path, read_only=True)

    def same(block: Box) -> bool:
        return same_box(source, axes, written, block) is not None

    done = 0
    for equal, size in box_results(same, _blocks(source, axes, written, None, compared=True), written, source):
        if not equal:
            return False
        done += size
        progress(done)
    return same_attributes(written, attributes)


def same_attributes(array: Array, attributes: Mapping[str, Any]) -> bool:
    """Return whether an array has these attributes."""
    return all(equal_json(array.attrs.get(name), value) for name, value in attributes.items())


def _blocks(
    source: Array, axes: list[Axis | int], target: Array, precision: Precision | None, *, compared: bool
) -> Iterator[Box]:
    """Yield the blocks of the target to visit."""
    grid = block_grid(source, target)
    stored = stored_blocks(source, axes, target, grid, precision, compared=compared)
    every = cells([(0, count) for count in grid.counts(target.shape)])
    for coords in every if stored is None else stored:
        yield grid.region(coords, target.shape)


def stored_blocks(
    source: Array,
    axes: list[Axis | int],
    target: Array,
    grid: ChunkGrid,
    precision: Precision | None = None,
    *,
    compared: bool,
) -> Iterator[Coords] | None:
    """Return coordinates of the blocks to visit, in order, if few chunks are stored; ``None`` for all blocks.

    They are few where absent chunks hold the same value in both arrays, and the target may leave them out. Then blocks
    with stored chunks of the source are visited, and when they are `compared` also those with chunks of the target.
    """
    number = prod(grid.counts(target.shape))
    stored = [source._stored, *([target._stored] if compared else [])]
    may_lack = compared or not target._stored.stores_every_chunk
    same_fill = may_lack and _same_fill(source, target, precision)
    if not (same_fill and all(array.is_sparse(number, target.nbytes) for array in stored)):
        return None

    def found() -> Iterator[Coords]:
        same: list[Axis | int] = [(0, 1, size) for size in target.shape]
        yield from blocks_of(source, axes, grid)
        if compared:
            yield from blocks_of(target, same, grid)

    return in_order(found)


def _same_fill(source: Array, target: Array, precision: Precision | None) -> bool:
    """Return whether the fill value of the target is that of the source, changed like all values."""
    old, new = source._stored.fill.reshape(1), target._stored.fill.reshape(1)
    if precision is not None:
        try:
            old, _ = precision.apply(old, (0,))
        except CodecError:
            return False
    return _identical(_as_text(old, source), _as_text(new, target))


def _read_block(source: Array, axes: list[Axis | int], block: tuple[slice, ...]) -> npt.NDArray[Any]:
    selection: list[Any] = []
    parts = iter(block)
    for axis in axes:
        if isinstance(axis, int):
            selection.append(axis)
            continue
        part = next(parts)
        start, step, _ = axis
        selection.append(as_slice(range(start + part.start * step, start + part.stop * step, step)))
    return _as_text(np.asarray(source[tuple(selection)]), source)


def _as_text(values: npt.NDArray[Any], array: Array) -> npt.NDArray[Any]:
    """Return text and bytes of any length, missing ones as empty: Zarr v2 reads those as its fill value, perhaps 0."""
    kind: Any = {"string": str, "bytes": bytes}.get(array.metadata.data_type.variable)
    if kind is None:
        return values
    out = np.empty(values.shape, object)
    for index in np.ndindex(values.shape):
        value: Any = values[index]
        if not isinstance(value, kind):
            value = kind() if is_empty(value) else str(value) if kind is str else value
        out[index] = value
    return out


def _identical(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> bool:
    """Return whether values are equal bit by bit, in any byte order."""
    if old.shape != new.shape:
        return False
    if old.dtype.hasobject:
        return all(
            np.array_equal(a, b) if isinstance(a, np.ndarray) else equal_json(a, b) for a, b in zip(old.flat, new.flat)
        )
    if old.dtype != new.dtype:
        old = old.astype(new.dtype)
    if not old.nbytes:
        return True
    one, other = (np.ascontiguousarray(each).reshape(-1).view("u1") for each in (old, new))
    pieces = range(0, len(one), _PIECE)
    return all(one[start : start + _PIECE].tobytes() == other[start : start + _PIECE].tobytes() for start in pieces)
