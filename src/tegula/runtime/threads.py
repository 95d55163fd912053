"""Thread pools that a signal may interrupt at any line without leaving a thread waiting forever.

`concurrent.futures` takes its locks in Python code, so a `KeyboardInterrupt` may come after a lock is taken and before
that is recorded: a worker, and with it the process, then waits for that lock forever. Here the thread that gets signals
makes only single calls of compiled code (`queue.SimpleQueue`, `dict.setdefault`, ``with lock``). The counts of a pool
are kept by its own threads, which get no signals.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar

from tegula.runtime.deferred import at_exit, load

__all__ = ["Call", "Pool", "finish", "in_threads", "share"]

T = TypeVar("T")
U = TypeVar("U")
_pools: dict[str, Pool] = {}
_MOST: Final = 256  # threads that wait for answers to the requests of stores
_WORKER: Final = "worker"
_CALLER: Final = "caller"


class Call(Generic[T]):
    """A call made by a thread of a pool, or by the thread that needs its result if that comes first.

    A cancelled call drops its function at once, with everything that the function refers to, since the call itself
    stays in the queue of the pool until a thread takes it.

    Attributes
    ----------
    error : BaseException or None
        The error that the call has raised in a thread of the pool.

    Examples
    --------
    >>> call = Call(lambda: 2 + 2)
    >>> call.result()
    4
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._maker: dict[None, str] = {}  # which side makes or has cancelled the call: the first to register here
        self._over = False
        self._ended = _thread.allocate_lock()
        self._ended.acquire()
        self._value: Any = None
        self.error: BaseException | None = None

    def make(self) -> None:
        """Make the call in a thread of a pool, unless the caller has made or cancelled it."""
        if self._maker.setdefault(None, _WORKER) == _WORKER:
            work, self._work = self._work, None
            assert work is not None
            try:
                self._value = work()
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                self.error = error
            del work  # before the caller continues, since it may check what is still in memory
            self._over = True
            self._ended.release()

    def cancel(self) -> bool:
        """Cancel the call if no thread has begun it, and return whether it was cancelled."""
        if self._maker.setdefault(None, _CALLER) == _WORKER:
            return False
        self._work = None
        return True

    def wait(self) -> None:
        """Wait until the call has ended in the thread that has begun it."""
        if not self._over:
            with self._ended:
                pass

    def result_if_begun(self) -> T | None:
        """Return the result, or ``None`` if the call has failed, or is cancelled since no thread has begun it."""
        if self.cancel():
            return None
        self.wait()
        return self._value if self.error is None else None

    def result(self) -> T:
        """Return the result; the calling thread makes the call itself if no other thread has begun it."""
        work = self._work
        if self.cancel():
            assert work is not None
            return work()
        self.wait()
        if self.error is not None:
            error, self.error = self.error, None  # its frames refer to this call
            raise error
        value: T = self._value
        return value


