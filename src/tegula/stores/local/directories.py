"""A directory opened for changes: whole files are put in place in one step, under a lock that ends with its holder.

``docs/design/local-files.md`` describes the steps, and how the kernel shares them.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Final

from tegula.errors import StoreError
from tegula.runtime import system
from tegula.stores.arguments import ABSENT, Generation, changed
from tegula.stores.local.generations import FileGeneration, fine_time, generation_of, is_later, needs_more, new_time
from tegula.stores.local.open_files import (
    EMPTY,
    LOCK_FILE,
    NO_LOCKS,
    Contents,
    Held,
    acquire,
    drop_lock,
    real_path,
    take_lock,
    write_to,
)
from tegula.stores.names import HIDDEN

if TYPE_CHECKING:
    from tegula.stores.local.root import Root

__all__ = [
    "SWEPT",
    "Directory",
    "is_temporary",
    "make_directories",
    "note_swept",
    "prune",
    "remove_directory",
    "remove_temporary",
    "sweep",
    "sync_directory",
    "temporary_directory",
    "vacate",
]

_OPEN_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_OWNED = f"{LOCK_FILE}-owner"  # locked by the owner of a temporary directory that can't be locked itself
_DAY = 86400.0
_ATTEMPTS = 10
_STEPS = (10**3, 10**6, 10**9, 2 * 10**9)  # nanoseconds: file systems keep times in multiples of one of these
_ALLOCATES = sys.platform == "linux"
_MOST_ALLOCATED = 2**22  # if the file system does not support the call, the C library writes to each block instead
_MOST_SWEPT = 65536
SWEPT: Final[set[str]] = set()
"""Paths of directories that this process has swept, or made."""


class Directory(Held):
    """An open directory, for use in a ``with`` statement.

    On POSIX every operation goes through its file descriptor, so that a directory which is moved or removed in between
    is never confused with another directory at the same path.

    Parameters
    ----------
    path : str
        The directory.
    sync : bool
        Whether to sync each file to the disk before it gets its name, and the name before the operation ends.

    Raises
    ------
    OSError
        If it can't be opened.
    """

    def __init__(self, path: str, *, sync: bool = False) -> None:
        self._lock_files: list[tuple[str, int, int | None]] = []
        super().__init__(before=starmap(drop_lock, self._lock_files))
        self._path = path
        self._sync = sync
        self._fd: int | None = None
        self._lock_fd: int | None = None

    def __enter__(self) -> Directory:
        if system.HAS_DIRECTORY_FDS:
            try:
                self._fd = self.open(self._path, _OPEN_DIRECTORY)
            except BaseException:
                self.close()
                raise
        return self

    def replace(self, name: str, value: Contents, expected: Generation | None) -> Generation:
        """Put a file with the contents `value`, bytes or an open file, in the place of `name`; return its generation.

        Raises
        ------
        ConflictError
            If `expected` is given and the file at `name` has another generation.
        OSError
            If anything fails; the old file is unchanged, and no other file is left behind.
        """
        chance = os.urandom(8)
        temporary = self._at(f"{HIDDEN}{os.getpid()}-{chance.hex()}.tmp")
        before = self.mark
        try:
            generation = self._write(temporary, value, chance, replaces=expected not in (None, ABSENT))
            self._lock(required=expected is not None)
            old = self._check(name, expected)
            if old is not None:
                generation = self._later(temporary, generation, old)
            system.files.replace(temporary, self._at(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            try:  # noqa: SIM105 - no signal comes between the exception and this call
                system.files.unlink(temporary, dir_fd=self._fd)
            except OSError:
                pass
            raise
        for fd in self._held[before:]:  # the new file: a child forked now would keep its lock
            if fd != self._lock_fd:  # a lock file is removed first: whoever took its lock would lose it
                self.unlock(fd)
        self._unlock(before)
        self._sync_names()
        return generation

    def remove(self, name: str, expected: Generation | None) -> None:
        """Remove the file or link `name` if there is one; a directory is left alone. Raises as `replace` does."""
        before = self.mark
        self._lock(required=expected is not None)
        if expected is not None:
            self._check(name, expected)
        self._unlink(name)
        self._unlock(before)
        self._sync_names()

    def remove_all(self, names: Iterable[str]) -> None:
        """Remove several files or links."""
        before = self.mark
        self._lock(required=False)
        for name in names:
            self._unlink(name)
        self._unlock(before)
        self._sync_names()

    def leftovers(self, locks: list[str] | None = None) -> Iterator[str]:
        """Yield the temporary files of dead writers; a live writer holds the lock of its temporary file.

        The lock of each is held until the next one is asked for, so that nobody else takes it for a file of its own.
        The names of all lock files are added to `locks`.
        """
        return (name for name, _ in self._orphans([] if locks is None else locks))

    def _orphans(self, locks: list[str]) -> Iterator[tuple[str, Held]]:
        """Yield what `leftovers` does, each with what holds its lock."""
        for name in os.listdir(self._path if self._fd is None else self._fd):
            if is_temporary(name):
                with Held() as held:
                    if self._is_orphan(name, held):
                        yield name, held
            elif name.startswith(LOCK_FILE):
                locks.append(name)

    def reclaim(self) -> int:
        """Remove the temporary files and directories of dead writers, as far as permissions allow; return how many.

        Lock files that nobody holds are removed, too.
        """
        count = 0
        locks: list[str] = []
        for name, held in self._orphans(locks):
            with suppress(OSError):
                try:
                    system.files.unlink(self._at(name), dir_fd=self._fd)
                except (IsADirectoryError, PermissionError):  # which of them depends on the system
                    remove_temporary(os.path.join(self._path, name), held)
                count += 1
        self.remove_locks(locks)
        return count

    def remove_locks(self, names: Iterable[str]) -> None:
        """Remove those of these lock files that nobody holds."""
        for name in names:
            before = self.mark
            with suppress(OSError):
                path = self._at(name)
                fd = self.open(path, os.O_RDWR, dir_fd=self._fd)
                if self.lock(fd, path, wait=False):
                    drop_lock(path, fd, self._fd)
                    self.unlock(fd)
            self.release(before)

    def _at(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self._path, name)

    def _write(self, path: str, value: Contents, chance: bytes, *, replaces: bool) -> FileGeneration:
        """Write a file; while this object is open, the lock of the file shows that its writer is alive."""
        opened: list[int] = []
        try:
            opened.extend(map(partial(system.files.open, dir_fd=self._fd), (path,), (_CREATE,), (0o666,)))
            fd = opened[0]
            with suppress(OSError):
                acquire(fd, path, wait=False)
            if replaces and _ALLOCATES and 0 < value.nbytes <= _MOST_ALLOCATED:
                # without this, ext4 would write a file that has no blocks yet to the disk before it replaces another
                os.posix_fallocate(fd, 0, value.nbytes)
            write_to(fd, value)
            now = new_time(time.time_ns(), chance)
            os.utime(fd if system.TIMES_BY_FD else path, ns=(now, now))
            if self._sync:
                system.sync_file(fd)
            with suppress(OSError):
                self.duplicate(fd)
            return generation_of(os.fstat(fd), fd, value if isinstance(value, memoryview) else None)
        finally:
            if opened:
                os.close(opened[0])  # before the file is put in place, since NFS reports failed writes only here

    def _check(self, name: str, expected: Generation | None) -> FileGeneration | None:
        """Return the generation of the file at `name`; compare it with the expected one, if there is one."""
        try:
            found = self._generation(name)
        except OSError:
            if expected is None:
                return None  # for example a circular link, which is replaced
            raise
        if expected is not None and (ABSENT if found is None else found) != expected:
            raise changed(None)
        return found

    def _generation(self, name: str) -> FileGeneration | None:
        """Return the generation of the file at `name`; ``None`` if there is no file, or a directory."""
        path = self._at(name)
        try:
            status = os.stat(path, dir_fd=self._fd)
            if stat.S_ISDIR(status.st_mode):
                return None
            if not needs_more(status):
                return generation_of(status, -1)
            with Held() as held:
                fd = held.open(path, system.READ, dir_fd=self._fd)
                return generation_of(os.fstat(fd), fd)
        except FileNotFoundError:
            return None

    def _later(self, path: str, generation: FileGeneration, old: FileGeneration) -> FileGeneration:
        """Give a new file a later time than the old file that it replaces, if necessary; return its generation.

        So generations never recur even if inode numbers do, and even if the clock stands still or is set back.
        """
        for step in _STEPS:
            if is_later(generation, old):
                return generation
            now = fine_time(old[1] + step)
            os.utime(path, ns=(now, now), dir_fd=self._fd)
            status = os.stat(path, dir_fd=self._fd)
            generation = (status.st_ino, status.st_mtime_ns, status.st_size, *generation[3:])
        if not is_later(generation, old):
            raise StoreError(
                f"the file system of {self._path} keeps no modification times, by which changes of a file are noticed"
            )
        return generation

    def _unlink(self, name: str) -> None:
        try:
            system.files.unlink(self._at(name), dir_fd=self._fd)
        except FileNotFoundError:
            pass
        except (IsADirectoryError, PermissionError):  # which of them is raised for a directory depends on the system
            if not stat.S_ISDIR(os.lstat(self._at(name), dir_fd=self._fd).st_mode):
                raise

    def _sync_names(self) -> None:
        if self._sync and self._fd is not None:
            system.sync_file(self._fd)

    def _is_orphan(self, name: str, held: Held) -> bool:
        """Return whether the writer of a temporary file is dead; if so, `held` has its lock."""
        path = self._at(name)
        no_link = getattr(os, "O_NOFOLLOW", 0)
        with suppress(OSError):
            try:
                fd = held.open(path, os.O_RDWR | no_link, dir_fd=self._fd)
            except (IsADirectoryError, PermissionError):  # Windows raises this one
                try:
                    fd = _open_directory(held, path, no_link, self._fd)
                except FileNotFoundError:  # its owner has not locked it yet, or can't
                    return time.time() - os.stat(path, dir_fd=self._fd).st_mtime > _DAY
            try:
                return acquire(fd, path, wait=False)
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
            return time.time() - os.fstat(fd).st_mtime > _DAY
        return False

    def _lock(self, *, required: bool) -> None:
        """Lock out other writers of this directory; raise if it can't be locked and the lock is `required`."""
        if self._fd is not None:
            try:
                self.lock(self._fd, self._path)
                self._lock_fd = self._fd
                return
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
        fd = take_lock(self, self._at(LOCK_FILE), os.path.join(self._path, LOCK_FILE), self._fd)
        if fd is not None:
            self._lock_files.append((self._at(LOCK_FILE), fd, self._fd))
            self._lock_fd = fd
        elif required:
            raise StoreError(f"the file system of {self._path} has no locks, which a conditional write needs")

    def _unlock(self, mark: int) -> None:
        """Release the lock for other writers; with `sync`, which takes long, also the files opened since `mark`."""
        if self._lock_files:
            drop_lock(*self._lock_files.pop())
        if self._lock_fd is not None:
            self.unlock(self._lock_fd)
            self._lock_fd = None
        if self._sync:
            self.release(mark)


