"""Futures: results of operations that may still be running; programs wait for them, await them, or add callbacks.

An operation that completes immediately returns `ready` or `failed`, which are cheap; `background` runs a function in
tegula's thread pool.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent import futures
from contextlib import suppress
from types import GenericAlias
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, cast

from tegula.engine.concurrency.finalisers import call_apart
from tegula.engine.concurrency.pool import for_each, in_background
from tegula.tensorstore.errors import invalid, status, type_error

__all__ = [
    "Batch", "Future", "FutureLike", "Promise", "Steps", "WriteFutures", "background", "failed", "finish", "immediate",
    "ready", "running", "running_loop", "written",
]  # fmt: skip

T = TypeVar("T")
Steps = Generator[Any, None, T]
"""A generator that yields each future it waits for, and returns a result."""

_thread = threading.local()


class Pending(BaseException):
    """A signal that ends a call of an operation which has to wait for a future."""

    def __init__(self, future: Any) -> None:
        super().__init__()
        self.future = future


class Operation(Generic[T]):
    """A function that is called again until it returns; `finish` continues where the previous call stopped.

    `waiting` receives its result or error. `requests` is the `concurrency` of the store, if the function mostly waits
    for it.
    """

    __slots__ = ("_args", "_function", "_position", "_started", "batch", "requests", "waiting")

    def __init__(
        self, function: Callable[..., T], args: tuple[Any, ...], batch: Batch | None = None, requests: int = 0
    ) -> None:
        self._function, self._args, self.batch, self.requests = function, args, batch, requests
        self.waiting: futures.Future[T] = futures.Future()
        self._started: list[_Started] = []
        self._position = 0

    def start(self) -> Future[T]:
        """Call the function in the thread pool, or immediately if no thread is available; return its future."""
        in_background(self.carry_out, self.requests)
        return _pending(self.waiting)

    def carry_out(self) -> None:
        """Call the function; if it must wait for a future, call it again later."""
        if self.waiting.cancelled():
            return
        self._position = 0
        with suppress(futures.InvalidStateError):
            try:
                result = _within(self, self._function, *self._args)
            except Pending as pending:
                pending.future.add_done_callback(lambda _: self.start())
            except BaseException as error:  # noqa: BLE001 - the future raises it
                self.waiting.set_exception(error)
            else:
                self.waiting.set_result(result)

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


def running() -> Operation[Any] | None:
    """Return the operation that runs in this thread."""
    operation: Operation[Any] | None = getattr(_thread, "operation", None)
    return operation


def _within(operation: Operation[Any] | None, function: Callable[..., T], *args: Any) -> T:
    before = running()
    _thread.operation = operation
    try:
        return function(*args)
    finally:
        _thread.operation = before


def finish(begin: Callable[[], Steps[T]]) -> T:
    """Run steps to their end. If a step has to wait, stop the operation; outside an operation, block the thread."""
    operation = running()
    started = _Started(begin()) if operation is None else operation.next(begin)
    while True:
        try:
            return cast(T, started.advance())
        except Pending as pending:
            if operation is not None:
                raise
            with suppress(asyncio.CancelledError):
                pending.future.exception()  # the next step handles the error


_Waiting: TypeAlias = "futures.Future[Any]"


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, if there is one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Future(Generic[T]):
    """Handle for consuming the result of an asynchronous operation.

    A future is returned unchanged; a coroutine runs in the event loop, by default the running one; any other value is
    the result.

    Examples
    --------
    >>> future = Future(3)
    >>> future.done(), future.result()
    (True, 3)
    >>> Future(future) is future
    True
    """

    __slots__ = ("__weakref__", "_callbacks", "_error", "_value", "_waiting")

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)
    _value: Any
    _error: BaseException | None
    _waiting: _Waiting | None
    _callbacks: list[Callable[[Future[T]], Any]] | None

    def __new__(cls, future: FutureLike[T], *, loop: asyncio.AbstractEventLoop | None = None) -> Future[T]:
        if isinstance(future, Future):
            return future
        if not asyncio.iscoroutine(future):
            return ready(cast(T, future))
        if (loop := loop or running_loop()) is None:
            raise invalid("no event loop specified, and the thread has none")
        return _pending(asyncio.run_coroutine_threadsafe(future, loop))

    def result(self, timeout: float | None = None, deadline: float | None = None) -> T:
        """Wait for the operation and return its result, or raise its error.

        After `timeout` seconds, or at `deadline`, in seconds since the epoch, it raises TimeoutError; the operation
        continues.
        """
        if self._waiting is not None:
            try:
                return cast(T, self._waiting.result(_seconds(timeout, deadline)))
            except futures.CancelledError:
                raise asyncio.CancelledError from None
            finally:
                del self  # the traceback refers to this frame, which would keep the future alive
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self
        value: T = self._value
        return value

    def exception(self, timeout: float | None = None, deadline: float | None = None) -> BaseException | None:
        """Wait for the operation and return its error, or ``None``; arguments and timeouts are those of `result`."""
        if self._waiting is None:
            return self._error
        try:
            return self._waiting.exception(_seconds(timeout, deadline))
        except futures.CancelledError:
            raise asyncio.CancelledError from None

    def done(self) -> bool:
        """Return whether the operation has finished or was cancelled."""
        return self._waiting is None or self._waiting.done()

    def cancel(self) -> bool:
        """Mark the operation as cancelled, unless it has finished; return whether this call did so."""
        waiting = self._waiting
        return waiting is not None and not waiting.cancelled() and waiting.cancel()

    def cancelled(self) -> bool:
        """Return whether the operation was cancelled."""
        return self._waiting is not None and self._waiting.cancelled()

    def force(self) -> None:
        """Do nothing: every operation has already started."""

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Call `callback` with this future: immediately if it is done, otherwise in the thread that finishes it."""
        if self._waiting is None:
            _call(callback, self)
            return
        if self._callbacks is None:
            self._callbacks = []
            self._waiting.add_done_callback(lambda _: self._call_back())
        self._callbacks.append(callback)
        if self._waiting.done():
            self._call_back()

    def remove_done_callback(self, callback: Callable[[Future[T]], Any]) -> int:
        """Remove a callback and return how many times it was registered."""
        removed = 0
        with suppress(ValueError):
            while self._waiting is not None and self._callbacks:
                self._callbacks.remove(callback)
                removed += 1
        return removed

    def _call_back(self) -> None:
        with suppress(IndexError):
            while self._callbacks:
                _call(self._callbacks.pop(0), self)

    def __await__(self) -> Generator[Any, None, T]:
        if self._waiting is not None:
            yield from asyncio.wrap_future(self._waiting).__await__()
        return self.result()

    def __reduce__(self) -> Any:
        raise type_error("cannot pickle 'tensorstore.Future' object")


