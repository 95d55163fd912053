"""Access to remote stores: many requests at once, parts of shards of one generation, a bound on the bytes under way.

A remote store (`Readable.is_remote`) takes long to answer. Its latency is so long that unneeded bytes between two
ranges cost less than a second request. Both executors use these functions. Requests that do not depend on each other
are sent together, by threads (`tegula.engine.concurrency.pool`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from tegula import config
from tegula.engine.caches import shard_indexes
from tegula.engine.concurrency.pool import for_each, gather
from tegula.errors import ConflictError
from tegula.stores import ByteRange, Generation, Store
from tegula.stores.capabilities import Ranged

__all__ = [
    "IN_FLIGHT",
    "UNITS",
    "InFlight",
    "ShardReader",
    "delete_keys",
    "delete_prefix",
    "get_in_batches",
    "get_many",
    "parts_of",
    "runs",
]

Request = tuple[str, ByteRange | None]
Run = tuple[int, int, list[int]]
Part = tuple[int, bytes | memoryview]
_NO_CHUNK: Final = b"\xff" * 16  # the entry of an inner chunk that is not stored (Zarr v3 "sharding_indexed" codec)


class InFlight:
    """A count of the bytes that operations have requested and not decoded yet, bounded by the setting ``buffer_bytes``.

    An operation that would exceed the limit waits until others have decoded their chunks. A chunk that is itself larger
    than the limit is requested when nothing else is under way. A thread that holds room must not acquire more, since
    two operations could then wait for each other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # taken by `with`, in compiled code; `Condition` would take it in Python code
        self._changed = threading.Condition(self._lock)
        self._held = 0

    def acquire(self, nbytes: int) -> None:
        """Wait until there is room for this many bytes, and take it."""
        taken: list[int] = []
        try:
            self._take(nbytes, taken)
        except BaseException:  # a signal may have come after the room was taken
            self._give_back(taken)
            raise

    def _take(self, nbytes: int, taken: list[int]) -> None:
        """Do what `acquire` does, and record it in `taken` in the same step, so that no signal comes in between."""
        limit = config.current().buffer_bytes
        with self._lock:
            while self._held and self._held + nbytes > limit:
                self._changed.wait()
            self._held += nbytes
            taken.append(nbytes)

    def _give_back(self, taken: list[int]) -> None:
        with self._lock:
            if taken:
                self._held -= taken[0]
                taken.clear()
            self._changed.notify_all()

    def acquire_if_plenty(self, nbytes: int) -> bool:
        """Take room for this many bytes if half of the limit stays free; return whether it was taken, without waiting.

        An operation that holds room for all its chunks need not acquire room for each.
        """
        with self._lock:
            plenty = 2 * (self._held + nbytes) <= config.current().buffer_bytes
            if plenty:
                self._held += nbytes
        return plenty

    def release(self, nbytes: int) -> None:
        """Give back the room that `acquire` took."""
        self._give_back([nbytes])

    @contextmanager
    def hold(self, nbytes: int) -> Iterator[None]:
        """Hold room for this many bytes while the context lasts; 0 takes no time."""
        if not nbytes:
            yield
            return
        taken: list[int] = []
        try:
            self._take(nbytes, taken)
            yield
        finally:
            try:
                self._give_back(taken)
            except BaseException:  # a signal came: release once more, since nothing else releases the room
                self._give_back(taken)
                raise


IN_FLIGHT: Final = InFlight()
"""The bytes under way in this process."""

UNITS: Final = InFlight()
"""The bytes of the parts of arrays that jobs on remote stores work on at the same time in this process.

A job holds room here while it reads or writes, and then acquires room in `IN_FLIGHT`, never in the reverse order.
"""

if hasattr(os, "register_at_fork"):  # in a forked child no other thread holds room
    os.register_at_fork(after_in_child=IN_FLIGHT.__init__)  # type: ignore[misc]
    os.register_at_fork(after_in_child=UNITS.__init__)  # type: ignore[misc]


