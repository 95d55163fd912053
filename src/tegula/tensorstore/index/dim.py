"""One dimension of an index domain: its bounds, whether each is implicit, and its label; and arithmetic on bounds.

An interval ``(lower, upper)`` has an exclusive upper bound.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, Final

from tegula.runtime.frozen import attribute, computed
from tegula.tensorstore.errors import StatusError, checked, index_error, invalid, status, type_error, unhashable
from tegula.tensorstore.json import MAX_RANK, dump

__all__ = [
    "EXCLUSIVE_INFINITY", "INFINITY", "MAX_INT64", "MAX_RANK", "UNBOUNDED", "Bounds", "Dim", "Interval",
    "affine_domain", "closed", "effective", "explicit_intersection", "half_open", "inf", "interval_text",
    "merge_labels", "outside", "shift", "sized", "slice_bounds", "translation",
]  # fmt: skip


Interval = tuple[int, int]
Bounds = tuple[int, int, bool, bool, str]
"""The bounds of a dimension, whether each is implicit, and its label."""

INFINITY = 2**62 - 1
EXCLUSIVE_INFINITY = 2**62
MAX_INT64 = 2**63 - 1

UNBOUNDED: Interval = (-INFINITY, EXCLUSIVE_INFINITY)


def half_open(lower: int, upper: int) -> Interval:
    """Check the bounds of ``[lower, upper)``."""
    if not (-INFINITY <= lower < INFINITY and -INFINITY + 1 < upper <= EXCLUSIVE_INFINITY and lower <= upper):
        raise invalid(f"[{lower}, {upper}) is not a valid interval")
    return lower, upper


def closed(lower: int, last: int) -> Interval:
    """Check the bounds of ``[lower, last]`` and return them as a half-open interval."""
    return half_open(lower, last + 1)


def sized(lower: int, size: int) -> Interval:
    """Check the interval of ``size`` indices from ``lower``; the largest 64-bit size means unbounded."""
    return half_open(lower, EXCLUSIVE_INFINITY if size == MAX_INT64 else lower + size)


def effective(bounds: Bounds) -> Interval:
    """Return an interval with infinity in place of implicit bounds."""
    return -INFINITY if bounds[2] else bounds[0], EXCLUSIVE_INFINITY if bounds[3] else bounds[1]


def explicit_intersection(first: Bounds, second: Bounds) -> Bounds:
    """Return the intersection of two intervals, in which explicit bounds override implicit ones."""
    implicit_lower, implicit_upper = first[2] and second[2], first[3] and second[3]
    lower = max([bounds[0] for bounds in (first, second) if bounds[2] == implicit_lower])
    upper = min([bounds[1] for bounds in (first, second) if bounds[3] == implicit_upper])
    return lower, max(lower, upper), implicit_lower, implicit_upper, ""


def common_flags(first: Bounds, second: Bounds, lower: int, upper: int) -> tuple[bool, bool]:
    """Return whether bounds taken from two intervals are implicit; a bound that both share must be so in both."""
    implicit_lower = first[2] and second[2] if first[0] == second[0] else (first if lower == first[0] else second)[2]
    implicit_upper = first[3] and second[3] if first[1] == second[1] else (first if upper == first[1] else second)[3]
    return implicit_lower, implicit_upper


def interval_text(
    lower: int, upper: int, implicit_lower: bool = False, implicit_upper: bool = False, label: str = ""
) -> str:
    """Return an interval as text; an implicit bound has a star."""
    start = "(-inf" if lower <= -INFINITY else f"[{lower}"
    stop = "+inf" if upper >= EXCLUSIVE_INFINITY else str(upper)
    return f"{start}{'*' if implicit_lower else ''}, {stop}{'*' if implicit_upper else ''})"


def outside(what: str, index: int, bounds: Interval) -> str:
    """Return what an error says about an index outside an interval."""
    return f"{what}: {index} is outside valid range {interval_text(*bounds)}"


def shift(lower: int, upper: int, offset: int) -> Interval:
    """Translate an interval; infinite bounds stay infinite."""
    new = lower if lower == -INFINITY else lower + offset, upper if upper == EXCLUSIVE_INFINITY else upper + offset
    if not (-INFINITY <= new[0] < INFINITY and -INFINITY < new[1] <= EXCLUSIVE_INFINITY) or (
        lower != -INFINITY and new[0] == -INFINITY
    ):
        raise invalid(f"the interval {interval_text(lower, upper)} can't be translated by {offset}")
    return new


def translation(lower: int, upper: int, amount: int | None, how: str) -> int:
    """Return the offset that translates an interval ``by`` or ``backward_by`` an amount, or ``to`` an origin.

    An amount of None means no translation.
    """
    if amount is None:
        return 0
    if how != "to":
        return amount if how == "by" else -amount
    if not -INFINITY < amount < INFINITY:
        raise status("OUT_OF_RANGE", f"the origin {amount} is not a finite index")
    if lower == -INFINITY:
        raise invalid(f"the interval {interval_text(lower, upper)} has no origin")
    return amount - lower


def affine_domain(interval: Interval, offset: int, stride: int) -> Interval:
    """Return the interval of all ``i`` with ``offset + stride * i`` inside ``interval``."""
    lower, last = interval[0], interval[1] - 1
    infinite_lower, infinite_upper = lower == -INFINITY, last == INFINITY
    if stride < 0:
        lower, last = last, lower
        infinite_lower, infinite_upper = infinite_upper, infinite_lower
    start = -INFINITY if infinite_lower else -((offset - lower) // stride)
    stop = EXCLUSIVE_INFINITY if infinite_upper else (last - offset) // stride + 1
    if interval[0] == interval[1]:
        start = stop = -((offset - interval[0]) // stride)
    if not (-INFINITY <= start < INFINITY and -INFINITY < stop <= EXCLUSIVE_INFINITY):
        raise invalid(f"{interval_text(*interval)} has no valid indices for offset {offset} and stride {stride}")
    return start, max(start, stop)


def slice_bounds(bounds: Bounds, term: slice, dim: int) -> tuple[Bounds, int, int]:
    """Return a dimension's new bounds, and the offset and stride that map new indices to old ones."""
    try:
        return _slice(bounds, term)
    except StatusError as error:
        raise index_error(f"Computing interval slice for dimension {dim}: {error.sentence}", error.code) from None


