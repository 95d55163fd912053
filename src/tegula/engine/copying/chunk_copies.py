"""Stored chunks copied one by one: read, checked and written, or copied by the storage itself."""

from __future__ import annotations

from copy import copy
from typing import Any, Final, Self

import numpy as np

from tegula.codecs.equivalence import Transfer, transfer
from tegula.codecs.serializers.sharding import Sharding
from tegula.engine.reading.chunks import index_range
from tegula.engine.reading.executors import read, write
from tegula.engine.reading.remote import UNITS
from tegula.engine.stored.array import StoredArray
from tegula.errors import StoreError, TegulaError
from tegula.indexing import basic
from tegula.stores import Store
from tegula.stores.capabilities import Copying, blocked_by

__all__ = ["ChunkCopies", "part_of", "refuse_blocked", "stores_all"]

Coords = tuple[int, ...]
_LARGE: Final = 2**16  # bytes


def stores_all(target: StoredArray) -> bool:
    """Return whether a target has to store even chunks that are missing in the source."""
    return target.metadata.dense or target.write_empty is True


def part_of(array: StoredArray, coords: Coords) -> tuple[slice, ...]:
    """Return the part of an array that a chunk holds."""
    return array.metadata.grid.region(coords, array.metadata.shape)


def refuse_blocked(store: Store, key: str) -> None:
    """Raise `StoreError` if something else stands in the place of a chunk that is not there."""
    if cause := blocked_by(store, key):
        raise StoreError(f"the chunk can't be used: {cause}")


