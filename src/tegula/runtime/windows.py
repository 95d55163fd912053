"""Windows: files that others may replace and delete while they are open, and what it says about processes and names.

Python's own calls open files so that nobody can rename or delete them meanwhile. Here every file is opened for sharing,
and names change at once (POSIX semantics: Windows 10 of 2017 or later, on NTFS). Other file systems rename onto a file
only while nobody has it open, so that is tried until it works. Other threads that open the file then wait a moment:
readers that take turns would never leave it alone.
"""

from __future__ import annotations

import ctypes
import msvcrt
import os
import random
import sys
import time
from collections.abc import Iterator
from ctypes import wintypes
from typing import Any, Final

assert sys.platform == "win32"  # so type checkers for other systems read no further

__all__ = ["is_wanted", "longest_path", "open", "replace", "replace_open", "scandir", "spelling", "start_of", "unlink"]

_READ, _WRITE, _DELETE = 0x80000000, 0x40000000, 0x00010000
_ACCESS: Final = {os.O_RDONLY: _READ, os.O_WRONLY: _WRITE, os.O_RDWR: _READ | _WRITE}
_SHARED: Final = 7  # FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE
_NEW, _ALWAYS, _THERE, _OPENED, _EMPTIED = 1, 2, 3, 4, 5  # CREATE_NEW, CREATE_ALWAYS, OPEN_EXISTING and so on
_NORMAL, _READ_ONLY, _DIRECTORY, _LINK = 0x80, 0x1, 0x10, 0x400
_ITSELF: Final = 0x02200000  # FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT: a directory or link, too
_NO_HANDLE: Final = ctypes.c_void_p(-1).value
_NO_ATTRIBUTES: Final = 0xFFFFFFFF
_NOT_FOUND, _NO_PATH, _DENIED, _SHARING, _LOCKED = 2, 3, 5, 32, 33
_BUSY: Final = frozenset((_DENIED, _SHARING, _LOCKED))
_NOT_OFFERED: Final = frozenset((1, 50, 87, 120, 124))  # the version of Windows, or the file system, has no such call
_DELETE_PENDING: Final = 0xC0000056
_DISPOSITION, _RENAME = 21, 22  # FileDispositionInfoEx, FileRenameInfoEx
_REPLACES: Final = 0x1 | 0x2  # REPLACE_IF_EXISTS, POSIX_SEMANTICS
_DELETES: Final = 0x1 | 0x2  # DELETE, POSIX_SEMANTICS
_PATIENCE: Final = 30.0  # seconds until a file that somebody has open counts as one that can't be changed
_LONGEST_PAUSE: Final = 0.01  # so that a moment is found between readers of other processes
_COURTESY: Final = 0.1  # seconds for which opening a file waits for threads that want to replace it
_QUERY, _RUNNING = 0x1000, 259  # PROCESS_QUERY_LIMITED_INFORMATION, STILL_ACTIVE
_INVALID: Final = 87

_library = ctypes.WinDLL("kernel32", use_last_error=True)
_native = ctypes.WinDLL("ntdll")
_status: Any = _native.RtlGetLastNtStatus
_status.argtypes, _status.restype = [], ctypes.c_ulong


def _call(name: str, result: Any, *arguments: Any) -> Any:
    call = getattr(_library, name)
    call.argtypes, call.restype = arguments, result
    return call


