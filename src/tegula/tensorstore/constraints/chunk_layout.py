"""`ChunkLayout`: how an array is, or should be, divided into chunks for writing, for reading, and within the codec.

A hard constraint must hold, a soft constraint is a preference. When two constraints are merged, a hard one overrides a
soft one, the first of two soft ones wins, and two hard ones must agree. This applies separately to each dimension of a
shape or aspect ratio, and to the number of elements.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeAlias

from tegula.runtime.frozen import attribute
from tegula.tensorstore.errors import checked, invalid, type_error
from tegula.tensorstore.index.dim import Dim
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json.binding import (
    MAX_RANK,
    MISSING,
    array_of,
    check_rank,
    int64,
    integer,
    known_only,
    member,
    naming,
    number,
    obj,
    only_json,
    optional,
    read_indices,
    read_int64,
    read_ratios,
    take,
)
from tegula.tensorstore.json.values import pretty, to_json_value

__all__ = ["MAX_INDEX", "ChunkLayout", "Constraints", "Vector"]


MAX_INDEX = 2**62 - 2
USAGES = ("write", "read", "codec")
_SOFT: Final = "_soft_constraint"
_GRIDS = ("chunk", "write_chunk", "read_chunk", "codec_chunk")
_GRID_PARTS = ("shape", "aspect_ratio", "elements")


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


class Vector(NamedTuple):
    """A number or None (no constraint) for each dimension, and whether each is a hard constraint."""

    values: tuple[Any, ...]
    hard: tuple[bool, ...]

    def merged(self, new: Vector, what: str) -> Vector:
        """Return these constraints merged with new ones; `what` they constrain is for errors."""
        for axis, (old, value) in enumerate(zip(self.values, new.values, strict=True)):
            if self.hard[axis] and new.hard[axis] and old != value:
                where = f" for dimension {axis}" if what != "elements" else ""
                raise invalid(f"New hard constraint on {what}{where} ({value}) does not match existing one ({old})")
        values = tuple(
            value if value is not None and (hard or old is None) else old
            for old, value, hard in zip(self.values, new.values, new.hard, strict=True)
        )
        return Vector(values, tuple(map(operator.or_, self.hard, new.hard)))

    def only(self, hard: bool) -> tuple[Any, ...]:
        """Return only the hard constraints, or only the soft ones."""
        return tuple(value if bit == hard else None for value, bit in zip(self.values, self.hard, strict=True))


class _Part(NamedTuple):
    """One kind of constraint: its readers, and the check of its values."""

    from_argument: Callable[[Any], Any]
    from_json: Callable[[Any], Any]
    check: Callable[[Sequence[Any]], None]


def _check_order(order: Sequence[int]) -> None:
    if sorted(order) != list(range(len(order))):
        raise invalid(f"Invalid permutation: {[*order]}")


def _each(is_valid: Callable[[Any], bool]) -> Callable[[Sequence[Any]], None]:
    """Return a check of the value for each dimension."""

    def check(values: Sequence[Any]) -> None:
        for axis, value in enumerate(values):
            if value is not None and not is_valid(value):
                raise invalid(f"Invalid value for dimension {axis}: {value}")

    return check


_PARTS: Final = {
    "inner_order": _Part(
        lambda order: [read_int64(axis) for axis in order],
        optional(lambda order: array_of(order, lambda axis: integer(axis, 0, MAX_RANK - 1))),
        _check_order,
    ),
    "grid_origin": _Part(
        read_indices, lambda value: array_of(value, optional(int64)), _each(lambda origin: abs(origin) <= MAX_INDEX)
    ),
    "shape": _Part(
        read_indices, lambda value: array_of(value, optional(int64)), _each(lambda size: -1 <= size <= MAX_INDEX)
    ),
    "aspect_ratio": _Part(
        read_ratios,
        lambda value: array_of(value, optional(number)),
        _each(lambda ratio: ratio >= 0 and math.isfinite(ratio)),
    ),
    "elements": _Part(read_int64, int64, _each(lambda count: 0 <= count <= MAX_INDEX)),
}


def _take_parts(members: dict[str, Any], parts: Iterable[str], add: Callable[[str, Any, bool], None]) -> None:
    """Remove constraints from JSON, and pass each to a function of (part, value, hard)."""
    for part in parts:
        for name in (part, part + _SOFT):
            if name in members:
                with member(name):
                    add(part, _PARTS[part].from_json(members.pop(name)), name == part)


class _Vectors(Constraints):
    """Hard and soft constraints on parts, most of which have a value for each dimension."""

    __slots__ = ("_parts", "_rank")
    _own: ClassVar[tuple[str, ...]]
    """The parts that objects of this class have."""

    _rank: int | None
    _parts: dict[str, Vector]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._rank, self._parts = None, {}
        if args or kwargs:
            self._take(args, kwargs)

    def _become(self, other: Self) -> None:
        self._rank, self._parts = other._rank, other._parts.copy()

    def _add(self, rank: int | None, values: Mapping[str, Any]) -> None:
        """Add keyword arguments: a rank, and constraints by name."""
        if rank is not None and rank != -1:
            with naming("rank"):
                self._set_rank(check_rank(rank))
        for name, value in values.items():
            if value is not None:
                part = name.removesuffix(_SOFT)
                with naming(name):
                    self._set_part(part, _PARTS[part].from_argument(value), part == name)

    def _vector(self, part: str) -> Vector:
        """Return the hard and soft constraints on a part, with a value for each dimension."""
        size = 1 if part == "elements" else self._rank or 0
        return self._parts.get(part) or Vector((None,) * size, (False,) * size)

    def _only(self, part: str, hard: bool) -> Any:
        if part == "elements":
            return self._vector(part).only(hard)[0]
        return None if self._rank is None else self._vector(part).only(hard)

    def _set_rank(self, rank: int) -> None:
        """Set the rank."""
        if self._rank not in (None, rank):
            raise invalid(f"Rank {rank} does not match existing rank {self._rank}")
        self._rank = rank

    def _set_part(self, part: str, value: Any, hard: bool) -> None:
        """Merge in a constraint on a part; a size of -1 is always soft."""
        values = [value] if part == "elements" else value
        if not values:
            return
        if part != "elements":
            self._set_rank(check_rank(len(values)))
        _PARTS[part].check(values)
        any_size = part in ("shape", "aspect_ratio")  # for which 0 means no constraint
        new = tuple((each or None) if any_size else each for each in values)
        bits = tuple(hard and each is not None and not (each == -1 and any_size) for each in new)
        self._merge_part(part, Vector(new, bits))

    def _merge_part(self, part: str, vector: Vector | None) -> None:
        if vector is not None:
            known = self._parts.get(part)
            self._parts[part] = vector if known is None else known.merged(vector, part)

    def _merge(self, other: _Vectors, parts: Iterable[str] = tuple(_PARTS)) -> None:
        """Merge in the constraints of another object on these parts."""
        if other._rank is not None:
            self._set_rank(other._rank)
        for part in parts:
            self._merge_part(part, other._parts.get(part))

    def to_json(self, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON representation; there are no defaults."""
        json: dict[str, Any] = {}
        for part in self._own:
            for suffix in ("", _SOFT):
                value = getattr(self, part + suffix)
                if value is not None and (part == "elements" or any(x is not None for x in value)):
                    json[part + suffix] = list(value) if isinstance(value, tuple) else value
        return json

    def _state(self) -> tuple[Any, ...]:
        return (self._rank, *map(self._vector, self._own))


