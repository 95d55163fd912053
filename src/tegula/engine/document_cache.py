"""A cache of documents in remote storage, with their generations, for opening nodes again.

The setting ``recheck`` says when cached documents are compared with the store, which happens when a node is opened:
``"open"`` and ``"always"`` take one wave of conditional requests, ``"never"`` none. Only the documents that determined
the node are cached, so that the others are not requested again.

A change of a document may start from the cached document, however old it is, since the result is stored on condition
that the generation is still the same.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any, Final, TypeAlias

from tegula import config
from tegula.engine.chunk_cache import Moment, clock, now
from tegula.engine.kept_values import KeptValues
from tegula.engine.pool import for_each
from tegula.stores import Generation, Store
from tegula.stores.capabilities import Revalidating
from tegula.stores.identity import location

__all__ = ["KEPT", "applies", "fetch", "forget", "keep", "known", "replace", "settle"]

_Entry: TypeAlias = tuple[bytes | None, Generation, Moment]

KEPT: Final[KeptValues[_Entry]] = KeptValues(2**24, lambda entry: len(entry[0] or b""))
"""Documents, with their generations and the moments at which they were requested."""
_changes = 0  # how often documents were dropped; a document that was requested before a drop is not cached after it


def applies(store: Store) -> bool:
    """Return whether caching documents saves time: in a far store that confirms generations, or need not do so."""
    return store.concurrency > 0 and (
        isinstance(store, Revalidating) or config.current().recheck not in ("open", "always")
    )


def fetch(store: Any, keys: list[str], limit: int) -> dict[str, bytes | None]:
    """Return the values of documents; for cached documents, only ask the store to confirm them, if at all.

    If the first document and any value are cached, the result has only the cached documents: they determined the node
    before (`settle`), and most probably do so again.

    Parameters
    ----------
    store : Store
        A store to which this `applies`.
    keys : list of str
        Their keys; a document takes precedence over those after it.
    limit : int
        The most bytes to read of a document that is not cached.
    """
    rule, moment, changes = config.current().recheck, now(), _changes
    found: dict[str, bytes | None] = {}
    stale: list[tuple[str, Generation | None]] = []
    places = {key: location(store.identity, key) for key in keys}
    entries = {key: entry for key, place in places.items() if (entry := KEPT.get(place)) is not None}
    decided = keys[0] in entries and any(entry[0] is not None for entry in entries.values())
    for key in entries if decided else keys:
        known = entries.get(key)
        if known is not None:
            found[key] = known[0]
        if known is None or not (rule == "never" or (not isinstance(rule, str) and known[2][1] > clock() - rule)):
            stale.append((key, None if known is None else known[1]))

    def ask(item: tuple[str, Generation | None]) -> None:
        key, generation = item
        if generation is not None and isinstance(store, Revalidating):
            answer = store.get_if_changed(key, generation)
            if answer is not None:
                found[key], generation = answer
        else:
            found[key], generation = store.get(key, (0, limit), with_generation=True)
        _keep(location(store.identity, key), (found[key], generation, moment), changes)

    for_each(ask, stale, len(stale) > 1, (), store.concurrency)
    return found


def settle(store: Store, keys: list[str], used: Container[str]) -> None:
    """Drop the cached documents that did not determine the node."""
    for key in keys:
        if key not in used:
            KEPT.drop(location(store.identity, key))


def _keep(place: str, entry: _Entry, changes: int) -> None:
    with KEPT.lock:
        if changes == _changes:
            KEPT.put(place, entry)


def known(store: Store, keys: Iterable[str]) -> list[tuple[bytes | None, Generation]] | None:
    """Return cached documents, without a request; ``None`` unless all of them are cached."""
    if not applies(store):
        return None
    found = [KEPT.get(location(store.identity, key)) for key in keys]
    return None if None in found else [(entry[0], entry[1]) for entry in found if entry is not None]


def keep(store: Store, read: Callable[[], dict[str, tuple[bytes | None, Generation]]]) -> Any:
    """Call `read`, which returns documents and their generations by key, and cache and return its result."""
    moment, changes = now(), _changes
    found = read()
    if applies(store) and any(raw is not None for raw, _ in found.values()):
        for key, (raw, generation) in found.items():
            _keep(location(store.identity, key), (raw, generation, moment), changes)
    return found


def replace(store: Store, key: str, old: Generation, written: tuple[bytes, Generation]) -> None:
    """Cache a document that this process has stored on condition that the generation before was `old`.

    If the cached document has another generation, or there is none, the stored document may by now be newer than
    `written`; then no document is cached.
    """
    global _changes
    if store.concurrency <= 0:
        return
    place, moment = location(store.identity, key), now()
    with KEPT.lock:
        _changes += 1
        before = KEPT.get(place)
        if before is not None and before[1] == old:
            KEPT.put(place, (*written, moment))
        else:
            KEPT.drop(place)


def forget(store: Store, name: str) -> None:
    """Drop the document of a key, or those of all keys of a prefix, which ends in ``/`` or is empty."""
    global _changes
    if store.concurrency <= 0:
        return
    with KEPT.lock:
        _changes += 1
        KEPT.drop_all(location(store.identity, name))