def _slice(bounds: Bounds, term: slice) -> tuple[Bounds, int, int]:
    lower, upper, implicit_lower, implicit_upper, label = bounds
    start, stop, step = term.start, term.stop, 1 if term.step is None else term.step
    if start is None and stop is None and step == 1:
        return bounds, 0, 1
    if step == 0 or step == -(2**63):
        raise invalid(f"{step} is not a valid step")
    # the bounds that the slice must lie within
    least, most = effective(bounds)
    # the first and the last index; if given, they make their bound explicit
    up = step > 0
    if start is None:
        start = lower if up else upper - 1
    else:
        if not -INFINITY <= start <= INFINITY:
            raise invalid(f"{start} is not an index")
        implicit_lower = False
        # with a negative step the start is the upper bound
        implicit_upper = implicit_upper and up
    if stop is None:
        last = upper - 1 if up else lower
    else:
        implicit_upper = False
        implicit_lower = implicit_lower and up
        last = stop if not -INFINITY <= stop <= INFINITY else stop - 1 if up else stop + 1
    if abs(step) != 1 and not -INFINITY < start < INFINITY:
        raise invalid(f"a step of {step} needs a finite start")
    # the interval of old indices
    new = closed(start, last) if up else closed(last, start)
    if not up:
        implicit_lower, implicit_upper = implicit_upper, implicit_lower
    if new[0] != new[1] and not (least <= new[0] and new[1] <= most):
        raise status("OUT_OF_RANGE", f"{interval_text(*new)} is not within {interval_text(least, most)}")
    # new indices are old ones divided by the step, rounded towards zero
    first = start // step if (start < 0) == (step < 0) else -(-start // step)
    end = EXCLUSIVE_INFINITY if abs(last) == INFINITY else first - (new[0] - new[1]) // abs(step)
    return (first, end, implicit_lower, implicit_upper, label), 0 if first == -INFINITY else start - step * first, step


inf = INFINITY


