"""Copying inner chunks from shards to shards of another shape, from chunks into shards, and out of shards.

Their bytes are not changed. Each shard of the target is put together from inner chunks. If the target has no shards,
the inner chunks of each shard of the source are stored one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, product
from typing import Any, Final

import numpy as np

from tegula.codecs import EMPTY
from tegula.codecs.equivalence import decode_alike, transfer
from tegula.codecs.serializers.sharding import Sharding
from tegula.engine.copying.chunk_copies import ChunkCopies, part_of, refuse_blocked, stores_all
from tegula.engine.reading.chunks import index_range
from tegula.engine.reading.remote import ShardReader, get_many
from tegula.engine.stored.array import StoredArray
from tegula.errors import CodecError, StoreError, TegulaError
from tegula.metadata.nodes import inner_codecs
from tegula.stores.capabilities import blocked_by

__all__ = ["Regrouping", "can_regroup"]

Coords = tuple[int, ...]
StoredChunk = tuple[Coords, Any]
_AT_ONCE: Final = 256  # chunks that are requested together


def can_regroup(source: StoredArray, target: StoredArray) -> bool:
    """Return whether inner chunks can be copied between two arrays, at least one of which has shards."""
    old, new = source.metadata, target.metadata
    if old.dense or new.dense or not (old.ndim and old.grid.is_regular and new.grid.is_regular):
        return False
    for array in (source, target):
        sharding = array.chain.sharding
        # inner chunks can't be copied out of a shard that has other codecs around it, or that holds shards
        if (sharding is None) == any(codec.name == "sharding_indexed" for codec in array.metadata.codecs):
            return False
        if sharding is not None and sharding.inner.sharding is not None:
            return False
    codecs = inner_codecs(old.codecs), inner_codecs(new.codecs)
    return _inner_shape(source) == _inner_shape(target) and decode_alike(
        codecs[0], old.data_type, codecs[1], new.data_type
    )


def _inner_shape(array: StoredArray) -> Coords:
    """Return the shape of the inner chunks of an array, or of its chunks if it has no shards."""
    sharding = array.chain.sharding
    return array.metadata.grid.largest_chunk() if sharding is None else sharding.inner_shape


class Regrouping(ChunkCopies):
    """A function that makes one shard of the target, or takes one shard of the source apart."""

    def __init__(self, source: StoredArray, target: StoredArray) -> None:
        self.source = source
        self.target = target
        self.old = source.chain.sharding
        self.new = target.chain.sharding
        self.units = source if self.new is None else target
        self.shape = _inner_shape(source)
        one: Any = source.chain if self.old is None else self.old.inner
        other: Any = target.chain if self.new is None else self.new.inner
        self.encode = other.encode
        self.transfer = transfer(one, inner_codecs(source.metadata.codecs), other, inner_codecs(target.metadata.codecs))
        self.reader = ShardReader(source.store)
        self.room = self.units.chunk_nbytes if source.store.is_remote or target.store.is_remote else 0
        self.by_storage = self.unread = self.is_remote = False
        self.blank: Any = None
        self.moved: list[tuple[bool, int, int]] = []

    def move(self, coords: Coords) -> None:
        try:
            self._take_apart(coords) if self.new is None else self._put_together(coords, self.new)
        except CodecError:
            # an inner chunk is damaged or has to be decoded; decoding reports damage
            self._decode(coords)

    def _put_together(self, coords: Coords, sharding: Sharding) -> None:
        """Make one shard of the target."""
        region = part_of(self.target, coords)
        first = self._cells(region)
        entries: dict[Coords, Any] = {}
        before = 0
        for cell, data in self._chunks(region):
            entries[tuple(n - axis.start for n, axis in zip(cell, first))] = self._kept(data)
            before += len(data)
        shape = self.target.metadata.grid.chunk_shape(coords)
        if stores_all(self.target):
            for cell in product(*map(range, sharding.grid_shape(shape))):
                entries.setdefault(cell, self._blank())
        shard = sharding.assemble(entries, shape)
        if shard is not None:
            self._store(coords, shard)
            self.moved.append((True, before, len(shard)))

    def _take_apart(self, coords: Coords) -> None:
        """Store the inner chunks of one shard of the source."""
        region = part_of(self.source, coords)
        missing = set(product(*self._cells(region))) if stores_all(self.target) else set()
        for cell, data in self._chunks(region):
            new = self._kept(data)
            self._store(cell, new)
            self.moved.append((True, len(data), len(new)))
            missing.discard(cell)
        for cell in sorted(missing):
            self._store(cell, self._blank())
            self.moved.append((False, 0, len(self._blank())))

    def _kept(self, data: Any) -> Any:
        """Return the bytes to store for an inner chunk.

        Raises
        ------
        CodecError
            If it is damaged, or has to be decoded and encoded.
        """
        assert self.transfer is not None
        new = self.transfer(bytes(data), self.shape)
        if new is None:
            raise CodecError("the inner chunk can't be copied as it is")
        return new

    def _blank(self) -> Any:
        if self.blank is None:
            self.blank = self.encode(np.full(self.shape, self.source.fill, self.target.dtype))
        return self.blank

    def _sizes(self, coords: Coords) -> tuple[int, int]:
        return super()._sizes(coords) if self.new is None else (0, self.target.store.size(self.target.key(coords)) or 0)

    # -- reading inner chunks

    def _cells(self, region: tuple[slice, ...]) -> list[range]:
        """Return the coordinates of the inner chunks that a part of the array touches, along each axis."""
        return [range(part.start // size, -(-part.stop // size)) for part, size in zip(region, self.shape)]

    def _chunks(self, region: tuple[slice, ...]) -> Iterator[StoredChunk]:
        """Yield coordinates and bytes of the stored inner chunks of a part of the array."""
        cells = product(*self._cells(region))
        if self.old is None:
            yield from self._plain(cells)
            return
        grid = self.source.metadata.grid
        shards = [range(part.start // n, -(-part.stop // n)) for part, n in zip(region, grid.largest_chunk())]
        wanted = self._cells(region)
        for coords in product(*shards):
            inside = self._cells(part_of(self.source, coords))
            both = [range(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(inside, wanted)]
            yield from self._of_shard(self.old, coords, inside, product(*both))

    def _plain(self, cells: Iterable[Coords]) -> Iterator[StoredChunk]:
        """Yield the inner chunks that the source stores as single chunks."""
        source = self.source
        every = iter(cells)
        while some := [*islice(every, _AT_ONCE)]:
            keys = [source.key(cell) for cell in some]
            values = get_many(source.store, [(key, None) for key in keys]) if source.store.is_remote else None
            for number, (cell, key) in enumerate(zip(some, keys)):
                try:
                    data = source.store.get(key) if values is None else values[number]
                    if data is None:
                        refuse_blocked(source.store, key)
                except TegulaError as error:
                    source.locate(error, key)
                    raise
                if data is not None:
                    yield cell, data

    def _of_shard(
        self, sharding: Sharding, coords: Coords, inside: list[range], cells: Iterable[Coords]
    ) -> Iterator[StoredChunk]:
        """Yield the inner chunks that one shard of the source holds."""
        source, key = self.source, self.source.key(coords)
        shape = source.metadata.grid.chunk_shape(coords)
        try:
            raw, generation = self.reader.index(key, index_range(sharding, shape))
            if raw is None:
                if cause := blocked_by(source.store, key):
                    raise StoreError(f"the shard can't be read: {cause}")
                return
            if len(raw) != sharding.index_nbytes(shape):
                raise CodecError("the shard is shorter than its index", codec="sharding_indexed")
            index = sharding.decode_index(raw, shape)
            stored_cells: list[Coords] = []
            ranges: list[tuple[int, int]] = []
            for cell in cells:
                offset, nbytes = map(int, index[tuple(n - axis.start for n, axis in zip(cell, inside))])
                if offset != EMPTY:
                    stored_cells.append(cell)
                    ranges.append((offset, nbytes))
            for number, data in self.reader.fetch(key, generation, ranges):
                if len(data) != ranges[number][1]:
                    raise CodecError("an inner chunk lies outside its shard", codec="sharding_indexed")
                yield stored_cells[number], data
        except TegulaError as error:
            source.locate(error, key)
            raise
