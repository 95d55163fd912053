"""Requests to object storage: how often each is sent, and how many are under way at once."""

from __future__ import annotations

import random
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, TypeVar

from tegula.errors import MetadataError, StoreError
from tegula.runtime.deferred import after_fork
from tegula.stores.objects.failures import Failure, failure_of
from tegula.stores.objects.library import StoreHandle

__all__ = ["Limiter", "Requests", "Retries"]

_T = TypeVar("_T")
_RENEWALS: Final = 2  # repeating does not help if the credentials are wrong
_INTRODUCTIONS: Final = {"unreachable": 6, "refused": 2}  # about five seconds, and less than a third of one
_GROWTH: Final = 4
_MOST: Final = 256  # the most threads that wait for answers
_GAIN: Final = 1.2
_REST: Final = 1.0, 32.0  # seconds: at first, and at most
_REFUSED: Final = 10.0  # seconds
_FOR_EVER: Final = 1e9  # seconds; a timedelta can't be much longer
_LOOK_AGAIN: Final = 1.0  # seconds: an interrupted thread may have received the notification that was meant for another


@dataclass(frozen=True)
class Retries:
    """How often, and for how long, a request is retried.

    Parameters
    ----------
    count : int
        The most retries.
    budget : float
        Seconds after the first attempt in which retries may start.
    first, longest : float
        Seconds to wait before the first retry, and the most seconds to wait; the wait doubles each time.
    """

    count: int = 10
    budget: float = 180.0
    first: float = 0.1
    longest: float = 15.0

    @classmethod
    def of(cls, config: Mapping[str, Any] | None) -> Retries:
        """Return the retries for a ``retry_config`` of obstore; times may be numbers of seconds.

        Raises
        ------
        MetadataError
            If a value can't be used.
        """
        given = config or {}
        try:
            backoff = given.get("backoff") or {}
            count = int(str(given.get("max_retries", cls.count)))  # refuses fractions, which int would round
            seconds = [
                _seconds(given.get("retry_timeout", cls.budget)),
                _seconds(backoff.get("init_backoff", cls.first)),
                _seconds(backoff.get("max_backoff", cls.longest)),
            ]
            if count >= 0 and all(0 <= each < _FOR_EVER for each in seconds):
                return cls(count, *seconds)
        except (TypeError, ValueError, OverflowError, AttributeError):
            pass  # so that the error below has no cause, which would repeat the value
        raise MetadataError(
            "retries must be a whole number and retry_timeout a number of seconds, neither below 0; in retry_config "
            "they are max_retries, retry_timeout and backoff, as obstore takes them",
            field="retries",
        )

    def pause(self, failure: Failure, attempts: int, elapsed: float) -> float | None:
        """Return how many seconds to wait before a request is retried, `elapsed` seconds after it was first sent.

        ``None`` stands for a request that is not retried.
        """
        passing = ("transient", "throttled", "unreachable", "refused")
        most = self.count if failure.kind in passing else min(self.count, _RENEWALS) if failure.kind == "expired" else 0
        if attempts >= most:
            return None
        pause = random.uniform(0.5, 1) * min(self.longest, self.first * 2**attempts)
        return None if elapsed + pause > self.budget else pause

    def wait(self, failure: Failure, attempts: int, begin: float) -> bool:
        """Wait before a request, first sent at `begin`, is retried; return whether it is, as `pause` says."""
        pause = self.pause(failure, attempts, time.monotonic() - begin)
        if pause is not None:
            time.sleep(pause)
        return pause is not None

    def introduction(self, kind: str, *, is_given_up: bool) -> Retries:
        """Return the retries as long as no server has answered, since retries do not help if the address is wrong.

        There are none where an earlier request was given up for that reason.
        """
        most = _INTRODUCTIONS.get(kind, self.count)
        return replace(self, count=min(self.count, 0 if is_given_up and kind in _INTRODUCTIONS else most))

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
    """A limit on the requests of all threads together, raised as long as that helps, and lowered if the server asks.

    While requests wait for their turn, the limiter measures how many are answered per second in a round. It doubles the
    limit, up to `most`, as long as that raises the rate by at least a fifth. If it does not, as on a saturated
    connection, the limit returns to `first` for a second, or for longer if that has happened before.
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
        """Return the limiter that all stores of a bucket in this process with the same `first` share."""
        limiter = _of_buckets.get((bucket, first))
        return limiter or _of_buckets.setdefault((bucket, first), cls(first, min(_GROWTH * first, _MOST)))

    @property
    def allowed(self) -> int:
        """How many requests may be under way now."""
        return max(1, int(self._allowed))

    @property
    def wanted(self) -> int:
        """How many threads should make requests: more than are allowed if more might help, so that some wait."""
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

    def end(self, request: object, seconds: float | None = None) -> None:
        """Stop counting a request, unless a signal came before it was counted, and raise the limit if that helps.

        A request that succeeded took `seconds`. After the server has asked for fewer requests, the limit rises by one
        for each full round.
        """
        with self._lock:
            self._under_way.pop(request, None)
            if self._waiting:
                self._free.notify()
            if seconds is None:
                return
            if self._allowed < self._level:
                self._allowed = min(float(self._level), self._allowed + 1 / max(1.0, self._allowed))
                self._free.notify()
            elif self.first < self.most:
                self._round.number += 1
                self._round.seconds += seconds
                if self._round.number >= self._level:
                    self._end_round()

    def halve(self) -> None:
        """Halve the limit, unless that was done a moment ago for an answer to the same burst of requests."""
        now = time.monotonic()
        with self._lock:
            if now - self._halved > 0.1:
                self._halved, self._rest_until = now, now + _REFUSED
                self._allowed = max(1.0, self._allowed / 2)
                self._level, self._lower_rate = max(self.first, int(self._allowed)), 0.0

    def _end_round(self) -> None:
        """Choose the next limit from the rate of a round."""
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
    """The answers of a round: their number and total seconds, and whether a request has waited for its turn."""

    number: int = 0
    seconds: float = 0.0
    waited: bool = False


_of_buckets: dict[object, Limiter] = {}


class Requests:
    """One obstore store, with retries, and a limit on the requests under way.

    Single requests are retried here, so that fewer are sent if the server asks for it, and a conditional write is
    looked up before it is retried. Operations of many requests (listings, uploads in parts, deletion in bulk) are left
    to obstore, which retries only the requests that failed. Both follow the same `Retries`.
    """

    def __init__(self, single: StoreHandle, bulk: StoreHandle, retries: Retries, limiter: Limiter) -> None:
        self.retries = retries
        self.limiter = limiter
        self.answered = False  # whether a server has ever answered
        self.given_up = False  # whether a request was given up, since no server could be reached
        self.closed_as = ""  # the name of the store, once it is closed
        self.single, self.bulk_handle = single, bulk
        _all_requests.add(self)

    def once(self, action: Callable[[Any, Any], _T]) -> _T | Failure:
        """Send a request once: return what `action` returns for obstore's module and a store, or the `Failure`."""
        if self.closed_as:
            raise self._closed()
        request, seconds = object(), None
        try:
            self.limiter.begin(request)
            begin = time.monotonic()
            answer: _T | Failure = action(*self.single.made())
            seconds = time.monotonic() - begin
        except BaseException as error:  # noqa: BLE001 - obstore's own errors, and those of a credential provider
            answer = failure_of(error, self.single.name)
        finally:
            self.limiter.end(request, seconds)
        self.answered = self.answered or not isinstance(answer, Failure) or answer.status is not None
        if isinstance(answer, Failure):
            if answer.kind == "throttled":
                self.limiter.halve()
            elif answer.kind == "expired":
                self.single.renew()
        return answer

    def send(
        self,
        action: Callable[[Any, Any], _T],
        attempt: Callable[[Callable[[Any, Any], _T]], _T | Failure] | None = None,
    ) -> _T | Failure:
        """Send a request as `once`, or `attempt`, does, with retries; return the result, or the last `Failure`."""
        attempt = self.once if attempt is None else attempt
        begin, attempts = time.monotonic(), 0
        while True:
            answer = attempt(action)
            if not isinstance(answer, Failure):
                return answer
            retries = self.retries
            if not self.answered:
                retries = retries.introduction(answer.kind, is_given_up=self.given_up)
            if not retries.wait(answer, attempts, begin):
                self.given_up = self.given_up or answer.kind in _INTRODUCTIONS
                return answer
            attempts += 1

    def bulk(self, action: Callable[[Any, Any], _T]) -> _T | Failure:
        """Carry out an operation of many requests, and return what `action` returns, or the last `Failure`.

        obstore retries each request, once a server has answered: until then the operation is repeated here, and soon
        given up where no server can be reached. It is also repeated after failures for which obstore does not retry:
        an incomplete answer, one that reports failures of some objects, and refused credentials.
        """
        return self.send(action, self._bulk_once)

    def _bulk_once(self, action: Callable[[Any, Any], _T]) -> _T | Failure:
        if self.closed_as:
            raise self._closed()
        handle = self.bulk_handle if self.answered else self.single
        try:
            answer = action(*handle.made())
        except BaseException as error:  # noqa: BLE001 - as above
            failure = failure_of(error, self.single.name)
        else:
            self.answered = True
            return answer
        self.answered = self.answered or failure.status is not None
        if failure.kind == "expired":
            handle.renew()
        elif handle is self.bulk_handle and failure.kind != "missing" and failure.status is not None:
            failure = failure._replace(kind="fatal")
        return failure

    def _closed(self) -> StoreError:
        return StoreError(f"{self.closed_as} is closed; open it again")


_all_requests: weakref.WeakSet[Requests] = weakref.WeakSet()


@after_fork
def _renew_limiters() -> None:
    for requests in _all_requests:
        requests.limiter.renew()
