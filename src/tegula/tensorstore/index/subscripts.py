"""Properties that take arguments in square brackets, such as ``domain.translate_by[1, 2]``, and their arguments."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from tegula.tensorstore.errors import index_error, invalid, type_error
from tegula.tensorstore.index.intervals import MAX_INT64

__all__ = [
    "Selector",
    "Subscript",
    "flags_argument",
    "integers",
    "resolve",
    "resolve_dimension",
    "selectors_of",
    "slice_text",
    "strings",
    "twice",
]

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


def _is_index(value: Any) -> bool:
    return hasattr(value, "__index__") and abs(operator.index(value)) <= MAX_INT64


def integers(argument: Any) -> int | list[int | None] | None:
    """Read one integer or a sequence of integers; an element may be None."""
    if argument is None or _is_index(argument):
        return None if argument is None else operator.index(argument)
    is_sequence = isinstance(argument, Iterable) and not isinstance(argument, (str, bytes))
    elements: list[Any] = list(argument) if is_sequence else [argument]
    if not all(element is None or _is_index(element) for element in elements):
        raise type_error(f"expected integers or None, not {argument!r}")
    return [None if element is None else operator.index(element) for element in elements]


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
        parts = argument.start, argument.stop, argument.step
        return (slice(*[None if part is None else operator.index(part) for part in parts]),)
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
    """Return the text of a slice, as between brackets, without a step of 1.

    Examples
    --------
    >>> slice_text(slice(1, None)), slice_text(slice(None, 5, 2))
    ('1:', ':5:2')
    """
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
