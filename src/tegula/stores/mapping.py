"""A store over any mutable mapping of keys to bytes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, MutableMapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from tegula.errors import StoreError, TegulaError
from tegula.stores.arguments import ABSENT, ByteRange, Generation, check_key, check_prefix, is_key
from tegula.stores.capabilities import Locking
from tegula.stores.single_writer import KeyLocks, SingleWriterStore, digest, locks_of

__all__ = ["MappingStore"]

_LARGE = 1 << 12  # digests of shorter values are computed about as fast as they are looked up
_MAX_DIGESTS = 32


class _Shared(KeyLocks):
    """The state that all stores over one mapping share: locks, and values with their digests."""

    def __init__(self) -> None:
        super().__init__(1)
        self.digests: dict[str, tuple[bytes, Generation]] = {}

    def renew(self) -> None:
        super().renew()
        self.writer = threading.RLock()


class MappingStore(Locking, SingleWriterStore):
    """Any ``MutableMapping`` with text keys and bytes-like values: a ``dict``, a shelf, a store of another library.

    A ``KeyError`` of the mapping means that a key is missing; any other exception is raised as `StoreError`. Keys of
    the mapping that are not valid keys of a store are not listed.

    If the mapping itself buffers values, `flush` calls its ``flush()`` or ``sync()``. `close` flushes and leaves
    the mapping open.

    A generation is a digest of the value. Conditional writes are atomic between the threads of a process, even if they
    use different stores over the mapping, but not between processes (`single_writer`).

    Parameters
    ----------
    mapping : MutableMapping
        The mapping that holds the values. Arrays and memoryviews in it are read as their bytes; `bytes` are written.
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

    in_memory = True
    visits_all_keys = True

    def __init__(self, mapping: MutableMapping[str, Any], *, read_only: bool = False) -> None:
        if not hasattr(mapping, "__getitem__") or not hasattr(mapping, "keys"):
            raise StoreError(f"a MappingStore needs a mapping, not {type(mapping).__name__}")
        self._shared = locks_of(mapping, _Shared)
        super().__init__(read_only=read_only, locks=self._shared)
        self.mapping = mapping

    def read(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        """Return the value of a key in the mapping, as bytes; see `SingleWriterStore.read`."""
        return self.ranged(self._value(key), byte_range)

    def write(self, key: str, value: bytes) -> None:
        """Put a value into the mapping."""
        try:
            self.mapping[key] = value
        except Exception as error:
            raise self._failure("write", key, error) from error

    def remove(self, key: str) -> None:
        """Remove a key from the mapping if it is there."""
        try:
            del self.mapping[key]
            self._shared.digests.pop(key, None)
        except KeyError:
            return
        except Exception as error:
            raise self._failure("delete", key, error) from error

    def lock(self, key: str) -> AbstractContextManager[bool]:
        """Lock out other threads, whatever their key, since equal values have equal generations here; see `Locking`."""
        check_key(key)
        return self._shared.writer

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        check_prefix(prefix)
        try:
            with self._shared.of(prefix):
                names = [*self.mapping]
        except Exception as error:
            raise self._failure("list", prefix, error) from error
        return (name for name in names if is_key(name) and name.startswith(prefix))

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        value = self._value(check_key(key))
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
        """Call the mapping's own ``flush()``, or ``sync()`` as a shelf has, if it has one.

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
        """A name for messages that identifies the mapping; it can't be opened."""
        return f"mapping://{type(self.mapping).__name__}-{id(self.mapping):x}"

    @property
    def is_private(self) -> bool:
        """Whether the mapping is a plain ``dict``; the values of any other may be anywhere."""
        return type(self.mapping) is dict

    @property
    def identity(self) -> object:
        """The state that all stores over the mapping share."""
        return self._shared

    def _value(self, key: str) -> bytes | None:
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

    def _generation(self, key: str, value: bytes | None) -> Generation:
        if value is None:
            return ABSENT
        digests = self._shared.digests
        known = digests.get(key)
        if known is not None and known[0] is value:
            return known[1]
        generation = digest(value)
        # Remembered only for an object that the mapping itself holds, since it then returns the same object again.
        held: object = dict.get(self.mapping, key) if isinstance(self.mapping, dict) else None
        if held is value and len(value) >= _LARGE:
            if len(digests) >= _MAX_DIGESTS:
                digests.clear()
            digests[key] = value, generation
        return generation

    def _failure(self, action: str, key: str, error: Exception) -> StoreError:
        return StoreError(f"{self!r} failed to {action}: {type(error).__name__}: {error}", key=key)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), read_only=self.read_only), (self.mapping,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.mapping).__name__})"
