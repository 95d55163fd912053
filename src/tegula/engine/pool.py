"""Thread pools: for the chunks of an operation, for requests to a store that is far away, and for operations that run
in the background.

A store is far away if it says how many requests it wants under way at once (`Readable.concurrency`). There an operation
takes as long as its longest chain of requests, one after the other. So everything that it can ask without an answer is
asked together, in a *wave*: `for_each` and `gather` with `requests`.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from operator import length_hint
from typing import Any, Final, Generic, TypeVar

from tegula import config
from tegula.codecs import CodecChain
from tegula.codecs.sharding import InnerChain
from tegula.stores.open_files import GaveUp, end_waiting, waiting_is_over

__all__ = ["begin", "for_each", "gather", "in_background", "results_of"]

T = TypeVar("T")
R = TypeVar("R")
_MOST: Final = 256  # requests under way at once, in all operations
_lock = threading.Lock()
_pools: dict[str, tuple[int, ThreadPoolExecutor]] = {}


def _forget_pools() -> None:
    """Drop the pools in a forked child, which has no threads and starts pools of its own when it needs them."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pools)


def _pool(name: str, threads: int) -> ThreadPoolExecutor:
    with _lock:
        known = _pools.get(name)
        if known is None or known[0] != threads:
            # the old pool, if any, ends its threads when its last operation drops it
            known = _pools[name] = (threads, ThreadPoolExecutor(threads, thread_name_prefix=f"tegula-{name}"))
        return known[1]


def in_background(run: Callable[[], object], requests: int = 0) -> None:
    """Call a function on the pool on which `Array.read` and `Array.write` run.

    Where no thread can be started, as while the interpreter ends, it is called before this returns. `requests` is the
    `concurrency` of the store, if the function does little more than to wait for it.
    """
    not_run = threading.Lock()

    def once() -> None:
        if not_run.acquire(blocking=False):
            run()

    pool = _pool("far operation", _MOST) if requests else _pool("operation", max(4, config.current().threads))
    try:
        pool.submit(once)
    except RuntimeError:  # it may still have been queued for a busy thread
        once()


def begin(work: Callable[[], T]) -> Callable[[], T | None]:
    """Start a call that waits for a far store, and return a function that waits for the call and returns its result.

    That is ``None`` if the call has failed, or no thread has begun it yet: then it will not be made.
    """
    call = _Call(work, _pool("request", _MOST))

    def result() -> T | None:
        if call.cancel() or call.future is None or call.future.exception() is not None:
            return None
        return call.future.result()

    return result


class _Call(Generic[T]):
    """A call that a pool makes when it has a thread for it.

    A call that is cancelled lets go of its function at once, and of all that this refers to: the pool forgets a
    cancelled call only when a thread comes across it.
    """

    def __init__(self, work: Callable[[], T], pool: ThreadPoolExecutor) -> None:
        self._work: Callable[[], T] | None = work
        self.future: Future[T] | None = None
        with suppress(RuntimeError):  # no thread can be started, as while the interpreter ends
            self.future = pool.submit(self._run)

    def _run(self) -> T:
        work, self._work = self._work, None
        assert work is not None
        return work()

    def cancel(self) -> bool:
        """Cancel the call, and return whether that was possible: whether no thread has begun it."""
        if self.future is not None and not self.future.cancel():
            return False
        self._work = None
        return True

    def result(self) -> T:
        """Return the result: the calling thread makes the call if no other has begun it."""
        work = self._work
        if self.future is None or self.future.cancel():
            self._work = None
            assert work is not None
            return work()
        return self.future.result()


def gather(work: Callable[[T], R], items: Iterable[T], requests: int) -> list[R]:
    """Return the results of `work` for each item, in order; at most `requests` calls run at once, or one if it is 0.

    Examples
    --------
    >>> gather(str.upper, ["a", "b"], requests=2)
    ['A', 'B']
    """
    wanted: Sequence[T] = [*items]
    if not requests:
        return [work(item) for item in wanted]
    found: list[Any] = [None] * len(wanted)

    def fill(number: int) -> None:
        found[number] = work(wanted[number])

    for_each(fill, range(len(wanted)), parallel=False, requests=requests)
    return found


