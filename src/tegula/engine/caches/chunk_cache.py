"""Decoded chunks kept for later reads: one cache for the process, with a budget in bytes.

For each key the cache keeps the decoded chunk, or decoded inner chunks of a shard, with the generation at which they
were read and the time at which they were last known to be current. The least recently used are dropped first.

An operation that changes chunks drops them from the cache *after* the change. A read that is under way at that time may
have seen the old value. So `Held.changes` counts the changes, and a value that was requested before a change is not
added to the cache after it.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy.typing as npt

from tegula.engine.stored.array import StoredArray
from tegula.indexing import Plan
from tegula.stores import Generation, Store
from tegula.stores.identity import location

__all__ = ["CHUNKS", "Absent", "ChunkCache", "Held", "Moment", "Record", "clock", "now"]

Chunk = npt.NDArray[Any]
Coords = tuple[int, ...]

_OVERHEAD: Final = 512
"""Bytes that an entry takes beside the elements: the budget also bounds the number of absent chunks."""

_number = itertools.count(1).__next__
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", None)  # it also runs while the machine sleeps


class Absent:
    """The entry of a chunk that is not stored, and is read as the fill value."""


Entry = Chunk | type[Absent]
Moment = tuple[int, float]
"""A moment in this process: the number of earlier moments, and the seconds of a clock that is never set back."""


def now() -> Moment:
    """Return the present moment; later calls return greater ones."""
    return _number(), clock()


def clock() -> float:
    """Return the seconds of a clock that is never set back."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class Record:
    """Record of one key: its generation, when the store last confirmed that, and which of its chunks are cached."""

    __slots__ = ("checked", "generation", "parts")

    def __init__(self, generation: Generation, checked: Moment) -> None:
        self.generation = generation
        self.checked = checked
        self.parts: dict[Coords, Entry] = {}


@dataclass(eq=False)
class Held:
    """Decoded chunks of one array, and the records of their keys.

    Attributes
    ----------
    where : str
        Where the array is stored: the location of its prefix.
    description : tuple
        Codecs, data type, grid and keys, by which chunks are decoded. If an array with another description is created
        there, the cached chunks are not used for it.
    records : dict of str to Record
        By key without the prefix of the array, which depends on the root of the store.
    changes : int
        How often chunks were dropped because an operation of this process changed them.
    """

    where: str
    description: tuple[Any, ...]
    records: dict[str, Record] = field(default_factory=dict)
    changes: int = 0


