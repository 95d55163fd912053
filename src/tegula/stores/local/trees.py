"""The directory tree below the root of a store: listing and removing it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from operator import itemgetter
from typing import Any

from tegula.runtime.system import files, same_file
from tegula.stores.arguments import is_key
from tegula.stores.local.directories import Directory, is_temporary, prune, remove_directory
from tegula.stores.local.generations import needs_more, state_of
from tegula.stores.local.root import Root
from tegula.stores.names import HIDDEN

__all__ = ["blockers", "children", "directories", "keys", "leftovers", "reclaimed", "remove_tree", "states"]

Enters = Callable[[str], bool]
"""Returns whether to walk into a symbolic link, rather than list it as a key."""


def keys(root: Root, prefix: str) -> Iterator[str]:
    """Yield the key of every file below a prefix; see `entries_below`."""
    with root.reporting("list", prefix):
        path = root.listed(prefix)
        if path is not None:
            yield from walk(path, prefix, root.enters)


def states(root: Root, prefix: str, get: Callable[..., Any]) -> Iterator[tuple[str, int, int]]:
    """Yield the key of every file below a prefix, the length and the state of its value.

    `get` is that of the store, and looks at what is unusual.
    """
    with root.reporting("list", prefix):
        path = root.listed(prefix)
        for key, entry in () if path is None else entries_below(path, prefix, root.enters):
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if not status.st_ino:  # on Windows the directory does not have it, and may have an earlier time
                    status = os.lstat(entry.path)
                if stat.S_ISREG(status.st_mode) and not needs_more(status):
                    yield key, status.st_size, state_of((status.st_ino, status.st_mtime_ns, status.st_size))
                    continue
            value, generation = get(key, (0, 0), with_generation=True)  # of a link, that of its file
            if value is not None:
                yield key, generation[2], state_of(generation)


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


def children(root: Root, prefix: str) -> tuple[list[str], list[str]]:
    """Return the keys and the prefixes directly below a prefix, sorted, without directories that hold no key.

    A directory that may not be read counts as a prefix, so that the error comes from looking into it.
    """
    keys, prefixes = [], []
    for entry in _scan(root.listed(prefix)):
        if _is_hidden(entry.name):
            continue
        if _is_prefix(entry, root.enters):
            below = f"{prefix}{entry.name}/"
            if not _goes_round(entry, prefix) and _holds_key(entry.path, below, root.enters):
                prefixes.append(below)
        elif _is_value(entry):
            keys.append(prefix + entry.name)
    return sorted(keys), sorted(prefixes)


def blockers(root: Root, prefix: str) -> Iterator[str]:
    """Yield the names below a prefix of empty directories, and of what is neither a file, a directory nor a link."""
    with root.reporting("list", prefix):
        pending = [prefix]
        while pending:
            above, is_empty = pending.pop(), True
            for entry in _scan(root.listed(above)):
                if _is_hidden(entry.name):
                    continue
                is_empty = False
                if _is_prefix(entry, root.enters):
                    pending += [] if _goes_round(entry, above) else [f"{above}{entry.name}/"]
                elif not _is_value(entry):
                    yield above + entry.name
            if is_empty and above != prefix:
                yield above[:-1]


def directories(root: Root, prefix: str) -> list[tuple[str, os.DirEntry[str]]]:
    """Return the prefixes directly below a prefix, sorted, with their directories, which may be empty."""
    found = [
        (f"{prefix}{entry.name}/", entry)
        for entry in _scan(root.listed(prefix))
        if not _is_hidden(entry.name) and _is_prefix(entry, root.enters) and not _goes_round(entry, prefix)
    ]
    return sorted(found, key=itemgetter(0))


def _holding_temporaries(root: Root, prefix: str) -> Iterator[str]:
    """Yield the path of each directory below a prefix that holds temporary files or directories; follow no link."""
    top = root.listed(prefix)
    pending = [] if top is None else [top]
    while pending:
        current = pending.pop()
        entries = _entries(current)
        directories = (entry for entry in entries if entry.is_dir(follow_symlinks=False))
        pending += [entry.path for entry in directories if not is_temporary(entry.name)]
        if any(is_temporary(entry.name) for entry in entries):
            yield current


def leftovers(root: Root, prefix: str) -> Iterator[str]:
    """Yield the temporary files below a prefix whose writer has died, as paths relative to the root."""
    with root.reporting("list", prefix):
        for path in _holding_temporaries(root, prefix):
            inside = path[len(root.base) :].replace(os.sep, "/").rstrip("/")
            names: list[str] = []
            with suppress(FileNotFoundError, NotADirectoryError), Directory(path) as directory:
                names += directory.leftovers()
            for name in names:
                yield f"{inside}/{name}" if inside else name


def reclaimed(root: Root, prefix: str) -> int:
    """Remove the temporary files below a prefix whose writer has died, and return how many there were."""
    count = 0
    for path in _holding_temporaries(root, prefix):
        with suppress(FileNotFoundError, NotADirectoryError), Directory(path) as directory:
            count += directory.reclaim()
    return count


def remove_tree(root: Root, name: str, *, sync: bool) -> None:
    """Remove every file below a directory and directories that become empty; no link is followed."""
    directory = root.directory(name)
    if directory is None:
        return
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
    root.forget("")
    prune(root, name)


def _scan(directory: str | None) -> Generator[os.DirEntry[str], None, None]:
    """Yield the entries of a directory; one that is not there, or has vanished, counts as empty."""
    if directory is None:
        return
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
