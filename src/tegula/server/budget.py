"""Bounds on what requests take: threads that work for them, and bytes of memory that they hold."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from tegula.engine.pool import in_background

__all__ = ["Budget", "BusyError", "run"]

T = TypeVar("T")
_PATIENCE: Final = 30.0  # seconds that a request waits for its turn


class BusyError(Exception):
    """A request that could not be served in time, since others take all the memory."""


class Budget:
    """Bytes of memory that requests hold together; requests for more wait, in the order in which they came.

    One for more than the limit goes ahead alone. It belongs to one event loop.

    Parameters
    ----------
    limit : int
        The most bytes.

    Examples
    --------
    >>> async def main():
    ...     budget = Budget(10)
    ...     await budget.acquire(8)
    ...     budget.release(8)
    ...     return budget.held
    >>> asyncio.run(main())
    0
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def acquire(self, nbytes: int) -> None:
        """Wait until there is room for so many bytes.

        Raises
        ------
        BusyError
            If there is none for half a minute.
        """
        if not self._waiting and self._fits(nbytes):
            self.held += nbytes
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((nbytes, turn))
        try:
            async with asyncio.timeout(_PATIENCE):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.release(nbytes)  # the turn came in the same moment
            else:
                turn.cancel()
                self._wake()
            if isinstance(error, TimeoutError):
                raise BusyError from error
            raise

    def release(self, nbytes: int) -> None:
        """Give back room."""
        self.held -= nbytes
        self._wake()

    def _fits(self, nbytes: int) -> bool:
        return not self.held or self.held + nbytes <= self.limit

    def _wake(self) -> None:
        while self._waiting:
            nbytes, turn = self._waiting[0]
            if turn.cancelled():
                self._waiting.popleft()
            elif self._fits(nbytes):
                self._waiting.popleft()
                self.held += nbytes
                turn.set_result(None)
            else:
                return


async def run(work: Callable[[], T], requests: int = 0) -> T:
    """Call a function in a thread and return its result; `requests` is the `concurrency` of the store it waits for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def call() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - raised again by the coroutine
            # a StopIteration can't be raised into a future
            error = RuntimeError("the iterator has ended") if isinstance(raised, StopIteration) else raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    in_background(call, requests)
    return await done
