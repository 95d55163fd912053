"""Stores as a transaction sees them: new values are held back and stored when it is committed.

Keys of files are compared by their whole paths, so that one file is one key whatever the root of its store.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeAlias, runtime_checkable

from tegula.errors import ConflictError, UnsupportedError
from tegula.stores.interface import (
    ABSENT,
    ByteRange,
    BytesLike,
    Generation,
    Store,
    check_key,
    clip_range,
    flat_view,
    split_children,
)
from tegula.stores.local import LocalStore

__all__ = ["Changeable", "Entry", "Stage", "StagedStore"]

Place: TypeAlias = tuple[object, str]
_next_token = itertools.count(1).__next__


@runtime_checkable
class Changeable(Protocol):
    """A store in which several keys can change in one step."""

    def change(self, changes: dict[str, tuple[bytes | None, Generation | None]]) -> None:
        """Set or delete the keys if each has the generation that is given with it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a transaction knows of one key.

    Attributes
    ----------
    store, key : Store, str
        Where it is.
    written : bool
        Whether it has a new value; else it was only read.
    value : bytes or None
        The new value; ``None`` to delete it.
    expected : generation or None
        What must be stored there when the transaction is committed.
    token : generation
        The generation of the new value as long as it is not stored.
    doomed : bool
        Whether a condition was not met, so that the transaction can't be committed.
    """

    store: Store
    key: str
    written: bool = False
    value: bytes | None = None
    expected: Generation | None = None
    token: Generation = ABSENT
    doomed: bool = False

    def holds(self) -> bool:
        """Return whether what must be stored there is."""
        if self.expected is None:
            return not self.doomed
        return not self.doomed and self.store.get(self.key, (0, 0), with_generation=True)[1] == self.expected


class Stage:
    """All new values that one transaction holds back, and how to make them again if what they are based on has changed.

    A subclass may raise errors of its own from `refuse_second` and `refuse_change`.

    Parameters
    ----------
    repeatable_read : bool
        Whether all that was read must still be the same when it is committed.
    atomic : bool
        Whether it must be stored in one step.
    """

    def __init__(self, *, repeatable_read: bool = False, atomic: bool = False) -> None:
        self.repeatable_read = repeatable_read
        self.atomic = atomic
        self.entries: dict[Place, Entry] = {}
        self.settled: set[Place] = set()
        self._log: list[Callable[[], Any]] = []
        self._performing = 0
        self.replaying = False
        self._only: tuple[Place, Store, str] | None = None
        self._lock = threading.RLock()

    def perform(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function whose changes can be had again by calling it again."""
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
        """Forget what is held back and was not stored yet, and do it again."""
        self.entries = {}
        self.replaying = True
        try:
            for action in [*self._log]:
                action()
        finally:
            self.replaying = False

    def forget(self) -> None:
        """Forget everything: the transaction is over."""
        self.entries = {}
        self._log = []

    def put(self, place: Place, entry: Entry) -> None:
        """Hold back a new value."""
        if place in self.settled:
            return
        with self._lock:
            self.entries[place] = entry
            if not self._performing and not self.replaying:
                self._log.append(lambda: self.put(place, entry))

    def note_read(self, place: Place, store: Store, key: str, generation: Generation) -> None:
        """Remember which state of a key was read, if it is to be the same at the end."""
        if not self.repeatable_read:
            return
        self.involve(place, store, key)
        with self._lock:
            self.entries.setdefault(place, Entry(store, key, expected=generation))

    def involve(self, place: Place, store: Store, key: str) -> None:
        """Add a key to an atomic transaction, which can have only one key that is stored in a step of its own.

        Raises
        ------
        UnsupportedError
            If there is another one.
        """
        if not self.atomic or isinstance(store, Changeable):
            return
        if self._only is None:
            self._only = (place, store, key)
        elif self._only[0] != place:
            self.refuse_second(self._only[1:], (store, key))

    def refuse_second(self, first: tuple[Store, str], second: tuple[Store, str]) -> NoReturn:
        """Raise the error for an atomic transaction of two keys that can't change in one step."""
        message = f"keys {first[1]!r} and {second[1]!r} can't change in one step; use a transaction that is not atomic"
        raise UnsupportedError(message, key=second[1])

    def refuse_change(self, store: Store, key: str) -> NoReturn:
        """Raise the error for a key that has changed since the transaction has read it first."""
        raise ConflictError("the value has changed since the transaction read it first", key=key)


