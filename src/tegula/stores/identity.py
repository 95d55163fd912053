"""Identities of storage: equal for two stores exactly if each key refers to the same value in both."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from typing import Any

from tegula.runtime.deferred import after_fork

__all__ = ["Shared", "lasting_text", "location", "process_name", "shared", "unique_location"]

_PLAIN = (str, int, float, bytes, bool, type(None))
_numbers = itertools.count(1)
_process = ""  # text that is unique to this process, made when it is first needed
_known: dict[int, tuple[weakref.ref[object], str]] = {}
_lock = threading.Lock()


class Shared:
    """The identity of storage that exists in this process only, held by its stores.

    Parameters
    ----------
    storage : object
        The storage, which this object keeps alive, so that its address is not reused in the meantime.
    """

    def __init__(self, storage: object) -> None:
        self._storage = storage


_shared: weakref.WeakValueDictionary[tuple[object, ...], Shared] = weakref.WeakValueDictionary()


def shared(storage: object, *part: object) -> Shared:
    """Return the identity of a part in storage, the same one for all stores of this process.

    Parameters
    ----------
    storage : object
        The object that holds the values.
    part : hashable
        A part of the storage; equal for stores over the same part.

    Examples
    --------
    >>> values = {}
    >>> one, other = shared(values, id(values), "a"), shared(values, id(values), "a")
    >>> one is other, one is shared(values, id(values), "b")
    (True, False)
    """
    with _lock:
        identity = _shared.get(part)
        if identity is None:
            identity = _shared[part] = Shared(storage)
        return identity


def location(identity: object, key: str) -> str:
    """Return the place of a key, or of a prefix, in the storage of this identity, as text.

    Parameters
    ----------
    identity : object
        `Store.identity`: text to which keys are appended, or an object that identifies the storage while it is alive.
    key : str
        A key, or a prefix that is empty or ends in ``/``.

    Examples
    --------
    >>> location("s3://bucket/a", "b/c") == location("s3://bucket", "a/b/c")
    True
    >>> from tegula.stores import MemoryStore
    >>> one, other = MemoryStore(), MemoryStore()
    >>> location(one.identity, "a") == location(other.identity, "a")
    False
    """
    name = identity.rstrip("/") if isinstance(identity, str) else _name(identity)
    return f"{name}/{key}"


def unique_location(identity: object, key: str) -> str:
    """Return the `location` as text that no other process uses for other storage.

    Examples
    --------
    >>> unique_location("s3://bucket/a", "b") == location("s3://bucket/a", "b")
    True
    >>> from tegula.stores import MemoryStore
    >>> store = MemoryStore()
    >>> unique_location(store.identity, "b").endswith(location(store.identity, "b"))
    True
    """
    place = location(identity, key)
    return place if isinstance(identity, str) else f"process:{process_name()}/{place}"


def process_name() -> str:
    """Return text that is unique to this process among all processes on all machines."""
    global _process
    with _lock:
        _process = _process or os.urandom(16).hex()
        return _process


def lasting_text(generation: Any) -> str | None:
    """Return a generation as text that is the same in every process, or ``None`` if its type does not allow that.

    Examples
    --------
    >>> lasting_text((7, "etag")), lasting_text(object())
    ("(7, 'etag')", None)
    """
    plain = getattr(generation, "plain", generation)
    return repr(plain) if _is_plain(plain) else None


def _is_plain(value: object) -> bool:
    return type(value) in _PLAIN or (type(value) is tuple and all(map(_is_plain, value)))


def _name(identity: object) -> str:
    """Return a name that no other object of this process has, not even a later one at the same address."""
    known = _known.get(id(identity))
    if known is not None and known[0]() is identity:
        return known[1]
    with _lock:
        known = _known.get(id(identity))
        if known is not None and known[0]() is identity:
            return known[1]
        name = f"object:{next(_numbers)}"
        if len(_known) >= 256:
            for number in [number for number, (held, _) in _known.items() if held() is None]:
                del _known[number]
        _known[id(identity)] = weakref.ref(identity), name
        return name


@after_fork
def _renew_lock() -> None:
    """In a forked child, which has copies of all objects, free the lock that a thread of the parent may have held."""
    global _lock, _process
    _lock, _process = threading.Lock(), ""
