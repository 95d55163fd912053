"""Hard and soft constraints on one chunk grid: `Grid`, and the merging of constraints.

A hard constraint must hold, a soft constraint is a preference. When two constraints are merged, a hard one overrides a
soft one, the first of two soft ones wins, and two hard ones must agree. This applies separately to each dimension of a
shape or aspect ratio, and to the number of elements.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from tegula.tensorstore.constraints.constraints import Constraints
from tegula.tensorstore.errors import invalid
from tegula.tensorstore.json.arguments import (
    MAX_RANK,
    check_rank,
    instance,
    naming,
    read_indices,
    read_int64,
    read_ratios,
    same_rank,
)
from tegula.tensorstore.json.binding import array_of, int64, known_only, member, number, obj, optional

__all__ = ["MAX_INDEX", "Count", "Grid", "Vector", "bind_grid", "check_values", "merged"]

MAX_INDEX = 2**62 - 2

N = TypeVar("N", int, float)


class Count(NamedTuple):
    """A number of elements, and whether it is a hard constraint."""

    value: int
    hard: bool

    def merged(self, new: Count) -> Count:
        """Return this constraint merged with a new one."""
        if self.hard and new.hard and self.value != new.value:
            raise invalid(f"New hard constraint ({new.value}) does not match existing hard constraint ({self.value})")
        return new if new.hard and not self.hard else self


class Vector(NamedTuple, Generic[N]):
    """A number or None (no constraint) for each dimension, and whether each is a hard constraint."""

    values: tuple[N | None, ...]
    hard: tuple[bool, ...]

    @staticmethod
    def empty(rank: int) -> Vector[Any]:
        """Return a vector without constraints."""
        return Vector((None,) * rank, (False,) * rank)

    def merged(self, new: Vector[N]) -> Vector[N]:
        """Return these constraints merged with new ones."""
        for axis, (old, value) in enumerate(zip(self.values, new.values, strict=True)):
            if self.hard[axis] and new.hard[axis] and old != value:
                raise invalid(
                    f"New hard constraint ({_shown(value)}) for dimension {axis} does not match existing hard "
                    f"constraint ({_shown(old)})"
                )
        values = tuple(
            value if value is not None and (hard or old is None) else old
            for old, value, hard in zip(self.values, new.values, new.hard, strict=True)
        )
        return Vector(values, tuple(map(operator.or_, self.hard, new.hard)))

    def only(self, hard: bool) -> tuple[N | None, ...]:
        """Return only the hard constraints, or only the soft ones."""
        return tuple(value if bit == hard else None for value, bit in zip(self.values, self.hard, strict=True))


class Grid(Constraints):
    """Constraints on the shape of the chunks of a regular grid.

    Parameters
    ----------
    json : object, optional
        The JSON representation, instead of all other arguments.
    rank : int, optional
        Number of dimensions.
    shape, shape_soft_constraint : sequence of (int or None), optional
        The size of a chunk in each dimension: None or 0 for no constraint, -1 for the whole extent of the domain.
    aspect_ratio, aspect_ratio_soft_constraint : sequence of (float or None), optional
        The ratios between the sizes that are not given: None or 0 for no constraint.
    elements, elements_soft_constraint : int, optional
        The target number of elements of a chunk, which is exceeded only if the shape requires it.
    grid, grid_soft_constraint : Grid, optional
        Constraints to merge in.

    Examples
    --------
    >>> grid = Grid(shape=[100, None], elements=1000)
    >>> grid.update(shape_soft_constraint=[7, 20])
    >>> grid.to_json()
    {'elements': 1000, 'shape': [100, None], 'shape_soft_constraint': [None, 20]}
    """

    __slots__ = ("_aspect_ratio", "_elements", "_rank", "_shape")
    _name: ClassVar[str] = "ChunkLayout.Grid"

    _rank: int | None
    _shape: Vector[int] | None
    _aspect_ratio: Vector[float] | None
    _elements: Count | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._rank = self._shape = self._aspect_ratio = self._elements = None
        if args or kwargs:
            self._take(args, kwargs)

    def update(
        self,
        *,
        rank: int | None = None,
        shape: Iterable[int | None] | None = None,
        shape_soft_constraint: Iterable[int | None] | None = None,
        aspect_ratio: Iterable[float | None] | None = None,
        aspect_ratio_soft_constraint: Iterable[float | None] | None = None,
        elements: int | None = None,
        elements_soft_constraint: int | None = None,
        grid: Grid | None = None,
        grid_soft_constraint: Grid | None = None,
    ) -> None:
        """Add constraints; the parameters are those of the class. If they contradict each other, change nothing."""
        new = self.copy()
        if rank is not None and rank != -1:
            with naming("rank"):
                new._set_rank(check_rank(rank))
        constraints: tuple[tuple[str, Any, Callable[[Any], Any]], ...] = (
            ("shape", (shape, shape_soft_constraint), read_indices),
            ("aspect_ratio", (aspect_ratio, aspect_ratio_soft_constraint), read_ratios),
            ("elements", (elements, elements_soft_constraint), read_int64),
        )
        for part, values, read in constraints:
            for value, suffix in zip(values, ("", "_soft_constraint"), strict=True):
                if value is not None:
                    with naming(part + suffix):
                        new._set_part(part, read(value), not suffix)
        for name, other in (("grid", grid), ("grid_soft_constraint", grid_soft_constraint)):
            if other is not None:
                with naming(name):
                    new._merge(instance(other, Grid))
        self._become(new)

    def _bind(self, value: Any) -> None:
        bind_grid(value, self._set_part)

    def _become(self, other: Grid) -> None:
        self._rank, self._shape = other._rank, other._shape
        self._aspect_ratio, self._elements = other._aspect_ratio, other._elements

    @property
    def rank(self) -> int | None:
        """Number of dimensions; None if it is unknown."""
        return self._rank

    ndim = rank
    """Number of dimensions; None if it is unknown."""

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """Hard constraints on the shape; None if the rank is unknown."""
        return self._only(self._shape, True)

    @property
    def shape_soft_constraint(self) -> tuple[int | None, ...] | None:
        """Soft constraints on the shape."""
        return self._only(self._shape, False)

    @property
    def aspect_ratio(self) -> tuple[float | None, ...] | None:
        """Hard constraints on the aspect ratio."""
        return self._only(self._aspect_ratio, True)

    @property
    def aspect_ratio_soft_constraint(self) -> tuple[float | None, ...] | None:
        """Soft constraints on the aspect ratio."""
        return self._only(self._aspect_ratio, False)

    @property
    def elements(self) -> int | None:
        """Hard constraint on the number of elements."""
        return self._elements.value if self._elements and self._elements.hard else None

    @property
    def elements_soft_constraint(self) -> int | None:
        """Soft constraint on the number of elements."""
        return self._elements.value if self._elements and not self._elements.hard else None

    def _only(self, vector: Vector[N] | None, hard: bool) -> tuple[N | None, ...] | None:
        if self._rank is None:
            return None
        return (None,) * self._rank if vector is None else vector.only(hard)

    def _shape_vector(self, rank: int) -> Vector[int]:
        """Return the constraints on the shape, hard and soft."""
        return self._shape or Vector.empty(rank)

    def _aspect_ratio_vector(self, rank: int) -> Vector[float]:
        """Return the constraints on the aspect ratio, hard and soft."""
        return self._aspect_ratio or Vector.empty(rank)

    @property
    def _count(self) -> Count | None:
        """The constraint on the number of elements."""
        return self._elements

    def _set_rank(self, rank: int) -> None:
        """Set the rank."""
        self._rank = same_rank(self._rank, rank)

    def _set_shape(self, values: Sequence[int | None], hard: bool) -> None:
        """Merge in a shape; a size of -1 is always a soft constraint."""
        if values := self._sized(values):
            check_values(values, lambda size: -1 <= size <= MAX_INDEX)
            new = tuple(size or None for size in values)
            bits = tuple(hard and size is not None and size != -1 for size in new)
            self._shape = merged(self._shape, Vector(new, bits))

    def _set_aspect_ratio(self, values: Sequence[float | None], hard: bool) -> None:
        """Merge in an aspect ratio."""
        if values := self._sized(values):
            check_values(values, lambda ratio: ratio >= 0 and math.isfinite(ratio))
            new = tuple(ratio or None for ratio in values)
            self._aspect_ratio = merged(self._aspect_ratio, Vector(new, tuple(hard and x is not None for x in new)))

    def _set_elements(self, value: int, hard: bool) -> None:
        """Merge in a number of elements."""
        if not 0 <= value <= MAX_INDEX:
            raise invalid(f"Invalid value: {value}")
        new = Count(value, hard)
        self._elements = new if self._elements is None else self._elements.merged(new)

    def _merge(self, other: Grid, parts: Iterable[str] = ("shape", "aspect_ratio", "elements")) -> None:
        """Merge in another grid's constraints on these parts."""
        if other._rank is not None:
            self._set_rank(other._rank)
        if "shape" in parts and other._shape:
            self._shape = merged(self._shape, other._shape)
        if "aspect_ratio" in parts and other._aspect_ratio:
            self._aspect_ratio = merged(self._aspect_ratio, other._aspect_ratio)
        if "elements" in parts and other._elements:
            self._elements = other._elements if self._elements is None else self._elements.merged(other._elements)

    def _harden(self, *, keep_soft: bool = False) -> None:
        """Keep only constraints on the shape: drop soft ones, or with `keep_soft` make them hard."""
        if self._shape is not None:
            values = self._shape.values if keep_soft else self._shape.only(True)
            self._shape = Vector(values, tuple(value is not None for value in values))
        self._aspect_ratio = self._elements = None

    def _sized(self, values: Sequence[Any]) -> Sequence[Any]:
        if len(values) > MAX_RANK:
            check_rank(len(values))
        if values:
            self._set_rank(len(values))
        return values

    def _set_part(self, part: str, value: Any, hard: bool) -> None:
        """Merge in a constraint on ``"shape"``, ``"aspect_ratio"`` or ``"elements"``."""
        if part == "shape":
            self._set_shape(value, hard)
        elif part == "aspect_ratio":
            self._set_aspect_ratio(value, hard)
        else:
            self._set_elements(value, hard)

    def to_json(self, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON representation; there are no defaults."""
        json: dict[str, Any] = {}
        for part in ("aspect_ratio", "elements", "shape"):
            for suffix in ("", "_soft_constraint"):
                value = getattr(self, part + suffix)
                if value is not None and (part == "elements" or any(x is not None for x in value)):
                    json[part + suffix] = list(value) if isinstance(value, tuple) else value
        return json

    def _state(self) -> tuple[Any, ...]:
        rank = self._rank or 0
        return (self._rank, self._shape_vector(rank), self._aspect_ratio_vector(rank), self._elements)

    def __repr__(self) -> str:
        return f"ChunkLayout.Grid({self.to_json()})"


def bind_grid(value: Any, target: Callable[[str, Any, bool], None]) -> None:
    """Read the JSON of a grid, and pass each member to a function of (part, value, hard)."""
    members = obj(value)
    for part, read in _JSON_READERS.items():
        for name, hard in ((part, True), (f"{part}_soft_constraint", False)):
            if name in members:
                with member(name):
                    target(part, read(members.pop(name)), hard)
    known_only(members)


_JSON_READERS: dict[str, Callable[[Any], Any]] = {
    "shape": lambda value: array_of(value, optional(int64)),
    "aspect_ratio": lambda value: array_of(value, optional(number)),
    "elements": int64,
}


def check_values(values: Sequence[Any], valid: Callable[[Any], bool], absent: int = 0) -> None:
    """Refuse invalid constraints."""
    for axis, value in enumerate(values):
        if value is not None and not valid(value):
            shown = ", ".join(_shown(absent if each is None else each) for each in values)
            raise invalid(f"Invalid value for dimension {axis}: {{{shown}}}")


def merged(old: Vector[N] | None, new: Vector[N]) -> Vector[N]:
    """Return constraints merged with new ones; None means no constraints."""
    return new if old is None else old.merged(new)


def _shown(value: float | int | None) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"
