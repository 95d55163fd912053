"""`ChunkLayout`: how an array is, or should be, divided into chunks for writing, for reading, and within the codec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, TypeAlias

from tegula.tensorstore.constraints.chunk_grid import MAX_INDEX, Vector, bind_grid, check_values, merged
from tegula.tensorstore.constraints.chunk_grid import Grid as ChunkGrid
from tegula.tensorstore.constraints.constraints import Constraints
from tegula.tensorstore.errors import StatusError, annotate, invalid, type_error
from tegula.tensorstore.index.dim import Dim
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json.arguments import (
    MAX_RANK,
    braces,
    check_rank,
    instance,
    naming,
    read_indices,
    read_int64,
    read_ratios,
    same_rank,
)
from tegula.tensorstore.json.binding import array_of, int64, integer, known_only, obj, optional, take
from tegula.tensorstore.json.values import pretty

__all__ = ["ChunkLayout"]

USAGES = ("write", "read", "codec")
_PARTS: dict[str, Callable[[Any], Any]] = {"shape": read_indices, "aspect_ratio": read_ratios, "elements": read_int64}


def _usages(prefix: str, part: str) -> tuple[str, ...]:
    """Return the grids that a constraint applies to: ``chunk`` includes the codec's grid only for aspect ratios."""
    if prefix != "chunk":
        return (prefix.removesuffix("_chunk"),)
    return USAGES if part == "aspect_ratio" else USAGES[:2]


