"""A memory store whose keys may be any text, even text that can't be the name of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tegula.errors import StoreError
from tegula.stores.arguments import Generation, split_children
from tegula.stores.memory import MemoryStore, next_generation

__all__ = ["MemoryKeys"]


def _any_text(key: Any) -> str:
    """Return a key or prefix if it is text."""
    if not isinstance(key, str):
        raise StoreError(f"a key must be text, not {type(key).__name__}")
    return key


class MemoryKeys(MemoryStore):
    """A `MemoryStore` whose keys and prefixes may be any text, and in which several keys can change in one step.

    Examples
    --------
    >>> store = MemoryKeys()
    >>> store.change({"": (b"1", None), "a//b": (b"2", None)})
    >>> sorted(store.list_prefix("a/")), store.get("")
    (['a//b'], b'1')
    """

    _check_key = staticmethod(_any_text)

    def change(self, changes: Mapping[str, tuple[bytes | None, Generation | None]]) -> None:
        """Set or delete several keys, if each has its expected generation; a reader sees all changes or none."""
        with self._lock:
            for key, (_, expected) in changes.items():
                self._check_generation(key, expected)
            values = dict(self._values)
            for key, (value, _) in changes.items():
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = (value, next_generation())
            self._values = values

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        start = _any_text(prefix)
        with self._lock:
            keys = [*self._values]
        return (key for key in keys if key.startswith(start))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) directly below `prefix`, each sorted."""
        return split_children(self.list_prefix(prefix), prefix)
