"""The generation of a file: a token that differs between any two states of it, even if time stamps are coarse.

It consists of the inode number, the time of the last change and the size. This module sets the time to the nanosecond,
since inode numbers are reused at once and the system's own time stamps are milliseconds apart. That is not enough on a
file system that keeps only whole seconds, for example. Such a time is recognised, since a time set here is never a
whole number of microseconds unless the file system has rounded it. The generation of a file with such a time has one
more number: the version of the inode, a random number that the system assigns to each new file, or if there is none, a
digest of the contents.
"""

from __future__ import annotations

import os
import struct
import sys
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    from tegula.stores.local import open_files
else:
    open_files = Later("tegula.stores.local.open_files")

__all__ = ["FileGeneration", "fine_time", "generation_of", "is_later", "needs_more", "new_time", "state_of"]

FileGeneration: TypeAlias = tuple[int, int, int] | tuple[int, int, int, int]

_MICROSECOND = 1000
_KEPT = 100  # nanoseconds: the coarsest resolution that keeps these times (NTFS)
_TIMES = 1 << 13  # how many times to choose from at random, since the clock may stand still
_PIECE = 1 << 20
_READ_VERSION = (2 << 30) | (struct.calcsize("l") << 16) | (ord("v") << 8) | 1  # FS_IOC_GETVERSION


def new_time(now: int, chance: bytes) -> int:
    """Return a time within 10 µs of `now` to set on a file, chosen by two random bytes; see `fine_time`.

    Examples
    --------
    >>> new_time(1_700_000_000_000_000_000, b"ab") % 1000 >= 100
    True
    """
    microsecond, rest = divmod(int.from_bytes(chance[:2], "little") % _TIMES, _MICROSECOND - _KEPT)
    return now - now % 10_000 + microsecond * _MICROSECOND + _KEPT + rest


def fine_time(time: int) -> int:
    """Return a time at most 100 ns later that shows whether the file system has rounded it.

    Examples
    --------
    >>> fine_time(5_000), fine_time(5_123)
    (5100, 5123)
    """
    return time + _KEPT if time % _MICROSECOND < _KEPT else time


def needs_more(status: os.stat_result) -> bool:
    """Return whether inode, time and size are not enough to distinguish the states of a file."""
    return not status.st_mtime_ns % _MICROSECOND


def generation_of(status: os.stat_result, fd: int, contents: memoryview | None = None) -> FileGeneration:
    """Return the generation of an open file.

    Parameters
    ----------
    status : stat_result
        The result of `os.fstat`.
    fd : int
        Its descriptor.
    contents : memoryview, optional
        The contents of the file, if they are known; otherwise the file is read if necessary.

    Raises
    ------
    OSError
        If the file has to be read, and can't be.
    """
    found = (status.st_ino, status.st_mtime_ns, status.st_size)
    return found if found[1] % _MICROSECOND else (*found, _version(fd) or _digest(fd, status.st_size, contents))


def state_of(generation: FileGeneration) -> int:
    """Return a generation as one number below 2**64, the same in every process.

    Examples
    --------
    >>> state_of((1, 2_000_000_111, 3)) == state_of((1, 2_000_000_112, 3))
    False
    """
    found = 0
    for number in generation:
        found = ((found ^ number) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        found ^= found >> 29
    return found or 1


def is_later(generation: FileGeneration, other: FileGeneration) -> bool:
    """Return whether two states of one path differ in more than the inode number, which may be reused."""
    return generation[3:] != other[3:] or generation[1] > other[1]


def _version(fd: int) -> int:
    """Return the version number that the system assigned to the inode; 0 if it assigns none."""
    if sys.platform != "linux":
        return 0
    from fcntl import ioctl  # noqa: PLC0415 - there is none on other systems

    try:
        return int.from_bytes(ioctl(fd, _READ_VERSION, bytes(8)), sys.byteorder)
    except OSError:
        return 0


def _digest(fd: int, size: int, contents: memoryview | None) -> int:
    digest = import_module("hashlib").blake2b(digest_size=8)
    if contents is not None:
        digest.update(contents)
    else:
        for start in range(0, size, _PIECE):
            digest.update(open_files.read_at(fd, start, min(size, start + _PIECE)))
    return int.from_bytes(digest.digest(), "little")
