"""What operating systems do differently to an open file: locks that end with their holder, positions, syncing."""

from __future__ import annotations

import errno
import os
import sys
import threading
from typing import Any

__all__ = ["acquire", "read_at", "release", "sync_file", "write_at"]

_pread: Any = getattr(os, "pread", None)
_pwrite: Any = getattr(os, "pwrite", None)
_position_lock = threading.Lock()  # where a file has but one position: Windows

if sys.platform == "win32":
    import msvcrt

    # Locked bytes can't be read by others on Windows, so the one to lock lies far beyond the end of any file.
    _FAR = 1 << 60

    def acquire(fd: int, *, wait: bool = True) -> bool:
        """Lock an open file and return True, or return False if another holds the lock and `wait` is off."""
        os.lseek(fd, _FAR, os.SEEK_SET)
        while True:
            try:
                msvcrt.locking(fd, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EDEADLK):
                    raise
                if not wait:
                    return False
            else:
                return True

    def release(fd: int) -> None:
        """Give up the lock of an open file."""
        os.lseek(fd, _FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def acquire(fd: int, *, wait: bool = True) -> bool:
        """Lock an open file and return True, or return False if another holds the lock and `wait` is off.

        Raises
        ------
        OSError
            If the file system has no locks.
        """
        try:
            fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(fd: int) -> None:
        """Give up the lock of an open file, also where a forked child still has the file open."""
        fcntl.flock(fd, fcntl.LOCK_UN)


def sync_file(fd: int) -> None:
    """Bring a file's contents to the disk, past the drive's own cache on macOS too."""
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def read_at(fd: int, start: int, stop: int) -> bytes:
    """Return the bytes of a file from `start` to `stop`, however many pieces the system gives them in.

    Raises
    ------
    OSError
        If the file ends before.
    """
    pieces = []
    while start < stop:
        if _pread is not None:
            piece = _pread(fd, stop - start, start)
        else:
            with _position_lock:
                os.lseek(fd, start, os.SEEK_SET)
                piece = os.read(fd, stop - start)
        if not piece:
            raise OSError(errno.EIO, "the file is shorter than it should be")
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_at(fd: int, data: memoryview, start: int) -> None:
    """Write all of `data` into a file from `start` on."""
    while data.nbytes:
        if _pwrite is not None:
            count = _pwrite(fd, data, start)
        else:
            with _position_lock:
                os.lseek(fd, start, os.SEEK_SET)
                count = os.write(fd, data)
        if not count:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        data = data[count:]
        start += count
