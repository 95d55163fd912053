"""Base class of constraints: creation from JSON or keyword arguments, updates, copies and comparison."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

from tegula.tensorstore.errors import type_error
from tegula.tensorstore.json.arguments import only_json
from tegula.tensorstore.json.binding import MISSING
from tegula.tensorstore.json.values import to_json_value

__all__ = ["Constraints"]


class Constraints(ABC):
    """Base class of `Schema`, `ChunkLayout` and its grids."""

    __slots__ = ()
    _name: ClassVar[str]
    """The name of the class, as users know it."""
    update: Callable[..., None]
    """Adds constraints, given as keyword arguments."""

    def _take(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Add the arguments of a constructor: JSON, or keyword arguments."""
        json = only_json(self._name, args, kwargs)
        if json is MISSING:
            self.update(**kwargs)
        else:
            self._bind(to_json_value(json))

    @abstractmethod
    def _bind(self, value: Any) -> None:
        """Add constraints from JSON."""

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

    def __eq__(self, other: object) -> bool:
        return self._state() == other._state() if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        raise type_error(f"unhashable type: '{self._name}'")
