"""Thread pools: one for the chunks of an operation, one for operations that run in the background."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Final, TypeVar

from tegula import config
from tegula.codecs import CodecChain
from tegula.codecs.sharding import InnerChain
from tegula.stores.open_files import GaveUp, end_waiting, waiting_is_over

__all__ = ["for_each", "in_background"]

T = TypeVar("T")
_REQUESTS: Final = 256  # most threads that wait for stores
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


def in_background(run: Callable[[], object]) -> None:
    """Call a function on the pool on which `Array.read` and `Array.write` run.

    Where no thread can be started, as while the interpreter ends, it is called before this returns.
    """
    not_run = threading.Lock()

    def once() -> None:
        if not_run.acquire(blocking=False):
            run()

    try:
        _pool("operation", max(4, config.current().threads)).submit(once)
    except RuntimeError:  # it may still have been queued for a busy thread
        once()


def for_each(
    work: Callable[[T], None],
    items: Iterable[T],
    parallel: bool,
    chains: Iterable[CodecChain | InnerChain] = (),
    requests: int = 0,
) -> None:
    """Call `work` on each item; in parallel, the calling thread and those of the pool take items from one iterator.

    These are as many as the setting ``threads`` says, or `requests` where items mostly wait for a store.

    The codecs of `chains` are imported before, so that no thread of the pool imports anything. After the first
    exception no further item is taken, and it is raised when the running calls have ended.
    """
    threads = min(requests, _REQUESTS) or config.current().threads
    if not parallel or threads == 1:
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
    helpers: list[Future[None]] = []
    with suppress(RuntimeError):
        pool = _pool("request", _REQUESTS) if requests else _pool("chunk", threads - 1)
        helpers += [pool.submit(run) for _ in range(threads - 1)]
    try:
        run()
    finally:
        # a helper that has not started yet would find no item left, so it is cancelled
        done, _ = wait([helper for helper in helpers if not helper.cancel()], return_when=FIRST_EXCEPTION)
        wait([helper for helper in helpers if not helper.cancelled()])
    for helper in done:
        helper.result()
