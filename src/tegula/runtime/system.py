"""What operating systems do differently: files, their locks, names and processes. Nothing else in tegula asks for them.

On Windows `files` is `tegula.runtime.windows`, everywhere else Python's own module `os`, so that no call is added.
"""

from __future__ import annotations

import _thread
import errno
import os
import struct
import sys
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from tegula.runtime.deferred import Later, before_threads

if TYPE_CHECKING:
    import ctypes
else:
    ctypes = Later("ctypes")

__all__ = [
    "HAS_DIRECTORY_FDS",
    "HIDDEN",
    "KERNEL_STORES",
    "LOCKS_VALUES",
    "LONGEST_PATH",
    "READ",
    "READ_HERE",
    "TIMES_BY_FD",
    "byte_locks",
    "exchanged",
    "file_identity",
    "files",
    "release_lock",
    "replacing_open",
    "same_file",
    "spells",
    "start_of",
    "sync_file",
    "try_lock",
]  # fmt: skip

HIDDEN: Final = ".tegula-"
"""Prefix of the names of the store's own files; no key may have a segment that begins with it, and none is listed."""
files: Any = os
"""Has `open`, `replace`, `scandir` and `unlink`, as in `os`: for values and directories that others have open, too."""
HAS_DIRECTORY_FDS: Final = os.open in os.supports_dir_fd
"""Whether directories can be opened, locked, and named by a descriptor."""
KERNEL_STORES: Final = sys.platform in ("linux", "darwin", "win32")
"""Whether the kernel has a store of local files; elsewhere it only reads files, and the Python store does the rest."""
TIMES_BY_FD: Final = os.utime in os.supports_fd
LOCKS_VALUES: Final = sys.platform != "win32"
"""Whether a value can be replaced by whoever has locked its file."""
LONGEST_PATH: int | None = None
"""The most characters of a path on Windows; ``None`` for no limit, or one that the system's errors tell."""

# O_NONBLOCK: otherwise opening a named pipe among the files would block until it has a writer
READ: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Flags that open a file for reading."""
READ_HERE: Final = READ | getattr(os, "O_NOFOLLOW", 0)
"""Flags that open a file for reading, but not where a symbolic link leads."""

pread: Any = getattr(os, "pread", None)
pwrite: Any = getattr(os, "pwrite", None)
copy_range: Any = getattr(os, "copy_file_range", None)
position_lock = _thread.allocate_lock()
"""Held while a file is at another position, where it has only one: Windows."""
MOST_AT_ONCE: Final = 1 << 30
"""Bytes to read in one call; macOS refuses 2 GiB or more."""
FAR: Final = 1 << 43
"""The byte that `byte_locks` locks; ext4 and NTFS allow no position of 2**44 or more."""

_HERE: Final = -100  # AT_FDCWD of Linux
_EXCHANGE: Final = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_NOT_OFFERED: Final = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
_NOT_FLUSHED: Final = (*_NOT_OFFERED, errno.ENOTTY)
_NAME_OF: Final = 0x1  # ATTR_CMN_NAME of macOS
_MADE: Final = 0x800  # STATX_BTIME of Linux
_NO_LINK: Final = 0x1  # FSOPT_NOFOLLOW
_PROCESS: Final = (1, 14, 1)  # CTL_KERN, KERN_PROC, KERN_PROC_PID
_ABOUT_PROCESS: Final = 648  # bytes of kinfo_proc; the first of them are the time at which the process began


def byte_locks(system: Any) -> tuple[Callable[[int], bool], Callable[[int], None]]:
    """Return the functions that lock an open file and release its lock, where locks belong to bytes of a file.

    On Windows other processes can't read locked bytes, so the locked byte is far beyond the end of any value.

    Parameters
    ----------
    system : module
        ``msvcrt``, or anything that has its function ``locking``, which locks bytes from the position of the file on.
        Reads and writes begin at this position, too, so it is restored.
    """

    def change(fd: int, mode: int) -> None:
        with position_lock:
            position = os.lseek(fd, 0, os.SEEK_CUR)
            os.lseek(fd, FAR, os.SEEK_SET)
            try:
                system.locking(fd, mode, 1)
            finally:
                os.lseek(fd, position, os.SEEK_SET)

    def lock(fd: int) -> bool:
        try:
            change(fd, system.LK_NBLCK)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EDEADLK):
                raise
            return False
        return True

    return lock, lambda fd: change(fd, system.LK_UNLCK)


if sys.platform == "win32":
    import msvcrt

    from tegula.runtime import windows

    files = windows
    LONGEST_PATH = windows.longest_path()
    try_lock, release_lock = byte_locks(msvcrt)
else:
    before_threads(["fcntl"])

    def try_lock(fd: int) -> bool:
        """Lock an open file or directory; return whether nobody else holds its lock."""
        import fcntl  # noqa: PLC0415 - by the first lock; later ones find it without a call

        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release_lock(fd: int) -> None:
        """Release the lock of an open file, even if a forked child still has the file open."""
        import fcntl  # noqa: PLC0415 - as above

        fcntl.flock(fd, fcntl.LOCK_UN)


def sync_file(fd: int) -> None:
    """Sync a file or directory to the disk, on macOS also from the drive's own cache, where the file system can."""
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415 - as above

        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in _NOT_FLUSHED:
                raise
        else:
            return
    os.fsync(fd)