class Pool:
    """A pool of threads that make calls in the order in which they are started.

    Parameters
    ----------
    limit : int
        The most threads. If it is lowered later, threads end before their next call.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._calls: SimpleQueue[Call[Any] | None] = SimpleQueue()  # None: no further call comes
        self._starting: dict[object, None] = {}  # threads that have been started and not counted yet
        self._counts = _thread.allocate_lock()  # only threads of the pool take it
        self._threads = self._idle = 0
        self._ended = _thread.allocate_lock()
        self._is_over = self._has_ended = False

    @classmethod
    def named(cls, name: str, limit: int) -> Pool:
        """Return the pool of that name, and set its limit."""
        pool = _pools.get(name) or _pools.setdefault(name, cls(limit))
        pool.limit = limit
        return pool

    def start(self, call: Call[Any]) -> None:
        """Queue a call for the next free thread.

        If no thread can be started, as while the interpreter ends, `Call.result` makes the call.
        """
        self._calls.put(call)
        self._add_thread()

    def start_or_make(self, call: Call[Any]) -> None:
        """Queue a call for the next free thread; make it here if there is no thread and none can be started."""
        self.start(call)
        if not self._threads and not self._starting:
            call.make()

    def _add_thread(self) -> None:
        """Start a thread if a call waits for one."""
        starting = self._starting
        coming = len(starting)
        if self._is_over or self._threads + coming >= self.limit or self._calls.qsize() <= self._idle + coming:
            return
        load()  # the modules that threads may need, since threads must not import anything
        token = object()
        try:
            starting[token] = None
            # not by `threading`, which waits until the thread runs, with locks taken in Python code
            _thread.start_new_thread(self._run, (token,))
        except RuntimeError:
            starting.pop(token, None)
        except BaseException:
            starting.pop(token, None)
            raise

    def _run(self, token: object) -> None:
        """Make calls until the pool ends, or has too many threads."""
        with self._counts:
            self._starting.pop(token, None)
            if self._threads >= self.limit:
                return
            self._threads += 1
            self._idle += 1
        while True:
            call = self._calls.get()
            with self._counts:
                self._idle -= 1
                ends = call is None or self._threads > self.limit
                self._threads -= ends
                # a thread that starts late may come after the last one, and then has nothing to report
                last = call is None and not self._threads and not self._has_ended
                self._has_ended = self._has_ended or last
            if ends:
                self._calls.put(call)  # for another thread
                break
            self._add_thread()  # for a call that was queued between the two lines above
            assert call is not None
            call.make()
            del call
            with self._counts:
                self._idle += 1
        if last:
            self._ended.release()

    def end(self) -> None:
        """Wait until all calls have ended. Calls started afterwards are made by the threads that need them."""
        self._is_over = True
        if self._threads or self._starting:
            self._ended.acquire()
            self._calls.put(None)
            with self._ended:
                pass
        while True:  # calls that were queued too late
            try:
                call = self._calls.get_nowait()
            except Empty:
                return
            if call is not None:
                call.make()


def share(run: Callable[[], None], helpers: int, pool: Pool, failed: list[bool]) -> None:
    """Call `run` in this thread and in up to `helpers` threads of a pool, and return when all calls have ended.

    Parameters
    ----------
    run
        Works on items until none is left, or `failed` is not empty.
    helpers : int
        How many threads help, as far as they are free.
    pool : Pool
        The pool of these threads.
    failed : list of bool
        Gets an item when a call of `run` has raised, or a signal has interrupted this thread.

    Raises
    ------
    BaseException
        The error of the call in this thread, or else the first error of a helper.
    """
    calls: list[Call[None]] = []
    errors: list[BaseException] = []

    def help_out() -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)
            failed.append(True)

    try:
        for _ in range(helpers):
            call = Call(help_out)
            calls.append(call)  # before it can begin, so that it is always waited for
            pool.start(call)
        run()
        _wait(calls)
    except BaseException:
        failed.append(True)
        finish(calls)
        raise
    if errors:
        error = errors[0]
        errors.clear()  # its frames refer to this list
        raise error


def finish(calls: Iterable[Call[Any]]) -> None:
    """Cancel the calls that have not begun and wait for the others, even if one signal interrupts this."""
    try:
        _wait(calls)
    except BaseException:
        _wait(calls)
        raise


def _wait(calls: Iterable[Call[Any]]) -> None:
    for call in calls:
        if not call.cancel():
            call.wait()


def in_threads(action: Callable[[T], U], items: Sequence[T], concurrency: int) -> list[U]:
    """Return the result of `action` for each item, in order, with up to `concurrency` calls under way at once.

    After an error no further call is begun, and the error is raised when all running calls have ended.

    Examples
    --------
    >>> in_threads(len, ["a", "bcd", ""], 2)
    [1, 3, 0]
    """
    found: list[Any] = [None] * len(items)
    order = iter(range(len(items)))
    lock = _thread.allocate_lock()
    failed: list[bool] = []

    def work() -> None:
        while not failed:
            with lock:
                place = next(order, None)
            if place is None:
                return
            found[place] = action(items[place])

    share(work, min(concurrency, len(items)) - 1, Pool.named("store", _MOST), failed)
    return found


def _end_all() -> None:
    # the calls that this waits for may make new pools
    while left := [pool for pool in [*_pools.values()] if not pool._is_over]:
        for pool in left:
            pool.end()


at_exit(1, _end_all)
if hasattr(os, "register_at_fork"):  # a forked child has no threads, and starts its own when it needs them
    os.register_at_fork(after_in_child=_pools.clear)
