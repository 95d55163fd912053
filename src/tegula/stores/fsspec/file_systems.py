"""File systems of fsspec: what they can do, and making one again in a forked process."""

from __future__ import annotations

import os
import threading
import weakref
from inspect import Parameter, signature
from typing import Any, Final

from tegula.errors import StoreError
from tegula.runtime.deferred import after_fork

__all__ = [
    "MISSING",
    "Handle",
    "cached",
    "can_write",
    "has_directories",
    "has_renames",
    "is_absence",
    "is_file_system",
    "overrides",
    "protocols",
    "takes",
    "unwrapped",
]

MISSING: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""Errors that storage raises for a file that does not exist."""

_BASES: Final = ("fsspec.spec", "fsspec.asyn", "fsspec.archive", "fsspec.implementations.chained")
_REMOVING: Final = ("rm", "_rm", "rm_file", "_rm_file")
_READ_ONLY: Final = {"reference", "github"}  # they have methods that remove files, but can't store any
_NO_DIRECTORIES: Final = {
    "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "tos", "tosfs", "hf", "github", "gist", "git",
    "http", "https", "reference",
}  # fmt: skip
_IN_PLACE: Final = {"memory", "file", "local"}  # without connections, which a forked child must not share
_serial: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()


def is_file_system(value: object, name: str = "AbstractFileSystem") -> bool:
    """Return whether a value is one of fsspec's file systems, or of its class `name`, without importing fsspec."""
    return any(kind.__name__ == name and kind.__module__.partition(".")[0] == "fsspec" for kind in type(value).__mro__)


def protocols(fs: Any) -> set[str]:
    """Return the protocols that a file system is known by."""
    return {fs.protocol} if isinstance(fs.protocol, str) else {*fs.protocol}


def overrides(fs: Any, *names: str) -> bool:
    """Return whether the class of a file system overrides one of these methods of fsspec's base classes."""
    return any(
        name in vars(kind)
        for kind in type(fs).__mro__
        if kind is not object and kind.__module__ not in _BASES
        for name in names
    )


def takes(fs: Any, method: str, argument: str) -> bool:
    """Return whether a method of a file system, or the coroutine behind it, has a parameter of that name."""
    found = getattr(fs, f"_{method}", None) or getattr(fs, method)
    try:
        parameter = signature(found).parameters.get(argument)
    except (TypeError, ValueError):
        return False
    return parameter is not None and parameter.kind is not Parameter.VAR_KEYWORD


def can_write(fs: Any) -> bool:
    """Return whether values can be stored in a file system and removed from it.

    A file system whose class can't remove files, such as those of HTTP and of archives, counts as read-only. So does
    one that caches contents, since it may return a value that another writer has long replaced.
    """
    if is_file_system(fs, "CachingFileSystem") or protocols(fs) & _READ_ONLY:
        return False
    return overrides(fs, *_REMOVING)


def has_directories(fs: Any) -> bool:
    """Return whether directories exist by themselves in a file system, even while they are empty."""
    return not protocols(cached(fs)) & _NO_DIRECTORIES


def has_renames(fs: Any) -> bool:
    """Return whether a file system writes files in several steps, and renames them in one."""
    return bool(protocols(fs) & {"file", "local", "sftp", "ssh"})


def unwrapped(fs: Any, root: str) -> tuple[Any, str]:
    """Return the file system that a wrapper passes calls to, and the path of a directory of the wrapper in it."""
    while True:
        if is_file_system(fs, "DirFileSystem"):
            root, fs = fs._join(root), fs.fs
        elif is_file_system(fs, "AsyncFileSystemWrapper"):
            fs = fs.sync_fs
        else:
            return fs, root


def cached(fs: Any) -> Any:
    """Return the file system below file systems that cache contents."""
    while is_file_system(fs, "CachingFileSystem"):
        fs = fs.fs
    return fs


def is_absence(error: object) -> bool:
    """Return whether an exception means that there is no file, rather than that the lookup failed.

    File systems also raise ``FileNotFoundError`` when a server does not answer, refuses, or fails; the cause of the
    exception then shows that.
    """
    if not isinstance(error, MISSING):
        return False
    cause = error.__cause__
    if cause is None or isinstance(cause, (*MISSING, LookupError, StopIteration)):
        return True
    status = getattr(cause, "status", None) or getattr(getattr(cause, "response", None), "status_code", None)
    if isinstance(status, int):
        return status in (404, 410)
    library = type(cause).__module__.partition(".")[0]
    if library == "ftplib":
        return str(cause).startswith("550")
    # a TypeError for an option that the file system does not accept, for example, says nothing about the file
    return library not in ("aiohttp", "builtins") and not isinstance(cause, OSError)


class Handle:
    """A file system for blocking calls from any thread and any process.

    File systems with an event loop or connections do not survive a fork. In the child they are made again from their
    arguments.

    Parameters
    ----------
    fs : AbstractFileSystem
        The file system; if it was made for use in coroutines, it is made again for blocking calls.

    Attributes
    ----------
    lock : threading.RLock or None
        Held during each call if the file system can't serve several threads at once.
    """

    def __init__(self, fs: Any) -> None:
        self._use(_blocking(fs))

    def get(self) -> Any:
        """Return the file system for this process.

        Raises
        ------
        StoreError
            If it can't be made again in a forked process.
        """
        if self._process != os.getpid():
            kept = bool(protocols(self._fs) & _IN_PLACE)
            self._use(self._fs if kept else _again(self._fs))
        return self._fs

    def _use(self, fs: Any) -> None:
        self._fs = fs
        self._process = os.getpid()
        shared = fs.async_impl or protocols(fs) & _IN_PLACE
        self.lock = None if shared else _serial.setdefault(fs, threading.RLock())


@after_fork
def _forget_locks() -> None:
    """In a forked child, forget the locks that threads of the parent may hold."""
    _serial.clear()


def _blocking(fs: Any) -> Any:
    return _again(fs) if getattr(fs, "asynchronous", False) else fs


def _again(fs: Any) -> Any:
    """Make a file system again from its arguments, for blocking calls in this process."""

    def renewed(value: Any) -> Any:
        return _again(value) if is_file_system(value) else value

    try:
        named = {name: renewed(value) for name, value in fs.storage_options.items()}
        for name in ("asynchronous", "loop"):
            named.pop(name, None)
        return type(fs)(*map(renewed, fs.storage_args), **named)
    except Exception as error:  # noqa: BLE001 - a file system may raise anything
        raise StoreError(
            f"the file system {type(fs).__name__} can't be made again for this process ({type(error).__name__}); "
            "open it in the process that uses it"
        ) from None