def replacing_open() -> Callable[[str, str], None]:
    """Return the call that renames a file onto another one which this process keeps open."""
    return os.replace if files is os else files.replace_open


def exchanged(first: str, second: str) -> bool:
    """Exchange two directories in one call; return whether the system and the file system offer that."""
    call = _swap()
    if call is None:
        return False
    if call(os.fsencode(first), os.fsencode(second)) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_OFFERED:
        return False
    raise OSError(code, os.strerror(code), first, None, second)


@cache
def _swap() -> Callable[[bytes, bytes], int] | None:
    """Return the system's call that exchanges two paths, or ``None`` if the C library has none."""
    try:
        library: Any = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            rename = library.renamex_np
            rename.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint]
            return lambda first, second: int(rename(first, second, _EXCHANGE))
        renameat = library.renameat2
    except (AttributeError, OSError, TypeError):  # TypeError: Windows
        return None
    renameat.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return lambda first, second: int(renameat(_HERE, first, _HERE, second, _EXCHANGE))


def same_file(first: os.stat_result, second: os.stat_result) -> bool:
    """Return whether two files are the same; some network drives give files no numbers, so size and times decide.

    Examples
    --------
    >>> same_file(os.stat("."), os.stat(".")), same_file(os.stat("."), os.stat(".."))
    (True, False)
    """
    if first.st_ino != second.st_ino or (first.st_dev != second.st_dev and first.st_dev and second.st_dev):
        return False
    return bool(first.st_ino) or (
        (first.st_size, first.st_mtime_ns, first.st_ctime_ns)
        == (second.st_size, second.st_mtime_ns, second.st_ctime_ns)
    )


def file_identity(path: str) -> str:
    """Return text that tells a file or directory from every other one that had or has its path; ``""`` without numbers.

    Numbers of deleted files are given again, so the time at which it was made is part of it where the system says that.

    Examples
    --------
    >>> file_identity(".") == file_identity("../" + os.path.basename(os.getcwd())) != file_identity("..")
    True
    """
    state = os.stat(path)
    made: Any = getattr(state, "st_birthtime_ns", None) or getattr(state, "st_birthtime", None)
    return f"{state.st_ino}:{_made_on_linux(path) if made is None else made}" if state.st_ino else ""


def _made_on_linux(path: str) -> str:
    """Return the time at which a file was made, as text; empty if the system or the file system does not know."""
    if sys.platform != "linux" or not hasattr(library := ctypes.CDLL(None), "statx"):
        return ""
    answer = ctypes.create_string_buffer(256)
    if library.statx(_HERE, os.fsencode(path), 0, ctypes.c_uint(_MADE), answer):
        return ""
    known, seconds, nanoseconds = struct.unpack_from("I76xqI", answer.raw)
    return f"{seconds}.{nanoseconds:09}" if known & _MADE else ""


def spells(directory: str, name: str) -> bool:
    """Return whether a file system that ignores case spells a name in a directory so; false if nothing is there."""
    if sys.platform == "darwin":
        return _name_on_macos(ctypes.CDLL(None), os.path.join(directory, name)) == name
    if files is not os:
        return bool(files.spelling(os.path.join(directory, name)) == name)
    # a list of a moment ago may lack what has come since, if the clock of the file system stood still
    return name in _names(directory, os.stat(directory).st_mtime_ns) or name in os.listdir(directory)


@lru_cache(maxsize=16)
def _names(directory: str, mtime_ns: int) -> frozenset[str]:
    return frozenset(os.listdir(directory))


def _name_on_macos(library: Any, path: str) -> str | None:
    """Return the last name of a path as it is stored; ``None`` if nothing is there."""
    wanted = struct.pack("=HHIIIII", 5, 0, _NAME_OF, 0, 0, 0, 0)
    answer = ctypes.create_string_buffer(2048)  # its length, where the name is from the second number on, its length
    if library.getattrlist(os.fsencode(path), wanted, answer, ctypes.c_size_t(len(answer)), ctypes.c_ulong(_NO_LINK)):
        return None
    _, start, size = struct.unpack_from("=IiI", answer)
    return os.fsdecode(answer.raw[4 + start : 4 + start + size].rstrip(b"\0"))


def start_of(pid: int) -> str | None:
    """Return text that tells a process from earlier ones with its number.

    ``None`` if there is no such process, and ``""`` if the system does not tell when it began.
    """
    if files is not os:
        began: str | None = files.start_of(pid)
        return began
    if sys.platform == "darwin":
        return _start_on_macos(ctypes.CDLL(None), pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        if os.path.isdir("/proc/self"):
            return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except (OSError, OverflowError):
        pass
    return ""


def _start_on_macos(library: Any, pid: int) -> str | None:
    names = (ctypes.c_int * 4)(*_PROCESS, pid & 0x7FFFFFFF)
    answer = ctypes.create_string_buffer(_ABOUT_PROCESS)
    size = ctypes.c_size_t(_ABOUT_PROCESS)
    if library.sysctl(names, 4, answer, ctypes.byref(size), None, ctypes.c_size_t(0)):
        return ""
    return "{}.{:06}".format(*struct.unpack_from("=qi", answer)) if size.value else None
