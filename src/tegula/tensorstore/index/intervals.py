"""Arithmetic on index intervals ``(lower, upper)`` with an exclusive upper bound, and the limits of indices."""

from __future__ import annotations

from tegula.tensorstore.errors import StatusError, index_error, invalid, status

__all__ = [
    "EXCLUSIVE_INFINITY",
    "INFINITY",
    "MAX_INT64",
    "MAX_RANK",
    "UNBOUNDED",
    "Bounds",
    "Interval",
    "affine_domain",
    "closed",
    "common_flags",
    "effective",
    "explicit_intersection",
    "half_open",
    "interval_text",
    "shift",
    "sized",
    "slice_bounds",
    "translation",
]

Interval = tuple[int, int]
Bounds = tuple[int, int, bool, bool, str]
"""The bounds of a dimension, whether each is implicit, and its label."""

INFINITY = 2**62 - 1
EXCLUSIVE_INFINITY = 2**62
MAX_INT64 = 2**63 - 1
MAX_RANK = 32
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