class ChunkCopies:
    """A function that copies one chunk, and keeps count.

    Attributes
    ----------
    units : StoredArray
        The array whose chunks the function is called for.
    moved : list of (bool, int, int)
        For each value, whether it was copied unchanged, and its size in bytes before and after.
    """

    def __init__(self, source: StoredArray, target: StoredArray) -> None:
        self.source = source
        self.target = target
        self.units = source
        self.pads = source.metadata.dense and not target.metadata.dense
        self.blank: Any = None
        self.sharding = source.chain.sharding
        self.transfer: Transfer | None = None
        if self.sharding is None:
            self.transfer = transfer(source.chain, source.metadata.codecs, target.chain, target.metadata.codecs)
        # in a remote store the chunks of several arrays are under way at the same time
        self.is_remote = source.store.is_remote
        self.room = source.chunk_nbytes if self.is_remote or target.store.is_remote else 0
        keeps = self.transfer is None or self.transfer.keeps
        self.by_storage = keeps and isinstance(target.store, Copying) and target.store.copies_from(source.store)
        # whether a value can be judged without being read
        self.unread = self.by_storage and (
            self.transfer is None or self.transfer.has_size or (self.transfer.may_be_unseen and self.is_remote)
        )
        # threads can append, but not add
        self.moved: list[tuple[bool, int, int]] = []

    def anew(self) -> Self:
        """Return a function that copies as this one does, with a count of its own."""
        made = copy(self)
        made.moved = []
        return made

    def __call__(self, coords: Coords) -> None:
        """Copy a chunk."""
        with UNITS.hold(self.room):
            self.move(coords)

    def move(self, coords: Coords) -> None:
        """Copy a chunk for which there is room in memory, or that needs none."""
        array = source = self.source
        if self.pads and self._overhangs(coords):
            self._decode(coords)
            return
        key = source.key_template.format(*coords)
        if self.unread and key and self._copied(coords, key):
            return
        try:
            data = source.store.get(key) if key else None
            if data is not None:
                shape = source.one_shape or source.metadata.grid.chunk_shape(coords)
                new = self._checked(data, shape) if self.transfer is None else self.transfer(data, shape)
                if new is not None:
                    # a small value is written faster from memory; a large one may share blocks in the file system
                    by_storage = self.by_storage and not self.is_remote and len(new) >= _LARGE
                    if not (by_storage and self._copy_in_storage(coords, key, len(new))):
                        array, key = self.target, self.target.key_template.format(*coords)
                        array.store.set(key, new)
                    self.moved.append((True, len(data), len(new)))
                    return
            elif key:
                refuse_blocked(source.store, key)
        except TegulaError as error:
            array.locate(error, key)
            raise
        if data is None:
            self._fill(coords)
        else:
            self._decode(coords)

    def _copied(self, coords: Coords, key: str) -> bool:
        """Let the storage copy a value, if no check has to read it; return whether the storage copied it."""
        source, shape = self.source, self.source.metadata.grid.chunk_shape(coords)
        try:
            nbytes = source.store.size(key)
            if nbytes is None or not self._is_sound(key, nbytes, shape):
                return False
        except TegulaError as error:
            source.locate(error, key)
            raise
        if not self._copy_in_storage(coords, key, nbytes):
            return False
        self.moved.append((True, nbytes, nbytes))
        return True

    def _is_sound(self, key: str, nbytes: int, shape: Coords) -> bool:
        """Return whether a value can be copied undecoded, judged by a shard's index or by its size."""
        if self.sharding is not None:
            raw = self.source.store.get(key, index_range(self.sharding, shape))
            return raw is not None and _holds_index(self.sharding, raw, shape, nbytes)
        assert self.transfer is not None
        size = self.transfer.size(shape)
        return nbytes == size if size is not None else self.transfer.may_be_unseen and self.is_remote

    def _checked(self, data: bytes, shape: Coords) -> Any:
        """Return a shard; ``None`` if it is damaged."""
        assert self.sharding is not None
        size = self.sharding.index_nbytes(shape)
        raw = data[:size] if self.sharding.index_at_start else data[max(0, len(data) - size) :]
        return data if _holds_index(self.sharding, raw, shape, len(data)) else None

    def _fill(self, coords: Coords) -> None:
        """Handle a missing chunk: store the fill value where the target stores every chunk.

        Raises
        ------
        NotFoundError
            If chunks of the source must not be missing.
        """
        target = self.target
        self.source.absent(coords)
        if self.source.metadata.dense or (target.metadata.dense and self._overhangs(coords)):
            self._decode(coords)
        elif stores_all(target):
            shape = self.source.metadata.grid.chunk_shape(coords)
            if self.blank is None or not target.metadata.grid.is_regular:
                self.blank = target.chain.encode(np.full(shape, self.source.fill, target.dtype))
            self._store(coords, self.blank)
            self.moved.append((False, 0, len(self.blank)))

    def _store(self, coords: Coords, data: Any) -> None:
        """Store a value."""
        key = self.target.key_template.format(*coords)
        try:
            self.target.store.set(key, data)
        except TegulaError as error:
            self.target.locate(error, key)
            raise

    def _copy_in_storage(self, coords: Coords, old: str, nbytes: int) -> bool:
        store: Any = self.target.store
        key = self.target.key_template.format(*coords)
        try:
            done: int | None = store.copy_from(self.source.store, old, key, nbytes=nbytes)
        except TegulaError as error:
            self.target.locate(error, key)
            raise
        return done is not None

    def _overhangs(self, coords: Coords) -> bool:
        grid, shape = self.source.metadata.grid, self.source.metadata.shape
        return any(axis.start(n) + axis.length(n) > size for axis, n, size in zip(grid.axes, coords, shape))

    def _decode(self, coords: Coords) -> None:
        """Read the part of the source that a chunk holds, and write it to the target."""
        source, target = self.source, self.target
        part = part_of(self.units, coords)
        plan = basic(part, source.metadata.shape, source.metadata.grid)
        # in the source's dtype: reading does not convert, and writing swaps bytes if the target's byte order differs
        values = np.empty(plan.work_shape, source.dtype)
        read(source, plan, values)
        write(target, basic(part, target.metadata.shape, target.metadata.grid), values)
        self.moved.append((False, *self._sizes(coords)))

    def _sizes(self, coords: Coords) -> tuple[int, int]:
        """Return the size of a value in bytes, before and after."""
        sizes = (array.store.size(key) if (key := array.key(coords)) else None for array in (self.source, self.target))
        before, after = (size or 0 for size in sizes)
        return before, after


def _holds_index(sharding: Sharding, raw: bytes, shape: Coords, nbytes: int) -> bool:
    """Return whether the index of a shard is valid and all inner chunks lie within the shard."""
    if len(raw) != sharding.index_nbytes(shape):
        return False
    try:
        sharding.decode_index(raw, shape, nbytes)
    except TegulaError:
        return False
    return True
