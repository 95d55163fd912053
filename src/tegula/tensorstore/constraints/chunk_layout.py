"""`ChunkLayout`: how an array is, or should be, divided into chunks for writing, for reading, and within the codec.

A hard constraint must hold, a soft constraint is a preference. When two constraints are merged, a hard one overrides a
soft one, the first of two soft ones wins, and two hard ones must agree. This applies separately to each dimension of a
shape or aspect ratio, and to the number of elements.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeAlias

from tegula.runtime.frozen import attribute, computed
from tegula.tensorstore.constraints.chunk_shapes import Extents, choose_shape
from tegula.tensorstore.errors import checked, invalid, stating, type_error, unhashable
from tegula.tensorstore.index.dim import Dim
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json import (
    MAX_RANK,
    MISSING,
    array_of,
    check_rank,
    int64,
    integer,
    known_only,
    naming,
    number,
    obj,
    only_json,
    optional,
    pretty,
    read_indices,
    read_int64,
    read_number,
    read_object,
    take,
    to_json_value,
)

__all__ = ["MAX_INDEX", "ChunkGrid", "ChunkLayout", "Constraints", "Member", "Vector"]


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
    __hash__ = unhashable
    _name: ClassVar[str]
    """The name of the class, as users know it."""
    _members: ClassVar[Mapping[str, Member]]
    """The members in the order in which they are merged in."""
    update: Callable[..., None]
    """Adds constraints, given as keyword arguments."""

    def _take(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Add the arguments of a constructor: JSON, or keyword arguments."""
        json = only_json(self._name, args, kwargs, ", or keyword arguments")
        if json is MISSING:
            self.update(**kwargs)
        else:
            members = obj(to_json_value(json))
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

    def __repr__(self) -> str:
        return pretty(self.to_json(), f"{self._name}(", ")")


MAX_INDEX = 2**62 - 2
USAGES = ("write", "read", "codec")
_SOFT: Final = "_soft_constraint"
_GRIDS = ("chunk", "write_chunk", "read_chunk", "codec_chunk")
_GRID_PARTS = ("shape", "aspect_ratio", "elements")


class Vector(NamedTuple):
    """A number or None (no constraint) for each dimension, and whether each is a hard constraint."""

    values: tuple[Any, ...]
    hard: tuple[bool, ...]

    def merged(self, new: Vector, part: str) -> Vector:
        """Return these constraints merged with new ones; the part that they constrain is for errors."""
        for axis, (old, value) in enumerate(zip(self.values, new.values, strict=True)):
            if self.hard[axis] and new.hard[axis] and old != value:
                where = "" if part.endswith("elements") else f" for dimension {axis}"
                what = part.replace("_chunk_", "_chunk ")
                raise invalid(f"New hard constraint on {what}{where} ({value}) does not match existing one ({old})")
        values = tuple(
            value if value is not None and (hard or old is None) else old
            for old, value, hard in zip(self.values, new.values, new.hard, strict=True)
        )
        return Vector(values, tuple(map(operator.or_, self.hard, new.hard)))

    def only(self, hard: bool) -> tuple[Any, ...]:
        """Return only the hard constraints, or only the soft ones."""
        return tuple(value if bit == hard else None for value, bit in zip(self.values, self.hard, strict=True))


class _Kind(NamedTuple):
    """One kind of constraint: its readers, and which values it may have."""

    from_argument: Callable[[Any], Any]
    from_json: Callable[[Any], Any]
    is_valid: Callable[[Any], bool]


_KINDS: Final = {
    "inner_order": _Kind(
        lambda order: [read_int64(axis) for axis in order],
        optional(lambda order: array_of(order, lambda axis: integer(axis, 0, MAX_RANK - 1))),
        lambda axis: True,
    ),
    "grid_origin": _Kind(
        read_indices, lambda value: array_of(value, optional(int64)), lambda origin: abs(origin) <= MAX_INDEX
    ),
    "shape": _Kind(read_indices, lambda value: array_of(value, optional(int64)), lambda size: -1 <= size <= MAX_INDEX),
    "aspect_ratio": _Kind(
        lambda ratios: [*map(optional(read_number), ratios)],
        lambda value: array_of(value, optional(number)),
        lambda ratio: bool(ratio >= 0 and math.isfinite(ratio)),
    ),
    "elements": _Kind(read_int64, int64, lambda count: 0 <= count <= MAX_INDEX),
}