def _from(method: str, *args: Any, doc: str) -> Any:
    """Return the read-only property that calls a method with these arguments."""
    return property(lambda self: getattr(self, method)(*args), doc=doc)


class ChunkGrid(_Vectors):
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
    >>> grid = ChunkGrid(shape=[100, None], elements=1000)
    >>> grid.update(shape_soft_constraint=[7, 20])
    >>> grid.to_json()
    {'elements': 1000, 'shape': [100, None], 'shape_soft_constraint': [None, 20]}
    """

    __slots__ = ()
    _name: ClassVar[str] = "ChunkLayout.Grid"
    _own: ClassVar[tuple[str, ...]] = ("aspect_ratio", "elements", "shape")

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
        grid: ChunkGrid | None = None,
        grid_soft_constraint: ChunkGrid | None = None,
    ) -> None:
        """Add constraints; the parameters are those of the class. If they contradict each other, change nothing."""
        new = self.copy()
        parts = {
            "shape": shape,
            "shape_soft_constraint": shape_soft_constraint,
            "aspect_ratio": aspect_ratio,
            "aspect_ratio_soft_constraint": aspect_ratio_soft_constraint,
            "elements": elements,
            "elements_soft_constraint": elements_soft_constraint,
        }
        new._add(rank, parts)
        for name, other in (("grid", grid), ("grid_soft_constraint", grid_soft_constraint)):
            if other is not None:
                with naming(name):
                    new._merge(checked(name, other, ChunkGrid))
        self._become(new)

    def _bind(self, value: Any) -> None:
        _bind_grid(value, self._set_part)

    rank: int | None = attribute("_rank", "Number of dimensions; None if it is unknown.")

    ndim = rank
    """Number of dimensions; None if it is unknown."""

    shape: tuple[int | None, ...] | None = _from(
        "_only", "shape", True, doc="Hard constraints on the shape; None if the rank is unknown."
    )
    shape_soft_constraint: tuple[int | None, ...] | None = _from(
        "_only", "shape", False, doc="Soft constraints on the shape."
    )
    aspect_ratio: tuple[float | None, ...] | None = _from(
        "_only", "aspect_ratio", True, doc="Hard constraints on the aspect ratio."
    )
    aspect_ratio_soft_constraint: tuple[float | None, ...] | None = _from(
        "_only", "aspect_ratio", False, doc="Soft constraints on the aspect ratio."
    )
    elements: int | None = _from("_only", "elements", True, doc="Hard constraint on the number of elements.")
    elements_soft_constraint: int | None = _from(
        "_only", "elements", False, doc="Soft constraint on the number of elements."
    )

    def _numbers(self, rank: int) -> tuple[list[int], list[float], int | None]:
        """Return the constraints in the first dimensions: sizes and ratios (0 for none), and number of elements."""
        sizes, ratios = (
            [value or 0 for value in (*self._vector(part).values, *[None] * rank)[:rank]]
            for part in ("shape", "aspect_ratio")
        )
        return sizes, ratios, self._vector("elements").values[0]

    def _harden(self, *, keep_soft: bool = False) -> None:
        """Keep only constraints on the shape: drop soft ones, or with `keep_soft` make them hard."""
        shape = self._parts.get("shape")
        self._parts = {}
        if shape is not None:
            values = shape.values if keep_soft else shape.only(True)
            self._parts["shape"] = Vector(values, tuple(value is not None for value in values))

    def __repr__(self) -> str:
        return f"ChunkLayout.Grid({self.to_json()})"


def _bind_grid(value: Any, target: Callable[[str, Any, bool], None]) -> None:
    """Read the JSON of a grid, and pass each member to a function of (part, value, hard)."""
    members = obj(value)
    _take_parts(members, _GRID_PARTS, target)
    known_only(members)


def _usages(prefix: str, part: str) -> tuple[str, ...]:
    """Return the grids that a constraint applies to: ``chunk`` includes the codec's grid only for aspect ratios."""
    if prefix != "chunk":
        return (prefix.removesuffix("_chunk"),)
    return USAGES if part == "aspect_ratio" else USAGES[:2]


