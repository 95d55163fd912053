"""Paths of keys below a base directory: the path of a key's value, whether it is allowed, and errors that name it."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tegula.errors import StoreError, TegulaError
from tegula.runtime import system
from tegula.runtime.system import same_file, spells
from tegula.stores.arguments import check_key
from tegula.stores.names import HIDDEN, absolute, has_twins, name_flaw, reason, swap_case

if TYPE_CHECKING:
    from tegula.stores.local.open_files import Held

__all__ = ["AT_ROOT", "Root", "is_plain"]

_WINDOWS = sys.platform == "win32"
_REMEMBERED = 4096
_OPEN_DIRECTORY = os.O_PATH | os.O_DIRECTORY if sys.platform == "linux" and os.path.isdir("/proc/self/fd") else 0
_TEMPORARY = len(HIDDEN + "4294967295-0123456789abcdef.tmp")
# directories that are known to distinguish case, by device, inode and ctime when they were opened
_heeds_case: dict[tuple[int, int, int], None] = {}
_MOST_STATES = 64
# keys that pass every check, such as those of documents and most chunks; on Windows each file has to be checked
_PLAIN_NAME = r"[0-9A-Za-z_](?:[0-9A-Za-z_.]*[0-9A-Za-z_])?|\.z(?:array|attrs|group)|\.tegula_job"
_PLAIN_FOLDER = r"[0-9A-Za-z_][0-9A-Za-z_.-]*|\.tegula_job"
_PLAIN_KEY = "(?!)" if _WINDOWS else rf"(?:(?:{_PLAIN_FOLDER})/)*(?:{_PLAIN_NAME})"

AT_ROOT = frozenset(() if _WINDOWS else ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".nczarray"))
"""Plain keys of documents at the root, which opening an array reads before any other key: it compiles no pattern."""


def is_plain(key: str) -> re.Match[str] | None:
    """Return whether a key is plain; the first call compiles the pattern, which then replaces this function."""
    globals()["is_plain"] = found = re.compile(_PLAIN_KEY).fullmatch
    return found(key)


class Root:
    """A base directory, and the directories below it that have been checked.

    Parameters
    ----------
    path : str or path-like
        The base directory; a relative path starts at the present current directory.
    follow_symlinks : bool
        Whether links may lead out of it.

    Raises
    ------
    StoreError
        If it exists and is not a directory, or can't be looked at.

    Attributes
    ----------
    base : str
        The path, ending in a separator.
    ignores_case : bool or None
        Whether the file system ignores case; ``None`` until the first name with letters has been looked for.
    known : dict
        Path of each directory that was checked, ending in a separator, by the prefix of its keys.
    """

    def __init__(self, path: str | os.PathLike[str], *, follow_symlinks: bool) -> None:
        self.name = absolute(path)
        self.base = self.name if self.name.endswith(os.sep) else self.name + os.sep
        self.follow_symlinks = follow_symlinks
        self.ignores_case: bool | None = None
        self.known = {"": self.base}
        self._state: tuple[int, int, int] | None = None
        try:
            status = os.stat(self.name)
        except FileNotFoundError as error:
            if os.path.islink(self.name):
                raise StoreError(f"{self.name} is a symbolic link that leads nowhere") from error
        except OSError as error:
            raise StoreError(f"{self.name} can't be opened: {reason(error, self.name)}") from error
        else:
            if not stat.S_ISDIR(status.st_mode):
                raise StoreError(f"{self.name} is a file, not a directory")
            # a directory can be made to ignore case only while it is empty, and every change gives it a new ctime
            self._state = status.st_dev, status.st_ino, status.st_ctime_ns
            if self._state in _heeds_case:
                self.ignores_case = False

    def check(self, key: str) -> None:
        """Raise `StoreError` if `key` is not valid or can't be the name of a file."""
        if type(key) is str and (key in AT_ROOT or is_plain(key)):
            return
        check_key(key)
        if (HIDDEN in key or _WINDOWS) and (flaw := name_flaw(key) or self._length_flaw(key)):
            raise StoreError(flaw, key=key)

    def _length_flaw(self, key: str) -> str | None:
        """Return why a path is too long for Windows, which would say that there is no such file."""
        parent, _, name = key.rpartition("/")
        length = len(self.base) + len(parent) + bool(parent) + max(len(name), _TEMPORARY)
        if system.LONGEST_PATH is None or length <= system.LONGEST_PATH:
            return None
        return (
            f"the path is too long: it has {length} characters, its temporary name included, and this Windows allows "
            f"{system.LONGEST_PATH}; choose a shorter root, or allow more by the setting LongPathsEnabled of Windows"
        )

    def path(self, key: str) -> str | None:
        """Check `key` and return the path of its value, or ``None`` if its directory is missing.

        Raises
        ------
        StoreError
            If the key can't be the name of a file, or leads out of the root.
        OSError
            If a file is in the place of a directory, or the system can't tell.
        """
        if type(key) is not str or not is_plain(key):
            self.check(key)
        parent, _, name = key.rpartition("/")
        directory = self.known.get(parent) or self.directory(parent)
        if _WINDOWS and directory is not None and os.path.islink(directory + name):
            self.resolve(directory + name)  # on Windows, opening a file follows links
        return None if directory is None else directory + name

    def directory(self, name: str) -> str | None:
        """Return the path of a directory below the root, ending in a separator, or ``None`` if there is none.

        `name` is a prefix without its slash. A link is followed; raises as `path` does.
        """
        found = self.known.get(name)
        if found is not None:
            return found
        end = -1
        while end < len(name):
            end = name.find("/", end + 1)
            end = len(name) if end < 0 else end
            above = name[:end]
            if above in self.known:
                continue
            path = self.at(above)
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                return None
            if stat.S_ISLNK(status.st_mode):
                status = os.stat(self.resolve(path))
            if self.ignores_case is not False and self.is_twin(above, status):
                return None
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, f"{path} is not a directory")
            self._remember(above, path)
        return self.known.get(name) or self.at(name) + os.sep  # another thread may have forgotten it

    def directory_now(self, name: str) -> str | None:
        """Return the path of a directory as `directory` does, after checking again what has become a link since."""
        end = len(name) if name in self.known else 0
        while end > 0:
            with suppress(OSError):  # the files in it are missed then
                if stat.S_ISLNK(os.lstat(self.at(name[:end])).st_mode):
                    self.forget(name)
                    self.forget(name[:end])
            end = name.rfind("/", 0, end)
        return self.directory(name)

    def listed(self, prefix: str) -> str | None:
        """Check a prefix, and return the path of its directory as `directory` does; a file has no keys below it."""
        if prefix:
            self.check(prefix[:-1])
        try:
            return self.directory(prefix[:-1])
        except NotADirectoryError:
            return None

    def at(self, name: str) -> str:
        """Return the path of a key or a directory, which has not been checked."""
        return self.base + name

    def forget(self, name: str) -> None:
        """Forget that a directory was checked; with ``""`` forget all directories."""
        if name:
            self.known.pop(name, None)
        else:
            self.known = {"": self.base}

    def resolve(self, path: str) -> str:
        """Return where a symbolic link leads, or raise `StoreError` if it leads nowhere or out of the root."""
        try:
            target = os.path.realpath(path, strict=True)
        except OSError as error:
            raise StoreError(f"{path} is a symbolic link that leads nowhere: {error.strerror}") from error
        if not self.follow_symlinks:
            real = os.path.realpath(self.name)
            if target != real and not target.startswith(os.path.join(real, "")):
                raise StoreError(f"{path} leads out of the store, to {target} (follow_symlinks is off)")
        return target

    def enters(self, path: str) -> bool:
        """Return whether a symbolic link leads to a directory that belongs to the store."""
        try:
            return os.path.isdir(self.resolve(path))
        except StoreError:
            return False

    def is_twin(self, key: str, status: os.stat_result) -> bool:
        """Return whether the file found for `key` is stored under another spelling of its last segment.

        The first existing key with letters shows whether the file system ignores case. Only if it does are names
        compared with the entries of their directory.
        """
        if self.ignores_case is None:
            other = swap_case(key)
            if other is None:
                return False
            try:
                self.ignores_case = same_file(os.stat(self.base + other), status)
            except FileNotFoundError:
                self.ignores_case = False
                if self._state is not None:
                    if len(_heeds_case) >= _MOST_STATES:
                        _heeds_case.clear()
                    _heeds_case[self._state] = None
            except OSError:
                return False  # another name may still show it
        parent, _, name = key.rpartition("/")
        if not self.ignores_case or not has_twins(name) or spells(self.base + parent, name):
            return False
        try:
            return same_file(os.stat(self.base + key), status)
        except OSError:
            return False  # it has gone meanwhile

    def twin(self, key: str) -> str | None:
        """Return the beginning of `key`, up to a whole segment, that is stored under another spelling, or ``None``."""
        end = -1
        while end < len(key):
            end = key.find("/", end + 1)
            end = len(key) if end < 0 else end
            try:
                status = os.stat(self.base + key[:end])
            except OSError:
                return None
            if self.is_twin(key[:end], status):
                return key[:end]
        return None

    def refuse_twin(self, key: str) -> None:
        """Raise `StoreError` if `key`, or a directory above it, is stored under another spelling."""
        twin = self.twin(key)
        if twin is not None:
            raise StoreError(f"{twin!r} differs from a stored name only in its spelling", key=key)

    def pinned(self, name: str, held: Held) -> PinnedRoot | None:
        """Open a directory below the root, and return the root as seen from there; ``None`` if it can't be opened.

        Raises
        ------
        FileNotFoundError
            If there is no such directory.
        """
        if not _OPEN_DIRECTORY:
            return None
        try:
            path = self.directory(name)
            opened = None if path is None else f"/proc/self/fd/{held.open(path, _OPEN_DIRECTORY)}/"
        except NotADirectoryError:
            opened = None
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise
            return None  # reading by path says what is wrong
        if opened is None:
            raise FileNotFoundError(errno.ENOENT, f"there is no directory {name}")
        # a process that has changed its root has no ``/proc``
        return PinnedRoot(self, name, opened) if os.path.isdir(opened) else None

    @contextmanager
    def reporting(self, action: str, key: str) -> Iterator[None]:
        """Turn the system's errors into `StoreError`, and add the key to every error."""
        try:
            yield
        except TegulaError as error:
            error.within(key=key)
            raise
        except (OSError, ValueError) as error:
            raise self.failure(action, key, error) from error

    def failure(self, action: str, key: str, error: Exception) -> StoreError:
        """Return the error for an action with a key or a prefix that has failed."""
        path = getattr(error, "filename", None)
        if (not key or key.endswith("/")) and isinstance(path, str) and path.startswith(self.base + key):
            key = path[len(self.base) :].replace(os.sep, "/")  # the directory or file below the prefix
        return StoreError(f"can't {action} {self.base}{key}: {reason(error, self.base + key)}", key=key)

    def _remember(self, name: str, path: str) -> None:
        if len(self.known) >= _REMEMBERED:
            self.forget("")
        self.known[name] = path + os.sep


class PinnedRoot(Root):
    """The same base directory, with one directory below it that is open: its path does not matter any more.

    Parameters
    ----------
    root : Root
        The base directory.
    name : str
        The directory: the prefix of its keys, without the last slash.
    opened : str
        A path of the open directory, ending in a separator.
    """

    def __init__(self, root: Root, name: str, opened: str) -> None:
        self.__dict__.update(root.__dict__)
        self._pinned, self._opened = name, opened
        self.known = {name: opened}

    def at(self, name: str) -> str:
        """Return a path below the open directory."""
        inside = name[len(self._pinned) :]
        if not name.startswith(self._pinned) or (self._pinned and inside[:1] not in ("", "/")):
            return super().at(name)
        return self._opened + inside.removeprefix("/") if inside else self._opened[:-1]

    def forget(self, name: str) -> None:
        """Forget that a directory was checked, but not that of the prefix."""
        self.known = {self._pinned: self._opened} if not name else self.known
        if name != self._pinned:
            self.known.pop(name, None)
