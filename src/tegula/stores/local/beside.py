"""A hidden directory beside that of a prefix, which exchanges places with it in one step.

``docs/design/local-files.md`` describes the steps, and what a crash leaves.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any, Final, Self

from tegula.errors import AlreadyExistsError, StoreError
from tegula.runtime.system import exchanged, same_file
from tegula.stores.capabilities import Beside
from tegula.stores.local.directories import (
    SWEPT,
    Directory,
    make_directories,
    note_swept,
    prune,
    remove_temporary,
    sweep,
    sync_directory,
    temporary_directory,
)

__all__ = ["LocalBeside", "renamed"]

_NEW: Final = "new"
_ATTEMPTS: Final = 100
# a directory that can't be renamed at all: a mount point, another disk, one that is in use, or not one's own
_NOT_MOVED: Final = {errno.EXDEV, errno.EBUSY, errno.EPERM, errno.EACCES, errno.EROFS}


class LocalBeside(Beside):
    """A store in a hidden directory beside that of a prefix of a local store, as a context manager.

    The hidden directory, which is locked while its owner lives, holds the directory of the store. It is in the
    directory above that of the prefix. Where the directory of the prefix can't be renamed (it is a mount point, the
    current directory, a root that is a symbolic link, or the directory above can't be written) it is inside it.

    Parameters
    ----------
    target : LocalStore
        The store.
    top : str
        The prefix without its last slash.

    Raises
    ------
    StoreError
        If the hidden directory can't be made.
    """

    def __init__(self, target: Any, top: str) -> None:
        self._target = target
        self._path = (target._root.base + top).rstrip(os.sep) or os.sep
        self._stack = ExitStack()
        self._sync = target._sync
        self.in_one_step = _is_movable(self._path, is_root=not top)

    def __enter__(self) -> Self:
        attempts = _ATTEMPTS
        try:
            if self.in_one_step:
                try:
                    self._open(os.path.dirname(self._path))
                except StoreError:  # most likely the directory above can't be written
                    self._stack.close()
                    self.in_one_step = False
            while not self.in_one_step:
                make_directories(self._path, sync=self._sync)
                try:
                    self._open(self._path)
                    break
                except StoreError as error:
                    if not isinstance(error.__cause__, FileNotFoundError) or (attempts := attempts - 1) == 0:
                        raise
                    self._stack.close()  # another process has removed the directory, which was empty
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the hidden directory; see `Beside.close`."""
        self._stack.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_stack"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _stack=ExitStack())
        self._stack.callback(remove_temporary, os.path.dirname(self._new))

    def _open(self, above: str) -> None:
        folder = os.path.join(above, "")
        if folder not in SWEPT:
            with suppress(OSError), Directory(folder) as directory:
                sweep(folder, directory)
        self._new = os.path.join(self._stack.enter_context(temporary_directory(above)), _NEW)
        os.mkdir(self._new)
        note_swept(os.path.join(self._new, ""))
        root = self._target._root
        self.store = type(self._target)(
            self._new, durability=self._target.durability, follow_symlinks=root.follow_symlinks
        )
        self.store._root.ignores_case = root.ignores_case

    def exchange(self) -> bool:
        """Exchange the directories; see `Beside.exchange`."""
        if not self.in_one_step:
            return False
        with self._target._root.reporting("replace", ""):
            _take_over(self._path, self._new)
            try:
                _exchange(self._new, self._path)
            except OSError as error:
                if error.errno not in _NOT_MOVED and not isinstance(error, PermissionError):
                    raise
                return False
            finally:
                self._forget()
            if os.path.islink(self._new):  # of a link only the link is deleted
                os.unlink(self._new)
            if self._sync:
                sync_directory(os.path.dirname(self._path))
        return True

    def prefixes(self) -> Iterator[str]:
        """Yield the prefixes of all directories; see `Beside.prefixes`."""
        for folder, _, _ in os.walk(self._new):
            if folder != self._new:
                yield os.path.relpath(folder, self._new).replace(os.sep, "/") + "/"

    def _forget(self) -> None:
        self.store._root.forget("")
        self._target._root.forget("")


def _is_movable(place: str, *, is_root: bool) -> bool:
    """Return whether a directory or a symbolic link can most likely be renamed."""
    above = os.path.dirname(place)
    try:
        status = os.lstat(place)
    except FileNotFoundError:  # another process has just deleted it
        return above != place
    except OSError:
        return False
    try:
        if stat.S_ISLNK(status.st_mode):
            return not is_root  # the user's own way to the root
        here = os.stat(os.curdir)
        return above != place and not same_file(status, here) and status.st_dev == os.stat(above).st_dev
    except OSError:
        return False


def _take_over(old: str, new: str) -> None:
    """Give a new directory the permissions of the old one, and its owner and group as far as that is allowed."""
    made = os.lstat(new)
    try:
        status = os.lstat(old)
    except FileNotFoundError:  # another process has just deleted it
        return
    if not stat.S_ISDIR(status.st_mode):
        return
    if (status.st_uid, status.st_gid) != (made.st_uid, made.st_gid) and hasattr(os, "chown"):
        for owner in ((status.st_uid, status.st_gid), (-1, status.st_gid)):
            with suppress(OSError):
                os.chown(new, *owner)
                break
    if stat.S_IMODE(status.st_mode) != stat.S_IMODE(os.lstat(new).st_mode):
        with suppress(OSError):
            os.chmod(new, stat.S_IMODE(status.st_mode))


def _exchange(new: str, place: str) -> None:
    """Exchange two directories; if there is none at `place` any more, only rename the other one."""
    for attempt in range(_ATTEMPTS):
        away = os.path.join(os.path.dirname(new), f"old{attempt}")
        with suppress(FileNotFoundError):
            if exchanged(new, place):
                return
            os.rename(place, away)
        try:
            os.rename(new, place)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                continue  # another process has created something
            with suppress(OSError):
                os.rename(away, place)
            raise
        with suppress(FileNotFoundError):
            os.rename(away, new)
        return
    raise StoreError(f"other processes keep replacing {place}")


def renamed(source: Any, top: str, target: Any, new: str) -> bool:
    """Rename the directory of a prefix if both places are on one file system; return whether that was done.

    Parameters
    ----------
    source, target : LocalStore
        The stores.
    top, new : str
        The old and the new prefix without their last slashes.

    Raises
    ------
    AlreadyExistsError
        If something is at the new new.
    OSError
        If it fails.
    """
    # the directory, and a free new for it
    path = source._root.directory(top)
    if path is None or os.path.islink(path[:-1]):
        return False
    if target._root.ignores_case is not False and new:
        target._root.refuse_twin(new)
    there = (target._root.base + new).rstrip(os.sep)
    above = os.path.dirname(there)
    made = make_directories(above, sync=target._sync)
    with suppress(OSError):  # an empty directory does no harm
        os.rmdir(there)

    # rename it; if that fails, remove the new directories again
    try:
        os.rename(path[:-1], there)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise AlreadyExistsError(f"something already exists at {there}") from error
        if made:
            prune(target._root, new.rpartition("/")[0])
        if error.errno in (errno.EXDEV, errno.EBUSY):
            return False
        raise
    finally:
        source._root.forget("")
        target._root.forget("")

    # sync to the disk, and remove directories that are now empty
    for store, name in ((target, above), (source, os.path.dirname(path[:-1]))):
        if store._sync:
            sync_directory(name)
    prune(source._root, top.rpartition("/")[0])
    return True
