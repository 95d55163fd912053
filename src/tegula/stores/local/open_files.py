"""Open files and their locks, closed and released reliably.

A signal handler, such as that of Ctrl-C, may raise an exception after any call and at the start of any Python function.
A descriptor that a call returns may then never reach a variable, and an ``__exit__`` in Python may end before its first
line. `Held` is safe from that, and everything in this package that opens or locks files uses it. Where every
microsecond counts, a list holds a single file instead: ``opened.extend(map(system.files.open, (path,), (flags,)))``
opens and records it in one call, and ``finally`` begins with ``if opened: os.closerange(opened[0], opened[0] + 1)``.
"""

from __future__ import annotations

import _thread
import errno
import io
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, islice, starmap, tee
from typing import TYPE_CHECKING, Any, Final

from tegula.errors import StoreError
from tegula.runtime import system
from tegula.runtime.deferred import Later, after_fork
from tegula.stores.names import HIDDEN

if TYPE_CHECKING:
    import hashlib
    import logging
else:
    hashlib, logging = Later("hashlib"), Later("logging")

__all__ = [
    "EMPTY", "LOCK_FILE", "NO_LOCKS", "Contents", "FileLock", "GaveUp", "Held", "OpenFile", "acquire", "drop_lock",
    "read_at", "real_path", "take_lock", "waiting", "write_at", "write_to",
]  # fmt: skip

LOCK_FILE: Final = HIDDEN + "lock"
"""The name of the lock of a directory that can't be locked itself, and how those of other locks begin."""
NO_LOCKS: Final = {
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOLCK,
    errno.ENOSYS,
    errno.EINVAL,
    errno.EBADF,  # NFS wants a file that is open for writing
    errno.EISDIR,
}
"""Errors of file systems that can't lock a file."""

_PIECE = 1 << 20
_BY_NUMBER = "/proc/self/fd/"
# the system can't copy these two files itself: it has no such call, or the file system or systems do not support it
_CAN_NOT_COPY = {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.EPERM, errno.EBADF}
_SHORTEST_PAUSE, _LONG_PAUSE, _LONGEST_PAUSE = 0.00002, 0.002, 0.05  # seconds between two attempts to lock
_LONG = 1.0  # seconds of waiting after which attempts become rarer
_SUSPICIOUS = 10.0  # seconds of waiting after which the log names the lock
_exhaust: Callable[[Any], None] = deque[Any](maxlen=0).extend  # exhausts an iterator without running Python code
_locked: dict[int, list[int | None]] = {}  # by descriptor of a lock, all descriptors that its holder has open


@after_fork
def _close_copies() -> None:
    """In a forked child, close its copies of locked files: locks end when the last copy is closed."""
    for held in _locked.values():
        while held and held[-1] is not None:
            os.close(held.pop() or 0)
    _locked.clear()


EMPTY = 1
"""The `Held.mark` of a `Held` that has nothing open."""


class GaveUp(StoreError):
    """Raised in a thread that waits for a lock when another thread of the same operation has failed."""


class Held(io.IOBase):
    """Open files and locks, which are released together when a ``with`` statement ends.

    No signal can come between opening a file and recording it, or between removing the record and closing the file:
    each is one call of compiled code. `io.IOBase` is the base because its ``__exit__`` and its finalizer are compiled,
    too, and only call `close`. Closing ignores errors, so a file that is written to must be closed by other means.

    Parameters
    ----------
    before : iterable, optional
        An iterator that is exhausted before the files are closed.

    Attributes
    ----------
    close : callable
        Closes all files. Nothing can be opened afterwards.
    """

    close: Callable[[], Any]

    def __init__(self, before: Iterable[Any] = ()) -> None:
        self._held: list[Any] = [None]  # descriptors; `None` marks the end
        self.close = partial(_exhaust, chain(before, _closing(iter(self._held.pop, None))))

    @property
    def mark(self) -> int:
        """The argument with which `release` keeps the files that are open now."""
        return len(self._held)

    def release(self, mark: int) -> None:
        """Close the files opened since `mark`, the last first."""
        if len(self._held) > mark:
            _exhaust(_closing(islice(iter(self._held.pop, None), len(self._held) - mark)))

    def open(self, path: str, flags: int, mode: int = 0o666, *, dir_fd: int | None = None) -> int:
        """Open a file and return its descriptor.

        Raises
        ------
        OSError
            If it can't be opened.
        """
        self._held.extend(map(partial(system.files.open, dir_fd=dir_fd), (path,), (flags,), (mode,)))
        descriptor: int = self._held[-1]
        return descriptor

    def duplicate(self, fd: int) -> int:
        """Return another descriptor of an open file, which shares its lock; raises as `open` does."""
        self._held.extend(map(os.dup, (fd,)))
        descriptor: int = self._held[-1]
        return descriptor

    def lock(self, fd: int, path: str, *, wait: bool = True) -> bool:
        """Lock an open file as `acquire` does, until it is closed or `unlock` is called.

        A forked child closes its copies of all files held here, so that it does not keep the lock.
        """
        _locked[fd] = self._held
        return system.try_lock(fd) or acquire(fd, path, wait=wait)

    @staticmethod
    def unlock(fd: int) -> None:
        """Release the lock of a file before the file is closed; errors are ignored."""
        try:  # noqa: SIM105 - a context manager takes longer than the call
            system.release_lock(fd)
        except OSError:
            pass  # closing the file releases it too


