"""A store over any mutable mapping of keys to bytes."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, MutableMapping
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

from tegula.errors import ConflictError, ReadOnlyError, StoreError, TegulaError
from tegula.stores.interface import (
    ABSENT,
    ByteRange,
    BytesLike,
    Generation,
    Store,
    check_key,
    check_prefix,
    clip_range,
    flat_view,
    is_key,
    split_children,
)

__all__ = ["MappingStore"]

_LARGE = 1 << 12  # shorter values are digested about as fast as they are looked up
_MAX_DIGESTS = 32


class _Shared:
    """What all stores over one mapping share: the lock, and digests of values together with the values."""

    __slots__ = ("__weakref__", "digests", "lock", "turn")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.turn = threading.RLock()
        self.digests: dict[str, tuple[bytes, Generation]] = {}


# One for each mapping in use. A store holds its mapping, so an id is not used again while what belongs to it is alive.
_shared: weakref.WeakValueDictionary[int, _Shared] = weakref.WeakValueDictionary()
_shared_lock = threading.Lock()


def _free_locks() -> None:
    """In a forked child, free the locks that threads of the parent held: they do not exist here."""
    global _shared_lock
    _shared_lock = threading.Lock()
    for shared in _shared.values():
        shared.lock = threading.Lock()
        shared.turn = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_free_locks)


class MappingStore(Store):
    """Any ``MutableMapping`` with text keys and bytes-like values: a ``dict``, a shelf, a store of another library.

    A ``KeyError`` of the mapping means that a key is missing; any other exception surfaces as `StoreError`. Keys of the
    mapping that are no valid keys of a store are not listed.

    Where the mapping itself keeps values back, `flush` calls its ``flush()`` or ``sync()``. `close` flushes and leaves
    the mapping open: it is its maker who closes it.

    A generation is a digest of the value, and conditional writes are atomic between the threads of a process, through
    however many stores they share a mapping. Between processes they are not: a mapping has no means for that.

    Parameters
    ----------
    mapping : MutableMapping
        Where the values are kept. Arrays and memoryviews found in it count as their bytes; `bytes` are put into it.
    read_only : bool
        Whether `set` and `delete` raise `ReadOnlyError`.

    Examples
    --------
    >>> contents = {"0.0": b"abc"}
    >>> store = MappingStore(contents)
    >>> generation = store.set("0.1", b"xyz")
    >>> store.get("0.0"), contents["0.1"]
    (b'abc', b'xyz')
    """

    def __init__(self, mapping: MutableMapping[str, Any], *, read_only: bool = False) -> None:
        if not hasattr(mapping, "__getitem__") or not hasattr(mapping, "keys"):
            raise StoreError(f"a MappingStore needs a mapping, not {type(mapping).__name__}")
        import_module("hashlib")  # here, and not in a thread that makes the first digest while another one forks
        self.mapping = mapping
        self.read_only = read_only
        self._shared = _shared_of(mapping)

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        value = self._read(check_key(key))
        generation = self._generation(key, value) if with_generation else None
        if value is not None and byte_range is not None:
            start, stop = clip_range(byte_range, len(value))
            value = value[start:stop]
        return (value, generation) if with_generation else value

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key` and return its generation; see `Store.set`."""
        self._check_writable(key)
        data = bytes(flat_view(value, key))
        with self._shared.lock:
            self._check_generation(key, if_generation)
            try:
                self.mapping[key] = data
            except Exception as error:
                raise self._failure("write", key, error) from error
        return self._generation(key, data)

    def turn(self, key: str) -> AbstractContextManager[bool]:
        """Keep other threads waiting, whatever their key: equal values have one generation here; see `Store.turn`."""
        check_key(key)
        return self._shared.turn

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it exists; raises as `set` does."""
        self._check_writable(key)
        with self._shared.lock:
            self._check_generation(key, if_generation)
            try:
                del self.mapping[key]
                self._shared.digests.pop(key, None)
            except KeyError:
                return
            except Exception as error:
                raise self._failure("delete", key, error) from error

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        check_prefix(prefix)
        try:
            with self._shared.lock:
                names = [*self.mapping]
        except Exception as error:
            raise self._failure("list", prefix, error) from error
        return (name for name in names if is_key(name) and name.startswith(prefix))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) that stand directly below `prefix`, each sorted."""
        return split_children(self.list_prefix(prefix), prefix)

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        value = self._read(check_key(key))
        return None if value is None else len(value)

    def exists(self, key: str) -> bool:
        """Return whether `key` has a value."""
        try:
            return check_key(key) in self.mapping
        except TegulaError:
            raise
        except Exception as error:
            raise self._failure("look up", key, error) from error

    def flush(self) -> None:
        """Call the mapping's own ``flush()``, or ``sync()`` as of a shelf, if it has one.

        Raises
        ------
        StoreError
            If that fails.
        """
        flush = getattr(self.mapping, "flush", None) or getattr(self.mapping, "sync", None)
        if not callable(flush) or self.read_only:
            return
        try:
            flush()
        except Exception as error:
            raise StoreError(f"{self!r} failed to flush: {type(error).__name__}: {error}") from error

    @property
    def url(self) -> str:
        """A name for messages; it says which mapping this is and can't be opened."""
        return f"mapping://{type(self.mapping).__name__}-{id(self.mapping):x}"

    def _read(self, key: str) -> bytes | None:
        try:
            value = self.mapping[key]
        except KeyError:
            return None
        except Exception as error:
            raise self._failure("read", key, error) from error
        if type(value) is bytes:
            return value
        try:
            return memoryview(value).tobytes("A")  # in memory order, as zarr 2 left Fortran-ordered arrays in a dict
        except (TypeError, ValueError, BufferError) as error:
            raise StoreError(f"the mapping holds a {type(value).__name__}, not bytes", key=key) from error

    def _check_writable(self, key: str) -> None:
        check_key(key)
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=key)

    def _check_generation(self, key: str, expected: Generation | None) -> None:
        if expected is not None and self._generation(key, self._read(key)) != expected:
            raise ConflictError("the value has changed since it was read", key=key)

    def _generation(self, key: str, value: bytes | None) -> Generation:
        if value is None:
            return ABSENT
        digests = self._shared.digests
        known = digests.get(key)
        if known is not None and known[0] is value:
            return known[1]
        generation = _digest(value)
        # Noted only of what the mapping itself holds: it will return the same object, and keeps it alive anyway.
        held: object = dict.get(self.mapping, key) if isinstance(self.mapping, dict) else None
        if held is value and len(value) >= _LARGE:
            if len(digests) >= _MAX_DIGESTS:
                digests.clear()
            digests[key] = value, generation
        return generation

    def _failure(self, action: str, key: str, error: Exception) -> StoreError:
        return StoreError(f"{self!r} failed to {action}: {type(error).__name__}: {error}", key=key)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self.mapping, self.read_only)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.mapping).__name__})"


def _reopen(kind: type[MappingStore], mapping: MutableMapping[str, Any], read_only: bool) -> MappingStore:
    return kind(mapping, read_only=read_only)


def _shared_of(mapping: object) -> _Shared:
    with _shared_lock:
        shared = _shared.get(id(mapping))
        if shared is None:
            shared = _shared[id(mapping)] = _Shared()
        return shared


def _digest(value: bytes) -> Generation:
    digest: bytes = import_module("hashlib").blake2b(value, digest_size=16).digest()
    return digest
