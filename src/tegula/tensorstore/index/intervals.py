"""Arithmetic on index intervals ``(lower, upper)`` with an exclusive upper bound, and the limits of indices."""

from __future__ import annotations

from tegula.tensorstore.errors import invalid, status

__all__ = [
    "EXCLUSIVE_INFINITY",
    "INFINITY",
    "MAX_INT64",
    "MAX_RANK",
    "Bounds",
    "Interval",
    "affine_domain",
    "bound_text",
    "ceil_ratio",
    "closed",
    "common_flags",
    "explicit_intersection",
    "half_open",
    "intersection",
    "interval_text",
    "shift",
    "sized",
    "translation",
    "truncated_ratio",
]

Interval = tuple[int, int]
Bounds = tuple[int, int, bool, bool]
"""An interval, and whether each of its bounds is implicit."""

INFINITY = 2**62 - 1
EXCLUSIVE_INFINITY = 2**62
MAX_INT64 = 2**63 - 1
MAX_RANK = 32


def half_open(lower: int, upper: int) -> Interval:
    """Check the bounds of ``[lower, upper)``."""
    if not (-INFINITY <= lower < INFINITY and -INFINITY + 1 < upper <= EXCLUSIVE_INFINITY and lower <= upper):
        raise invalid(f"({lower}, {upper}) do not specify a valid half-open index interval")
    return lower, upper


def closed(lower: int, last: int) -> Interval:
    """Check the bounds of ``[lower, last]`` and return them as a half-open interval."""
    if not (-INFINITY <= lower < INFINITY and -INFINITY < last <= INFINITY and lower <= last + 1):
        raise invalid(f"({lower}, {last}) do not specify a valid closed index interval")
    return lower, last + 1


def sized(lower: int, size: int) -> Interval:
    """Check the interval of ``size`` indices from ``lower``; the largest 64-bit size means unbounded."""
    if size == MAX_INT64:
        return half_open(lower, EXCLUSIVE_INFINITY)
    upper = lower + size
    if not (-INFINITY <= lower < INFINITY and size >= 0 and -INFINITY + 1 < upper <= EXCLUSIVE_INFINITY):
        raise invalid(f"({lower}, {size}) do not specify a valid sized index interval")
    return lower, upper


def intersection(first: Bounds, second: Bounds) -> Bounds:
    """Return the intersection of two intervals."""
    lower, upper = max(first[0], second[0]), min(first[1], second[1])
    return lower, max(lower, upper), *common_flags(first, second, lower, upper)


def explicit_intersection(first: Bounds, second: Bounds) -> Bounds:
    """Return the intersection of two intervals, in which explicit bounds override implicit ones."""
    implicit_lower, implicit_upper = first[2] and second[2], first[3] and second[3]
    lower = max([bounds[0] for bounds in (first, second) if bounds[2] == implicit_lower])
    upper = min([bounds[1] for bounds in (first, second) if bounds[3] == implicit_upper])
    return lower, max(lower, upper), implicit_lower, implicit_upper


def common_flags(first: Bounds, second: Bounds, lower: int, upper: int) -> tuple[bool, bool]:
    """Return whether bounds taken from two intervals are implicit; a bound that both share must be so in both."""
    implicit_lower = first[2] and second[2] if first[0] == second[0] else (first if lower == first[0] else second)[2]
    implicit_upper = first[3] and second[3] if first[1] == second[1] else (first if upper == first[1] else second)[3]
    return implicit_lower, implicit_upper


def bound_text(bound: int) -> str:
    """Return a bound as text; ``-inf`` and ``+inf`` for infinite ones."""
    if bound <= -INFINITY:
        return "-inf"
    return "+inf" if bound >= EXCLUSIVE_INFINITY else str(bound)


def interval_text(lower: int, upper: int, implicit_lower: bool = False, implicit_upper: bool = False) -> str:
    """Return an interval as text; an implicit bound has a star."""
    opening = "(" if lower == -INFINITY else "["
    stars = "*" if implicit_lower else "", "*" if implicit_upper else ""
    return f"{opening}{bound_text(lower)}{stars[0]}, {bound_text(upper)}{stars[1]})"


def shift(lower: int, upper: int, offset: int) -> Interval:
    """Translate an interval; infinite bounds stay infinite."""
    new = (
        lower if lower == -INFINITY else lower + offset,
        upper if upper == EXCLUSIVE_INFINITY else upper + offset,
    )
    if not (-INFINITY <= new[0] < INFINITY and -INFINITY < new[1] <= EXCLUSIVE_INFINITY) or (
        lower != -INFINITY and new[0] == -INFINITY
    ):
        raise invalid(f"{interval_text(lower, upper)} + {offset} is outside valid range {FINITE_RANGE}")
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
        raise status("OUT_OF_RANGE", f"Origin {amount} is outside valid range {FINITE_RANGE}")
    if lower == -INFINITY:
        raise invalid(f"Interval {interval_text(lower, upper)} is not bounded below")
    return amount - lower


FINITE_RANGE = interval_text(-INFINITY + 1, EXCLUSIVE_INFINITY - 1)


def ceil_ratio(numerator: int, denominator: int) -> int:
    """Divide, rounding up."""
    return -(-numerator // denominator)


def truncated_ratio(numerator: int, denominator: int) -> int:
    """Divide, rounding towards zero."""
    return numerator // denominator if (numerator < 0) == (denominator < 0) else -(-numerator // denominator)


def affine_domain(interval: Interval, offset: int, stride: int) -> Interval:
    """Return the interval of all ``i`` with ``offset + stride * i`` inside ``interval``."""
    lower, last = interval[0], interval[1] - 1
    infinite_lower, infinite_upper = lower == -INFINITY, last == INFINITY
    if stride < 0:
        lower, last = last, lower
        infinite_lower, infinite_upper = infinite_upper, infinite_lower
    start = -INFINITY if infinite_lower else ceil_ratio(lower - offset, stride)
    stop = EXCLUSIVE_INFINITY if infinite_upper else (last - offset) // stride + 1
    if interval[0] == interval[1]:
        start = stop = ceil_ratio(interval[0] - offset, stride)
    if not (-INFINITY <= start < INFINITY and -INFINITY < stop <= EXCLUSIVE_INFINITY):
        raise invalid(
            f"Integer overflow propagating range {interval_text(*interval)} through inverse affine transform "
            f"with offset {offset} and multiplier {stride}"
        )
    return start, max(start, stop)