def _closing(descriptors: Iterator[Any]) -> Iterator[None]:
    """Return an iterator that closes the descriptors of another iterator, and ignores errors."""
    first, after = tee(descriptors)
    return map(os.closerange, first, map((1).__add__, after))


def acquire(fd: int, path: str, *, wait: bool = True) -> bool:
    """Lock an open file and return True, or return False if the lock is held elsewhere and `wait` is off.

    In the main thread an exception of a signal handler ends the wait, in other threads the condition
    `waiting.is_over`. A long wait is reported to the log, with the process that holds the lock if it is known.

    Raises
    ------
    OSError
        If the file system has no locks.
    GaveUp
        If `waiting.is_over` ended the wait.
    """
    if system.try_lock(fd):
        return True
    if not wait:
        return False
    # Repeated attempts, since a single call that waits can be interrupted only in the main thread, and can't log.
    start = time.monotonic()
    pause, report, is_over = _SHORTEST_PAUSE, _SUSPICIOUS, waiting.is_over
    while True:
        time.sleep(pause)
        if system.try_lock(fd):
            return True
        waited = time.monotonic() - start
        pause = min(pause * 1.5, _LONG_PAUSE if waited < _LONG else _LONGEST_PAUSE)
        if is_over():
            raise GaveUp(f"stopped waiting for the lock of {path} because another part of the operation failed")
        if waited >= report:
            log = logging.getLogger("tegula.stores")
            log.warning("waiting for the lock of %s for %.0f s%s", real_path(path), waited, _holder(fd))
            report *= 2


def _is_failed() -> bool:
    """Return whether this is a thread of the kernel that works on an operation which has failed elsewhere."""
    # imported already by any thread that needs it; another thread may be importing it at this moment
    given_up = getattr(sys.modules.get("tegula._kernel"), "given_up", None)
    return given_up is not None and bool(given_up())


class _Waiting(_thread._local):
    """A flag for each thread that ends its wait for a lock.

    Attributes
    ----------
    is_over : callable
        Returns True when this thread must stop waiting. It is set by an assignment, which no signal can interrupt.
    """

    is_over: Callable[[], bool] = staticmethod(_is_failed)


waiting = _Waiting()


def _holder(fd: int) -> str:
    """Return the process that has locked an open file, if the system reports it, as the end of a sentence."""
    with suppress(OSError, ValueError):
        status = os.fstat(fd)
        place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        with open("/proc/locks", encoding="ascii") as lines:
            for line in lines:
                # 1: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF; with an arrow after the number if the process waits
                fields = line.split()
                if fields[1] == "FLOCK" and fields[5] == place and int(fields[4]) > 0:
                    with open(f"/proc/{int(fields[4])}/comm", encoding="utf-8", errors="replace") as name:
                        return f"; process {fields[4]} ({name.read().strip()}) holds it"
    return ""


def take_lock(held: Held, path: str, shown: str, dir_fd: int | None = None) -> int | None:
    """Make a hidden file and lock it, for `drop_lock` to remove; ``None`` if the file system has no locks.

    Whoever waited for a lock that has been removed makes another one.

    Raises
    ------
    OSError
        If the file can't be made; also if its directory has been removed.
    """
    while True:
        before = held.mark
        fd = held.open(path, os.O_RDWR | os.O_CREAT, dir_fd=dir_fd)
        try:
            held.lock(fd, shown)
            if system.same_file(os.fstat(fd), os.stat(path, dir_fd=dir_fd)):
                return fd
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            drop_lock(path, fd, dir_fd)
            return None
        held.release(before)


def drop_lock(path: str, fd: int, dir_fd: int | None = None) -> None:
    """Remove a file that `take_lock` has made, before it is unlocked; leave it where files have no numbers.

    A forked child, whose copy is closed, removes nothing.
    """
    try:
        status = os.fstat(fd)
        if status.st_ino and system.same_file(status, os.stat(path, dir_fd=dir_fd)):
            system.files.unlink(path, dir_fd=dir_fd)
    except OSError:
        pass  # it does no harm


