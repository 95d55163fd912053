"""One dimension of an index domain: its bounds, whether each is implicit, and its label."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from tegula.runtime.frozen import attribute
from tegula.tensorstore.errors import invalid, type_error
from tegula.tensorstore.index.intervals import (
    EXCLUSIVE_INFINITY,
    INFINITY,
    MAX_INT64,
    common_flags,
    half_open,
    interval_text,
    sized,
)
from tegula.tensorstore.json.binding import dump

__all__ = ["Dim", "inf", "merge_labels"]

inf = INFINITY


class Dim:
    """An index interval with an optional label; either bound may be *implicit*: a default that a resize may change.

    Parameters
    ----------
    size : int, optional
        Number of indices, starting at ``inclusive_min`` or 0. As positional arguments, a string is the label of an
        unbounded dimension, and two integers are ``inclusive_min`` and ``exclusive_max``.
    inclusive_min, exclusive_max, inclusive_max : int, optional
        The bounds; infinite by default.
    label : str, optional
        The name of the dimension.
    implicit_lower, implicit_upper : bool, optional
        By default, given bounds are explicit and all others implicit.

    Examples
    --------
    >>> Dim(5, label="x")
    Dim(inclusive_min=0, exclusive_max=5, label="x")
    >>> Dim(inclusive_min=3)
    Dim(inclusive_min=3)
    >>> 4 in Dim(2, 5)
    True
    """

    __slots__ = ("_lower", "_upper", "implicit_lower", "implicit_upper", "label")

    _lower: int
    _upper: int
    implicit_lower: bool
    implicit_upper: bool
    label: str

    def __init__(
        self,
        *args: Any,
        implicit_lower: bool | None = None,
        implicit_upper: bool | None = None,
        **bounds: Any,
    ) -> None:
        form = _parse_arguments(args, bounds)
        if form is None:
            raise type_error(
                "expected Dim(label=...), Dim(size, label=...), Dim(inclusive_min, exclusive_max) "
                "or Dim(inclusive_min=..., inclusive_max=...)"
            )
        lower, upper, label, lower_given, upper_given = form
        self._lower, self._upper = lower, upper
        self.label = label or ""
        self.implicit_lower = not lower_given if implicit_lower is None else bool(implicit_lower)
        self.implicit_upper = not upper_given if implicit_upper is None else bool(implicit_upper)

    @classmethod
    def _make(cls, lower: int, upper: int, implicit_lower: bool, implicit_upper: bool, label: str) -> Dim:
        self = cls.__new__(cls)
        self._lower, self._upper = lower, upper
        self.implicit_lower, self.implicit_upper, self.label = implicit_lower, implicit_upper, label
        return self

    inclusive_min: int = attribute("_lower", "The first index; ``-inf`` if there is none.")
    exclusive_max: int = attribute("_upper", "One more than the last index; ``inf + 1`` if the dimension is unbounded.")

    @property
    def inclusive_max(self) -> int:
        """The last index."""
        return self._upper - 1

    @property
    def exclusive_min(self) -> int:
        """One less than the first index."""
        return self._lower - 1

    @property
    def size(self) -> int:
        """The number of indices."""
        return self._upper - self._lower

    @property
    def empty(self) -> bool:
        """Whether the interval is empty."""
        return self._upper == self._lower

    @property
    def finite(self) -> bool:
        """Whether both bounds are finite."""
        return self._lower != -INFINITY and self._upper != EXCLUSIVE_INFINITY

    def hull(self, other: Dim) -> Dim:
        """Return the smallest interval that contains both."""
        _check_other(other)
        label = merge_labels(self.label, other.label)
        if self.empty or other.empty:
            chosen = other if self.empty else self
            lower, upper = chosen._lower, chosen._upper
        else:
            lower, upper = min(self._lower, other._lower), max(self._upper, other._upper)
        return Dim._make(lower, upper, *common_flags(self._key(), other._key(), lower, upper), label)

    def intersect(self, other: Dim) -> Dim:
        """Return the intersection."""
        _check_other(other)
        label = merge_labels(self.label, other.label)
        lower, upper = max(self._lower, other._lower), min(self._upper, other._upper)
        flags = common_flags(self._key(), other._key(), lower, upper)
        return Dim._make(lower, max(lower, upper), *flags, label)

    def __contains__(self, other: int | Dim) -> bool:
        if isinstance(other, Dim):
            return other.empty or (self._lower <= other._lower and other._upper <= self._upper)
        if not hasattr(other, "__index__"):
            raise type_error(f"expected int or Dim, not {other!r}")
        index = operator.index(other)
        return self._lower <= index < self._upper and abs(index) < INFINITY

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dim):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        raise type_error("unhashable type: 'Dim'")

    def _key(self) -> tuple[int, int, bool, bool, str]:
        return self._lower, self._upper, self.implicit_lower, self.implicit_upper, self.label

    def __len__(self) -> int:
        return self._upper - self._lower

    def __iter__(self) -> Iterator[int]:
        if not self.finite:
            raise invalid("Cannot iterate over infinite interval")
        return iter(range(self._lower, self._upper))

    def __str__(self) -> str:
        text = interval_text(self._lower, self._upper, self.implicit_lower, self.implicit_upper)
        return f"{dump(self.label)}: {text}" if self.label else text

    def __repr__(self) -> str:
        parts = []
        if self._lower != -INFINITY:
            parts.append(f"inclusive_min={self._lower}")
        if self.implicit_lower != (self._lower == -INFINITY):
            parts.append(f"implicit_lower={self.implicit_lower}")
        if self._upper != EXCLUSIVE_INFINITY:
            parts.append(f"exclusive_max={self._upper}")
        if self.implicit_upper != (self._upper == EXCLUSIVE_INFINITY):
            parts.append(f"implicit_upper={self.implicit_upper}")
        if self.label:
            parts.append(f"label={dump(self.label)}")
        return f"Dim({', '.join(parts)})"


def _check_other(other: object) -> None:
    if not isinstance(other, Dim):
        raise type_error(f"expected a Dim, not {type(other).__name__}")


def merge_labels(first: str, second: str) -> str:
    """Return the common label of two dimensions; an empty label matches any label."""
    if first and second and first != second:
        raise invalid("Dimension labels do not match")
    return first or second


def _parse_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, int, str | None, bool, bool] | None:
    """Return the bounds, the label, and whether each bound was given; None if the arguments fit no form."""
    for positional, keywords in _FORMS:
        fields = _match_form(args, named, positional, keywords)
        has_size = "size" in positional
        if fields is None or (has_size and "size" not in fields):
            continue
        low, size, last, upper = (
            fields.get(name) for name in ("inclusive_min", "size", "inclusive_max", "exclusive_max")
        )
        lower = low if low is not None else 0 if has_size else -INFINITY
        if size is not None:
            bounds = sized(lower, size)
        else:
            upper = upper if last is None else last + 1
            bounds = half_open(lower, EXCLUSIVE_INFINITY if upper is None else upper)
        return (*bounds, fields.get("label"), has_size or low is not None, size is not None or upper is not None)
    return None


_FORMS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("label",), ()),
    (("size", "label"), ("inclusive_min",)),
    (("inclusive_min", "exclusive_max"), ("label",)),
    ((), ("inclusive_min", "inclusive_max", "label")),
]
"""The forms of the constructor: names of positional arguments, and of those that are given by name."""


def _match_form(
    args: tuple[Any, ...], named: dict[str, Any], positional: tuple[str, ...], keywords: tuple[str, ...]
) -> dict[str, Any] | None:
    """Return arguments by name; None if they do not fit one form of the constructor and its types."""
    values = {**dict(zip(positional, args, strict=False)), **named}
    if len(args) > len(positional) or len(values) < len(args) + len(named) or set(values) - {*positional, *keywords}:
        return None
    fields: dict[str, Any] = {}
    for name, value in values.items():
        if value is None or (name == "label" and isinstance(value, str)):
            fields[name] = value
        elif name != "label" and hasattr(value, "__index__") and abs(operator.index(value)) <= MAX_INT64:
            fields[name] = operator.index(value)
        else:
            return None
    return fields
