"""Composition of transforms: outer bounds propagate to the inner domain, inner output maps are put into outer ones.

Here a transform is a pair of an input domain and output maps. The *inner* transform is applied first; its output space
is the input space of the *outer* transform, which maps to the stored array. The elements of index arrays are composed
as `tegula.indexing.transform` does it for views, whose domains have the origin 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tegula.indexing.transform import Affine, OutputMap, affine, composed
from tegula.tensorstore.errors import StatusError, annotate, index_error
from tegula.tensorstore.index.intervals import (
    MAX_INT64,
    Bounds,
    Interval,
    affine_domain,
    effective,
    explicit_intersection,
    interval_text,
)
from tegula.tensorstore.index.output_maps import IndexArray, OutputIndexMap

__all__ = [
    "Maps",
    "Transform",
    "compose",
    "inherited",
    "is_explicitly_empty",
    "substituted",
    "with_inherited",
    "with_origin_0",
]

Maps: TypeAlias = tuple[OutputIndexMap, ...]
Transform: TypeAlias = tuple[Any, Maps]
"""The domain, an `IndexDomain`, and the output maps over it."""


def compose(outer: Transform, inner: Transform) -> Transform:
    """Return the transform that applies ``inner``, then ``outer``."""
    if len(inner[1]) != outer[0].rank:
        raise index_error(f"a transform to {len(inner[1])} dimensions does not fit a domain of {outer[0].rank}")
    domain = _propagated(outer[0], *inner)
    return domain, substituted(*outer, domain, inner[1])


def is_explicitly_empty(domain: Any) -> bool:
    """Return whether a domain is empty in a dimension with explicit bounds, which a resize can't change."""
    for lower, upper, implicit_lower, implicit_upper, _ in domain._dims:
        if lower == upper and not (implicit_lower or implicit_upper):
            return True
    return False


def inherited(outer: Any, maps: Maps, *, is_checked: bool = False) -> dict[int, Bounds]:
    """Return the bounds that input dimensions inherit from the domain that output maps lead to.

    With `is_checked`, constants must be indices of that domain.
    """
    inferred: dict[int, Bounds] = {}
    for dim, (output_map, own) in enumerate(zip(maps, outer._dims, strict=True)):
        target = output_map._dimension
        if target is None:
            if output_map._array is None and is_checked:
                _check_index(output_map._offset, effective(own), f"output dimension {dim}")
            continue
        bounds: Bounds = own
        if output_map._stride != 1 or output_map._offset:
            try:
                interval = affine_domain(own[:2], output_map._offset, output_map._stride)
            except StatusError as error:
                raise annotate(error, f"bounds of dimension {dim} for input dimension {target}") from None
            bounds = (*interval, *(own[2:4] if output_map._stride > 0 else own[3:1:-1]), "")
        inferred[target] = explicit_intersection(inferred[target], bounds) if target in inferred else bounds
    return inferred


def with_inherited(bounds: Bounds, outermost: Bounds) -> Bounds:
    """Return bounds with the implicit ones replaced by inherited ones."""
    lower, upper, implicit_lower, implicit_upper, label = bounds
    if implicit_lower:
        lower, implicit_lower = outermost[0], outermost[2]
    if implicit_upper:
        upper, implicit_upper = outermost[1], outermost[3]
    return lower, max(lower, upper), implicit_lower, implicit_upper, label


def _propagated(outer: Any, inner: Any, maps: Maps) -> Any:
    """Return the inner domain with its implicit bounds inferred from the outer domain, after checking the others."""
    empty = is_explicitly_empty(inner)  # which leaves nothing to check
    result = [*inner._dims]
    for dim, outermost in sorted(inherited(outer, maps, is_checked=not empty).items()):
        result[dim] = with_inherited(result[dim], outermost)
        lower, upper = result[dim][:2]
        least, most = effective(outermost)
        if not empty and lower != upper and not least <= lower <= upper <= most:
            raise index_error(
                f"dimension {dim}: {interval_text(lower, upper)} is not within {interval_text(*outermost)}",
                "OUT_OF_RANGE",
            )
    return inner._of(result)


