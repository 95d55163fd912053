"""Composition of transforms: outer bounds propagate to the inner domain, inner output maps are put into outer ones.

Here a transform is a pair of an input domain and output maps. The *inner* transform is applied first; its output space
is the input space of the *outer* transform, which maps to the stored array.
"""

from __future__ import annotations

import numpy as np

from tegula.tensorstore.errors import StatusError, annotate, index_error
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.intervals import (
    EXCLUSIVE_INFINITY,
    INFINITY,
    MAX_INT64,
    Bounds,
    Interval,
    affine_domain,
    explicit_intersection,
    interval_text,
)
from tegula.tensorstore.index.output_maps import IndexArray, OutputIndexMap

__all__ = ["Maps", "Transform", "compose", "effective_bounds", "is_explicitly_empty", "without_arrays"]

Maps = tuple[OutputIndexMap, ...]
Transform = tuple[IndexDomain, Maps]


def compose(outer: Transform, inner: Transform) -> Transform:
    """Return the transform that applies ``inner``, then ``outer``.

    Raises
    ------
    IndexError
        If their ranks do not match, or the inner transform leaves the domain of the outer one.
    """
    outer_domain, outer_maps = outer
    inner_domain, inner_maps = inner
    if len(inner_maps) != outer_domain.rank:
        raise index_error(
            f"Rank {outer_domain.rank} -> {len(outer_maps)} transform cannot be composed with "
            f"rank {inner_domain.rank} -> {len(inner_maps)} transform."
        )
    domain = _propagated(outer_domain, inner_domain, inner_maps)
    empty = is_explicitly_empty(domain)
    maps = []
    for dim, outer_map in enumerate(outer_maps):
        if outer_map._array is not None:
            maps.append(_map_of_array(outer_domain, outer_map, domain, inner_maps, empty))
        elif outer_map._dimension is None:
            maps.append(outer_map)
        else:
            maps.append(_map_of_dimension(dim, outer_domain, outer_map, inner_maps[outer_map._dimension], empty))
    return domain, tuple(maps)


def is_explicitly_empty(domain: IndexDomain) -> bool:
    """Return whether a domain is empty in a dimension with explicit bounds, which a resize can't change."""
    for dim, (lower, upper) in enumerate(zip(domain._lower, domain._upper, strict=True)):
        if lower == upper and not domain._implicit_lower[dim] and not domain._implicit_upper[dim]:
            return True
    return False


def without_arrays(maps: Maps) -> Maps:
    """Return the maps over an empty domain with constants in place of index arrays."""
    return tuple([OutputIndexMap._constant(0) if output_map._array is not None else output_map for output_map in maps])


def effective_bounds(domain: IndexDomain, dim: int) -> Interval:
    """Return the bounds of a dimension, with infinity in place of implicit bounds."""
    return (
        -INFINITY if domain._implicit_lower[dim] else domain._lower[dim],
        EXCLUSIVE_INFINITY if domain._implicit_upper[dim] else domain._upper[dim],
    )


def _propagated(outer: IndexDomain, inner: IndexDomain, maps: Maps) -> IndexDomain:
    """Return the inner domain with its implicit bounds inferred from the outer domain, after checking the others."""
    # an empty domain leaves nothing to check
    empty = is_explicitly_empty(inner)
    # the bounds that each input dimension inherits from the outer domain
    inferred: dict[int, Bounds] = {}
    for dim, output_map in enumerate(maps):
        target = output_map._dimension
        if target is None:
            if output_map._array is None and not empty:
                _check_constant(outer, dim, output_map._offset)
            continue
        bounds = outer._lower[dim], outer._upper[dim]
        flags = outer._implicit_lower[dim], outer._implicit_upper[dim]
        if output_map._stride != 1 or output_map._offset:
            try:
                bounds = affine_domain(bounds, output_map._offset, output_map._stride)
            except StatusError as error:
                context = f"Propagating bounds from intermediate dimension {dim} to input dimension {target}"
                raise annotate(error, context) from None
            if output_map._stride < 0:
                flags = flags[1], flags[0]
        interval = (*bounds, *flags)
        inferred[target] = explicit_intersection(inferred[target], interval) if target in inferred else interval
    # inherited bounds replace implicit ones; the result must lie within the explicit inherited bounds
    lowers, uppers = list(inner._lower), list(inner._upper)
    lower_flags, upper_flags = list(inner._implicit_lower), list(inner._implicit_upper)
    for dim, (lower, upper, implicit_lower, implicit_upper) in sorted(inferred.items()):
        if lower_flags[dim]:
            lowers[dim], lower_flags[dim] = lower, implicit_lower
        if upper_flags[dim]:
            uppers[dim], upper_flags[dim] = upper, implicit_upper
        new = lowers[dim], max(lowers[dim], uppers[dim])
        least = -INFINITY if implicit_lower else lower
        most = EXCLUSIVE_INFINITY if implicit_upper else upper
        if not empty and new[0] != new[1] and not least <= new[0] <= new[1] <= most:
            raise _incompatible(dim, inferred[dim], new)
        uppers[dim] = new[1]
    return IndexDomain._make(tuple(lowers), tuple(uppers), tuple(lower_flags), tuple(upper_flags), inner._labels)


