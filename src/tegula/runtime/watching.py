"""Waiting for changes below directories: by inotify where Linux has it, and for a time everywhere.

inotify only makes waiting shorter. It says nothing of what other machines change on a network's disk, its queue can
overflow, and a system bounds how many directories are watched; so whoever waits looks again after a while in any case.
"""

from __future__ import annotations

import _thread
import os
import select
import struct
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    import asyncio
    import ctypes
else:
    asyncio, ctypes = Later("asyncio"), Later("ctypes")

__all__ = ["Watch"]

# constants of <sys/inotify.h>
_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _OVERFLOW, _IGNORED, _ONLY_DIRECTORIES = 0x400, 0x800, 0x4000, 0x8000, 0x1000000
_MASK: Final = (
    _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLY_DIRECTORIES
)
_GONE: Final = _DELETE_SELF | _MOVE_SELF | _IGNORED
_EVENT: Final = struct.Struct("iIII")
_SLICE: Final = 0.05  # seconds between two looks at `close` where nothing else ends a wait


class Watch:
    """Waits until something changes in some directories, a time has passed, or another thread says so.

    Examples
    --------
    >>> watch = Watch()
    >>> watch.wait(0.001)
    False
    >>> watch.wake()
    >>> watch.wait(60)
    True
    >>> watch.close()
    """

    def __init__(self) -> None:
        self._process = 0
        self._inotify = -1
        self._ends: tuple[int, ...] = ()  # of the pipe by which `wake` ends a wait
        self._names: dict[str, Collection[str]] = {}
        self._numbers: dict[str, int] = {}
        self._woken = self._closed = False
        self._lock = _thread.RLock()  # nobody writes to a descriptor that has been closed, and may be another file

    def watch(self, wanted: Mapping[str, Collection[str]]) -> bool:
        """Watch the given names in directories, and no others, and return whether a directory was not watched before.

        What has changed in such a directory before the call is not noticed: the caller looks once more.
        """
        self._open()
        if self._inotify < 0:
            return False
        self._names = dict(wanted)
        library = _library()
        for path in [path for path in self._numbers if path not in wanted]:
            library.inotify_rm_watch(self._inotify, self._numbers.pop(path))
        is_new = False
        for path in wanted:
            if path not in self._numbers:
                number = library.inotify_add_watch(self._inotify, os.fsencode(path), _MASK)
                if number >= 0:  # else there is no such directory, or the system watches no more
                    self._numbers[path] = number
                    is_new = True
        return is_new

    def wait(self, seconds: float) -> bool:
        """Wait, and return whether that ended early: something has changed, or `wake` was called."""
        self._open()
        if not self._ends:
            end = time.monotonic() + seconds
            while not self._woken and (left := end - time.monotonic()) > 0:
                time.sleep(min(left, _SLICE))
            return self._is_woken()
        poll = select.poll()
        end = time.monotonic() + seconds
        for number in self._descriptors():
            poll.register(number, select.POLLIN)
        while not self._woken:
            left = end - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                return self._is_woken()
            if self._changed():
                return True
        return self._is_woken()

    async def wait_async(self, seconds: float) -> bool:
        """Do what `wait` does without blocking the event loop."""
        self._open()
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not self._woken and (left := end - loop.time()) > 0:
            ready: asyncio.Future[None] = loop.create_future()
            added = []
            try:
                with suppress(NotImplementedError):  # the loop of Windows knows sockets only
                    for number in self._descriptors():
                        loop.add_reader(number, _set, ready)
                        added.append(number)
                await asyncio.wait((ready,), timeout=left if added else min(left, _SLICE))
            finally:
                for number in added:
                    loop.remove_reader(number)
            if added and ready.done() and self._changed():
                return True
        return self._is_woken()

    def wake(self) -> None:
        """End the wait of another thread, or the next one."""
        self._woken = True
        with self._lock, suppress(OSError):  # it is full
            if self._ends:
                os.write(self._ends[1], b"\0")

    def close(self) -> None:
        """Close the descriptors; `wait` only takes time from then on."""
        with self._lock:
            descriptors, self._inotify, self._ends = self._descriptors() + self._ends[1:], -1, ()
            self._closed = True
            self._numbers.clear()
            for number in descriptors if self._process == os.getpid() else ():
                with suppress(OSError):
                    os.close(number)

    def __del__(self) -> None:
        with suppress(Exception):  # modules may be gone
            self.close()

    def _descriptors(self) -> tuple[int, ...]:
        return (*self._ends[:1], *((self._inotify,) if self._inotify >= 0 else ()))

    def _is_woken(self) -> bool:
        woken, self._woken = self._woken, False
        return woken

    def _open(self) -> None:
        """Open the descriptors at the first use, and again in a forked process, which shares them with its parent."""
        if self._process == os.getpid() or self._closed:
            return
        self._process, self._inotify, self._ends = os.getpid(), -1, ()
        self._numbers.clear()
        if not hasattr(select, "poll"):
            return
        with suppress(OSError):  # there are no more descriptors
            self._ends = os.pipe()
            for number in self._ends:
                os.set_blocking(number, False)
            if sys.platform == "linux" and hasattr(_library(), "inotify_init1"):
                self._inotify = _library().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def _changed(self) -> bool:
        """Take all events, and return whether one of them is of a name that is watched."""
        changed = False
        for number in self._descriptors():
            while True:
                try:
                    raw = os.read(number, 2**16)
                except (BlockingIOError, OSError):
                    break
                if number != self._inotify or self._concerns(raw):
                    changed = True
                if len(raw) < 2**12:
                    break
        return changed

    def _concerns(self, raw: bytes) -> bool:
        paths = {number: path for path, number in self._numbers.items()}
        changed, start = False, 0
        while start + _EVENT.size <= len(raw):
            number, mask, _, size = _EVENT.unpack_from(raw, start)
            name = os.fsdecode(raw[start + _EVENT.size : start + _EVENT.size + size].rstrip(b"\0"))
            start += _EVENT.size + size
            if mask & _OVERFLOW:
                changed = True
                continue
            path = paths.get(number)
            if path is None:
                continue
            if mask & _GONE:  # the directory of that path may be another one now
                if self._numbers.pop(path, None) is not None and not mask & _IGNORED:
                    _library().inotify_rm_watch(self._inotify, number)
                changed = True
            elif name in self._names.get(path, ()):
                changed = True
        return changed


def _library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
