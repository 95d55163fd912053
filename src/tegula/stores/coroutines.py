"""Coroutines of other libraries, run in an event loop in a thread of its own, so that a signal can end them."""

from __future__ import annotations

import _thread
import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from tegula.runtime.deferred import after_fork

__all__ = ["run"]

_T = TypeVar("_T")


class _Loop:
    """An event loop in a thread of its own; a forked child gets a new one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="tegula-coroutines", daemon=True).start()
            return self._loop


_loops: Final = [_Loop()]


@after_fork
def _forget_loop() -> None:
    """In a forked child, forget the loop: its thread does not exist here."""
    _loops[0] = _Loop()


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
