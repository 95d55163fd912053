"""Batches: reads that are put off until all of them are known."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from tegula.engine.pool import for_each
from tegula.tensorstore.errors import status
from tegula.tensorstore.future import Caught, Future, Promise, background

__all__ = ["Batch"]

T = TypeVar("T")


class Batch:
    """Reads that begin together: when the batch is submitted, at the end of its ``with`` block, or when it is dropped.

    Until then whoever waits for one of them waits in vain.

    Examples
    --------
    >>> with Batch() as batch:
    ...     future = batch.defer(len, "abc")
    >>> future.result()
    3
    """

    __slots__ = ("__weakref__", "_lock", "_work")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._work: list[Callable[[], None]] | None = []

    def defer(self, function: Callable[..., T], *args: Any) -> Future[T]:
        """Put off a call until the batch is submitted.

        Raises
        ------
        ValueError
            If it has been submitted.
        """
        promise: Promise[T]
        future: Future[T]
        promise, future = Promise.new()

        def run() -> None:
            if not future.done():
                caught = Caught()
                with caught:
                    promise.set_result(function(*args))
                    return
                promise.set_exception(caught.found())

        with self._lock:
            if self._work is None:
                raise status("INVALID_ARGUMENT", "batch was already submitted")
            self._work.append(run)
        return future

    def submit(self) -> None:
        """Begin all reads that were put off; any further one is refused."""
        with self._lock:
            work, self._work = self._work, None
        if work:
            background(_run_all, work)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.submit()

    def __del__(self) -> None:
        with suppress(AttributeError):  # it was never made
            self.submit()


def _run_all(work: list[Callable[[], None]]) -> None:
    for_each(lambda run: run(), work, parallel=True)
