"""Stores of tegula for key-value stores: memory, directories, zip archives, and remote storage."""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import Any, Final, Literal
from weakref import WeakValueDictionary

from tegula.errors import StoreError
from tegula.stores import LocalStore, Store
from tegula.tensorstore.errors import invalid, status
from tegula.tensorstore.kvstore.paths import NotDirectoryError, check_file_key, split_directory
from tegula.tensorstore.kvstore.specs import GCS, HTTP, S3, KvStoreSpec
from tegula.tensorstore.kvstore.zip_keys import ZipKeys
from tegula.tensorstore.memory_keys import MemoryKeys

__all__ = ["remote_store", "store_of"]

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


_URLS: Final = {"s3": "s3://{bucket}", "gcs": "gs://{bucket}"}
_stores: WeakValueDictionary[str, Store] = WeakValueDictionary()


def remote_store(spec: KvStoreSpec) -> Store:
    """Return the store of a bound spec; specs of the same bucket or server with the same settings share it."""
    kind = spec._kind
    url = spec._option("base_url") if kind is HTTP else _URLS[kind.name].format(bucket=spec._option("bucket"))
    options = _requests(spec)
    if kind is S3:
        options |= _s3_options(spec)
    elif kind is GCS and (project := spec._setting("gcs_user_project").get("project_id")):
        options["default_headers"] = {"x-goog-user-project": project}
    elif kind is HTTP and (headers := spec._option("headers")):
        options["default_headers"] = dict(_header(text) for text in headers)
    name = json.dumps([url, options], sort_keys=True, default=repr)
    store = _stores.get(name)
    if store is None:
        if (profile := options.pop("profile", None)) is not None:
            library = import_module("tegula.stores.objects.options")
            options["credential_provider"] = library.ProfileCredentials(profile)
        # imported here, as most programs need no remote storage
        store = _stores[name] = import_module("tegula.stores.objects.urls").open_url(url, options)
    return store


def _requests(spec: KvStoreSpec) -> dict[str, Any]:
    """Return the options for the number of concurrent requests and for retries."""
    options: dict[str, Any] = {"retries": spec._setting(f"{spec._driver}_request_retries")["max_retries"]}
    limit = spec._setting(f"{spec._driver}_request_concurrency")["limit"]
    if limit != "shared":
        options["concurrency"] = limit
    return options


def _s3_options(spec: KvStoreSpec) -> dict[str, Any]:
    if spec._option("host_header") is not None:
        raise status("UNIMPLEMENTED", '"host_header" is not supported')
    if spec._option("use_conditional_write") is False:
        text = "tegula finds out itself whether the storage supports conditional writes"
        raise status("UNIMPLEMENTED", f'"use_conditional_write": false is not supported; {text}')
    settings = {"endpoint": spec._option("endpoint"), "region": spec._option("aws_region")}
    options: dict[str, Any] = {name: value for name, value in settings.items() if value}
    if spec._option("requester_pays"):
        options["request_payer"] = True
    credentials = spec._setting("aws_credentials")
    kind = credentials.get("type", "default")
    if kind == "anonymous":
        options["anonymous"] = True
    elif kind == "profile":
        options["profile"] = credentials.get("profile") or "default"
    elif kind not in ("default", "environment", "imds", "ecs"):
        raise invalid(f'Error parsing object member "aws_credentials": unknown type {kind!r}')
    return options


def _header(text: str) -> tuple[str, str]:
    name, _, value = text.partition(":")
    return name.strip(), value.strip()