def _parts_of(prefix: str, kind: str) -> tuple[str, ...]:
    """Return the parts of a layout that a constraint applies to: ``chunk`` has the codec only for aspect ratios."""
    if prefix != "chunk":
        return (f"{prefix}_{kind}" if prefix else kind,)
    return tuple(f"{usage}_chunk_{kind}" for usage in USAGES if usage != "codec" or kind == "aspect_ratio")


class _Constraint(property):
    """The property for the constraint of its name."""

    def __init__(self, doc: str) -> None:
        super().__init__(lambda owner: owner._only(self.part, self.part == self.name))
        self.__doc__ = doc  # before Python 3.13, the docstring of the class hides that of a property

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)  # type: ignore[misc]  # `property` has it, to name itself in errors
        self.name, self.part = name, name.removesuffix(_SOFT)


_constraint: Callable[[str], Any] = _Constraint


def _of_usage(method: str, usage: str, doc: str) -> Any:
    return computed(lambda layout: getattr(layout, method)(usage), doc)


class _Vectors(Constraints):
    """Hard and soft constraints on parts, most of which have a value for each dimension."""

    __slots__ = ("_parts", "_rank")
    _own: ClassVar[dict[str, str]]
    """The parts that objects of this class have, and the kind of each."""
    _least_rank: ClassVar[int] = 0
    """The lowest rank that counts when an object of this class is merged into another."""

    _rank: int | None
    _parts: dict[str, Vector]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._rank, self._parts = None, {}
        if args or kwargs:
            self._take(args, kwargs)

    def _become(self, other: Self) -> None:
        self._rank, self._parts = other._rank, other._parts.copy()

    def _vector(self, part: str) -> Vector:
        """Return the hard and soft constraints on a part, with a value for each dimension."""
        size = 1 if part.endswith("elements") else self._rank or 0
        return self._parts.get(part) or Vector((None,) * size, (False,) * size)

    def _only(self, part: str, hard: bool) -> Any:
        if part == "elements":
            return self._vector(part).only(hard)[0]
        return None if self._rank is None else self._vector(part).only(hard)

    def _set_rank(self, rank: int) -> None:
        if self._rank not in (None, rank):
            raise invalid(f"Rank {rank} does not match existing rank {self._rank}")
        self._rank = rank

    def _set(self, part: str, value: Any, hard: bool) -> None:
        """Merge in a constraint on a part; a size of -1 is always soft."""
        kind = self._own[part]
        values = [value] if kind == "elements" else value
        if not values:
            return
        if kind != "elements":
            self._set_rank(check_rank(len(values)))
        if kind == "inner_order" and sorted(values) != [*range(len(values))]:
            raise invalid(f"Invalid permutation: {[*values]}")
        for axis, each in enumerate(values):
            if each is not None and not _KINDS[kind].is_valid(each):
                raise invalid(f"Invalid value for dimension {axis}: {each}")
        any_size = kind in ("shape", "aspect_ratio")  # for which 0 means no constraint
        new = tuple((each or None) if any_size else each for each in values)
        bits = tuple(hard and each is not None and not (each == -1 and any_size) for each in new)
        self._merge_part(part, Vector(new, bits))

    def _merge_rank(self, other: _Vectors) -> None:
        """Set the rank to that of another object, if it counts."""
        if other._rank is not None and other._rank >= other._least_rank:
            self._set_rank(other._rank)

    def _merge_part(self, part: str, vector: Vector | None) -> None:
        if vector is not None:
            known = self._parts.get(part)
            self._parts[part] = vector if known is None else known.merged(vector, part)

    def _merge(self, other: Self) -> None:
        self._merge_rank(other)
        for part in self._own:
            self._merge_part(part, other._parts.get(part))

    def _set_parts(self, prefix: str, kind: str, value: Any, hard: bool) -> None:
        """Merge in a constraint on the parts that `prefix` stands for."""
        for part in _parts_of(prefix, kind):
            self._set(part, value, hard)

    def _bind_parts(self, prefix: str, kind: str, hard: bool, value: Any) -> None:
        self._set_parts(prefix, kind, _KINDS[kind].from_json(value), hard)

    def _shown(self, part: str, hard: bool) -> Any:
        value = self._only(part, hard)
        if isinstance(value, tuple):
            return [*value] if any(x is not None for x in value) else MISSING
        return MISSING if value is None else value

    def _state(self) -> tuple[Any, ...]:
        return (self._rank, *map(self._vector, self._own))


