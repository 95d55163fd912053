"""Index domains: boxes of integer indices whose bounds may be negative, infinite or implicit."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from typing import Any, cast

from tegula.runtime.frozen import computed
from tegula.tensorstore.errors import IndexStatusError, checked, index_error, invalid, stating, status, type_error
from tegula.tensorstore.index.dim import (
    EXCLUSIVE_INFINITY,
    INFINITY,
    MAX_INT64,
    MAX_RANK,
    Bounds,
    Dim,
    Interval,
    closed,
    effective,
    half_open,
    merge_labels,
    sized,
)
from tegula.tensorstore.index.operations import Movable, check_labels, resolve, selectors_of
from tegula.tensorstore.index.output_maps import Transform
from tegula.tensorstore.json import (
    MISSING,
    array,
    array_of,
    check_rank,
    integer,
    read_int64,
    read_object,
    string,
    to_json_value,
)

__all__ = [
    "Applicable", "IndexDomain", "bounds_from_arguments", "bounds_from_json", "bounds_to_json", "check_labels",
    "merge_domains",
]  # fmt: skip


class Applicable(ABC):
    """Base class of dimension expressions and transforms, which apply to a domain and its output maps."""

    __slots__ = ()

    @abstractmethod
    def _apply(self, pair: Transform) -> Transform: ...


def _column(at: int, doc: str) -> Any:
    return computed(lambda self: tuple([bounds[at] for bounds in self._dims]), doc)


class IndexDomain(Movable):
    """A box of indices with a label for each dimension; immutable.

    Its rank or a sequence of `Dim` may be given, or at most one of `exclusive_max`, `inclusive_max` and `shape`. Bounds
    that are not given are implicit.

    Examples
    --------
    >>> domain = IndexDomain(shape=[4, 5], labels=["x", "y"])
    >>> domain
    { "x": [0, 4), "y": [0, 5) }
    >>> domain["y"].size
    5
    >>> domain.translate_by[10, 20].origin
    (10, 20)
    """

    __slots__ = ("_dims",)
    _dims: tuple[Bounds, ...]

    def __init__(
        self,
        rank: int | Iterable[Dim] | None = None,
        *,
        inclusive_min: Iterable[int] | None = None,
        implicit_lower_bounds: Iterable[bool] | None = None,
        exclusive_max: Iterable[int] | None = None,
        inclusive_max: Iterable[int] | None = None,
        shape: Iterable[int] | None = None,
        implicit_upper_bounds: Iterable[bool] | None = None,
        labels: Iterable[str | None] | None = None,
        dimensions: Iterable[Dim] | None = None,
        json: Any = MISSING,
    ) -> None:
        if json is not MISSING:
            self._dims = bounds_from_json(sole_json(locals()), "")
        elif dimensions is not None or (rank is not None and not hasattr(rank, "__index__")):
            self._dims = _of_dimensions(cast("Iterable[Dim]", rank if dimensions is None else dimensions))._dims
        else:
            self._dims = bounds_from_arguments(locals())

    @classmethod
    def _of(cls, dims: Iterable[Bounds]) -> IndexDomain:
        """Return the domain of these dimensions."""
        self = cls.__new__(cls)
        self._dims = tuple(dims)
        return self

    @classmethod
    def _of_shape(
        cls, shape: tuple[int, ...], implicit_upper: Iterable[bool] = (), labels: Iterable[str] = ()
    ) -> IndexDomain:
        """Return the domain of a stored array, which starts at 0."""
        none = repeat(False)
        return cls._of(zip(repeat(0), shape, none, implicit_upper or none, labels or repeat("")))

    rank: int = computed(lambda domain: len(domain._dims), "The number of dimensions.")
    ndim = rank

    inclusive_min: tuple[int, ...] = _column(0, "The first index of each dimension.")
    origin = inclusive_min
    exclusive_max: tuple[int, ...] = _column(1, "One more than the last index of each dimension.")
    implicit_lower_bounds: tuple[bool, ...] = _column(2, "Whether the lower bound of each dimension is implicit.")
    implicit_upper_bounds: tuple[bool, ...] = _column(3, "Whether the upper bound of each dimension is implicit.")
    labels: tuple[str, ...] = _column(4, "The label of each dimension; empty for a dimension without one.")

    @property
    def inclusive_max(self) -> tuple[int, ...]:
        """The last index of each dimension."""
        return tuple([bounds[1] - 1 for bounds in self._dims])

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return tuple([bounds[1] - bounds[0] for bounds in self._dims])

    @property
    def size(self) -> int:
        """The number of elements; the largest 64-bit integer if the domain is unbounded."""
        total = 1
        for bounds in self._dims:
            total *= bounds[1] - bounds[0]
        return min(total, MAX_INT64)

    @property
    def index_exp(self) -> tuple[slice, ...]:
        """The domain as a tuple of slices, for indexing NumPy arrays; infinite bounds become None.

        A finite negative bound is an error, as NumPy would count it from the end.
        """
        if any(-INFINITY < bounds[0] < 0 or bounds[1] < 0 for bounds in self._dims):
            raise invalid(f"Cannot convert domain {self} with negative bounds to index expression")
        infinite = (-INFINITY, EXCLUSIVE_INFINITY)
        return tuple([slice(*(None if end in infinite else end for end in bounds[:2])) for bounds in self._dims])

    def _pair(self) -> Transform:
        return self, ()

    def _with_pair(self, pair: Transform) -> IndexDomain:
        domain: IndexDomain = pair[0]
        return domain

    def transpose(self, axes: Any = None) -> IndexDomain:
        """Return the domain with its dimensions in another order, by default reversed."""
        return super().transpose(None if axes is None else self._select(axes))

    def hull(self, other: IndexDomain) -> IndexDomain:
        """Return the smallest domain that contains both."""
        return _combined("hull", self, other, Dim.hull)

    def intersect(self, other: IndexDomain) -> IndexDomain:
        """Return the intersection."""
        return _combined("intersect", self, other, Dim.intersect)

    def to_json(self) -> Any:
        """Return the JSON representation."""
        return bounds_to_json(self._dims, "")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) or (hasattr(key, "__index__") and not isinstance(key, (bool, Applicable))):
            (dim,) = resolve((key if isinstance(key, str) else operator.index(key),), self.rank, self.labels)
            return Dim._make(*self._dims[dim])
        if isinstance(key, IndexDomain):
            return self._sliced(key)
        if isinstance(key, Applicable) and not hasattr(key, "_selection"):
            return key._apply((self, ()))[0]
        return self._of([self._dims[dim] for dim in self._select(key)])

    def __iter__(self) -> Iterator[Dim]:
        return iter([Dim._make(*bounds) for bounds in self._dims])

    def __len__(self) -> int:
        return len(self._dims)

    def __eq__(self, other: object) -> bool:
        return self._dims == other._dims if isinstance(other, IndexDomain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._dims)

    def __copy__(self) -> IndexDomain:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> IndexDomain:
        return self

    def __repr__(self) -> str:
        return f"{{ {', '.join(map(str, self))} }}"

    def _select(self, key: Any) -> list[int]:
        try:
            return resolve(selectors_of(key), self.rank, self.labels)
        except IndexStatusError as error:
            raise status(error.code, error.sentence) from None

    def _sliced(self, other: IndexDomain) -> IndexDomain:
        """Return the domain sliced by the bounds of another one; dimensions match by label or by position."""
        dims, labels = _match(self, other)
        new: list[Bounds] = [(*bounds[:4], label) for bounds, label in zip(self._dims, labels)]
        for at, (dim, (lower, upper, *_)) in enumerate(zip(dims, other._dims)):
            least, most = effective(new[dim])
            if lower != upper and not least <= lower <= upper <= most:
                raise index_error(f"dimension {at} of {other} is not within dimension {dim} of {self}", "OUT_OF_RANGE")
            new[dim] = lower, upper, False, False, labels[dim]
        return self._of(new)


def _match(target: IndexDomain, other: IndexDomain) -> tuple[list[int], tuple[str, ...]]:
    """Return the target dimension for each dimension of a slicing domain, and the new labels."""
    rank, other_rank = target.rank, other.rank
    if not (any(target.labels) and any(other.labels)):
        if rank != other_rank:
            raise index_error(f"a domain without labels of rank {other_rank} does not fit one of rank {rank}")
        return list(range(rank)), other.labels if any(other.labels) else target.labels
    unlabelled = iter([dim for dim, label in enumerate(target.labels) if not label])
    dims = [resolve((label,), rank, target.labels)[0] if label else next(unlabelled, -1) for label in other.labels]
    if -1 in dims or (rank != other_rank and "" in other.labels):
        raise index_error(f"the dimensions without labels of {other} do not fit those of {target}")
    return dims, target.labels


def merge_domains(first: IndexDomain, second: IndexDomain) -> IndexDomain:
    """Merge two domains that agree; an implicit infinite bound and an empty label match any."""
    return _combined("merge", first, second, _merge_dims)


def _combined(verb: str, first: IndexDomain, second: IndexDomain, join: Callable[[Dim, Dim], Dim]) -> IndexDomain:
    checked("other", second, IndexDomain)
    dims: list[Dim] = []
    with stating(f"Cannot {verb} index domain {first} with index domain {second}"):
        if first.rank != second.rank:
            raise invalid("Ranks do not match")
        for pair in zip(first, second):
            with stating(f"dimension {len(dims)}"):
                dims.append(join(*pair))
    return _of_dimensions(dims)


def _merge_dims(first: Dim, second: Dim) -> Dim:
    label = merge_labels(first.label, second.label)
    a, b = first._key(), second._key()
    lower, implicit_lower = _merge_bound((a[0], a[2]), (b[0], b[2]), -INFINITY)
    upper, implicit_upper = _merge_bound((a[1], a[3]), (b[1], b[3]), EXCLUSIVE_INFINITY)
    return Dim._make(*half_open(lower, upper), implicit_lower, implicit_upper, label)


def _merge_bound(first: tuple[int, bool], second: tuple[int, bool], infinite: int) -> tuple[int, bool]:
    if first[0] == second[0]:
        return first[0], first[1] and second[1]
    if (infinite, True) not in (first, second):
        raise invalid(f"{'Lower' if infinite < 0 else 'Upper'} bounds do not match")
    return second if first == (infinite, True) else first


def _of_dimensions(dimensions: Iterable[Dim]) -> IndexDomain:
    dims = list(dimensions)
    if not all(isinstance(dim, Dim) for dim in dims):
        raise type_error("expected a rank or a sequence of Dim")
    check_rank(len(dims))
    check_labels(dim.label for dim in dims)
    return IndexDomain._of([dim._key() for dim in dims])


# --- bounds and labels of a domain, or of a transform's input domain: from keyword arguments, and from and to JSON

_UPPER: dict[str, Callable[[int, int], Interval]] = {
    "shape": sized,
    "inclusive_max": closed,
    "exclusive_max": half_open,
}
_ORDER = "inclusive_min implicit_lower_bounds exclusive_max inclusive_max shape implicit_upper_bounds labels".split()
"""The order in which arguments are checked."""
_INT64 = (-MAX_INT64 - 1, MAX_INT64)
_LIMITS = {
    "inclusive_min": ("-inf", -INFINITY, (-INFINITY, MAX_INT64)),
    "shape": ("+inf", MAX_INT64, _INT64),
    "inclusive_max": ("+inf", INFINITY, (_INT64[0], INFINITY)),
    "exclusive_max": ("+inf", EXCLUSIVE_INFINITY, (_INT64[0], EXCLUSIVE_INFINITY)),
}
"""How infinity is written in each member of JSON, what it means, and the range of other values."""


def bounds_from_arguments(arguments: dict[str, Any], prefix: str = "") -> tuple[Bounds, ...]:
    """Return the dimensions for keyword arguments whose names begin with a prefix; None stands for a missing one."""
    source = f"{prefix}rank"
    rank = arguments.get(source)
    rank = None if rank is None else check_rank(rank)
    vectors: dict[str, list[Any]] = {}
    for name in _ORDER:
        shown = name if name.startswith("implicit") else f"{prefix}{name}"
        if (given := arguments.get(shown)) is None:
            continue
        if name in _UPPER and (other := [each for each in _UPPER if each in vectors]):
            raise invalid(f"Cannot specify both `{prefix}{other[0]}` and `{shown}`")
        vectors[name] = _vector(given, name)
        length = check_rank(len(vectors[name]))
        if rank is None:
            rank, source = length, shown
        if length != rank:
            text = f"Rank specified by `{shown}` ({length}) does not match rank specified by `{source}` ({rank})"
            raise invalid(text)
    if rank is None:
        raise invalid(f"Must specify `{prefix}rank`")
    check_labels(vectors.get("labels", ()))
    upper = next((name for name in _UPPER if name in vectors), "")
    lowers = vectors.get("inclusive_min", [0 if upper == "shape" else -INFINITY] * rank)
    uppers = vectors.get(upper, [EXCLUSIVE_INFINITY] * rank)
    lower_given = "inclusive_min" in vectors or upper == "shape"
    return tuple(
        [
            (*_UPPER[upper or "exclusive_max"](lower, upper_), *rest)
            for lower, upper_, *rest in zip(
                lowers,
                uppers,
                vectors.get("implicit_lower_bounds", [not lower_given] * rank),
                vectors.get("implicit_upper_bounds", [not upper] * rank),
                vectors.get("labels", [""] * rank),
            )
        ]
    )


def _vector(value: Any, name: str) -> list[Any]:
    if not isinstance(value, Iterable):
        raise type_error(f"{name} must be a sequence")
    elements = list(value)
    if name == "labels":
        if isinstance(value, str) or not all(element is None or isinstance(element, str) for element in elements):
            raise type_error("labels must be strings or None")
        return [element or "" for element in elements]
    return [bool(element) if name.startswith("implicit") else read_int64(element) for element in elements]


def bounds_from_json(json: Any, prefix: str) -> tuple[Bounds, ...]:
    """Read bounds and labels from JSON whose member names begin with a prefix."""
    readers: dict[str, Any] = {f"{prefix}rank": partial(integer, least=0, most=MAX_RANK)}
    readers |= {f"{prefix}{name}": partial(array_of, read=partial(_bound_of_json, name)) for name in _LIMITS}
    arguments = read_object(json, {**readers, f"{prefix}labels": partial(array_of, read=string)})
    for name in _LIMITS:
        if (given := arguments.get(f"{prefix}{name}")) is not None:
            flags = f"implicit_{'lower' if name == 'inclusive_min' else 'upper'}_bounds"
            arguments[f"{prefix}{name}"], arguments[flags] = zip(*given) if given else ((), ())
    return bounds_from_arguments(arguments, prefix)


def sole_json(arguments: dict[str, Any]) -> Any:
    """Return the argument `json` of a constructor, which excludes all others."""
    if any(value is not None for name, value in arguments.items() if name not in ("self", "json")):
        raise type_error("`json` excludes all other arguments")
    return to_json_value(arguments["json"])


def _bound_of_json(name: str, value: Any) -> tuple[int, bool]:
    """Return a bound in the member of a name, and whether it is implicit: in an array of its own."""
    infinite, meaning, limits = _LIMITS[name]
    implicit = isinstance(value, (list, tuple))
    [bound] = array(value, 1) if implicit else [value]
    if bound == infinite:
        return meaning, implicit
    with suppress(ValueError):
        bound = int(bound) if isinstance(bound, str) else bound
    return integer(bound, *limits, f'64-bit signed integer or "{infinite}"'), implicit


def bounds_to_json(dims: Sequence[Bounds], prefix: str) -> dict[str, Any]:
    """Convert bounds and labels to JSON; defaults are left out."""
    document: dict[str, Any] = {}
    for at, name in ((1, "exclusive_max"), (0, "inclusive_min")):
        text, infinite, _ = _LIMITS[name]
        if any((bounds[at], bounds[at + 2]) != (infinite, True) for bounds in dims):
            values = [(text if bounds[at] == infinite else bounds[at], bounds[at + 2]) for bounds in dims]
            document[f"{prefix}{name}"] = [[value] if implicit else value for value, implicit in values]
    if any(bounds[4] for bounds in dims):
        document[f"{prefix}labels"] = [bounds[4] for bounds in dims]
    return document or {f"{prefix}rank": len(dims)}