def get_many(store: Store, requests: Iterable[Request]) -> list[bytes | None]:
    """Return the results of `Store.get` for each key and byte range, in order; in one wave if the store is remote."""
    if type(store).get_many is not Store.get_many or not store.is_remote:
        return store.get_many(requests)
    return gather(lambda request: store.get(*request), requests, store.concurrency)


def get_in_batches(store: Store, requests: Iterable[tuple[str, tuple[int, int]]]) -> Iterator[bytes | None]:
    """Yield byte ranges of values in order, given as offsets and lengths; `buffer_bytes` bounds those read at once.

    Examples
    --------
    >>> from tegula.stores import MappingStore
    >>> with config.configure(buffer_bytes=4):
    ...     [*get_in_batches(MappingStore({"a": b"0123", "b": b"4567"}), [("a", (1, 3)), ("b", (0, 2)), ("c", (0, 1))])]
    [b'123', b'45', None]
    """
    room = config.current().buffer_bytes
    batch: list[Request] = []
    total = 0
    for key, (offset, length) in requests:
        if batch and total + length > room:
            yield from get_many(store, batch)
            batch, total = [], 0
        batch.append((key, (offset, length)))
        total += length
    yield from get_many(store, batch)


def delete_keys(store: Store, keys: Iterable[str]) -> None:
    """Delete keys that need not exist, in any order; in one wave if the store is remote."""
    for_each(store.delete, keys, parallel=False, requests=store.concurrency)


def delete_prefix(store: Store, prefix: str) -> None:
    """Delete every key that starts with a prefix, in one wave even where `Store.delete_prefix` deletes one by one."""
    if type(store).delete_prefix is not Store.delete_prefix or not store.is_remote:
        store.delete_prefix(prefix)
    else:
        delete_keys(store, [*store.list_prefix(prefix)])


