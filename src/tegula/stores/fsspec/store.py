"""A store over any file system of fsspec: object storage, servers, archives, caches and file systems in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Final, NamedTuple

from tegula import config
from tegula.errors import ReadOnlyError, StoreError, UnsupportedError
from tegula.runtime import system
from tegula.stores.arguments import (
    ABSENT,
    ByteRange,
    Generation,
    changed,
    check_generation,
    check_key,
    check_prefix,
    clip_range,
)
from tegula.stores.capabilities import BlockedKeys, Ranged
from tegula.stores.checked_ranges import CheckedRanges, Limits
from tegula.stores.fsspec.file_systems import (
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
from tegula.stores.fsspec.listing import FileNames, below, children, empty, files
from tegula.stores.identity import shared
from tegula.stores.names import HIDDEN, directories_above, is_hidden
from tegula.stores.secrets import plain_url, redacted
from tegula.stores.single_writer import KeyLocks, PrefixedLocks

__all__ = ["FsspecStore"]

_locks = KeyLocks(1024)
_ATTEMPTS: Final = 5
_MAGIC: Final = frozenset("*?[")


_VERSION: Final = frozenset({
    "etag", "mtime", "created", "modified", "last_modified", "lastmodified", "last-modified", "md5hash", "ino",
    "generation", "content-md5", "content_md5", "digest", "versionid", "version_id", "sha", "blob_id", "updated",
})  # fmt: skip
"""Fields of a file's info, in lower case, whose values differ for each state of the file; its size is also compared."""


_STATE: Final = "state of a file"


