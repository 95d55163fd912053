"""Bounds of a view after a resize of the base array, and bounds of the base for a resize of the view."""

from __future__ import annotations

from tegula.tensorstore.errors import invalid, status
from tegula.tensorstore.index.composition import inherited, with_inherited
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.intervals import interval_text
from tegula.tensorstore.index.transform import IndexTransform

__all__ = ["base_bounds", "resolved_transform"]

_Bounds = tuple[int | None, ...]


def resolved_transform(transform: IndexTransform, base: IndexDomain) -> IndexTransform:
    """Return the transform of a view with its implicit bounds taken from the current bounds of the base."""
    old = transform._domain._dims
    for bounds in old:  # each read and write calls this, so the usual case must be fast
        if bounds[2] or bounds[3]:
            break
    else:
        return transform
    new = [*old]
    for dim, outermost in inherited(base, transform._maps).items():
        new[dim] = with_inherited(new[dim], outermost)
    if new == [*old]:
        return transform
    return IndexTransform(IndexDomain._of(new), output=transform.output)


def base_bounds(
    transform: IndexTransform, base: IndexDomain, inclusive_min: _Bounds, exclusive_max: _Bounds, *, tied: bool
) -> tuple[_Bounds, _Bounds]:
    """Return the new bounds of the base for a resize of a view; None keeps a bound.

    A resize may add or remove elements outside the view only if it is `tied`.
    """
    for number, (bounds, *new) in enumerate(zip(transform._domain._dims, inclusive_min, exclusive_max)):
        for word, bound, is_implicit in zip(("lower", "upper"), new, bounds[2:4]):
            if bound is not None and not is_implicit:
                raise invalid(f"the {word} bound of dimension {number} is explicit and can't be resized")
    lower: list[int | None] = [None] * base.rank
    upper: list[int | None] = [None] * base.rank
    if all(bound is None for bound in (*inclusive_min, *exclusive_max)):
        return tuple(lower), tuple(upper)
    # convert the bounds of each dimension of the view to those of the base
    seen: set[int] = set()
    for number, output in enumerate(transform._maps):
        axis, stride = output._dimension, output._stride
        if output._array is not None and not tied:
            raise invalid(f"output dimension {number} has an index array: `resize_tied_bounds` is needed")
        if axis is None:
            continue
        if axis in seen and not tied:
            raise invalid(f"dimension {axis} is a diagonal: `resize_tied_bounds` is needed")
        seen.add(axis)
        low, high = inclusive_min[axis], exclusive_max[axis]
        stays = low is None and high is None
        if stride not in (1, -1) and not (stays and tied):
            raise invalid(f"output dimension {number} depends on dimension {axis} with the stride {stride}")
        if stride == -1:
            low, high = None if high is None else 1 - high, None if low is None else 1 - low
        lower[number] = None if low is None else low + output._offset
        upper[number] = None if high is None else high + output._offset
    # the base must allow the change, and the view must contain all elements that the change affects
    _check_fixed(base, lower, upper)
    if not tied:
        _check_outside(transform, base, lower, upper)
    return tuple(lower), tuple(upper)


def _check_fixed(base: IndexDomain, lower: list[int | None], upper: list[int | None]) -> None:
    for at, word, new_bounds in ((0, "lower", lower), (1, "upper", upper)):
        for number, (bound, fixed) in enumerate(zip(new_bounds, base._dims)):
            if bound is None or fixed[at + 2]:
                continue
            if bound != fixed[at]:
                text = f"the {word} bound of output dimension {number} is fixed at {fixed[at]}"
                raise status("FAILED_PRECONDITION", text)
            new_bounds[number] = None


def _check_outside(
    transform: IndexTransform, base: IndexDomain, lower: list[int | None], upper: list[int | None]
) -> None:
    """Refuse a resize if the view omits a part of the base, except at the bounds that change."""
    for number, (output, (low, high, *_)) in enumerate(zip(transform._maps, base._dims)):
        start = last = output._offset
        if output._dimension is not None:
            begin, end = transform._domain._dims[output._dimension][:2]
            start, last = sorted(output._stride * index + output._offset for index in (begin, end - 1))
        before, after = start > low and lower[number] is None, last + 1 < high and upper[number] is None
        if before or after:
            outside = interval_text(low, start) if before else interval_text(last + 1, high)
            text = f"the resize would also affect {outside} of output dimension {number}"
            raise status("FAILED_PRECONDITION", f"{text}: `resize_tied_bounds` is needed")