class StagedStore(Store):
    """A store as a transaction sees it: its values with the new ones of the transaction over them.

    Parameters
    ----------
    stage : Stage
        What the transaction holds back.
    store : Store
        What is stored.
    gate : callable, optional
        Called before each operation, with None, to raise if the transaction is over; and with an error that ends it.

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
        self.read_only = store.read_only
        self._gate = _open if gate is None else gate
        self._check_key: Callable[[str], str] = getattr(store, "_check_key", check_key)
        self._space: object = LocalStore if isinstance(store, LocalStore) else id(store)
        self._root = store.root.rstrip("/") + "/" if isinstance(store, LocalStore) else ""

    @property
    def url(self) -> str:
        """The name of the store."""
        return self.base.url

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        self._gate(None)
        entry = self.stage.entries.get(self._place(key))
        if entry is not None and entry.written:
            value = entry.value
            if value is not None and byte_range is not None:
                start, stop = clip_range(byte_range, len(value))
                value = value[start:stop]
            return (value, entry.token) if with_generation else value
        value, generation = self.base.get(key, byte_range, with_generation=True)
        with self._ending():
            self.stage.note_read(self._place(key), self.base, key, generation)
        return (value, generation) if with_generation else value

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Hold back a new value; see `Store.set`."""
        return self._put(key, bytes(flat_view(value, key)), if_generation)

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Hold back that `key` is to be deleted; see `Store.delete`."""
        self._put(key, None, if_generation)

    def change_if(self, key: str, value: bytes | None, expected: Generation | None) -> Generation:
        """Hold back a value, or that `key` is to be deleted; that its condition is met is seen to at the end."""
        known = self.stage.entries.get(self._place(key))
        if known is None or expected is None:
            return self._put(key, value, expected, now=False)
        doomed = expected != (known.token if known.written else known.expected)
        return self._put(key, value, None, doomed=doomed)

    def confirm(self, key: str, generation: Generation) -> None:
        """End the transaction if `key` had another generation when it was read first.

        Raises
        ------
        ConflictError
            If it had.
        """
        known = self.stage.entries.get(self._place(key))
        if known is not None and not known.written and known.expected != generation:
            with self._ending():
                self.stage.refuse_change(self.base, key)

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        self._gate(None)
        entry = self.stage.entries.get(self._place(key))
        if entry is not None and entry.written:
            return None if entry.value is None else len(entry.value)
        return self.base.size(key)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        self._gate(None)
        found = set(self.base.list_prefix(prefix))  # which checks the prefix
        start = self._root + prefix
        for (space, path), entry in [*self.stage.entries.items()]:
            if entry.written and space == self._space and path.startswith(start):
                (found.discard if entry.value is None else found.add)(path[len(self._root) :])
        return iter(found)

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) that stand directly below `prefix`, each sorted."""
        return split_children(self.list_prefix(prefix), prefix)

    def obstruction(self, key: str) -> str | None:
        """Say what keeps a key without a value from counting as absent; see `Store.obstruction`."""
        return self.base.obstruction(self._check_key(key))

    def make_prefix(self, prefix: str) -> None:
        """Do nothing: directories come with the values."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r})"

    def depend(self, key: str, *, writes: bool) -> None:
        """Make `key` one of those that the transaction is about: for what is written, or for what is read."""
        self._gate(None)
        if writes or self.stage.repeatable_read:
            with self._ending():
                self.stage.involve(self._place(key), self.base, key)

    def _place(self, key: str) -> Place:
        return self._space, self._root + self._check_key(key)

    def _put(
        self, key: str, value: bytes | None, expected: Generation | None, *, doomed: bool = False, now: bool = True
    ) -> Generation:
        self._gate(None)
        place = self._place(key)
        with self._ending():
            self.stage.involve(place, self.base, key)
        known = self.stage.entries.get(place)
        if known is not None and known.written:
            if expected is not None and expected != known.token:
                raise ConflictError("the value has changed since it was read", key=key)
            expected = known.expected
            doomed = doomed or known.doomed
        elif known is not None:  # if it has changed since it was read first, that is found out at the end
            expected = known.expected
        elif now and expected is not None and self.base.get(key, (0, 0), with_generation=True)[1] != expected:
            raise ConflictError("the value has changed since it was read", key=key)
        token: Generation = ABSENT if value is None else b"\4" + _next_token().to_bytes(8, "little")
        self.stage.put(place, Entry(self.base, key, True, value, expected, token, doomed))
        return token

    def _ending(self) -> _Ending:
        return _Ending(self._gate)


def _open(error: BaseException | None) -> None:
    """Let everything pass: the gate of a transaction that is never over."""


class _Ending:
    """Ends the transaction with the error that comes up."""

    __slots__ = ("_gate",)

    def __init__(self, gate: Callable[[BaseException | None], None]) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._gate(error)
