"""Conditional writes and deletions of objects; a write happens once or not at all, even if answers are lost.

obstore lacks conditional deletion. S3 has it, so a URL that obstore signs is requested with ``If-Match``. This is used
only for endpoints that have passed a test (`deletes_on_condition`), since some services ignore the condition and
delete. Python's own HTTP client sends these requests, without obstore's settings for proxies and certificates; if there
are such settings, nothing is deleted on condition.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from importlib import import_module
from typing import Any, Final, TypeAlias

from tegula.stores.arguments import ABSENT, Generation, changed, check_generation
from tegula.stores.objects.failures import Failure, failure_of_answer
from tegula.stores.objects.generations import (
    ATTRIBUTE,
    ObjectGeneration,
    generation_from,
    new_write,
    position,
    reaches_back,
)
from tegula.stores.objects.library import StoreHandle
from tegula.stores.objects.reading import ObjectReader
from tegula.stores.objects.requests import Requests

__all__ = ["can_be_sent", "delete_if", "deletes_on_condition", "put_if", "put_if_alone"]

_Value: TypeAlias = memoryview | bytes
_SIGNED_FOR: Final = timedelta(minutes=5)
_SECONDS: Final = 30.0  # time limit of one request, as by default in obstore
_NEEDLESS: Final = frozenset({"allow_http", "timeout", "connect_timeout", "read_timeout", "user_agent"})
"""Options of obstore's client that do not affect whether a server can be reached."""


def put_if(
    reader: ObjectReader, key: str, value: _Value, before: Generation, *, metadata: bool
) -> ObjectGeneration | Failure:
    """Store a value on condition that the state of its key is still `before`, and return the new generation.

    A write that fails or is refused may have happened nevertheless. So the history of the object is read; only if it
    does not have this write, and the state is still `before`, the write is repeated. Without `metadata`, objects keep
    no history; then a state with the same bytes counts as the result of this write if one of its answers was lost.

    Raises
    ------
    ConflictError
        If the state is another one, or changes during the write.
    """
    write, history = new_write(before)
    options: dict[str, Any] = {"mode": "create" if before == ABSENT else before.condition()}  # type: ignore[attr-defined]
    if metadata:
        options["attributes"] = {ATTRIBUTE: history}
    path = reader.path_of(key)
    begin, attempts, unclear = time.monotonic(), 0, False
    while True:
        answer = reader.requests.once(lambda library, store: library.put(store, path, value, **options))
        if not isinstance(answer, Failure):
            return generation_from(reader.kind, answer, history)
        if answer.kind == "missing" and before == ABSENT:
            return answer  # the bucket does not exist
        if not answer.final:
            # the write may have happened: look for it
            unclear = unclear or answer.kind not in ("conflict", "missing")
            state = _look(reader, key, value if unclear and not metadata else None)
            if isinstance(state, Failure):
                return state
            now, same = state
            later = position(write, now.history) if isinstance(now, ObjectGeneration) else None
            if isinstance(now, ObjectGeneration) and (later == 0 or (same and now != before)):
                return now
            if isinstance(now, ObjectGeneration) and later is not None:
                return replace(now, superseded=True)
            if unclear and isinstance(now, ObjectGeneration) and not reaches_back(now.history, before):
                return Failure(
                    "fatal",
                    f"{answer.reason}, and other writers have changed the value too often since "
                    "to tell whether this write took place",
                )
            if now != before:
                raise changed(key)
        # it has not happened: repeat it; a service also refuses a write during another write to the same key
        again = answer._replace(kind="transient") if answer.kind in ("conflict", "missing") else answer
        if not reader.requests.retries.wait(again, attempts, begin):
            return answer
        attempts += 1


def _look(reader: ObjectReader, key: str, value: _Value | None) -> tuple[Generation, bool] | Failure:
    """Return the generation of a key, and whether its value is `value`, if one is given."""
    answer = reader.read(key, (0, 0) if value is None else None)
    if isinstance(answer, Failure):
        return answer
    stored, generation = answer
    return generation, value is not None and stored == bytes(value)


def put_if_alone(reader: ObjectReader, key: str, value: _Value, before: Generation) -> ObjectGeneration | Failure:
    """Do the same in a service without conditional writes, under a lock of the caller that keeps other threads out."""
    now = _look(reader, key, None)
    if isinstance(now, Failure):
        return now
    check_generation(key, now[0], before)
    path = reader.path_of(key)
    answer = reader.requests.send(lambda library, store: library.put(store, path, value, use_multipart=False))
    return answer if isinstance(answer, Failure) else generation_from(reader.kind, answer)


def can_be_sent(handle: StoreHandle) -> bool:
    """Return whether requests of this module reach the storage as obstore's requests do."""
    if handle.name != "S3Store" or handle.settings is None:
        return False
    import_module("urllib.request")  # not in a thread, since another thread may fork during the import
    return not {*(handle.settings[1].get("client_options") or {})} - _NEEDLESS


def delete_if(reader: ObjectReader, key: str, before: Generation) -> Failure | None:
    """Delete the value of a key on condition that its state is still `before`.

    If an answer was lost, a missing value counts as deleted and another value as a conflict, even if that was stored
    after this deletion took place. Returns the failure that kept the value from being deleted, if any.

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
            raise changed(key)
        return None
    if before.superseded or before.e_tag is None:
        raise changed(key)
    request = _request(reader.path_of(key), before.e_tag)
    begin, attempts, unclear = time.monotonic(), 0, False
    while True:
        answer = reader.requests.once(request)
        if answer is None or (answer.kind == "missing" and unclear):
            return None
        if answer.kind in ("conflict", "missing"):
            raise changed(key)
        unclear = unclear or not answer.final
        if not reader.requests.retries.wait(answer, attempts, begin):
            return answer
        attempts += 1


def deletes_on_condition(requests: Requests, path: str, old: str, present: str) -> bool:
    """Test conditional deletion on an object that nothing else uses, and return whether it works.

    It works if an outdated condition is refused, the present one is not, and deleting a missing object is refused.
    `old` and `present` are the former and the present ETag of the object, which may be deleted afterwards.
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
        if isinstance(getattr(error, "reason", error), ConnectionRefusedError):
            return Failure("refused", "the connection was refused")
        return Failure("transient", "the connection failed")
    failure = failure_of_answer(status, "S3Store", body)
    return failure._replace(kind="transient") if failure.status == HTTPStatus.CONFLICT else failure
