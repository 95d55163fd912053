"""Tests of storage: whether it can be reached, which operations it allows, and whether its conditions hold."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final
from urllib.parse import urlsplit

from tegula.errors import ConflictError, TegulaError, UnsupportedError
from tegula.hierarchy.opening import open_stored as open_node
from tegula.stores import ABSENT, Store
from tegula.stores.targets.paths import is_remote

__all__ = ["examine", "sentences"]

_LIBRARIES: Final = {"ObjectStore": "obstore", "FsspecStore": "fsspec"}
_VARIABLES: Final = {
    "s3": "AWS_", "s3a": "AWS_", "gs": "GOOGLE_", "gcs": "GOOGLE_", "az": "AZURE_", "azure": "AZURE_",
    "abfs": "AZURE_", "abfss": "AZURE_",
}  # fmt: skip
_IS_CREDENTIAL: Final = re.compile(
    r"key|secret|token|credential|service_account|password|username|sas_|profile|role_arn", re.IGNORECASE
).search
_UNSIGNED: Final = ("skip_signature", "anonymous", "anon")
_AWS_FILES: Final = ("~/.aws/credentials", "~/.aws/config")
_REQUESTS: Final = 3


def examine(store: Store, target: str, inner: str, options: Mapping[str, Any], *, write: bool) -> dict[str, Any]:
    """Find out what storage can do, and return the facts.

    Parameters
    ----------
    store : Store
        The store of the target.
    target : str
        The path or URL that it was opened by.
    inner : str
        Path of a node in the store.
    options : mapping
        The storage options it was opened with; only the names of credentials are reported.
    write : bool
        Whether to store, change and delete a value under a new name, to test whether conditions hold.

    Returns
    -------
    dict
        The facts by name, without secrets.
    """
    latency, reading = _timed(lambda: store.get(_new_key()))  # a HEAD request does not report a missing bucket
    node, is_open = _node(store, inner)
    facts: dict[str, Any] = {
        "url": store.url,
        "store": type(store).__name__,
        "library": _library(store),
        "credentials": _credentials(target, options),
        "reading": reading,
        "listing": _failure(lambda: store.list_dir("")),
        "node": node,
        "node_opened": is_open,
        "latency_seconds": latency,
    }
    if write:
        facts["writing"] = _try_writing(store)
    return {**facts, "capabilities": store.capabilities._asdict()}


def _new_key() -> str:
    return f"tegula-doctor-{secrets.token_hex(8)}"


def _failure(action: Callable[[], Any]) -> str | None:
    """Return why an action fails, ``None`` if it succeeds."""
    try:
        action()
    except TegulaError as error:
        return error.message
    return None


def _timed(action: Callable[[], Any]) -> tuple[float | None, str | None]:
    """Return the shortest time that an action takes, or why it fails."""
    times = []
    for _ in range(_REQUESTS):
        begin = time.perf_counter()
        failure = _failure(action)
        if failure is not None:
            return None, failure
        times.append(time.perf_counter() - begin)
    return min(times), None


def _library(store: Store) -> dict[str, str]:
    """Return name and version of the packages that a store sends its requests through."""
    names = [_LIBRARIES.get(type(store).__name__, "tegula")]
    if (system := getattr(store, "fs", None)) is not None:
        names.append(type(system).__module__.partition(".")[0])
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _credentials(target: str, options: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names, never the values, of the given credentials, by their origin."""
    scheme = urlsplit(target).scheme.lower()
    if not scheme or any(options.get(name) in (True, "true") for name in _UNSIGNED):
        return {}
    prefix = _VARIABLES.get(scheme)
    by_origin = {
        "URL": ["user info"] if "@" in urlsplit(target).netloc else [],
        "--storage-option": [name for name in options if _IS_CREDENTIAL(name)],
        "environment": [
            name for name in sorted(os.environ) if prefix and name.startswith(prefix) and _IS_CREDENTIAL(name)
        ],
    }
    if not any(by_origin.values()) and prefix == "AWS_":
        by_origin["home directory"] = [name for name in _AWS_FILES if os.path.isfile(os.path.expanduser(name))]
    return {origin: names for origin, names in by_origin.items() if names}


def _node(store: Store, inner: str) -> tuple[str, bool]:
    """Return a description of the node, or why it can't be opened; and whether it was opened."""
    try:
        node = open_node(store, path=inner, allow_pickle=True)  # no elements are read: nothing is unpickled
    except TegulaError as error:
        return error.message, False
    return f"{node.kind} of the format {node.format}", True


