"""Index domains: boxes of integer indices whose bounds may be negative, infinite or implicit."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from tegula.tensorstore.errors import IndexStatusError, StatusError, annotate, index_error, invalid, status, type_error
from tegula.tensorstore.index.dim import Dim, merge_labels
from tegula.tensorstore.index.dim_selections import resolve, selectors_of
from tegula.tensorstore.index.domain_json import (
    Parts,
    bounds_from_arguments,
    bounds_from_json,
    bounds_to_json,
    check_labels,
)
from tegula.tensorstore.index.intervals import EXCLUSIVE_INFINITY, INFINITY, MAX_INT64, shift, translation
from tegula.tensorstore.index.subscripts import Subscript, flags_argument, labels_argument, offsets_argument
from tegula.tensorstore.json.values import to_json_value

__all__ = ["Applicable", "IndexDomain", "check_labels", "merge_domains"]


class Applicable(ABC):
    """Base class of dimension expressions and transforms, which apply to a domain and its output maps."""

    __slots__ = ()

    @abstractmethod
    def _apply(self, domain: IndexDomain, output: tuple[Any, ...]) -> tuple[IndexDomain, tuple[Any, ...]]: ...


class IndexDomain:
    """A box of indices with a label for each dimension; immutable.

    Parameters
    ----------
    rank : int, optional
        Number of dimensions, if no other argument determines it; or a sequence of `Dim` for the dimensions themselves.
    inclusive_min, exclusive_max, inclusive_max, shape : sequence of int, optional
        The bounds, with at most one of the last three.
    implicit_lower_bounds, implicit_upper_bounds : sequence of bool, optional
        Whether each bound is implicit; by default, bounds that are not given are implicit.
    labels : sequence of str, optional
        The labels of the dimensions.
    json : Any, optional
        The JSON representation, instead of all other arguments.

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

    __slots__ = ("_implicit_lower", "_implicit_upper", "_labels", "_lower", "_upper")

    _lower: tuple[int, ...]
    _upper: tuple[int, ...]
    _implicit_lower: tuple[bool, ...]
    _implicit_upper: tuple[bool, ...]
    _labels: tuple[str, ...]

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
        **json: Any,
    ) -> None:
        arguments = {
            "rank": rank,
            "inclusive_min": inclusive_min,
            "implicit_lower_bounds": implicit_lower_bounds,
            "exclusive_max": exclusive_max,
            "inclusive_max": inclusive_max,
            "shape": shape,
            "implicit_upper_bounds": implicit_upper_bounds,
            "labels": labels,
        }
        # from JSON, from dimensions, or from bounds
        if json:
            if set(json) != {"json"} or any(value is not None for value in (*arguments.values(), dimensions)):
                raise type_error(f"__init__(): incompatible constructor arguments: {', '.join(sorted(json))}")
            try:
                parts = bounds_from_json(to_json_value(json["json"]), "")
            except StatusError as error:
                raise annotate(error, "Error parsing index domain from JSON") from None
        elif dimensions is not None or (rank is not None and not hasattr(rank, "__index__")):
            parts = _of_dimensions(cast("Iterable[Dim]", rank if dimensions is None else dimensions))._parts()
        else:
            parts = bounds_from_arguments(arguments)
        self._lower, self._upper, self._implicit_lower, self._implicit_upper, self._labels = parts

    @classmethod
    def _make(
        cls,
        lower: tuple[int, ...],
        upper: tuple[int, ...],
        implicit_lower: tuple[bool, ...],
        implicit_upper: tuple[bool, ...],
        labels: tuple[str, ...],
    ) -> IndexDomain:
        self = cls.__new__(cls)
        self._lower, self._upper = lower, upper
        self._implicit_lower, self._implicit_upper = implicit_lower, implicit_upper
        self._labels = labels
        return self

    @classmethod
    def _of_bounds(cls, bounds: list[tuple[int, int, bool, bool]], labels: list[str]) -> IndexDomain:
        """Return the domain with these bounds and labels of its dimensions."""
        if not bounds:
            return cls._make((), (), (), (), ())
        lower, upper, implicit_lower, implicit_upper = zip(*bounds, strict=True)
        return cls._make(lower, upper, implicit_lower, implicit_upper, tuple(labels))

    @classmethod
    def _of_shape(cls, shape: tuple[int, ...], implicit_upper: tuple[bool, ...] | None = None) -> IndexDomain:
        """Return the domain of a stored array, which starts at 0 and has no labels."""
        rank = len(shape)
        return cls._make((0,) * rank, shape, (False,) * rank, implicit_upper or (False,) * rank, ("",) * rank)

    def _parts(self) -> Parts:
        return self._lower, self._upper, self._implicit_lower, self._implicit_upper, self._labels

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self._lower)

    ndim = rank
    """The number of dimensions."""

    @property
    def inclusive_min(self) -> tuple[int, ...]:
        """The first index of each dimension."""
        return self._lower

    origin = inclusive_min
    """The first index of each dimension."""

    @property
    def exclusive_max(self) -> tuple[int, ...]:
        """One more than the last index of each dimension."""
        return self._upper

    @property
    def inclusive_max(self) -> tuple[int, ...]:
        """The last index of each dimension."""
        return tuple([upper - 1 for upper in self._upper])

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return tuple([upper - lower for lower, upper in zip(self._lower, self._upper, strict=True)])

    @property
    def size(self) -> int:
        """The number of elements; the largest 64-bit integer if the domain is unbounded."""
        total = 1
        for lower, upper in zip(self._lower, self._upper, strict=True):
            total *= upper - lower
        return min(total, MAX_INT64)

    @property
    def implicit_lower_bounds(self) -> tuple[bool, ...]:
        """Whether the lower bound of each dimension is implicit."""
        return self._implicit_lower

    @property
    def implicit_upper_bounds(self) -> tuple[bool, ...]:
        """Whether the upper bound of each dimension is implicit."""
        return self._implicit_upper

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each dimension; empty for a dimension without one."""
        return self._labels

    @property
    def index_exp(self) -> tuple[slice, ...]:
        """The domain as a tuple of slices, for indexing NumPy arrays; infinite bounds become None.

        Raises
        ------
        ValueError
            If a finite bound is negative: NumPy would count it from the end.
        """
        slices = []
        for lower, upper in zip(self._lower, self._upper, strict=True):
            start = None if lower == -INFINITY else lower
            stop = None if upper == EXCLUSIVE_INFINITY else upper
            if (start is not None and start < 0) or (stop is not None and stop < 0):
                raise invalid(f"Cannot convert domain {self} with negative bounds to index expression")
            slices.append(slice(start, stop))
        return tuple(slices)

    @property
    def label(self) -> Subscript[IndexDomain]:
        """``domain.label["x", "y"]`` is the domain with these labels."""
        return Subscript(self, "label", self._relabel)

    @property
    def translate_by(self) -> Subscript[IndexDomain]:
        """``domain.translate_by[1, 2]`` is the domain translated by these offsets; None keeps a dimension unchanged."""
        return Subscript(self, "translate_by", lambda argument: self._translate(argument, "by"))

    @property
    def translate_backward_by(self) -> Subscript[IndexDomain]:
        """``domain.translate_backward_by[1, 2]`` is the domain translated backward by these offsets."""
        return Subscript(self, "translate_backward_by", lambda argument: self._translate(argument, "backward_by"))

    @property
    def translate_to(self) -> Subscript[IndexDomain]:
        """``domain.translate_to[1, 2]`` is the domain translated to this origin."""
        return Subscript(self, "translate_to", lambda argument: self._translate(argument, "to"))

    @property
    def mark_bounds_implicit(self) -> Subscript[IndexDomain]:
        """``domain.mark_bounds_implicit[True]`` has implicit bounds; ``[False:True]``, only implicit upper ones."""
        return Subscript(self, "mark_bounds_implicit", self._mark)

    @property
    def T(self) -> IndexDomain:
        """The domain with its dimensions in reverse order."""
        return self._take(range(self.rank - 1, -1, -1))

    def transpose(self, axes: Any = None) -> IndexDomain:
        """Return the domain with its dimensions in another order, by default reversed."""
        if axes is None:
            return self.T
        dims = self._select(axes)
        if len(dims) != self.rank:
            raise invalid(f"Number of dimensions ({len(dims)}) must equal input_rank ({self.rank}).")
        return self._take(dims)

    def hull(self, other: IndexDomain) -> IndexDomain:
        """Return the smallest domain that contains both."""
        return _combined("hull", self, other, Dim.hull)

    def intersect(self, other: IndexDomain) -> IndexDomain:
        """Return the intersection."""
        return _combined("intersect", self, other, Dim.intersect)

    def to_json(self) -> Any:
        """Return the JSON representation."""
        return bounds_to_json(self._parts(), "")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) or (hasattr(key, "__index__") and not isinstance(key, (bool, Applicable))):
            (dim,) = resolve((key if isinstance(key, str) else operator.index(key),), self.rank, self._labels)
            return self._dim(dim)
        if isinstance(key, IndexDomain):
            return self._sliced(key)
        if isinstance(key, Applicable) and not hasattr(key, "_selection"):
            return key._apply(self, ())[0]
        return self._take(self._select(key))

    def __iter__(self) -> Iterator[Dim]:
        return iter([self._dim(dim) for dim in range(len(self._lower))])

    def __len__(self) -> int:
        return len(self._lower)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexDomain):
            return NotImplemented
        return self is other or self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __copy__(self) -> IndexDomain:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> IndexDomain:
        return self

    def __repr__(self) -> str:
        return f"{{ {', '.join(map(str, self))} }}"

    def _select(self, key: Any) -> list[int]:
        try:
            return resolve(selectors_of(key), self.rank, self._labels)
        except IndexStatusError as error:
            raise status(error.code, error.sentence) from None

    def _dim(self, dim: int) -> Dim:
        return Dim._make(
            self._lower[dim], self._upper[dim], self._implicit_lower[dim], self._implicit_upper[dim], self._labels[dim]
        )

    def _take(self, dims: Iterable[int]) -> IndexDomain:
        chosen = list(dims)
        lower, upper, implicit_lower, implicit_upper, labels = self._parts()
        return IndexDomain._make(
            tuple([lower[dim] for dim in chosen]),
            tuple([upper[dim] for dim in chosen]),
            tuple([implicit_lower[dim] for dim in chosen]),
            tuple([implicit_upper[dim] for dim in chosen]),
            tuple([labels[dim] for dim in chosen]),
        )

    def _with(
        self,
        bounds: list[tuple[int, int]] | None = None,
        implicit_lower: list[bool] | None = None,
        implicit_upper: list[bool] | None = None,
        labels: list[str] | None = None,
    ) -> IndexDomain:
        """Return the domain with some of its parts replaced."""
        return IndexDomain._make(
            self._lower if bounds is None else tuple([bound[0] for bound in bounds]),
            self._upper if bounds is None else tuple([bound[1] for bound in bounds]),
            self._implicit_lower if implicit_lower is None else tuple(implicit_lower),
            self._implicit_upper if implicit_upper is None else tuple(implicit_upper),
            self._labels if labels is None else tuple(labels),
        )

    def _relabel(self, argument: Any) -> IndexDomain:
        labels = labels_argument(argument, len(self._lower))
        check_labels(labels)
        return self._with(labels=labels)

    def _translate(self, argument: Any, how: str) -> IndexDomain:
        amounts = offsets_argument(argument, len(self._lower))
        return self._with(
            [
                shift(lower, upper, translation(lower, upper, amount, how))
                for lower, upper, amount in zip(self._lower, self._upper, amounts, strict=True)
            ]
        )

    def _mark(self, argument: Any) -> IndexDomain:
        lower, upper = flags_argument(argument)
        return self._with(
            implicit_lower=None if lower is None else [lower] * self.rank,
            implicit_upper=None if upper is None else [upper] * self.rank,
        )

    def _sliced(self, other: IndexDomain) -> IndexDomain:
        """Return the domain sliced by the bounds of another one; dimensions match by label or by position."""
        dims, labels = match_domain(self, other)
        bounds = list(zip(self._lower, self._upper, strict=True))
        implicit_lower, implicit_upper = list(self._implicit_lower), list(self._implicit_upper)
        for at, (dim, lower, upper) in enumerate(zip(dims, other._lower, other._upper, strict=True)):
            least = -INFINITY if implicit_lower[dim] else self._lower[dim]
            most = EXCLUSIVE_INFINITY if implicit_upper[dim] else self._upper[dim]
            if lower != upper and not least <= lower <= upper <= most:
                raise index_error(
                    f"Cannot slice target dimension {dim} {{{self._dim(dim)}}} "
                    f"with index domain dimension {at} {{{other._dim(at)}}}",
                    "OUT_OF_RANGE",
                )
            bounds[dim] = lower, upper
            implicit_lower[dim] = implicit_upper[dim] = False
        return self._with(bounds, implicit_lower, implicit_upper, labels)


def match_domain(target: IndexDomain, other: IndexDomain) -> tuple[list[int], list[str] | None]:
    """Return the target dimension for each dimension of a slicing domain, and the new labels if these change."""
    target_labelled, other_labelled = any(target._labels), any(other._labels)
    rank, other_rank = target.rank, other.rank
    if not (target_labelled and other_labelled):
        if rank != other_rank:
            raise index_error(
                f"Rank of index domain ({other_rank}) must match rank of slice target ({rank}) "
                "when the index domain or slice target is unlabeled"
            )
        return list(range(rank)), list(other._labels) if other_labelled else None
    unlabelled = [dim for dim, label in enumerate(target._labels) if not label]
    dims = []
    for label in other._labels:
        if label:
            dims.extend(resolve((label,), rank, target._labels))
        elif unlabelled:
            dims.append(unlabelled.pop(0))
        else:
            raise index_error(
                "Number of unlabeled dimensions in index domain exceeds number of unlabeled dimensions in slice target"
            )
    if rank != other_rank and not all(other._labels):
        raise index_error(
            f"Rank ({other_rank}) of index domain containing unlabeled dimensions must equal slice target rank ({rank})"
        )
    return dims, None


def merge_domains(first: IndexDomain, second: IndexDomain) -> IndexDomain:
    """Merge two domains that agree; an implicit infinite bound and an empty label match any.

    Raises
    ------
    ValueError
        If they disagree.
    """
    return _combined("merge", first, second, _merge_dims)


def _combined(verb: str, first: IndexDomain, second: IndexDomain, join: Callable[[Dim, Dim], Dim]) -> IndexDomain:
    if not isinstance(second, IndexDomain):
        raise type_error(f"incompatible function arguments: expected an IndexDomain, not {type(second).__name__}")
    try:
        if first.rank != second.rank:
            raise invalid("Ranks do not match")
        dims = []
        for dim, pair in enumerate(zip(first, second, strict=True)):
            try:
                dims.append(join(*pair))
            except StatusError as error:
                raise annotate(error, f"Mismatch in dimension {dim}") from None
        return _of_dimensions(dims)
    except StatusError as error:
        raise annotate(error, f"Cannot {verb} index domain {first} with index domain {second}") from None


def _merge_dims(first: Dim, second: Dim) -> Dim:
    label = merge_labels(first.label, second.label)
    lower, implicit_lower = _merge_bound(
        "Lower",
        (first.inclusive_min, first.implicit_lower),
        (second.inclusive_min, second.implicit_lower),
        -INFINITY,
    )
    upper, implicit_upper = _merge_bound(
        "Upper",
        (first.exclusive_max, first.implicit_upper),
        (second.exclusive_max, second.implicit_upper),
        EXCLUSIVE_INFINITY,
    )
    if lower > upper:
        raise invalid(f"({lower}, {upper - 1}) do not specify a valid closed index interval")
    return Dim._make(lower, upper, implicit_lower, implicit_upper, label)


def _merge_bound(name: str, first: tuple[int, bool], second: tuple[int, bool], infinite: int) -> tuple[int, bool]:
    if first[0] == second[0]:
        return first[0], first[1] and second[1]
    if first == (infinite, True):
        return second
    if second == (infinite, True):
        return first
    raise invalid(f"{name} bounds do not match")


def _of_dimensions(dimensions: Iterable[Dim]) -> IndexDomain:
    dims = list(dimensions)
    if not all(isinstance(dim, Dim) for dim in dims):
        raise type_error("__init__(): incompatible constructor arguments: expected a rank or a sequence of Dim")
    if len(dims) > 32:
        raise invalid(f"Invalid rank: {len(dims)}")
    check_labels(dim.label for dim in dims)
    return IndexDomain._of_bounds([dim._key()[:4] for dim in dims], [dim.label for dim in dims])
