"""Conditional writes to object storage; each happens once or not at all, even if answers are lost."""

from __future__ import annotations

import time
from typing import Any, TypeAlias

from tegula.errors import ConflictError
from tegula.stores.arguments import ABSENT, Generation
from tegula.stores.objects.failures import Failure
from tegula.stores.objects.generations import (
    ObjectGeneration,
    attributes_of,
    generation_from,
    new_write,
    position,
    reaches_back,
)
from tegula.stores.objects.reading import ObjectReader

__all__ = ["put_if", "put_if_alone"]

_Value: TypeAlias = memoryview | bytes


def put_if(
    reader: ObjectReader, key: str, value: _Value, before: Generation, *, metadata: bool
) -> ObjectGeneration | Failure:
    """Store a value on condition that the state of its key is still `before`, and return the new generation.

    A write that fails or is refused may have happened nevertheless. So the history of the object is read; only if it
    does not have this write, and the state is still `before`, the write is repeated.

    Parameters
    ----------
    reader : ObjectReader
        The store.
    key : str
        A valid key.
    value : bytes or memoryview
        The value to store.
    before : Generation
        The condition.
    metadata : bool
        Whether objects keep metadata. If not, a state with the same bytes counts as the result of this write if one of
        its answers was lost.

    Returns
    -------
    ObjectGeneration or Failure
        The generation, or the failure that kept the value from being written.

    Raises
    ------
    ConflictError
        If the state is another one, or changes during the write.
    """
    write, history = new_write(before)
    options: dict[str, Any] = {"mode": "create" if before == ABSENT else before.condition()}  # type: ignore[attr-defined]
    if metadata:
        options["attributes"] = attributes_of(history)
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
            found = _look(reader, key, value if unclear and not metadata else None)
            if isinstance(found, Failure):
                return found
            now, same = found
            later = position(write, now.history) if isinstance(now, ObjectGeneration) else None
            if isinstance(now, ObjectGeneration) and (later == 0 or (same and now != before)):
                return now
            if isinstance(now, ObjectGeneration) and later is not None:
                return now.followed()
            if unclear and isinstance(now, ObjectGeneration) and not reaches_back(now.history, before):
                return Failure(
                    "fatal",
                    f"{answer.reason}, and other writers have changed the value too often since "
                    "to tell whether this write took place",
                )
            if now != before:
                raise ConflictError("the value has changed since it was read", key=key)
        # it has not happened: repeat it; a service also refuses a write during another write to the same key
        again = answer._replace(kind="transient") if answer.kind in ("conflict", "missing") else answer
        pause = reader.requests.retries.pause(again, attempts, time.monotonic() - begin)
        if pause is None:
            return answer
        time.sleep(pause)
        attempts += 1


def _look(reader: ObjectReader, key: str, value: _Value | None) -> tuple[Generation, bool] | Failure:
    """Return the generation of a key, and whether its value is `value`, if one is given."""
    answer = reader.read(key, (0, 0) if value is None else None)
    if isinstance(answer, Failure):
        return answer
    found, generation = answer
    return generation, value is not None and found == bytes(value)


def put_if_alone(reader: ObjectReader, key: str, value: _Value, before: Generation) -> ObjectGeneration | Failure:
    """Store a value if the state of its key is `before`, in a service without conditional writes.

    The caller holds a lock that keeps other threads from writing to the key.

    Raises
    ------
    ConflictError
        If the state is another one.
    """
    now = _look(reader, key, None)
    if isinstance(now, Failure):
        return now
    if now[0] != before:
        raise ConflictError("the value has changed since it was read", key=key)
    path = reader.path_of(key)
    answer = reader.requests.send(lambda library, store: library.put(store, path, value, use_multipart=False))
    return answer if isinstance(answer, Failure) else generation_from(reader.kind, answer)
