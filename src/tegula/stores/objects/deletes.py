"""Conditional deletion of S3 objects, which obstore lacks, by a request with a signed URL and ``If-Match``.

It is used only for endpoints that have passed a test (`deletes_on_condition`), since some services ignore the condition
and delete. Python's own HTTP client sends the requests, without obstore's settings for proxies and certificates; if
there are such settings, nothing is deleted on condition.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from http import HTTPStatus
from importlib import import_module
from typing import Any, Final

from tegula.errors import ConflictError
from tegula.stores.arguments import ABSENT, Generation
from tegula.stores.objects.failures import Failure, failure_of
from tegula.stores.objects.generations import ObjectGeneration
from tegula.stores.objects.library import StoreHandle
from tegula.stores.objects.reading import ObjectReader
from tegula.stores.objects.requests import Requests

__all__ = ["can_be_sent", "delete_if", "deletes_on_condition"]

_SIGNED_FOR: Final = timedelta(minutes=5)
_SECONDS: Final = 30.0  # time limit of one request, as by default in obstore
_NEEDLESS: Final = frozenset({"allow_http", "timeout", "connect_timeout", "read_timeout", "user_agent"})
"""Options of obstore's client that do not affect whether a server can be reached."""


def can_be_sent(handle: StoreHandle) -> bool:
    """Return whether requests of this module reach the storage as obstore's requests do."""
    if handle.name != "S3Store" or handle.settings is None:
        return False
    import_module("urllib.request")  # not in a thread, since another thread may fork during the import
    return not {*(handle.settings[1].get("client_options") or {})} - _NEEDLESS


def delete_if(reader: ObjectReader, key: str, before: Generation) -> Failure | None:
    """Delete the value of a key on condition that its state is still `before`.

    If an answer was lost, a missing value counts as deleted and another value as a conflict, even if that was stored
    after this deletion took place.

    Returns
    -------
    Failure or None
        The failure that kept the value from being deleted, if any.

    Raises
    ------
    ConflictError
        If the state is another one.
    """
    if not isinstance(before, ObjectGeneration):
        now = reader.read(key, (0, 0))
        if isinstance(now, Failure):
            return now
        if before != ABSENT or now[1] != ABSENT:
            raise _changed(key)
        return None
    if before.superseded or before.e_tag is None:
        raise _changed(key)
    request = _request(reader.path_of(key), before.e_tag)
    begin, attempts, unclear = time.monotonic(), 0, False
    while True:
        answer = reader.requests.once(request)
        if answer is None or (answer.kind == "missing" and unclear):
            return None
        if answer.kind in ("conflict", "missing"):
            raise _changed(key)
        unclear = unclear or not answer.final
        pause = reader.requests.retries.pause(answer, attempts, time.monotonic() - begin)
        if pause is None:
            return answer
        time.sleep(pause)
        attempts += 1


def _changed(key: str) -> ConflictError:
    return ConflictError("the value has changed since it was read", key=key)


def deletes_on_condition(requests: Requests, path: str, old: str, present: str) -> bool:
    """Test conditional deletion on an object that nothing else uses, and return whether it works.

    It works if an outdated condition is refused, the present one is not, and deleting a missing object is refused.

    Parameters
    ----------
    requests : Requests
        Sends the requests.
    path : str
        The name of the object, which may be deleted afterwards.
    old, present : str
        Its former and its present ETag.
    """

    def tag() -> str | None:
        answer = requests.send(lambda library, store: library.head(store, path)["e_tag"])
        return answer.kind if isinstance(answer, Failure) else answer

    def refused(e_tag: str) -> bool:
        answer = requests.send(_request(path, e_tag))
        return answer is not None and answer.kind in ("conflict", "missing")

    if not refused(old) or tag() != present:
        return False
    requests.send(_request(path, present))  # the answer is not reliable if the request was sent twice
    return tag() == "missing" and refused(present)


def _request(path: str, e_tag: str) -> Callable[[Any, Any], Failure | None]:
    """Return the request that deletes an object if it has an ETag, for `Requests.once`."""

    def send(library: Any, store: Any) -> Failure | None:
        return _sent(library.sign(store, "DELETE", path, _SIGNED_FOR), e_tag)

    return send


def _sent(url: str, e_tag: str) -> Failure | None:
    """Send the request and return the failure if there was one; the URL is secret and must not appear in a message."""
    client, errors = import_module("urllib.request"), import_module("urllib.error")
    try:
        with client.urlopen(client.Request(url, method="DELETE", headers={"If-Match": e_tag}), timeout=_SECONDS):
            return None
    except errors.HTTPError as error:
        with error:
            status, body = error.code, error.read(4096).decode(errors="replace")
    except (OSError, import_module("http.client").HTTPException, ValueError) as error:
        refused = isinstance(getattr(error, "reason", error), ConnectionRefusedError)
        return Failure("unreachable", "the connection was refused") if refused else _LOST
    found = failure_of(OSError(f"Server returned non-2xx status code: {status}: {body}"), "S3Store")
    if found.status == HTTPStatus.NOT_FOUND:
        return found._replace(kind="missing")
    if found.status == HTTPStatus.PRECONDITION_FAILED:
        return found._replace(kind="conflict")
    return found._replace(kind="transient") if found.status == HTTPStatus.CONFLICT else found


_LOST: Final = Failure("transient", "the connection failed")
