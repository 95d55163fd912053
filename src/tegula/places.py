"""Where nodes are: stores behind paths, URLs and mappings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

from tegula.errors import MetadataError, StoreError, UnsupportedError
from tegula.stores import LocalStore, MappingStore, Store, ZipStore
from tegula.stores.names import path_of_url

__all__ = ["clean", "creating", "local_path", "place", "store_of"]

_scheme = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):").match  # one letter is a drive of Windows


def store_of(target: Any, *, read_only: bool = False) -> Store:
    """Return the store that a path, a ``file:`` or ``zip:`` URL, a mapping or a store stands for.

    Parameters
    ----------
    target : str, path, mapping or Store
        A path to a directory or to a ``.zip`` archive, which need not exist yet.
    read_only : bool
        Whether the store is only read.

    Raises
    ------
    UnsupportedError
        If the URL's scheme is not known.
    MetadataError
        If `target` is none of these.

    Examples
    --------
    >>> store_of({"c/0": b"abc"}).get("c/0")
    b'abc'
    """
    if not isinstance(target, str):  # most are text, and telling the others apart takes longer
        if isinstance(target, Store):
            return target
        if isinstance(target, MutableMapping):
            return MappingStore(target, read_only=read_only)
        if not isinstance(target, os.PathLike):
            raise MetadataError(f"{target!r:.80} is no path, URL, store or mapping")
    path = os.fspath(target)
    if not isinstance(path, str):
        path = os.fsdecode(path)
    scheme = _scheme(path)
    if scheme:
        return _store_of_url(path, scheme[1].lower(), read_only)
    if path.endswith(".zip"):
        return _zip_store(path, read_only)
    try:
        return LocalStore(path, read_only=read_only)
    except StoreError:
        if os.path.isfile(path) and import_module("zipfile").is_zipfile(path):
            return _zip_store(path, read_only)
        raise


def _store_of_url(url: str, scheme: str, read_only: bool) -> Store:
    if scheme == "file":
        return store_of(path_of_url(url), read_only=read_only)
    if scheme == "zip":
        parts = urlsplit(url)
        return _zip_store(unquote(parts.netloc + parts.path), read_only)
    if scheme == "memory":
        raise UnsupportedError("memory is no place to open by name; pass a MemoryStore", path=url)
    raise UnsupportedError(f"no store is known for {scheme}: URLs; pass a mapping or a store of your own", path=url)


def _zip_store(path: str, read_only: bool) -> Store:
    return ZipStore(path, mode="r" if read_only else "a")


def local_path(target: Any) -> str | None:
    """Return the path that a target is on this machine's file system, if it is one."""
    if not isinstance(target, (str, os.PathLike)):
        return None
    path = os.fsdecode(target)
    scheme = _scheme(path)
    if scheme is None:
        return path
    if scheme[1].lower() == "zip":
        parts = urlsplit(path)
        return unquote(parts.netloc + parts.path)
    return path_of_url(path) if scheme[1].lower() == "file" else None


@contextmanager
def creating(target: Any) -> Iterator[Store]:
    """Open a store to create something in; if that fails, an archive that was made for it goes again."""
    path = local_path(target)
    fresh = path is not None and not os.path.lexists(path)
    store = store_of(target)
    try:
        yield store
    except BaseException:
        if store is not target and isinstance(store, ZipStore):
            empty = fresh and next(iter(store.list()), None) is None
            store.close()
            if empty and path is not None:
                with suppress(OSError):
                    os.unlink(path)
        raise


def clean(path: str) -> str:
    """Return a path in a store, without slashes around it."""
    if not isinstance(path, str):
        raise MetadataError(f"a path in a store must be text, not {path!r:.80}")
    return path.strip("/")


def place(store: Store, path: str) -> str:
    """Return what errors call the place of a node."""
    return f"{store.url}/{path}" if path else store.url
