"""Limits for requests: on the threads that work for them, and on the bytes of memory that they hold."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from tegula.engine.concurrency.pool import in_background

__all__ = ["Budget", "BusyError", "TooLargeError"]

_PATIENCE: Final = 30.0  # seconds that a request waits for its turn
_IDLE_SECONDS: Final = 0.25  # after which the memory of ended requests is released


class BusyError(Exception):
    """A request that could not be served in time, since others hold all the memory."""


class TooLargeError(Exception):
    """A request that takes more memory than any request may."""


class Budget:
    """Bytes of memory that requests hold together; requests beyond the limit wait in the order of their arrival.

    A request for more than the limit proceeds alone. A budget belongs to one event loop.

    Parameters
    ----------
    limit : int
        Maximum number of bytes that requests hold together.
    most : int, optional
        Maximum number of bytes of one request; by default there is none.
    tidy : callable, optional
        Called in a thread a moment after the last request, or a very large one, has released its bytes.

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

    def __init__(self, limit: int, most: int | None = None, tidy: Callable[[], object] | None = None) -> None:
        self.limit = limit
        self.most = most
        self.held = 0
        self._tidy = tidy
        self._tidying: asyncio.TimerHandle | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def acquire(self, nbytes: int) -> None:
        """Wait until there is room for `nbytes`.

        Raises
        ------
        TooLargeError
            If there will never be room.
        BusyError
            If there is no room for half a minute.
        """
        if self.most is not None and nbytes > self.most:
            raise TooLargeError(
                f"this takes {nbytes} bytes of memory at once, and a request may take {self.most}: chunks are decoded "
                "as a whole; as they are stored, they can be requested by their keys"
            )
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
        """Release bytes that were acquired."""
        self.held -= nbytes
        self._wake()
        if self._tidy is not None and self._tidying is None and nbytes and (not self.held or nbytes > self.limit):
            self._tidying = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._release_memory, self._tidy)

    @asynccontextmanager
    async def turn(self, nbytes: int) -> AsyncIterator[None]:
        """Hold `nbytes` while the context lasts; raises as `acquire` does."""
        await self.acquire(nbytes)
        try:
            yield
        finally:
            self.release(nbytes)

    def _release_memory(self, tidy: Callable[[], object]) -> None:
        self._tidying = None
        in_background(tidy)

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