def results_of(work: Callable[[T], R], items: Iterable[T], requests: int) -> Iterator[R]:
    """Yield the results of `work` for each item, in order, while later calls are under way.

    Parameters
    ----------
    work, items
        The function, and what to call it on. The next item is taken by the thread that asks for results.
    requests : int
        So many calls are under way at once at most. With 0 each is made when its result is asked for.

    Raises
    ------
    Exception
        That of the first item whose call raises; calls under way have ended then.

    Examples
    --------
    >>> [*results_of(str.upper, iter("abc"), requests=2)]
    ['A', 'B', 'C']
    """
    if not requests:
        yield from map(work, items)
        return
    left, outer = threading.Event(), waiting_is_over()

    def run(item: T) -> R:
        before = waiting_is_over()
        end_waiting(lambda: left.is_set() or outer())
        try:
            return work(item)
        finally:
            end_waiting(before)

    pool, calls = _pool("request", _MOST), deque[_Call[R]]()
    try:
        for item in items:
            _check_wanted(outer)
            calls.append(_Call(partial(run, item), pool))
            if len(calls) >= requests:
                yield calls.popleft().result()
        while calls:
            yield calls.popleft().result()
    finally:
        left.set()
        wait([call.future for call in calls if not call.cancel() and call.future is not None])


def _check_wanted(is_over: Callable[[], bool]) -> None:
    """Give up an operation that is a part of one that has failed elsewhere."""
    if is_over():
        raise GaveUp("stopped because another part of the operation failed")


def for_each(
    work: Callable[[T], None],
    items: Iterable[T],
    parallel: bool,
    chains: Iterable[CodecChain | InnerChain] = (),
    requests: int = 0,
) -> None:
    """Call `work` on each item; in parallel, the calling thread and those of the pool take items from one iterator.

    Parameters
    ----------
    work, items
        The function, and what to call it on.
    parallel : bool
        Whether to use the threads of the setting ``threads``.
    chains : iterable of CodecChain
        Codecs that are imported before, so that no thread of the pool imports anything.
    requests : int
        The `concurrency` of a store that each call waits for: so many threads are used, also if not `parallel`.

    Raises
    ------
    Exception
        The first one that a call raises. No further item is taken then, and it is raised when the running calls have
        ended.
    """
    threads = config.current().threads if parallel else 1
    if requests:
        threads = min(max(threads, requests), _MOST, length_hint(items, _MOST))
    if threads <= 1:
        for item in items:
            work(item)
        return
    for chain in chains:
        chain.load()

    # what the threads share: the iterator, the lock for taking from it, and whether one has failed
    source = iter(items)
    drawing = threading.Lock()
    failed = threading.Event()
    outer = waiting_is_over()

    def draw() -> Iterator[T]:
        while not failed.is_set():
            if requests:
                _check_wanted(outer)
            with drawing:
                try:
                    item = next(source)
                except StopIteration:
                    return
            yield item

    def run() -> None:
        before = waiting_is_over()
        end_waiting(lambda: failed.is_set() or outer())
        try:
            for item in draw():
                work(item)
        except BaseException as error:
            if isinstance(error, GaveUp) and failed.is_set():
                return  # the error of the other thread is raised
            failed.set()
            raise
        finally:
            end_waiting(before)

    # the calling thread works, too; it does all the work where no thread can be started, as while the interpreter ends
    pool = _pool("request", _MOST) if requests else _pool("chunk", threads - 1)
    helpers = [_Call(run, pool) for _ in range(threads - 1)]
    running: list[Future[None]] = []
    try:
        run()
    finally:
        # a helper that has not started yet would find no item left, so it is cancelled
        running += [helper.future for helper in helpers if not helper.cancel() and helper.future is not None]
        done, _ = wait(running, return_when=FIRST_EXCEPTION)
        wait(running)
    for future in done:
        future.result()
