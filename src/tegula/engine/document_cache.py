"""Documents of nodes in remote storage, kept with their generations for the next time a node is opened.

The setting ``recheck`` says when they are compared with the store. Opening is the moment to do so; ``"open"`` and
``"always"`` therefore mean one wave of conditional requests, ``"never"`` none at all. Only the documents that
determined the node are kept, so that the others are not requested again.

A change of a document may start from the kept one, however old that is, since the result is stored on condition that
the generation is still the same.
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
_changes = 0  # how often documents were forgotten; a document that was requested before that is not kept afterwards


def applies(store: Store) -> bool:
    """Return whether keeping documents saves anything: in a far store that confirms generations, or need not do so."""
    return store.concurrency > 0 and (
        isinstance(store, Revalidating) or config.current().recheck not in ("open", "always")
    )


def fetch(store: Any, keys: list[str], limit: int) -> dict[str, bytes | None]:
    """Return the values of documents; for kept documents, at most ask the store to confirm them.

    If the first document and any value are kept, the result has only the kept documents: they determined the node
    before (`settle`), and most probably do so again.

    Parameters
    ----------
    store : Store
        A store to which this `applies`.
    keys : list of str
        Their keys; a document takes precedence over those after it.
    limit : int
        The most bytes to read of a document that is not kept.
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
    """Drop the kept documents of a node that did not determine what node it is."""
    for key in keys:
        if key not in used:
            KEPT.drop(location(store.identity, key))


def _keep(place: str, entry: _Entry, changes: int) -> None:
    with KEPT.lock:
        if changes == _changes:
            KEPT.put(place, entry)


def known(store: Store, keys: Iterable[str]) -> list[tuple[bytes | None, Generation]] | None:
    """Return kept documents, without a request; ``None`` unless all of them are kept."""
    if not applies(store):
        return None
    found = [KEPT.get(location(store.identity, key)) for key in keys]
    return None if None in found else [(entry[0], entry[1]) for entry in found if entry is not None]


def keep(store: Store, read: Callable[[], dict[str, tuple[bytes | None, Generation]]]) -> Any:
    """Return what `read` returns, documents and their generations by key, and keep it."""
    moment, changes = now(), _changes
    found = read()
    if applies(store) and any(raw is not None for raw, _ in found.values()):
        for key, (raw, generation) in found.items():
            _keep(location(store.identity, key), (raw, generation, moment), changes)
    return found


def replace(store: Store, key: str, old: Generation, written: tuple[bytes, Generation]) -> None:
    """Keep a document that this process has stored on condition that `old` was the generation before.

    If a document of another generation is kept, or none, the stored one may be newer than `written`; then none is kept.
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
