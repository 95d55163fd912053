"""A cache of documents in remote storage, with their generations, for opening nodes again.

The setting ``recheck`` says when cached documents are compared with the store, which happens when a node is opened:
``"open"`` and ``"always"`` take one wave of conditional requests, ``"never"`` none. Only the documents that determined
the node are cached, so that the others are not requested again.

A change of a document may start from the cached document, however old it is, since the result is stored on condition
that the generation is still the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import filterfalse
from operator import itemgetter
from typing import Any, Final, TypeAlias

from tegula import config
from tegula.engine.caches.chunk_cache import Moment, clock, now
from tegula.engine.caches.kept_values import KeptValues
from tegula.engine.concurrency.pool import for_each
from tegula.formats import next_keys
from tegula.stores import Generation, Store
from tegula.stores.capabilities import Revalidating
from tegula.stores.identity import location

__all__ = ["KEPT", "applies", "fetch", "forget", "keep", "known", "replace", "settle"]

_Entry: TypeAlias = tuple[bytes | None, Generation, Moment]

KEPT: Final[KeptValues[_Entry]] = KeptValues(2**24, lambda entry: len(entry[0] or b""))
"""Documents, with their generations and the moments at which they were requested."""
_changes = 0  # how often documents were dropped; a document that was requested before a drop is not cached after it


def applies(store: Store) -> bool:
    """Return whether caching documents saves time: in a remote store that confirms generations, or need not do so."""
    return store.is_remote and (isinstance(store, Revalidating) or config.current().recheck not in ("open", "always"))


def fetch(store: Any, prefix: str, keys: Sequence[str], known: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
    """Return the values of further documents; for cached documents, only ask the store to confirm them, if at all.

    If the first of them is cached, and any value, the result has all cached documents and no others: they determined
    the node before (`settle`), and most probably do so again. Otherwise it has the documents of `next_keys`.

    Parameters
    ----------
    store : Store
        A store to which this `applies`.
    prefix, keys
        The prefix of a node, and the keys of its documents relative to it; a document takes precedence over those
        after it.
    known : mapping of str to bytes or None
        The documents that have been fetched already.
    """
    settings, moment, changes = config.current(), now(), _changes
    rule = settings.recheck
    documents: dict[str, bytes | None] = {}
    stale: list[tuple[str, Generation | None]] = []
    where = location(store.identity, prefix)
    keys = [*filterfalse(known.__contains__, keys)]
    entries = KEPT.get_below(where, keys)
    decided = keys[0] in entries and [*map(itemgetter(0), entries.values())].count(None) < len(entries)
    for key in entries if decided else next_keys(keys, known):
        entry = entries.get(key)
        if entry is not None:
            documents[key] = entry[0]
        if entry is None or not (rule == "never" or (not isinstance(rule, str) and entry[2][1] > clock() - rule)):
            stale.append((key, None if entry is None else entry[1]))

    def ask(item: tuple[str, Generation | None]) -> None:
        key, generation = item
        if generation is not None and isinstance(store, Revalidating):
            answer = store.get_if_changed(prefix + key, generation)
            if answer is not None:
                documents[key], generation = answer
            elif isinstance(rule, str):  # no matter when it was requested
                return
        else:
            documents[key], generation = store.get(
                prefix + key, (0, settings.max_input_bytes + 1), with_generation=True
            )
        _keep(where + key, (documents[key], generation, moment), changes)

    for_each(ask, stale, len(stale) > 1, (), store.concurrency)
    return documents


def settle(store: Store, prefix: str, keys: Iterable[str]) -> None:
    """Drop the cached documents that did not determine a node, by their keys relative to its prefix."""
    where = location(store.identity, prefix)
    KEPT.drop(*[where + key for key in keys])


def _keep(name: str, entry: _Entry, changes: int) -> None:
    with KEPT.lock:
        if changes == _changes:
            KEPT.put(name, entry)


def known(store: Store, keys: Iterable[str]) -> list[tuple[bytes | None, Generation]] | None:
    """Return cached documents, without a request; ``None`` unless all of them are cached."""
    if not applies(store):
        return None
    keys = [*keys]
    entries = KEPT.get_below(location(store.identity, ""), keys)
    return None if len(entries) < len(keys) else [*map(itemgetter(0, 1), entries.values())]


def keep(store: Store, read: Callable[[], dict[str, tuple[bytes | None, Generation]]]) -> Any:
    """Call `read`, which returns documents and their generations by key, and cache and return its result."""
    moment, changes = now(), _changes
    documents = read()
    if applies(store) and any(raw is not None for raw, _ in documents.values()):
        for key, (raw, generation) in documents.items():
            _keep(location(store.identity, key), (raw, generation, moment), changes)
    return documents


def replace(store: Store, key: str, old: Generation, written: tuple[bytes, Generation]) -> None:
    """Cache a document that this process has stored on condition that the generation before was `old`.

    If the cached document has another generation, or there is none, the stored document may by now be newer than
    `written`; then no document is cached.
    """
    global _changes
    if not store.is_remote:
        return
    name, moment = location(store.identity, key), now()
    with KEPT.lock:
        _changes += 1
        before = KEPT.get(name)
        if before is not None and before[1] == old:
            KEPT.put(name, (*written, moment))
        else:
            KEPT.drop(name)


def forget(store: Store, name: str) -> None:
    """Drop the document of a key, or those of all keys of a prefix, which ends in ``/`` or is empty."""
    global _changes
    if not store.is_remote:
        return
    with KEPT.lock:
        _changes += 1
        KEPT.drop_all(location(store.identity, name))
