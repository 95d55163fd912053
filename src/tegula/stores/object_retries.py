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
_GROWTH: Final = 4
_MOST: Final = 256  # as many threads wait for answers at most
_GAIN: Final = 1.2
_REST: Final = 1.0, 32.0  # seconds: at first, and at most
_REFUSED: Final = 10.0  # seconds
_FOR_EVER: Final = 1e9  # seconds; a timedelta can't be much longer
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
            count = int(str(given.get("max_retries", cls.count)))  # which refuses parts of a number
            seconds = [
                _seconds(given.get("retry_timeout", cls.budget)),
                _seconds(backoff.get("init_backoff", cls.first)),
                _seconds(backoff.get("max_backoff", cls.longest)),
            ]
            if count >= 0 and all(0 <= each < _FOR_EVER for each in seconds):
                return cls(count, *seconds)
        except (TypeError, ValueError, OverflowError, AttributeError):
            pass  # so that the error below has no cause that repeats the value
        raise MetadataError(
            "retries is a whole number, and retry_timeout a number of seconds, neither below 0; in retry_config they "
            "are max_retries, retry_timeout and backoff, as obstore takes them",
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
    """How many requests all threads together have under way: as many as pay off, and fewer if the server asks for it.

    While requests wait for their turn, a round of them shows how many are answered in a second. Twice as many are
    allowed, up to `most`, as long as that raises the rate by a fifth or more: then the time passes waiting for
    answers. Once it does not, as on a saturated line, the number goes back to `first` for a second, or longer if that
    has happened before.

    Parameters
    ----------
    first : int
        How many there are at first.
    most : int, optional
        How many there are at most; as many as `first` if it is not given.

    Examples
    --------
    >>> limiter = Limiter(8)
    >>> limiter.halve()
    >>> limiter.allowed, limiter.wanted
    (4, 8)
    """

    def __init__(self, first: int, most: int = 0) -> None:
        self.first = first
        self.most = max(first, most)
        self.renew()

    def renew(self) -> None:
        """Start again, with no request under way, as in a forked process."""
        self._level = self.first  # the number allowed, unless the server asks for less
        self._allowed = float(self.first)
        self._under_way: dict[object, None] = {}
        self._halved = self._rest_until = 0.0
        self._rest = _REST[0]
        self._waiting = 0
        self._round = _Round()
        self._lower_rate = 0.0  # answers a second at the level below
        self._lock = threading.Lock()
        self._free = threading.Condition(self._lock)

    @classmethod
    def of_bucket(cls, bucket: object, first: int) -> Limiter:
        """Return the limiter that all stores of a bucket in this process share, which begin with this many requests."""
        return _of_buckets.setdefault((bucket, first), cls(first, min(_GROWTH * first, _MOST)))

    @property
    def allowed(self) -> int:
        """How many requests may be under way now."""
        return max(1, int(self._allowed))

    @property
    def wanted(self) -> int:
        """How many threads should ask: more than are allowed where more might pay off, so that some wait."""
        return self.most if time.monotonic() >= self._rest_until else self._level

    def begin(self, request: object) -> None:
        """Wait until one more request may be under way, and count it until `end`."""
        with self._lock:
            while len(self._under_way) + 1 > self._allowed:
                self._round.waited = True
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
                self._halved, self._rest_until = now, now + _REFUSED
                self._allowed = max(1.0, self._allowed / 2)
                self._level, self._lower_rate = max(self.first, int(self._allowed)), 0.0

    def answered(self, seconds: float) -> None:
        """Allow more where that pays off, after a request that has taken so long and went well.

        After the server has asked for fewer it is one more for each round of all that are allowed.
        """
        with self._lock:
            if self._allowed < self._level:
                self._allowed = min(float(self._level), self._allowed + 1 / max(1.0, self._allowed))
                self._free.notify()
            elif self.first < self.most:
                self._round.number += 1
                self._round.seconds += seconds
                if self._round.number >= self._level:
                    self._end_round()

    def _end_round(self) -> None:
        """Choose the next level by the rate of a round."""
        ended, self._round = self._round, _Round()
        now = time.monotonic()
        rate = self._level * ended.number / max(ended.seconds, 1e-9)
        if self._level > self.first and rate < _GAIN * self._lower_rate:
            self._level, self._rest_until = self.first, now + self._rest
            self._rest = min(2 * self._rest, _REST[1])
        elif ended.waited and self._level < self.most and now >= self._rest_until:
            if self._level > self.first:
                self._rest = _REST[0]
            self._lower_rate = rate
            self._level = min(2 * self._level, self.most)
        self._allowed = float(self._level)
        self._free.notify_all()


@dataclass(slots=True)
class _Round:
    """Answers: how many, the seconds that they have taken in all, and whether a request has waited for its turn."""

    number: int = 0
    seconds: float = 0.0
    waited: bool = False


_of_buckets: dict[object, Limiter] = {}
