"""How long rows are waited for that may not have been written yet."""

from __future__ import annotations

import time
from math import inf
from typing import Final

__all__ = ["Patience"]

_MOST: Final = 1024  # moments that are remembered
_SHARE: Final = 4


class Patience:
    """Says from when on a row is taken as it reads.

    Time counts only while somebody waits. Between `resume` and the look before it, other rows were made use of, and a
    process that was stopped for an hour has waited for a moment, since a writer on the same machine may have been
    stopped, too: each look counts for no more than the wait before it and a quarter of all patience.

    Parameters
    ----------
    seconds : float
        How long a row is waited for, after it was first seen and after the last sign that earlier rows are being
        written.

    Examples
    --------
    >>> patience = Patience(0.0)
    >>> patience.see(5)
    >>> patience.settled(), patience.left(4)
    (5, 0.0)
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.elapsed = 0.0
        self.complete = 0
        """Rows that one writer has completed or given up, since it has begun another append."""
        self._last = time.monotonic()
        self._seen: list[tuple[int, float]] = []  # lengths, and when they were first seen; both grow
        self._progress = -inf

    def resume(self) -> None:
        """Begin to wait: what has passed since the last look does not count."""
        self._last = time.monotonic()

    def tick(self, planned: float) -> None:
        """Let the time pass that was planned to be waited."""
        now = time.monotonic()
        self.elapsed += max(0.0, min(now - self._last, planned + min(self.seconds, 60.0) / _SHARE))
        self._last = now

    def see(self, length: int) -> None:
        """Note the present length of the array."""
        while self._seen and self._seen[-1][0] > length:  # the rows beyond are other ones if they come again
            self._seen.pop()
        known = self._seen[-1][0] if self._seen else 0
        self.complete = min(self.complete, length)
        if length > known:
            self.complete = known
            self._seen.append((length, self.elapsed))
            if len(self._seen) > _MOST:  # each length is taken to be seen when the next one was
                self._seen = self._seen[(len(self._seen) + 1) % 2 :: 2]

    def progress(self) -> None:
        """Note that rows which were waited for have been written."""
        self._progress = self.elapsed

    def settled(self) -> int:
        """Return the number of rows that have been waited for long enough."""
        if self.elapsed - self._progress < self.seconds:
            return 0
        return max((length for length, seen in self._seen if self.elapsed - seen >= self.seconds), default=0)

    def length_at(self, row: int) -> int:
        """Return the length that was first seen to include a row."""
        return next((length for length, _ in self._seen if length > row), row)

    def left(self, row: int) -> float:
        """Return for how many seconds a row is still waited for."""
        seen = next((seen for length, seen in self._seen if length > row), self.elapsed)
        return max(0.0, self.seconds - (self.elapsed - max(seen, self._progress)))
