"""Tests of conditional writes at an endpoint, once for each bucket and process.

Many services implement the protocol of S3, and some of them ignore the headers that make a write conditional: then two
writers both succeed, and one of the results is lost. So before the first conditional write, a few test writes are made
to a separate object, which is then deleted. Reading never causes a test.

The endpoints that AWS, Google and Microsoft run themselves need no test: their documentation promises conditional
writes and metadata for every bucket, and the certificate proves the identity of the server. An endpoint that a user
configures is tested, whatever its name. Conditional deletion is tested on both, since it is newer and less common.
"""

from __future__ import annotations

import os
import secrets
import threading
from typing import Any, Final, NamedTuple

from tegula.errors import StoreError
from tegula.stores.objects.deletes import can_be_sent, deletes_on_condition
from tegula.stores.objects.failures import Failure
from tegula.stores.objects.generations import attributes_of, history_of
from tegula.stores.objects.library import Settings
from tegula.stores.objects.requests import Requests
from tegula.stores.single_writer import digest

__all__ = ["Conditions", "conditions_of", "known_conditions", "probe", "storage_of"]


class Conditions(NamedTuple):
    """Findings about conditional writes to a bucket.

    Attributes
    ----------
    hold : bool
        Whether a write happens only if its condition holds.
    metadata : bool
        Whether objects keep the metadata that shows which write created them.
    delete : bool
        Whether an object is deleted only if the condition of the request holds.
    """

    hold: bool
    metadata: bool
    delete: bool = False


_SOUND: Final = Conditions(hold=True, metadata=True)
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

_found: dict[object, Conditions] = {}
_lock = threading.Lock()


def _forget_lock() -> None:
    """In a forked child, make a new lock, since the parent's thread that may hold it does not exist here."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_lock)


def storage_of(kind: str, settings: Settings | None) -> object:
    """Return a value that identifies the endpoint and bucket of an obstore store; ``None`` if no test is needed."""
    if settings is None:
        return None  # in memory
    positional, named = settings
    config = named.get("config") or {}
    found = [str(config[name]) for name in _ENDPOINTS.get(kind, ()) if name in config]
    prefixes = _VARIABLES.get(kind, ())
    found += sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(prefixes))
    if kind == "gs":
        found += _other_servers(config)
    if kind in _ENDPOINTS and not found:
        return None
    bucket = config.get("bucket") or config.get("container_name")
    return kind, bucket, config.get("account_name"), digest(repr((positional, found)).encode())


def service_of(kind: str, settings: Settings | None) -> tuple[str, ...]:
    """Return the scope of a bucket's name: endpoint and account; empty for the provider's own endpoint.

    Examples
    --------
    >>> service_of("s3", (("bucket",), {"config": {"endpoint": "https://example.org"}}))
    ('https://example.org',)
    """
    config = {} if settings is None else settings[1].get("config") or {}
    found: list[str] = []
    for names in _SERVICES.get(kind, ()):
        prefixes = {"s3": ("AWS_",), "gs": ("GOOGLE_",), "az": ("AZURE_STORAGE_", "AZURE_")}[kind]
        given = [config.get(name) for name in names]
        given += [os.environ.get(prefix + name.upper()) for prefix in prefixes for name in names]
        found += [str(value) for value in given if value][:1]
    return tuple(found)


def _other_servers(config: dict[str, Any]) -> list[str]:
    """Return the keys of Google Cloud Storage that name another server."""
    given = [config[name] for name in _ACCOUNTS if name in config]
    given += [value for name in _ACCOUNTS if (value := os.environ.get(f"GOOGLE_{name.upper()}"))]
    found = []
    for text in map(str, given):
        key = text
        if not text.lstrip().startswith("{"):
            try:
                with open(text, encoding="utf-8") as file:
                    key = file.read()
            except (OSError, ValueError):  # obstore reports it
                continue
        if "gcs_base_url" in key:
            found.append(key)
    return found


def known_conditions(storage: object) -> Conditions | None:
    """Return what is known about a bucket, without a request."""
    return _SOUND if storage is None else _found.get(storage)


def conditions_of(storage: object, requests: Requests, prefix: str, url: str) -> Conditions:
    """Return what conditional writes to a bucket guarantee; test them if that is not known yet.

    Raises
    ------
    StoreError
        If the bucket can't be written at all.
    """
    found = known_conditions(storage)
    if found is None:
        with _lock:
            found = known_conditions(storage)
            if found is None:
                found = _found[storage] = probe(requests, prefix, url)
    return found


def probe(requests: Requests, prefix: str, url: str) -> Conditions:
    """Test conditional writes on an object with a unique name, and delete it.

    A repeated attempt may conflict with its own result. So the test checks the state afterwards, and that writes which
    must fail do fail.
    """
    path = f"{prefix}.tegula-probe-{secrets.token_hex(8)}"
    attributes = attributes_of(secrets.token_urlsafe(6))

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
        return Conditions(holds, attributes == attributes_of(history), deletes)
    finally:
        requests.send(lambda library, store: library.delete(store, path))


def _failed(url: str, failure: Failure) -> StoreError:
    return StoreError(f"can't find out whether {url} has conditional writes: {failure.reason}")
