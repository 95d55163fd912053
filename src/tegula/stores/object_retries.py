"""Retries of requests to object storage, and how many of them are under way at once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from tegula.errors import MetadataError
from tegula.stores.object_failures import Failure

__all__ = ["Limiter", "Retries"]

_RENEWALS: Final = 2  # wrong credentials do not get better
_INTRODUCTIONS: Final = 6  # about five seconds
_LOOK_AGAIN: Final = 1.0  # seconds: an interrupted thread may have taken the notice that was meant for another


@dataclass(frozen=True)
class Retries:
    """How often, and for how long, a request is repeated.

    Parameters
    ----------
    count : int
        How many times.
    budget : float
        For how many seconds after the first attempt.
    first, longest : float
        Seconds to wait before the first repetition, and at most; they double each time.

    Examples
    --------
    >>> Retries(count=0).pause(Failure("transient", ""), 0, 0.0) is None
    True
    """

    count: int = 10
    budget: float = 180.0
    first: float = 0.1
    longest: float = 15.0

    @classmethod
    def of(cls, config: Mapping[str, Any] | None) -> Retries:
        """Return the retries that a ``retry_config`` of obstore asks for; times may be numbers of seconds.

        Raises
        ------
        MetadataError
            If a value can't be used.

        Examples
        --------
        >>> Retries.of({"max_retries": 2, "retry_timeout": 60}).budget
        60.0
        """
        given = config or {}
        try:
            backoff = given.get("backoff") or {}
            return cls(
                int(given.get("max_retries", cls.count)),
                _seconds(given.get("retry_timeout", cls.budget)),
                _seconds(backoff.get("init_backoff", cls.first)),
                _seconds(backoff.get("max_backoff", cls.longest)),
            )
        except (TypeError, ValueError, AttributeError):
            pass  # so that the error below has no cause that repeats the value
        raise MetadataError(
            "retries is a whole number, and retry_timeout a number of seconds; in retry_config they are max_retries, "
            "retry_timeout and backoff, as obstore takes them",
            field="retries",
        )

    def pause(self, failure: Failure, attempts: int, elapsed: float) -> float | None:
        """Return for how many seconds to wait before a request is repeated; ``None`` if it is not.

        Parameters
        ----------
        failure : Failure
            Of the last attempt.
        attempts : int
            How many repetitions there were already.
        elapsed : float
            Seconds since the first attempt.
        """
        passing = ("transient", "throttled", "unreachable")
        most = self.count if failure.kind in passing else min(self.count, _RENEWALS) if failure.kind == "expired" else 0
        if attempts >= most:
            return None
        pause = random.uniform(0.5, 1) * min(self.longest, self.first * 2**attempts)
        return None if elapsed + pause > self.budget else pause

    def introduction(self) -> Retries:
        """Return the retries while no server has answered yet: a wrong address does not get better.

        Examples
        --------
        >>> Retries(count=10).introduction().count, Retries(count=2).introduction().count
        (6, 2)
        """
        return replace(self, count=min(self.count, _INTRODUCTIONS))

    def config(self) -> dict[str, Any]:
        """Return the same as obstore's ``retry_config``."""
        backoff = {
            "init_backoff": timedelta(seconds=self.first),
            "max_backoff": timedelta(seconds=self.longest),
            "base": 2,
        }
        return {"max_retries": self.count, "retry_timeout": timedelta(seconds=self.budget), "backoff": backoff}


def _seconds(value: Any) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


class Limiter:
    """How many requests all threads together have under way: fewer after the server asks for less, then more again.

    Parameters
    ----------
    most : int
        How many there are at most.

    Examples
    --------
    >>> limiter = Limiter(8)
    >>> limiter.halve()
    >>> limiter.allowed
    4
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.renew()

    def renew(self) -> None:
        """Begin anew, with no request under way, as in a forked process."""
        self._allowed = float(self.most)
        self._under_way: dict[object, None] = {}
        self._halved = 0.0
        self._waiting = 0
        self._lock = threading.Lock()
        self._free = threading.Condition(self._lock)

    @property
    def allowed(self) -> int:
        """How many requests may be under way now."""
        return max(1, int(self._allowed))

    def begin(self, request: object) -> None:
        """Wait until one more request may be under way, and count it until `end`."""
        with self._lock:
            while len(self._under_way) + 1 > self._allowed:
                self._waiting += 1
                try:
                    self._free.wait(_LOOK_AGAIN)
                finally:
                    self._waiting -= 1
            self._under_way[request] = None

    def end(self, request: object) -> None:
        """Count a request no longer, if a signal has not come before it was counted."""
        with self._lock:
            self._under_way.pop(request, None)
            if self._waiting:
                self._free.notify()

    def halve(self) -> None:
        """Allow half as many requests, unless that was done a moment ago, for answers to the same burst."""
        now = time.monotonic()
        with self._lock:
            if now - self._halved > 0.1:
                self._halved = now
                self._allowed = max(1.0, self._allowed / 2)

    def grow(self) -> None:
        """Allow a little more, after a request that went well: one more for each round of all that are allowed."""
        if self._allowed < self.most:
            with self._lock:
                self._allowed = min(float(self.most), self._allowed + 1 / max(1.0, self._allowed))
                self._free.notify()