def _vectors(*kinds: str) -> dict[str, tuple[str, bool]]:
    """Return the members for constraints of these kinds, and of each its kind and whether it is hard."""
    return {kind + suffix: (kind, not suffix) for kind in kinds for suffix in ("", _SOFT)}


def _vector(prefix: str, kind: str, hard: bool) -> Member:
    """Return how a constraint on the parts that `prefix` stands for is read and written."""

    def argument(self: Any, value: Any) -> None:
        self._set_parts(prefix, kind, _KINDS[kind].from_argument(value), hard)

    def json(self: Any, value: Any) -> None:
        self._bind_parts(prefix, kind, hard, value)

    return Member(argument, json, None if prefix else lambda self, _: self._shown(kind, hard))


def _bind_grid(target: _Vectors, prefix: str, value: Any) -> None:
    """Add the constraints in the JSON of a grid to those on the parts that `prefix` stands for."""
    read_object(value, {name: partial(target._bind_parts, prefix, *which) for name, which in _GRID_VECTORS.items()})


_GRID_VECTORS: Final = _vectors(*_GRID_PARTS)
_RANK: Final = Member(lambda self, rank: None if rank == -1 else self._set_rank(check_rank(rank)))


class ChunkGrid(_Vectors):
    """Constraints on the shape of the chunks of a regular grid.

    The size of a chunk in a dimension is None or 0 for no constraint, and -1 for the whole extent of the domain. Aspect
    ratios are those between the sizes that are not given, and `elements` is a number of elements that is exceeded only
    if the shape requires it.

    Examples
    --------
    >>> grid = ChunkGrid(shape=[100, None], elements=1000)
    >>> grid.update(shape_soft_constraint=[7, 20])
    >>> grid.to_json()
    {'elements': 1000, 'shape': [100, None], 'shape_soft_constraint': [None, 20]}
    """

    __slots__ = ()
    _name: ClassVar[str] = "ChunkLayout.Grid"
    _own: ClassVar[dict[str, str]] = {kind: kind for kind in _GRID_PARTS}
    _least_rank: ClassVar[int] = 1  # as in TensorStore, which does not tell rank 0 from an unknown one here
    _members: ClassVar[dict[str, Member]] = {
        "rank": _RANK,
        **{name: _vector("", *which) for name, which in _GRID_VECTORS.items()},
        "grid": Member(lambda self, other: self._merge(checked("grid", other, ChunkGrid))),
        "grid_soft_constraint": Member(lambda self, other: self._merge(checked("grid", other, ChunkGrid))),
    }

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
        self._add(locals())

    rank: int | None = attribute("_rank", "Number of dimensions; None if it is unknown.")
    ndim = rank
    shape: tuple[int | None, ...] | None = _constraint("Hard constraints on the shape; None if the rank is unknown.")
    shape_soft_constraint: tuple[int | None, ...] | None = _constraint("Soft constraints on the shape.")
    aspect_ratio: tuple[float | None, ...] | None = _constraint("Hard constraints on the aspect ratio.")
    aspect_ratio_soft_constraint: tuple[float | None, ...] | None = _constraint("Soft constraints on the aspect ratio.")
    elements: int | None = _constraint("Hard constraint on the number of elements.")
    elements_soft_constraint: int | None = _constraint("Soft constraint on the number of elements.")

    def _numbers(self, rank: int) -> tuple[list[int], list[float], int | None]:
        """Return the constraints in the first dimensions: sizes and ratios (0 for none), and number of elements."""
        sizes, ratios = (
            [value or 0 for value in (*self._vector(part).values, *[None] * rank)[:rank]]
            for part in ("shape", "aspect_ratio")
        )
        return sizes, ratios, self._vector("elements").values[0]

    def __repr__(self) -> str:
        return f"ChunkLayout.Grid({self.to_json()})"


