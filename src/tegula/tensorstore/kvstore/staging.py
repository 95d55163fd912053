"""Stores as a transaction sees them: new values are kept in memory and stored when the transaction is committed.

Keys of files are compared by their full paths, so that a file is the same key in stores with different roots.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from tegula.stores.arguments import (
    ABSENT,
    ByteRange,
    BytesLike,
    Generation,
    changed,
    check_key,
    clip_range,
    flat_view,
    split_children,
)
from tegula.stores.capabilities import BlockedKeys, blocked_by
from tegula.stores.interface import Store
from tegula.tensorstore.errors import invalid, status
from tegula.tensorstore.kvstore.paths import key_name

__all__ = ["Changeable", "Entry", "Stage", "StagedStore"]

KeyId: TypeAlias = tuple[object, str]
"""A key of a transaction: ``"files"`` and a full path, or the identity of a store and a key of it."""
_next_token = itertools.count(1).__next__


@runtime_checkable
class Changeable(Protocol):
    """A store in which several keys can change in one step."""

    def change(self, changes: dict[str, tuple[bytes | None, Generation | None]]) -> None:
        """Set or delete the keys if each has its expected generation."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The state of one key in a transaction.

    An entry that is not written was only read. When the transaction is committed, the key must have the expected
    generation. The token is the generation of the new value until it is stored; ``None`` as the value deletes the key.
    The transaction can't be committed if an entry is doomed: a condition was not met.
    """

    store: Store
    key: str
    written: bool = False
    value: bytes | None = None
    expected: Generation | None = None
    token: Generation = ABSENT
    doomed: bool = False

    def holds(self) -> bool:
        """Return whether the key still has the expected generation."""
        if self.expected is None:
            return not self.doomed
        return not self.doomed and self.store.get(self.key, (0, 0), with_generation=True)[1] == self.expected


class Stage:
    """The new values of one transaction, and the calls that compute them again if what they read has changed."""

    def __init__(self, *, repeatable_read: bool = False, atomic: bool = False) -> None:
        self.repeatable_read = repeatable_read
        self.atomic = atomic
        self.entries: dict[KeyId, Entry] = {}
        self.settled: set[KeyId] = set()
        self._log: list[Callable[[], Any]] = []
        self._performing = 0
        self.replaying = False
        self._only: tuple[KeyId, Store, str] | None = None
        self._lock = threading.RLock()

    def perform(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function, and record the call so that `replay` can repeat it."""
        with self._lock:
            self._performing += 1
        try:
            result = function(*args)
            self._log.append(lambda: function(*args))
            return result
        finally:
            with self._lock:
                self._performing -= 1

    def replay(self) -> None:
        """Drop the new values that were not stored yet, and repeat the calls that made them."""
        self.entries = {}
        self.replaying = True
        try:
            for action in [*self._log]:
                action()
        finally:
            self.replaying = False

    def forget(self) -> None:
        """Forget everything, at the end of the transaction."""
        self.entries = {}
        self._log = []

    def put(self, key_id: KeyId, entry: Entry) -> None:
        """Keep a new value until the commit."""
        if key_id in self.settled:
            return
        with self._lock:
            self.entries[key_id] = entry
            if not self._performing and not self.replaying:
                self._log.append(lambda: self.put(key_id, entry))

    def note_read(self, key_id: KeyId, store: Store, key: str, generation: Generation) -> None:
        """Note which state of a key was read, if reads must be repeatable."""
        if not self.repeatable_read:
            return
        self.involve(key_id, store, key)
        with self._lock:
            self.entries.setdefault(key_id, Entry(store, key, expected=generation))

    def involve(self, key_id: KeyId, store: Store, key: str) -> None:
        """Add a key to an atomic transaction, which can have only one key of a store that is not `Changeable`."""
        if not self.atomic or isinstance(store, Changeable):
            return
        if self._only is None:
            self._only = (key_id, store, key)
        elif self._only[0] != key_id:
            names = " and ".join(sorted((key_name(*self._only[1:]), key_name(store, key))))
            raise invalid(f"{names} can't change in one step; use a transaction that is not atomic")


