"""Operations on input dimensions of a transform: translation, striding, labels, transposition, diagonals.

`Operable` has them as properties that take arguments in square brackets, for domains, transforms and expressions.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np

from tegula.runtime.frozen import computed
from tegula.tensorstore.errors import index_error, invalid, stating, type_error
from tegula.tensorstore.index.dim import EXCLUSIVE_INFINITY, INFINITY, Bounds, affine_domain, shift, translation
from tegula.tensorstore.index.output_maps import OutputIndexMap, Transform, substituted
from tegula.tensorstore.json import read_indices, read_int64

__all__ = [
    "Mode", "Movable", "Operable", "Selector", "Subscript", "by_arrays", "check_labels", "integers", "operated",
    "operation", "resolve", "selectors_of", "slice_text", "strings", "twice",
]  # fmt: skip


T = TypeVar("T")
Selector = int | str | slice
"""Selects dimensions: a number, a label, or a range of numbers."""


class Subscript(Generic[T]):
    """The value of a property that takes its arguments in square brackets."""

    __slots__ = ("_apply", "_name", "_owner")
    __iter__ = None

    def __init__(self, owner: object, name: str, apply: Callable[[Any], T]) -> None:
        self._owner, self._name, self._apply = owner, name, apply

    def __getitem__(self, argument: Any) -> T:
        return self._apply(argument)

    def __repr__(self) -> str:
        return f"{self._owner!r}.{self._name}"


# --- integers, labels and flags


def integers(argument: Any) -> int | list[int | None] | None:
    """Read one integer or a sequence of integers; an element may be None."""
    if not isinstance(argument, Iterable) or isinstance(argument, (str, bytes)):
        return None if argument is None else read_int64(argument)
    return read_indices(argument)


def strings(argument: Any) -> list[str]:
    """Read one string or a sequence of strings."""
    if isinstance(argument, str):
        return [argument]
    elements: list[Any] = list(argument) if isinstance(argument, Iterable) else [argument]
    if not all(isinstance(element, str) for element in elements):
        raise type_error(f"expected strings, not {argument!r}")
    return elements


def flags_argument(argument: Any) -> tuple[bool | None, bool | None]:
    """Read whether lower and upper bounds become implicit: a bool for both, or a slice; None means no change."""
    lower, upper, step = argument, argument, None
    if isinstance(argument, slice):
        lower, upper, step = argument.start, argument.stop, argument.step
    if step is not None or not all(flag is None or isinstance(flag, int) for flag in (lower, upper)):
        raise type_error(f"expected a bool, None or a slice of these, not {argument!r}")
    return None if lower is None else bool(lower), None if upper is None else bool(upper)


# --- selections of dimensions


def selectors_of(argument: Any) -> tuple[Selector, ...]:
    """Read a selection of dimensions: numbers, labels, slices of numbers, and nested sequences of these."""
    if isinstance(argument, str):
        return (argument,)
    if isinstance(argument, bytes):
        return (argument.decode(),)
    if isinstance(argument, slice):
        return (slice(*read_indices((argument.start, argument.stop, argument.step))),)
    if isinstance(selection := getattr(argument, "_selection", None), tuple):
        return selection
    if hasattr(argument, "__index__") and not isinstance(argument, bool):
        return (operator.index(argument),)
    if not isinstance(argument, Iterable):
        raise type_error(f"not a selection of dimensions: {argument!r}")
    return tuple([selector for element in argument for selector in selectors_of(element)])


def resolve(selectors: Iterable[Selector], rank: int, labels: Sequence[str]) -> list[int]:
    """Return the numbers of the selected dimensions; no dimension may be selected twice."""
    dims: list[int] = []
    for selector in selectors:
        if isinstance(selector, slice):
            dims.extend(_range(selector, rank))
        elif not isinstance(selector, str):
            dims.append(resolve_dimension(selector, rank))
        elif selector and selector in labels:
            dims.append(labels.index(selector))
        else:
            raise index_error(f'Label "{selector}" is none of {", ".join(labels)}')
    if len(set(dims)) != len(dims):
        if len(dims) > rank:
            raise index_error(f"{len(dims)} dimensions are selected, of {rank}")
        raise invalid(f"Dimension {twice(dims)[0]} specified more than once")
    return dims


def twice(dims: Sequence[Any]) -> list[Any]:
    """Return the numbers that occur more than once; labels are left out."""
    return [dim for at, dim in enumerate(dims) if type(dim) is int and dim in dims[:at]]


def resolve_dimension(dim: int, rank: int) -> int:
    """Return the number of a dimension; a negative one counts from the end."""
    if not -rank <= dim < rank:
        raise index_error(f"Dimension index {dim} is outside valid range [-{rank}, {rank})")
    return dim + rank if dim < 0 else dim


def slice_text(selector: slice) -> str:
    """Return the text of a slice, as between brackets, without a step of 1."""
    parts = [selector.start, selector.stop] + ([] if selector.step in (None, 1) else [selector.step])
    return ":".join(["" if part is None else str(part) for part in parts])


def _range(selector: slice, rank: int) -> Iterable[int]:
    step = 1 if selector.step is None else selector.step
    if step == 0:
        raise index_error("step must not be 0")
    start, stop = (0, rank) if step > 0 else (rank - 1, -1)
    if selector.start is not None:
        start = resolve_dimension(selector.start, rank)
    if selector.stop is not None:
        if not -rank - 1 <= selector.stop <= rank:
            text = f"Dimension exclusive stop index {selector.stop} is outside valid range [-{rank + 1}, {rank}]"
            raise index_error(text)
        stop = selector.stop + rank if selector.stop < 0 else selector.stop
    if (stop - start) * step < 0 and not (selector.start is None and selector.stop is None):
        raise index_error(f"{slice_text(selector)} is not a valid range")
    return range(start, stop, step)


Mode: TypeAlias = Literal["default", "oindex", "vindex"]


def operation(name: str, read: Callable[[Any], Any], doc: str) -> Any:
    """Return a property for an operation, whose argument in square brackets is read by a function."""
    return property(lambda self: self._subscript(name, lambda key: self._operated(name, read(key))), doc=doc)


def by_arrays(mode: Mode, doc: str) -> Any:
    """Return a property for indexing in another mode than the default."""
    return property(lambda self: self._subscript(mode, lambda key: self._indexed(key, mode)), doc=doc)


class Operable(ABC):
    """Base class of domains, objects with lazy indexing and dimension expressions: operations that change no element.

    A subclass defines `_operated`, which applies or notes an operation.
    """

    __slots__ = ()

    label: Subscript[Self] = operation("label", strings, '``x.label["a", "b"]`` is x with these labels.')
    translate_by: Subscript[Self] = operation(
        "translate_by", integers, "``x.translate_by[1, 2]`` is x translated by these offsets; None keeps a dimension."
    )
    translate_backward_by: Subscript[Self] = operation(
        "translate_backward_by", integers, "``x.translate_backward_by[1, 2]`` is x translated back by these offsets."
    )
    translate_to: Subscript[Self] = operation(
        "translate_to", integers, "``x.translate_to[1, 2]`` is x translated to this origin."
    )
    mark_bounds_implicit: Subscript[Self] = operation(
        "mark_bounds_implicit",
        flags_argument,
        "``x.mark_bounds_implicit[True]`` has implicit bounds; ``[False:True]``, only implicit upper ones.",
    )

    @abstractmethod
    def _operated(self, name: str, argument: Any) -> Self: ...

    def _subscript(self, name: str, apply: Callable[[Any], Self]) -> Subscript[Self]:
        return Subscript(self, name, apply)


class Movable(Operable):
    """Base class of domains, and of objects with lazy indexing, to which operations apply at once.

    A subclass defines `_pair`, its domain and the output maps over it, and `_with_pair`.
    """

    __slots__ = ()

    @abstractmethod
    def _pair(self) -> Transform: ...

    @abstractmethod
    def _with_pair(self, pair: Transform) -> Self: ...

    def _operated(self, name: str, argument: Any) -> Self:
        pair = self._pair()
        return self._with_pair(operated(pair, [*range(pair[0].rank)], name, argument)[0])

    def transpose(self, axes: Any = None) -> Self:
        """Return x with its dimensions in another order, by default reversed."""
        pair = self._pair()
        rank = pair[0].rank
        dims = [*range(rank)][::-1] if axes is None else resolve(selectors_of(axes), rank, pair[0].labels)
        if len(dims) != rank:
            raise invalid(f"{len(dims)} dimensions are no order of {rank}")
        return self._with_pair(_reordered(pair, dims))

    T: Self = computed(lambda self: self.transpose(), "X with its dimensions in reverse order.")


def operated(pair: Transform, dims: list[int], name: str, argument: Any) -> tuple[Transform, list[int]]:
    """Return the result of an operation on some dimensions, and the dimensions selected after it."""
    match name:
        case "transpose":
            order, positions = _target_order(pair[0].rank, dims, argument)
            return _reordered(pair, order), positions
        case "diagonal":
            return _diagonal(pair, dims), [0]
        case "mark_bounds_implicit":
            return _mark_implicit(pair, dims, *argument), dims
        case "label":
            return _relabelled(pair, _each(argument, dims, "labels")), dims
        case "stride":
            return _strided(pair, _each(argument, dims, "strides")), dims
    return _moved(pair, _each(argument, dims, "indices"), name.removeprefix("translate_")), dims


def _each(values: Any, dims: list[int], what: str) -> dict[int, Any]:
    """Return the value for each dimension: one of several, or the only one."""
    if not isinstance(values, list):
        return dict.fromkeys(dims, values)
    if len(values) != len(dims):
        raise invalid(f"{len(values)} {what} do not fit {len(dims)} dimensions")
    return dict(zip(dims, values))


def _moved(pair: Transform, amounts: Mapping[int, int | None], how: str) -> Transform:
    """Translate dimensions ``by`` or ``backward_by`` an amount, or ``to`` an origin; None keeps a dimension."""
    new: list[Bounds] = []
    inner = []
    for dim, (lower, upper, *rest) in enumerate(pair[0]._dims):
        offset = translation(lower, upper, amounts.get(dim), how)
        new.append((*shift(lower, upper, offset), *rest))
        inner.append(OutputIndexMap._single(dim, -offset))
    return _changed(pair, new, inner)


def _strided(pair: Transform, strides: Mapping[int, int]) -> Transform:
    """Keep the indices that are multiples of the stride of a dimension, and divide them by it."""
    new: list[Bounds] = [*pair[0]._dims]
    for dim, stride in strides.items():
        lower, upper, implicit_lower, implicit_upper, label = new[dim]
        with stating(f"stride of dimension {dim}"):
            if not stride:
                raise index_error("the stride is 0" if stride == 0 else "it has no stride")
            if stride < 0:
                implicit_lower, implicit_upper = implicit_upper, implicit_lower
            new[dim] = (*affine_domain((lower, upper), 0, stride), implicit_lower, implicit_upper, label)
    return _changed(pair, new, [OutputIndexMap._single(dim, 0, strides.get(dim, 1)) for dim in range(len(new))])


def _changed(pair: Transform, dims: list[Bounds], inner: list[OutputIndexMap]) -> Transform:
    """Return the transform from a domain of new dimensions, whose indices `inner` maps to those of the old one."""
    new = pair[0]._of(dims)
    return new, substituted(*pair, new, inner)


def check_labels(labels: Iterable[str]) -> None:
    """Refuse labels that occur twice."""
    named = [label for label in labels if label]
    if repeated := sorted({label for label in named if named.count(label) > 1}):
        raise invalid(f"labels occur twice: {', '.join(repeated)}")


def _relabelled(pair: Transform, labels: Mapping[int, str]) -> Transform:
    new = [(*bounds[:4], labels.get(dim, bounds[4])) for dim, bounds in enumerate(pair[0]._dims)]
    check_labels(bounds[4] for bounds in new)
    return pair[0]._of(new), pair[1]


def _mark_implicit(pair: Transform, dims: list[int], lower: bool | None, upper: bool | None) -> Transform:
    """Mark bounds as implicit or explicit; None keeps them."""
    new: list[Bounds] = [*pair[0]._dims]
    for dim in dims:
        if (lower or upper) and any(old._array is not None and old._array.shape[dim] != 1 for old in pair[1]):
            raise invalid(f"dimension {dim} of an index array can't have implicit bounds")
        begin, end, implicit_lower, implicit_upper, label = new[dim]
        flags = implicit_lower if lower is None else lower, implicit_upper if upper is None else upper
        new[dim] = begin, end, *flags, label
    return pair[0]._of(new), pair[1]


def _reordered(pair: Transform, dims: list[int]) -> Transform:
    inner = [OutputIndexMap._single(at) for at in np.argsort(dims).tolist()]
    return _changed(pair, [pair[0]._dims[dim] for dim in dims], inner)


def _target_order(rank: int, dims: list[int], target: tuple[Selector, ...]) -> tuple[list[int], list[int]]:
    """Return the order of all dimensions after some have moved to target positions, and these positions.

    A single number is the position of the first moved dimension; the others follow it.
    """
    count = len(dims)
    if len(target) == 1 and isinstance(target[0], int):
        start = resolve_dimension(target[0], rank - count + 1) if count else 0
        positions = list(range(start, start + count))
    else:
        if any(isinstance(selector, str) for selector in target):
            raise index_error("Target dimensions cannot be specified by label")
        positions = resolve(target, rank, ())
        if len(positions) != count:
            raise index_error(f"{len(positions)} target dimensions do not fit {count} selected ones")
    moved_dims = dict(zip(positions, dims, strict=True))
    remaining = iter([dim for dim in range(rank) if dim not in dims])
    return [moved_dims[position] if position in moved_dims else next(remaining) for position in range(rank)], positions


def _diagonal(pair: Transform, dims: list[int]) -> Transform:
    """Replace dimensions by their diagonal, which comes first and has the indices that all of them contain."""
    every = pair[0]._dims
    chosen = [every[dim] for dim in dims]
    lower = max([bounds[0] for bounds in chosen], default=-INFINITY)
    upper = max(lower, min([bounds[1] for bounds in chosen], default=EXCLUSIVE_INFINITY))
    joint = lower, upper, all(bounds[2] for bounds in chosen), all(bounds[3] for bounds in chosen), ""
    others = [dim for dim in range(len(every)) if dim not in dims]
    inner = [OutputIndexMap._single(0 if dim in dims else others.index(dim) + 1) for dim in range(len(every))]
    return _changed(pair, [joint, *[every[dim] for dim in others]], inner)
