"""Resizing: changing the shape, and clearing chunks so that elements that were cut off never reappear."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from math import prod
from operator import gt, le, lt
from typing import Any

import numpy as np

from tegula.codecs import equals_fill
from tegula.engine.concurrency.pool import for_each
from tegula.engine.concurrency.retries import back_off
from tegula.engine.documents.forgetting import forget, forget_chunks
from tegula.engine.documents.reading import read_metadata
from tegula.engine.reading.chunks import merge_chunk
from tegula.engine.reading.executors import empty, read_anew
from tegula.engine.reading.read_ahead import fits, look_up
from tegula.engine.stored.array import Box, StoredArray
from tegula.engine.stored.reach import Reach
from tegula.engine.stored.visiting import batches, cells
from tegula.errors import CodecError, ConflictError, StoreError, TegulaError
from tegula.formats import find_format
from tegula.indexing import basic
from tegula.metadata.chunk_grids import ChunkGrid, VaryingAxis
from tegula.metadata.nodes import ArrayMetadata, NodeMetadata
from tegula.runtime.frozen import replace
from tegula.stores import MemoryStore, Store
from tegula.stores.capabilities import delete_if, lock

__all__ = ["chunks_of", "cut_off", "ends_of", "grown", "make_room", "resize"]

Coords = tuple[int, ...]
Shape = tuple[int, ...]
Holds = Callable[[], bool]
Change = Callable[[ArrayMetadata], ArrayMetadata]
_RETRIES = 10_000
_FEW = 64  # up to this many chunks are always looked up one by one,
_SHARE = 4  # and up to 1 / _SHARE of the grid; a lookup takes longer than an entry of a listing
_MANY = 2**16  # chunks that are deleted without checking that they exist, a microsecond each
_SMALL = 2**22  # chunks of up to this many bytes are read, which is faster than looking them up one by one
_EVERYWHERE = 2**63


def resize(
    path: str,
    shape: Callable[[ArrayMetadata], Shape],
    update: Callable[[Change], StoredArray],
    restored: Callable[[ArrayMetadata], StoredArray],
    holds: Callable[[ArrayMetadata], bool] | None = None,
    reach: Reach | None = None,
) -> StoredArray:
    """Change the shape of an array: elements that are cut off are deleted, added elements hold the fill value.

    Parameters
    ----------
    path : str
        Its path in the store.
    shape : callable
        Returns the new shape for the stored metadata, or raises.
    update : callable
        Applies a function to the stored metadata and stores the result, again after a lost race. Returns the array with
        the new metadata.
    restored : callable
        Returns the array with given metadata.
    holds : callable, optional
        Returns whether the stored shape still is that of the given metadata; by default the documents are read.
    reach : Reach, optional
        How far beyond the edge there are no old chunks; `update` tells it the generations of the document.

    Returns
    -------
    StoredArray
        The array with its new shape.
    """
    before: Shape = ()

    def change(metadata: ArrayMetadata) -> ArrayMetadata:
        nonlocal before
        before, new = metadata.shape, shape(metadata)
        changed = replace(metadata, shape=new, grid=grown(metadata.grid, new))
        if any(map(gt, new, before)):
            # if the array is a column of a table, an append that was killed may have left rows
            if reach is not None and path and new[0] > before[0]:
                reach.forget()
            make_room(restored(metadata), restored(changed), path, holds and partial(holds, metadata), reach)
        return changed

    stored = update(change)
    if any(map(lt, stored.metadata.shape, before)):
        # the lock keeps out appends to a table that this array leads, which store chunks before the shape
        with lock(stored.store, stored.document) if stored.document is not None else nullcontext():
            cut_off(stored, path, before, holds and partial(holds, stored.metadata))
    return stored


def grown(grid: ChunkGrid, shape: Shape) -> ChunkGrid:
    """Add one chunk to a rectilinear axis that becomes longer than its chunks."""
    if grid.is_regular:
        return grid
    axes = [
        VaryingAxis((*axis.edges, size - axis.extent)) if isinstance(axis, VaryingAxis) and size > axis.extent else axis
        for axis, size in zip(grid.axes, shape)
    ]
    return ChunkGrid(tuple(axes))


def make_room(
    array: StoredArray, grown: StoredArray, path: str, holds: Holds | None = None, reach: Reach | None = None
) -> None:
    """Clear old chunks where an array is about to grow: leftovers of an interrupted resize, or of another program.

    Call it before the new shape is stored. A few new chunks are looked up one by one, or read if they are small; for
    many, all stored chunks are listed. Old chunks beyond the last new one may stay; they are cleared when the array
    grows that far.

    Parameters
    ----------
    array, grown : StoredArray
        The array as it is, and as it will be.
    path : str
        Its path in the store.
    holds : callable, optional
        Returns whether the stored shape is still that of `array`; by default the documents are read.
    reach : Reach, optional
        How far beyond the edge there are no old chunks; extended if the array grows along one axis only.
    """
    before, shape, grid = array.metadata.shape, grown.metadata.shape, grown.metadata.grid
    growing = [axis for axis, (size, old) in enumerate(zip(shape, before)) if size > old]
    if len(growing) != 1 or not all(map(le, before, shape)):
        reach = None
    axis = growing[0] if reach is not None else -1
    known = reach.along(axis) if reach is not None else 0
    if reach is not None and known >= shape[axis]:
        reach.extend(axis, known)
        return

    # the new chunks must be clear up to their ends, since the array may later grow within the last ones
    ends = tuple(end if n in growing else size for n, (size, end) in enumerate(zip(shape, ends_of(grid, shape))))
    start = tuple(max(old, known) if n == axis else old for n, old in enumerate(before))
    boxes: dict[Box, list[Box]] = {}  # by chunks: those across the old corner hold parts of several boxes
    for box in _difference(ends, start):
        boxes.setdefault(chunks_of(grid, box), []).append(box)
    if _is_listed(array, boxes, grid.counts(before)):
        cut_off(array, path, holds=holds)
        if reach is not None:
            reach.extend(axis, _EVERYWHERE)
        return
    parts = [part for part in boxes if grown.executor.may_hold_chunks(grown, part)]
    if parts:
        # it extends beyond the array as the document has it
        enlarged = replace(grown, metadata=replace(grown.metadata, shape=ends), document=None, shared={})
        new = [box for part in parts for box in boxes[part]]
        small = _number(new) * array.dtype.itemsize <= _SMALL
        if array.store.is_remote:
            _make_room_remote(array, enlarged, parts, new if small else None, path, holds)
        elif not (small and all(_is_blank(enlarged, box) for box in new)):
            keys = ((coords, array.key(coords)) for part in parts for coords in cells(part))
            _clear(array, path, holds, ((coords, key) for coords, key in keys if array.store.exists(key)))
    if reach is not None:
        reach.extend(axis, ends[axis])


def _make_room_remote(
    array: StoredArray,
    grown: StoredArray,
    parts: Iterable[Box],
    boxes: Iterable[Box] | None,
    path: str,
    holds: Holds | None,
) -> None:
    """Do what `make_room` does in a remote store: look at all chunks in one wave, then clear old elements.

    The shape of `grown` extends to the ends of its last chunks; `boxes` are the new elements, if they are few.
    """
    grid, before, shape = grown.metadata.grid, array.metadata.shape, grown.metadata.shape
    keys = {array.key(coords): coords for part in parts for coords in cells(part)}
    counts = grid.counts(before)
    across = [all(n < count for n, count in zip(coords, counts)) for coords in keys.values()]
    if not fits(array, sum(across)):
        _clear(array, path, holds, ((coords, key) for key, coords in keys.items()))
        return
    # a chunk that holds elements of the array is read, since it will be changed; for other chunks a lookup is enough
    looked_up = look_up(array.store, keys, [None if boxes is not None or is_across else (0, 0) for is_across in across])
    stored = {key: raw for key, (raw, _) in looked_up.items() if raw is not None}
    if not stored:
        return
    # read a copy in memory to see whether the new part holds only the fill value
    copy = replace(grown, store=MemoryStore(stored), document=None, shared={})
    edges = [*_difference(tuple(map(min, shape, ends_of(grid, before))), before)]
    is_outside = any(key in stored and not is_across for key, is_across in zip(keys, across))
    if (is_outside and boxes is None) or not all(_is_blank(copy, box) for box in (edges if boxes is None else boxes)):
        _clear(array, path, holds, ((keys[key], key) for key in stored))


def cut_off(array: StoredArray, path: str, before: Shape | None = None, holds: Holds | None = None) -> None:
    """Delete the chunks outside an array, and clear the part beyond the edge of the chunks across it.

    Call it after the shape has been stored. However large the array was, the cost is a few operations for each stored
    chunk outside or across the edge, and one listing unless there are few such chunks. Chunks that another process
    appends at the same time stay, since that process stores the new shape before it writes them.

    Parameters
    ----------
    array : StoredArray
        The array as it is.
    path : str
        Its path in the store.
    before : tuple of int, optional
        The shape that the array had; by default all chunks beyond the present shape are deleted.
    holds : callable, optional
        Returns whether the array still has the shape that it was cut to; called after each chunk has been read. By
        default the documents are read.
    """
    grid, shape = array.metadata.grid, array.metadata.shape
    if before is None:
        _clear(array, path, holds, array.stored_chunks())
        return
    counts = tuple(axis.count(size) for axis, size in zip(grid.axes, before))  # `before` may reach beyond the grid
    outside = [*_difference(counts, grid.counts(shape))]
    number = _number(outside)
    listed = number > _MANY and array.is_sparse(number)
    still_holds = partial(_shape_holds, array, path, holds)
    try:
        if not listed and all(array.executor.delete_chunks(array, part, still_holds) for part in outside):
            outside = []
    finally:
        forget(array.store, array.prefix)
    edges = [chunks_of(grid, box) for box in _difference(tuple(map(min, before, ends_of(grid, shape))), shape)]
    parts = [*outside, *edges]
    if not parts:
        return
    if listed or _is_listed(array, parts, grid.counts(shape)):
        _clear(array, path, holds, array.stored_chunks())
    else:
        _clear(array, path, holds, ((coords, array.key(coords)) for part in parts for coords in cells(part)))


def ends_of(grid: ChunkGrid, shape: Shape) -> Iterator[int]:
    """Yield the end of the last chunk along each axis, or the largest length that an array may have."""
    for axis, count in zip(grid.axes, grid.counts(shape)):
        yield min(axis.start(count - 1) + axis.length(count - 1), _EVERYWHERE - 1) if count else 0


def _shape_holds(array: StoredArray, path: str, holds: Holds | None) -> bool:
    if holds is not None:
        return holds()
    current, metadata = _read_present(array, array.store, path), array.metadata
    return current is metadata or (
        isinstance(current, ArrayMetadata) and current.shape == metadata.shape and current.continues(metadata)
    )


def _read_present(array: StoredArray, store: Store, path: str) -> NodeMetadata | None:
    """Read the metadata; a local document that has not changed is not parsed again."""
    metadata = array.metadata
    key = find_format(metadata.format).shape_key
    if not (store.is_remote or metadata.dense) and store.get(array.prefix + key) == metadata.documents.get(key, b""):
        return metadata
    return read_metadata(store, path, metadata.format)


def _difference(outer: Shape, inner: Shape) -> Iterator[Box]:
    """Yield boxes that do not overlap and together cover the part of one shape that lies outside another.

    Examples
    --------
    >>> [*_difference((4, 6), (3, 5))], [*_difference((4, 2), (3, 5))], [*_difference((2, 0), (1, 0))]
    ([((3, 4), (0, 6)), ((0, 3), (5, 6))], [((3, 4), (0, 2))], [])
    """
    for axis, (size, known) in enumerate(zip(outer, inner)):
        above = zip(outer[:axis], inner[:axis])
        box = (*((0, min(pair)) for pair in above), (known, size), *((0, n) for n in outer[axis + 1 :]))
        if all(start < stop for start, stop in box):
            yield box


def chunks_of(grid: ChunkGrid, box: Box) -> Box:
    """Return the grid coordinates of the chunks that a box touches."""
    return tuple((int(axis.locate(start)), axis.count(stop)) for axis, (start, stop) in zip(grid.axes, box))


def _number(parts: Iterable[Box]) -> int:
    return sum(prod(stop - start for start, stop in part) for part in parts)


def _is_listed(array: StoredArray, parts: Iterable[Box], counts: Shape) -> bool:
    """Return whether listing all stored chunks is cheaper than looking up those of some boxes one by one."""
    number = _number(parts)
    return number > max(_FEW, prod(counts) // _SHARE) or array.is_sparse(number)


def _is_blank(array: StoredArray, box: Box) -> bool:
    """Return whether all elements of a box are the fill value."""
    plan = basic(tuple(slice(*bounds) for bounds in box), array.metadata.shape, array.metadata.grid)
    work = empty(plan.work_shape, array.dtype)
    try:
        read_anew(array, plan, work)
    except (CodecError, StoreError):
        return False
    return equals_fill(work, array.fill)


def _clear(array: StoredArray, path: str, holds: Holds | None, chunks: Iterable[tuple[Coords, str]]) -> None:
    grid, shape = array.metadata.grid, array.metadata.shape
    affected = (projection for projection in chunks if _reach(grid, projection[0], shape) != "inside")
    for batch in batches(affected):
        changes = any(_reach(grid, coords, shape) == "across" for coords, _ in batch)
        chains = [array.chain] if changes else []
        for_each(
            lambda projection: _clear_chunk(array, path, holds, *projection),
            batch,
            True,
            chains,
            array.store.concurrency,
        )


def _reach(grid: ChunkGrid, coords: Coords, shape: Shape) -> str:
    """Return whether a chunk lies "inside" an array, "outside", or "across" its edge."""
    if any(number >= count for number, count in zip(coords, grid.counts(shape))):
        return "outside"
    ends = (axis.start(n) + axis.length(n) for axis, n in zip(grid.axes, coords))
    return "across" if any(end > size for end, size in zip(ends, shape)) else "inside"


def _clear_chunk(array: StoredArray, path: str, holds: Holds | None, coords: Coords, key: str) -> None:
    """Delete a chunk outside an array, or clear its part beyond the edge; do nothing if the array has grown over it."""
    store, metadata = array.target, array.metadata
    reach = _reach(metadata.grid, coords, metadata.shape)
    try:
        for attempt in range(_RETRIES):
            raw, generation = store.get(key, (0, 0) if reach == "outside" else None, with_generation=True)
            if raw is None:
                return
            # the shape is read after the chunk: a process that enlarges the array later also changes the chunk later,
            # so the condition of the write fails
            if holds is not None:
                current: NodeMetadata | None = metadata if holds() else None
            else:
                current = _read_present(array, store, path)
            if not isinstance(current, ArrayMetadata) or not current.continues(metadata):
                return  # the chunk may be that of an array which has taken the place of this one
            before, reach = reach, _reach(metadata.grid, coords, current.shape)
            if reach == "inside":
                return
            if before == "outside" and reach != "outside":
                continue  # read all of the chunk
            # delete or rewrite it, unless another writer has changed it
            try:
                new = _outside(array, coords) if reach == "outside" else _cleared(array, raw, coords, current.shape)
                if new is None:
                    delete_if(store, key, generation)
                elif new != raw:
                    store.set(key, new, if_generation=generation)
                return
            except ConflictError:
                back_off(attempt)
        raise ConflictError("the chunk kept changing while it was being cleared")
    except MemoryError as error:
        raise array.out_of_memory(error) from error
    except CodecError:
        return  # a damaged chunk can't be read, so its elements can't reappear
    except TegulaError as error:
        array.locate(error, key)
        raise
    finally:
        forget_chunks(array.store, key)


def _outside(array: StoredArray, coords: Coords) -> Any | None:
    """Return the bytes that replace a chunk outside an array; ``None`` if it is to be deleted.

    Deleting without a condition could remove a chunk that another process stores there after enlarging the array. So if
    the store has no conditional delete, the fill value is stored instead, unless the grid has no chunk there. In dense
    arrays a reservation protects the rows while they are cut off.
    """
    grid = array.metadata.grid
    if array.store.conditional_delete or array.metadata.dense or not grid.is_regular:
        return None
    shape = grid.chunk_shape(coords)
    change = (tuple(slice(0, size) for size in shape), np.broadcast_to(array.fill, shape), True)
    return merge_chunk(array.chain, None, shape, change, array.fill, None, True)


def _cleared(array: StoredArray, raw: bytes, coords: Coords, shape: Shape) -> Any | None:
    """Return the bytes of a chunk with the fill value beyond the edge; ``None`` if it then holds only that value."""
    grid = array.metadata.grid
    chunk = array.stored_shape(coords, raw)
    if array.metadata.dense:  # such chunks end where the array does
        inside = shape[0] - grid.axes[0].start(coords[0])
        return raw if chunk[0] <= inside else array.chain.encode(array.chain.decode(raw, chunk)[:inside])
    new: Any | None = raw
    for axis, (part, number, length, size) in enumerate(zip(grid.axes, coords, chunk, shape)):
        inside = size - part.start(number)
        if new is not None and inside < length:
            selection = tuple(slice(inside, n) if a == axis else slice(0, n) for a, n in enumerate(chunk))
            # a chunk that is clear already is not encoded again
            if array.chain.sharding is None and equals_fill(array.chain.decode(new, chunk)[selection], array.fill):
                continue
            beyond = np.broadcast_to(array.fill, [s.stop - s.start for s in selection])
            change = (selection, beyond, False)
            new = merge_chunk(array.chain, new, chunk, change, array.fill, None, array.keeps_empty)
    return new
