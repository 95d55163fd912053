"""Paths of key-value stores: in URLs, in messages, and as file paths."""

from __future__ import annotations

import errno
import os
import re
from urllib.parse import quote, unquote_to_bytes

from tegula.errors import TegulaError
from tegula.stores import Store
from tegula.stores.names import path_in_url
from tegula.tensorstore.errors import StatusError, ValueStatusError, as_status, invalid, status
from tegula.tensorstore.json.binding import dump
from tegula.tensorstore.json.values import key_bytes

__all__ = [
    "NotDirectoryError",
    "check_file_key",
    "check_file_path",
    "decode_url_path",
    "encode_url_path",
    "file_path",
    "key_name",
    "split_directory",
    "split_url",
    "store_error",
]

_CODES = {
    "NOT_FOUND": (errno.ENOENT,),
    "PERMISSION_DENIED": (errno.EACCES, errno.EPERM, errno.EROFS),
    "RESOURCE_EXHAUSTED": (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM),
    "INVALID_ARGUMENT": (errno.EINVAL,),
    "UNAVAILABLE": (errno.EINTR, errno.EAGAIN),
    "FAILED_PRECONDITION": (errno.ENAMETOOLONG, errno.ENOTEMPTY),
}


class NotDirectoryError(ValueStatusError):
    """An error for a file in place of the directory of a store."""

    def __init__(self, root: str) -> None:
        super().__init__("FAILED_PRECONDITION", f"{dump(root)} is not a directory")
        self.root = root

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.root,)


def store_error(error: TegulaError, store: Store, key: str) -> StatusError:
    """Convert a store's error about a key to a status."""
    cause = error.__cause__
    if store.local_directory is None:
        return as_status(error)
    if not isinstance(cause, OSError):
        return as_status(error) if error.key is None or cause is not None else invalid_key(_full_path(store, key))
    code = next((code for code, numbers in _CODES.items() if cause.errno in numbers), "UNKNOWN")
    if isinstance(cause, (FileExistsError, IsADirectoryError, NotADirectoryError)):  # even without a number
        code = "FAILED_PRECONDITION"
    return status(code, f"{dump(_full_path(store, key))}: {cause.strerror or cause}")


_LOCK_SUFFIX = ".__lock"
_UNQUOTED = "/!$&'()*+,;:=~"
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})").search


def key_name(store: Store, key: str) -> str:
    """Return the name of a store's key for messages.

    Examples
    --------
    >>> from tegula import LocalStore, MemoryStore
    >>> key_name(MemoryStore(), "a/0"), key_name(LocalStore("/data"), "a/0")
    ('"a/0"', 'local file "/data/a/0"')
    """
    if store.local_directory is None:
        return dump(key)
    return f"local file {dump(_full_path(store, key))}"


def _full_path(store: Store, key: str) -> str:
    return f"{file_path(store.local_directory or '').rstrip('/')}/{key}"


def encode_url_path(path: str) -> str:
    """Return a path as the path component of a URL."""
    return quote(key_bytes(path), safe=_UNQUOTED)


def decode_url_path(text: str) -> str:
    """Return the path from the path component of a URL."""
    wrong = _BAD_PERCENT(text)
    if wrong:
        raise invalid(f"Invalid percent-encoding at position {-wrong.start()}: {dump(text)}")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise invalid(f"Invalid UTF-8 percent-encoding sequence: {dump(text)}") from None


def split_url(text: str, scheme: str) -> str:
    """Return the part of a URL after its scheme (``memory://``)."""
    if not text.startswith(scheme):
        raise invalid(f'Scheme "{scheme}" not present in url')
    remainder = text[len(scheme) :]
    path, fragment, _ = remainder.partition("#")
    if "?" in path:
        raise invalid("Query string not supported")
    if fragment:
        raise invalid("Fragment identifier not supported")
    return path


def file_path(path: str, *, of_url: bool = False, system: str = os.name) -> str:
    """Return a file path as TensorStore keeps it: on Windows with slashes, and no slash of a URL before a drive.

    Examples
    --------
    >>> file_path(r"C:\\x\\y", system="nt"), file_path("/C:/x", of_url=True, system="nt")
    ('C:/x/y', 'C:/x')
    >>> file_path("/C:/x", of_url=True, system="posix")
    '/C:/x'
    """
    if system == "nt":
        path = path.replace("\\", "/")
    return path_in_url(path, system) if of_url else path


def check_file_path(path: str) -> str:
    """Return the path of a file or directory, or a prefix of such paths, if it is valid."""
    segments = path.split("/")
    inner = segments[1:] if segments[0] == "" else segments
    if inner and inner[-1] == "":
        inner = inner[:-1]
    if "\0" in path or not {"", ".", ".."}.isdisjoint(inner):
        raise invalid(f"Invalid file path: {dump(path)}")
    return path


def check_file_key(path: str) -> str:
    """Return the full path of a key if it is valid as a file path."""
    segments = path.removeprefix("/").split("/")
    if "\0" in path or any(part in ("", ".", "..") or part.endswith(_LOCK_SUFFIX) for part in segments):
        raise invalid_key(path)
    return path


def invalid_key(path: str) -> StatusError:
    """Return the error for a key that is not valid as a file path."""
    return invalid(f"Invalid key: {dump(path)}")


def split_directory(path: str, system: str = os.name) -> tuple[str, str]:
    """Split a path into a directory and the rest: a prefix of names in it, or an empty string.

    Examples
    --------
    >>> split_directory("/data/a"), split_directory("/data/a/"), split_directory("a"), split_directory("/a")
    (('/data', 'a'), ('/data/a', ''), ('.', 'a'), ('/', 'a'))
    >>> split_directory("C:/a", system="nt")
    ('C:/', 'a')
    """
    above, slash, name = path.rpartition("/")
    if system == "nt" and above[-1:] == ":":  # without the slash it would be the current directory of the drive
        above += slash
    return above or (slash or "."), name