FutureLike: TypeAlias = Future[T] | Awaitable[T] | T
"""A value, or a future or coroutine whose result is the value."""


class Promise(Generic[T]):
    """Handle for producing the result of an asynchronous operation; `new` returns a promise and its future.

    Examples
    --------
    >>> promise, future = Promise.new()
    >>> future.done()
    False
    >>> promise.set_result(5)
    >>> future.result()
    5
    """

    __slots__ = ("__weakref__", "_waiting")

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)
    _waiting: _Waiting

    def __new__(cls) -> Promise[T]:
        raise type_error("cannot create 'tensorstore.Promise' instances")

    @staticmethod
    def new() -> tuple[Promise[T], Future[T]]:
        """Return a promise and its future."""
        promise: Promise[T] = object.__new__(Promise)
        promise._waiting = futures.Future()
        return promise, _pending(promise._waiting)

    def set_result(self, result: T) -> None:
        """Set the result of the future, unless it already has a result or an error."""
        with suppress(futures.InvalidStateError):
            self._waiting.set_result(result)

    def set_exception(self, exception: BaseException) -> None:
        """Set the error of the future, unless it already has a result or an error."""
        if not isinstance(exception, BaseException):
            raise type_error(f"exceptions must derive from BaseException, not {type(exception).__name__}")
        with suppress(futures.InvalidStateError):
            self._waiting.set_exception(exception)

    def __del__(self) -> None:
        if not self._waiting.done():
            self.set_exception(status("UNKNOWN", ""))


