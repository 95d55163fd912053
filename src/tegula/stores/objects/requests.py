"""Requests to object storage, each sent until it succeeds or the retries are used up."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from tegula.errors import StoreError
from tegula.stores.objects.failures import Failure, failure_of
from tegula.stores.objects.library import StoreHandle
from tegula.stores.objects.retries import Limiter, Retries

__all__ = ["Requests"]

_T = TypeVar("_T")


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
        self.closed_as = ""  # the name of the store, once it is closed
        self.single, self.bulk_handle = single, bulk
        _all_requests.add(self)

    def once(self, action: Callable[[Any, Any], _T]) -> _T | Failure:
        """Send a request once, and return what `action` returns, or the `Failure`.

        Parameters
        ----------
        action : callable
            Takes obstore's module and a store.
        """
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
        """Send a request with retries, and return what `action` returns, or the last `Failure`.

        Parameters
        ----------
        action : callable
            As for `once`.
        attempt : callable, optional
            What to call in place of `once`.
        """
        attempt = self.once if attempt is None else attempt
        begin, attempts = time.monotonic(), 0
        while True:
            answer = attempt(action)
            if not isinstance(answer, Failure):
                return answer
            stranger = answer.kind == "unreachable" and not self.answered
            retries = self.retries.introduction() if stranger else self.retries
            pause = retries.pause(answer, attempts, time.monotonic() - begin)
            if pause is None:
                return answer
            time.sleep(pause)
            attempts += 1

    def bulk(self, action: Callable[[Any, Any], _T]) -> _T | Failure:
        """Carry out an operation of many requests, and return what `action` returns, or the last `Failure`.

        obstore retries each request. The operation is repeated after failures for which obstore does not retry: an
        incomplete answer, one that reports failures of some objects, and refused credentials.
        """
        return self.send(action, self._bulk_once)

    def _bulk_once(self, action: Callable[[Any, Any], _T]) -> _T | Failure:
        if self.closed_as:
            raise self._closed()
        try:
            return action(*self.bulk_handle.made())
        except BaseException as error:  # noqa: BLE001 - as above
            failure = failure_of(error, self.single.name)
        if failure.kind == "expired":
            self.bulk_handle.renew()
        elif failure.kind != "missing" and failure.status is not None:
            failure = failure._replace(kind="fatal")
        return failure

    def _closed(self) -> StoreError:
        return StoreError(f"{self.closed_as} is closed; open it again")


_all_requests: weakref.WeakSet[Requests] = weakref.WeakSet()


def _renew_limiters() -> None:
    for requests in _all_requests:
        requests.limiter.renew()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_limiters)