class ChunkCache:
    """A cache of decoded chunks; several threads may use it concurrently. A forked child begins with an empty cache.

    Attributes
    ----------
    nbytes, budget : int
        Bytes that the entries take, and the most that they may take.
    """

    def __init__(self, budget: int = 0) -> None:
        self.budget = budget
        self.clear()
        _all.add(self)

    def clear(self) -> None:
        """Drop all entries, without waiting for any lock."""
        self._lock = threading.Lock()
        self._loading: dict[tuple[str, str], list[Any]] = {}
        self._held: weakref.WeakValueDictionary[str, Held] = weakref.WeakValueDictionary()
        self._entries: OrderedDict[tuple[Held, str, Coords], int] = OrderedDict()
        self.nbytes = 0

    def limit(self, budget: int) -> None:
        """Set the budget, and drop what exceeds it.

        Writers do not report changes to a cache without a budget. So reads that began while it had none add no chunks.
        """
        with self._lock:
            if not budget or not self.budget:
                self._held.clear()
            self.budget = budget
            self._evict(budget)

    # --- reading

    def of(self, array: StoredArray) -> Held:
        """Return the entry of an array; the caller keeps a reference to it while it reads chunks of the array."""
        where = location(array.store.identity, array.prefix)
        metadata = array.metadata
        description = metadata.codecs, metadata.data_type, metadata.grid, metadata.keys
        with self._lock:
            held = self._held.get(where)
            if held is None or not _same(held.description, description):
                if held is not None:
                    self._drop_all(held)
                held = self._held[where] = Held(where, description)
            return held

    def find(self, held: Held, key: str, part: Coords) -> Entry | None:
        """Return a cached chunk, and mark it as used."""
        with self._lock:
            record = held.records.get(key)
            entry = None if record is None else record.parts.get(part)
            if entry is not None:
                self._entries.move_to_end((held, key, part))
            return entry

    def put(self, held: Held, key: str, state: tuple[Generation, Moment, int], parts: dict[Coords, Entry]) -> None:
        """Keep chunks, unless they have been changed since they were requested, or are larger than the budget.

        Parameters
        ----------
        held, key
            The entry of the array, and the key that the chunks were read from.
        state : (generation, moment, changes)
            Their generation, the moment of the request, and `Held.changes` before the request.
        parts : dict
            The inner chunks by their coordinates in the shard; a chunk that is not a shard has the coordinates ``()``.
        """
        generation, checked, changes = state
        with self._lock:
            if held.changes != changes or self._held.get(held.where) is not held:
                return
            record = held.records.get(key)
            if record is not None and record.generation != generation:
                if record.checked > checked:  # a later request found a newer state
                    return
                self._drop(held, key)
                record = None
            if record is None:
                record = Record(generation, checked)
            record.checked = max(record.checked, checked)
            for part, entry in parts.items():
                self._put(held, key, record, part, entry)

    def _put(self, held: Held, key: str, record: Record, part: Coords, entry: Entry) -> None:
        nbytes = _OVERHEAD + (0 if isinstance(entry, type) else entry.nbytes)
        name = held, key, part
        self.nbytes -= self._entries.pop(name, 0)
        record.parts.pop(part, None)
        if nbytes > self.budget:
            if not record.parts:
                held.records.pop(key, None)
            return
        held.records[key] = record  # first, since evicting another part of the key must find it
        record.parts[part] = entry
        self._evict(self.budget - nbytes)
        self._entries[name] = nbytes
        self.nbytes += nbytes

    def confirm(self, held: Held, key: str, state: tuple[Generation, Moment, int]) -> None:
        """Note that a key still has the generation that was read."""
        self.put(held, key, state, {})

    def discard(self, held: Held, key: str) -> None:
        """Drop the chunks of a key, since the store has another generation of it."""
        with self._lock:
            self._drop(held, key)

    def _evict(self, budget: int) -> None:
        while self.nbytes > budget and self._entries:
            (held, key, part), nbytes = self._entries.popitem(last=False)
            self.nbytes -= nbytes
            record = held.records[key]
            del record.parts[part]
            if not record.parts:
                del held.records[key]

    @contextmanager
    def loading(self, held: Held, key: str) -> Iterator[None]:
        """Let one thread at a time load chunks of a key; the other threads then find them in the cache."""
        name = held.where, key
        with self._lock:
            known = self._loading.setdefault(name, [threading.Lock(), 0])
            known[1] += 1
        try:
            with known[0]:
                yield
        finally:
            with self._lock:
                known[1] -= 1
                if not known[1] and self._loading.get(name) is known:
                    del self._loading[name]

    # --- forgetting

    def forget_chunks(self, array: StoredArray, plan: Plan) -> None:
        """Drop the chunks that a plan selects, since they have been written."""
        if not self.budget:
            return
        held = self._held.get(location(array.store.identity, array.prefix))
        if held is None:
            return
        if plan.nchunks > len(held.records):
            self._forget(held, None)
        else:
            self._forget(held, [array.key(projection[0])[len(array.prefix) :] for projection in plan])

    def forget(self, store: Store, name: str) -> None:
        """Drop a key that has been written or deleted, or all keys of a prefix, which ends in ``/`` or is empty.

        The key may belong to an array at any prefix of it.
        """
        changed = location(store.identity, name)
        # by weak references, since iterating over the values fails if another thread drops an array
        known = [held for reference in self._held.valuerefs() if (held := reference()) is not None]
        for held in known:
            below = changed[len(held.where) :]
            if held.where.startswith(changed):
                self._forget(held, None)
            elif changed.startswith(held.where) and changed.endswith("/"):
                self._forget(held, [key for key in [*held.records] if key.startswith(below)])
            elif changed.startswith(held.where):
                self._forget(held, [below])

    def _forget(self, held: Held, keys: Iterable[str] | None) -> None:
        with self._lock:
            self._drop_all(held, keys)

    def _drop_all(self, held: Held, keys: Iterable[str] | None = None) -> None:
        held.changes += 1
        for key in [*held.records] if keys is None else keys:
            self._drop(held, key)

    def _drop(self, held: Held, key: str) -> None:
        record = held.records.pop(key, None)
        if record is not None:
            for part in record.parts:
                self.nbytes -= self._entries.pop((held, key, part), 0)


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(a is b or a == b for a, b in zip(one, other))


_all: weakref.WeakSet[ChunkCache] = weakref.WeakSet()


def _clear_all() -> None:
    """In a forked child, drop all chunks, and the locks of the parent's threads, which do not exist here."""
    for cache in _all:
        cache.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_clear_all)

CHUNKS: Final = ChunkCache()
"""The cache of this process; its budget is the setting ``cache_bytes``."""