class ChunkLayout(_Vectors):
    """A chunk layout, or constraints on one.

    Parameters
    ----------
    json : object, optional
        The JSON representation, instead of all other arguments.
    rank : int, optional
        Number of dimensions.
    inner_order, inner_order_soft_constraint : sequence of int, optional
        A permutation: the dimensions from the outermost to the innermost in memory.
    grid_origin, grid_origin_soft_constraint : sequence of (int or None), optional
        The origin of the chunk grid.
    chunk, write_chunk, read_chunk, codec_chunk : ChunkLayout.Grid, optional
        Constraints on a grid; ``chunk`` constrains both the read and the write grid.
    chunk_shape, write_chunk_aspect_ratio, read_chunk_elements, ... : optional
        Single constraints on a grid: hard, or soft with the suffix ``_soft_constraint``.
    finalize : bool, optional
        Keep only the hard constraints, and refuse an incomplete layout.

    Examples
    --------
    >>> layout = ChunkLayout(inner_order=[0, 2, 1], write_chunk_shape_soft_constraint=[100, None, 200])
    >>> layout.update(read_chunk_elements=1000000)
    >>> layout
    ChunkLayout({
      'inner_order': [0, 2, 1],
      'read_chunk': {'elements': 1000000},
      'write_chunk': {'shape_soft_constraint': [100, None, 200]},
    })
    """

    __slots__ = ("_grids",)
    _name: ClassVar[str] = "ChunkLayout"
    _own: ClassVar[tuple[str, ...]] = ("inner_order", "grid_origin")

    Grid: TypeAlias = ChunkGrid

    _grids: dict[str, ChunkGrid]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._grids = {"write": ChunkGrid(), "read": ChunkGrid(), "codec": ChunkGrid()}
        super().__init__(*args, **kwargs)

    def update(
        self,
        *,
        rank: int | None = None,
        inner_order: Iterable[int] | None = None,
        inner_order_soft_constraint: Iterable[int] | None = None,
        grid_origin: Iterable[int | None] | None = None,
        grid_origin_soft_constraint: Iterable[int | None] | None = None,
        finalize: bool | None = None,
        **grids: Any,
    ) -> None:
        """Add constraints; the parameters are those of the class. If they contradict each other, change nothing."""
        if unknown := grids.keys() - _GRID_KEYWORDS.keys():
            raise type_error(f"ChunkLayout has no keyword argument {min(unknown)!r}")
        new = self.copy()
        parts = {
            "inner_order": inner_order,
            "inner_order_soft_constraint": inner_order_soft_constraint,
            "grid_origin": grid_origin,
            "grid_origin_soft_constraint": grid_origin_soft_constraint,
        }
        new._add(rank, parts)
        for name in sorted(grids, key=_GRID_ORDER.__getitem__) if grids else ():
            if grids[name] is not None:
                new._update_grid(name, grids[name])
        if finalize:
            with naming("finalize"):
                new._finalize()
        self._become(new)

    def _update_grid(self, name: str, value: Any) -> None:
        prefix, part, hard = _GRID_KEYWORDS[name]
        with naming(name):
            if part:
                self._set_parts(prefix, part, _PARTS[part].from_argument(value), hard)
            else:
                self._merge_grid(prefix, checked(name, value, ChunkGrid))

    def _become(self, other: ChunkLayout) -> None:
        self._rank, self._parts = other._rank, other._parts.copy()
        write, read, codec = other._grids.values()
        self._grids = {"write": write.copy(), "read": read.copy(), "codec": codec.copy()}

    @property
    def rank(self) -> int:
        """Number of dimensions; -1 if it is unknown."""
        return -1 if self._rank is None else self._rank

    ndim = rank
    """Number of dimensions; -1 if it is unknown."""

    inner_order: tuple[int, ...] | None = _from(
        "_order", True, doc="Hard constraint on the order of the dimensions inside a chunk."
    )
    inner_order_soft_constraint: tuple[int, ...] | None = _from(
        "_order", False, doc="Soft constraint on the order of the dimensions inside a chunk."
    )
    grid_origin: tuple[int | None, ...] | None = _from(
        "_only", "grid_origin", True, doc="Hard constraints on the origin of the grid."
    )
    grid_origin_soft_constraint: tuple[int | None, ...] | None = _from(
        "_only", "grid_origin", False, doc="Soft constraints on the origin of the grid."
    )
    write_chunk: ChunkGrid = _from("_copy_of", "write", doc="Constraints on the chunks for efficient writes; a copy.")
    read_chunk: ChunkGrid = _from("_copy_of", "read", doc="Constraints on the chunks for efficient reads; a copy.")
    codec_chunk: ChunkGrid = _from("_copy_of", "codec", doc="Constraints on the chunks within the codec; a copy.")
    write_chunk_template: IndexDomain = _from(
        "_template",
        "write",
        doc="The domain of the write chunk at the grid's origin; unbounded in dimensions without hard constraints.",
    )
    read_chunk_template: IndexDomain = _from(
        "_template",
        "read",
        doc="The domain of the read chunk at the grid's origin; unbounded in dimensions without hard constraints.",
    )

    def _grid(self, usage: str) -> ChunkGrid:
        """Return the grid for ``"write"``, ``"read"`` or ``"codec"``, not a copy."""
        return self._grids[usage]

    def _copy_of(self, usage: str) -> ChunkGrid:
        return self._grids[usage].copy()

    def _order(self, hard: bool) -> tuple[int, ...] | None:
        order = self._parts.get("inner_order")
        if self._rank == 0 and not hard:
            return ()
        return None if order is None or order.hard[0] != hard else order.values

    def _template(self, usage: str) -> IndexDomain:
        """Return the domain of the first chunk of a grid."""
        if self._rank is None:
            raise invalid("Rank of chunk layout is unspecified")
        dims = [Dim() for _ in range(self._rank)]
        sizes = self._grid(usage)._vector("shape").only(True)
        for axis, (origin, size) in enumerate(zip(self._vector("grid_origin").only(True), sizes, strict=True)):
            if origin is not None and size is not None:
                if origin + size > MAX_INDEX + 2:
                    raise invalid(f"Origin {origin} and size {size} of chunks are too large for dimension {axis}")
                dims[axis] = Dim(inclusive_min=origin, exclusive_max=origin + size)
        return IndexDomain(dims).mark_bounds_implicit[False]

    def _set_rank(self, rank: int) -> None:
        """Set the rank."""
        super()._set_rank(rank)
        if rank:
            for grid in self._grids.values():
                grid._set_rank(rank)

    def _set_parts(self, prefix: str, part: str, value: Any, hard: bool) -> None:
        """Merge in a constraint on a part of the layout, or of the grids that the argument `prefix` stands for."""
        if not prefix:
            self._set_part(part, value, hard)
            return
        if part != "elements" and value:
            self._set_rank(check_rank(len(value)))
        for usage in _usages(prefix, part):
            self._grid(usage)._set_part(part, value, hard)

    def _merge_grid(self, prefix: str, grid: ChunkGrid) -> None:
        """Merge in a grid that was given as the argument `prefix`."""
        if grid.rank:
            self._set_rank(grid.rank)
        for part in _GRID_PARTS:
            for usage in _usages(prefix, part):
                self._grid(usage)._merge(grid, (part,))

    def _merge(self, other: _Vectors, parts: Iterable[str] = ("inner_order", "grid_origin")) -> None:
        """Merge in the constraints of another layout."""
        super()._merge(other, parts)
        if isinstance(other, ChunkLayout):
            for usage, grid in other._grids.items():
                self._merge_grid(f"{usage}_chunk", grid)

    def _finalize(self) -> None:
        """Keep only hard constraints; refuse a layout without rank or origin, or with incompatible chunks."""
        if self._rank is None:
            raise invalid("rank must be specified")
        for axis, value in enumerate(self._vector("grid_origin").only(True)):
            if value is None:
                raise invalid(f"No grid_origin hard constraint for dimension {axis}")
        for grid in self._grids.values():
            grid._harden()
        self._grids["read"]._set_part("shape", self._grids["write"]._vector("shape").values, False)
        self._grids["read"]._harden(keep_soft=True)
        sizes = [grid._numbers(self._rank)[0] for grid in self._grids.values()]
        origin = [value or 0 for value in self._vector("grid_origin").values]
        for usage, shape in zip(USAGES, sizes, strict=True):
            if any(start + size > MAX_INDEX for start, size in zip(origin, shape, strict=True)):
                raise invalid(f"The {usage} chunk grid is too large: origin {origin}, shape {shape}")
        if any(small and large % small for large, small in zip(sizes[0], sizes[1], strict=True)):
            raise invalid(f"write chunk shape {sizes[0]} is not a multiple of read chunk shape {sizes[1]}")

    def to_json(self, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON representation; there are no defaults."""
        json = super().to_json()
        json |= {f"{usage}_chunk": shown for usage, grid in self._grids.items() if (shown := grid.to_json())}
        parts = [part for value in json.values() for part in (value.values() if isinstance(value, dict) else [value])]
        if self._rank is not None and not any(isinstance(part, list) for part in parts):
            json["rank"] = self._rank  # no vector shows the rank
        return dict(sorted(json.items()))

    def _bind(self, value: Any) -> None:
        members = obj(value)
        take(members, "rank", lambda rank: self._set_rank(integer(rank, 0, MAX_RANK)))
        _take_parts(members, self._own, partial(self._bind_parts, ""))
        for prefix in _GRIDS:
            take(members, prefix, partial(_bind_grid, target=partial(self._bind_parts, prefix)))
        known_only(members)

    def _bind_parts(self, prefix: str, part: str, value: Any, hard: bool) -> None:
        if value is None:
            return
        if part != "elements":  # in JSON, an empty list has a rank, too
            self._set_rank(check_rank(len(value)))
        self._set_parts(prefix, part, value, hard)

    def _state(self) -> tuple[Any, ...]:
        vectors = [*map(self._vector, self._own)]
        vectors += [grid._vector(part) for grid in self._grids.values() for part in _GRID_PARTS]
        known = [vector if any(value is not None for value in vector.values) else () for vector in vectors]
        # the rank counts only as far as there are constraints for its dimensions
        return known, self._rank is None and not any(known)

    def __repr__(self) -> str:
        return pretty(self.to_json(), "ChunkLayout(", ")")


_GRID_KEYWORDS: dict[str, tuple[str, str, bool]] = {
    **{prefix: (prefix, "", True) for prefix in _GRIDS},
    **{
        f"{prefix}_{part}{'' if hard else _SOFT}": (prefix, part, hard)
        for part in _GRID_PARTS
        for prefix in _GRIDS
        for hard in (True, False)
    },
}
"""The keyword arguments for grids, in the order in which they take effect: the grid, the part, whether it is hard."""
_GRID_ORDER = {name: number for number, name in enumerate(_GRID_KEYWORDS)}
