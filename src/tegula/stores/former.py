"""Deprecated names of operations that every store had before capabilities; they warn with `DeprecationWarning`."""

from __future__ import annotations

import warnings
from abc import ABCMeta
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

from tegula.stores.arguments import check_key, check_prefix
from tegula.stores.capabilities import (
    Anchoring,
    BlockedKeys,
    EmptyDirectories,
    Locking,
    Reclaiming,
    Renaming,
    UnreachableNames,
)
from tegula.stores.operations import Writable

__all__ = ["FormerNames"]

_CAPABILITIES: dict[str, tuple[ABCMeta, str]] = {
    "turn": (Locking, "lock"),
    "obstruction": (BlockedKeys, "blocked_by"),
    "leftovers": (Reclaiming, "leftovers"),
    "reclaim": (Reclaiming, "reclaim"),
    "make_prefix": (EmptyDirectories, "make_prefix"),
    "has_prefix": (EmptyDirectories, "has_prefix"),
    "anchored": (Anchoring, "anchored"),
    "move_prefix": (Renaming, "move_prefix"),
    "unreachable": (UnreachableNames, "unreachable"),
}
"""For each operation that all stores used to have: its present capability, and its name there."""


class FormerNames:
    """Operations under their former names, and operations of capabilities that a store lacks.

    A subclass that defines such an operation without naming its capability gets the capability, with a warning.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for former, (capability, name) in _CAPABILITIES.items():
            renamed = name != former
            if former in vars(cls) and (renamed or not issubclass(cls, capability)):
                advice = f"add tegula.stores.capabilities.{capability.__name__} to the bases of {cls.__name__}"
                _warn(f"{cls.__name__}.{former}: {advice}" + (f", and rename it to {name}" if renamed else ""))
                if name not in vars(cls):
                    setattr(cls, name, vars(cls)[former])
                if not issubclass(cls, capability):
                    capability.register(cls)

    def turn(self, key: str) -> AbstractContextManager[bool]:
        """Lock a key; deprecated, see `tegula.stores.capabilities.lock`."""
        _warn("Store.turn is deprecated; use tegula.stores.capabilities.lock(store, key)")
        found = self._renamed("lock", "turn")
        if found is not None:
            return found(self, key)  # type: ignore[no-any-return]
        check_key(key)
        return nullcontext(False)

    def obstruction(self, key: str) -> str | None:
        """Describe what is in the place of a key; deprecated, see `tegula.stores.capabilities.blocked_by`."""
        _warn("Store.obstruction is deprecated; use tegula.stores.capabilities.blocked_by(store, key)")
        found = self._renamed("blocked_by", "obstruction")
        if found is not None:
            return found(self, key)  # type: ignore[no-any-return]
        check_key(key)
        return None

    def leftovers(self, prefix: str = "") -> Iterator[str]:
        """Yield nothing; deprecated for stores that are not `Reclaiming`."""
        _lacks(self, "leftovers", prefix)
        return iter(())

    def reclaim(self, prefix: str = "") -> int:
        """Return 0; deprecated for stores that are not `Reclaiming`."""
        _lacks(self, "reclaim", prefix)
        return 0

    def make_prefix(self, prefix: str) -> None:
        """Do nothing; deprecated for stores without `EmptyDirectories`."""
        _lacks(self, "make_prefix", prefix)

    def has_prefix(self, prefix: str) -> bool:
        """Return True; deprecated for stores without `EmptyDirectories`."""
        _lacks(self, "has_prefix", prefix)
        return True

    def anchored(self, document: str) -> Self:
        """Return this store; deprecated for stores that are not `Anchoring`."""
        _lacks(self, "anchored", "")
        check_key(document)
        return self

    def move_prefix(self, prefix: str, target: Writable, new: str) -> bool:
        """Return False; deprecated for stores that are not `Renaming`."""
        _lacks(self, "move_prefix", prefix)
        check_prefix(new)
        return False

    def unreachable(self, prefix: str = "") -> Iterator[str]:
        """Yield nothing; deprecated for stores without `UnreachableNames`."""
        _lacks(self, "unreachable", prefix)
        return iter(())

    def _renamed(self, name: str, former: str) -> Callable[..., Any] | None:
        """Return the operation that this store inherits under its new name, unless it calls the former name again."""
        for kind in type(self).__mro__:
            found: Any = vars(kind).get(name)
            if found is not None and found is not vars(kind).get(former):
                return found  # type: ignore[no-any-return]
        return None


def _lacks(store: object, name: str, prefix: str) -> None:
    capability = _CAPABILITIES[name][0].__name__
    _warn(f"{type(store).__name__} has no {name}: only tegula.stores.capabilities.{capability} stores have it")
    check_prefix(prefix)


def _warn(message: str) -> None:
    warnings.warn(message, DeprecationWarning, stacklevel=3)
