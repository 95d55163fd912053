"""Stores of other libraries as targets: obstore, fsspec, zarr-python. None of them is imported to recognise them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, MutableMapping
from importlib import import_module
from typing import Any, Final

from tegula.stores import LocalStore, Store
from tegula.stores.zip.store import zip_store

__all__ = ["store_of_library"]


def store_of_library(target: Any, *, read_only: bool) -> Store | None:
    """Return a store of tegula for a view, or a store of another library over the same storage; otherwise ``None``.

    Parameters
    ----------
    target : object
        A view, a store of obstore, a file system or mapper of fsspec, a store or store path of zarr-python 3, or a
        store of zarr-python 2. If tegula has a store for the storage, that is used directly, with tegula's own
        guarantees; any other store of zarr-python 3 is called through its methods.
    read_only : bool
        Whether to open the store for reading only; it also is if `target` is.

    Raises
    ------
    StoreError
        If the storage can't be opened.

    Examples
    --------
    >>> import fsspec
    >>> store_of_library(fsspec.filesystem("memory"), read_only=False)
    FsspecStore('memory://')
    >>> store_of_library({}, read_only=False) is None
    True
    """
    kind = type(target)
    if kind.__module__ == "builtins":  # the common case first
        return None
    if hasattr(target, "as_store"):  # a view of arrays
        made: Store = target.as_store()
        return made
    names = [(base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__]
    if names[0][0] == "obstore":
        return _object_store(target, "", read_only)
    adapt = next((adapt for base, adapt in _ADAPTERS.items() if base in names), None)
    return None if adapt is None else adapt(target, read_only)


def _object_store(target: Any, prefix: str, read_only: bool) -> Store:
    store: Store = import_module("tegula.stores.objects.store").ObjectStore(target, prefix, read_only=read_only)
    return store


def _of_file_system(target: Any, read_only: bool, root: str = "") -> Store:
    store: Store = import_module("tegula.stores.fsspec.urls").store_for(target, root, read_only=read_only)
    return store


def _of_mapper(target: Any, read_only: bool) -> Store:
    return _of_file_system(target.fs, read_only, target.root)


# --- zarr-python 3


def _of_tegula(target: Any, read_only: bool) -> Store | None:
    """Return the store inside a store of `tegula.zarr`; ``None`` for other stores of zarr-python."""
    store: Store = target.store
    if target.path or (target.read_only and not store.read_only):
        return _of_zarr(target, read_only)
    return store


def _of_zarr(target: Any, read_only: bool, path: str = "") -> Store | None:
    if isinstance(target, MutableMapping):  # a store of zarr-python 2
        return None
    read_only = read_only or bool(target.read_only)
    kind = type(target)  # a subclass may override methods: it is used through them
    known = kind.__module__.startswith("zarr.storage.")
    if known and kind.__name__ == "LocalStore":
        return LocalStore(os.path.join(target.root, path) if path else target.root, read_only=read_only)
    if known and kind.__name__ == "FsspecStore":
        root = f"{target.path.rstrip('/')}/{path}" if path else target.path
        return _of_file_system(target.fs, read_only, root)
    if known and kind.__name__ == "ObjectStore":
        return _object_store(target.store, path, read_only)
    if known and kind.__name__ == "ZipStore" and target.read_only and not path:
        return zip_store(str(target.path), read_only=True)
    store: Store = import_module("tegula.stores.zarr_python").ZarrPythonStore(target, path, read_only=read_only)
    return store


def _of_store_path(target: Any, read_only: bool) -> Store | None:
    return _of_zarr(target.store, read_only, target.path.strip("/"))


# --- zarr-python 2, whose other stores are mappings like any other


def _of_directory(target: Any, read_only: bool) -> Store | None:
    if type(target).__name__ != "DirectoryStore" or getattr(target, "normalize_keys", False):
        return None  # keys of chunks have other names there
    return LocalStore(target.path, read_only=read_only)


def _of_fs_store(target: Any, read_only: bool) -> Store | None:
    if type(target).__name__ != "FSStore" or target.normalize_keys or target.key_separator != ".":
        return None
    return _of_file_system(target.fs, read_only or target.mode == "r", target.path)


_ADAPTERS: Final[Mapping[tuple[str, str], Callable[[Any, bool], Store | None]]] = {
    ("tegula", "TegulaStore"): _of_tegula,
    ("fsspec", "AbstractFileSystem"): _of_file_system,
    ("fsspec", "FSMap"): _of_mapper,
    ("zarr", "StorePath"): _of_store_path,
    ("zarr", "DirectoryStore"): _of_directory,
    ("zarr", "FSStore"): _of_fs_store,
    ("zarr", "Store"): _of_zarr,
}
"""Functions that convert a store of another library, by the package and name of its class or of a base class."""
