"""Operations on input dimensions of a transform: translation, striding, labels, transposition, diagonals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tegula.tensorstore.errors import StatusError, annotate, index_error, invalid
from tegula.tensorstore.index.composition import Maps, Transform
from tegula.tensorstore.index.dim_selections import Selector, resolve, resolve_dimension, selectors_of
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

    def single(output_map: OutputIndexMap, dim: int) -> OutputIndexMap:
        offset = offsets[dim]
        return (
            OutputIndexMap._single(dim, output_map._offset - output_map._stride * offset, output_map._stride)
            if offset
            else output_map
        )

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

    def single(output_map: OutputIndexMap, dim: int) -> OutputIndexMap:
        return OutputIndexMap._single(dim, output_map._offset, output_map._stride * strides.get(dim, 1))

    return new, _changed(maps, single, lambda array: _strided_array(domain, new, array, strides))


def _changed(
    maps: Maps,
    single: Callable[[OutputIndexMap, int], OutputIndexMap],
    of_array: Callable[[IndexArray], IndexArray],
) -> Maps:
    """Change the maps that use an input dimension, and the arrays of index array maps."""
    changed = []
    for output_map in maps:
        if output_map._dimension is not None:
            changed.append(single(output_map, output_map._dimension))
        elif output_map._array is not None:
            changed.append(
                OutputIndexMap._of_array(
                    of_array(output_map._array), output_map._offset, output_map._stride, output_map._range
                )
            )
        else:
            changed.append(output_map)
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
            for output, output_map in enumerate(maps):
                if output_map._array is not None and output_map._array.shape[dim] != 1:
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
    positions = {dim: at for at, dim in enumerate(dims)}

    def single(output_map: OutputIndexMap, dim: int) -> OutputIndexMap:
        return OutputIndexMap._single(positions[dim], output_map._offset, output_map._stride)

    return domain._take(dims), _changed(maps, single, lambda array: array.transpose(dims))


def transposed(pair: Transform, axes: Any = None) -> Transform:
    """Reverse the dimensions, or put them in the order of ``axes``."""
    domain = pair[0]
    if axes is None:
        return reordered(pair, list(range(domain.rank - 1, -1, -1)))
    dims = resolve(selectors_of(axes), domain.rank, domain._labels)
    if len(dims) != domain.rank:
        raise invalid(f"Number of dimensions ({len(dims)}) must equal input_rank ({domain.rank}).")
    return reordered(pair, dims)


def target_order(rank: int, dims: list[int], target: tuple[Selector, ...]) -> tuple[list[int], list[int]]:
    """Return the order of all dimensions after some have moved to target positions, and these positions.

    A single number is the position of the first moved dimension; the others follow it.
    """
    count = len(dims)
    positions: list[int] = []
    if len(target) == 1 and isinstance(target[0], int):
        start = resolve_dimension(target[0], rank - count + 1) if count else 0
        positions = list(range(start, start + count))
    else:
        if any(isinstance(selector, str) for selector in target):
            raise index_error("Target dimensions cannot be specified by label")
        if len(target) != count and not any(isinstance(selector, slice) for selector in target):
            raise _wrong_count(count, len(target))
        for selector in target:
            for position in resolve((selector,), rank, ()):
                if position in positions:
                    raise index_error(f"Target dimension {position} occurs more than once")
                positions.append(position)
        if len(positions) != count:
            raise _wrong_count(count, len(positions))
    moved_dims = dict(zip(positions, dims, strict=True))
    remaining = iter([dim for dim in range(rank) if dim not in dims])
    return [moved_dims[position] if position in moved_dims else next(remaining) for position in range(rank)], positions


def _wrong_count(count: int, targets: int) -> StatusError:
    return index_error(f"Number of selected dimensions ({count}) must equal number of target dimensions ({targets})")


def diagonal(pair: Transform, dims: list[int]) -> Transform:
    """Replace dimensions by their diagonal, which comes first and has the indices that all of them contain."""
    domain, maps = pair
    chosen = [domain._dim(dim) for dim in dims]
    lower = max([dim.inclusive_min for dim in chosen], default=-INFINITY)
    upper = min([dim.exclusive_max for dim in chosen], default=EXCLUSIVE_INFINITY)
    other_dims = [dim for dim in range(domain.rank) if dim not in dims]
    other_domain = domain._take(other_dims)
    new = IndexDomain._make(
        (lower, *other_domain._lower),
        (max(lower, upper), *other_domain._upper),
        (all(dim.implicit_lower for dim in chosen), *other_domain._implicit_lower),
        (all(dim.implicit_upper for dim in chosen), *other_domain._implicit_upper),
        ("", *other_domain._labels),
    )
    new_dim = dict.fromkeys(dims, 0) | {dim: at + 1 for at, dim in enumerate(other_dims)}

    def single(output_map: OutputIndexMap, dim: int) -> OutputIndexMap:
        return OutputIndexMap._single(new_dim[dim], output_map._offset, output_map._stride)

    return new, _changed(maps, single, lambda array: _diagonal_array(domain, new, array, dims, other_dims))


def _diagonal_array(
    old: IndexDomain, new: IndexDomain, array: IndexArray, dims: list[int], other_dims: list[int]
) -> IndexArray:
    array = array.transpose([*dims, *other_dims])
    if all(size == 1 for size in array.shape[: len(dims)]):
        return np.asarray(array[(0,) * len(dims)][None])  # the diagonal may be infinite
    indices = np.arange(new._lower[0], new._upper[0])
    picks = [
        np.zeros_like(indices) if size == 1 else indices - old._lower[dim]
        for dim, size in zip(dims, array.shape, strict=False)
    ]
    return array[tuple(picks)]
