"""What a bucket guarantees: conditional writes, deletions and copies, tested once for each bucket and process.

Many services implement the protocol of S3, and some of them ignore the headers that make a write conditional: then two
writers both succeed, and one of the results is lost. So before the first conditional write, a few test writes are made
to a separate object, which is then deleted. Reading never causes a test.

The endpoints that AWS, Google and Microsoft run themselves need no test: their documentation promises conditional
writes and metadata for every bucket, and the certificate proves the identity of the server. An endpoint that a user
configures is tested, whatever its name. Conditional deletion is tested on both, since it is newer and less common.

A copy that must not replace an object is a conditional write. Google Cloud Storage and Azure support the condition when
they copy; on S3 it is checked at the end of a multipart upload whose only part is the old object. Some S3-compatible
services ignore the condition there, and some store an empty object instead of a copy.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from tegula.errors import StoreError
from tegula.stores.arguments import ABSENT, changed
from tegula.stores.objects.failures import Failure
from tegula.stores.objects.generations import ATTRIBUTE, history_of
from tegula.stores.objects.library import Settings, StoreHandle, make_store
from tegula.stores.objects.reading import ObjectReader
from tegula.stores.objects.requests import Requests
from tegula.stores.objects.writes import can_be_sent, deletes_on_condition
from tegula.stores.single_writer import KeyLocks, digest

__all__ = [
    "Bucket", "Conditions", "conditions_of", "known_conditions", "probe", "service_of", "storage_of",
]  # fmt: skip

_T = TypeVar("_T")


class Conditions(NamedTuple):
    """Findings about conditional writes to a bucket."""

    hold: bool  # whether a write happens only if its condition holds
    metadata: bool  # whether objects keep the metadata that shows which write created them
    delete: bool = False  # whether an object is deleted only if the condition of the request holds


class Copies(NamedTuple):
    """Findings about copies within a bucket."""

    plain: bool  # whether the service copies objects at all
    create: bool  # whether it refuses to replace an object if the request says so


_SOUND: Final = Conditions(hold=True, metadata=True)
_BUCKETS: Final = ("s3", "gs", "az")
_ON_CONDITION: Final = {"copy_if_not_exists": "multipart"}
"""The setting of S3 with which obstore copies on condition."""

_ENDPOINTS: Final = {
    "s3": ("endpoint", "endpoint_url", "endpoint_url_s3", "conditional_put"),
    "gs": ("base_url",),
    "az": ("endpoint", "use_emulator", "use_fabric_endpoint"),
}
_VARIABLES: Final = {
    "s3": ("AWS_ENDPOINT", "AWS_CONDITIONAL_PUT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "AZURE_USE_", "AZURE_STORAGE_USE_"),
}
_ACCOUNTS: Final = ("service_account_key", "service_account", "service_account_path")
"""Settings of Google Cloud Storage that hold a key or its path; the key may name another server."""

_SERVICES: Final[dict[str, list[tuple[str, ...]]]] = {
    "s3": [("endpoint", "endpoint_url", "endpoint_url_s3")],
    "gs": [("base_url",)],
    "az": [("account_name",), ("endpoint",), ("use_emulator",)],
}
"""Settings that name the account of a bucket, each with its other names."""

_conditions: dict[object, Conditions] = {}
_copies: dict[object, Copies] = {}
_lock: Final = KeyLocks(1)


def _tested_once(known: dict[object, _T], storage: object, test: Callable[[], _T]) -> _T:
    """Return what is known about a bucket; one thread tests it if that is nothing, while others wait."""
    if storage not in known:
        with _lock.of(""):
            if storage not in known:
                known[storage] = test()
    return known[storage]


def storage_of(kind: str, settings: Settings | None) -> object:
    """Return a value that identifies the endpoint and bucket of an obstore store; ``None`` if no test is needed."""
    if settings is None:
        return None  # in memory
    positional, named = settings
    config = named.get("config") or {}
    servers = [str(config[name]) for name in _ENDPOINTS.get(kind, ()) if name in config]
    prefixes = _VARIABLES.get(kind, ())
    servers += sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(prefixes))
    if kind == "gs":
        servers += _other_servers(config)
    if kind in _ENDPOINTS and not servers:
        return None
    bucket = config.get("bucket") or config.get("container_name")
    return kind, bucket, config.get("account_name"), digest(repr((positional, servers)).encode())


def service_of(kind: str, settings: Settings | None) -> tuple[str, ...]:
    """Return the scope of a bucket's name: endpoint and account; empty for the provider's own endpoint."""
    config = {} if settings is None else settings[1].get("config") or {}
    scope: list[str] = []
    for names in _SERVICES.get(kind, ()):
        prefixes = {"s3": ("AWS_",), "gs": ("GOOGLE_",), "az": ("AZURE_STORAGE_", "AZURE_")}[kind]
        given = [config.get(name) for name in names]
        given += [os.environ.get(prefix + name.upper()) for prefix in prefixes for name in names]
        scope += [str(value) for value in given if value][:1]
    return tuple(scope)


def _other_servers(config: dict[str, Any]) -> list[str]:
    """Return the keys of Google Cloud Storage that name another server."""
    given = [config[name] for name in _ACCOUNTS if name in config]
    given += [value for name in _ACCOUNTS if (value := os.environ.get(f"GOOGLE_{name.upper()}"))]
    keys = []
    for text in map(str, given):
        key = text
        if not text.lstrip().startswith("{"):
            try:
                with open(text, encoding="utf-8") as file:
                    key = file.read()
            except (OSError, ValueError):  # obstore reports it
                continue
        if "gcs_base_url" in key:
            keys.append(key)
    return keys


def known_conditions(storage: object) -> Conditions | None:
    """Return what is known about a bucket, without a request."""
    return _SOUND if storage is None else _conditions.get(storage)


def conditions_of(storage: object, requests: Requests, prefix: str, url: str) -> Conditions:
    """Return what conditional writes to a bucket guarantee; test them if that is not known yet, as `probe` does."""
    return _SOUND if storage is None else _tested_once(_conditions, storage, lambda: probe(requests, prefix, url))


def probe(requests: Requests, prefix: str, url: str) -> Conditions:
    """Test conditional writes on an object with a unique name, and delete it.

    A repeated attempt may conflict with its own result. So the test checks the state afterwards, and that writes which
    must fail do fail. `StoreError` is raised if the bucket can't be written at all.
    """
    path = f"{prefix}.tegula-probe-{secrets.token_hex(8)}"
    attributes = {ATTRIBUTE: secrets.token_urlsafe(6)}

    def put(value: bytes, mode: Any) -> Any:
        return requests.send(lambda library, store: library.put(store, path, value, mode=mode, attributes=attributes))

    def head() -> tuple[dict[str, str], str]:
        options = {"head": True}
        answer = requests.send(lambda library, store: library.get(store, path, options=options))
        if isinstance(answer, Failure):
            raise _failed(url, answer)
        tags = {name: answer.meta[name] for name in ("e_tag", "version") if answer.meta.get(name) is not None}
        return tags, history_of(answer.attributes)

    def refused(answer: Any) -> bool:
        if isinstance(answer, Failure) and answer.kind not in ("conflict", "missing"):
            raise _failed(url, answer)
        return isinstance(answer, Failure)

    # create it; a service without conditions may refuse the header
    created = put(b"1", "create")
    if isinstance(created, Failure) and created.kind == "unsupported":
        return Conditions(hold=False, metadata=False)
    if isinstance(created, Failure) and created.kind != "conflict":
        raise _failed(url, created)
    try:
        first, _ = head()
        if not first or not refused(put(b"2", "create")):
            return Conditions(hold=False, metadata=False)
        # replace it, and then try to replace its former state
        updated = put(b"3", first)
        if isinstance(updated, Failure) and updated.kind == "unsupported":
            return Conditions(hold=False, metadata=False)
        second, history = head()
        holds = second != first and refused(put(b"4", first)) and head()[0] == second
        # delete it on condition, if that is possible
        tags = first.get("e_tag"), second.get("e_tag")
        deletes = holds and can_be_sent(requests.single) and deletes_on_condition(requests, path, *map(str, tags))
        return Conditions(holds, history == attributes[ATTRIBUTE], deletes)
    finally:
        requests.send(lambda library, store: library.delete(store, path))


def _failed(url: str, failure: Failure) -> StoreError:
    return StoreError(f"can't find out whether {url} has conditional writes: {failure.reason}")


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
        """Return what the service's copies guarantee; test them if that is not known, as for `conditions_of`."""
        return Copies(True, True) if storage is None else _tested_once(_copies, storage, self._probe)

    def _probe(self) -> Copies:
        """Copy to names that are free, and on condition to one that is not."""
        requests = self.reader.requests
        names = [f"{self.reader.prefix}.tegula-probe-{secrets.token_hex(8)}" for _ in range(4)]
        above = self.prefix[: len(self.prefix) - len(self.reader.prefix)]
        one, other, free, new = (above + name for name in names)

        def put(name: str, value: bytes) -> Any:
            return requests.send(lambda library, store: library.put(store, name, value))

        def holds(name: str, value: bytes) -> bool:
            stored: Any = requests.send(lambda library, store: bytes(library.get(store, name).bytes()))
            return bool(stored == value)

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

    def copy(self, source: Any, key: str, new: str, *, create: bool) -> bool:
        """Copy the value of a key of a store over the same bucket to a key of this one; see `Copying.copy_from`.

        Objects that the service can't copy, such as those of more than 5 GB, are copied through this process.
        """
        reader: Any = self.reader
        begin, attempts, unclear = time.monotonic(), 0, False
        source.path_of(key), reader.path_of(new)  # check the keys
        old, new_name = source._bucket.prefix + key, self.prefix + new
        while True:
            answer = self.send(old, new_name, create=create)
            if not isinstance(answer, Failure):
                return True
            if answer.kind == "missing":
                return False
            if answer.kind == "conflict" and create:
                # a repeated attempt may have conflicted with the result of an earlier one whose answer was lost
                if unclear and source.get(key) == reader.get(new):
                    return True
                raise changed(new)
            if answer.final or not reader.requests.retries.wait(answer, attempts, begin):
                value = source.get(key)
                if value is not None:
                    reader.set(new, value, if_generation=ABSENT if create else None)
                return value is not None
            unclear = True
            attempts += 1