def is_temporary(name: str) -> bool:
    """Return whether this is the name of a temporary file (not yet put in place by its writer) or directory."""
    return name.startswith(HIDDEN) and name.endswith(".tmp")


@contextmanager
def temporary_directory(above: str) -> Iterator[str]:
    """Make a temporary directory, whose lock is held until it is removed when the context ends, as far as possible.

    Raises
    ------
    StoreError
        If it can't be made.
    """
    for _ in range(_ATTEMPTS):
        path = os.path.join(above, f"{HIDDEN}{os.getpid()}-{os.urandom(8).hex()}.tmp")
        failure: OSError | None = None
        with Held() as held:
            try:
                os.mkdir(path, 0o700)
                is_locked = _is_locked(held, path)
            except OSError as error:
                is_locked, failure = False, error
            if not is_locked:
                with suppress(OSError):
                    os.rmdir(path)
                if failure is None:
                    continue  # another process has taken it for that of a dead writer, and removes it
                said = f"can't make the temporary directory {path}: {failure.strerror or failure}"
                raise StoreError(said) from failure
            try:
                yield path
                return
            finally:
                with suppress(OSError):  # what can't be removed now is removed by sweeping
                    try:
                        remove_temporary(path, held)
                    except BaseException:  # a signal, or one call that failed: try again
                        remove_temporary(path, held)
                        raise
    raise StoreError(f"other processes keep removing temporary directories in {above}")


