"""Copying of stored chunks from array to array without decoding them, one chunk at a time in each thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from math import prod
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np

from tegula import config
from tegula.codecs.equivalence import Transfer, decode_alike, transfer
from tegula.engine.caches import forget
from tegula.engine.executors import read, write
from tegula.engine.far import UNITS
from tegula.engine.pool import for_each
from tegula.engine.stored import StoredArray
from tegula.engine.visiting import cells, check_number, is_inside
from tegula.errors import StoreError, TegulaError
from tegula.indexing import basic
from tegula.stores.capabilities import blocked_by

__all__ = ["Moved", "can_copy_chunks", "copy_chunks", "part_of"]

Coords = tuple[int, ...]
_FIRST: Final = 4  # chunks that are timed before threads are used
_QUICK: Final = 0.0001  # seconds
_BATCH_BYTES: Final = 2**26  # of elements
_BATCH: Final = 2**14  # chunks


def can_copy_chunks(source: StoredArray, target: StoredArray) -> bool:
    """Return whether the stored chunks of two arrays decode to the same values, apart from containers and checksums.

    Both must have one shape, one grid, chains that decode alike, and one fill value where chunks may be missing.
    They may not be missing in the target if it is dense, or if it was opened to store all of them.
    """
    old, new = source.metadata, target.metadata
    return (
        old.shape == new.shape
        and old.grid == new.grid
        and source.chain.sharding is None
        and target.chain.sharding is None
        and decode_alike(old.codecs, old.data_type, new.codecs, new.data_type)
        and (old.dense or _stores_all(target) or _same_fill(source, target))
    )


def _stores_all(target: StoredArray) -> bool:
    return target.metadata.dense or target.write_empty is True


def _same_fill(source: StoredArray, target: StoredArray) -> bool:
    old, new = source.fill, target.fill
    if new.dtype.hasobject:
        one: Any = old[()]
        two: Any = new[()]
        if target.metadata.data_type.variable == "string":  # where it is undefined it reads as the empty text
            one, two = one or "", two or ""
        return type(one) is type(two) and bool(one == two)
    return old.astype(new.dtype).tobytes() == new.tobytes()


class Moved(NamedTuple):
    """A report on a batch of copied chunks.

    Parameters
    ----------
    nbytes : int
        Bytes of their elements.
    copied, stored : int
        How many were copied without decoding, and how many the target stores.
    before, after : int
        Bytes that the source and the target store for them.
    """

    nbytes: int
    copied: int
    stored: int
    before: int
    after: int


def copy_chunks(source: StoredArray, target: StoredArray) -> Iterator[Moved]:
    """Copy all chunks, and yield a report after each batch.

    A chunk is decoded and encoded again if its length is wrong, if the target stores it in another way, or if it is the
    last, shorter chunk of a dense array and the target stores whole chunks, padded with the fill value. Missing chunks
    stay missing, unless the target stores all. Where few are stored, only those are visited.

    Raises
    ------
    UnsupportedError
        If more than ``max_chunks`` chunks of a dense target would have to be filled.
    CodecError, StoreError
        If a chunk can't be read, decoded or written; says which.
    """
    mover = _Mover(source, target)
    visited = _visited(source, target)
    total = prod(source.metadata.shape) * source.dtype.itemsize
    # far away all chunks that there is room for are under way at once
    requests = max(source.store.concurrency, target.store.concurrency)
    nbytes = config.current().buffer_bytes if requests else _BATCH_BYTES
    most = min(_BATCH, max(1, nbytes // max(1, source.chunk_nbytes)))
    size, parallel = most if requests else _FIRST, False
    while batch := [*islice(visited, size)]:
        start = perf_counter()
        try:
            for_each(mover, batch, parallel, [source.chain, target.chain], requests)
        except MemoryError as error:
            raise source.out_of_memory(error) from error
        # for small values threads would spend their time waiting for each other
        parallel = perf_counter() - start > _QUICK * len(batch)
        size = most
        copied = sum(kept for kept, _, _ in mover.moved)
        stored = sum(after > 0 for _, _, after in mover.moved)
        before, after = sum(old for _, old, _ in mover.moved), sum(new for _, _, new in mover.moved)
        mover.moved.clear()
        nbytes = _nbytes(source, batch)
        total -= nbytes
        yield Moved(nbytes, copied, stored, before, after)
    source.check_exists()  # chunks of a deleted array are absent, too, and must not be copied as fill values
    if total:  # the elements of chunks that were not visited
        yield Moved(total, 0, 0, 0, 0)


def _visited(source: StoredArray, target: StoredArray) -> Iterator[Coords]:
    """Return the chunks to visit: the stored ones where they are few, else the whole grid."""
    counts = source.metadata.grid.counts(source.metadata.shape)
    number = prod(counts)
    if _stores_all(target) and not source.metadata.dense:
        check_number(target, number, "filling an array that stores every chunk")
    elif source.is_sparse(number):
        return (coords for coords, _ in source.stored_chunks() if is_inside(source, coords))
    return cells([(0, count) for count in counts])


def _nbytes(array: StoredArray, cells: Iterable[Coords]) -> int:
    size = sum(prod(len(range(part.start, part.stop)) for part in part_of(array, coords)) for coords in cells)
    return size * array.dtype.itemsize


def part_of(array: StoredArray, coords: Coords) -> tuple[slice, ...]:
    """Return the part of an array that a chunk holds."""
    return array.metadata.grid.region(coords, array.metadata.shape)


class _Mover:
    """A function that copies one chunk, and keeps count."""

    def __init__(self, source: StoredArray, target: StoredArray) -> None:
        self.source = source
        self.target = target
        self.transfer: Transfer = transfer(source.chain, source.metadata.codecs, target.chain, target.metadata.codecs)
        self.pads = source.metadata.dense and not target.metadata.dense
        self.blank: Any = None
        # far away the chunks of several arrays are under way at once
        self.room = source.chunk_nbytes if source.store.concurrency or target.store.concurrency else 0
        # whether a chunk was kept as it is, its bytes before and after: threads can append, but not add
        self.moved: list[tuple[bool, int, int]] = []

    def __call__(self, coords: Coords) -> None:
        with UNITS.hold(self.room):
            self._move(coords)

    def _move(self, coords: Coords) -> None:
        source = self.source
        if self.pads and self._overhangs(coords):
            self._decode(coords)
            return
        key = source.key(coords)
        try:
            data = source.store.get(key) if key else None
            if data is None and key and (cause := blocked_by(source.store, key)):
                raise StoreError(f"the chunk can't be read: {cause}")
        except TegulaError as error:
            source.locate(error, key)
            raise
        if data is None:
            self._fill(coords)
            return
        new = self.transfer(data, source.metadata.grid.chunk_shape(coords))
        if new is None:
            self._decode(coords)
            return
        self._store(coords, new)
        self.moved.append((True, len(data), len(new)))

    def _fill(self, coords: Coords) -> None:
        """Handle a missing chunk: store the fill value where the target stores every chunk."""
        target = self.target
        if self.source.metadata.dense or (target.metadata.dense and self._overhangs(coords)):
            self._decode(coords)
        elif _stores_all(target):
            shape = self.source.metadata.grid.chunk_shape(coords)
            if self.blank is None or not target.metadata.grid.is_regular:
                self.blank = target.chain.encode(np.full(shape, self.source.fill, target.dtype))
            self._store(coords, self.blank)
            self.moved.append((False, 0, len(self.blank)))

    def _store(self, coords: Coords, data: Any) -> None:
        key = self.target.key(coords)
        try:
            self.target.store.set(key, data)
        except TegulaError as error:
            self.target.locate(error, key)
            raise
        finally:
            forget(self.target.store, key)

    def _overhangs(self, coords: Coords) -> bool:
        grid, shape = self.source.metadata.grid, self.source.metadata.shape
        return any(axis.start(n) + axis.length(n) > size for axis, n, size in zip(grid.axes, coords, shape))

    def _decode(self, coords: Coords) -> None:
        source, target = self.source, self.target
        part = part_of(source, coords)
        plan = basic(part, source.metadata.shape, source.metadata.grid)
        # of the source's type: reading does not convert, and writing swaps bytes where the target's order differs
        values = np.empty(plan.work_shape, source.dtype)
        read(source, plan, values)
        write(target, basic(part, target.metadata.shape, target.metadata.grid), values)
        sizes = (array.store.size(key) if (key := array.key(coords)) else None for array in (source, target))
        before, after = (size or 0 for size in sizes)
        self.moved.append((False, before, after))
