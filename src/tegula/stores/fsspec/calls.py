"""Calls of an fsspec file system for a store: the paths of keys, and the translation of errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from tegula import config
from tegula.errors import StoreError
from tegula.stores.arguments import check_key
from tegula.stores.checked_ranges import CheckedRanges
from tegula.stores.fsspec.file_systems import (
    MISSING,
    Handle,
    cached,
    can_write,
    has_directories,
    has_renames,
    is_absence,
    overrides,
    takes,
    unwrapped,
)
from tegula.stores.fsspec.listing import FileNames
from tegula.stores.identity import shared
from tegula.stores.secrets import plain_url, redacted
from tegula.stores.single_writer import KeyLocks, PrefixedLocks

__all__ = ["FileCalls"]

_locks = KeyLocks(1024)


class FileCalls(CheckedRanges):
    """A file system and a root in it, for `FsspecStore`, which adds the operations of a store.

    Every call goes to this process's copy of the file system, one at a time if that can't serve several threads. Errors
    become `StoreError` without secrets, except that a file does not exist.
    """

    def __init__(self, fs: Any, root: str, *, read_only: bool, url: str | None) -> None:
        inner, root = unwrapped(fs, root)
        self._handle = Handle(inner)
        fs = self._handle.get()
        self.root: str = fs._strip_protocol(root)
        self._names = FileNames(fs, self.root)
        self._url = url
        self._directories, self._renames = has_directories(fs), has_renames(fs)
        self._caches = cached(fs) is not fs
        storage = cached(fs)
        self._finds = overrides(storage, "find", "_find")  # by one request, not a walk that ignores errors
        self._refresh = {name: {"refresh": True} if takes(storage, name, "refresh") else {} for name in ("info", "ls")}
        self._batch = {"batch_size": config.current().concurrency} if takes(fs, "cat_ranges", "batch_size") else {}
        self.may_ignore_ranges = self._names.is_web
        if self._names.scheme in ("s3", "s3a"):
            self.whole = (0, None)  # one request; otherwise s3fs first asks for the size and reads in parts
        self.listable = not self._names.is_web
        self.concurrency = config.current().concurrency if fs.async_impl and not self._caches else 0
        super().__init__(read_only=read_only or not can_write(fs), locks=PrefixedLocks(_locks, self._names.base))
        self._shared = shared(self.fs, type(self), self.storage, self._names.base)

    @property
    def fs(self) -> Any:
        """The file system, for blocking calls in this process."""
        return self._handle.get()

    @property
    def base(self) -> str:
        """Text before each key in the paths of the file system."""
        return self._names.base

    @property
    def storage(self) -> object:
        """An object that is equal for stores over the same storage, whatever their roots."""
        return id(self.fs.store) if self._names.scheme == "memory" else self.fs

    @property
    def shared_storage(self) -> tuple[object, str]:  # type: ignore[override]
        """The file system, and the text before each key in its paths."""
        return self.storage, self.base

    @property
    def is_private(self) -> bool:
        """Whether the files are in the memory of this process."""
        return self._names.scheme == "memory"

    @property
    def values_url(self) -> str | None:  # type: ignore[override]
        """The URL of the root, by which other programs use the same file system of fsspec."""
        url = self.url
        return f"{url.rstrip('/')}/" if "://" in url and "::" not in url else None

    @property
    def identity(self) -> object:
        """An object that stores of this process over the same files by the same file system share."""
        return self._shared

    @property
    def url(self) -> str:
        """The URL of the root, without secrets; `tegula.open` opens it, given the same storage options."""
        return plain_url(self._names.url if self._url is None else self._url)

    def info(self, key: str) -> dict[str, Any] | None:
        """Return what the file system reports of a file, such as its ETag; ``None`` if there is no file."""
        try:
            with self._asking("look up", check_key(key)):
                found: dict[str, Any] = self._call("info", self._names.path(key), **self._refresh["info"])
                return found
        except MISSING:
            return None

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the file system, one call at a time if it can't serve several threads.

        Of a caching file system only contents are requested, since its other answers are unreliable.
        """
        fs = self._handle.get()
        fs = fs if name.startswith("cat_") else cached(fs)
        with self._handle.lock or nullcontext():
            return getattr(fs, name)(*arguments, **named)

    def _entries(self, path: str) -> list[dict[str, Any]]:
        """Return the present entries of a directory."""
        self._call("invalidate_cache")
        found: list[dict[str, Any]] = self._call("ls", path, detail=True, **self._refresh["ls"])
        return found

    def _confirmed(self, path: str, error: Exception) -> Exception:
        """Return the error of the storage below a cache for a file that the cache reports as missing.

        A cache reports this whatever went wrong when it looked for the file.
        """
        if not isinstance(error, MISSING):
            return error
        try:
            cached(self.fs).cat_file(path, start=0, end=1)
        except Exception as told:  # noqa: BLE001 - as above
            return told
        return OSError("the cache reports no such file, but the storage below it has the file")

    @contextmanager
    def _asking(self, action: str, key: str, *, missing: bool = False) -> Iterator[None]:
        """Turn the errors of the file system into `StoreError`, except those that mean that a file does not exist.

        With `missing` these become `StoreError` as well.
        """
        try:
            yield
        except StoreError as error:
            error.within(key=key)
            raise
        except Exception as error:
            if not missing and is_absence(error):
                raise
            raise self.failure(action, key, error) from None

    def failure(self, action: str, key: str, error: Exception) -> StoreError:
        """Return the error for what the file system raised, without secrets."""
        # user info that the file system treats as the beginning of a path
        user = self.root.lstrip("/").partition("/")[0].rpartition("@")[0]
        own = [self._names.query, user, user.partition(":")[2]]
        secrets = {"settings": getattr(self.fs, "storage_options", {}), "keys": own}
        if isinstance(error, FileNotFoundError):
            # fsspec raises it for other failures as well, with the real error as its cause
            error = error.__cause__ if isinstance(error.__cause__, Exception) else error
        text = redacted(f"{type(error).__name__}: {error}", secrets)
        return StoreError(f"{self!r} failed to {action}: {text}".removesuffix(": "), key=key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileCalls):
            return NotImplemented
        same = type(self) is type(other) and self.root == other.root and self.read_only == other.read_only
        return same and self.storage == other.storage

    def __hash__(self) -> int:
        return hash((type(self), self.root))

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self.fs, self.root, self.read_only, None if self._url is None else self.url)


def _reopen(kind: type[FileCalls], fs: Any, root: str, read_only: bool, url: str | None) -> FileCalls:
    return kind(fs, root, read_only=read_only, url=url)
