"""Bounds of a view after a resize of the base array, and bounds of the base for a resize of the view."""

from __future__ import annotations

from tegula.tensorstore.errors import invalid, status
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.index.transform import IndexTransform

__all__ = ["base_bounds", "resolved_transform"]

_Bounds = tuple[int | None, ...]


def _view_bounds(output: OutputIndexMap, base: IndexDomain, number: int) -> tuple[int, int, bool, bool]:
    """Return the bounds of a view dimension that maps to a dimension of the base, and whether they are implicit."""
    ends = [base.inclusive_min[number], base.exclusive_max[number]]
    implicit = [base.implicit_lower_bounds[number], base.implicit_upper_bounds[number]]
    offset, stride = output.offset, output.stride or 1
    if stride > 0:
        low, high = (-((offset - end) // stride) for end in ends)
        return low, high, implicit[0], implicit[1]
    low, high = (-((end - 1 - offset) // -stride) for end in reversed(ends))
    return low, high, implicit[1], implicit[0]


def resolved_transform(transform: IndexTransform, base: IndexDomain) -> IndexTransform:
    """Return the transform of a view with its implicit bounds taken from the current bounds of the base."""
    domain = transform.domain
    if True not in domain._implicit_lower and True not in domain._implicit_upper:
        return transform  # each read and write calls this, so the usual case must be fast
    bounds: list[tuple[int, int]] = []
    flags: list[tuple[bool, bool]] = []
    for axis, dim in enumerate(domain):
        lower, upper, implicit_lower, implicit_upper, _ = dim._key()
        shown = [
            _view_bounds(output, base, number)
            for number, output in enumerate(transform.output)
            if output._dimension == axis
        ]
        if shown:
            low, high = max(ends[0] for ends in shown), min(ends[1] for ends in shown)
            if dim.implicit_lower:
                lower, implicit_lower = low, all(ends[2] for ends in shown if ends[0] == low)
            if dim.implicit_upper:
                upper, implicit_upper = max(high, lower), all(ends[3] for ends in shown if ends[1] == high)
        bounds.append((min(lower, upper), upper))
        flags.append((implicit_lower, implicit_upper))
    changed = domain._with(bounds, [lower for lower, _ in flags], [upper for _, upper in flags])
    return transform if changed == domain else IndexTransform(changed, output=transform.output)


def base_bounds(
    transform: IndexTransform, base: IndexDomain, inclusive_min: _Bounds, exclusive_max: _Bounds, *, tied: bool
) -> tuple[_Bounds, _Bounds]:
    """Return the new bounds of the base for a resize of a view.

    Parameters
    ----------
    transform : IndexTransform
        The transform of the view.
    base : IndexDomain
        The domain of the base.
    inclusive_min, exclusive_max : tuple of (int or None)
        The new bounds of the view; None keeps a bound.
    tied : bool
        Whether elements outside the view may be added or removed.

    Raises
    ------
    ValueError
        If a bound is fixed or has no counterpart in the base, or, without `tied`, if the resize would also affect
        elements outside the view.
    """
    # only implicit bounds can change
    _check_implicit(transform.domain, inclusive_min, exclusive_max)
    lower: list[int | None] = [None] * base.rank
    upper: list[int | None] = [None] * base.rank
    if all(bound is None for bound in (*inclusive_min, *exclusive_max)):
        return tuple(lower), tuple(upper)
    # convert the bounds of each dimension of the view to those of the base
    counts: dict[int, int] = {}
    for number, output in enumerate(transform.output):
        if output.index_array is not None:
            if not tied:
                raise invalid(
                    f"Output dimension {number} has index array map but `resize_tied_bounds` was not specified"
                )
            continue
        axis = output.input_dimension
        if axis is None:
            continue
        counts[axis] = counts.get(axis, 0) + 1
        if counts[axis] > 1 and not tied:
            raise invalid(
                f"Input dimension {axis} corresponds to a diagonal but `resize_tied_bounds` was not specified"
            )
        low: int | None = inclusive_min[axis]
        high: int | None = exclusive_max[axis]
        stays = low is None and high is None
        if output.stride not in (1, -1) and not (stays and tied):
            what, reason = ("resized ", "") if not stays else ("", " but `resize_tied_bounds` was not specified")
            raise invalid(
                f"Output dimension {number} depends on {what}input dimension {axis} with non-unit stride of "
                f"{output.stride}{reason}"
            )
        if stays:
            continue
        if output.stride == -1:
            low, high = None if high is None else 1 - high, None if low is None else 1 - low
        lower[number] = None if low is None else low + output.offset
        upper[number] = None if high is None else high + output.offset
    # the base must allow the change, and the view must contain all elements that the change affects
    _check_fixed(base, lower, upper)
    if not tied:
        _check_outside(transform, base, lower, upper)
    return tuple(lower), tuple(upper)


def _check_implicit(domain: IndexDomain, inclusive_min: _Bounds, exclusive_max: _Bounds) -> None:
    for axis in range(domain.rank):
        for bounds, implicit, word in (
            (inclusive_min, domain.implicit_lower_bounds, "lower"),
            (exclusive_max, domain.implicit_upper_bounds, "upper"),
        ):
            if bounds[axis] is not None and not implicit[axis]:
                raise invalid(f"Invalid resize request for input dimension {axis}: Cannot change explicit {word} bound")


def _check_fixed(base: IndexDomain, lower: list[int | None], upper: list[int | None]) -> None:
    for number in range(base.rank):
        for bounds, fixed, implicit, words in (
            (lower, base.inclusive_min, base.implicit_lower_bounds, "inclusive lower"),
            (upper, base.exclusive_max, base.implicit_upper_bounds, "exclusive upper"),
        ):
            bound = bounds[number]
            if bound is None or implicit[number]:
                continue
            if bound != fixed[number]:
                raise status(
                    "FAILED_PRECONDITION",
                    f"Cannot change {words} bound of output dimension {number}, which is fixed at {fixed[number]}, "
                    f"to {bound}",
                )
            bounds[number] = None


def _check_outside(
    transform: IndexTransform, base: IndexDomain, lower: list[int | None], upper: list[int | None]
) -> None:
    """Refuse a resize if the view omits a part of the base, except at the bounds that change."""
    domain = transform.domain
    for number, output in enumerate(transform.output):
        axis = output.input_dimension
        if axis is None:
            start, stop = output.offset, output.offset + 1
        else:
            ends = [domain.inclusive_min[axis], domain.exclusive_max[axis] - 1]
            shown = sorted((output.stride or 1) * end + output.offset for end in ends)
            start, stop = shown[0], shown[1] + 1
        low, high = base.inclusive_min[number], base.exclusive_max[number]
        before, after = start > low and lower[number] is None, stop < high and upper[number] is None
        if before or after:
            outside = f"[{low}, {start})" if before else f"[{stop}, {high})"
            raise status(
                "FAILED_PRECONDITION",
                f"Resize operation would also affect output dimension {number} over the interval {outside} but "
                "`resize_tied_bounds` was not specified",
            )
