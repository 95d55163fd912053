"""Stores for paths, URLs and mappings."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

from tegula.errors import MetadataError, StoreError, UnsupportedError
from tegula.stores import LocalStore, MappingStore, Store, ZipStore
from tegula.stores.names import path_of_url
from tegula.stores.zip import zip_store
from tegula.targets.foreign import refuse_foreign
from tegula.targets.paths import local_path, path_text, scheme_of

__all__ = ["abandon", "creating", "store_of"]


def store_of(target: Any, *, read_only: bool = False) -> Store:
    """Return the store for a target: a path, a ``file:`` or ``zip:`` URL, a mapping, or a store itself.

    Parameters
    ----------
    target : str, path, mapping or Store
        A path of a directory or a ``.zip`` archive, which need not exist yet. In text ``~`` at the beginning is the
        home directory; write ``./~x`` for a name that begins with it.
    read_only : bool
        Whether to open the store for reading only.

    Raises
    ------
    UnsupportedError
        If the URL's scheme is not known.
    MetadataError
        If `target` is none of these, or ``~name`` is not the home of a user.

    Examples
    --------
    >>> store_of({"c/0": b"abc"}).get("c/0")
    b'abc'
    """
    if not isinstance(target, str):  # the common case first
        if isinstance(target, Store):
            return target
        if isinstance(target, MutableMapping):
            return MappingStore(target, read_only=read_only)
        if not isinstance(target, os.PathLike):
            raise MetadataError(f"{target!r:.80} is not a path, URL, store or mapping")
    path = path_text(target)
    scheme = scheme_of(path)
    if scheme:
        return _store_of_url(path, scheme[1].lower(), read_only)
    if path.endswith(".zip"):
        return zip_store(path, read_only=read_only)
    try:
        return LocalStore(path, read_only=read_only)
    except StoreError:
        if os.path.isfile(path) and import_module("zipfile").is_zipfile(path):
            return zip_store(path, read_only=read_only)
        refuse_foreign(path)
        raise


def _store_of_url(url: str, scheme: str, read_only: bool) -> Store:
    if scheme == "file":
        return store_of(path_of_url(url), read_only=read_only)
    if scheme == "zip":
        parts = urlsplit(url)
        return zip_store(unquote(parts.netloc + parts.path), read_only=read_only)
    if scheme == "memory":
        raise UnsupportedError("memory can't be opened by name; pass a MemoryStore", path=url)
    raise UnsupportedError(f"no store is known for {scheme}: URLs; pass a mapping or a store of your own", path=url)


@contextmanager
def creating(target: Any) -> Iterator[Store]:
    """Open a store to create a node in; after an error close it, and delete an archive that was created for it."""
    path = local_path(target)
    fresh = path is not None and not os.path.lexists(path)
    store = store_of(target)
    try:
        yield store
    except BaseException:
        abandon(store, target, remove_empty=fresh)
        raise


def abandon(store: Store, target: Any, *, remove_empty: bool = False) -> None:
    """Close a store that was opened by name and that no node uses, so that an archive does not stay locked.

    With `remove_empty` an empty archive is deleted.
    """
    if isinstance(store, ZipStore) and store is not target:
        store._end(remove_empty=remove_empty)
