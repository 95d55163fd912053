"""Stores over storage that can't compare and store in one step: conditions hold only between threads of a process."""

from __future__ import annotations

import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeVar

from tegula.errors import ReadOnlyError
from tegula.runtime.deferred import after_fork
from tegula.stores.arguments import (
    ABSENT,
    ByteRange,
    BytesLike,
    Generation,
    changed,
    check_key,
    clip_range,
    flat_view,
)
from tegula.stores.interface import Store

__all__ = ["KeyLocks", "PrefixedLocks", "SingleWriterStore", "digest", "locks_of"]

_Locks = TypeVar("_Locks", bound="KeyLocks")


class KeyLocks:
    """Locks for the keys of one storage: the same key always has the same lock.

    Parameters
    ----------
    count : int
        The number of locks; with a single one, all keys share it.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self.renew()
        _all_locks.add(self)

    def renew(self) -> None:
        """Replace the locks by new ones, which no thread holds."""
        self._locks = [threading.Lock() for _ in range(self._count)]

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyLocks, (self._count,)  # a copy in another process has locks of its own

    def of(self, key: str) -> threading.Lock:
        """Return the lock of a key."""
        return self._locks[hash(key) % self._count]


class PrefixedLocks(KeyLocks):
    """Locks for the keys below a prefix, so that stores over one storage share locks even if their roots differ.

    Parameters
    ----------
    locks : KeyLocks
        The locks of the storage.
    prefix : str
        The text before each key in that storage.
    """

    def __init__(self, locks: KeyLocks, prefix: str) -> None:
        self._shared = locks
        self._prefix = prefix

    def __reduce__(self) -> tuple[Any, ...]:
        return PrefixedLocks, (self._shared, self._prefix)

    def of(self, key: str) -> threading.Lock:
        return self._shared.of(self._prefix + key)


_all_locks: weakref.WeakSet[KeyLocks] = weakref.WeakSet()


@after_fork
def _renew_all() -> None:
    """In a forked child, renew the locks, since the parent's threads that may hold them do not exist here."""
    for locks in _all_locks:
        locks.renew()


# A store holds its storage, so an id is not reused while its entry is alive.
_by_storage: weakref.WeakValueDictionary[tuple[object, int], KeyLocks] = weakref.WeakValueDictionary()
_making: Final = KeyLocks(1)


def locks_of(storage: object, make: Callable[[], _Locks]) -> _Locks:
    """Return the locks that all stores of this process over one storage share, made by `make` for the first of them."""
    with _making.of(""):
        locks: Any = _by_storage.get((make, id(storage)))
        if locks is None:
            locks = _by_storage[make, id(storage)] = make()
        made: _Locks = locks
        return made


class SingleWriterStore(Store):
    """Base class for stores over plain storage, which can read, write, remove and list, but not on condition.

    A subclass implements `read`, `write`, `remove`, `size`, `list_prefix` and `url`, which get only valid keys and
    values. A generation is a digest of the value, and conditions are compared under a lock of the process. So any
    number of threads may write through one store object, but only one process at a time.

    Parameters
    ----------
    read_only : bool
        Whether `set` and `delete` raise `ReadOnlyError`.

    Examples
    --------
    >>> class Upper(SingleWriterStore):
    ...     url = "upper://"
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.values = {}
    ...     def read(self, key, byte_range=None):
    ...         return self.ranged(self.values.get(key.upper()), byte_range)
    ...     def write(self, key, value):
    ...         self.values[key.upper()] = value
    ...     def remove(self, key):
    ...         self.values.pop(key.upper(), None)
    ...     def size(self, key):
    ...         return None if key.upper() not in self.values else len(self.values[key.upper()])
    ...     def list_prefix(self, prefix):
    ...         return (key for key in [*self.values] if key.startswith(prefix))
    >>> store = Upper()
    >>> generation = store.set("a", b"abc")
    >>> store.get("a", (1, None)), store.get("b"), store.single_writer
    (b'bc', None, True)
    """

    single_writer = True
    fresh_generations = False

    def __init__(self, *, read_only: bool = False, locks: KeyLocks | None = None) -> None:
        import_module("hashlib")  # not in a thread, since another thread may fork during the import
        self.read_only = read_only
        self._locks = KeyLocks(64) if locks is None else locks

    @abstractmethod
    def read(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        """Return the value of a key, or a range of it, or ``None`` if there is none; see `Store.get`."""

    @abstractmethod
    def write(self, key: str, value: bytes) -> None:
        """Store a value in one step: a reader sees the old value or the new one."""

    @abstractmethod
    def remove(self, key: str) -> None:
        """Remove a key if it exists."""

    @staticmethod
    def ranged(value: bytes | None, byte_range: ByteRange | None) -> bytes | None:
        """Return a range of a value, for storage that returns only whole values.

        Examples
        --------
        >>> SingleWriterStore.ranged(b"abcdef", (-2, None)), SingleWriterStore.ranged(None, (0, 1))
        (b'ef', None)
        """
        if value is None or byte_range is None:
            return value
        start, stop = clip_range(byte_range, len(value))
        return value[start:stop]

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        check_key(key)
        if not with_generation:
            return self.read(key, byte_range)
        value = self.read(key)  # all of it, since its digest is the generation
        return self.ranged(value, byte_range), self._generation(key, value)

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key` and return its generation; see `Store.set`."""
        self._check_writable(key)
        data = bytes(flat_view(value, key))
        with self._locks.of(key):
            self._compare(key, if_generation)
            self.write(key, data)
        return self._generation(key, data)

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it exists; raises as `set` does."""
        self._check_writable(key)
        with self._locks.of(key):
            self._compare(key, if_generation)
            self.remove(key)

    def _compare(self, key: str, expected: Generation | None) -> None:
        if expected is not None and self._generation(key, self.read(key)) != expected:
            raise changed(key)

    def _generation(self, key: str, value: bytes | None) -> Generation:
        return ABSENT if value is None else digest(value)

    def _check_writable(self, key: str) -> None:
        check_key(key)
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=key)


def digest(value: bytes) -> bytes:
    """Return a digest of a value that distinguishes it from all other values."""
    found: bytes = import_module("hashlib").blake2b(value, digest_size=16).digest()
    return found
