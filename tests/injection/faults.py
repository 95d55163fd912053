"""Faults on purpose: every system call that tegula makes for files, in Python and in the kernel, is counted in one
sequence, and one of them fails, does less than it could, or is the last one before the process is killed."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from tegula import config
from tegula.runtime import executors, system


@dataclass(frozen=True)
class Fail:
    """The call does nothing and fails with a number of `errno`."""

    errno: int


@dataclass(frozen=True)
class Short:
    """The call reads or writes no more bytes than these; calls that do neither go ahead."""

    most: int


Answer = Fail | Short | None
Hook = Callable[[str, str, bool], Answer]

CHANGES = frozenset("create write truncate utime fallocate replace link mkdir rmdir unlink".split())
"""The calls after which something else may be found on the disk."""
MOVES = frozenset(("read", "write"))
"""The calls that may do less than they were asked to."""

_PYTHON = {
    **{name: name for name in "close dup fstat fsync link listdir lstat mkdir open read replace rmdir".split()},
    **{name: name for name in "scandir stat unlink utime write".split()},
    "fchmod": "chmod",
    "ftruncate": "truncate",
    "posix_fallocate": "fallocate",
    "pread": "read",
    "pwrite": "write",
}
_KERNEL = {
    "fstatat": "stat",
    "fstatfs": "stat",
    "futimens": "utime",
    "getdents": "listdir",
    "linkat": "link",
    "openat": "create",
    "openat2": "open",
    "renameat": "replace",
    "unlinkat": "unlink",
}
_inside = threading.local()
_readlink = os.readlink


@dataclass
class Fault:
    """What happens, and at which of the calls about files below `root`.

    Attributes
    ----------
    root : str
        Calls about anything else neither count nor fail.
    at : int
        The call, counted from 0; none if it is negative.
    act : "kill", "tear", `Fail`, `Short` or a function
        ``"tear"`` writes a few bytes and kills at the next call. A function is called, and the call goes on.
    calls : collection of str, optional
        Names of the calls that count.
    lasting : bool
        Whether all calls from there on fail.
    """

    root: str
    at: int = -1
    act: Any = "kill"
    calls: frozenset[str] | None = None
    lasting: bool = False
    log: list[tuple[str, str]] = field(default_factory=list)
    kernel: int = 0
    hits: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    def __call__(self, call: str, path: str, in_kernel: bool) -> Answer:
        if not path.startswith(self.root) or (self.calls is not None and call not in self.calls):
            return None
        with self._lock:
            number = len(self.log)
            self.log.append((call, path[len(self.root) :].strip("/")))
            self.kernel += in_kernel
            due = number == self.at or (self.at >= 0 and number > self.at and (self.lasting or self.act == "tear"))
            self.hits += due
        if not due:
            return None
        if self.act == "kill" or (self.act == "tear" and (number > self.at or call != "write")):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.act == "tear":
            return Short(7)
        if callable(self.act):
            self.act()
            return None
        return self.act


@contextmanager
def armed(hook: Hook) -> Iterator[None]:
    """Call a hook before each call of Python's stores and of the kernel, with the name of the call and its path."""
    with ExitStack() as stack:
        for name, call in _PYTHON.items():
            wrapped = _wrapped(getattr(os, name), call, hook)
            stack.enter_context(mock.patch.object(os, name, wrapped))
            if name in ("pread", "pwrite"):
                stack.enter_context(mock.patch.object(system, name, wrapped))
        stack.enter_context(mock.patch.object(fcntl, "flock", _wrapped(fcntl.flock, "flock", hook)))
        kernel = executors.kernel()
        if kernel is not None:
            kernel.faults(lambda call, path: _asked(hook, _KERNEL.get(call, call), path, True))
            stack.callback(kernel.faults)
        yield


def runs_kernel() -> bool:
    """Return whether the kernel carries out what is tested."""
    return executors.choose(config.current().executor) is not None


def _wrapped(real: Any, call: str, hook: Hook) -> Any:
    def act(*args: Any, **options: Any) -> Any:
        if getattr(_inside, "hook", False):
            return real(*args, **options)
        creates = call == "open" and args[1] & os.O_CREAT
        answer = _asked(hook, "create" if creates else call, _path(args, options), False)
        if answer is None:
            return real(*args, **options)
        if isinstance(answer, Fail):
            if call == "close":
                real(*args, **options)
            raise OSError(answer.errno, os.strerror(answer.errno))
        if call == "write":
            return real(args[0], memoryview(args[1])[: answer.most], *args[2:])
        return real(args[0], min(args[1], answer.most), *args[2:]) if call == "read" else real(*args, **options)

    return act


def _asked(hook: Hook, call: str, path: str, in_kernel: bool) -> Answer:
    if getattr(_inside, "hook", False):
        return None
    _inside.hook = True  # calls of the hook itself do not count
    try:
        return hook(call, path, in_kernel)
    finally:
        _inside.hook = False


def _path(args: tuple[Any, ...], options: dict[str, Any]) -> str:
    """Return the path of a call; of two, the one that is written."""
    start = options.get("dst_dir_fd", options.get("dir_fd"))
    name = args[1] if len(args) > 1 and isinstance(args[1], str) else args[0] if args else "."
    if isinstance(name, int):
        return _path_of(name)
    name = os.fspath(name)
    if isinstance(name, bytes):
        name = os.fsdecode(name)
    return name if start is None else f"{_path_of(start)}/{name}"


def _path_of(fd: int) -> str:
    try:
        return _readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


def open_files_below(root: Path) -> list[str]:
    """Return the paths below a directory that this process has open."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        path = _path_of(int(fd))
        if path.startswith(str(root)):
            found.append(path)
    return found


ERRNOS = (errno.ENOSPC, errno.EACCES, errno.EIO, errno.EMFILE)
"""What disks and systems say that are full, closed, broken or busy."""
