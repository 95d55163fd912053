"""Stores of tegula for key-value stores: memory, directories, zip archives, and remote storage."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Literal
from weakref import WeakValueDictionary

from tegula.errors import NotFoundError, StoreError
from tegula.runtime.frozen import computed
from tegula.stores import LocalStore, Store
from tegula.stores.arguments import ABSENT, ByteRange, BytesLike, Generation, check_generation, flat_view
from tegula.stores.memory import MemoryStore
from tegula.stores.names import file_url
from tegula.stores.zip.store import ZipStore
from tegula.tensorstore.context import MemoryKeys
from tegula.tensorstore.errors import invalid, status
from tegula.tensorstore.kvstore.specs import KvStoreSpec, NotDirectoryError, check_file_key, split_directory

__all__ = ["ZipKeys", "store_of"]

_NOTHING = MemoryStore(read_only=True)
"""The contents of an archive that does not exist."""


class ZipKeys(Store):
    """A zip archive that is open only during each operation; a missing archive counts as empty.

    Each change is committed before the operation returns; with `sync`, it is on the disk then. Changing many keys at
    once with `change` appends only one new directory to the archive.
    """

    def __init__(self, path: str, *, compression: Literal["stored", "deflated"], sync: bool) -> None:
        self._path = path
        self._compression: Literal["stored", "deflated"] = compression
        self._sync = sync
        self._lock = threading.RLock()
        self._repeats: dict[str, int] = {}
        self._opened: tuple[tuple[int, ...], ZipStore] | None = None

    url: str = computed(lambda keys: file_url(keys._path), "The archive as a URL.")

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        with self._lock:
            archive = self._archive()
            if not with_generation:
                return archive.get(key, byte_range)
            value, generation = archive.get(key, byte_range, with_generation=True)
            return value, self._fresh(key, generation)

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        with self._lock:
            self.change({key: (bytes(flat_view(value, key)), if_generation)})
            generation: Generation = self.get(key, (0, 0), with_generation=True)[1]
            return generation

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        with self._lock:
            if if_generation is not None or self.size(key) is not None:
                self.change({key: (None, if_generation)})

    def change(self, changes: Mapping[str, tuple[bytes | None, Generation | None]]) -> None:
        """Set or delete several keys in one commit of the archive."""
        durability: Literal["fsync", "write"] = "fsync" if self._sync else "write"
        with self._lock:
            self._close()
            with ZipStore(self._path, "a", compression=self._compression, durability=durability) as archive:
                before = {key: archive.get(key, (0, 0), with_generation=True)[1] for key in changes}
                for key, (_, expected) in changes.items():
                    check_generation(key, self._fresh(key, before[key]), expected)
                for key, (value, _) in changes.items():
                    if value is None:
                        archive.delete(key)
                    else:
                        archive.set(key, value)
            self._count_repeats(before)

    def _count_repeats(self, before: Mapping[str, Generation]) -> None:
        """Count equal values that commits have put at the same offset, so that their generations differ."""
        archive = self._archive()
        for key, old in before.items():
            if old != ABSENT and archive.get(key, (0, 0), with_generation=True)[1] == old:
                self._repeats[key] = self._repeats.get(key, 0) + 1

    def _fresh(self, key: str, generation: Generation) -> Generation:
        """Return the generation of a member, which differs each time its value is stored."""
        repeats = self._repeats.get(key)
        return (*generation, repeats) if repeats and isinstance(generation, tuple) else generation

    def list_prefix(self, prefix: str) -> Iterator[str]:
        with self._lock:
            return iter([*self._archive().list_prefix(prefix)])

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        with self._lock:
            return self._archive().list_dir(prefix)

    def size(self, key: str) -> int | None:
        with self._lock:
            return self._archive().size(key)

    def close(self) -> None:
        """Close the archive; it is opened again when it is needed."""
        with self._lock:
            self._close()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(ZipKeys, compression=self._compression, sync=self._sync), (self._path,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._path!r})"

    def _archive(self) -> Store:
        """Return the archive as it is now, open for reading."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            self._close()
            return _NOTHING
        state = (status.st_ino, status.st_mtime_ns, status.st_size)
        if self._opened is None or self._opened[0] != state:
            self._close()
            try:
                self._opened = (state, ZipStore(self._path, "r"))
            except NotFoundError:
                return _NOTHING
        return self._opened[1]

    def _close(self) -> None:
        if self._opened is not None:
            self._opened[1].close()
            self._opened = None

    def __del__(self) -> None:
        opened = self.__dict__.get("_opened")
        if opened is not None:
            opened[1].close()


_METHODS: dict[str, Literal["stored", "deflated"]] = {"store": "stored", "deflate": "deflated"}
_open_stores: WeakValueDictionary[Hashable, Store] = WeakValueDictionary()


def store_of(spec: KvStoreSpec) -> Store:
    """Return the store of a bound spec; specs of the same directory or archive share it."""
    driver = spec._driver
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
    try:
        return _shared((root, sync), LocalStore, root, durability="fsync" if sync else "rename", follow_symlinks=True)
    except StoreError as error:
        raise NotDirectoryError(root) from error


def _shared(name: Hashable, make: Callable[..., Store], *args: Any, **options: Any) -> Store:
    """Return the open store of a name, or make it."""
    store = _open_stores.get(name)
    if store is None:
        store = _open_stores[name] = make(*args, **options)
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
    return _shared((path, method, sync), ZipKeys, path, compression=method, sync=sync)


def remote_store(spec: KvStoreSpec) -> Store:
    """Return the store of a bound spec; specs of the same bucket or server with the same settings share it."""
    kind = spec._driver
    url = spec._option("base_url") if kind == "http" else f"{spec._kind.scheme}{spec._option('bucket')}"
    options: dict[str, Any] = {"retries": spec._setting(f"{kind}_request_retries")["max_retries"]}
    if (limit := spec._setting(f"{kind}_request_concurrency")["limit"]) != "shared":
        options["concurrency"] = limit
    if kind == "s3":
        options |= _s3_options(spec)
    elif kind == "gcs" and (project := spec._setting("gcs_user_project").get("project_id")):
        options["default_headers"] = {"x-goog-user-project": project}
    elif kind == "http" and (headers := spec._option("headers")):
        parts = (text.partition(":") for text in headers)
        options["default_headers"] = {name.strip(): value.strip() for name, _, value in parts}
    return _shared(json.dumps([url, options], sort_keys=True, default=repr), _open_url, url, options)


def _open_url(url: str, options: dict[str, Any]) -> Store:
    if (profile := options.pop("profile", None)) is not None:
        options["credential_provider"] = import_module("tegula.stores.objects.options").ProfileCredentials(profile)
    # imported here, as most programs need no remote storage
    store: Store = import_module("tegula.stores.objects.urls").open_url(url, options)
    return store


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
