"""Operations on input dimensions of a transform: translation, striding, labels, transposition, diagonals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tegula.tensorstore.errors import StatusError, annotate, index_error, invalid
from tegula.tensorstore.index.composition import Maps, Transform
from tegula.tensorstore.index.dim_selections import Item, resolve, resolve_dimension, selection_items
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.domain_json import check_labels
from tegula.tensorstore.index.intervals import EXCLUSIVE_INFINITY, INFINITY, affine_domain, shift, translation
from tegula.tensorstore.index.output_maps import IndexArray, OutputIndexMap

__all__ = ["diagonal", "mark_implicit", "moved", "relabelled", "reordered", "strided", "target_order", "transposed"]


def moved(pair: Transform, amounts: Mapping[int, int | None], how: str) -> Transform:
    """Translate dimensions ``by`` or ``backward_by`` an amount, or ``to`` an origin; None keeps a dimension."""
    domain, maps = pair
    offsets = [
        translation(lower, upper, amounts.get(dim), how)
        for dim, (lower, upper) in enumerate(zip(domain._lower, domain._upper, strict=True))
    ]
    new = domain._with([shift(*old) for old in zip(domain._lower, domain._upper, offsets, strict=True)])

    def single(item: OutputIndexMap, dim: int) -> OutputIndexMap:
        offset = offsets[dim]
        return OutputIndexMap._single(dim, item._offset - item._stride * offset, item._stride) if offset else item

    return new, _changed(maps, single, lambda array: array)


def strided(pair: Transform, strides: Mapping[int, int]) -> Transform:
    """Keep the indices that are multiples of the stride of a dimension, and divide them by it."""
    domain, maps = pair
    bounds = list(zip(domain._lower, domain._upper, strict=True))
    lower_flags, upper_flags = list(domain._implicit_lower), list(domain._implicit_upper)
    for dim, stride in strides.items():
        try:
            if not stride:
                raise index_error("Stride must be non-zero")
            bounds[dim] = affine_domain(bounds[dim], 0, stride)
        except StatusError as error:
            raise annotate(error, f"Applying stride to input dimension {dim}") from None
        if stride < 0:
            lower_flags[dim], upper_flags[dim] = upper_flags[dim], lower_flags[dim]
    new = domain._with(bounds, lower_flags, upper_flags)

    def single(item: OutputIndexMap, dim: int) -> OutputIndexMap:
        return OutputIndexMap._single(dim, item._offset, item._stride * strides.get(dim, 1))

    return new, _changed(maps, single, lambda array: _strided_array(domain, new, array, strides))


def _changed(
    maps: Maps,
    single: Callable[[OutputIndexMap, int], OutputIndexMap],
    of_array: Callable[[IndexArray], IndexArray],
) -> Maps:
    """Change the maps that use an input dimension, and the arrays of index array maps."""
    changed = []
    for item in maps:
        if item._dimension is not None:
            changed.append(single(item, item._dimension))
        elif item._array is not None:
            changed.append(OutputIndexMap._of_array(of_array(item._array), item._offset, item._stride, item._range))
        else:
            changed.append(item)
    return tuple(changed)


def _strided_array(old: IndexDomain, new: IndexDomain, array: IndexArray, strides: Mapping[int, int]) -> IndexArray:
    for dim, stride in strides.items():
        if array.shape[dim] != 1:
            indices = np.arange(new._lower[dim], new._upper[dim]) * stride - old._lower[dim]
            array = array.take(indices, axis=dim)
    return array


def relabelled(pair: Transform, labels: Mapping[int, str]) -> Transform:
    """Change the labels of dimensions."""
    domain, maps = pair
    new = [labels.get(dim, label) for dim, label in enumerate(domain._labels)]
    check_labels(new)
    return domain._with(labels=new), maps


def mark_implicit(pair: Transform, dims: Iterable[int], lower: bool | None, upper: bool | None) -> Transform:
    """Mark bounds as implicit or explicit; None keeps them."""
    domain, maps = pair
    lower_flags, upper_flags = list(domain._implicit_lower), list(domain._implicit_upper)
    for dim in dims:
        if lower or upper:
            for output, item in enumerate(maps):
                if item._array is not None and item._array.shape[dim] != 1:
                    raise invalid(
                        f"Cannot mark input dimension {dim} as having implicit bounds because it indexes "
                        f"the index array map for output dimension {output}"
                    )
        lower_flags[dim] = lower_flags[dim] if lower is None else lower
        upper_flags[dim] = upper_flags[dim] if upper is None else upper
    return domain._with(implicit_lower=lower_flags, implicit_upper=upper_flags), maps


def reordered(pair: Transform, dims: list[int]) -> Transform:
    """Put the dimensions in another order."""
    domain, maps = pair
    place = {dim: at for at, dim in enumerate(dims)}

    def single(item: OutputIndexMap, dim: int) -> OutputIndexMap:
        return OutputIndexMap._single(place[dim], item._offset, item._stride)

    return domain._take(dims), _changed(maps, single, lambda array: array.transpose(dims))


def transposed(pair: Transform, axes: Any = None) -> Transform:
    """Reverse the dimensions, or put them in the order of ``axes``."""
    domain = pair[0]
    if axes is None:
        return reordered(pair, list(range(domain.rank - 1, -1, -1)))
    dims = resolve(selection_items(axes), domain.rank, domain._labels)
    if len(dims) != domain.rank:
        raise invalid(f"Number of dimensions ({len(dims)}) must equal input_rank ({domain.rank}).")
    return reordered(pair, dims)


def target_order(rank: int, dims: list[int], target: tuple[Item, ...]) -> tuple[list[int], list[int]]:
    """Return the order of all dimensions after some have moved to target positions, and these positions.

    A single number is the position of the first moved dimension; the others follow it.
    """
    count = len(dims)
    places: list[int] = []
    if len(target) == 1 and isinstance(target[0], int):
        start = resolve_dimension(target[0], rank - count + 1) if count else 0
        places = list(range(start, start + count))
    else:
        if any(isinstance(item, str) for item in target):
            raise index_error("Target dimensions cannot be specified by label")
        if len(target) != count and not any(isinstance(item, slice) for item in target):
            raise _wrong_count(count, len(target))
        for item in target:
            for place in resolve((item,), rank, ()):
                if place in places:
                    raise index_error(f"Target dimension {place} occurs more than once")
                places.append(place)
        if len(places) != count:
            raise _wrong_count(count, len(places))
    at = dict(zip(places, dims, strict=True))
    rest = iter([dim for dim in range(rank) if dim not in dims])
    return [at[place] if place in at else next(rest) for place in range(rank)], places


def _wrong_count(count: int, targets: int) -> StatusError:
    return index_error(f"Number of selected dimensions ({count}) must equal number of target dimensions ({targets})")


def diagonal(pair: Transform, dims: list[int]) -> Transform:
    """Replace dimensions by their diagonal, which comes first and has the indices that all of them contain."""
    domain, maps = pair
    chosen = [domain._dim(dim) for dim in dims]
    lower = max([dim.inclusive_min for dim in chosen], default=-INFINITY)
    upper = min([dim.exclusive_max for dim in chosen], default=EXCLUSIVE_INFINITY)
    rest = [dim for dim in range(domain.rank) if dim not in dims]
    kept = domain._take(rest)
    new = IndexDomain._make(
        (lower, *kept._lower),
        (max(lower, upper), *kept._upper),
        (all(dim.implicit_lower for dim in chosen), *kept._implicit_lower),
        (all(dim.implicit_upper for dim in chosen), *kept._implicit_upper),
        ("", *kept._labels),
    )
    place = dict.fromkeys(dims, 0) | {dim: at + 1 for at, dim in enumerate(rest)}

    def single(item: OutputIndexMap, dim: int) -> OutputIndexMap:
        return OutputIndexMap._single(place[dim], item._offset, item._stride)

    return new, _changed(maps, single, lambda array: _diagonal_array(domain, new, array, dims, rest))


def _diagonal_array(
    old: IndexDomain, new: IndexDomain, array: IndexArray, dims: list[int], rest: list[int]
) -> IndexArray:
    array = array.transpose([*dims, *rest])
    if all(size == 1 for size in array.shape[: len(dims)]):
        return np.asarray(array[(0,) * len(dims)][None])  # the diagonal may be infinite
    indices = np.arange(new._lower[0], new._upper[0])
    picks = [
        np.zeros_like(indices) if size == 1 else indices - old._lower[dim]
        for dim, size in zip(dims, array.shape, strict=False)
    ]
    return array[tuple(picks)]
