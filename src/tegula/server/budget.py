"""Limits for requests: on the threads that work for them, and on the bytes of memory that they hold."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, TypeVar

__all__ = ["Budget", "BusyError"]

T = TypeVar("T")
_PATIENCE: Final = 30.0  # seconds that a request waits for its turn


class BusyError(Exception):
    """A request that could not be served in time, since others hold all the memory."""


class Budget:
    """Bytes of memory that requests hold together; requests beyond the limit wait in the order of their arrival.

    A request for more than the limit proceeds alone. A budget belongs to one event loop.

    Parameters
    ----------
    limit : int
        Maximum number of bytes.

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
        """Wait until there is room for `nbytes`.

        Raises
        ------
        BusyError
            If there is no room for half a minute.
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
        """Release bytes that were acquired."""
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