def _grid_member(prefix: str) -> Member:
    """Return how the constraints on the grids that `prefix` stands for are read and written."""

    def shown(self: ChunkLayout, _: bool) -> Any:
        return MISSING if prefix == "chunk" else self._grid(prefix.removesuffix("_chunk")).to_json() or MISSING

    return Member(
        lambda self, value: self._merge_grid(prefix, checked(prefix, value, ChunkGrid)),
        lambda self, value: _bind_grid(self, prefix, value),
        shown,
    )


class ChunkLayout(_Vectors):
    """A chunk layout, or constraints on one.

    ``chunk`` constrains both the read and the write grid; ``chunk_shape``, ``write_chunk_aspect_ratio`` and the like
    are single constraints on a grid, which are soft with the suffix ``_soft_constraint``. `finalize` keeps only the
    hard constraints, and refuses an incomplete layout.

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

    __slots__ = ()
    _name: ClassVar[str] = "ChunkLayout"
    _own: ClassVar[dict[str, str]] = {
        "inner_order": "inner_order",
        "grid_origin": "grid_origin",
        **{f"{usage}_chunk_{kind}": kind for usage in USAGES for kind in _GRID_PARTS},
    }
    _members: ClassVar[dict[str, Member]] = {
        "rank": Member(_RANK.argument, lambda self, rank: self._set_rank(integer(rank, 0, MAX_RANK))),
        **{name: _vector("", *which) for name, which in _vectors("inner_order", "grid_origin").items()},
        **{prefix: _grid_member(prefix) for prefix in _GRIDS},
        **{
            f"{prefix}_{kind}{suffix}": Member(_vector(prefix, kind, not suffix).argument)
            for kind in _GRID_PARTS
            for prefix in _GRIDS
            for suffix in ("", _SOFT)
        },
        "finalize": Member(lambda self, value: self._finalize() if value else None),
    }

    Grid: TypeAlias = ChunkGrid

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
        if unknown := grids.keys() - self._members.keys():
            raise type_error(f"ChunkLayout has no keyword argument {min(unknown)!r}")
        self._add({**locals(), **grids})

    rank: int = computed(
        lambda layout: -1 if layout._rank is None else layout._rank, "Number of dimensions; -1 if it is unknown."
    )
    ndim = rank
    inner_order: tuple[int, ...] | None = _constraint("Hard constraint on the order of the dimensions inside a chunk.")
    inner_order_soft_constraint: tuple[int, ...] | None = _constraint(
        "Soft constraint on the order of the dimensions inside a chunk."
    )
    grid_origin: tuple[int | None, ...] | None = _constraint("Hard constraints on the origin of the grid.")
    grid_origin_soft_constraint: tuple[int | None, ...] | None = _constraint(
        "Soft constraints on the origin of the grid."
    )

    write_chunk: ChunkGrid = _of_usage("_grid", "write", "Constraints on the chunks for efficient writes; a copy.")
    read_chunk: ChunkGrid = _of_usage("_grid", "read", "Constraints on the chunks for efficient reads; a copy.")
    codec_chunk: ChunkGrid = _of_usage("_grid", "codec", "Constraints on the chunks within the codec; a copy.")
    write_chunk_template: IndexDomain = _of_usage(
        "_template", "write", "The domain of the first write chunk; unbounded in dimensions without hard constraints."
    )
    read_chunk_template: IndexDomain = _of_usage(
        "_template", "read", "The domain of the first read chunk; unbounded in dimensions without hard constraints."
    )

    def _grid(self, usage: str) -> ChunkGrid:
        """Return the grid for ``"write"``, ``"read"`` or ``"codec"``."""
        grid = ChunkGrid()
        grid._rank = self._rank or None
        found = {kind: self._parts.get(f"{usage}_chunk_{kind}") for kind in _GRID_PARTS}
        grid._parts = {kind: vector for kind, vector in found.items() if vector is not None}
        return grid

    def _grid_of_both(self, usage: str, other: str) -> ChunkGrid:
        """Return one grid for two usages; soft constraints for the first come first."""
        grid = self._grid(usage)
        with stating(f"{other}_chunk constraints not compatible with existing {usage}_chunk constraints"):
            grid._merge(self._grid(other))
        return grid

    def _chosen(self, rank: int, extents: Extents) -> tuple[int, ...]:
        """Choose the shape of the chunks of an array with one grid; `rank` counts the first dimensions."""
        return choose_shape(*self._grid_of_both("read", "write")._numbers(rank), extents)

    @property
    def _any_order(self) -> tuple[int, ...] | None:
        """The order of the dimensions inside a chunk, as a hard or soft constraint."""
        return self.inner_order or self.inner_order_soft_constraint

    def _only(self, part: str, hard: bool) -> Any:
        if part != "inner_order":
            return super()._only(part, hard)
        order = self._parts.get(part)
        if self._rank == 0 and not hard:
            return ()
        return None if order is None or order.hard[0] != hard else order.values

    def _template(self, usage: str) -> IndexDomain:
        if self._rank is None:
            raise invalid("Rank of chunk layout is unspecified")
        dims = [Dim() for _ in range(self._rank)]
        sizes = self._vector(f"{usage}_chunk_shape").only(True)
        for axis, (origin, size) in enumerate(zip(self._vector("grid_origin").only(True), sizes, strict=True)):
            if origin is not None and size is not None:
                if origin + size > MAX_INDEX + 2:
                    raise invalid(f"Origin {origin} and size {size} of chunks are too large for dimension {axis}")
                dims[axis] = Dim(inclusive_min=origin, exclusive_max=origin + size)
        return IndexDomain(dims).mark_bounds_implicit[False]

    def _merge_grid(self, prefix: str, grid: ChunkGrid) -> None:
        """Merge in a grid that was given as the argument `prefix`."""
        self._merge_rank(grid)
        for kind in _GRID_PARTS:
            for part in _parts_of(prefix, kind):
                self._merge_part(part, grid._parts.get(kind))

    def _finalize(self) -> None:
        """Keep only hard constraints; refuse a layout without rank or origin, or with incompatible chunks."""
        if self._rank is None:
            raise invalid("rank must be specified")
        for axis, value in enumerate(self._vector("grid_origin").only(True)):
            if value is None:
                raise invalid(f"No grid_origin hard constraint for dimension {axis}")
        write, read, codec = (self._vector(f"{usage}_chunk_shape").only(True) for usage in USAGES)
        shapes = write, tuple(own or other for own, other in zip(read, write, strict=True)), codec
        self._parts = {part: vector for part, vector in self._parts.items() if "chunk" not in part}
        origin = [value or 0 for value in self._vector("grid_origin").values]
        for usage, shape in zip(USAGES, shapes, strict=True):
            self._parts[f"{usage}_chunk_shape"] = Vector(shape, tuple(size is not None for size in shape))
            if any(start + (size or 0) > MAX_INDEX for start, size in zip(origin, shape, strict=True)):
                raise invalid(f"The {usage} chunk grid is too large: origin {origin}, shape {[n or 0 for n in shape]}")
        sizes = [[size or 0 for size in shape] for shape in shapes]
        if any(small and large % small for large, small in zip(sizes[0], sizes[1], strict=True)):
            raise invalid(f"write chunk shape {sizes[0]} is not a multiple of read chunk shape {sizes[1]}")

    def to_json(self, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON representation; there are no defaults."""
        json = super().to_json()
        parts = [part for value in json.values() for part in (value.values() if isinstance(value, dict) else [value])]
        if self._rank is not None and not any(isinstance(part, list) for part in parts):
            json["rank"] = self._rank  # no vector shows the rank
        return dict(sorted(json.items()))

    def _bind_parts(self, prefix: str, kind: str, hard: bool, value: Any) -> None:
        value = _KINDS[kind].from_json(value)
        if value is not None:
            if kind != "elements":  # in JSON, an empty list has a rank, too
                self._set_rank(check_rank(len(value)))
            self._set_parts(prefix, kind, value, hard)

    def _state(self) -> tuple[Any, ...]:
        vectors = map(self._vector, self._own)
        known = [vector if any(value is not None for value in vector.values) else () for vector in vectors]
        # the rank counts only as far as there are constraints for its dimensions
        return known, self._rank is None and not any(known)