_create = _call(
    "CreateFileW", wintypes.HANDLE, wintypes.LPCWSTR, *[wintypes.DWORD] * 2, wintypes.LPVOID, *[wintypes.DWORD] * 2,
    wintypes.HANDLE,
)  # fmt: skip
_close = _call("CloseHandle", wintypes.BOOL, wintypes.HANDLE)
_attributes = _call("GetFileAttributesW", wintypes.DWORD, wintypes.LPCWSTR)
_set = _call(
    "SetFileInformationByHandle", wintypes.BOOL, wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD
)
_move = _call("MoveFileExW", wintypes.BOOL, wintypes.LPCWSTR, wintypes.LPCWSTR, wintypes.DWORD)
_remove = _call("DeleteFileW", wintypes.BOOL, wintypes.LPCWSTR)
_find = _call("FindFirstFileW", wintypes.HANDLE, wintypes.LPCWSTR, ctypes.POINTER(wintypes.WIN32_FIND_DATAW))
_end_find = _call("FindClose", wintypes.BOOL, wintypes.HANDLE)
_open_process = _call("OpenProcess", wintypes.HANDLE, wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
_exit_code = _call("GetExitCodeProcess", wintypes.BOOL, wintypes.HANDLE, ctypes.POINTER(wintypes.DWORD))
_times = _call("GetProcessTimes", wintypes.BOOL, wintypes.HANDLE, *[ctypes.POINTER(wintypes.FILETIME)] * 4)
_by_moving: set[str] = set()  # drives without POSIX semantics
_wanted: list[str] = []  # the files that threads wait to replace


class _NewName(ctypes.Structure):
    """FILE_RENAME_INFO, without the name that follows it."""

    _fields_ = (("flags", wintypes.DWORD), ("root", wintypes.HANDLE), ("nbytes", wintypes.DWORD))


_NAME_AT: Final = _NewName.nbytes.offset + 4


def open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: None = None) -> int:
    """Open a file as `os.open` does, but so that others may replace and delete it.

    A file that another program has opened for itself alone, such as a virus scanner, is waited for. One that is
    deleted but still open somewhere does not exist; it is waited for only to make another in its place.
    """
    path = _checked(path)
    creates = flags & os.O_CREAT
    if creates:
        how = _NEW if flags & os.O_EXCL else _ALWAYS if flags & os.O_TRUNC else _OPENED
    else:
        how = _EMPTIED if flags & os.O_TRUNC else _THERE
    access = _ACCESS[flags & (os.O_WRONLY | os.O_RDWR)]
    attributes = _READ_ONLY if creates and not mode & 0o200 else _NORMAL
    if _wanted:
        _give_way(path)
    for _ in _attempts():
        handle = _create(path, access, _SHARED, None, how, attributes, None)
        if handle != _NO_HANDLE:
            try:
                return msvcrt.open_osfhandle(handle, flags | os.O_BINARY | os.O_NOINHERIT)
            except OSError:  # too many open files
                _close(handle)
                raise
        code = ctypes.get_last_error()
        if _is_deleted(code):
            if not creates:
                raise _error(_NOT_FOUND, path)
        elif code != _SHARING:
            raise _error(code, path)
    raise _error(code, path)


def replace(source: Any, target: Any, *, src_dir_fd: None = None, dst_dir_fd: None = None) -> None:
    """Rename a file onto another one as `os.replace` does, even while others have that open."""
    source, target = _checked(source), _checked(target)
    code = _renamed(source, target)
    if code in _BUSY:
        place = _place(target)
        _wanted.append(place)
        try:
            for _ in _attempts():
                code = _renamed(source, target)
                if code not in _BUSY or _is_there(target, _DIRECTORY | _READ_ONLY):
                    break
        finally:
            _wanted.remove(place)
    if code:
        raise _error(code, source, target)


def replace_open(source: str, target: str) -> None:
    """Rename a file onto another one that this process keeps open.

    Without POSIX semantics the old file gets another name first. If the process is killed in between, it is left under
    that name, which ends in ``.old``.
    """
    code = _renamed(source, target)
    if code in _BUSY and not _is_there(target, _DIRECTORY):
        away = f"{target}.{os.urandom(4).hex()}.old"
        code = _moved(target, away, 0)
        if not code:
            code = _moved(source, target, 0)
            if code:
                _moved(away, target, 0)
            else:
                unlink(away)
    if code:
        raise _error(code, source, target)


def unlink(path: Any, *, dir_fd: None = None) -> None:
    """Delete a file as `os.unlink` does; its name is free at once, even while others have it open."""
    path = _checked(path)
    found = _attributes(path)
    if found == _NO_ATTRIBUTES:
        code = ctypes.get_last_error()
        raise _error(_NOT_FOUND if _is_deleted(code) else code, path)
    if found & (_DIRECTORY | _LINK):
        os.unlink(path)
        return
    for _ in _attempts():
        code = _changed(path, _DISPOSITION, wintypes.DWORD(_DELETES)) if _is_posix(path) else _INVALID
        if code in _NOT_OFFERED:
            _by_moving.add(_drive(path))
            away = f"{os.path.dirname(path)}{os.sep}.tegula-{os.getpid()}-{os.urandom(8).hex()}.tmp"
            code = _moved(path, away, 0)
            if not code and not _remove(away):
                code = ctypes.get_last_error()
                _moved(away, path, 0)
        if not code:
            return
        if code not in _BUSY or found & _READ_ONLY:
            break
    raise _error(code, path)


def spelling(path: str) -> str | None:
    """Return the last name of a path as the file system spells it; ``None`` if nothing is there.

    A directory that another process or thread tries to remove at this moment is waited for, here and in `scandir`.
    """
    found = wintypes.WIN32_FIND_DATAW()
    for _ in _attempts():
        handle = _find(path, ctypes.byref(found))
        if handle != _NO_HANDLE:
            _end_find(handle)
            return str(found.cFileName)
        code = ctypes.get_last_error()
        if code in (_NOT_FOUND, _NO_PATH) or _is_deleted(code):
            return None
        if code != _SHARING:
            break
    raise _error(code, path)


