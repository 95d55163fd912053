"""Appending along any axis: the new shape is stored first and the values after it.

The shape is changed by a conditional write, so each of several processes that append at the same time gets its own
part. Arrays that store every chunk are appended to by `tegula.engine.lengths.atomic_append` instead.

In a remote store, the chunks that the append changes are read while the new shape is stored, and each is written on
condition that it has not changed since. While the chunks are written, the append also searches for old chunks where the
next append will write, so that the next one need not wait for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, Final

import numpy.typing as npt

from tegula.engine.concurrency.pool import begin
from tegula.engine.lengths.resizing import Change, chunks_of, cut_off, ends_of, grown, make_room
from tegula.engine.reading.executors import write
from tegula.engine.reading.read_ahead import ReadAhead, foresee, look_up
from tegula.engine.stored.array import StoredArray
from tegula.engine.stored.reach import Reach
from tegula.engine.stored.visiting import cells
from tegula.errors import SelectionError, TegulaError
from tegula.indexing import Plan, basic
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Generation

__all__ = ["append"]

Shape = tuple[int, ...]
Update = Callable[[Change], StoredArray]
Known = dict[str, tuple[bytes | None, Generation]]
_FEW: Final = 64  # chunks to look up for the next append


def append(
    path: str,
    values: npt.NDArray[Any],
    axis: int,
    update: Update,
    restored: Callable[[ArrayMetadata], StoredArray],
    reach: Reach,
) -> StoredArray:
    """Add values at the end of an axis of an array.

    Parameters
    ----------
    path : str
        Its path in the store.
    values : ndarray
        The values, with the array's length along every other axis.
    axis : int
        The axis to grow.
    update, restored : callable
        As for `tegula.engine.resize`.
    reach : Reach
        How far beyond the edge there are no old chunks; `update` tells it the generations of the document.

    Returns
    -------
    StoredArray
        The array with its new shape.

    Raises
    ------
    SelectionError
        If the shape of `values` does not fit.
    CodecError, StoreError
        If the values can't be written. The array is shortened again, unless other writers have appended in the
        meantime.
    """
    start = 0
    chunks: Callable[[], Known] = dict

    def part(metadata: ArrayMetadata) -> Plan:
        bounds = (slice(start if a == axis else 0, n) for a, n in enumerate(metadata.shape))
        return basic(tuple(bounds), metadata.shape, metadata.grid)

    def grow(metadata: ArrayMetadata) -> ArrayMetadata:
        nonlocal start, chunks
        others = [n for a, n in enumerate(metadata.shape) if a != axis]
        if values.ndim != metadata.ndim or [n for a, n in enumerate(values.shape) if a != axis] != others:
            raise SelectionError(
                f"values of shape {values.shape} can't be appended to {metadata.shape} along axis {axis}"
            )
        start = metadata.shape[axis]
        shape = tuple(n + values.shape[axis] if a == axis else n for a, n in enumerate(metadata.shape))
        changed = replace(metadata, shape=shape, grid=grown(metadata.grid, shape))
        larger = restored(changed)
        # the new part must read as the fill value until it is filled, so old chunks there are cleared
        make_room(restored(metadata), larger, path, reach=reach)
        if larger.store.is_remote:
            chunks = foresee(larger, part(changed), axis, start)
        return changed

    # store the new shape, then write the values
    stored = update(grow)
    shape = stored.metadata.shape
    try:
        target = stored
        looked: Callable[[], object] = bool
        if stored.store.is_remote:
            target = replace(stored, store=ReadAhead(stored.store, chunks()), shared={"node": stored.node})
            looked = begin(partial(_look_further, stored, axis, shape[axis] - start, reach, reach.generation))
        _write(target, tuple(start if a == axis else 0 for a in range(values.ndim)), values)
        looked()
    except BaseException as error:  # also Ctrl-C
        try:
            _take_back(path, update, shape, axis, start)
        except TegulaError as failed:
            error.add_note(f"the length {shape[axis]} stays, since the array can't be shortened again: {failed}")
        raise
    return stored


def _write(array: StoredArray, start: Shape, values: npt.NDArray[Any]) -> None:
    """Write the new values, except those beyond a shape that another process has made smaller since."""
    shape, grid = array.metadata.shape, array.metadata.grid
    stop = shape
    while all(first < end for first, end in zip(start, stop)):
        box = tuple(slice(first, end) for first, end in zip(start, stop))
        kept = values[tuple(slice(end - first) for first, end in zip(start, stop))]
        try:
            write(array, basic(box, shape, grid), kept)
            return
        except SelectionError as error:
            if array.node is None or not error.is_stale:
                raise
            stop = tuple(map(min, shape, array.node.shape))


def _look_further(array: StoredArray, axis: int, added: int, reach: Reach, generation: Generation | None) -> None:
    """Look for old chunks where the next append will write, if it adds as many elements along the axis."""
    shape, grid = array.metadata.shape, array.metadata.grid
    known = reach.along(axis)
    if not grid.is_regular or not shape[axis] <= known < shape[axis] + added:
        return
    further = tuple(known + added if n == axis else size for n, size in enumerate(shape))
    part = chunks_of(grid, tuple((known if n == axis else 0, size) for n, size in enumerate(further)))
    if prod(stop - first for first, stop in part) > _FEW:
        return
    keys = [*map(array.key, cells(part))]
    values = look_up(array.store, keys, [(0, 0)] * len(keys))
    if all(raw is None for raw, _ in values.values()):
        reach.looked_further(generation, axis, [*ends_of(grid, further)][axis])


def _take_back(path: str, update: Update, grown_to: Shape, axis: int, start: int) -> None:
    """Undo the growth of an append that failed, unless another process has appended after it."""

    def shrink(metadata: ArrayMetadata) -> ArrayMetadata:
        if metadata.shape != grown_to:
            return metadata
        return replace(metadata, shape=tuple(start if a == axis else n for a, n in enumerate(grown_to)))

    stored = update(shrink)
    if stored.metadata.shape != grown_to:
        cut_off(stored, path, grown_to)