class ChunkLayout(Constraints):
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

    __slots__ = ("_codec", "_inner_hard", "_inner_order", "_origin", "_rank", "_read", "_write")
    _name: ClassVar[str] = "ChunkLayout"

    Grid: TypeAlias = ChunkGrid

    _rank: int | None
    _inner_order: tuple[int, ...] | None
    _inner_hard: bool
    _origin: Vector[int] | None
    _write: ChunkGrid
    _read: ChunkGrid
    _codec: ChunkGrid

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._rank = self._inner_order = self._origin = None
        self._inner_hard = False
        self._write, self._read, self._codec = ChunkGrid(), ChunkGrid(), ChunkGrid()
        if args or kwargs:
            self._take(args, kwargs)

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
        if rank is not None and rank != -1:
            with naming("rank"):
                new._set_rank(check_rank(rank))
        for suffix, order in (("", inner_order), ("_soft_constraint", inner_order_soft_constraint)):
            if order is not None:
                with naming("inner_order" + suffix), setting("inner_order"):
                    new._set_inner_order([read_int64(axis) for axis in order], not suffix)
        for suffix, origin in (("", grid_origin), ("_soft_constraint", grid_origin_soft_constraint)):
            if origin is not None:
                with naming("grid_origin" + suffix), setting("grid_origin"):
                    new._set_grid_origin(read_indices(origin), not suffix)
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
            if not part:
                self._merge_grid(prefix, instance(value, ChunkGrid))
                return
            read = _PARTS[part](value)
            for usage in _usages(prefix, part):
                with setting(f"{usage}_chunk {part}"):
                    self._set_part(usage, part, read, hard)

    def _become(self, other: ChunkLayout) -> None:
        self._rank, self._inner_order, self._inner_hard = other._rank, other._inner_order, other._inner_hard
        self._origin = other._origin
        self._write, self._read, self._codec = other._write.copy(), other._read.copy(), other._codec.copy()

    @property
    def rank(self) -> int:
        """Number of dimensions; -1 if it is unknown."""
        return -1 if self._rank is None else self._rank

    ndim = rank
    """Number of dimensions; -1 if it is unknown."""

    @property
    def inner_order(self) -> tuple[int, ...] | None:
        """Hard constraint on the order of the dimensions inside a chunk."""
        return self._inner_order if self._inner_hard else None

    @property
    def inner_order_soft_constraint(self) -> tuple[int, ...] | None:
        """Soft constraint on the order of the dimensions inside a chunk."""
        if self._rank == 0:
            return ()
        return None if self._inner_hard else self._inner_order

    @property
    def grid_origin(self) -> tuple[int | None, ...] | None:
        """Hard constraints on the origin of the grid."""
        return None if self._rank is None else self._origin_vector().only(True)

    @property
    def grid_origin_soft_constraint(self) -> tuple[int | None, ...] | None:
        """Soft constraints on the origin of the grid."""
        return None if self._rank is None else self._origin_vector().only(False)

    @property
    def write_chunk(self) -> ChunkGrid:
        """Constraints on the chunks for efficient writes; a copy."""
        return self._write.copy()

    @property
    def read_chunk(self) -> ChunkGrid:
        """Constraints on the chunks for efficient reads; a copy."""
        return self._read.copy()

    @property
    def codec_chunk(self) -> ChunkGrid:
        """Constraints on the chunks within the codec; a copy."""
        return self._codec.copy()

    def _grid(self, usage: str) -> ChunkGrid:
        """Return the grid for ``"write"``, ``"read"`` or ``"codec"``, not a copy."""
        return {"write": self._write, "read": self._read, "codec": self._codec}[usage]

    def _origin_vector(self) -> Vector[int]:
        """Return the constraints on the origin, hard and soft."""
        return self._origin or Vector.empty(self._rank or 0)

    def _chunk_template(self, usage: str) -> list[tuple[int, int] | None]:
        """Return origin and size of the first chunk in each dimension; None unless both have hard constraints."""
        if self._rank is None:
            raise invalid("Rank of chunk layout is unspecified")
        template: list[tuple[int, int] | None] = []
        sizes = self._grid(usage)._shape_vector(self._rank).only(True)
        for axis, (origin, size) in enumerate(zip(self._origin_vector().only(True), sizes, strict=True)):
            if origin is None or size is None:
                template.append(None)
                continue
            if origin + size > MAX_INDEX + 2:
                raise invalid(
                    f"Incompatible grid origin/chunk shape for dimension {axis}: ({origin}, {size}) do not specify a "
                    "valid sized index interval"
                )
            template.append((origin, size))
        return template

    @property
    def write_chunk_template(self) -> IndexDomain:
        """The domain of the write chunk at the grid's origin; unbounded in dimensions without hard constraints."""
        return _template_domain(self._chunk_template("write"))

    @property
    def read_chunk_template(self) -> IndexDomain:
        """The domain of the read chunk at the grid's origin; unbounded in dimensions without hard constraints."""
        return _template_domain(self._chunk_template("read"))

    def _set_rank(self, rank: int) -> None:
        """Set the rank."""
        self._rank = same_rank(self._rank, rank)
        if rank:
            for usage in USAGES:
                self._grid(usage)._set_rank(rank)

    def _set_inner_order(self, order: Sequence[int], hard: bool) -> None:
        """Merge in an order of the dimensions."""
        if not order:
            return
        check_rank(len(order))
        shown = braces(order)
        if sorted(order) != list(range(len(order))):
            raise invalid(f"Invalid permutation: {shown}")
        self._set_rank(len(order))
        if self._inner_hard and hard and self._inner_order != tuple(order):
            old = braces(self._inner_order or ())
            raise invalid(f"New hard constraint ({shown}) does not match existing hard constraint ({old})")
        if self._inner_order is None or (hard and not self._inner_hard):
            self._inner_order, self._inner_hard = tuple(order), hard

    def _set_grid_origin(self, values: Sequence[int | None], hard: bool) -> None:
        """Merge in the origin of the grid."""
        if not values:
            return
        check_rank(len(values))
        self._set_rank(len(values))
        check_values(values, lambda origin: abs(origin) <= MAX_INDEX, -(2**63))
        bits = tuple(hard and value is not None for value in values)
        self._origin = merged(self._origin, Vector(tuple(values), bits))

    def _set_part(self, usage: str, part: str, value: Any, hard: bool) -> None:
        """Merge in a constraint on one part of a grid."""
        if part != "elements" and value:
            self._set_rank(check_rank(len(value)))
        self._grid(usage)._set_part(part, value, hard)

    def _merge_grid(self, prefix: str, grid: ChunkGrid) -> None:
        """Merge in a grid that was given as the argument `prefix`."""
        if grid.rank:
            self._set_rank(grid.rank)
        for part in _PARTS:
            for usage in _usages(prefix, part):
                with setting(f"{usage}_chunk {part}"):
                    self._grid(usage)._merge(grid, (part,))

    def _merge(self, other: ChunkLayout) -> None:
        """Merge in the constraints of another layout."""
        if other._rank is not None:
            self._set_rank(other._rank)
        if other._inner_order is not None:
            with setting("inner_order"):
                self._set_inner_order(other._inner_order, other._inner_hard)
        if other._origin is not None:
            with setting("grid_origin"):
                self._origin = merged(self._origin, other._origin)
        for usage in USAGES:
            self._merge_grid(f"{usage}_chunk", other._grid(usage))

    def _finalize(self) -> None:
        """Keep only hard constraints; refuse a layout without rank or origin, or with incompatible chunks."""
        if self._rank is None:
            raise invalid("rank must be specified")
        for axis, value in enumerate(self._origin_vector().only(True)):
            if value is None:
                raise invalid(f"No grid_origin hard constraint for dimension {axis}")
        for usage in USAGES:
            self._grid(usage)._harden()
        write = self._write._shape_vector(self._rank)
        self._read._set_shape(write.values, False)
        self._read._harden(keep_soft=True)
        sizes = [[size or 0 for size in self._grid(usage)._shape_vector(self._rank).values] for usage in USAGES]
        origin = [value or 0 for value in self._origin_vector().values]
        for usage, shape in zip(USAGES, sizes, strict=True):
            if any(start + size > MAX_INDEX for start, size in zip(origin, shape, strict=True)):
                raise invalid(
                    f"Invalid {usage} chunk grid: Invalid origin/shape: origin={braces(origin)}, shape={braces(shape)}"
                )
        if any(small and large % small for large, small in zip(sizes[0], sizes[1], strict=True)):
            raise invalid(
                f"write chunk shape {braces(sizes[0])} is not a multiple of read chunk shape {braces(sizes[1])}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON representation."""
        json: dict[str, Any] = {}
        for name in ("inner_order", "inner_order_soft_constraint"):
            if order := getattr(self, name):
                json[name] = list(order)
        for name in ("grid_origin", "grid_origin_soft_constraint"):
            values = getattr(self, name) or ()
            if any(value is not None for value in values):
                json[name] = list(values)
        for usage in USAGES:
            if grid := self._grid(usage).to_json():
                json[f"{usage}_chunk"] = grid
        parts = [part for value in json.values() for part in (value.values() if isinstance(value, dict) else [value])]
        if self._rank is not None and not any(isinstance(part, list) for part in parts):
            json["rank"] = self._rank  # no vector shows the rank
        return dict(sorted(json.items()))

    def _bind(self, value: Any) -> None:
        members = obj(value)
        take(members, "rank", lambda rank: self._set_rank(integer(rank, 0, MAX_RANK)))
        take(members, "inner_order", lambda order: self._bind_order(order, True))
        take(members, "inner_order_soft_constraint", lambda order: self._bind_order(order, False))
        take(members, "grid_origin", lambda origin: self._bind_origin(origin, True))
        take(members, "grid_origin_soft_constraint", lambda origin: self._bind_origin(origin, False))
        for prefix in ("chunk", "write_chunk", "read_chunk", "codec_chunk"):
            take(members, prefix, partial(bind_grid, target=self._grid_setter(prefix)))
        known_only(members)

    def _bind_order(self, value: Any, hard: bool) -> None:
        if value is None:
            return
        axes = array_of(value, lambda axis: integer(axis, 0, MAX_RANK - 1))
        self._set_inner_order(axes, hard)
        self._set_rank(len(axes))

    def _bind_origin(self, value: Any, hard: bool) -> None:
        values = array_of(value, optional(int64))
        self._set_grid_origin(values, hard)
        self._set_rank(len(values))

    def _grid_setter(self, prefix: str) -> Callable[[str, Any, bool], None]:
        def put(part: str, value: Any, hard: bool) -> None:
            if part != "elements":
                self._set_rank(check_rank(len(value)))
            for usage in _usages(prefix, part):
                self._set_part(usage, part, value, hard)

        return put

    def _state(self) -> tuple[Any, ...]:
        grids = tuple(self._grid(usage) for usage in USAGES)
        return (self._rank, self._inner_order, self._inner_hard, self._origin_vector(), grids)

    def __repr__(self) -> str:
        return pretty(self.to_json(), "ChunkLayout(", ")")


def _template_domain(template: list[tuple[int, int] | None]) -> IndexDomain:
    return IndexDomain(
        [
            Dim() if interval is None else Dim(inclusive_min=interval[0], exclusive_max=sum(interval))
            for interval in template
        ]
    ).mark_bounds_implicit[False]


class setting:
    """A context manager that adds the affected part of a layout to errors."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StatusError):
            raise annotate(error, f"Error setting {self._what}") from None


_GRIDS = ("chunk", "write_chunk", "read_chunk", "codec_chunk")
_GRID_KEYWORDS: dict[str, tuple[str, str, bool]] = {
    **{prefix: (prefix, "", True) for prefix in _GRIDS},
    **{
        f"{prefix}_{part}{'' if hard else '_soft_constraint'}": (prefix, part, hard)
        for part in _PARTS
        for prefix in _GRIDS
        for hard in (True, False)
    },
}
"""The keyword arguments for grids, in the order in which they take effect: the grid, the part, whether it is hard."""
_GRID_ORDER = {name: number for number, name in enumerate(_GRID_KEYWORDS)}
