"""Reading through the cache of decoded chunks (`caches.chunk_cache`), in place of an executor's own reading.

Chunks in the cache are copied to the result. Other chunks are requested concurrently, decoded, copied to the result and
added to the cache. The setting ``recheck`` says when a request has to confirm that a cached chunk is still the stored
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import numpy.typing as npt

from tegula import config
from tegula.engine.caches.chunk_cache import CHUNKS, Absent, Entry, Held, Moment, Record, clock, now
from tegula.engine.concurrency.pool import for_each
from tegula.engine.reading.cached_shards import ShardReader
from tegula.engine.reading.chunks import copy_out, fill_out
from tegula.engine.reading.settling import check_plan, settled
from tegula.engine.stored.array import Executor, StoredArray
from tegula.engine.stored.visiting import batches
from tegula.errors import StoreError, TegulaError, UnsupportedError
from tegula.indexing import Plan, Projection
from tegula.stores.arguments import ABSENT, Generation
from tegula.stores.capabilities import Revalidating, blocked_by, unchanged

__all__ = ["Cached"]

Array = npt.NDArray[Any]
_BATCH: Final = 2**12  # chunks that are looked up before the missing ones are requested
_IN_FLIGHT: Final = 2**28  # bytes of decoded chunks that requests may be waiting for


class Cached:
    """An executor that reads through the cache, and leaves everything else to another executor.

    Parameters
    ----------
    executor : Executor
        The other executor. It also reads what is never cached: objects, since their size is not known and users may
        change them, and shards within shards.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.write = executor.write
        self.create_chunks, self.extend_chunks = executor.create_chunks, executor.extend_chunks
        self.empty, self.load = executor.empty, executor.load
        self.may_hold_chunks, self.delete_chunks = executor.may_hold_chunks, executor.delete_chunks

    def get(self, array: StoredArray, selection: Any) -> Any:
        """Return ``None``: the caller makes the plan."""
        return None

    def set(self, array: StoredArray, selection: Any, values: Any) -> bool:
        """Return ``False``: the caller makes the plan, and drops what it has written from the cache."""
        return False

    def read(self, array: StoredArray, plan: Plan, out: Array) -> None:
        """Fill `out`, a buffer of the plan's ``work_shape``, with the selected elements; see `reference.read`."""
        if not _is_cached(array):
            self._executor.read(array, plan, out)
            return
        if not array.key_template:
            array.look_up()
        try:
            # chunks that are loaded belong to one node; cached chunks were checked when they were loaded
            if array.store.is_remote:  # the setting ``recheck`` says whether documents, too, are requested again
                _load(array, plan, out, array.check_exists)
            elif not all(_copied(_Reader(array, out, 1), batch) for batch in batches(plan, _BATCH)):
                settled(array, partial(_load, array, plan, out))
            check_plan(array, plan)
        except UnsupportedError:  # a frame that the kernel can decode, and Python's codecs can't
            self._executor.read(array, plan, out)


def _copied(reader: _Reader, items: Iterable[Projection]) -> bool:
    """Copy chunks from the cache; return ``False`` at the first one that is missing there or has to be confirmed."""
    return all(reader.copy(projection) for projection in items)


def _load(array: StoredArray, plan: Plan, out: Array, missing: Callable[[], object]) -> None:
    """Read the chunks of a plan, from the cache where it has them; call `missing` if one is not stored."""
    threads = _threads(array)
    reader = _Reader(array, out, threads)
    for batch in batches(plan, _BATCH):
        wanted = [projection for projection in batch if not reader.copy(projection)]
        for_each(reader.load, wanted, len(wanted) > 1, [array.chain], threads)
    if reader.absent:
        missing()


def _is_cached(array: StoredArray) -> bool:
    """Return whether the cache keeps chunks of an array."""
    sharding, dtype = array.chain.sharding, array.fill.dtype
    if dtype.hasobject or not dtype.itemsize or (sharding is not None and sharding.inner.sharding is not None):
        return False
    return bool(array.metadata.keys.template(array.metadata.ndim))


def _threads(array: StoredArray) -> int:
    """Return how many chunks to request concurrently: the store's `concurrency`, if so many chunks fit into memory."""
    number = _IN_FLIGHT // max(1, array.chunk_nbytes)
    return max(config.current().threads, min(array.store.concurrency, number))