class ShardReader:
    """Reads of shards by parts: the index, then ranges of inner chunks, all of one generation.

    If the store is remote, the kernel also calls these methods and reads the attributes.

    Attributes
    ----------
    gap : int
        Up to this many unneeded bytes between two inner chunks are read along with them.
    span : int
        The most bytes of one request, unless a single inner chunk is larger.
    at_once : int
        The most bytes of the requests that are sent together, unless a single one is larger.
    whole : int
        Shards of up to this many bytes are read as a whole, and up to 16 times as large ones if half of their inner
        chunks are needed.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_remote = store.is_remote
        self.gap, self.span, self.whole_limit = (2**20, 2**24, 2**20) if self.is_remote else (2**15, 2**23, 0)
        self.acquire, self.release = IN_FLIGHT.acquire, IN_FLIGHT.release
        self.acquire_if_plenty = IN_FLIGHT.acquire_if_plenty

    @property
    def at_once(self) -> int:
        """The most bytes of the requests that are sent together, unless a single one is larger."""
        return config.current().buffer_bytes if self.is_remote else 0

    def reads_whole(self, nbytes: int, wanted: int, number: int) -> bool:
        """Return whether to read a whole shard of `nbytes` bytes to get this many of its inner chunks."""
        return nbytes <= self.whole_limit or (2 * wanted >= number and nbytes <= 16 * self.whole_limit)

    def index(self, key: str, byte_range: ByteRange) -> tuple[bytes | None, Generation]:
        """Return the bytes of the index of a shard and the shard's generation; ``None`` if there is no shard.

        A cached index is confirmed by reading ranges of its generation. So it is used only if it has no empty entries,
        since then every selection reads at least one range.
        """
        if not self.is_remote:
            return self.read_index(key, byte_range)
        size = byte_range[1] or -byte_range[0]
        known = shard_indexes.get(self.store, key)
        if known is not None and len(known[0]) == size and _NO_CHUNK not in known[0]:
            return known
        raw, generation = self.read_index(key, byte_range)
        if raw is not None and len(raw) == size:
            shard_indexes.put(self.store, key, raw, generation)
        return raw, generation

    def read_index(self, key: str, byte_range: ByteRange) -> tuple[bytes | None, Generation]:
        """Read the index from the store, and return what `index` returns."""
        store = self.store
        if isinstance(store, Ranged) and store.single_writer:  # generations of such a store take the whole shard
            parts, generation = store.get_ranges(key, [byte_range])
            return parts[0] if parts else None, generation
        return store.get(key, byte_range, with_generation=True)

    def ranges(self, key: str, ranges: Sequence[tuple[int, int]], generation: Generation) -> list[bytes]:
        """Return ranges of a shard, given as offsets and lengths, in one wave.

        Raises
        ------
        ConflictError
            If the shard's generation is another one.
        """
        try:
            return self._ranges(key, ranges, generation)
        except ConflictError:
            shard_indexes.drop(self.store, key)
            raise

    def _ranges(self, key: str, ranges: Sequence[tuple[int, int]], generation: Generation) -> list[bytes]:
        if isinstance(self.store, Ranged):
            values, _ = self.store.get_ranges(key, ranges, generation)
            if values is None:
                raise ConflictError("the shard was deleted while it was being read", key=key)
            return values
        get: Any = partial(self.store.get, key, with_generation=True)
        answers = gather(get, ranges, self.store.concurrency)
        if any(values is None or state != generation for values, state in answers):
            raise ConflictError("the shard changed while it was being read", key=key)
        return [data for data, _ in answers]

    def fetch(self, key: str, generation: Generation, ranges: Sequence[tuple[int, int]]) -> Generator[Part]:
        """Yield the bytes of ranges with their positions; ranges that lie close together are one request.

        Raises
        ------
        ConflictError
            If the shard's generation is another one.
        """
        for some in _groups(runs(ranges, self.gap, self.span), self.at_once):
            held = sum(nbytes for _, nbytes, _ in some) if self.is_remote else 0
            with IN_FLIGHT.hold(held):
                answers = self.ranges(key, [(start, nbytes) for start, nbytes, _ in some], generation)
                for (start, _, members), data in zip(some, answers):
                    view = memoryview(data)
                    for number in members:
                        offset, nbytes = ranges[number]
                        yield number, view[offset - start : offset - start + nbytes]


def parts_of(data: bytes, ranges: Sequence[tuple[int, int]]) -> Generator[Part]:
    """Yield ranges of a shard in memory, as `ShardReader.fetch` does."""
    view = memoryview(data)
    for number, (offset, nbytes) in enumerate(ranges):
        yield number, view[offset : offset + nbytes]


def runs(ranges: Sequence[tuple[int, int]], gap: int, span: int) -> Iterator[Run]:
    """Join ranges that lie close together, so that each run is one request.

    Parameters
    ----------
    ranges : sequence of (int, int)
        Offsets and lengths.
    gap : int
        Up to this many bytes between two ranges are read, too.
    span : int
        The most bytes of a run, unless one range is longer.

    Yields
    ------
    (int, int, list of int)
        Offset and length of a run, and the positions of its ranges.

    Examples
    --------
    >>> [*runs([(10, 5), (0, 4), (90, 5)], gap=10, span=50)]
    [(0, 15, [1, 0]), (90, 5, [2])]
    """
    start = stop = 0
    run: list[int] = []
    for number in sorted(range(len(ranges)), key=ranges.__getitem__):
        offset, nbytes = ranges[number]
        if run and (offset > stop + gap or offset + nbytes - start > span):
            yield start, stop - start, run
            run = []
        start, stop = (start, max(stop, offset + nbytes)) if run else (offset, offset + nbytes)
        run.append(number)
    if run:
        yield start, stop - start, run


def _groups(runs: Iterable[Run], most: int) -> Iterator[list[Run]]:
    """Yield runs in lists of up to `most` bytes, at least one in each."""
    group: list[Run] = []
    total = 0
    for run in runs:
        if group and total + run[1] > most:
            yield group
            group, total = [], 0
        group.append(run)
        total += run[1]
    if group:
        yield group
