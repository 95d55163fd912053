"""The values that are kept in memory: any text may be a key, also what no file could be called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tegula.stores import ABSENT, ByteRange, Generation, MemoryStore
from tegula.stores.interface import BytesLike, clip_range, flat_view, split_children
from tegula.stores.memory import _next_generation

__all__ = ["MemoryKeys"]


class MemoryKeys(MemoryStore):
    """A `MemoryStore` whose keys and prefixes may be any text, and in which several keys can change in one step.

    Examples
    --------
    >>> store = MemoryKeys()
    >>> store.change({"": (b"1", None), "a//b": (b"2", None)})
    >>> sorted(store.list_prefix("a/")), store.get("")
    (['a//b'], b'1')
    """

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        value, generation = self._values.get(key, (None, ABSENT))
        if value is not None and byte_range is not None:
            start, stop = clip_range(byte_range, len(value))
            value = value[start:stop]
        return (value, generation) if with_generation else value

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key`, replacing the old value in one step, and return its generation."""
        data = value if type(value) is bytes else bytes(flat_view(value, key))
        with self._lock:
            self._check_generation(key, if_generation)
            generation: Generation = _next_generation()
            self._values[key] = (data, generation)
        return generation

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it exists; raises as `set` does."""
        with self._lock:
            self._check_generation(key, if_generation)
            self._values.pop(key, None)

    def change(self, changes: Mapping[str, tuple[bytes | None, Generation | None]]) -> None:
        """Set or delete several keys in one step that no reader sees the half of.

        Parameters
        ----------
        changes : mapping of str to (bytes or None, generation or None)
            The new value of each key, ``None`` to delete it, and the generation it must have before.

        Raises
        ------
        ConflictError
            If one has another generation; then nothing is changed.
        """
        with self._lock:
            for key, (_, expected) in changes.items():
                self._check_generation(key, expected)
            values = dict(self._values)
            for key, (value, _) in changes.items():
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = (value, _next_generation())
            self._values = values

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        with self._lock:
            keys = [*self._values]
        return (key for key in keys if key.startswith(prefix))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) that stand directly below `prefix`, each sorted."""
        return split_children(self.list_prefix(prefix), prefix)

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        found = self._values.get(key)
        return None if found is None else len(found[0])

    def obstruction(self, key: str) -> str | None:
        """Nothing keeps a key from counting as absent."""
        return None

    def make_prefix(self, prefix: str) -> None:
        """There are no directories."""
