"""Caches of values by key with a budget in bytes; when it is exceeded, the least recently used values are dropped."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

__all__ = ["OVERHEAD", "KeptValues"]

T = TypeVar("T")

OVERHEAD: Final = 512
"""Bytes of an entry beside the value."""


class KeptValues(Generic[T]):
    """A cache of entries of one kind by location (`tegula.stores.identity.location`), for all threads of this process.

    Parameters
    ----------
    budget : int
        Bytes that all entries may take; an entry that takes more than a quarter of the budget is not kept.
    length : callable
        Returns the number of bytes of an entry.

    Attributes
    ----------
    lock : threading.RLock
        Held during each operation; callers hold it during several operations that belong together.
    nbytes : int
        Bytes that the entries take.
    entries : OrderedDict
        The entries by location, the least recently used first.

    Examples
    --------
    >>> kept = KeptValues(10_000, len)
    >>> for name in ["a/x", "a/y", "b/z"]:
    ...     kept.put(name, b"12")
    >>> kept.drop_all("a/")
    >>> kept.get("a/x"), kept.get("b/z")
    (None, b'12')
    """

    def __init__(self, budget: int, length: Callable[[T], int]) -> None:
        self.budget = budget
        self._length = length
        self.entries: OrderedDict[str, T] = OrderedDict()
        self.clear()
        _all.add(self)

    def clear(self) -> None:
        """Drop all entries, without waiting for the lock."""
        self.lock = threading.RLock()
        self.entries.clear()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, name: str) -> T | None:
        """Return the entry of a location, and mark it as used."""
        with self.lock:
            entry = self.entries.get(name)
            if entry is not None:
                self.entries.move_to_end(name)
            return entry

    def get_below(self, prefix: str, keys: Iterable[str]) -> dict[str, T]:
        """Return those entries of keys below a location that are cached, by key, and mark them as used."""
        entries: dict[str, T] = {}
        with self.lock:
            for key in keys:
                entry = self.entries.get(prefix + key)
                if entry is not None:
                    self.entries.move_to_end(prefix + key)
                    entries[key] = entry
        return entries

    def put(self, name: str, entry: T) -> None:
        """Keep an entry, instead of the previous entry of that name."""
        size = self._length(entry) + OVERHEAD
        with self.lock:
            if name in self.entries:
                self.drop(name)
            if size > self.budget // 4:
                return
            self.entries[name] = entry
            self.nbytes += size
            while self.nbytes > self.budget:
                self.drop(next(iter(self.entries)))

    def drop(self, *names: str) -> None:
        """Drop the entries of these locations."""
        with self.lock:
            for name in names:
                entry = self.entries.pop(name, None)
                if entry is not None:
                    self.nbytes -= self._length(entry) + OVERHEAD

    def drop_all(self, name: str) -> None:
        """Drop the entry of a location, or all entries below a location that ends in ``/``."""
        with self.lock:
            below = name.endswith("/")
            self.drop(*[known for known in self.entries if known.startswith(name)] if below else [name])


_all: weakref.WeakSet[KeptValues[Any]] = weakref.WeakSet()


def _clear_all() -> None:
    """In a forked child, drop all entries, and the locks that threads of the parent may have held."""
    for kept in _all:
        kept.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_clear_all)
