"""Batches: operations that are delayed and then started together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tegula.engine.concurrency.finalisers import call_apart
from tegula.engine.concurrency.pool import for_each
from tegula.tensorstore.errors import invalid, type_error
from tegula.tensorstore.future import Future, Operation, alone, background, deferred, immediate

__all__ = ["Batch", "checked_batch"]

T = TypeVar("T")


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
            return immediate(alone, function, *args)
        future, run = deferred(Operation(_begun()), function, *args)
        with self._lock:
            if self._work is None:
                raise invalid("batch was already submitted")
            self._work.append(run)
            self._requests = max(self._requests, requests)
        return future

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


def checked_batch(batch: Any) -> Batch:
    """Return `batch`; raise TypeError if it is not a `Batch`."""
    if not isinstance(batch, Batch):
        raise type_error("Invalid batch")
    return batch
