"""Coroutines of other libraries, run in an event loop in a thread of its own, so that a signal can end them."""

from __future__ import annotations

import _thread
import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Final, TypeVar, TypeVarTuple

from tegula.runtime.deferred import after_fork, at_exit

__all__ = ["run"]

_T = TypeVar("_T")
_Arguments = TypeVarTuple("_Arguments")
_LAST: Final = 0.001
_PATIENCE: Final = 2.0


class _Counting(asyncio.SelectorEventLoop):
    """An event loop that knows how many threads of other libraries are bringing it results.

    Such a thread is aborted, and the process with it, if it takes the interpreter's lock again after the interpreter
    has begun to shut down.
    """

    def __init__(self) -> None:
        super().__init__()
        self.callers: dict[object, None] = {}

    def call_soon_threadsafe(
        self, callback: Callable[[*_Arguments], object], *arguments: *_Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        caller = object()
        self.callers[caller] = None
        try:
            return super().call_soon_threadsafe(callback, *arguments, context=context)
        finally:
            del self.callers[caller]


class _Loop:
    """An event loop in a thread of its own; a forked child gets a new one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: _Counting | None = None
        self._thread: threading.Thread | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = _Counting()
                self._thread = threading.Thread(target=self._loop.run_forever, name="tegula-coroutines", daemon=True)
                self._thread.start()
            return self._loop

    def end(self) -> None:
        """Cancel what runs, end the thread, and let other threads bring the results that they have."""
        with self._lock:
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop)
        loop.call_soon_threadsafe(loop.call_later, _LAST, loop.stop)
        thread.join(_PATIENCE)
        latest = time.monotonic() + _PATIENCE
        while loop.callers and time.monotonic() < latest:
            time.sleep(_LAST)
        time.sleep(_LAST)  # from here to the end of their call they run a few instructions


async def _cancel_all() -> None:
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            task.cancel()


_loops: Final = [_Loop()]


@after_fork
def _forget_loop() -> None:
    """In a forked child, forget the loop: its thread does not exist here."""
    _loops[0] = _Loop()


def _end() -> None:
    _loops[0].end()


at_exit(3, _end)


def run(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine and return its result; if a signal interrupts that, the coroutine is cancelled.

    Examples
    --------
    >>> import asyncio
    >>> run(asyncio.sleep(0, "done"))
    'done'
    """
    loop = _loops[0].get()
    ended = _thread.allocate_lock()  # the waiting thread makes only single calls of compiled code
    ended.acquire()
    values: list[_T] = []
    errors: list[BaseException] = []
    tasks: list[asyncio.Task[None]] = []

    async def follow() -> None:
        try:
            values.append(await coroutine)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)
        finally:
            ended.release()

    def start() -> None:
        tasks.append(loop.create_task(follow()))

    def cancel() -> None:
        for task in tasks:
            task.cancel()

    loop.call_soon_threadsafe(start)
    try:
        with ended:
            pass
    except BaseException:
        loop.call_soon_threadsafe(cancel)
        raise
    if errors:
        error = errors[0]
        errors.clear()  # its frames refer to this list
        raise error
    return values[0]
