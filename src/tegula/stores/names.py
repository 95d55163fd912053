"""Keys as file names: reserved names, names that differ only in case, and ``file:`` URLs."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tegula.deferred import Later
from tegula.errors import StoreError

if TYPE_CHECKING:
    import pathlib
    from urllib import parse
else:
    pathlib, parse = Later("pathlib"), Later("urllib.parse")

__all__ = [
    "HIDDEN",
    "absolute",
    "entry_names",
    "file_url",
    "has_twins",
    "name_flaw",
    "path_of_url",
    "path_text",
    "swap_case",
]

HIDDEN = ".tegula-"
"""Prefix of the names of the store's own files; no key may have a segment that begins with it, and none is listed."""

_WINDOWS_DEVICE = r"(?:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|COM[0-9¹²³]|LPT[0-9¹²³])(?:\.|\Z)"
_WINDOWS_FORBIDDEN = r'[<>:"\\|?*\x01-\x1f]'


def name_flaw(key: str, platform: str = sys.platform) -> str | None:
    """Return why a valid key can't be the relative path of a file on `platform`, or ``None`` if it can.

    On POSIX only the store's own names are refused; a backslash is an ordinary character. On Windows backslashes,
    colons (and so drive letters and streams), device names, and segments that end in a dot or a space are refused.

    Examples
    --------
    >>> name_flaw("a/CON.txt", "linux")
    >>> name_flaw("a/CON.txt", "win32")
    "Windows reserves the name 'CON.txt'"
    """
    for segment in key.split("/"):
        if segment.startswith(HIDDEN):
            return f"names that begin with {HIDDEN!r} are the store's own"
        if platform == "win32":
            if re.search(_WINDOWS_FORBIDDEN, segment):
                return f"Windows forbids a character of the name {segment!r}"
            if re.match(_WINDOWS_DEVICE, segment, re.IGNORECASE):
                return f"Windows reserves the name {segment!r}"
            if segment[-1] in ". ":
                return f"Windows drops the end of the name {segment!r}"
    return None


def has_twins(name: str) -> bool:
    """Return whether file systems that ignore case or Unicode normalization find `name` by other spellings, too.

    Examples
    --------
    >>> has_twins("0.12"), has_twins("zarr.json")
    (False, True)
    """
    return not name.isascii() or name.lower() != name.upper()


def swap_case(name: str) -> str | None:
    """Return `name` in a spelling that only a case-insensitive file system treats as the same, or ``None``."""
    return name.swapcase() if name.isascii() and has_twins(name) else None


def entry_names(directory: str) -> frozenset[str]:
    """Return the names in a directory as the file system spells them."""
    return _entry_names(directory, os.stat(directory).st_mtime_ns)


@functools.lru_cache(maxsize=16)
def _entry_names(directory: str, mtime_ns: int) -> frozenset[str]:
    return frozenset(os.listdir(directory))


def path_text(path: Any) -> str:
    """Return a path as text, or raise `StoreError` if it is not a path.

    Examples
    --------
    >>> path_text(b"a")
    'a'
    """
    try:
        text = os.fsdecode(path)
        os.fsencode(text)  # a lone surrogate has no bytes
    except (TypeError, ValueError) as error:
        raise StoreError(f"{path!r:.80} is not a path") from error
    if not text or "\0" in text:
        raise StoreError(f"{text!r} is not a path")
    return text


def absolute(path: Any, resolve: Callable[[str], str] = os.path.abspath) -> str:
    """Return a path as absolute text; with ``os.path.realpath`` as `resolve`, links are followed.

    Raises
    ------
    StoreError
        If it is not a path, or relative to a current directory that has been deleted.
    """
    text = path_text(path)
    try:
        return resolve(text)
    except FileNotFoundError as error:
        raise StoreError("a relative path has no meaning: the current directory is gone") from error


def file_url(path: str) -> str:
    """Return the ``file:`` URL (RFC 8089) of an absolute path.

    Examples
    --------
    >>> import os.path
    >>> file_url(os.path.abspath("/my data")).endswith("/my%20data")
    True
    """
    return pathlib.PurePath(path).as_uri()


def path_of_url(url: str) -> str:
    """Return the path that a ``file:`` URL names.

    Raises
    ------
    StoreError
        If it is another kind of URL, names another host, or has a query or a fragment.

    Examples
    --------
    >>> path_of_url("file:///my%20data") if os.name == "posix" else "/my data"
    '/my data'
    """
    try:
        parts = parse.urlsplit(url)
    except ValueError:
        raise StoreError(f"{url!r} is not the URL of a local file (file:///path)") from None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise StoreError(f"{url!r} is not the URL of a local file (file:///path)")
    # imported here, since the module imports much of the standard library's network code
    path: str = import_module("urllib.request").url2pathname(parts.path)
    if not os.path.isabs(path) or "\0" in path:
        raise StoreError(f"{url!r} does not name an absolute path")
    return path
