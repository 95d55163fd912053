"""The values of zarr-python's `MemoryStore` as a store of tegula."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from zarr.core.buffer import cpu

from tegula.errors import ConflictError
from tegula.stores import ABSENT, ByteRange, Generation, Store
from tegula.stores.arguments import clip_range, flat_view

if TYPE_CHECKING:
    from collections.abc import MutableMapping

__all__ = ["MemoryBuffers"]


class _State:
    """The generation of a buffer, which keeps the buffer alive: two are equal if the buffer is the same object."""

    __slots__ = ("_buffer",)

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _State) and self._buffer is other._buffer

    def __hash__(self) -> int:
        return id(self._buffer)


class MemoryBuffers(Store):
    """A store over a mapping of keys to buffers; values are read without a copy.

    Conditions hold between the writers that use this object.

    Parameters
    ----------
    buffers : MutableMapping
        The mapping of a `zarr.storage.MemoryStore`.

    Examples
    --------
    >>> store = MemoryBuffers({})
    >>> old = store.set("a", b"abc")
    >>> bytes(store.get("a", (1, None)))
    b'bc'
    """

    single_writer = True
    in_memory = True
    visits_all_keys = True

    def __init__(self, buffers: MutableMapping[str, Any]) -> None:
        self._buffers = buffers
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The name that zarr-python gives the store."""
        return f"memory://{id(self._buffers)}"

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return a view of the value of `key`, or of a range of it, or ``None``; see `Store.get`."""
        buffer = self._buffers.get(key)
        if buffer is None:
            return (None, ABSENT) if with_generation else None
        value = flat_view(buffer.as_numpy_array(), key).toreadonly()
        if byte_range is not None:
            value = value[slice(*clip_range(byte_range, len(value)))]
        return (value, _State(buffer)) if with_generation else value

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        buffer = self._buffers.get(key)
        return None if buffer is None else len(buffer)

    def set(self, key: str, value: Any, *, if_generation: Generation | None = None) -> Generation:
        """Store a copy of `value`; see `Store.set`."""
        made = cpu.Buffer.from_bytes(value if type(value) is bytes else bytes(flat_view(value, key)))
        with self._lock:
            self._compare(key, if_generation)
            self._buffers[key] = made
        return _State(made)

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it exists; see `Store.delete`."""
        with self._lock:
            self._compare(key, if_generation)
            self._buffers.pop(key, None)

    def _compare(self, key: str, expected: Generation | None) -> None:
        if expected is None:
            return
        buffer = self._buffers.get(key)
        if (ABSENT if buffer is None else _State(buffer)) != expected:
            raise ConflictError("the value has changed since it was read", key=key)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`."""
        return (key for key in [*self._buffers] if key.startswith(prefix))
