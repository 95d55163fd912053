"""Calls made by finalisers, which run when an object is collected.

A garbage collection may start between any two lines, even while its thread holds the lock of a pool or a cache. A
finaliser that takes this lock would then wait for its own thread forever.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable
from contextvars import copy_context
from typing import Final

from tegula.runtime.deferred import at_exit

__all__ = ["call_apart"]

_PATIENCE: Final = 1.0  # seconds to wait in a finaliser: far longer than a lock is held for
_LAST_PATIENCE: Final = 60.0  # seconds at the end of the process
_running: set[Call] = set()


class Call:
    """A call in a thread of its own.

    Attributes
    ----------
    over : lock
        Held until the call has ended.
    is_awaited : bool
        Whether the finaliser still waits, and raises the error, if there is one.
    """

    def __init__(self, action: Callable[[], object]) -> None:
        self.over = _thread.allocate_lock()
        self.over.acquire()
        self.is_awaited = True
        self.error: BaseException | None = None
        self._action = action

    def run(self) -> None:
        """Make the call; if the finaliser no longer waits, an error is reported as any error of a finaliser is."""
        try:
            self._action()
        except BaseException as error:
            self.error = error
            if not self.is_awaited:
                raise
        finally:
            _running.discard(self)
            self.over.release()


def call_apart(action: Callable[[], object]) -> None:
    """From a finaliser, call a function that takes locks: in another thread, waiting up to a second for it.

    If this thread holds a lock that the call needs, the call ends after the lock is released. The process does not end
    before the call has.

    Examples
    --------
    >>> call_apart(lambda: print("flushed"))
    flushed
    """
    call = Call(action)
    _running.add(call)
    try:
        # not by `threading`, since the collection may have started while its locks are held
        _thread.start_new_thread(copy_context().run, (call.run,))
    except RuntimeError:  # no thread can be started while the interpreter ends
        _running.discard(call)
        action()
        return
    if call.over.acquire(timeout=_PATIENCE):
        if call.error is not None:
            raise call.error
    else:
        call.is_awaited = False


def _wait_for_all() -> None:
    for call in [*_running]:
        call.over.acquire(timeout=_LAST_PATIENCE)


at_exit(0, _wait_for_all)
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_running.clear)
