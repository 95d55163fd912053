"""Slices of one dimension, with a start, a stop and a step."""

from __future__ import annotations

from tegula.tensorstore.errors import StatusError, index_error
from tegula.tensorstore.index.intervals import (
    EXCLUSIVE_INFINITY,
    INFINITY,
    Bounds,
    ceil_ratio,
    closed,
    interval_text,
    truncated_ratio,
)

__all__ = ["slice_bounds"]


def slice_bounds(bounds: Bounds, term: slice, dim: int) -> tuple[Bounds, int, int]:
    """Return a dimension's new bounds, and the offset and stride that map new indices to old ones.

    Raises
    ------
    IndexError
        If the slice is not within the dimension's explicit bounds.
    """
    try:
        return _slice(bounds, term)
    except StatusError as error:
        raise index_error(f"Computing interval slice for dimension {dim}: {error.sentence}", error.code) from None


def _slice(bounds: Bounds, term: slice) -> tuple[Bounds, int, int]:
    lower, upper, implicit_lower, implicit_upper = bounds
    start, stop, step = term.start, term.stop, term.step
    if step is None:
        step = 1
    if start is None and stop is None and step == 1:
        return bounds, 0, 1
    # the bounds that the slice must lie within
    least = -INFINITY if implicit_lower else lower
    most = EXCLUSIVE_INFINITY if implicit_upper else upper
    if step == 0 or step == -(2**63):
        raise index_error(f"Invalid stride {step}")
    # the first and the last index; if given, they make their bound explicit
    up = step > 0
    if start is None:
        start = lower if up else upper - 1
    else:
        if not -INFINITY <= start <= INFINITY:
            raise index_error(f"Invalid start index {start}")
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
        raise index_error(f"Slicing with non-unit stride of {step} requires a finite start index")
    # the interval of old indices
    new = closed(start, last) if up else closed(last, start)
    if not up:
        implicit_lower, implicit_upper = implicit_upper, implicit_lower
    if new[0] != new[1] and not (least <= new[0] and new[1] <= most):
        raise index_error(
            f"Slice interval {interval_text(*new)} is not contained within domain {interval_text(least, most)}",
            "OUT_OF_RANGE",
        )
    # new indices are old ones divided by the step
    first = truncated_ratio(start, step)
    end = EXCLUSIVE_INFINITY if abs(last) == INFINITY else first + ceil_ratio(new[1] - new[0], abs(step))
    origin = -INFINITY if abs(start) == INFINITY else first
    return (origin, end, implicit_lower, implicit_upper), start - step * first if abs(start) != INFINITY else 0, step