class WriteFutures:
    """The two futures of a write; its own methods are those of `commit`."""

    __slots__ = ("__weakref__", "commit", "copy")

    copy: Future[None]
    """Ready when the source is no longer read."""
    commit: Future[None]
    """Ready when reads return the new values and these are stored as durably as the store supports; in a transaction,
    when reads within it return them."""

    def __new__(cls) -> WriteFutures:
        raise type_error("cannot create 'tensorstore.WriteFutures' instances")

    def result(self, timeout: float | None = None, deadline: float | None = None) -> None:
        """Wait for `commit`; see `Future.result`."""
        return self.commit.result(timeout, deadline)

    def exception(self, timeout: float | None = None, deadline: float | None = None) -> BaseException | None:
        """Wait for `commit` and return its error; see `Future.exception`."""
        return self.commit.exception(timeout, deadline)

    def done(self) -> bool:
        """Return whether `commit` is done."""
        return self.commit.done()

    def cancel(self) -> bool:
        """Cancel `commit`; see `Future.cancel`."""
        return self.commit.cancel()

    def cancelled(self) -> bool:
        """Return whether `commit` was cancelled."""
        return self.commit.cancelled()

    def add_done_callback(self, callback: Callable[[Future[None]], Any]) -> None:
        """Call a function with `commit` when `commit` is done."""
        self.commit.add_done_callback(callback)

    def remove_done_callback(self, callback: Callable[[Future[None]], Any]) -> int:
        """Remove a callback of `commit` and return how many times it was registered."""
        return self.commit.remove_done_callback(callback)

    def __await__(self) -> Generator[Any, None, None]:
        return self.commit.__await__()

    def __reduce__(self) -> Any:
        raise type_error("cannot pickle 'tensorstore.WriteFutures' object")


def ready(value: T) -> Future[T]:
    """Return a future that has a result."""
    future: Future[T] = object.__new__(Future)
    future._value, future._error, future._waiting = value, None, None
    return future


def failed(error: BaseException) -> Future[Any]:
    """Return a future that has an error."""
    future: Future[Any] = object.__new__(Future)
    future._value, future._error, future._waiting = None, error, None
    return future


def immediate(function: Callable[..., T], *args: Any) -> Future[T]:
    """Call a function immediately and return a future with its result or error."""
    try:
        return ready(function(*args))
    except BaseException as error:  # noqa: BLE001 - the future raises it
        return failed(error)


def background(function: Callable[..., T], *args: Any, requests: int = 0) -> Future[T]:
    """Call a function in the thread pool; call it immediately if no thread is available.

    `requests` is the `concurrency` of the store that the function waits for; calls for remote stores have a pool
    of their own.
    """
    return Operation(function, args, requests=requests).start()


def written(commit: Future[None], copy: Future[None] | None = None) -> WriteFutures:
    """Return the futures of a write; by default `copy` is `commit`."""
    both = object.__new__(WriteFutures)
    both.commit, both.copy = commit, commit if copy is None else copy
    return both


def _pending(waiting: _Waiting) -> Future[Any]:
    future: Future[Any] = object.__new__(Future)
    future._waiting, future._callbacks = waiting, None
    return future


def _seconds(timeout: float | None, deadline: float | None) -> float | None:
    limits = [timeout, None if deadline is None else deadline - time.time()]
    finite = [limit for limit in limits if limit is not None]
    return max(min(finite), 0.0) if finite else None


def _call(callback: Callable[[Any], Any], future: Any) -> None:
    try:
        callback(future)
    except BaseException as error:  # noqa: BLE001 - a callback has no caller that could handle it
        sys.excepthook(type(error), error, error.__traceback__)


class Batch:
    """Operations that start together: when the batch is submitted, at the end of its ``with`` block, or on deletion.

    None of their futures is ready before that.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> store = ts.array([1, 2, 3])
    >>> with ts.Batch() as batch:
    ...     future = store.read(batch=batch)
    >>> future.result()
    array([1, 2, 3])
    """

    __slots__ = ("__weakref__", "_begun", "_lock", "_requests", "_work")

    def __init__(self) -> None:
        self._begun = False
        self._lock = threading.Lock()
        self._requests = 0
        self._work: list[Callable[[], None]] | None = []

    def _defer(self, function: Callable[..., T], *args: Any, requests: int = 0) -> Future[T]:
        """Delay a call until the batch is submitted; `requests` is the `concurrency` of the store it waits for."""
        if self._begun:
            return immediate(_within, None, function, *args)  # it blocks the thread to wait
        operation = Operation(function, args, _begun())
        with self._lock:
            if self._work is None:
                raise invalid("batch was already submitted")
            self._work.append(operation.carry_out)
            self._requests = max(self._requests, requests)
        return _pending(operation.waiting)

    def submit(self) -> None:
        """Start all delayed operations; the batch accepts no more."""
        with self._lock:
            work, self._work = self._work, None
        if work:
            requests = self._requests
            background(lambda: for_each(lambda run: run(), work, parallel=True, requests=requests), requests=requests)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.submit()

    def __del__(self) -> None:
        if getattr(self, "_work", None):  # `_work` is missing if `__init__` has failed
            call_apart(self.submit)


def _begun() -> Batch:
    """Return a batch that delays nothing, for calls made by a submitted batch."""
    batch = Batch()
    batch._begun = True
    return batch
