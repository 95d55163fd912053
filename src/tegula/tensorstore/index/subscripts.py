"""Properties that take arguments in square brackets, such as ``domain.translate_by[1, 2]``, and their arguments."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from tegula.tensorstore.errors import invalid, type_error
from tegula.tensorstore.index.intervals import MAX_INT64

__all__ = ["Subscript", "flags_argument", "integers", "labels_argument", "offsets_argument", "strings"]

T = TypeVar("T")


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


def integers(argument: Any, method: str = "__getitem__") -> int | list[int | None] | None:
    """Read one integer or a sequence of integers; an element may be None."""
    if argument is None:
        return None
    if _is_index(argument):
        return operator.index(argument)
    elements = (
        list(argument) if isinstance(argument, Iterable) and not isinstance(argument, (str, bytes)) else [argument]
    )
    if not all(element is None or _is_index(element) for element in elements):
        raise type_error(f"{method}(): incompatible function arguments: expected integers or None, not {argument!r}")
    return [None if element is None else operator.index(element) for element in elements]


def _is_index(value: Any) -> bool:
    return hasattr(value, "__index__") and abs(operator.index(value)) <= MAX_INT64


def offsets_argument(argument: Any, count: int) -> list[int | None]:
    """Read one integer for all dimensions, or a sequence with one integer for each."""
    offsets = integers(argument)
    if not isinstance(offsets, list):
        return [offsets] * count
    if len(offsets) != count:
        raise invalid(f"Number of dimensions ({count}) does not match number of indices ({len(offsets)})")
    return offsets


def strings(argument: Any) -> list[str]:
    """Read one string or a sequence of strings."""
    if isinstance(argument, str):
        return [argument]
    try:
        elements = list(argument)
    except TypeError:
        elements = [None]
    if not all(isinstance(element, str) for element in elements):
        raise type_error(f"__getitem__(): incompatible function arguments: expected strings, not {argument!r}")
    return elements


def labels_argument(argument: Any, count: int) -> list[str]:
    """Read a label for each dimension."""
    labels = strings(argument)
    if len(labels) != count:
        raise invalid(f"Number of dimensions ({count}) does not match number of labels ({len(labels)}).")
    return labels


def flags_argument(argument: Any) -> tuple[bool | None, bool | None]:
    """Read whether lower and upper bounds become implicit: a bool for both, or a slice; None means no change."""
    if isinstance(argument, slice):
        if argument.step is not None:
            raise type_error(
                f"__getitem__(): incompatible function arguments: expected a slice without a step, not {argument!r}"
            )
        return _flag(argument.start), _flag(argument.stop)
    return _flag(argument), _flag(argument)


def _flag(value: Any) -> bool | None:
    if value is None or isinstance(value, (bool, int)):
        return None if value is None else bool(value)
    raise type_error(f"__getitem__(): incompatible function arguments: expected bool or None, not {value!r}")