def _is_locked(held: Held, path: str) -> bool:
    """Lock a new temporary directory; return whether it was still there, and free."""
    try:
        fd = _open_directory(held, path, 0 if system.HAS_DIRECTORY_FDS else os.O_CREAT)
        return held.lock(fd, path, wait=False) and os.path.lexists(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno in NO_LOCKS:
            return True
        raise


def _open_directory(held: Held, path: str, flags: int, dir_fd: int | None = None) -> int:
    """Open a temporary directory to lock it; where directories can't be opened, a file in it."""
    if system.HAS_DIRECTORY_FDS:
        return held.open(path, _OPEN_DIRECTORY | flags, dir_fd=dir_fd)
    return held.open(os.path.join(path, _OWNED), os.O_RDWR | flags)


def remove_temporary(path: str, held: Held | None = None) -> None:
    """Remove a temporary directory with all its contents, if there is one; no link is followed.

    The files of each directory are removed before those below it, so that documents go before most chunks. Where its
    lock, which `held` has, is a file in it, that goes last.

    Raises
    ------
    OSError
        If an entry can't be removed.
    """
    for _ in range(_ATTEMPTS):  # a writer may still add files in between
        with suppress(FileNotFoundError):
            found = []
            for folder, folders, files in os.walk(path, onerror=_raise):  # which would leave out what it can't list
                found.append(folder)
                for name in [*files, *(name for name in folders if os.path.islink(os.path.join(folder, name)))]:
                    if name != _OWNED or folder != path:
                        system.files.unlink(os.path.join(folder, name))
            for folder in reversed(found[1:]):
                os.rmdir(folder)
            if held is not None and not system.HAS_DIRECTORY_FDS:
                held.release(EMPTY)  # a directory with a file that is open can't be removed
            with suppress(FileNotFoundError):
                system.files.unlink(os.path.join(path, _OWNED))
            os.rmdir(path)
            return
        if not os.path.lexists(path):
            return


def _raise(error: OSError) -> None:
    """Raise an error that `os.walk` would pass over."""
    raise error


def make_directories(path: str, *, sync: bool, anchor: str = "", note: Callable[[str], object] | None = None) -> bool:
    """Make a directory and the missing directories above it; with `sync` their names are on the disk on return.

    Returns whether this call made it. Other processes may remove it again while it is empty. Directories above the file
    `anchor` are not made. `note` is called with the path of each directory that is made, which ends with a separator.

    Raises
    ------
    OSError
        If a directory can't be made, or a file is in its place.
    """
    if os.altsep:  # on Windows, where keys have slashes
        path, anchor = path.replace(os.altsep, os.sep), anchor.replace(os.altsep, os.sep)
    missing = [path]
    failures, made = 0, False
    while missing:
        if anchor.startswith(os.path.join(missing[-1], "")) and not os.path.isdir(missing[-1]):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), missing[-1])
        try:
            os.mkdir(missing[-1])
        except FileNotFoundError:
            above = os.path.dirname(missing[-1])
            failures += 1  # some file systems raise this although the directory above exists
            if above == missing[-1] or failures > 4096:
                raise
            missing.append(above)
            continue
        except FileExistsError:
            if not _is_directory(missing[-1]):
                raise
            made = False
        else:
            made = True
            if note is not None:
                note(os.path.join(missing[-1], ""))
            if sync:
                with suppress(FileNotFoundError):  # other processes have removed both again
                    sync_directory(os.path.dirname(missing[-1]))
        missing.pop()
    return made