class Dim:
    """An index interval with an optional label; either bound may be *implicit*: a default that a resize may change.

    Positional arguments are the size, both bounds, or the label. By default, given bounds are explicit and all others
    implicit and infinite, except that a size starts at 0.

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
    __hash__ = unhashable

    def __init__(
        self, *args: Any, implicit_lower: bool | None = None, implicit_upper: bool | None = None, **bounds: Any
    ) -> None:
        fields = _by_name(args, bounds)
        low, size, last, upper = map(fields.get, ("inclusive_min", "size", "inclusive_max", "exclusive_max"))
        lower = low if low is not None else 0 if "size" in fields else -INFINITY
        upper = upper if last is None else last + 1
        if size is not None:
            self._lower, self._upper = sized(lower, size)
        else:
            self._lower, self._upper = half_open(lower, EXCLUSIVE_INFINITY if upper is None else upper)
        self.label: str = fields.get("label") or ""
        has_lower, has_upper = "size" in fields or low is not None, size is not None or upper is not None
        self.implicit_lower = not has_lower if implicit_lower is None else bool(implicit_lower)
        self.implicit_upper = not has_upper if implicit_upper is None else bool(implicit_upper)

    @classmethod
    def _make(cls, lower: int, upper: int, implicit_lower: bool, implicit_upper: bool, label: str) -> Dim:
        self = cls.__new__(cls)
        self._lower, self._upper = lower, upper
        self.implicit_lower, self.implicit_upper, self.label = implicit_lower, implicit_upper, label
        return self

    inclusive_min: int = attribute("_lower", "The first index; ``-inf`` if there is none.")
    exclusive_max: int = attribute("_upper", "One more than the last index; ``inf + 1`` if the dimension is unbounded.")
    inclusive_max: int = computed(lambda dim: dim._upper - 1, "The last index.")
    exclusive_min: int = computed(lambda dim: dim._lower - 1, "One less than the first index.")
    size: int = computed(lambda dim: dim._upper - dim._lower, "The number of indices.")
    empty: bool = computed(lambda dim: dim._upper == dim._lower, "Whether the interval is empty.")
    finite: bool = computed(
        lambda dim: dim._lower != -INFINITY and dim._upper != EXCLUSIVE_INFINITY, "Whether both bounds are finite."
    )

    def hull(self, other: Dim) -> Dim:
        """Return the smallest interval that contains both."""
        label = merge_labels(self.label, checked("other", other, Dim).label)
        if self.empty or other.empty:
            chosen = other if self.empty else self
            lower, upper = chosen._lower, chosen._upper
        else:
            lower, upper = min(self._lower, other._lower), max(self._upper, other._upper)
        return Dim._make(lower, upper, *common_flags(self._key(), other._key(), lower, upper), label)

    def intersect(self, other: Dim) -> Dim:
        """Return the intersection."""
        label = merge_labels(self.label, checked("other", other, Dim).label)
        lower, upper = max(self._lower, other._lower), min(self._upper, other._upper)
        return Dim._make(lower, max(lower, upper), *common_flags(self._key(), other._key(), lower, upper), label)

    def __contains__(self, other: int | Dim) -> bool:
        if isinstance(other, Dim):
            return other.empty or (self._lower <= other._lower and other._upper <= self._upper)
        if not hasattr(other, "__index__"):
            raise type_error(f"expected int or Dim, not {other!r}")
        index = operator.index(other)
        return self._lower <= index < self._upper and abs(index) < INFINITY

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Dim) else NotImplemented

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
        has_lower, has_upper = self._lower != -INFINITY, self._upper != EXCLUSIVE_INFINITY
        parts = {
            f"inclusive_min={self._lower}": has_lower,
            f"implicit_lower={self.implicit_lower}": self.implicit_lower == has_lower,
            f"exclusive_max={self._upper}": has_upper,
            f"implicit_upper={self.implicit_upper}": self.implicit_upper == has_upper,
            f"label={dump(self.label)}": self.label,
        }
        return f"Dim({', '.join(text for text, is_shown in parts.items() if is_shown)})"


def merge_labels(first: str, second: str) -> str:
    """Return the common label of two dimensions; an empty label matches any label."""
    if first and second and first != second:
        raise invalid("Dimension labels do not match")
    return first or second


_FORMS: Final = (
    (1, ("label",)),
    (2, ("size", "label", "inclusive_min")),
    (2, ("inclusive_min", "exclusive_max", "label")),
    (0, ("inclusive_min", "inclusive_max", "label")),
)
"""The forms of the constructor: how many arguments can be positional, and the names of all."""


def _by_name(args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the constructor in the first form that they fit; a size can't be left out of its form."""
    for count, names in _FORMS:
        fields = {**dict(zip(names, args)), **named}
        is_whole = len(args) <= count and len(fields) == len(args) + len(named) and fields.keys() <= {*names}
        if is_whole and ("size" in fields or "size" not in names) and all(map(_is_field, fields, fields.values())):
            return {
                name: value if isinstance(value, str | None) else operator.index(value)
                for name, value in fields.items()
            }
    raise type_error("expected a size, inclusive_min and exclusive_max, or inclusive_min=... and inclusive_max=...")


def _is_field(name: str, value: Any) -> bool:
    if value is None or name == "label":
        return value is None or isinstance(value, str)
    return hasattr(value, "__index__") and abs(operator.index(value)) <= MAX_INT64