def _incompatible(dim: int, inferred: Bounds, existing: Interval) -> StatusError:
    texts = []
    for lower, upper, text in (
        (inferred[0], inferred[1], interval_text(*inferred)),
        (*existing, interval_text(*existing)),
    ):
        infinite = lower == -INFINITY and upper == EXCLUSIVE_INFINITY
        texts.append(text if infinite else f"{text}, with size={upper - lower}")
    return index_error(
        f"Propagated bounds {texts[0]}, for dimension {dim} are incompatible with existing bounds {texts[1]}.",
        "OUT_OF_RANGE",
    )


def _check_constant(outer: IndexDomain, dim: int, index: int) -> None:
    lower, upper = effective_bounds(outer, dim)
    if not lower <= index < upper:
        raise index_error(
            f"Checking bounds of constant output index map for dimension {dim}: "
            f"Index {index} is outside valid range {interval_text(lower, upper)}",
            "OUT_OF_RANGE",
        )


def _map_of_dimension(
    output: int, outer_domain: IndexDomain, outer: OutputIndexMap, inner: OutputIndexMap, empty: bool
) -> OutputIndexMap:
    """Substitute the map of an intermediate dimension into the outer map that uses it."""
    offset, stride = outer._offset + outer._stride * inner._offset, outer._stride * inner._stride
    if not (-MAX_INT64 - 1 <= offset <= MAX_INT64 and -MAX_INT64 - 1 <= stride <= MAX_INT64):
        raise index_error(f"Integer overflow computing offset for output dimension {output}.")
    if inner._array is None:
        if inner._dimension is None:
            return OutputIndexMap._constant(offset)
        return OutputIndexMap._single(inner._dimension, offset, stride)
    if empty:
        return OutputIndexMap._constant(0)
    dim = outer._dimension
    assert dim is not None
    bounds = effective_bounds(outer_domain, dim)
    if inner._offset or inner._stride != 1:
        bounds = affine_domain(bounds, inner._offset, inner._stride)
    lower, upper = max(bounds[0], inner._range[0]), min(bounds[1], inner._range[1])
    return _of_values(inner._array, offset, stride, (lower, max(lower, upper)))


def _of_values(array: IndexArray, offset: int, stride: int, index_range: Interval) -> OutputIndexMap:
    """Return the map of an index array; an array of one element becomes a constant."""
    if array.size != 1:
        return OutputIndexMap._of_array(array, offset, stride, index_range)
    value = int(array.flat[0])
    if not index_range[0] <= value < index_range[1]:
        raise index_error(f"Index {value} is outside valid range {interval_text(*index_range)}", "OUT_OF_RANGE")
    return OutputIndexMap._constant(offset + stride * value)


def _map_of_array(
    outer_domain: IndexDomain, outer: OutputIndexMap, domain: IndexDomain, inner_maps: Maps, empty: bool
) -> OutputIndexMap:
    """Return the outer map with the elements of its index array that the inner transform selects."""
    if empty:
        return OutputIndexMap._constant(0)
    array = outer._array
    assert array is not None
    picks: list[IndexArray | int] = []
    for dim, size in enumerate(array.shape):
        if size == 1:
            picks.append(0)
            continue
        picks.append(_positions(outer_domain, dim, inner_maps[dim], domain))
    values = array[tuple(picks)]
    if values.ndim != domain.rank:
        values = values.reshape((1,) * domain.rank)
    return _of_values(values, outer._offset, outer._stride, outer._range)


def _positions(outer: IndexDomain, dim: int, output_map: OutputIndexMap, domain: IndexDomain) -> IndexArray | int:
    """Return the positions along one axis of an index array that the inner transform selects."""
    origin = outer._lower[dim]
    if output_map._array is not None:
        lower, upper = effective_bounds(outer, dim)
        if output_map._offset or output_map._stride != 1:
            lower, upper = affine_domain((lower, upper), output_map._offset, output_map._stride)
        lower, upper = max(lower, output_map._range[0]), min(upper, output_map._range[1])
        OutputIndexMap._of_array(output_map._array, 0, 1, (lower, upper))._check_within(
            f"In index array map for output dimension {dim}"
        )
        return output_map._offset + output_map._stride * output_map._array - origin
    if output_map._dimension is None:
        return output_map._offset - origin
    indices = np.arange(domain._lower[output_map._dimension], domain._upper[output_map._dimension], dtype=np.int64)
    shape = [1] * domain.rank
    shape[output_map._dimension] = len(indices)
    return (indices * output_map._stride + (output_map._offset - origin)).reshape(shape)
