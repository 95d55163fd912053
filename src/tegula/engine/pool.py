"""Threads: one small pool for the chunks of an operation, one for operations that run in the background."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TypeVar

from tegula import config

__all__ = ["background", "for_each"]

T = TypeVar("T")
_lock = threading.Lock()
_pools: dict[str, tuple[int, ThreadPoolExecutor]] = {}


def _forget_pools() -> None:
    """After a fork the child has no threads: it starts pools of its own when it needs them."""
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


def background() -> ThreadPoolExecutor:
    """Return the pool on which `Array.read` and `Array.write` run."""
    return _pool("operation", max(4, config.current().threads))


def for_each(work: Callable[[T], None], items: Iterable[T], parallel: bool) -> None:
    """Call `work` on each item; in parallel, the calling thread and the pool's draw them from one iterator.

    The first exception stops the drawing and is raised when the calls under way have ended.
    """
    threads = config.current().threads
    if not parallel or threads == 1:
        for item in items:
            work(item)
        return
    source = iter(items)
    drawing = threading.Lock()
    failed = threading.Event()

    def draw() -> Iterator[T]:
        while not failed.is_set():
            with drawing:
                try:
                    item = next(source)
                except StopIteration:
                    return
            yield item

    def run() -> None:
        try:
            for item in draw():
                work(item)
        except BaseException:
            failed.set()
            raise

    helpers: list[Future[None]] = []
    with suppress(RuntimeError):  # no threads are to be had while the interpreter ends; the calling one does it all
        helpers += [_pool("chunk", threads - 1).submit(run) for _ in range(threads - 1)]
    try:
        run()
    finally:
        # a helper that has not started yet finds nothing left to draw, so it is taken back
        done, _ = wait([helper for helper in helpers if not helper.cancel()], return_when=FIRST_EXCEPTION)
        wait([helper for helper in helpers if not helper.cancelled()])
    for helper in done:
        helper.result()
