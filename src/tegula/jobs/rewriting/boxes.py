"""Rewriting: reads values from one array and writes them to another block by block, and compares them afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.engine.copying.chunk_copies import part_of
from tegula.engine.stored.visiting import cells, check_number, stored_inside
from tegula.errors import CodecError
from tegula.formats.json_encoding import equal_json
from tegula.indexing.normalise import as_slice
from tegula.jobs.rewriting.targets import Axis
from tegula.jobs.units import Box, pairs_in_order, selected
from tegula.metadata.chunk_grids import ChunkGrid
from tegula.metadata.fill_values import is_empty
from tegula.reductions import Loss, Precision, identical

__all__ = [
    "check_amount", "parts_of", "rewrite_box", "same_attributes", "same_box", "stored_blocks",
]  # fmt: skip

Coords = tuple[int, ...]
_WORTH: Final = 2**18  # bytes of a box that take about as long as a chunk that is visited by itself


def check_amount(source: Array, target: Array, precision: Precision | None = None) -> None:
    """Refuse a conversion that would have to store more than ``max_chunks`` chunks.

    Raises
    ------
    UnsupportedError
        If it would: the target stores every chunk, or its fill value is not the new value of the source's.
    """
    old, new = source.stored, target.stored
    if not old.metadata.dense and (new.stores_every_chunk or not _same_fill(source, target, precision)):
        check_number(new, target.nchunks if target.nshards is None else target.nshards, "storing every chunk")


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
    return values if identical(_new_values(source, axes, box, precision)[0], values) else None


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
        raise error.within(path=source.location) from None


def same_attributes(array: Array, attributes: Mapping[str, Any]) -> bool:
    """Return whether an array has these attributes."""
    return all(equal_json(array.attrs.get(name), value) for name, value in attributes.items())


def stored_blocks(
    source: Array,
    axes: list[Axis | int],
    target: Array,
    grid: ChunkGrid,
    precision: Precision | None = None,
    *,
    compared: bool,
) -> Iterator[tuple[Coords, Coords]] | None:
    """Return the blocks to visit and the stored chunks in each, in order; ``None`` if not few chunks are stored.

    They are few where absent chunks hold the same value in both arrays, and the target may leave them out. Then blocks
    with stored chunks of the source are visited, and when they are `compared` also those with chunks of the target.
    A block has its coordinates, and a chunk 0 (of the source) or 1 (of the target) before its coordinates: `parts_of`
    says what of the block is to be visited.
    """
    number = prod(grid.counts(target.shape))
    stored = [source.stored, *([target.stored] if compared else [])]
    may_lack = compared or not target.stored.stores_every_chunk
    same_fill = may_lack and _same_fill(source, target, precision)
    if not (same_fill and all(array.is_sparse(number, target.nbytes) for array in stored)):
        return None

    def pairs() -> Iterator[Coords]:
        whole: list[Axis | int] = [(0, 1, size) for size in target.shape]
        sides = [(source, axes), (target, whole)]
        for side, (array, selection) in enumerate(sides[: 1 + compared]):
            for coords in stored_inside(array.stored):
                if (box := selected(part_of(array.stored, coords), selection)) is not None:
                    yield from ((*block, side, *coords) for block in cells(grid.touched(box)))

    return pairs_in_order(pairs, target.ndim)


def parts_of(
    source: Array, axes: list[Axis | int], target: Array, box: Box, chunks: Iterable[Coords] | None
) -> list[Box]:
    """Return the chunks of the target in a box that hold stored values, if they are few; otherwise the whole box.

    `chunks` are the stored chunks in the box, as `stored_blocks` has them; ``None`` stands for all.
    """
    if chunks is None:
        return [box]
    grid, most = target.metadata.grid, prod(part.stop - part.start for part in box) * target.itemsize // _WORTH
    touched = set[Coords]()
    for side, *coords in chunks:
        if side:
            touched.add(tuple(coords))
        elif (part := selected(part_of(source.stored, tuple(coords)), axes)) is not None:
            inside = (slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(part, box))
            touched.update(islice(cells(grid.touched([*inside])), most + 1))
        if len(touched) > most:
            return [box]
    return [grid.region(coords, target.shape) for coords in sorted(touched)]


def _same_fill(source: Array, target: Array, precision: Precision | None) -> bool:
    """Return whether the fill value of the target is that of the source, changed like all values."""
    old, new = source.stored.fill.reshape(1), target.stored.fill.reshape(1)
    if precision is not None:
        try:
            old, _ = precision.apply(old, (0,))
        except CodecError:
            return False
    return identical(_as_text(old, source), _as_text(new, target))


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
