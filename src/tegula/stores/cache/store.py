"""A store that caches what it reads from another store in local files."""

from __future__ import annotations

import os
import threading
import time
import weakref
from ast import literal_eval
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from tegula import config
from tegula.errors import ConflictError, MetadataError
from tegula.runtime.deferred import after_fork
from tegula.runtime.parsing import parse_expression
from tegula.runtime.threads import in_threads
from tegula.stores.arguments import ABSENT, ByteRange, BytesLike, Generation, changed, check_key, clip_range
from tegula.stores.cache.disk import DiskCache
from tegula.stores.capabilities import Revalidating, unchanged
from tegula.stores.identity import lasting_text, location
from tegula.stores.interface import Store
from tegula.stores.names import absolute
from tegula.stores.wrapping import WrappingStore

__all__ = ["CachedStore"]

_MOST: Final = 2**16  # keys whose generation one store remembers


class CachedStore(WrappingStore):
    """A store that caches the encoded bytes that it reads from another store in a directory on this machine.

    Several processes may share the directory, and any of them may be killed. An entry belongs to one generation of a
    key of one storage: when a value changes, its old entries are no longer used, and are deleted sooner or later. A
    damaged file counts as missing, and nothing more is cached when the disk is full; neither is an error. File names
    are digests, so that URLs and keys are not written to disk.

    Writes go to the other store. This store has the same conditional writes, and most of the same capabilities
    (`tegula.stores.wrapping.WrappingStore`). A key that was written through this
    object, or could not be written because its value had changed, is compared with the store at each use from then on,
    whatever `recheck` says; so programs that change arrays together work as they do without a cache. Listings, sizes
    and locks are those of the other store.

    Parameters
    ----------
    store : Store
        The other store. Processes share the cached values of persistent storage, such as object storage and
        directories; those of other storage (memory, mappings, zip archives) are used by this object only.
    directory : str or path
        Where to put the files.
    max_bytes : int
        The most bytes that the files may take; the least recently used are deleted first.
    recheck : {"open", "always", "never"} or number
        When a cached value is compared with the store by a request: at the first use after this object was made, at
        each use, never, or when the last comparison by any process was that many seconds ago.

    Raises
    ------
    MetadataError
        If `max_bytes` or `recheck` is not valid.
    StoreError
        If `directory` is not a path.

    Examples
    --------
    >>> import tempfile, tegula
    >>> remote = tegula.MemoryStore({"a": b"123"})
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     store = tegula.CachedStore(remote, directory, 10**6, recheck="never")
    ...     before = store.get("a")
    ...     generation = remote.set("a", b"456")
    ...     print(before, store.get("a"))
    b'123' b'123'
    """

    keeps_values = True

    def __init__(
        self,
        store: Store,
        directory: str | os.PathLike[str],
        max_bytes: int,
        *,
        recheck: str | float = "open",
    ) -> None:
        super().__init__(store)
        if type(max_bytes) is not int or max_bytes < 0:
            raise MetadataError(f"max_bytes must be a whole number, not {max_bytes!r:.80}", field="max_bytes")
        self.store: Any = store
        self.recheck = config.check_recheck(recheck)
        self._disk = DiskCache(absolute(directory), max_bytes)
        self._lasts = isinstance(store.identity, str)
        # if the storage is not persistent, files that another process or object has cached must never be used
        self._root = location(store.identity, "") if self._lasts else f"unique:{os.urandom(16).hex()}/"
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[Generation, float]] = OrderedDict()  # generation, time of its confirmation
        self._written: set[str] | None = set()  # keys that are always confirmed; `None` for all keys
        _stores.add(self)

    @property
    def directory(self) -> str:
        """The absolute path of the directory that holds the files."""
        return self._disk.directory

    @property
    def max_bytes(self) -> int:
        """How many bytes the files may take."""
        return self._disk.max_bytes

    @property
    def identity(self) -> object:
        """An identity of its own, since the other store may have newer values."""
        return f"cached:{self.recheck}:{self.directory}:{self._root}" if self._lasts else self

    # --- reading

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        value, generation = self._get(key, byte_range)
        return (value, generation) if with_generation else value

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the results of `get` for each ``(key, byte_range)``, in order; as many at once as the store allows."""
        wanted = [*requests]
        return in_threads(lambda request: self._get(*request)[0], wanted, self.concurrency)

    def get_if_changed(self, key: str, generation: Generation) -> tuple[bytes | None, Generation] | None:
        """Return the value of `key` and its generation, or ``None`` if it is the one given; see `Revalidating`."""
        check_key(key)
        known = self._fresh(key)
        if known is not None:
            return None if known == generation else self._get(key, None)
        answer: tuple[bytes | None, Generation] | None = self.store.get_if_changed(key, generation)
        if answer is None:
            self._note(key, generation)
            return None
        return self._fetched(key, None, answer)

    def get_ranges(
        self, key: str, ranges: Sequence[ByteRange], generation: Generation | None = None
    ) -> tuple[list[bytes] | None, Generation]:
        """Return several ranges of one state of the value of `key`; those not cached are read from the store."""
        check_key(key)
        name = self._parts_of(key)
        fresh = self._fresh(key, name)
        state = fresh if generation is None else generation
        kept = [None if state is None else self._kept(key, each, state) for each in ranges]
        missing = [number for number, value in enumerate(kept) if value is None]

        # if all are cached, a request confirms the state, unless `recheck` makes that unnecessary
        if fresh == ABSENT == state:
            return None, ABSENT
        if state is not None and ranges and not missing:
            if fresh != state:
                if not unchanged(self.store, key, state):
                    self._forget([key])
                    raise changed(key)
                self._note(name, state)
            return [value for value in kept if value is not None], state

        # the others are read from the store, from the same state
        try:
            found, now = self.store.get_ranges(key, [ranges[number] for number in missing], state)
        except ConflictError:
            self._forget([key])
            if generation is None and state is not None:  # the caller did not ask for this state
                return self.get_ranges(key, ranges)
            raise
        self._note(name, now)
        text = lasting_text(now)
        for number, value in zip(missing, found or []):
            kept[number] = value
            if text is not None:
                self._disk.put(self._name(key, text, ranges[number]), bytes(value))
        return None if found is None else [value for value in kept if value is not None], now

    def _get(self, key: str, byte_range: ByteRange | None) -> tuple[bytes | None, Generation]:
        check_key(key)
        if byte_range is not None:
            clip_range(byte_range, 0)  # raises if it is not valid
        generation, is_fresh = None, False
        if byte_range != (0, 0):  # which asks only for the present generation, known to the store alone
            fresh = self._fresh(key)
            generation = self._noted(key) if fresh is None else fresh
            is_fresh = fresh is not None
        if generation is not None:
            kept = None if generation == ABSENT else self._kept(key, byte_range, generation)
            if is_fresh and (kept is not None or generation == ABSENT):
                return kept, generation
            # one request compares the generation with the store, and with some stores also returns the new value
            if kept is not None or generation == ABSENT:
                if byte_range is None and isinstance(self.store, Revalidating):
                    answer = self.store.get_if_changed(key, generation)
                    if answer is not None:
                        return self._fetched(key, None, answer)
                    self._note(key, generation)
                    return kept, generation
                if unchanged(self.store, key, generation):
                    self._note(key, generation)
                    return kept, generation
        return self._fetched(key, byte_range, self.store.get(key, byte_range, with_generation=True))

    def _fetched(
        self, key: str, byte_range: ByteRange | None, answer: tuple[bytes | None, Generation]
    ) -> tuple[bytes | None, Generation]:
        """Cache the answer of the store."""
        value, generation = answer
        text = lasting_text(generation)
        if value is not None and text is not None and byte_range != (0, 0):
            self._disk.put(self._name(key, text, byte_range), bytes(value))
        self._note(key, generation)
        return answer

    # --- values on disk

    def _kept(self, key: str, byte_range: ByteRange | None, generation: Generation) -> bytes | None:
        text = lasting_text(generation)
        if text is None:
            return None
        kept = self._disk.get(self._name(key, text, byte_range))
        if kept is None and byte_range is not None:
            whole = self._disk.get(self._name(key, text, None))
            if whole is not None:
                start, stop = clip_range(byte_range, len(whole))
                kept = whole[start:stop]
        return kept

    def _name(self, key: str, generation: str, byte_range: ByteRange | None) -> str:
        part = None if byte_range is None else tuple(None if n is None else int(n) for n in byte_range)
        return f"{self._root}{key}\0{generation}\0{part}"

    # --- states of keys

    def _parts_of(self, key: str) -> str:
        """Return the name for the state of parts of a value; it differs from that of `get` if `get` uses a digest."""
        return f"{key}\0parts" if self.single_writer else key

    def _fresh(self, key: str, name: str | None = None) -> Generation | None:
        """Return the generation of a key, or of its parts by their name, if no request has to confirm it."""
        if self.recheck == "always" or self._written is None or key in self._written:
            return None
        name = key if name is None else name
        known = self._known.get(name)
        if self.recheck == "open":
            return None if known is None else known[0]
        known = self._read_state(name) if known is None else known
        if known is None or self.recheck == "never":
            return None if known is None else known[0]
        # a time in the future means that the clock has been set back
        return known[0] if 0 <= time.time() - known[1] < float(self.recheck) else None

    def _noted(self, key: str) -> Generation | None:
        """Return the last known generation of a key, from this object or else from any process."""
        known = self._known.get(key) or self._read_state(key)
        return None if known is None else known[0]

    def _read_state(self, key: str) -> tuple[Generation, float] | None:
        raw = self._disk.get(self._state(key))
        try:
            state: Any = None if raw is None else literal_eval(parse_expression(raw.decode()))
            return None if state is None else (self.store.generation_of(state[0]), float(state[1]))
        except (ValueError, SyntaxError, TypeError, LookupError):
            return None

    def _note(self, key: str, generation: Generation) -> None:
        """Note the present generation of a key, also for other processes if they can use it."""
        text = lasting_text(generation)
        if text is None:
            return
        moment = time.time()
        with self._lock:
            before = self._known.get(key)
            self._known[key] = generation, moment
            self._known.move_to_end(key)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        if before is None or before[0] != generation or not isinstance(self.recheck, str):
            self._disk.put(self._state(key), f"({text}, {moment!r})".encode())

    def _forget(self, keys: Iterable[str]) -> None:
        """Forget the state of keys that may have been written."""
        for key in keys:
            with self._lock:
                self._known.pop(key, None)
                self._known.pop(self._parts_of(key), None)
                if self._written is not None:
                    self._written.add(key)
                    if len(self._written) > _MOST:
                        self._written = None
            for name in {key, self._parts_of(key)}:
                self._disk.remove(self._state(name))

    def _state(self, key: str) -> str:
        return f"{self._root}{key}\0state"

    # --- writing

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key` in the other store, and return its generation; see `Store.set`."""
        check_key(key)
        try:
            generation: Generation = self.store.set(key, value, if_generation=if_generation)
            return generation
        finally:
            self._forget([key])

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` from the other store if it exists; raises as `set` does."""
        check_key(key)
        try:
            self.store.delete(key, if_generation=if_generation)
        finally:
            self._forget([key])

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix` from the other store."""
        keys = {*self.store.list_prefix(prefix)}
        try:
            self.store.delete_prefix(prefix)
        finally:
            with self._lock:
                keys |= {name.partition("\0")[0] for name in self._known if name.startswith(prefix)}
            self._forget(keys)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(CachedStore, recheck=self.recheck), (self.store, self.directory, self.max_bytes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r}, {self.directory!r})"


_stores: weakref.WeakSet[CachedStore] = weakref.WeakSet()


@after_fork
def _free_locks() -> None:
    """In a forked child, free the locks of the parent's threads, which do not exist here."""
    for store in _stores:
        store._lock = threading.Lock()
        store._disk.after_fork()
