"""Futures: results of reads and writes that run in the background."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from concurrent import futures
from contextlib import suppress
from importlib import import_module
from typing import Any, Generic, TypeVar

from tegula.engine.concurrency.pool import in_background
from tegula.engine.stored.array import StoredArray
from tegula.errors import TegulaError
from tegula.stores import Store

__all__ = ["Future", "load", "start", "start_alone", "wait_for"]

T = TypeVar("T")
_running: dict[futures.Future[Any], Store | None] = {}

if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_running.clear)  # only the parent has the threads that run the operations


class Future(Generic[T]):
    """The result of an operation in the background, returned by `Array.read` and `Array.write`.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array(tegula.MemoryStore(), shape=4, dtype="i4", fill_value=7)
    >>> a.read(slice(1, 3)).result()
    array([7, 7], dtype=int32)
    """

    def __init__(self, future: futures.Future[T]) -> None:
        self._future = future

    def result(self, timeout: float | None = None) -> T:
        """Wait for the operation and return its result, or raise its error.

        Parameters
        ----------
        timeout : float, optional
            The most seconds to wait.

        Raises
        ------
        TimeoutError
            If the operation has not ended by then; it continues.
        """
        return self._future.result(timeout)

    def done(self) -> bool:
        """Return whether the operation has ended."""
        return self._future.done()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the operation and return its error, or ``None``."""
        return self._future.exception(timeout)

    def add_done_callback(self, function: Callable[[Future[T]], Any]) -> None:
        """Call `function` with this future when the operation has ended."""
        self._future.add_done_callback(lambda _: function(self))

    def __await__(self) -> Generator[Any, None, T]:
        awaitable: Generator[Any, None, T] = import_module("asyncio").wrap_future(self._future).__await__()
        return awaitable

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a tegula.Future can't be pickled: its operation runs in this process; pickle its result()")

    def __repr__(self) -> str:
        return f"<tegula.Future {'done' if self.done() else 'running'}>"


def load(array: StoredArray) -> None:
    """Import the libraries that reading and writing an array needs, before a thread of the pool does.

    See `CodecChain.load` for the reason. A library that can't be imported is reported when it is used.
    """
    with suppress(TegulaError):
        array.executor.load(array)


def start(array: StoredArray, function: Callable[..., T], *args: Any) -> Future[T]:
    """Run a function that reads or writes an array in the background; if no thread can be started, run it now."""
    load(array)
    return _started(function, args, array.store.concurrency, array.store)


def start_alone(function: Callable[..., T], *args: Any, requests: int) -> Future[T]:
    """Run a function that opens the arrays it reads or writes in the background; `requests` as for `in_background`.

    Examples
    --------
    >>> start_alone(len, "abc", requests=0).result()
    3
    """
    return _started(function, args, requests, None)


def _started(function: Callable[..., T], args: tuple[Any, ...], requests: int, store: Store | None) -> Future[T]:
    waiting: futures.Future[T] = futures.Future()

    def run() -> None:
        if not waiting.set_running_or_notify_cancel():
            return
        try:
            result = function(*args)
        except BaseException as error:  # noqa: BLE001 - `Future.result` raises it
            waiting.set_exception(error)
        else:
            waiting.set_result(result)

    _running[waiting] = store
    waiting.add_done_callback(_running.pop)
    in_background(run, requests)
    return Future(waiting)


def wait_for(store: Store) -> None:
    """Wait until all operations started on a store have ended or are cancelled; their futures keep the errors."""
    futures.wait([future for future, used in _running.copy().items() if used is store])
