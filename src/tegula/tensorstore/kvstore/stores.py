"""Stores of tegula for key-value stores: memory, directories, zip archives, and remote storage."""

from __future__ import annotations

import os
from typing import Literal
from weakref import WeakValueDictionary

from tegula.errors import StoreError
from tegula.stores import LocalStore, Store
from tegula.tensorstore.errors import status
from tegula.tensorstore.kvstore.errors import NotDirectoryError
from tegula.tensorstore.kvstore.paths import check_file_key, split_directory
from tegula.tensorstore.kvstore.remote import remote_store
from tegula.tensorstore.kvstore.specs import KvStoreSpec
from tegula.tensorstore.kvstore.zip_keys import ZipKeys
from tegula.tensorstore.memory_keys import MemoryKeys

__all__ = ["store_of"]

_METHODS: dict[str, Literal["stored", "deflated"]] = {"store": "stored", "deflate": "deflated"}
_archives: WeakValueDictionary[tuple[str, str, bool], ZipKeys] = WeakValueDictionary()
_local_stores: WeakValueDictionary[tuple[str, bool], LocalStore] = WeakValueDictionary()


def store_of(spec: KvStoreSpec) -> Store:
    """Return the store of a bound spec; specs of the same directory or archive share it."""
    driver = spec._kind.name
    if driver == "memory":
        memory: MemoryKeys = spec._setting("memory_key_value_store")
        return memory
    if driver in ("s3", "gcs", "http"):
        return remote_store(spec)
    if driver == "zip":
        return _archive_of(spec)
    root = split_directory(spec._path)[0]
    if os.name != "posix" or root[:1] != "/":  # absolute paths are normalized already: they have no `..`
        root = os.path.abspath(root)
    sync: bool = spec._setting("file_io_sync")
    store = _local_stores.get((root, sync))
    if store is None:
        try:
            store = LocalStore(root, durability="fsync" if sync else "rename", follow_symlinks=True)
        except StoreError as error:
            raise NotDirectoryError(root) from error
        _local_stores[root, sync] = store
    return store


def _archive_of(spec: KvStoreSpec) -> Store:
    base = spec._base
    if base is None or base._driver != "file":
        raise status("UNIMPLEMENTED", "zip archives are supported in local files only")
    method = _METHODS.get(spec._option("compression"))
    if method is None:
        raise status("UNIMPLEMENTED", f'"compression" of "{spec._option("compression")}" is not supported')
    path = os.path.abspath(check_file_key(base._path))
    sync: bool = base._setting("file_io_sync")
    archive = _archives.get((path, method, sync))
    if archive is None:
        archive = _archives[path, method, sync] = ZipKeys(path, compression=method, sync=sync)
    return archive
