"""Choice of chunk shapes from constraints and extents, with the same results as TensorStore.

All functions work on plain numbers. A size of 0 is to be chosen, a size of -1 means the whole extent, and an extent of
None is unbounded. The search bisects a common factor ``f``: each size to choose is ``aspect_ratio * f``, at most the
extent. The result depends on the steps of the bisection, which must therefore stay the same.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

from tegula.tensorstore.errors import invalid

__all__ = ["Extents", "choose_shape", "choose_shard_shapes", "nearest_divisor", "nearest_multiple"]

DEFAULT_ELEMENTS = 1024 * 1024
_UNBOUNDED = float(2**62)
_LARGEST_OFFSET = 1_000_000

Extents = Sequence[int | None]


def choose_shard_shapes(
    read: tuple[Sequence[int], Sequence[float], int | None],
    write: tuple[Sequence[int], Sequence[float], int | None],
    extents: Extents,
    hard: tuple[Sequence[bool], Sequence[bool]],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Choose the shapes of read chunks, and of write chunks (shards) that are multiples of them.

    `hard` says of each dimension whether the read size and the write size are hard constraints; a soft one is adjusted.
    """
    inner, outer = _with_whole_extents(read[0], extents), _with_whole_extents(write[0], extents)
    for axis, (small, large) in enumerate(zip(inner, outer, strict=True)):
        if not small or not large or not large % small:
            continue
        if not hard[0][axis]:
            inner[axis] = nearest_divisor(large, small)
        elif not hard[1][axis]:
            outer[axis] = nearest_multiple(small, large)
        else:
            raise invalid(f"dimension {axis} has chunks of {small} for reading, and of {large} for writing")
    # choose read sizes that divide the given write sizes, then write sizes that are multiples of them
    chosen = choose_shape(
        inner, read[1], read[2], extents, lambda axis, size: nearest_divisor(outer[axis], size) if outer[axis] else size
    )
    return chosen, choose_shape(
        outer, write[1], write[2], extents, lambda axis, size: nearest_multiple(chosen[axis], size)
    )


def nearest_divisor(dividend: int, size: int) -> int:
    """Return the divisor of ``dividend`` that is nearest to ``size``; of two equally near, the smaller."""
    if size >= dividend:
        return dividend
    for offset in range(_LARGEST_OFFSET):
        if size > offset and not dividend % (size - offset):
            return size - offset
        if not dividend % (size + offset):
            return size + offset
    return dividend


def nearest_multiple(divisor: int, size: int) -> int:
    """Return the positive multiple of ``divisor`` that is nearest to ``size``; of two equally near, the smaller."""
    if size <= divisor:
        return divisor
    below = size // divisor * divisor
    return below if size - below <= below + divisor - size else below + divisor


def _with_whole_extents(shape: Sequence[int], extents: Extents) -> list[int]:
    """Return a chunk shape with each size of -1 replaced by the extent of the dimension."""
    sizes = []
    for axis, (size, extent) in enumerate(zip(shape, extents, strict=True)):
        if size == -1 and extent is None:
            raise invalid(f"Cannot match chunk size for dimension {axis} to unbounded domain (-inf, +inf)")
        sizes.append(max(1, extent) if size == -1 and extent is not None else size)
    return sizes


def choose_shape(
    shape: Sequence[int],
    aspect_ratio: Sequence[float],
    elements: int | None,
    extents: Extents,
    adjust: Callable[[int, int], int] | None = None,
) -> tuple[int, ...]:
    """Choose the sizes of 0 in a chunk shape, of about `elements` elements (by default a million).

    An aspect ratio of 0 means 1; `adjust` changes each size that is considered.
    """
    if all(shape := _with_whole_extents(shape, extents)):
        return tuple(shape)
    target = DEFAULT_ELEMENTS if elements is None else elements
    fixed = math.prod(size for size in shape if size)
    still_open = [axis for axis, size in enumerate(shape) if not size]
    ratios = [float(aspect_ratio[axis] or 1) for axis in still_open]
    # scale the ratios to at most 1, so that extreme ones do not overflow
    unit = max(ratios)
    searched = []
    for axis, ratio in zip(still_open, ratios, strict=True):
        extent = extents[axis]
        largest = _UNBOUNDED if extent is None else float(max(1, extent))
        searched.append((axis, ratio / unit, min(float(target), largest)))

    def sizes(factor: float) -> list[int]:
        raw = [max(1, int(min(ratio * factor, largest))) for _, ratio, largest in searched]
        if adjust is None:
            return raw
        return [adjust(axis, size) for (axis, _, _), size in zip(searched, raw, strict=True)]

    chosen = iter(sizes(_bisect(searched, lambda factor: fixed * math.prod(sizes(factor)), target)))
    return tuple(size or next(chosen) for size in shape)


def _bisect(searched: list[tuple[int, float, float]], total: Callable[[float], int], target: int) -> float:
    least_step = min(1.0 / ratio for _, ratio, _ in searched if ratio) / 2
    low = least_step
    high = max(largest / ratio if ratio else math.inf for _, ratio, largest in searched) * 2
    high = min(high, sys.float_info.max)
    high_total = total(high)
    while low + least_step < high:
        # bisect the exponent first: extreme ratios would take a thousand steps otherwise
        middle = math.sqrt(low * high) if high > 4 * low else low + (high - low) / 2
        if middle <= low or middle >= high:
            break
        reached = total(middle)
        if reached >= target:
            high, high_total = middle, reached
        if reached <= target:
            low = middle
    return high if high_total == target else low