def freshness(array: StoredArray) -> Callable[[Record], bool]:
    """Return a function that tells whether the setting ``recheck`` lets a record be used without a request."""
    rule = config.current().recheck
    if rule == "never":
        return lambda record: True
    if isinstance(rule, str):
        # `shared` belongs to all copies of one opened array; the first read sets the time
        since: Moment = now() if rule == "always" else array.shared.setdefault("opened", now())
        return lambda record: record.checked > since
    oldest = clock() - rule
    return lambda record: record.checked[1] > oldest


class _Reader:
    """One read of an array: copies chunks to their places in the result.

    Attributes
    ----------
    absent : bool
        Whether a chunk was requested from the store that is not stored.
    """

    def __init__(self, array: StoredArray, out: Array, threads: int) -> None:
        self.array, self.out = array, out
        self.held: Held = CHUNKS.of(array)
        self.is_fresh = freshness(array)
        self.absent = False
        sharding = array.chain.sharding
        self._shards = None if sharding is None else ShardReader(array, self.held, sharding, threads)

    def copy(self, projection: Projection) -> bool:
        """Copy a chunk from the cache; return ``False`` if it is missing there, or a request has to confirm it."""
        name = self._name(projection)
        record = self.held.records.get(name)
        if record is None or not self.is_fresh(record):
            return False
        if self._shards is not None:
            return self._shards.copy(name, projection, self.out)
        entry = CHUNKS.find(self.held, name, ())
        if entry is None or not self._fits(projection, entry):
            return False
        self._copy_entry(projection, entry)
        return True

    def load(self, projection: Projection) -> None:
        """Read a chunk that is not cached, or confirm a cached one, unless another thread has just done so."""
        name = self._name(projection)
        key = self.array.prefix + name
        try:
            with CHUNKS.loading(self.held, name):
                if self.copy(projection):
                    return
                if self._shards is not None:
                    copied = self._shards.load(name, projection, self.out)
                else:
                    entry = self._loaded(name, key, projection)
                    copied = not isinstance(entry, type)
                    self._copy_entry(projection, entry)
            if not copied:
                if cause := blocked_by(self.array.store, key):
                    raise StoreError(f"the chunk can't be used: {cause}")
                self.absent = True
        except TegulaError as error:
            self.array.locate(error, key)
            raise

    def _loaded(self, name: str, key: str, projection: Projection) -> Entry:
        """Return a chunk as it is stored now."""
        array, held = self.array, self.held
        changes, moment = held.changes, now()
        # the cached chunk, if the store confirms it
        record, entry = held.records.get(name), CHUNKS.find(held, name, ())
        data: bytes | None
        generation: Generation
        if record is not None and entry is not None and self._fits(projection, entry):
            answer = _changed(array.store, key, record.generation)
            if answer is None:
                CHUNKS.confirm(held, name, (record.generation, moment, changes))
                return entry
            data, generation = answer
        else:
            data, generation = array.store.get(key, with_generation=True)
        # the stored chunk
        if data is None:
            if array.metadata.dense:
                raise StoreError("the chunk is missing")
            entry = Absent
        else:
            entry = array.chain.decode(data, array.one_shape or array.stored_shape(projection[0], data))
            entry.flags.writeable = False
        CHUNKS.put(held, name, (ABSENT if data is None else generation, moment, changes), {(): entry})
        return entry

    def _name(self, projection: Projection) -> str:
        return self.array.key_template.format(*projection[0])[len(self.array.prefix) :]

    def _fits(self, projection: Projection, entry: Entry) -> bool:
        """Return whether a cached chunk still has the shape that the array expects, which may have changed since."""
        if isinstance(entry, type):
            return not self.array.metadata.dense
        if self.array.one_shape is not None:
            return entry.shape == self.array.one_shape
        shape = self.array.stored_shape(projection[0], None)
        return entry.shape[1:] == shape[1:] and (
            entry.shape[0] >= shape[0] if self.array.metadata.dense else entry.shape == shape
        )

    def _copy_entry(self, projection: Projection, entry: Entry) -> None:
        coords, selection, work_selection, _ = projection
        if isinstance(entry, type):
            fill_out(self.out, work_selection, self.array.absent(coords))
        elif self.array.is_plain:
            self.out[work_selection] = entry[selection]
        else:
            copy_out(self.out, work_selection, entry, selection, self.array.field)


def _changed(store: Any, key: str, generation: Generation) -> tuple[bytes | None, Generation] | None:
    """Return a value and its generation, or ``None`` if it still has the generation `generation`."""
    if isinstance(store, Revalidating):
        return store.get_if_changed(key, generation)
    if unchanged(store, key, generation):
        return None
    value: tuple[bytes | None, Generation] = store.get(key, with_generation=True)
    return value