class FileLock(Held):
    """The lock of a file, as a context manager; its value says whether the lock is held.

    Where a locked file can't be replaced, a hidden file beside it is locked in its stead.

    Parameters
    ----------
    find : callable
        Returns the path of the file, which other writers may replace; ``None`` if there is none.
    """

    def __init__(self, find: Callable[[], str | None]) -> None:
        # the file is unlocked before it is closed: a child that is forked in between keeps a copy of the descriptor
        self._locks: list[int] = []
        self._beside: list[tuple[str, int]] = []
        super().__init__(before=chain(starmap(drop_lock, self._beside), map(self.unlock, self._locks)))
        self._find = find

    def __enter__(self) -> bool:  # type: ignore[override]
        try:
            path = self._find()
            while path is not None:
                if not system.LOCKS_VALUES:
                    os.lstat(path)
                    return self._lock_beside(path)
                fd = self.open(path, system.READ_HERE)
                self.lock(fd, path)
                if system.same_file(os.fstat(fd), os.stat(path)):
                    self._locks.append(fd)
                    return True
                self.unlock(fd)
                self.release(EMPTY)
        except GaveUp:
            self.close()
            raise
        except OSError:
            pass  # there is no such file, or it can't be locked
        except BaseException:
            self.close()
            raise
        return False

    def _lock_beside(self, path: str) -> bool:
        folder, name = os.path.split(path)
        digest = hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()
        place = os.path.join(folder, f"{LOCK_FILE}-{digest}")
        fd = take_lock(self, place, path)
        if fd is not None:
            self._beside.append((place, fd))
            self._locks.append(fd)
        return fd is not None


def read_at(fd: int, start: int, stop: int) -> bytes:
    """Return the bytes of a file from `start` to `stop`, in as many system calls as necessary.

    Raises
    ------
    OSError
        If the file ends earlier.
    """
    pieces = []
    while start < stop:
        if system.pread is not None:
            piece = system.pread(fd, min(stop - start, system.MOST_AT_ONCE), start)
        else:
            with system.position_lock:
                os.lseek(fd, start, os.SEEK_SET)
                piece = os.read(fd, stop - start)
        if not piece:
            raise OSError(errno.EIO, "the file is shorter than it should be")
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class OpenFile:
    """An open file whose contents are to be copied: its descriptor and its size."""

    __slots__ = ("fd", "nbytes")

    def __init__(self, fd: int, nbytes: int) -> None:
        self.fd, self.nbytes = fd, nbytes


Contents = memoryview | OpenFile
"""Bytes to write into a file, or another file to copy."""


def write_to(fd: int, value: Contents) -> None:
    """Write bytes, or the contents of another file, into a new file.

    If the system can copy from file to file, the bytes do not pass through this process, and some file systems let both
    files share them. Otherwise they are read and written in pieces.

    Raises
    ------
    OSError
        If reading or writing fails, or the other file is shorter than it should be.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryFile() as one, tempfile.TemporaryFile() as other:
    ...     size, _ = one.write(b"abc"), one.flush()
    ...     write_to(other.fileno(), OpenFile(one.fileno(), size))
    ...     other.read()
    b'abc'
    """
    if isinstance(value, memoryview):
        while value.nbytes:
            count = os.write(fd, value)
            if not count:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            value = value[count:]
        return
    done = _copied(value, fd)
    while done < value.nbytes:
        stop = min(done + _PIECE, value.nbytes)
        write_at(fd, memoryview(read_at(value.fd, done, stop)), done)
        done = stop


def _copied(value: OpenFile, fd: int) -> int:
    """Let the system copy the contents of a file as far as it can, and return how many bytes it has copied."""
    done = 0
    try:
        while system.copy_range is not None and done < value.nbytes:
            count = system.copy_range(value.fd, fd, value.nbytes - done, done, done)
            if not count:
                break  # some file systems return 0 for files that they can't copy
            done += count
    except OSError as error:
        if error.errno not in _CAN_NOT_COPY:
            raise
    return done


def write_at(fd: int, data: memoryview, start: int) -> None:
    """Write all of `data` into a file from `start` on."""
    while data.nbytes:
        if system.pwrite is not None:
            count = system.pwrite(fd, data, start)
        else:
            with system.position_lock:
                os.lseek(fd, start, os.SEEK_SET)
                count = os.write(fd, data)
        if not count:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        data = data[count:]
        start += count


def real_path(path: str) -> str:
    """Return the path of a directory that was named by an open file, whose number another directory may get later."""
    if not path.startswith(_BY_NUMBER):
        return path
    number, _, below = path.removeprefix(_BY_NUMBER).partition("/")
    try:
        return os.path.join(os.readlink(f"{_BY_NUMBER}{number}"), below)
    except OSError:
        return path
