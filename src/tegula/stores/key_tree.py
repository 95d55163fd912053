"""Keys grouped by the prefix directly above them, so that a listing visits no other keys."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["KeyTree"]


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
        self._below: dict[str, dict[str, None]] = {"": {}}
        for key in keys:
            self.add(key)

    def add(self, key: str) -> None:
        """Add a key."""
        child = key
        while child:
            parent = _parent(child)
            siblings = self._below.get(parent)
            if siblings is not None:  # then all prefixes above it are there too
                siblings[child] = None
                return
            self._below[parent] = {child: None}
            child = parent

    def discard(self, key: str) -> None:
        """Remove a key if it is there, and prefixes that become empty."""
        child = key
        while child:
            parent = _parent(child)
            siblings = self._below.get(parent, {})
            siblings.pop(child, None)
            if siblings or parent not in self._below or not parent:
                return
            del self._below[parent]
            child = parent

    def children(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes directly below a prefix, each sorted."""
        below = self._below.get(prefix, {})
        return sorted(child for child in below if child[-1] != "/"), sorted(
            child for child in below if child[-1] == "/"
        )

    def keys(self, prefix: str) -> list[str]:
        """Return all keys below a prefix."""
        found: list[str] = []
        pending = [prefix]
        while pending:
            for child in self._below.get(pending.pop(), ()):
                (pending if child[-1] == "/" else found).append(child)
        return found


def _parent(child: str) -> str:
    return child[: child.rfind("/", 0, len(child) - 1) + 1]
