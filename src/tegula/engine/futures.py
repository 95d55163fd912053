"""The answer of an operation that runs in the background: wait for it, or await it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tegula.engine.pool import background

if TYPE_CHECKING:
    from concurrent import futures

__all__ = ["Future", "start"]

T = TypeVar("T")


class Future(Generic[T]):
    """What `Array.read` and `Array.write` return.

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
            Seconds to wait at most.

        Raises
        ------
        TimeoutError
            If the operation has not ended by then; it goes on.
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

    def __repr__(self) -> str:
        return f"<tegula.Future {'done' if self.done() else 'running'}>"


def start(function: Callable[..., T], *args: Any) -> Future[T]:
    """Run a function in the background."""
    return Future(background().submit(function, *args))
