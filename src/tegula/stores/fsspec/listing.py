"""File names in a file system of fsspec: their translation to keys, and listings of directories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from tegula.stores.arguments import is_key
from tegula.stores.fsspec.file_systems import MISSING, cached, protocols
from tegula.stores.names import file_url, is_hidden

__all__ = ["FileNames", "below", "children", "empty", "files"]

Entries = Callable[[str], list[dict[str, Any]]]
"""Returns the entries of a directory, as `AbstractFileSystem.ls` does."""


class FileNames:
    """The translation between keys below a root and paths of a file system.

    Parameters
    ----------
    fs : AbstractFileSystem
        The file system.
    root : str
        The root, in the file system's own form.

    Attributes
    ----------
    base : str
        The part of a path before the key.
    is_web : bool
        Whether paths are web addresses, in which characters are escaped.
    query : str
        The query of the root, such as a signature, which is appended to each web address.
    """

    def __init__(self, fs: Any, root: str) -> None:
        known = protocols(cached(fs))
        self.scheme = fs.protocol if isinstance(fs.protocol, str) else fs.protocol[0]
        self.is_web = bool(known & {"http", "https"})
        self.query = ""
        if self.is_web:
            root, mark, query = root.partition("?")
            self.query = mark + query
        self.base = f"{root.rstrip('/')}/" if root.strip("/") else fs.root_marker
        self._root = root
        self._bare = self.base.lstrip("/")
        host = getattr(fs, "host", None)
        if self.scheme in ("file", "local"):
            self.url = file_url(root)
        elif self.is_web or not isinstance(host, str):
            self.url = str(fs.unstrip_protocol(root))
        else:
            self.url = f"{self.scheme}://{host}/{root.lstrip('/')}"

    def path(self, key: str) -> str:
        """Return the path of a key."""
        return self.base + (quote(key, safe="/~") + self.query if self.is_web else key)

    def directory(self, prefix: str) -> str:
        """Return the path of the directory of a prefix."""
        return self.path(prefix[:-1]) if prefix else self._root

    def keys(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the keys of paths; paths that are not below the root or have no valid key are left out."""
        for name in names:
            bare = name.lstrip("/")
            if bare.startswith(self._bare):
                key = bare[len(self._bare) :]
                if is_key(key) and not is_hidden(key):
                    yield key


def below(keys: Iterable[str], prefix: str) -> Iterator[str]:
    """Yield the keys below a prefix."""
    return (key for key in keys if key.startswith(prefix) and key != prefix)


def files(entries: Entries, path: str) -> Iterator[str]:
    """Yield the path of every file below a directory; files that vanish during the listing are left out.

    Raises
    ------
    Exception
        The errors of listing, and ``FileNotFoundError`` if the directory itself does not exist.
    """
    pending = [path]
    seen = {path}  # a file system may list a directory in itself
    while pending:
        current = pending.pop()
        try:
            found = entries(current)
        except (FileNotFoundError, NotADirectoryError):
            if current == path:
                raise
            continue
        for entry in found:
            name = entry["name"]
            if entry["type"] == "directory":
                if name not in seen:
                    seen.add(name)
                    pending.append(name)
            elif _is_file(entry):
                yield name


def children(entries: Entries, path: str, *, only_filled: bool) -> tuple[list[str], list[str]]:
    """Return the files and directories in a directory; with `only_filled`, only directories that contain a file."""
    names, directories = [], []
    for entry in entries(path):
        name = entry["name"]
        if entry["type"] != "directory":
            if _is_file(entry):
                names.append(name)
        elif not only_filled or _is_filled(entries, name):
            directories.append(name)
    return names, directories


def empty(entries: Entries, path: str) -> Iterator[str]:
    """Yield the path of every directory below a directory that holds nothing, or vanishes during the listing."""
    pending = [path]
    seen = {path}
    while pending:
        current = pending.pop()
        found: list[dict[str, Any]] = []
        with suppress(*MISSING):
            found = entries(current)
        if not found and current != path:
            yield current
        inside = {entry["name"] for entry in found if entry["type"] == "directory"} - seen
        seen |= inside
        pending += inside


def _is_filled(entries: Entries, path: str) -> bool:
    try:
        return next(files(entries, path), None) is not None
    except (FileNotFoundError, NotADirectoryError):
        return False


def _is_file(entry: dict[str, Any]) -> bool:
    """Return whether an entry that is not a directory is a file, or a link, which may lead to one."""
    return entry["type"] in ("file", "link") or bool(entry.get("islink"))
