"""Indexes of shards kept for later reads, as they are stored, with the generation of the shard that each belongs to.

They need no setting: what is read by an index comes with a generation, and if that is another one, the index is read
again. So reading from a shard that was read before takes one wave of requests, not two.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import Final

from tegula.stores import Generation, Store
from tegula.stores.identity import location

__all__ = ["BUDGET", "drop", "forget", "get", "put"]

BUDGET: Final = 2**26
"""Bytes that all indexes may take."""
_OVERHEAD: Final = 512  # bytes of an entry beside the index

_lock = threading.Lock()
_kept: OrderedDict[str, tuple[bytes, Generation]] = OrderedDict()
_nbytes = 0


def get(store: Store, key: str) -> tuple[bytes, Generation] | None:
    """Return the index of a shard and the generation of the shard it belongs to, or ``None`` if it is not kept.

    The caller checks that the index has the expected length, and reads ranges of the shard with their generation. If
    that is another one, the caller drops the index and begins anew.
    """
    if not _kept:
        return None
    place = location(store.identity, key)
    with _lock:
        found = _kept.get(place)
        if found is not None:
            _kept.move_to_end(place)
        return found


def put(store: Store, key: str, index: bytes, generation: Generation) -> None:
    """Keep the index of a shard; the least recently used ones go where the budget is exceeded."""
    global _nbytes
    size = len(index) + _OVERHEAD
    if size > BUDGET // 4:
        return
    place = location(store.identity, key)
    with _lock:
        _remove(place)
        _kept[place] = index, generation
        _nbytes += size
        while _nbytes > BUDGET:
            _remove(next(iter(_kept)))


def drop(store: Store, key: str) -> None:
    """Drop the index of a shard, which is out of date."""
    if _kept:
        with _lock:
            _remove(location(store.identity, key))


def forget(store: Store, name: str) -> None:
    """Drop the index of a key, or those of all keys of a prefix, which ends in ``/`` or is empty."""
    if not _kept:
        return
    place = location(store.identity, name)
    with _lock:
        if not place.endswith("/"):
            _remove(place)
            return
        for known in [known for known in _kept if known.startswith(place)]:
            _remove(known)


def _remove(place: str) -> None:
    global _nbytes
    found = _kept.pop(place, None)
    if found is not None:
        _nbytes -= len(found[0]) + _OVERHEAD


def _clear() -> None:
    """In a forked child, drop all indexes, and the lock that a thread of the parent may have held."""
    global _lock, _nbytes
    _lock = threading.Lock()
    _kept.clear()
    _nbytes = 0


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_clear)