class StagedStore(BlockedKeys, Store):
    """A store as a transaction sees it: the new values of the transaction hide those of the store.

    Parameters
    ----------
    stage : Stage
        The new values of the transaction.
    store : Store
        The store below.
    gate : callable, optional
        Called with ``None`` before each operation, to raise an error if the transaction has ended; and with an error
        that ends the transaction.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> base = MemoryStore({"a": b"old"})
    >>> staged = StagedStore(Stage(), base)
    >>> _ = staged.set("a", b"new")
    >>> staged.get("a"), base.get("a")
    (b'new', b'old')
    """

    def __init__(self, stage: Stage, store: Store, gate: Callable[[BaseException | None], None] | None = None) -> None:
        self.stage = stage
        self.base = store
        self.read_only, self.single_writer = store.read_only, store.single_writer
        self._gate = _open if gate is None else gate
        self._check_key: Callable[[str], str] = getattr(store, "_check_key", check_key)
        directory = store.local_directory
        self._space: object = id(store) if directory is None else "files"
        self._root = "" if directory is None else directory.rstrip("/") + "/"

    @property
    def url(self) -> str:
        """The name of the store."""
        return self.base.url

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        self._gate(None)
        entry = self.stage.entries.get(self._key_id(key))
        if entry is not None and entry.written:
            value = entry.value
            if value is not None and byte_range is not None:
                start, stop = clip_range(byte_range, len(value))
                value = value[start:stop]
            return (value, entry.token) if with_generation else value
        value, generation = self.base.get(key, byte_range, with_generation=True)
        with self._ending():
            self.stage.note_read(self._key_id(key), self.base, key, generation)
        return (value, generation) if with_generation else value

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Keep a new value until the commit; see `Store.set`."""
        return self._put(key, bytes(flat_view(value, key)), if_generation)

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Delete `key` at the commit; see `Store.delete`."""
        self._put(key, None, if_generation)

    def change_if(self, key: str, value: bytes | None, expected: Generation | None) -> Generation:
        """Keep a value, or the deletion of `key`, until the commit, which checks the condition."""
        known = self.stage.entries.get(self._key_id(key))
        if known is None or expected is None:
            return self._put(key, value, expected, now=False)
        doomed = expected != (known.token if known.written else known.expected)
        return self._put(key, value, None, doomed=doomed)

    def confirm(self, key: str, generation: Generation) -> None:
        """End the transaction with an error if `key` had another generation when it was first read."""
        known = self.stage.entries.get(self._key_id(key))
        if known is not None and not known.written and known.expected != generation:
            with self._ending():
                name = key_name(self.base, key)
                raise status("ABORTED", f"{name} has changed since the transaction first read it")

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        self._gate(None)
        entry = self.stage.entries.get(self._key_id(key))
        if entry is not None and entry.written:
            return None if entry.value is None else len(entry.value)
        return self.base.size(key)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        self._gate(None)
        keys = set(self.base.list_prefix(prefix))  # which checks the prefix
        start = self._root + prefix
        for (space, path), entry in [*self.stage.entries.items()]:
            if entry.written and space == self._space and path.startswith(start):
                (keys.discard if entry.value is None else keys.add)(path[len(self._root) :])
        return iter(keys)

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) directly below `prefix`, each sorted."""
        return split_children(self.list_prefix(prefix), prefix)

    def blocked_by(self, key: str) -> str | None:
        """Describe what is in the place of a key of the store; see `BlockedKeys.blocked_by`."""
        return blocked_by(self.base, self._check_key(key))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r})"

    def depend(self, key: str, *, writes: bool) -> None:
        """Involve `key` in the transaction, for writing or for reading."""
        self._gate(None)
        if writes or self.stage.repeatable_read:
            with self._ending():
                self.stage.involve(self._key_id(key), self.base, key)

    def _key_id(self, key: str) -> KeyId:
        return self._space, self._root + self._check_key(key)

    def _put(
        self, key: str, value: bytes | None, expected: Generation | None, *, doomed: bool = False, now: bool = True
    ) -> Generation:
        self._gate(None)
        key_id = self._key_id(key)
        with self._ending():
            self.stage.involve(key_id, self.base, key)
        known = self.stage.entries.get(key_id)
        if known is not None and known.written:
            if expected is not None and expected != known.token:
                raise changed(key)
            expected = known.expected
            doomed = doomed or known.doomed
        elif known is not None:  # the commit checks whether it has changed since it was first read
            expected = known.expected
        elif now and expected is not None and self.base.get(key, (0, 0), with_generation=True)[1] != expected:
            raise changed(key)
        token: Generation = ABSENT if value is None else b"\4" + _next_token().to_bytes(8, "little")
        self.stage.put(key_id, Entry(self.base, key, True, value, expected, token, doomed))
        return token

    def _ending(self) -> _Ending:
        return _Ending(self._gate)


def _open(error: BaseException | None) -> None:
    """Do nothing, as the gate of a transaction that never ends."""


class _Ending:
    """A context that ends the transaction if an error is raised in it."""

    __slots__ = ("_gate",)

    def __init__(self, gate: Callable[[BaseException | None], None]) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._gate(error)
