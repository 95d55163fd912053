"""A store whose values are in memory."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from tegula.errors import ReadOnlyError
from tegula.runtime.deferred import after_fork
from tegula.stores.arguments import (
    ABSENT,
    ByteRange,
    BytesLike,
    Generation,
    changed,
    check_key,
    check_prefix,
    clip_range,
    flat_view,
)
from tegula.stores.capabilities import StateListing
from tegula.stores.interface import Store
from tegula.stores.key_tree import KeyTree

__all__ = ["MemoryStore"]

next_generation = itertools.count(1).__next__
"""Return the generation for the next value of any memory store."""


class MemoryStore(StateListing, Store):
    """Values in memory, for tests and for arrays that need not outlive the process.

    Pickling a store includes its values; the copy is independent of the original.

    Parameters
    ----------
    contents : mapping of str to bytes-like, optional
        Initial values; they are copied.
    read_only : bool
        Whether `set` and `delete` raise `ReadOnlyError`.

    Raises
    ------
    StoreError
        If a key or a value of `contents` is not valid.

    Examples
    --------
    >>> store = MemoryStore({"zarr.json": b"{}"})
    >>> store.get("zarr.json"), store.get("c/0")
    (b'{}', None)
    >>> store.set("c/0", b"abcdef") is not None
    True
    >>> store.get("c/0", (1, 3)), sorted(store.list())
    (b'bcd', ['c/0', 'zarr.json'])
    """

    in_memory = True
    _check_key = staticmethod(check_key)

    def __init__(self, contents: Mapping[str, BytesLike] | None = None, *, read_only: bool = False) -> None:
        self.read_only = read_only
        self.changes = next_generation()
        self._lock = threading.Lock()
        _stores.add(self)
        self._values: dict[str, tuple[bytes, Generation]] = {}
        for key, value in (contents or {}).items():
            self._values[self._check_key(key)] = (bytes(flat_view(value, key)), next_generation())
        self._tree: KeyTree | None = None  # made by the first listing

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        entry = self._values.get(key) if type(key) is str else None
        if entry is None:
            self._check_key(key)
        value, generation = entry or (None, ABSENT)
        if value is not None and byte_range is not None:
            start, stop = clip_range(byte_range, len(value))
            value = value[start:stop]
        return (value, generation) if with_generation else value

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key`, replacing the old value in one step, and return its generation."""
        self._check_writable(key)
        data = bytes(flat_view(value, key))
        with self._lock:
            self._check_generation(key, if_generation)
            generation: Generation = next_generation()
            if self._tree is not None and key not in self._values:
                self._tree.add(key)
            self._values[key] = (data, generation)
            self.changes = next_generation()
        return generation

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it exists; raises as `set` does."""
        self._check_writable(key)
        with self._lock:
            self._check_generation(key, if_generation)
            entry = self._values.pop(key, None)
            self.changes = next_generation()
            if entry is not None and self._tree is not None:
                self._tree.discard(key)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        check_prefix(prefix)
        with self._lock:
            return iter(self._listed().keys(prefix))

    def list_states(self, prefix: str) -> Iterator[tuple[str, int, int]]:
        """Yield every key that starts with `prefix`, the length and the state of its value; see `StateListing`."""
        entries = ((key, self._values.get(key)) for key in self.list_prefix(prefix))
        return ((key, len(entry[0]), self.state_of(entry[1])) for key, entry in entries if entry is not None)

    def state_of(self, generation: Generation) -> int:
        """Return the state of a value that has this generation: its number."""
        return generation if type(generation) is int else 0

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) directly below `prefix`, each sorted."""
        check_prefix(prefix)
        with self._lock:
            return self._listed().children(prefix)

    def _listed(self) -> KeyTree:
        if self._tree is None:
            self._tree = KeyTree(self._values)
        return self._tree

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        entry = self._values.get(self._check_key(key))
        return None if entry is None else len(entry[0])

    @property
    def url(self) -> str:
        """A name for messages that identifies this object; it can't be opened."""
        return f"memory://{id(self):x}"

    def _check_writable(self, key: str) -> None:
        self._check_key(key)
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=key)

    def _check_generation(self, key: str, expected: Generation | None) -> None:
        if expected is not None and self._values.get(key, (None, ABSENT))[1] != expected:
            raise changed(key)

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            contents = {key: value for key, (value, _) in self._values.items()}
        return partial(type(self), read_only=self.read_only), (contents,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._values)} keys)"


_stores: weakref.WeakSet[MemoryStore] = weakref.WeakSet()


@after_fork
def _free_locks() -> None:
    """In a forked child, free the locks of the parent's threads, which do not exist here."""
    for store in _stores:
        store._lock = threading.Lock()
