"""Walking a directory tree, to list or remove it."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress

from tegula.runtime.system import files, same_file
from tegula.stores.arguments import is_key
from tegula.stores.local.directories import Directory, is_temporary, remove_directory
from tegula.stores.names import HIDDEN

__all__ = ["children", "directories", "entries_below", "holding_temporaries", "remove_tree", "walk"]

Enters = Callable[[str], bool]
"""Returns whether to walk into a symbolic link, rather than list it as a key."""


def walk(directory: str, prefix: str, enters: Enters) -> Generator[str, None, None]:
    """Yield the key of every file below `directory`, the directory of `prefix`; see `entries_below`."""
    with closing(entries_below(directory, prefix, enters)) as entries:
        for key, _ in entries:
            yield key


def entries_below(directory: str, prefix: str, enters: Enters) -> Generator[tuple[str, os.DirEntry[str]], None, None]:
    """Yield key and entry of every file below `directory`, with one open directory per level.

    The store's own files, names that are not keys, and entries that are neither files, directories nor links are left
    out, as are entries that vanish during the walk.
    """
    stack = [(directory, prefix, _scan(directory))]
    try:
        while stack:
            directory, prefix, entries = stack[-1]
            for entry in entries:
                if _is_hidden(entry.name):
                    continue
                if _is_prefix(entry, enters):
                    if not _goes_round(entry, prefix):
                        stack.append((entry.path, f"{prefix}{entry.name}/", _scan(entry.path)))
                        break
                elif _is_value(entry):
                    yield prefix + entry.name, entry
            else:
                stack.pop()
    finally:
        for _, _, entries in stack:
            entries.close()


def children(directory: str, prefix: str, enters: Enters) -> tuple[list[str], list[str]]:
    """Return the keys and the prefixes directly below `directory`, sorted, without directories that hold no key.

    A directory that may not be read counts as a prefix, so that the error comes from looking into it.
    """
    keys, prefixes = [], []
    for entry in _scan(directory):
        if _is_hidden(entry.name):
            continue
        if _is_prefix(entry, enters):
            below = f"{prefix}{entry.name}/"
            if not _goes_round(entry, prefix) and _holds_key(entry.path, below, enters):
                prefixes.append(below)
        elif _is_value(entry):
            keys.append(prefix + entry.name)
    return sorted(keys), sorted(prefixes)


def directories(directory: str, prefix: str, enters: Enters) -> Iterator[os.DirEntry[str]]:
    """Yield the directories directly below `directory`, the directory of `prefix`, including empty ones."""
    for entry in _scan(directory):
        if not _is_hidden(entry.name) and _is_prefix(entry, enters) and not _goes_round(entry, prefix):
            yield entry


def holding_temporaries(directory: str) -> Iterator[str]:
    """Yield the path of each directory that holds temporary files or directories; no link is followed."""
    pending = [directory]
    while pending:
        current = pending.pop()
        entries = _entries(current)
        directories = (entry for entry in entries if entry.is_dir(follow_symlinks=False))
        pending += [entry.path for entry in directories if not is_temporary(entry.name)]
        if any(is_temporary(entry.name) for entry in entries):
            yield current


def remove_tree(directory: str, *, sync: bool) -> None:
    """Remove every file below `directory` and directories that become empty; no link is followed."""
    found, pending = [], [directory]
    while pending:
        current = pending.pop()
        names, left = [], False
        for entry in _entries(current):
            if is_temporary(entry.name):
                left = True
            elif entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
                found.append(entry.path)
            elif not entry.name.startswith(HIDDEN):
                names.append(entry.name)
            else:
                left = True
        if names or left:
            with suppress(FileNotFoundError), Directory(current, sync=sync) as held:
                held.remove_all(names)
                if left:
                    held.reclaim()
    for path in reversed(found):
        remove_directory(path)


def _scan(directory: str) -> Generator[os.DirEntry[str], None, None]:
    """Yield the entries of a directory; a directory that has vanished counts as empty."""
    with suppress(FileNotFoundError, NotADirectoryError), files.scandir(directory) as entries:
        yield from entries


def _entries(directory: str) -> list[os.DirEntry[str]]:
    """Return the entries of a directory; a missing directory counts as empty."""
    with suppress(FileNotFoundError, NotADirectoryError), files.scandir(directory) as entries:
        return [*entries]
    return []


def _holds_key(directory: str, prefix: str, enters: Enters) -> bool:
    try:
        return next(walk(directory, prefix, enters), None) is not None
    except PermissionError:
        return True


def _is_hidden(name: str) -> bool:
    return name.startswith(HIDDEN) or not (name.isascii() or is_key(name))


def _is_prefix(entry: os.DirEntry[str], enters: Enters) -> bool:
    return entry.is_dir(follow_symlinks=False) or (entry.is_symlink() and enters(entry.path))


def _is_value(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) or entry.is_symlink()


def _goes_round(entry: os.DirEntry[str], prefix: str) -> bool:
    """Return whether an entry in the directory of `prefix` is a link to one of its parent directories."""
    if not entry.is_symlink():
        return False
    above = entry.path
    try:
        target = os.stat(above)
        for _ in range(prefix.count("/") + 1):
            above = os.path.dirname(above)
            if same_file(os.stat(above), target):
                return True
    except FileNotFoundError:
        return True
    return False
