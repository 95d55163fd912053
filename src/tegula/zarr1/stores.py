"""The stores of zarr 1.x: any mapping of keys to bytes, and a directory as a mapping."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from typing import Any

from tegula.errors import NotFoundError
from tegula.stores import LocalStore, MappingStore, Store
from tegula.stores.arguments import is_key
from tegula.stores.targets.opening import store_of
from tegula.zarr1.errors import DirectoryError, ValueTypeError

__all__ = ["DirectoryStore", "as_store"]


class DirectoryStore(MutableMapping[str, bytes]):
    """The files of a directory as a mapping of keys to bytes. Readers see only complete values.

    Parameters
    ----------
    path : str or path-like
        The directory, which must exist.

    Raises
    ------
    ValueError
        If it does not exist or is not a directory.

    Examples
    --------
    >>> import tempfile
    >>> root = tempfile.TemporaryDirectory()
    >>> store = DirectoryStore(root.name)
    >>> store["0.0"] = b"abc"
    >>> store["0.0"], list(store), store.size
    (b'abc', ['0.0'], 3)
    >>> "0.1" in store
    False
    >>> root.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        root = os.path.abspath(os.fspath(path))
        if not os.path.isdir(root):
            reason = "is not a directory" if os.path.lexists(root) else "does not exist; create it with os.makedirs"
            raise DirectoryError(f"the path of the store {reason}", path=root)
        self._local = LocalStore(root)

    @classmethod
    def _at(cls, path: str | os.PathLike[str]) -> DirectoryStore:
        """Return a store whose first write creates a missing directory."""
        store = cls.__new__(cls)
        store._local = LocalStore(path)
        return store

    @property
    def path(self) -> str:
        """The absolute path of the directory."""
        return self._local.root

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return sum(self._local.size(key) or 0 for key in self._local.list())

    def __getitem__(self, key: str) -> bytes:
        value: bytes | None = self._local.get(key) if is_key(key) else None
        if value is None:
            raise NotFoundError("there is no value", key=key)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        try:
            memoryview(value)
        except TypeError as error:
            raise ValueTypeError(f"a value must be bytes, not {type(value).__name__}", key=key) from error
        self._local.set(key, value)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise NotFoundError("there is no value", key=key)
        self._local.delete(key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and is_key(key) and self._local.exists(key)

    def __iter__(self) -> Iterator[str]:
        return self._local.list()

    def __len__(self) -> int:
        return sum(1 for _ in self._local.list())

    def clear(self) -> None:
        """Remove all values."""
        self._local.delete_prefix("")

    def __repr__(self) -> str:
        return f"DirectoryStore({self.path!r})"


def as_store(target: Any) -> Store:
    """Convert a store of zarr 1.x, a path or a tegula store to a tegula store.

    Examples
    --------
    >>> as_store({})
    MappingStore(dict)
    """
    if type(target) is DirectoryStore:  # a subclass may override methods: it is used as a mapping
        return target._local
    if isinstance(target, (Store, str, os.PathLike)):
        return store_of(target)
    return MappingStore(target)