class FileState(NamedTuple):
    """The state of a file, as far as its file system reports what distinguishes one state from another."""

    version: tuple[tuple[str, str], ...]

    @property
    def plain(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The state as a plain tuple, for caches; `FsspecStore.generation_of` converts it back."""
        return _STATE, self.version


class FsspecStore(BlockedKeys, Ranged, CheckedRanges):
    """Files below a directory of any file system of fsspec, such as ``hf``, ``sftp``, ``github``, ``memory``, ``s3``.

    One process at a time may write, since fsspec has no conditional writes: conditions hold between the threads of this
    process (`single_writer`). A file system that can't store and remove files is read-only: HTTP, archives, references,
    GitHub, and content caches.

    A value is stored by one call of the file system. On object storage, in memory, on this machine and over SFTP a
    reader then sees the old value or the new one. Other file systems, such as FTP and SMB, write in place: a
    reader may see part of a value, and a killed writer leaves part of one, which reading reports as a damaged
    chunk or document.

    Only a file that does not exist is a missing key; any other error is raised as `StoreError`. Listings bypass the
    file system's cache of directories; web servers can't be listed (`listable`). The file system also limits the
    number of requests under way at once: s3fs to 10, unless it is made with
    ``config_kwargs={"max_pool_connections": 64}``. In a forked process the file system is made again from its
    arguments. A pickled store includes these, and with them credentials, as in fsspec.

    Parameters
    ----------
    fs : fsspec.AbstractFileSystem
        The file system, synchronous or asynchronous.
    root : str
        The directory in it that keys are relative to, such as ``"bucket/path"``; it need not exist yet.
    read_only : bool
        Whether `set` and `delete` raise `ReadOnlyError`, as they always do where the file system can't be written.
    url : str, optional
        The URL that the store was opened with; the attribute `url` has it.

    Raises
    ------
    StoreError
        If `fs` is not an fsspec file system, or `root` is not text.

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
        inner, path = unwrapped(fs, os.fspath(root))
        self._handle = Handle(inner)
        fs = self._handle.get()
        self.root: str = fs._strip_protocol(path)
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

    # --- values

    def fetch(self, key: str, limits: Limits) -> bytes | Exception:
        """Read the contents of a file, or a part of them; see `CheckedRanges`."""
        path = self._names.path(key)
        try:
            contents: bytes = self._call("cat_file", path, start=limits[0], end=limits[1])
        except Exception as error:  # noqa: BLE001 - file systems raise anything, and `answer` tells what it means
            return self._confirmed(path, error) if self._caches else error
        return contents

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the results of `get` for each ``(key, byte_range)``, in order, with one wave of requests."""
        wanted = [*requests]
        if not self.is_remote:
            return super().get_many(wanted)

        # ranges that depend on the size of the value are read one by one
        values: list[bytes | None] = [None] * len(wanted)
        sent, paths, limits = [], [], []
        for number, (key, byte_range) in enumerate(wanted):
            check_key(key)
            pair = self.limits(byte_range)
            if pair is None:
                values[number] = self.read_sized(key, byte_range)
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
                values[number] = self.answer(*wanted[number], answer)
        return values

    def get_ranges(
        self, key: str, ranges: Sequence[ByteRange], generation: Generation | None = None
    ) -> tuple[list[bytes] | None, Generation]:
        """Return several ranges of one state of the value of `key`; see `Ranged`.

        Generations of this store are digests of whole values. Here a state is what the file system reports of the file
        before and after its parts are read, such as its ETag or time of change. If this does not distinguish states, or
        a generation of `get` is given, the whole value is read.
        """
        for each in ranges:
            clip_range(each, 0)  # raises if it is not valid
        before = self._state(key)
        if before is None or not (generation in (None, ABSENT) or isinstance(generation, FileState)):
            whole, now = self.get(key, with_generation=True)
            check_generation(key, now, generation)
            return (None if whole is None else [self.ranged(whole, each) or b"" for each in ranges]), now
        if generation is not None and generation != before:
            raise changed(key)
        if before == ABSENT or not ranges:
            return (None if before == ABSENT else []), before
        try:
            found = self.get_many([(key, each) for each in ranges])
        except StoreError:  # another writer may have stored a shorter value, which ends before the range
            if self._state(key) != before:
                raise changed(key) from None
            raise
        if self._state(key) != before or None in found:
            raise changed(key)
        return [value or b"" for value in found], before

    def generation_of(self, plain: Any) -> Generation:
        """Return the generation or state for a plain value; see `FileState.plain`."""
        found: Generation = FileState(plain[1]) if type(plain) is tuple and plain[:1] == (_STATE,) else plain
        return found

    def version(self, key: str) -> tuple[tuple[str, str], ...] | None:
        """Return what distinguishes one state of a file from another, as far as the file system reports it.

        Returns ``None`` if there is no file.
        """
        info = self.info(key)
        return None if info is None else self._version_of(info)

    @staticmethod
    def _version_of(info: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        return tuple(sorted((name.lower(), str(info[name])) for name in info if name.lower() in {"size", *_VERSION}))

    def _state(self, key: str) -> Generation | None:
        """Return the state of a key; ``None`` if the file system does not report it, or the path is a directory."""
        info = self.info(key)
        if info is None:
            return ABSENT
        version = self._version_of(info)
        tells = info["type"] != "directory" and any(name in _VERSION and text != "None" for name, text in version)
        return FileState(version) if tells else None

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        path = self._names.path(check_key(key))
        try:
            with self._asking("look up", key):
                info = self._call("info", path, **self._refresh["info"])
                if info["type"] == "directory":
                    # in memory a file and a directory may have the same name
                    is_file = self._names.scheme == "memory" and self._call("isfile", path)
                    return len(self._call("cat_file", path)) if is_file else None
                if info["size"] is None:  # the server does not report the size
                    return len(self._call("cat_file", path))
                return int(info["size"])
        except MISSING:
            return None

    def write(self, key: str, value: bytes) -> None:
        """Store a value as a file; the docstring of the class says what a reader may see during the write."""
        path = self._names.path(key)
        if is_hidden(key):
            raise StoreError(f"names that begin with {HIDDEN!r} are the store's own", key=key)
        with self._asking("write", key, missing=True):
            for _ in range(_ATTEMPTS):  # another thread may remove the directory when it becomes empty
                try:
                    self._put(path, value)
                    return
                except Exception as error:
                    parent = path.rpartition("/")[0]
                    # the directory may exist now because another thread has just made it
                    gone = isinstance(error, FileNotFoundError)
                    if not self._directories or (not gone and self._call("isdir", parent)):
                        raise
                    self._call("makedirs", parent, exist_ok=True)
            self._put(path, value)

    def remove(self, key: str) -> None:
        """Remove a file if it exists."""
        path = self._names.path(key)
        by_pattern = self.fs.async_impl and not overrides(self.fs, "_rm_file")
        if by_pattern and not _MAGIC.isdisjoint(path):
            raise StoreError(f"{self!r} would treat this name as a pattern, and delete other files, too", key=key)
        try:
            with self._asking("delete", key):
                self._call("rm" if by_pattern else "rm_file", path)
        except MISSING:
            return
        except StoreError:
            if self.size(key) is not None:
                raise

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`, and directories that become empty."""
        check_prefix(prefix)
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=prefix)
        super().delete_prefix(prefix)
        if self._directories:
            self._remove_directories(prefix)

    def blocked_by(self, key: str) -> str | None:
        """Return a description of a directory in the place of `key`, or ``None`` if there is none."""
        path = self._names.path(check_key(key))
        if not self._directories or self.size(key) is not None:
            return None
        with self._asking("look up", key, missing=True):
            return f"{path} is a directory" if self._call("isdir", path) else None

    def blockers(self, prefix: str) -> Iterator[str]:
        """Yield the directories below `prefix` that hold nothing; see `BlockedKeys.blockers`."""
        path = self._listed(prefix)
        with self._asking("list", prefix, missing=True):
            yield from below(self._names.keys(empty(self._entries, path) if self._directories else ()), prefix)

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
                paths = [*names]
        except MISSING:
            paths = []
        return below(self._names.keys(paths), prefix)

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) directly below `prefix`, each sorted."""
        path = self._listed(prefix)
        try:
            with self._asking("list", prefix):
                names, directories = children(self._entries, path, only_filled=self._directories)
        except MISSING:
            return [], []
        keys = below(self._names.keys(names), prefix)
        prefixes = below((f"{key}/" for key in self._names.keys(directories)), prefix)
        return sorted({*keys}), sorted({*prefixes})

    # --- how it is done

    def _put(self, path: str, value: bytes) -> None:
        if not self._renames:
            self._call("pipe_file", path, value)
            return
        parent, _, _ = path.rpartition("/")
        temporary = f"{parent}/{HIDDEN}{os.getpid()}-{os.urandom(8).hex()}.tmp"
        try:
            self._call("pipe_file", temporary, value)
            if self._names.scheme in ("file", "local"):
                system.files.replace(temporary, path)  # the file system's own `mv` would move it into a directory
            else:
                self._call("mv", temporary, path)
        except BaseException:
            with suppress(Exception):  # the first error counts
                self._call("rm_file", temporary)
            raise

    def _listed(self, prefix: str) -> str:
        path = self._names.directory(check_prefix(prefix))
        if not self.listable:  # pages of links may leave out names, and a missing page does not mean an empty directory
            raise UnsupportedError(
                f"{self!r} can't be listed, because it is a web server: open a member by its name, or the group by "
                "tegula.open_group(…, consolidated=True) if it has consolidated metadata"
            )
        return path

    def _remove_directories(self, prefix: str) -> None:
        """Remove the empty directories below a prefix; a directory that gets a file meanwhile stays."""
        root = self._names.directory(prefix)
        pending, directories = [root], []
        while pending:
            current = pending.pop()
            try:
                inside = [entry["name"] for entry in self._entries(current) if entry["type"] == "directory"]
            except Exception:  # noqa: BLE001 - the keys are gone, and nothing depends on the directories
                continue
            pending += inside
            directories += inside
        for path in [*reversed(directories), *([root] if prefix else [])]:
            with suppress(Exception):  # it is not empty, or gone
                self._call("rmdir", path)

    # --- calls of the file system

    def info(self, key: str) -> dict[str, Any] | None:
        """Return what the file system reports of a file, such as its ETag; ``None`` if there is no file."""
        try:
            with self._asking("look up", check_key(key)):
                info: dict[str, Any] = self._call("info", self._names.path(key), **self._refresh["info"])
                return info
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
        entries: list[dict[str, Any]] = self._call("ls", path, detail=True, **self._refresh["ls"])
        return entries

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

    def stores_above(self) -> Iterator[tuple[FsspecStore, str]]:
        """Yield stores for reading over each directory above the root; see `Store.stores_above`."""
        for above, path in directories_above(self.root):
            yield FsspecStore(self.fs, above, read_only=True), path

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FsspecStore):
            return NotImplemented
        same = type(self) is type(other) and self.root == other.root and self.read_only == other.read_only
        return same and self.storage == other.storage

    def __hash__(self) -> int:
        return hash((type(self), self.root))

    def __reduce__(self) -> tuple[Any, ...]:
        url = None if self._url is None else self.url
        return partial(type(self), read_only=self.read_only, url=url), (self.fs, self.root)
