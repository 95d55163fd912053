"""Requests to object storage: each is sent until it succeeds or is given up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tegula.stores.object_failures import Failure, failure_of
from tegula.stores.object_library import StoreHandle, kind_of, obstore
from tegula.stores.object_retries import Limiter, Retries

__all__ = ["Requests", "ShortBody"]


class ShortBody(Exception):
    """An answer that is shorter than announced."""


class Requests:
    """One obstore store, with retries and a limit to the requests under way.

    Single requests are repeated here, where a server that asks for fewer requests is heard, and where a conditional
    write can be looked after before it is repeated. Operations of many requests (listings, uploads in parts, deletion
    in bulk) are left to obstore, which repeats only those of them that failed.
    """

    def __init__(self, store: Any, retries: Retries, concurrency: int) -> None:
        self.kind = kind_of(store)
        self.retries = retries
        self.limiter = Limiter(concurrency)
        self._single = StoreHandle(store, retries.none())
        self._bulk = StoreHandle(store, retries.config())

    def settings(self) -> tuple[str, Any]:
        """Return the name of the obstore store's class, and its settings, ``None`` if it is a store in memory."""
        return self._single.name, self._single.settings

    def once(self, action: Callable[[Any, Any], Any]) -> Any:
        """Send a request once, and return what `action` returns, or the `Failure`."""
        with self.limiter.slot():
            try:
                answer = action(obstore(), self._single.get())
            except ShortBody:
                answer = Failure("transient", "the answer is shorter than announced")
            except Exception as error:  # noqa: BLE001 - obstore's own errors, and those of the credential provider
                answer = failure_of(error)
        if not isinstance(answer, Failure):
            self.limiter.grow()
        elif answer.kind == "throttled":
            self.limiter.halve()
        return answer

    def send(self, action: Callable[[Any, Any], Any]) -> Any:
        """Send a request until it succeeds or is given up, and return what `action` returns, or the last `Failure`.

        Parameters
        ----------
        action : callable
            Takes obstore's module and a store of it.
        """
        begin, attempts = time.monotonic(), 0
        while True:
            answer = self.once(action)
            if not isinstance(answer, Failure):
                return answer
            pause = self.retries.pause(answer, attempts, time.monotonic() - begin)
            if pause is None:
                return answer
            time.sleep(pause)
            attempts += 1

    def bulk(self, action: Callable[[Any, Any], Any]) -> Any:
        """Do what takes many requests, and return what `action` returns, or the `Failure`."""
        try:
            return action(obstore(), self._bulk.get())
        except Exception as error:  # noqa: BLE001 - obstore's own errors, and those of the credential provider
            return failure_of(error)