def _try_writing(store: Store) -> dict[str, Any]:
    """Store, change and delete a value under a new name, and return which conditions held."""
    key = _new_key()
    created = [] if store.local_directory is None else _missing_directories(store.local_directory)
    results: dict[str, Any] = {"failure": None}
    try:
        first = store.set(key, b"1", if_generation=ABSENT)
        results["creates_once"] = _refused(lambda: store.set(key, b"2", if_generation=ABSENT))
        second = store.set(key, b"3", if_generation=first)
        results["updates_once"] = _refused(lambda: store.set(key, b"4", if_generation=first))
        third = store.set(key, b"3")
        results["fresh_generations"] = third != second
        results["conditional_delete"] = store.conditional_delete and _refused(
            lambda: store.delete(key, if_generation=first)
        )
    except TegulaError as error:
        results["failure"] = error.message
    finally:
        _failure(lambda: store.delete(key))
        for path in created:
            with suppress(OSError):  # another process may have stored something by now
                os.rmdir(path)
    return results


def _missing_directories(path: str) -> list[str]:
    """Return a directory and those above it that do not exist, the innermost first."""
    path, missing = os.path.abspath(path), []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    return missing


def _refused(action: Callable[[], Any]) -> bool:
    """Return whether an action whose condition does not hold is refused."""
    try:
        action()
    except (ConflictError, UnsupportedError) as error:
        return isinstance(error, ConflictError)
    return False


# --- words


def sentences(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the facts as rows of a title and a text."""
    capabilities, tried = facts["capabilities"], facts.get("writing")
    libraries = ", ".join(f"{name} {release}" for name, release in facts["library"].items())
    latency = facts["latency_seconds"]
    rows = [
        ("Store", f"{facts['url']}: {facts['store']} through {libraries}"),
        ("Credentials", _credentials_text(facts)),
        ("Reading", facts["reading"] or "works"),
        ("Listing", facts["listing"] or "works"),
        ("Holds", facts["node"]),
        ("Latency", "unknown" if latency is None else f"{latency * 1000:.3g} ms for one request"),
        (
            "Concurrency",
            f"{capabilities['concurrency']} requests at once"
            if capabilities["concurrency"]
            else "one request a thread",
        ),
        ("Writing", _writing_text(facts["url"], capabilities, tried)),
    ]
    if facts["reading"] or not capabilities["write"] or (tried is not None and tried["failure"]):
        return rows
    return [
        *rows,
        ("Conditional write", _condition_text(capabilities, tried)),
        ("Conditional delete", _delete_text(capabilities, tried)),
        ("Generations", _generation_text(capabilities, tried)),
        ("Writers", _writers_text(facts, capabilities, tried)),
    ]


def _credentials_text(facts: Mapping[str, Any]) -> str:
    credentials = facts["credentials"]
    text = "; ".join(
        f"{', '.join(names)} from the {origin}".replace("the --", "--") for origin, names in credentials.items()
    )
    return text or "none are given"


def _writing_text(url: str, capabilities: Mapping[str, Any], tried: Mapping[str, Any] | None) -> str:
    # a path on this machine is opened for reading unless writing is tried
    if not capabilities["write"] and (tried is not None or is_remote(url)):
        return "the store is read-only"
    if tried is None:
        return "not tried; --write tries it with a value of its own, which it deletes again"
    return f"fails: {tried['failure']}" if tried["failure"] else "works"


def _condition_text(capabilities: Mapping[str, Any], tried: Mapping[str, Any] | None) -> str:
    if capabilities["single_writer"]:
        return "not between processes: conditions hold between the threads of one process only"
    if tried is None:
        return (
            f"{'expected' if capabilities['conditional_write'] else 'not expected'} of storage of this kind, not tried"
        )
    if tried["creates_once"] and tried["updates_once"]:
        return "holds: a value is created once, and an outdated change is refused"
    what = "changing" if tried["creates_once"] else "creating"
    return f"does not hold for {what} a value: the storage ignores conditions"


def _delete_text(capabilities: Mapping[str, Any], tried: Mapping[str, Any] | None) -> str:
    without = "an empty chunk is stored as the fill value instead of being deleted"
    if tried is None:
        expected = "expected of storage of this kind, not tried"
        return expected if capabilities["conditional_delete"] else f"not tried; without it {without}"
    if not capabilities["conditional_delete"]:
        return f"the store has none: {without}"
    return "holds" if tried["conditional_delete"] else "does not hold: the storage ignores the condition"


def _generation_text(capabilities: Mapping[str, Any], tried: Mapping[str, Any] | None) -> str:
    fresh = capabilities["fresh_generations"] if tried is None else tried["fresh_generations"]
    return "new with each write" if fresh else "the same for equal bytes: a reservation of a length is marked by blanks"


def _writers_text(facts: Mapping[str, Any], capabilities: Mapping[str, Any], tried: Mapping[str, Any] | None) -> str:
    held = tried is None or (tried["creates_once"] and tried["updates_once"])
    if facts["store"] == "ZipStore" or capabilities["single_writer"] or not held:
        return "one process at a time may write"
    return "any number of processes may write at the same time"
