"""Reading shards through the cache of decoded chunks, which holds their decoded inner chunks."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.codecs import EMPTY, Sharding
from tegula.engine.caches import shard_indexes
from tegula.engine.caches.chunk_cache import CHUNKS, Absent, Entry, Held, now
from tegula.engine.concurrency.pool import for_each
from tegula.engine.concurrency.retries import back_off
from tegula.engine.reading import remote
from tegula.engine.reading.chunks import copy_out, fill_out, index_range
from tegula.engine.stored.array import StoredArray
from tegula.engine.stored.visiting import batches
from tegula.errors import CodecError, ConflictError
from tegula.indexing import Projection, refine
from tegula.metadata.chunk_grids import regular_grid
from tegula.stores.arguments import ABSENT, Generation, clip_range
from tegula.stores.capabilities import unchanged

__all__ = ["ShardReader"]

Array = npt.NDArray[Any]
Coords = tuple[int, ...]
_RETRIES: Final = 10_000
_AT_ONCE: Final = 2**26  # bytes of inner chunks that are decoded before they are copied to their places
_MOST: Final = 2**14  # inner chunks that are decoded before they are copied


class _Changed(Exception):
    """Another writer has replaced the shard, so that the index and the parts read so far belong to different shards."""


class ShardReader:
    """Reads parts of the shards of an array.

    Parameters
    ----------
    array : StoredArray
        The array.
    held : Held
        The cached chunks of the array.
    sharding : Sharding
        The inner codecs and the index of its shards; inner chunks are not shards themselves.
    threads : int
        How many ranges of a shard are requested concurrently.
    """

    def __init__(self, array: StoredArray, held: Held, sharding: Sharding, threads: int) -> None:
        self.array, self.held, self.sharding, self.threads = array, held, sharding, threads
        self._grid = regular_grid(sharding.inner_shape)
        inner = max(1, prod(sharding.inner_shape) * array.fill.dtype.itemsize)
        self._batch = min(_MOST, max(threads, _AT_ONCE // inner))

    def copy(self, name: str, projection: Projection, out: Array) -> bool:
        """Copy the selected part of a shard to its place, if all of it is cached; return whether it is."""
        target = _target(out, projection[2])
        if CHUNKS.find(self.held, name, ()) is Absent:
            fill_out(target, (), self.array.absent(projection[0]))
        else:
            for part in self._inner(projection):
                entry = CHUNKS.find(self.held, name, part[0])
                if entry is None:
                    return False
                self._copy_entry(target, (projection[0], part), entry)
        _put_back(target, projection[2], out)
        return True

    def load(self, name: str, projection: Projection, out: Array) -> bool:
        """Copy the selected part of a shard as it is stored now; return ``False`` if there is no shard."""
        array, target = self.array, _target(out, projection[2])
        key = array.prefix + name
        for attempt in range(_RETRIES):
            state = _State(self, name, key, array.metadata.grid.chunk_shape(projection[0]))
            try:
                copied = self._load(state, projection, target)
            except _Changed:
                shard_indexes.drop(array.store, key)
                CHUNKS.discard(self.held, name)
                back_off(attempt)
                continue
            _put_back(target, projection[2], out)
            return copied
        raise ConflictError("the shard kept changing while it was being read")

    def _load(self, state: _State, projection: Projection, target: Array) -> bool:
        for batch in batches(self._inner(projection), self._batch):
            kept = {part[0]: CHUNKS.find(self.held, state.name, part[0]) for part in batch} if state.is_kept else {}
            missing = [part[0] for part in batch if kept.get(part[0]) is None]
            if missing:
                loaded = state.load(missing)
                if loaded is None:
                    fill_out(target, (), self.array.absent(projection[0]))
                    return False
                kept |= loaded
            for part in batch:
                entry = kept[part[0]]
                assert entry is not None
                self._copy_entry(target, (projection[0], part), entry)
        state.confirm()
        return True

    def _inner(self, projection: Projection) -> Iterator[Projection]:
        return iter(refine(projection[1], self.array.metadata.grid.chunk_shape(projection[0]), self._grid))

    def _copy_entry(self, target: Array, place: tuple[Coords, Projection], entry: Entry) -> None:
        """Copy a part of an inner chunk; `place` has the coordinates of the shard, and the part."""
        shard, (coords, selection, work_selection, _) = place
        if isinstance(entry, type):
            fill_out(target, work_selection, self.array.absent(shard, coords))
        else:
            copy_out(target, work_selection, entry, selection, self.array.field)


class _State:
    """One state of a shard: every answer of the store must have the same generation."""

    def __init__(self, reader: ShardReader, name: str, key: str, shape: tuple[int, ...]) -> None:
        self._reader, self.name, self._key, self._shape = reader, name, key, shape
        self._store, self._sharding = reader.array.store, reader.sharding
        self._remote = remote.ShardReader(self._store)
        self._changes, self._moment = reader.held.changes, now()
        record = reader.held.records.get(name)
        self._generation: Generation | None = None
        self.is_kept = record is not None and record.generation != ABSENT
        if record is not None and self.is_kept:
            self._generation = record.generation
        self._index: Array | None = None
        self._is_confirmed = False

    def load(self, wanted: list[Coords]) -> dict[Coords, Entry] | None:
        """Read, decode and keep inner chunks; return ``None`` if there is no shard.

        A shard that is read as a whole is kept as a whole, so that reading the next plane takes no request.
        """
        loaded = self._load_whole(len(wanted))
        index = self._load_index()
        if index is None:
            state = ABSENT, self._moment, self._changes
            CHUNKS.put(self._reader.held, self.name, state, {(): Absent})
            return None
        entries: dict[Coords, Entry] = {}
        ranges: list[tuple[int, int, Coords]] = []
        stored = [] if loaded is None else [tuple(map(int, each)) for each in np.argwhere(index[..., 0] != EMPTY)]
        for coords in {*wanted, *stored}:
            offset, nbytes = (int(value) for value in index[coords])
            if offset == EMPTY:
                entries[coords] = Absent
            else:
                ranges.append((offset, nbytes, coords))
        spans = [(offset, nbytes) for offset, nbytes, _ in ranges]
        runs = [
            [ranges[n] for n in members] for _, _, members in remote.runs(spans, self._remote.gap, self._remote.span)
        ]
        chain, parallel = self._sharding.inner, len(runs) > 1
        for_each(lambda run: entries.update(self._decoded(run, loaded)), runs, parallel, [chain], self._reader.threads)
        if not self._is_confirmed:  # nothing had to be read
            self.confirm()
        state = self._generation, self._moment, self._changes
        last = {coords: entries.pop(coords) for coords in wanted}  # put last, so that the cache evicts them last
        CHUNKS.put(self._reader.held, self.name, state, entries | last)
        return last

    def confirm(self) -> None:
        """Make sure that the shard has not changed since it was cached; send a request unless one was already sent."""
        if self._is_confirmed:
            return
        if not unchanged(self._store, self._key, self._generation):
            raise _Changed
        self._is_confirmed = True
        CHUNKS.confirm(self._reader.held, self.name, (self._generation, self._moment, self._changes))

    def _load_whole(self, wanted: int) -> bytes | None:
        """Read all of a shard that is not cached at all, if that is quicker than reading parts of it."""
        shape, sharding = self._shape, self._sharding
        nbytes = prod(shape) * self._reader.array.metadata.data_type.numpy.itemsize
        if self._index is not None or shard_indexes.get(self._store, self._key) is not None:
            return None
        if not self._remote.reads_whole(nbytes, wanted, prod(sharding.grid_shape(shape))):
            return None
        raw: bytes | None
        raw, generation = self._store.get(self._key, with_generation=True)
        self._note_generation(generation)
        if raw is not None:
            start, stop = clip_range(index_range(sharding, shape), len(raw))
            self._keep_index(raw[start:stop])
        return raw

    def _note_generation(self, generation: Generation) -> None:
        """Note the generation of an answer."""
        if self._generation not in (None, generation):
            raise _Changed
        self._generation, self._is_confirmed = generation, True

    def _keep_index(self, raw: bytes) -> None:
        sharding, shape = self._sharding, self._shape
        size = sharding.index_nbytes(shape)
        if len(raw) != size:
            raise CodecError(
                f"a shard of {len(raw)} bytes has no room for its index of {size}", codec="sharding_indexed"
            )
        self._index = sharding.decode_index(raw, shape, None)
        assert self._generation is not None
        shard_indexes.put(self._store, self._key, raw, self._generation)

    def _load_index(self) -> Array | None:
        if self._index is not None or self._generation == ABSENT:
            return self._index
        sharding, shape = self._sharding, self._shape
        size = sharding.index_nbytes(shape)
        known = shard_indexes.get(self._store, self._key)
        if known is not None and len(known[0]) == size:
            if self._generation not in (None, known[1]):
                raise _Changed
            self._generation = known[1]
            self._index = sharding.decode_index(known[0], shape, None)
        else:
            try:
                raw, generation = self._remote.read_index(self._key, index_range(sharding, shape))
            except ConflictError:
                raise _Changed from None
            self._note_generation(generation)
            if raw is not None:
                self._keep_index(raw)
        return self._index

    def _decoded(self, run: list[tuple[int, int, Coords]], value: bytes | None) -> dict[Coords, Entry]:
        """Decode inner chunks that lie close together; read them by one request unless the shard is in memory."""
        start, stop = run[0][0], max(offset + nbytes for offset, nbytes, _ in run)
        data = self._ranges(start, stop - start) if value is None else value[start:stop]
        if len(data) != stop - start:
            raise CodecError("an inner chunk lies outside its shard", codec="sharding_indexed")
        view, bytes_read = memoryview(data), np.frombuffer(data, "u1")
        inner, shape = self._sharding.inner, self._sharding.inner_shape
        entries: dict[Coords, Entry] = {}
        for offset, nbytes, coords in run:
            chunk = inner.decode(view[offset - start : offset - start + nbytes], shape)
            if np.may_share_memory(chunk, bytes_read):  # it would keep all bytes of the run in memory
                chunk = chunk.copy()
            chunk.flags.writeable = False
            entries[coords] = chunk
        return entries

    def _ranges(self, start: int, nbytes: int) -> bytes:
        assert self._generation is not None
        try:
            data = self._remote.ranges(self._key, [(start, nbytes)], self._generation)[0]
        except ConflictError:
            raise _Changed from None
        self._is_confirmed = True
        return data


def _target(out: Array, work_selection: tuple[Any, ...]) -> Array:
    """Return the part of the result that a shard fills; a copy where index arrays select it."""
    return out[work_selection] if work_selection else out  # selecting () from a 0-d array would give a scalar


def _put_back(target: Array, work_selection: tuple[Any, ...], out: Array) -> None:
    if work_selection and target.size and not np.may_share_memory(target, out):
        out[work_selection] = target
