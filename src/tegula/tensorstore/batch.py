"""Batches: reads that are put off until all of them are known."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from tegula.engine.pool import for_each
from tegula.tensorstore.errors import status, type_error
from tegula.tensorstore.future import Future, background, deferred, immediate
from tegula.tensorstore.resumable import Operation, alone

__all__ = ["Batch", "checked_batch"]

T = TypeVar("T")


class Batch:
    """Reads that begin together: when the batch is submitted, at the end of its ``with`` block, or when it is dropped.

    Until then none of their futures is ready.

    Examples
    --------
    >>> with Batch() as batch:
    ...     future = batch.defer(len, "abc")
    >>> future.result()
    3
    """

    __slots__ = ("__weakref__", "_begun", "_lock", "_work")

    def __init__(self) -> None:
        self._begun = False
        self._lock = threading.Lock()
        self._work: list[Callable[[], None]] | None = []

    def defer(self, function: Callable[..., T], *args: Any) -> Future[T]:
        """Put off a call until the batch is submitted.

        Raises
        ------
        ValueError
            If it has been submitted.
        """
        if self._begun:
            return immediate(alone, function, *args)
        future, run = deferred(Operation(_begun()), function, *args)
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


def _begun() -> Batch:
    """Return the batch that functions see which are called when it was submitted: it puts nothing off any more."""
    batch = Batch()
    batch._begun = True
    return batch


def checked_batch(batch: Any) -> Batch:
    """Return a batch; raises TypeError for anything else."""
    if not isinstance(batch, Batch):
        raise type_error("Invalid batch")
    return batch


def _run_all(work: list[Callable[[], None]]) -> None:
    for_each(lambda run: run(), work, parallel=True)
