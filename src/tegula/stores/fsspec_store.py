"""A store over any file system of fsspec: object storage, servers, archives, caches and file systems in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Final

from tegula.errors import ReadOnlyError, StoreError, UnsupportedError
from tegula.stores.arguments import ByteRange, check_key, check_prefix
from tegula.stores.capabilities import BlockedKeys
from tegula.stores.checked_ranges import CheckedRanges, Limits
from tegula.stores.file_listing import FileNames, below, children, files
from tegula.stores.file_systems import (
    MISSING,
    Handle,
    cached,
    can_write,
    has_directories,
    has_renames,
    is_absence,
    is_file_system,
    overrides,
    takes,
    unwrapped,
)
from tegula.stores.names import HIDDEN
from tegula.stores.secrets import plain_url, redacted
from tegula.stores.single_writer import KeyLocks, PrefixedLocks

__all__ = ["FsspecStore"]

_CONCURRENCY: Final = 64
_MAGIC: Final = frozenset("*?[")
_locks = KeyLocks(1024)


class FsspecStore(BlockedKeys, CheckedRanges):
    """Files below a directory of any file system of fsspec, such as ``hf``, ``sftp``, ``github``, ``memory``, ``s3``.

    One process at a time may write, since fsspec has no conditional writes: conditions hold between the threads of this
    process (`single_writer`). A file system that can't store and remove files is read-only: those of HTTP, archives,
    references and GitHub, and those that cache contents.

    A value is stored by one call of the file system. On object storage, in memory, on this machine and over SFTP a
    reader then sees the old value or the new one. Other file systems, such as FTP and SMB, write into the file: a
    reader may see part of a value, and a writer that is killed leaves part of one, which reading reports as a damaged
    chunk or document.

    Only a file that does not exist is a missing key; any other error surfaces as `StoreError`. Listings bypass the
    file system's cache of directories; web servers can't be listed (`listable`). The number of requests under way at
    once is limited by the file system, too: by that of s3fs to 10, unless it is made with
    ``config_kwargs={"max_pool_connections": 64}``. In a forked process the file system is made again from its
    arguments. A pickled store takes these along, credentials included, as fsspec does.

    Parameters
    ----------
    fs : fsspec.AbstractFileSystem
        The file system, synchronous or asynchronous.
    root : str
        The directory in it that keys are relative to, such as ``"bucket/path"``; it need not exist yet.
    read_only : bool
        Whether `set` and `delete` raise `ReadOnlyError`, as they always do where the file system can't be written.
    url : str, optional
        The URL that the store was opened by, for its own `url`.

    Raises
    ------
    StoreError
        If `fs` is no file system of fsspec, or `root` is not text.

    Examples
    --------
    >>> import fsspec
    >>> store = FsspecStore(fsspec.filesystem("memory"), "measured/x.zarr")
    >>> generation = store.set("c/0", b"abcdef")
    >>> store.get("c/0", (2, 3)), store.url
    (b'cde', 'memory:///measured/x.zarr')
    >>> store.list_dir("c/"), store.single_writer
    ((['c/0'], []), True)
    >>> store.delete_prefix("")
    """

    def __init__(
        self, fs: Any, root: str | os.PathLike[str] = "", *, read_only: bool = False, url: str | None = None
    ) -> None:
        if not is_file_system(fs):
            raise StoreError(f"an FsspecStore needs a file system of fsspec, not {type(fs).__name__}")
        if not isinstance(root, (str, os.PathLike)):
            raise StoreError(f"the root of an FsspecStore must be text, not {root!r:.80}")
        inner, root = unwrapped(fs, os.fspath(root))
        self._handle = Handle(inner)
        fs = self._handle.get()
        self.root: str = fs._strip_protocol(root)
        self._names = FileNames(fs, self.root)
        self._url = url
        self._directories, self._renames = has_directories(fs), has_renames(fs)
        self._caches = cached(fs) is not fs
        below = cached(fs)
        self._finds = overrides(below, "find", "_find")  # in one request, and not by a walk that leaves out errors
        self._refresh = {name: {"refresh": True} if takes(below, name, "refresh") else {} for name in ("info", "ls")}
        self._batch = {"batch_size": _CONCURRENCY} if takes(fs, "cat_ranges", "batch_size") else {}
        self.may_ignore_ranges = self._names.is_web
        if self._names.scheme in ("s3", "s3a"):
            self.whole = (0, None)  # one request; else s3fs asks for the size first, and reads large values in parts
        self.listable = not self._names.is_web
        self.concurrency = _CONCURRENCY if fs.async_impl and not self._caches else 0
        super().__init__(read_only=read_only or not can_write(fs), locks=PrefixedLocks(_locks, self._names.base))

    @property
    def fs(self) -> Any:
        """The file system, for blocking calls in this process."""
        return self._handle.get()

    @property
    def base(self) -> str:
        """What stands before each key in the paths of the file system."""
        return self._names.base

    @property
    def storage(self) -> object:
        """What is equal for stores over the same storage, whatever their roots."""
        return id(self.fs.store) if self._names.scheme == "memory" else self.fs

    # --- values

    def fetch(self, key: str, limits: Limits) -> bytes | Exception:
        """Ask the file system for the contents of a file, or a part of them; see `CheckedRanges`."""
        path = self._names.path(key)
        try:
            found: bytes = self._call("cat_file", path, start=limits[0], end=limits[1])
        except Exception as error:  # noqa: BLE001 - file systems raise anything, and `answer` tells what it means
            return self._confirmed(path, error) if self._caches else error
        return found

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the answers of `get` for each ``(key, byte_range)``, in order, with one wave of requests."""
        wanted = [*requests]
        if not self.concurrency:
            return super().get_many(wanted)

        # ranges that can't be told without the size of the value go one by one
        found: list[bytes | None] = [None] * len(wanted)
        sent, paths, limits = [], [], []
        for number, (key, byte_range) in enumerate(wanted):
            check_key(key)
            pair = self.limits(byte_range)
            if pair is None:
                found[number] = self.read_sized(key, byte_range)
            else:
                sent.append(number)
                paths.append(self._names.path(key))
                limits.append(pair)

        # all others at once
        if sent:
            starts, ends = ([pair[side] for pair in limits] for side in (0, 1))
            with self._asking("read", wanted[sent[0]][0], missing=True):
                answers = self._call("cat_ranges", paths, starts, ends, on_error="return", **self._batch)
            for number, answer in zip(sent, answers):
                found[number] = self.answer(*wanted[number], answer)
        return found

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        path = self._names.path(check_key(key))
        try:
            with self._asking("look up", key):
                info = self._call("info", path, **self._refresh["info"])
                if info["type"] == "directory":
                    # in memory a file and a directory may have one name
                    is_file = self._names.scheme == "memory" and self._call("isfile", path)
                    return len(self._call("cat_file", path)) if is_file else None
                if info["size"] is None:  # a server that does not say
                    return len(self._call("cat_file", path))
                return int(info["size"])
        except MISSING:
            return None

    def info(self, key: str) -> dict[str, Any] | None:
        """Return what the file system says of a file, such as its ETag or time of change; ``None`` if there is none."""
        try:
            with self._asking("look up", check_key(key)):
                found: dict[str, Any] = self._call("info", self._names.path(key), **self._refresh["info"])
                return found
        except MISSING:
            return None

    def write(self, key: str, value: bytes) -> None:
        """Store a value as a file; see the class for what a reader may see meanwhile."""
        path = self._names.path(key)
        if HIDDEN in key and any(segment.startswith(HIDDEN) for segment in key.split("/")):
            raise StoreError(f"names that begin with {HIDDEN!r} are the store's own", key=key)
        with self._asking("write", key, missing=True):
            try:
                self._put(path, value)
            except Exception:
                parent = path.rpartition("/")[0]
                if not self._directories or self._call("isdir", parent):
                    raise
                self._call("makedirs", parent, exist_ok=True)
                self._put(path, value)

    def remove(self, key: str) -> None:
        """Remove a file if it exists."""
        path = self._names.path(key)
        by_pattern = self.fs.async_impl and not overrides(self.fs, "_rm_file")
        if by_pattern and not _MAGIC.isdisjoint(path):
            raise StoreError(f"{self!r} would take this name for a pattern, and delete others too", key=key)
        try:
            with self._asking("delete", key):
                self._call("rm" if by_pattern else "rm_file", path)
        except MISSING:
            return
        except StoreError:
            if self.size(key) is not None:
                raise

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`, and the directories that are empty then."""
        check_prefix(prefix)
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=prefix)
        super().delete_prefix(prefix)
        if self._directories:
            self._remove_directories(prefix)

    def blocked_by(self, key: str) -> str | None:
        """Say that a directory stands in the place of `key`, where the file system has directories."""
        path = self._names.path(check_key(key))
        if not self._directories or self.size(key) is not None:
            return None
        with self._asking("look up", key, missing=True):
            return f"{path} is a directory" if self._call("isdir", path) else None

    # --- listings

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        path = self._listed(prefix)
        try:
            with self._asking("list", prefix):
                if self._finds:
                    self._call("invalidate_cache")
                    names: Iterable[str] = self._call("find", path)
                else:
                    names = files(self._entries, path)
                found = [*names]
        except MISSING:
            found = []
        return below(self._names.keys(found), prefix)

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) that stand directly below `prefix`, each sorted."""
        path = self._listed(prefix)
        try:
            with self._asking("list", prefix):
                names, directories = children(self._entries, path, only_filled=self._directories)
        except MISSING:
            return [], []
        keys = below(self._names.keys(names), prefix)
        prefixes = below((f"{key}/" for key in self._names.keys(directories)), prefix)
        return sorted({*keys}), sorted({*prefixes})

    @property
    def url(self) -> str:
        """The URL of the root, without secrets; `tegula.open` opens it, given the same storage options."""
        return plain_url(self._names.url if self._url is None else self._url)

    # --- how it is done

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the file system, alone if it can't serve several threads.

        Only contents are asked of a cache: it answers other questions in ways of its own.
        """
        fs = self._handle.get()
        fs = fs if name.startswith("cat_") else cached(fs)
        with self._handle.lock or nullcontext():
            return getattr(fs, name)(*arguments, **named)

    @contextmanager
    def _asking(self, action: str, key: str, *, missing: bool = False) -> Iterator[None]:
        """Turn whatever the file system raises into a `StoreError`, but for what it raises where nothing is stored.

        With `missing` that becomes a `StoreError` as well.
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
        secrets = {"settings": getattr(self.fs, "storage_options", {}), "key": self._names.query}
        text = redacted(f"{type(error).__name__}: {error}", secrets)
        return StoreError(f"{self!r} failed to {action}: {text}".removesuffix(": "), key=key)

    def _put(self, path: str, value: bytes) -> None:
        if not self._renames:
            self._call("pipe_file", path, value)
            return
        parent, _, _ = path.rpartition("/")
        temporary = f"{parent}/{HIDDEN}{os.getpid()}-{os.urandom(8).hex()}.tmp"
        try:
            self._call("pipe_file", temporary, value)
            if self._names.scheme in ("file", "local"):
                os.replace(temporary, path)  # the file system's own `mv` would move it into a directory
            else:
                self._call("mv", temporary, path)
        except BaseException:
            with suppress(Exception):  # the first error counts
                self._call("rm_file", temporary)
            raise

    def _confirmed(self, path: str, error: Exception) -> Exception:
        """Return what the storage below a cache raises for a file that the cache says does not exist.

        A cache says so whatever went wrong when it looked for the file.
        """
        if not isinstance(error, MISSING):
            return error
        try:
            cached(self.fs).cat_file(path, start=0, end=1)
        except Exception as told:  # noqa: BLE001 - as above
            return told
        return OSError("the cache has no such file, and the storage below it has")

    def _listed(self, prefix: str) -> str:
        path = self._names.directory(check_prefix(prefix))
        if not self.listable:  # pages of links leave out names, and a missing page is no empty directory
            raise UnsupportedError(
                f"{self!r} can't be listed, as it is a web server: open a group that has consolidated metadata, "
                "or name the member"
            )
        return path

    def _entries(self, path: str) -> list[dict[str, Any]]:
        """Return what is in a directory now."""
        self._call("invalidate_cache")
        found: list[dict[str, Any]] = self._call("ls", path, detail=True, **self._refresh["ls"])
        return found

    def _remove_directories(self, prefix: str) -> None:
        """Remove the empty directories below a prefix; one that is filled again meanwhile stays."""
        root = self._names.directory(prefix)
        pending, found = [root], []
        while pending:
            current = pending.pop()
            try:
                inside = [entry["name"] for entry in self._entries(current) if entry["type"] == "directory"]
            except Exception:  # noqa: BLE001 - the keys are gone, and nothing depends on the directories
                continue
            pending += inside
            found += inside
        for path in [*reversed(found), *([root] if prefix else [])]:
            with suppress(Exception):  # it is not empty, or gone
                self._call("rmdir", path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FsspecStore):
            return NotImplemented
        same = type(self) is type(other) and self.root == other.root and self.read_only == other.read_only
        return same and bool(self.fs == other.fs)

    def __hash__(self) -> int:
        return hash((type(self), self.root))

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self.fs, self.root, self.read_only, None if self._url is None else self.url)


def _reopen(kind: type[FsspecStore], fs: Any, root: str, read_only: bool, url: str | None) -> FsspecStore:
    return kind(fs, root, read_only=read_only, url=url)
