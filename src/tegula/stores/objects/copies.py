"""Copies within a bucket, made by the service itself.

A copy that must not replace an object is a conditional write. Google Cloud Storage and Azure support the condition when
they copy; on S3 it is checked at the end of a multipart upload whose only part is the old object. Some S3-compatible
services ignore the condition there, and some store an empty object instead of a copy. So an endpoint that a user
configures is tested once per process, as for other conditional writes.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tegula.errors import ConflictError
from tegula.stores.arguments import ABSENT
from tegula.stores.objects.failures import Failure
from tegula.stores.objects.library import Settings, StoreHandle, make_store

if TYPE_CHECKING:
    from tegula.stores.objects.reading import ObjectReader

__all__ = ["Bucket", "copy_object"]

_BUCKETS: Final = ("s3", "gs", "az")
_ON_CONDITION: Final = {"copy_if_not_exists": "multipart"}
"""The setting of S3 with which obstore copies on condition."""


class Copies(NamedTuple):
    """Findings about copies within a bucket.

    Attributes
    ----------
    plain : bool
        Whether the service copies objects at all.
    create : bool
        Whether it refuses to replace an object if the request says so.
    """

    plain: bool
    create: bool


_SOUND: Final = Copies(plain=True, create=True)
_found: dict[object, Copies] = {}
_lock = threading.Lock()


def _forget_lock() -> None:
    """In a forked child, make a new lock, since the parent's thread that may hold it does not exist here."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_lock)


class Bucket:
    """The bucket of an object store, whose objects are addressed by their full names.

    Attributes
    ----------
    settings : object
        Equal for stores over one bucket that access it in the same way; ``None`` if nothing can be copied.
    prefix : str
        Prefix of the names of the store's objects in the bucket.
    """

    def __init__(self, reader: ObjectReader) -> None:
        handle = reader.requests.single
        self.reader = reader
        self.settings: object = None
        self.prefix = reader.prefix
        self._handle = handle
        if reader.kind == "memory":
            self.settings = id(handle.get())
        elif reader.kind in _BUCKETS and handle.settings is not None:
            positional, named = handle.settings
            named = {**named, "prefix": None}
            if handle.settings[1].get("prefix"):
                self.prefix = f"{handle.settings[1]['prefix']}/{reader.prefix}"
            self.settings = handle.name, positional, {k: v for k, v in named.items() if k != "retry_config"}
            if reader.kind == "s3":
                named["config"] = {**(named.get("config") or {}), **_ON_CONDITION}
            whole: Settings = positional, named
            self._handle = StoreHandle(make_store(handle.name, whole), named.get("retry_config") or {})

    def send(self, old: str, new: str, *, create: bool) -> Failure | None:
        """Request a copy of an object once; return the failure if there was one."""
        handle = self._handle
        answer: Failure | None = self.reader.requests.once(
            lambda library, _: library.copy(handle.get(), old, new, overwrite=not create)
        )
        if isinstance(answer, Failure) and answer.kind == "expired" and handle is not self.reader.requests.single:
            handle.renew()
        return answer

    def copies(self, storage: object) -> Copies:
        """Return what the service's copies guarantee; test them if that is not known.

        Parameters
        ----------
        storage : object
            Identifies endpoint and bucket; ``None`` if they need not be tested.
        """
        if storage is None:
            return _SOUND
        with _lock:
            if storage not in _found:
                _found[storage] = self._probe()
        return _found[storage]

    def _probe(self) -> Copies:
        """Copy to names that are free, and on condition to one that is not."""
        requests = self.reader.requests
        names = [f"{self.reader.prefix}.tegula-probe-{secrets.token_hex(8)}" for _ in range(4)]
        above = self.prefix[: len(self.prefix) - len(self.reader.prefix)]
        one, other, free, new = (above + name for name in names)

        def put(name: str, value: bytes) -> Any:
            return requests.send(lambda library, store: library.put(store, name, value))

        def holds(name: str, value: bytes) -> bool:
            found: Any = requests.send(lambda library, store: bytes(library.get(store, name).bytes()))
            return bool(found == value)

        try:
            if any(isinstance(put(name, value), Failure) for name, value in zip(names, (b"1", b"2"))):
                return Copies(plain=False, create=False)
            if isinstance(self.send(one, new, create=False), Failure) or not holds(names[3], b"1"):
                return Copies(plain=False, create=False)
            refused, done = self.send(one, other, create=True), self.send(one, free, create=True)
            refuses = isinstance(refused, Failure) and refused.kind == "conflict" and holds(names[1], b"2")
            return Copies(plain=True, create=refuses and not isinstance(done, Failure) and holds(names[2], b"1"))
        finally:
            requests.send(lambda library, store: library.delete(store, names))


def copy_object(bucket: Bucket, source: Any, key: str, reader: Any, new: str, *, create: bool) -> bool:
    """Copy the value of a key of one store to a key of another store over the same bucket; see `Copying.copy_from`.

    Objects that the service can't copy, such as those of more than 5 GB, are copied through this process.
    """
    requests, begin, attempts, unclear = reader.requests, time.monotonic(), 0, False
    source.path_of(key), reader.path_of(new)  # check the keys
    old = source._own_bucket().prefix
    while True:
        answer = bucket.send(old + key, bucket.prefix + new, create=create)
        if not isinstance(answer, Failure):
            return True
        if answer.kind == "missing":
            return False
        if answer.kind == "conflict" and create:
            # a repeated attempt may have conflicted with the result of an earlier one whose answer was lost
            if unclear and source.get(key) == reader.get(new):
                return True
            raise ConflictError("the value has changed since it was read", key=new)
        pause = None if answer.final else requests.retries.pause(answer, attempts, time.monotonic() - begin)
        if pause is None:
            value = source.get(key)
            if value is not None:
                reader.set(new, value, if_generation=ABSENT if create else None)
            return value is not None
        unclear = True
        time.sleep(pause)
        attempts += 1
