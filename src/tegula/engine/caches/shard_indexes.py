"""A cache of shard indexes, each as it is stored, with the generation of its shard.

It needs no setting: the parts that are read by means of an index come with a generation, and if that differs from the
generation of the index, the index is read again. So another read from the same shard takes one wave of requests, not
two.
"""

from __future__ import annotations

from typing import Final

from tegula.engine.caches.kept_values import KeptValues
from tegula.stores import Generation, Store
from tegula.stores.identity import location

__all__ = ["KEPT", "drop", "forget", "get", "put"]

KEPT: Final[KeptValues[tuple[bytes, Generation]]] = KeptValues(2**26, lambda entry: len(entry[0]))
"""Indexes, with the generations of their shards."""


def get(store: Store, key: str) -> tuple[bytes, Generation] | None:
    """Return the index of a shard and the generation of that shard, or ``None`` if the index is not cached.

    The caller checks that the index has the expected length, and reads ranges of the shard with their generation. If
    that differs, the caller drops the index and starts again.
    """
    return KEPT.get(location(store.identity, key)) if KEPT else None


def put(store: Store, key: str, index: bytes, generation: Generation) -> None:
    """Cache the index of a shard."""
    KEPT.put(location(store.identity, key), (index, generation))


def drop(store: Store, key: str) -> None:
    """Drop the index of a shard, which is out of date."""
    if KEPT:
        KEPT.drop(location(store.identity, key))


def forget(store: Store, name: str) -> None:
    """Drop the index of a key, or those of all keys of a prefix, which ends in ``/`` or is empty."""
    KEPT.drop_all(location(store.identity, name))