def _is_directory(path: str) -> bool:
    """Return whether there is a directory, or was one a moment ago."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except FileNotFoundError:
        return not os.path.islink(path)


def remove_directory(path: str) -> bool:
    """Remove a directory if it is empty except for a lock file; return whether it is gone."""
    try:
        os.rmdir(path)
    except OSError:
        if not os.path.lexists(os.path.join(path, LOCK_FILE)):
            return not os.path.lexists(path)
        try:
            with Directory(path) as directory:
                directory.remove_locks([LOCK_FILE])
            os.rmdir(path)
        except OSError:
            return False
    return True


def sync_directory(path: str) -> None:
    """Sync the names in a directory to the disk; Windows offers no way to do that."""
    if system.HAS_DIRECTORY_FDS:
        with Held() as held:
            system.sync_file(held.open(path, _OPEN_DIRECTORY))


def note_swept(path: str) -> None:
    """Note that a directory need not be swept."""
    if len(SWEPT) >= _MOST_SWEPT:
        SWEPT.clear()
    SWEPT.add(real_path(path))


def sweep(path: str, directory: Directory) -> None:
    """Remove the temporary files of dead writers from a directory, once per process, since this lists the directory."""
    note_swept(path)
    with suppress(OSError):
        directory.reclaim()


def vacate(root: Root, key: str) -> bool:
    """Remove a directory in the place of a value if no file lies below it; return whether it is gone.

    A deletion that was killed leaves such directories.
    """
    path = root.base + key
    if os.path.islink(path) or not os.path.isdir(path):
        return False
    for folder, _, _ in os.walk(path, topdown=False):
        if not remove_directory(folder):
            return False
        root.forget(folder[len(root.base) :].replace(os.sep, "/"))
    return not os.path.lexists(path)


def prune(root: Root, name: str) -> None:
    """Remove a directory and the directories above it as long as they are empty."""
    with suppress(OSError):
        while name:
            path = root.directory(name)
            if path is not None and not remove_directory(path[:-1]):
                if real_path(path) in SWEPT:
                    return
                with Directory(path) as directory:
                    sweep(path, directory)
                if not remove_directory(path[:-1]):
                    return
            root.forget(name)
            name = name.rpartition("/")[0]
