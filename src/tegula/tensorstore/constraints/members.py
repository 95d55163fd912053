"""`Constraints`: values with named members, each of which says how it is read, merged and written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

from tegula.tensorstore.errors import type_error
from tegula.tensorstore.json.binding import MISSING, known_only, naming, obj, only_json, take
from tegula.tensorstore.json.values import pretty, to_json_value

__all__ = ["Constraints", "Member"]


class Member(NamedTuple):
    """How constraints merge in a keyword argument, how a member of their JSON, and how they write this, or `MISSING`.

    A function is None if there is no such argument or member.
    """

    argument: Callable[[Any, Any], None] | None = None
    json: Callable[[Any, Any], None] | None = None
    shown: Callable[[Any, bool], Any] | None = None


class Constraints(ABC):
    """Base class of `Schema`, `ChunkLayout` and its grids."""

    __slots__ = ()
    _name: ClassVar[str]
    """The name of the class, as users know it."""
    _members: ClassVar[Mapping[str, Member]]
    """The members in the order in which they are merged in."""
    update: Callable[..., None]
    """Adds constraints, given as keyword arguments."""

    def _take(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Add the arguments of a constructor: JSON, or keyword arguments."""
        json = only_json(self._name, args, kwargs)
        if json is MISSING:
            self.update(**kwargs)
        else:
            self._bind(to_json_value(json))

    def _bind(self, value: Any) -> None:
        """Add constraints from JSON."""
        members = obj(value)
        self._bind_members(members, self._members)
        known_only(members)

    def _bind_members(self, members: dict[str, Any], names: Iterable[str]) -> None:
        """Remove members of these names from JSON, and add their constraints."""
        for name in names:
            if name in members and (json := self._members[name].json) is not None:
                take(members, name, partial(json, self))

    def _add(self, given: Mapping[str, Any]) -> None:
        """Add constraints, given as keyword arguments; if they contradict each other, change nothing."""
        new = self.copy()
        for name, known in self._members.items():
            if known.argument is not None and (value := given.get(name)) is not None:
                with naming(name):
                    known.argument(new, value)
        self._become(new)

    @abstractmethod
    def _become(self, other: Self) -> None:
        """Replace all constraints by those of another object."""

    @abstractmethod
    def _state(self) -> tuple[Any, ...]:
        """Return the values that ``==`` compares."""

    def copy(self) -> Self:
        """Return a copy."""
        new = type(self).__new__(type(self))
        new._become(self)
        return new

    def to_json(self, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON representation."""
        shown = {name: m.shown(self, include_defaults) for name, m in self._members.items() if m.shown is not None}
        return {name: value for name, value in sorted(shown.items()) if value is not MISSING}

    def __eq__(self, other: object) -> bool:
        return self._state() == other._state() if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        raise type_error(f"unhashable type: '{self._name}'")

    def __repr__(self) -> str:
        return pretty(self.to_json(), f"{self._name}(", ")")
