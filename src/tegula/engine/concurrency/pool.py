"""Thread pools: for the chunks of an operation, for requests to a remote store, and for operations in the background.

In a remote store (`Readable.is_remote`) an operation takes as long as its longest chain of requests that wait for each
other. So requests that do not depend on an earlier answer are sent together, in a *wave*: by `for_each` and `gather`
with `requests`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from operator import length_hint
from threading import Lock
from typing import Any, Final, TypeVar

from tegula import config
from tegula.codecs import CodecChain
from tegula.codecs.serializers.sharding import InnerChain
from tegula.runtime.threads import Call, Pool, finish, share
from tegula.stores.local.open_files import GaveUp, waiting

__all__ = ["awaited", "begin", "for_each", "gather", "in_background", "results_of"]

T = TypeVar("T")
R = TypeVar("R")
_MOST: Final = 256  # requests under way at the same time, in all operations


def in_background(run: Callable[[], object], requests: int = 0) -> None:
    """Call a function on the pool on which `Array.read` and `Array.write` run.

    If no thread can be started, for example while the interpreter ends, the function is called before this one returns.
    `requests` is the `concurrency` of the store if the function does little more than wait for the store.
    """
    threads = _MOST if requests else max(4, config.current().threads)
    Pool.named("remote operation" if requests else "operation", threads).start_or_make(Call(run))


async def awaited(work: Callable[[], T], requests: int = 0) -> T:
    """Call a function with `in_background` and await its result, while the event loop keeps running.

    Examples
    --------
    >>> import asyncio
    >>> asyncio.run(awaited(lambda: 2 + 2))
    4
    """
    loop = import_module("asyncio").get_running_loop()
    done = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - raised again by the coroutine
            # a StopIteration can't be raised into a future
            error = RuntimeError("the iterator has ended") if isinstance(raised, StopIteration) else raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    in_background(run, requests)
    answer: T = await done
    return answer


def begin(work: Callable[[], T]) -> Callable[[], T | None]:
    """Start a call that waits for a remote store, and return a function that waits for the call and returns its result.

    The result is ``None`` if the call has failed, or if no thread has begun it yet; in that case it is cancelled.
    """
    call = Call(work)
    Pool.named("request", _MOST).start(call)
    return call.result_if_begun


def _requests() -> Pool:
    return Pool.named("request", _MOST)


def gather(work: Callable[[T], R], items: Iterable[T], requests: int) -> list[R]:
    """Return the results of `work` for each item, in order, with at most `requests` calls under way; one if it is 0.

    Examples
    --------
    >>> gather(str.upper, ["a", "b"], requests=2)
    ['A', 'B']
    """
    if not requests:
        return [*map(work, items)]
    wanted: Sequence[T] = [*items]
    results: list[Any] = [None] * len(wanted)

    def fill(number: int) -> None:
        results[number] = work(wanted[number])

    for_each(fill, range(len(wanted)), parallel=False, requests=requests)
    return results


def results_of(work: Callable[[T], R], items: Iterable[T], requests: int) -> Iterator[R]:
    """Yield the results of `work` for each item, in order, while later calls are under way.

    Parameters
    ----------
    work, items
        The function, and the items to call it on. Items are taken by the thread that iterates over the results.
    requests : int
        The most calls that are under way at the same time. With 0, each call is made when its result is requested.

    Raises
    ------
    Exception
        The error of the first item whose call raises. It is raised after the calls under way have ended.

    Examples
    --------
    >>> [*results_of(str.upper, iter("abc"), requests=2)]
    ['A', 'B', 'C']
    """
    if not requests:
        yield from map(work, items)
        return
    stopped: list[bool] = []
    outer = waiting.is_over

    def run(item: T) -> R:
        before = waiting.is_over
        try:
            waiting.is_over = lambda: bool(stopped) or outer()
            return work(item)
        finally:
            waiting.is_over = before

    calls = deque[Call[R]]()
    try:
        for item in items:
            _check_wanted(outer)
            calls.append(Call(partial(run, item)))
            _requests().start(calls[-1])
            if len(calls) >= requests:
                yield calls[0].result()
                calls.popleft()
        while calls:
            yield calls[0].result()
            calls.popleft()
    finally:
        stopped.append(True)
        finish(calls)


def _check_wanted(is_over: Callable[[], bool]) -> None:
    """Raise `GaveUp` in an operation whose result is not needed, since another part of the larger one has failed."""
    if is_over():
        raise GaveUp("stopped because another part of the operation failed")


def for_each(
    work: Callable[[T], None],
    items: Iterable[T],
    parallel: bool,
    chains: Iterable[CodecChain | InnerChain] = (),
    requests: int = 0,
) -> None:
    """Call `work` on each item; if parallel, the calling thread and threads of the pool take items from one iterator.

    Parameters
    ----------
    work, items
        The function, and the items to call it on.
    parallel : bool
        Whether to use as many threads as the setting ``threads`` says.
    chains : iterable of CodecChain
        Codecs to import first, so that no thread of the pool imports anything.
    requests : int
        The `concurrency` of a store that each call waits for: so many threads are used even if `parallel` is false.

    Raises
    ------
    Exception
        The first error of a call. After it no further item is taken, and it is raised when the running calls have
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

    # the threads share the iterator, the lock for taking from it, and whether one of them has failed
    source = iter(items)
    drawing = Lock()
    failed: list[bool] = []
    outer = waiting.is_over

    def draw() -> Iterator[T]:
        while not failed:
            if requests:
                _check_wanted(outer)
            with drawing:
                try:
                    item = next(source)
                except StopIteration:
                    return
            yield item

    def run() -> None:
        before = waiting.is_over
        try:
            waiting.is_over = lambda: bool(failed) or outer()
            for item in draw():
                work(item)
        except GaveUp:
            if not failed:
                raise  # if not, the error of the other thread is raised
        finally:
            waiting.is_over = before

    # the calling thread works, too, and does all the work if no thread can be started, as while the interpreter ends
    share(run, threads - 1, _requests() if requests else Pool.named("chunk", threads - 1), failed)
