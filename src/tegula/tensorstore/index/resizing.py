"""Bounds of a view after a resize of the base array, and bounds of the base for a resize of the view."""

from __future__ import annotations

from tegula.tensorstore.errors import invalid, status
from tegula.tensorstore.index.composition import inherited, with_inherited
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.intervals import Bounds, interval_text
from tegula.tensorstore.index.transform import IndexTransform

__all__ = ["base_bounds", "resolved_transform"]

_Bounds = tuple[int | None, ...]


def resolved_transform(transform: IndexTransform, base: IndexDomain) -> IndexTransform:
    """Return the transform of a view with its implicit bounds taken from the current bounds of the base."""
    domain = transform._domain
    if True not in domain._implicit_lower and True not in domain._implicit_upper:
        return transform  # each read and write calls this, so the usual case must be fast
    lower, upper, implicit_lower, implicit_upper, _ = domain._parts()
    changed: dict[int, Bounds] = {}
    for dim, outermost in inherited(base, transform._maps).items():
        if implicit_lower[dim] or implicit_upper[dim]:
            own = lower[dim], upper[dim], implicit_lower[dim], implicit_upper[dim]
            bounds = with_inherited(own, outermost)
            if bounds != own:
                changed[dim] = bounds
    if not changed:
        return transform
    new = [changed.get(dim) or domain._bounds(dim) for dim in range(len(lower))]
    return IndexTransform(IndexDomain._of_bounds(new, domain._labels), output=transform.output)


def base_bounds(
    transform: IndexTransform, base: IndexDomain, inclusive_min: _Bounds, exclusive_max: _Bounds, *, tied: bool
) -> tuple[_Bounds, _Bounds]:
    """Return the new bounds of the base for a resize of a view; None keeps a bound.

    A resize may add or remove elements outside the view only if it is `tied`.
    """
    domain = transform.domain
    for number in range(domain.rank):
        for new, implicit, word in (
            (inclusive_min[number], domain.implicit_lower_bounds, "lower"),
            (exclusive_max[number], domain.implicit_upper_bounds, "upper"),
        ):
            if new is not None and not implicit[number]:
                raise invalid(f"the {word} bound of dimension {number} is explicit and can't be resized")
    lower: list[int | None] = [None] * base.rank
    upper: list[int | None] = [None] * base.rank
    if all(bound is None for bound in (*inclusive_min, *exclusive_max)):
        return tuple(lower), tuple(upper)
    # convert the bounds of each dimension of the view to those of the base
    seen: set[int] = set()
    for number, output in enumerate(transform.output):
        axis = output.input_dimension
        if output.index_array is not None and not tied:
            raise invalid(f"output dimension {number} has an index array: `resize_tied_bounds` is needed")
        if axis is None:
            continue
        if axis in seen and not tied:
            raise invalid(f"dimension {axis} is a diagonal: `resize_tied_bounds` is needed")
        seen.add(axis)
        low, high = inclusive_min[axis], exclusive_max[axis]
        stays = low is None and high is None
        if output.stride not in (1, -1) and not (stays and tied):
            raise invalid(f"output dimension {number} depends on dimension {axis} with the stride {output.stride}")
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


def _check_fixed(base: IndexDomain, lower: list[int | None], upper: list[int | None]) -> None:
    for bounds, fixed, implicit, word in (
        (lower, base.inclusive_min, base.implicit_lower_bounds, "lower"),
        (upper, base.exclusive_max, base.implicit_upper_bounds, "upper"),
    ):
        for number, bound in enumerate(bounds):
            if bound is None or implicit[number]:
                continue
            if bound != fixed[number]:
                text = f"the {word} bound of output dimension {number} is fixed at {fixed[number]}"
                raise status("FAILED_PRECONDITION", text)
            bounds[number] = None


def _check_outside(
    transform: IndexTransform, base: IndexDomain, lower: list[int | None], upper: list[int | None]
) -> None:
    """Refuse a resize if the view omits a part of the base, except at the bounds that change."""
    domain = transform.domain
    for number, output in enumerate(transform.output):
        axis = output.input_dimension
        start, last = output.offset, output.offset
        if axis is not None:
            ends = domain.inclusive_min[axis], domain.inclusive_max[axis]
            start, last = sorted((output.stride or 1) * end + output.offset for end in ends)
        low, high = base.inclusive_min[number], base.exclusive_max[number]
        before, after = start > low and lower[number] is None, last + 1 < high and upper[number] is None
        if before or after:
            outside = interval_text(low, start) if before else interval_text(last + 1, high)
            text = f"the resize would also affect {outside} of output dimension {number}"
            raise status("FAILED_PRECONDITION", f"{text}: `resize_tied_bounds` is needed")
