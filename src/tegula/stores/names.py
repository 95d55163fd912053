"""Keys as file names: reserved names, names that differ only in case, and ``file:`` URLs."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tegula.errors import StoreError, brief
from tegula.runtime.deferred import Later
from tegula.runtime.system import HIDDEN

if TYPE_CHECKING:
    import pathlib
    from urllib import parse
else:
    pathlib, parse = Later("pathlib"), Later("urllib.parse")

__all__ = [
    "ARCHIVES",
    "HIDDEN",
    "absolute",
    "directories_above",
    "file_url",
    "has_twins",
    "is_hidden",
    "is_no_name",
    "name_flaw",
    "path_in_url",
    "path_of_url",
    "path_text",
    "reason",
    "swap_case",
]

ARCHIVES: Final = (".zip", ".ozx")
"""How the names of zip archives end: those of OME-Zarr in ``.ozx``."""

_LONGEST_NAME: Final = 255  # bytes, in almost all file systems; on Windows units of UTF-16
_NO_NAME: Final = frozenset((errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ))
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
            length = len(segment.encode("utf-16-le", "surrogatepass")) // 2
            if length > _LONGEST_NAME:
                return f"the name '{segment[:20]}…' is too long: it has {length} characters, and Windows allows 255"
    return None


def is_hidden(key: str) -> bool:
    """Return whether a segment of a key is one of the store's own names."""
    return HIDDEN in key and any(segment.startswith(HIDDEN) for segment in key.split("/"))


def is_no_name(error: StoreError) -> bool:
    """Return whether an error means that a store can't have such a key: a name too long, or a key below a file."""
    cause = error.__cause__
    if cause is None or isinstance(cause, NotADirectoryError):
        return True
    return isinstance(cause, OSError) and cause.errno in _NO_NAME


def reason(error: BaseException, path: str) -> str:
    """Return why the system refused an operation on a path; of a name that is too long, which name and its length.

    Examples
    --------
    >>> reason(OSError(errno.ENAMETOOLONG, "File name too long"), "a/" + "é" * 128)
    "the name 'éééééééééééééééééééé…' is too long: it has 256 bytes, and file systems allow 255"
    """
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        name = max(path.split(os.sep), key=lambda part: len(os.fsencode(part)))
        length = len(os.fsencode(name))
        if length > _LONGEST_NAME:
            return f"the name '{name[:20]}…' is too long: it has {length} bytes, and file systems allow {_LONGEST_NAME}"
        return f"the path is too long: it has {len(os.fsencode(path))} bytes, its longest name {length}"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def has_twins(name: str) -> bool:
    """Return whether file systems that ignore case or Unicode normalization find `name` by other spellings, too."""
    return not name.isascii() or name.lower() != name.upper()


def swap_case(name: str) -> str | None:
    """Return `name` in a spelling that only a case-insensitive file system treats as the same, or ``None``."""
    return name.swapcase() if name.isascii() and has_twins(name) else None


def directories_above(path: str) -> Iterator[tuple[str, str]]:
    """Yield each directory above a path with slashes, the nearest first, and the path below it.

    Examples
    --------
    >>> [*directories_above("/a/b")], [*directories_above("a/b")], [*directories_above("C:/a")]
    ([('/a', 'b'), ('/', 'a/b')], [('a', 'b'), ('', 'a/b')], [('C:/', 'a')])
    """
    drive, slash, _ = path.partition("/")
    anchor = drive + slash if slash and (not drive or drive.endswith(":")) else ""
    parts = path[len(anchor) :].strip("/").split("/")
    for depth in reversed(range(len(parts) if parts != [""] else 0)):
        yield anchor + "/".join(parts[:depth]), "/".join(parts[depth:])


def path_text(path: Any) -> str:
    """Return a path as text, or raise `StoreError` if it is not a path."""
    try:
        text = os.fsdecode(path)
        os.fsencode(text)  # a lone surrogate has no bytes
    except (TypeError, ValueError) as error:
        raise StoreError(f"{brief(path)} is not a path") from error
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
    # the usual case, in which nothing has to be checked or changed
    plain = type(path) is str and path.isascii() and path[:1] == os.sep == "/" != path[-1:]
    if plain and resolve is os.path.abspath and not ("\0" in path or "//" in path or "/." in path):
        return str(path)
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


def path_in_url(path: str, system: str = os.name) -> str:
    """Return the file path for the path of a URL: on Windows there is no slash before a drive.

    Examples
    --------
    >>> path_in_url("/C:/x", "nt"), path_in_url("/C:/x", "posix"), path_in_url("/data/x", "nt")
    ('C:/x', '/C:/x', '/data/x')
    """
    return path[1:] if system == "nt" and re.match(r"/[A-Za-z]:(?:[/\\]|\Z)", path) else path


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
