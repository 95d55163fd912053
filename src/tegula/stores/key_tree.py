"""Keys in order, so that a listing visits no other keys, and takes no memory for prefixes, however many a key has."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

__all__ = ["KeyTree"]

_FEW = 64  # changes that are made one by one


class KeyTree:
    """The keys of a store that knows all its keys.

    Parameters
    ----------
    keys : iterable of str
        The keys to begin with.

    Examples
    --------
    >>> tree = KeyTree(["zarr.json", "a/zarr.json", "a/c/0"])
    >>> tree.children(""), tree.children("a/")
    ((['zarr.json'], ['a/']), (['a/zarr.json'], ['a/c/']))
    >>> tree.discard("a/c/0")
    >>> tree.keys("a/")
    ['a/zarr.json']
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._keys = sorted(dict.fromkeys(keys))
        self._changes: dict[str, bool] = {}  # since the last listing: whether a key was added

    def add(self, key: str) -> None:
        """Add a key."""
        self._changes[key] = True

    def discard(self, key: str) -> None:
        """Remove a key if it is there."""
        self._changes[key] = False

    def children(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes directly below a prefix, each sorted."""
        ordered, below = self._ordered(), len(prefix)
        keys: list[str] = []
        prefixes: list[str] = []
        at, stop = _span(ordered, prefix)
        while at < stop:
            key = ordered[at]
            end = key.find("/", below)
            if end < 0:
                keys.append(key)
                at += 1
            else:
                prefixes.append(key[: end + 1])
                at = _span(ordered, prefixes[-1], at)[1]
        return keys, prefixes

    def keys(self, prefix: str) -> list[str]:
        """Return all keys below a prefix."""
        ordered = self._ordered()
        start, stop = _span(ordered, prefix)
        return ordered[start:stop]

    def _ordered(self) -> list[str]:
        """Return all keys in order."""
        keys, changes = self._keys, self._changes
        if len(changes) > _FEW:
            left = dict.fromkeys([*keys, *(key for key, added in changes.items() if added)])
            self._keys = keys = sorted(key for key in left if changes.get(key, True))
        else:
            for key, added in changes.items():
                at = bisect_left(keys, key)
                there = at < len(keys) and keys[at] == key
                if added and not there:
                    insort(keys, key)
                elif there and not added:
                    del keys[at]
        changes.clear()
        return keys


def _span(ordered: list[str], prefix: str, start: int = 0) -> tuple[int, int]:
    """Return where the keys below a prefix begin and end."""
    if not prefix:
        return start, len(ordered)
    start = bisect_left(ordered, prefix, start)
    return start, bisect_left(ordered, f"{prefix[:-1]}0", start)  # "0" is what follows "/"