def _check_index(index: int, bounds: Interval, what: str) -> None:
    if not bounds[0] <= index < bounds[1]:
        raise index_error(f"{what}: {index} is outside valid range {interval_text(*bounds)}", "OUT_OF_RANGE")


def substituted(outer: Any, maps: Maps, domain: Any, inner: Sequence[OutputIndexMap]) -> Maps:
    """Put what the dimensions of the outer domain become, in terms of a new domain, into output maps."""
    new = []
    is_empty: bool | None = None
    for output, outer_map in enumerate(maps):
        dim = outer_map._dimension
        if dim is None:
            new.append(outer_map if outer_map._array is None else _of_array(outer, outer_map, domain, inner))
            continue
        change = inner[dim]
        offset, stride = outer_map._offset, outer_map._stride
        if change._array is None and not offset and stride == 1:
            new.append(change)
            continue
        offset, stride = offset + stride * change._offset, stride * change._stride
        if not (-MAX_INT64 - 1 <= offset <= MAX_INT64 and -MAX_INT64 - 1 <= stride <= MAX_INT64):
            raise index_error(f"the offset of output dimension {output} is too large")
        if change._array is None:
            single = OutputIndexMap._constant(offset)
            new.append(
                single if change._dimension is None else OutputIndexMap._single(change._dimension, offset, stride)
            )
            continue
        is_empty = is_explicitly_empty(domain) if is_empty is None else is_empty
        if is_empty:
            new.append(OutputIndexMap._constant(0))
        else:
            new.append(_of_values(change._array, offset, stride, _valid(outer, dim, change)))
    return tuple(new)


def _valid(outer: Any, dim: int, inner: OutputIndexMap) -> Interval:
    """Return the values of an inner index array that are indices of a dimension of the outer domain."""
    bounds = effective(outer._dims[dim])
    if inner._offset or inner._stride != 1:
        bounds = affine_domain(bounds, inner._offset, inner._stride)
    lower, upper = max(bounds[0], inner._range[0]), min(bounds[1], inner._range[1])
    return lower, max(lower, upper)


def _of_values(array: IndexArray, offset: int, stride: int, index_range: Interval) -> OutputIndexMap:
    """Return the map of an index array; an array of one element becomes a constant."""
    if array.size != 1:
        return OutputIndexMap._of_array(array, offset, stride, index_range)
    value = int(array.item())
    _check_index(value, index_range, "index array")
    return OutputIndexMap._constant(offset + stride * value)


def _of_array(outer: Any, outer_map: OutputIndexMap, domain: Any, inner: Sequence[OutputIndexMap]) -> OutputIndexMap:
    """Return an outer map with the elements of its index array that the inner transform selects."""
    array = outer_map._array
    assert array is not None
    if is_explicitly_empty(domain):
        return OutputIndexMap._constant(0)
    parts: list[OutputMap] = []
    for dim, (size, change) in enumerate(zip(array.shape, inner, strict=True)):
        if size != 1 and change._array is not None:
            lower, upper = _valid(outer, dim, change)
            if change._array.size and not lower <= change._array.min() <= change._array.max() < upper:
                wrong = change._array[(change._array < lower) | (change._array >= upper)].flat[0]
                _check_index(int(wrong), (lower, upper), f"index array for dimension {dim}")
        parts.append(Affine(-1, 0, 0) if size == 1 else with_origin_0(change, domain, outer._dims[dim][0]))
    values = composed(array, parts, domain.shape)
    if isinstance(values, Affine):
        _check_index(values.start, outer_map._range, "index array")
        return OutputIndexMap._constant(outer_map._offset + outer_map._stride * values.start)
    return OutputIndexMap._of_array(values, outer_map._offset, outer_map._stride, outer_map._range)


def with_origin_0(output_map: OutputIndexMap, domain: Any, origin: int) -> OutputMap:
    """Return an output map between domains moved to the origin 0; `origin` is that of the output dimension."""
    offset, stride, dim = output_map._offset - origin, output_map._stride, output_map._dimension
    if output_map._array is not None:
        return output_map._array * stride + offset if (offset, stride) != (0, 1) else output_map._array
    return affine((-1, offset, 0) if dim is None else (dim, offset + stride * domain._dims[dim][0], stride))
