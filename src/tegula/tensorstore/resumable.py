"""Operations that wait for futures without blocking a thread: they stop, and are called again later."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, TypeVar

__all__ = ["Operation", "Pending", "Steps", "alone", "finish", "running"]

T = TypeVar("T")
Steps = Generator[Any, None, T]
"""A generator that yields each future it waits for, and returns a result."""

_thread = threading.local()


class Pending(BaseException):
    """A signal that ends a call of an operation which has to wait for a future."""

    def __init__(self, future: Any) -> None:
        super().__init__()
        self.future = future


class Operation:
    """A function that is called again until it returns; `finish` continues where the previous call stopped.

    Parameters
    ----------
    batch : Batch, optional
        The batch of the operation.
    requests : int
        The `concurrency` of the store, if the operation mostly waits for it.
    """

    __slots__ = ("_position", "_started", "batch", "requests")

    def __init__(self, batch: Any = None, requests: int = 0) -> None:
        self.batch = batch
        self.requests = requests
        self._started: list[_Started] = []
        self._position = 0

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call the function; raise `Pending` if it must be called again."""
        self._position = 0
        return _within(self, function, *args)

    def next(self, begin: Callable[[], Steps[Any]]) -> _Started:
        """Return the steps of the next `finish`: new ones, or those that a previous call began at this position."""
        self._position += 1
        if len(self._started) < self._position:
            self._started.append(_Started(begin()))
        return self._started[self._position - 1]


class _Started:
    """Steps, and their progress."""

    __slots__ = ("_future", "_result", "_steps")

    def __init__(self, steps: Steps[Any]) -> None:
        self._steps: Steps[Any] | None = steps
        self._future: Any = None
        self._result: Any = None

    def advance(self) -> Any:
        while self._steps is not None:
            if self._future is not None and not self._future.done():
                raise Pending(self._future)
            try:
                self._future = next(self._steps)
            except StopIteration as end:
                self._steps, self._future, self._result = None, None, end.value
        return self._result


def running() -> Operation | None:
    """Return the operation that runs in this thread."""
    operation: Operation | None = getattr(_thread, "operation", None)
    return operation


def alone(function: Callable[..., T], *args: Any) -> T:
    """Call a function outside any operation, so that it blocks its thread to wait."""
    return _within(None, function, *args)


def _within(operation: Operation | None, function: Callable[..., T], *args: Any) -> T:
    before = running()
    _thread.operation = operation
    try:
        return function(*args)
    finally:
        _thread.operation = before


def finish(begin: Callable[[], Steps[T]]) -> T:
    """Run steps to their end. If a step has to wait, stop the operation; outside an operation, block the thread."""
    operation = running()
    if operation is not None:
        result: T = operation.next(begin).advance()
        return result
    steps = begin()
    while True:
        try:
            future = next(steps)
        except StopIteration as end:
            last: T = end.value
            return last
        with suppress(asyncio.CancelledError):
            future.exception()  # the next step handles the error
