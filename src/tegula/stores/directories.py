"""One directory opened for changes: whole files put in place in one step, under a lock that dies with its holder."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from tegula.errors import ConflictError, StoreError
from tegula.stores.interface import ABSENT, Generation
from tegula.stores.names import HIDDEN
from tegula.stores.open_files import acquire, release, sync_file

__all__ = ["Directory", "generation_of", "make_directories", "remove_directory", "sync_directory"]

_RELATIVE = os.open in os.supports_dir_fd
_TIMES_BY_FD = os.utime in os.supports_fd
_OPEN_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_LOCK_FILE = HIDDEN + "lock"
_NO_LOCKS = {
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOLCK,
    errno.ENOSYS,
    errno.EINVAL,
    errno.EBADF,  # NFS wants a file that is open for writing
    errno.EISDIR,
}
_DAY = 86400.0
_ALLOCATES = sys.platform == "linux"
_MOST_ALLOCATED = 2**22  # where the file system has no such call, it is made up for by writing to each block


class Directory:
    """A directory that is open, for ``with``.

    On POSIX everything goes through its file descriptor, so that a directory which is moved or removed meanwhile is
    never mistaken for another one of the same path.

    Parameters
    ----------
    path : str
        The directory.
    sync : bool
        Whether what is put in place is on the disk before it is visible, and its name soon after.

    Raises
    ------
    OSError
        If it can't be opened.
    """

    __slots__ = ("_fd", "_path", "_sync")

    def __init__(self, path: str, *, sync: bool = False) -> None:
        self._path = path
        self._sync = sync
        self._fd = os.open(path, _OPEN_DIRECTORY) if _RELATIVE else None

    def __enter__(self) -> Directory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def replace(self, name: str, value: memoryview, expected: Generation | None) -> Generation:
        """Put a file with the contents `value` in the place of `name`, and return its generation.

        Raises
        ------
        ConflictError
            If `expected` is given and is not the generation of what stands there.
        OSError
            If anything fails; what stood there still does, and nothing is left behind.
        """
        temporary = f"{HIDDEN}{os.getpid()}-{os.urandom(8).hex()}.tmp"
        alive: list[int] = []
        try:
            generation = self._write(temporary, value, alive, replaces=expected not in (None, ABSENT))
            with self._locked(required=expected is not None):
                self._check(name, expected)
                os.replace(self._at(temporary), self._at(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            with suppress(OSError):
                os.unlink(self._at(temporary), dir_fd=self._fd)
            raise
        finally:
            for fd in alive:
                with suppress(OSError):  # it has been closed before, under its first number
                    os.close(fd)
        self._sync_names()
        return generation

    def remove(self, name: str, expected: Generation | None) -> None:
        """Remove the file or link `name` if there is one; a directory is left alone. Raises as `replace` does."""
        with self._locked(required=expected is not None):
            self._check(name, expected)
            self._unlink(name)
        self._sync_names()

    def remove_all(self, names: Iterable[str]) -> None:
        """Remove several files or links."""
        with self._locked(required=False):
            for name in names:
                self._unlink(name)
        self._sync_names()

    def leftovers(self) -> Iterator[str]:
        """Yield the temporary files of writers that died; those still being written are locked by their writer."""
        for name in os.listdir(self._path if self._fd is None else self._fd):
            if name.startswith(HIDDEN) and name.endswith(".tmp"):
                with suppress(OSError):
                    if self._is_orphan(name):
                        yield name

    def reclaim(self) -> int:
        """Remove what dead writers left, as far as that is allowed, and return how many files it was."""
        count = 0
        for name in self.leftovers():
            with suppress(OSError):
                os.unlink(self._at(name), dir_fd=self._fd)
                count += 1
        return count

    def remove_lock_file(self) -> None:
        """Remove the lock file, if one had to be made, from a directory that holds nothing else."""
        if os.listdir(self._path if self._fd is None else self._fd) == [_LOCK_FILE]:
            with self._locked(required=False):
                self._unlink(_LOCK_FILE)

    def _at(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self._path, name)

    def _write(self, name: str, value: memoryview, alive: list[int], *, replaces: bool) -> Generation:
        """Write a file; with what is added to `alive` ends the lock that tells those who sweep of a living writer."""
        fd = os.open(self._at(name), _CREATE, 0o666, dir_fd=self._fd)
        try:
            with suppress(OSError):
                acquire(fd, wait=False)
            if replaces and _ALLOCATES and 0 < value.nbytes <= _MOST_ALLOCATED:
                # ext4 sends a file that has no blocks yet to the disk before it lets it replace another one
                os.posix_fallocate(fd, 0, value.nbytes)
            while value.nbytes:
                count = os.write(fd, value)
                if not count:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                value = value[count:]
            # Inode numbers come back soon and the system's clock ticks slowly; an explicit time makes tokens unique.
            now = time.time_ns()
            os.utime(fd if _TIMES_BY_FD else self._at(name), ns=(now, now))
            if self._sync:
                sync_file(fd)
            if sys.platform != "win32":  # which renames no open file
                with suppress(OSError):
                    alive.append(os.dup(fd))
            return generation_of(os.fstat(fd))
        finally:
            os.close(fd)  # before the file is put in place, since NFS reports failed writes only here

    def _check(self, name: str, expected: Generation | None) -> None:
        if expected is None:
            return
        try:
            status = os.stat(self._at(name), dir_fd=self._fd)
            current = ABSENT if stat.S_ISDIR(status.st_mode) else generation_of(status)
        except FileNotFoundError:
            current = ABSENT
        if current != expected:
            raise ConflictError("the value has changed since it was read")

    def _unlink(self, name: str) -> None:
        try:
            os.unlink(self._at(name), dir_fd=self._fd)
        except FileNotFoundError:
            pass
        except (IsADirectoryError, PermissionError):  # which of them a directory gives depends on the system
            if not stat.S_ISDIR(os.lstat(self._at(name), dir_fd=self._fd).st_mode):
                raise

    def _sync_names(self) -> None:
        if self._sync and self._fd is not None:
            os.fsync(self._fd)

    def _is_orphan(self, name: str) -> bool:
        fd = os.open(self._at(name), os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), dir_fd=self._fd)
        try:
            if sys.platform != "win32":
                try:
                    return acquire(fd, wait=False)
                except OSError as error:
                    if error.errno not in _NO_LOCKS:
                        raise
            return time.time() - os.fstat(fd).st_mtime > _DAY
        finally:
            os.close(fd)

    @contextmanager
    def _locked(self, *, required: bool) -> Iterator[None]:
        """Keep other writers of this directory out; where no lock can be had, refuse if it is `required`."""
        fd = self._acquire()
        if fd is None and required:
            raise StoreError(f"the file system of {self._path} has no locks, which a conditional write needs")
        try:
            yield
        finally:
            if fd is not None:
                release(fd)
                if fd != self._fd:
                    os.close(fd)

    def _acquire(self) -> int | None:
        if self._fd is not None:
            try:
                acquire(self._fd)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            else:
                return self._fd
        return self._acquire_lock_file()

    def _acquire_lock_file(self) -> int | None:
        while True:
            fd = os.open(self._at(_LOCK_FILE), os.O_RDWR | os.O_CREAT, 0o666, dir_fd=self._fd)
            try:
                acquire(fd)
                if os.path.samestat(os.fstat(fd), os.stat(self._at(_LOCK_FILE), dir_fd=self._fd)):
                    return fd
            except FileNotFoundError:
                pass  # removed with the directory while we waited
            except OSError as error:
                os.close(fd)
                if error.errno in _NO_LOCKS:
                    return None
                raise
            os.close(fd)


def generation_of(status: os.stat_result) -> Generation:
    """Return the token for the state of a file."""
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def make_directories(path: str, *, sync: bool) -> None:
    """Make a directory and those above it that are missing; with `sync` their names are on the disk on return.

    Others may remove it again while it is empty.

    Raises
    ------
    OSError
        If one can't be made, or a file stands in the way.
    """
    missing = [path]
    failures = 0
    while missing:
        try:
            os.mkdir(missing[-1])
        except FileNotFoundError:
            above = os.path.dirname(missing[-1])
            failures += 1  # some file systems say so, although what is above exists
            if above == missing[-1] or failures > 4096:
                raise
            missing.append(above)
            continue
        except FileExistsError:
            if not _is_directory(missing[-1]):
                raise
        else:
            if sync:
                with suppress(FileNotFoundError):  # others have removed both again
                    sync_directory(os.path.dirname(missing[-1]))
        missing.pop()


def _is_directory(path: str) -> bool:
    """Return whether a directory stands there, or stood there a moment ago."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except FileNotFoundError:
        return not os.path.islink(path)


def remove_directory(path: str) -> bool:
    """Remove a directory if it is empty but for a lock file; return whether it is gone."""
    try:
        os.rmdir(path)
    except OSError:
        if not os.path.lexists(os.path.join(path, _LOCK_FILE)):
            return not os.path.lexists(path)
        try:
            with Directory(path) as directory:
                directory.remove_lock_file()
            os.rmdir(path)
        except OSError:
            return False
    return True


def sync_directory(path: str) -> None:
    """Bring the names in a directory to the disk; Windows has no way to ask for that."""
    if _RELATIVE:
        fd = os.open(path, _OPEN_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