def scandir(path: str) -> Any:
    """List a directory as `os.scandir` does; one that is deleted but still open somewhere does not exist."""
    for _ in _attempts():
        try:
            return os.scandir(path)
        except PermissionError as error:
            failure = error
        if failure.winerror != _SHARING:
            gone = _attributes(path) == _NO_ATTRIBUTES and _is_deleted(ctypes.get_last_error())
            raise _error(_NOT_FOUND, path) if gone else failure
    raise failure


def longest_path() -> int | None:
    """Return how many characters a path may have; ``None`` if Windows allows long ones, as its setting says."""
    allowed: Any = getattr(_native, "RtlAreLongPathsEnabled", None)  # wine has no such call, and no such limit
    if allowed is None:
        return None if hasattr(_native, "wine_get_version") else 259
    allowed.restype = ctypes.c_ubyte
    return None if allowed() else 259


def start_of(pid: int) -> str | None:
    """Return the time at which a process began; ``None`` if there is none, ``""`` if Windows does not tell."""
    handle = _open_process(_QUERY, False, pid & 0xFFFFFFFF)
    if not handle:
        return None if ctypes.get_last_error() == _INVALID else ""
    try:
        code = wintypes.DWORD()
        if _exit_code(handle, ctypes.byref(code)) and code.value != _RUNNING:
            return None  # it has ended, and somebody still has it open
        began, *others = (wintypes.FILETIME() for _ in range(4))
        if not _times(handle, *map(ctypes.byref, (began, *others))):
            return ""
        return str(began.dwHighDateTime << 32 | began.dwLowDateTime)
    finally:
        _close(handle)


def is_wanted() -> bool:
    """Return whether a thread waits until nobody has some file open."""
    return bool(_wanted)


def _attempts() -> Iterator[None]:
    """Yield at once and then again and again, until it has taken too long for anyone to keep a file open."""
    yield
    start, pause = time.monotonic(), 0.0001
    while time.monotonic() - start < _PATIENCE:
        time.sleep(pause * random.random())  # at random, since others open the file again and again, too
        yield
        pause = min(pause * 1.2, _LONGEST_PAUSE)


def _give_way(path: str) -> None:
    """Wait a moment if another thread waits until nobody has this file open."""
    place, end = _place(path), time.monotonic() + _COURTESY
    while place in _wanted and time.monotonic() < end:
        time.sleep(0.001)


def _renamed(source: str, target: str) -> int:
    """Rename a file onto another one; return the error of Windows, or 0."""
    if _is_posix(target):
        name = os.path.abspath(target).encode("utf-16-le", "surrogatepass")
        wanted = ctypes.create_string_buffer(_NAME_AT + len(name) + 2)
        ctypes.memmove(wanted, ctypes.byref(_NewName(_REPLACES, None, len(name))), _NAME_AT)
        ctypes.memmove(ctypes.byref(wanted, _NAME_AT), name, len(name))
        code = _changed(source, _RENAME, wanted)
        if code not in _NOT_OFFERED:
            return code
        _by_moving.add(_drive(target))
    return _moved(source, target, 1)


def _changed(path: str, what: int, wanted: Any) -> int:
    handle = _create(path, _DELETE, _SHARED, None, _THERE, _ITSELF, None)
    if handle == _NO_HANDLE:
        return ctypes.get_last_error()
    try:
        return 0 if _set(handle, what, ctypes.byref(wanted), ctypes.sizeof(wanted)) else ctypes.get_last_error()
    finally:
        _close(handle)


def _moved(source: str, target: str, flags: int) -> int:
    return 0 if _move(source, target, flags) else ctypes.get_last_error()


def _is_posix(path: str) -> bool:
    return _drive(path) not in _by_moving


def _is_deleted(code: int) -> bool:
    """Return whether the error of the last call says that the file is deleted, and still open somewhere."""
    return bool(code == _DENIED and _status() == _DELETE_PENDING)


def _place(path: str) -> str:
    return os.path.normcase(os.path.abspath(path))


def _drive(path: str) -> str:
    return os.path.splitdrive(path)[0].lower()


def _is_there(path: str, kinds: int) -> bool:
    found = _attributes(path)
    return found != _NO_ATTRIBUTES and bool(found & kinds)


def _checked(path: Any) -> str:
    text = os.fsdecode(path)
    if "\0" in text:  # where the system's calls would end the path
        raise ValueError("embedded null character in path")
    return text


def _error(code: int, path: str, other: str | None = None) -> OSError:
    return OSError(0, ctypes.FormatError(code).strip(), path, code, other)
