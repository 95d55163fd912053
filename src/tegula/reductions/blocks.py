"""Reduction of each block of an array to one value: stride, mean, median, mode, minimum or maximum."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from tegula.metadata.chunk_grids import joined_grid
from tegula.metadata.conventions import missing_in
from tegula.reductions.dtypes import computable, is_extension, is_integer

__all__ = ["METHODS", "Reduction", "downsample_values", "mean_of", "mode_of", "reduce_blocks", "supports"]

_SCALE: Final = 2.0**-32  # keeps sums of the largest numbers finite
_CELLS: Final = 2**19  # most elements that are reduced at a time

_Cells = np.ndarray[Any, Any]
_Counted = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Reduction:
    """The reduction of each block of elements to one: the shape of a block, the method, and marks of missing data.

    Examples
    --------
    >>> Reduction((2, 2), "mean").of(np.array([[1.0, np.nan, 5.0], [2.0, 3.0, np.nan]])).tolist()
    [[2.0, 5.0]]
    >>> Reduction((3,), "mode").of(np.array([7, 7, 1, 2, 9], "u1")).tolist()
    [7, 2]
    """

    factors: tuple[int, ...]
    method: str
    masks: tuple[Any, ...] = ()

    def of(self, values: _Cells, most: int = _CELLS) -> _Cells:
        """Reduce each block of an array; blocks at the far edges may be smaller.

        At most `most` elements are reduced at a time, since intermediate results take about 40 bytes for each.
        """
        if self.method == "nearest":
            return downsample_values(values, [0] * values.ndim, self.factors, "stride")
        out = np.empty([-(-size // factor) for size, factor in zip(values.shape, self.factors)], values.dtype)
        grid = joined_grid((1,) * out.ndim, out.shape, max(1, min(most, _CELLS) // prod(self.factors)))
        for box in grid.regions(out.shape):
            part = tuple(slice(axis.start * factor, axis.stop * factor) for axis, factor in zip(box, self.factors))
            out[box] = self._at_once(values[part])
        return out

    def _at_once(self, values: _Cells) -> _Cells:
        dtype, how = values.dtype, ([0] * values.ndim, self.factors)
        values = values.astype(dtype.newbyteorder("="), copy=False) if dtype.isbuiltin != 2 else values
        missing = None
        if dtype.kind not in "OV":
            missing = missing_in(values, self.masks)
        elif is_extension(dtype) and not is_integer(dtype):
            missing = missing_in(values.astype("f8"), [float(mask) for mask in self.masks])
        counted = () if missing is None else (~missing,)
        if self.method == "mode":
            result = reduce_blocks(mode_of, *how, values, *counted)
        else:
            numbers = values.view("i8") if dtype.kind in "mM" else values
            result = reduce_blocks(partial(mean_of, is_wide=True), *how, numbers, *counted).view(values.dtype)
        if counted:  # blocks without an element that counts
            empty = ~reduce_blocks(lambda block: block.any(axis=-1), *how, *counted)
            result[empty] = self.masks[0] if self.masks else dtype.type("NaT") if dtype.kind in "mM" else np.nan
        return result


def supports(method: str, dtype: np.dtype[Any]) -> bool:
    """Return whether a method supports a type: stride and mode any, mean numbers, the others ordered numbers."""
    if method in ("stride", "mode"):
        return True
    if dtype.kind in "OSTUVmM" and not is_extension(dtype):
        return False
    return method == "mean" or dtype.kind != "c"


def downsample_values(values: _Cells, origin: Sequence[int], factors: Sequence[int], method: str) -> _Cells:
    """Reduce every block of an array to one value, by one of `METHODS`.

    `origin` has the coordinates of the first cell; blocks begin at multiples of the factors, so the outer ones may be
    cut.

    Examples
    --------
    >>> downsample_values(np.array([6, 1, 3, 0, 5, 9, 2], np.uint8), [0], [2], "mean")
    array([4, 2, 7, 2], dtype=uint8)
    >>> downsample_values(np.array([1, 0, 7, 1]), [1], [2], "stride")
    array([0, 1])
    """
    if method == "stride":
        steps: list[Any] = [
            slice(-(-start // factor) * factor - start, None, factor)
            for start, factor in zip(origin, factors, strict=True)
        ]
        return values[(*steps, ...)].copy()
    return reduce_blocks(_REDUCTIONS[method], origin, factors, values)


def reduce_blocks(
    reduce: Callable[..., _Cells], origin: Sequence[int], factors: Sequence[int], values: _Cells, *others: Any
) -> _Cells:
    """Call a function on the cells of many blocks at once, and put its results together; see `downsample_values`.

    The function is called with arrays of cells, those of a block along the last axis, and returns an array without that
    axis. `others` have the shape of `values`; their cells are passed, too.
    """
    runs = [[*_runs(*axis)] for axis in zip(origin, values.shape, factors, strict=True)]
    result = np.empty([axis[-1][0].stop if axis else 0 for axis in runs], values.dtype)
    for piece in itertools.product(*runs):
        blocks, chosen, extents = zip(*piece) if piece else ((), (), ())
        result[blocks] = reduce(*(_by_block(np.asarray(array[(*chosen, ...)]), extents) for array in (values, *others)))
    return result


def _runs(start: int, size: int, factor: int) -> Iterator[tuple[slice, slice, int]]:
    """Yield the runs of blocks of one extent along an axis, at most three: ``(blocks, cells, extent)``."""
    first = min(-start % factor, size)
    middle = (size - first) // factor * factor
    last = size - first - middle
    block = cell = 0
    for number, extent in ((first, first), (middle, factor), (last, last)):
        if number:
            count = number // extent
            yield slice(block, block + count), slice(cell, cell + number), extent
            block, cell = block + count, cell + number


def _by_block(cells: _Cells, extents: Sequence[int]) -> _Cells:
    """Return the cells of each block along a new last axis."""
    split = [part for size, extent in zip(cells.shape, extents, strict=True) for part in (size // extent, extent)]
    moved = cells.reshape(split).transpose(*range(0, len(split), 2), *range(1, len(split), 2))
    return moved.reshape((*split[::2], prod(extents)))


def mean_of(cells: _Cells, counted: _Counted | None = None, *, is_wide: bool = False) -> _Cells:
    """Return the mean of each block; of integers the nearest integer, ties to even.

    `counted` says which cells count, by default all; where none does, the result is any value. If `is_wide`, numbers
    that are no integers are summed in double precision at least, and the mean of finite numbers is finite.

    Examples
    --------
    >>> mean_of(np.array([[2**63 - 1, 2**63 - 1], [1, 2], [-1, -2]])).tolist()
    [9223372036854775807, 2, -2]
    """
    dtype, count = cells.dtype, cells.shape[-1]
    if counted is not None:
        cells, count = np.where(counted, cells, np.zeros((), dtype)), np.maximum(counted.sum(axis=-1), 1)
    if is_integer(dtype):
        return _integer_mean(cells, count).astype(dtype)
    if is_extension(dtype) or dtype == np.float16:
        wide = np.dtype(np.float64 if is_wide else np.float32)
    else:  # long doubles stay long doubles
        wide = np.promote_types(dtype, "c16" if dtype.kind == "c" else "f8") if is_wide else dtype
    with np.errstate(all="ignore"):
        total = _sum(cells, wide)
        lost = ~np.isfinite(total) if is_wide else np.False_
        result = _divided(total, count)
        if lost.any():  # the sum has overflowed, unless one of the numbers is infinite
            lost &= np.isfinite(cells.astype(wide)).all(axis=-1)
            scaled = _sum(cells[lost].astype(wide) * _SCALE, wide)
            result[lost] = _divided(scaled, count if counted is None else count[lost]) / _SCALE
        return result.astype(dtype)


def _divided(total: _Cells, count: Any) -> _Cells:
    """Divide sums; complex ones part by part, since NumPy's division of complex numbers rounds differently."""
    if total.dtype.kind != "c":
        return np.asarray(total / count)
    total.real /= count
    total.imag /= count
    return total


def _sum(cells: _Cells, wide: np.dtype[Any]) -> _Cells:
    """Return the sum of each block, added up in the order of its cells: sums in another order round differently."""
    count = cells.shape[-1]
    if count > 64 and wide.kind in "iu":
        return np.asarray(cells.sum(axis=-1, dtype=wide))
    if count > 64:
        return np.asarray(np.add.accumulate(cells.astype(wide), axis=-1)[..., -1])
    total = cells[..., 0].astype(wide)  # faster than along a short axis
    for number in range(1, count):
        total += cells[..., number].astype(wide, copy=False)
    return np.asarray(total)


def _integer_mean(cells: _Cells, count: Any) -> _Cells:
    """Return the mean of each block without overflow; `count` is how many of its cells count, and others are zero."""
    wide = np.dtype(np.uint64 if cells.dtype.kind in "bu" else np.int64)
    small = computable(cells)
    number = np.asarray(count, wide)
    if small.dtype.itemsize <= 4:
        floor, rest = np.divmod(_sum(small, wide), number)
    else:  # the sum could overflow
        quotients, remainders = np.divmod(small.astype(wide), number[..., None])
        carry, rest = np.divmod(_sum(remainders, wide), number)
        floor = _sum(quotients, wide) + carry
    twice = rest * wide.type(2)
    up = (twice > number) | ((twice == number) & ((floor & wide.type(1)) == wide.type(1)))
    return np.asarray(floor + up.astype(wide))


def _median(cells: _Cells) -> _Cells:
    middle = (cells.shape[-1] - 1) // 2
    if is_extension(cells.dtype):
        return np.sort(computable(cells), axis=-1)[..., middle].astype(cells.dtype)
    return np.asarray(np.partition(cells, middle, axis=-1)[..., middle])


def _extreme(cells: _Cells, of_floats: np.ufunc, of_others: np.ufunc, initial: float) -> Any:
    """Return the minimum or the maximum; NaNs are ignored."""
    wide = computable(cells)
    if wide.dtype.kind == "f":
        return np.asarray(of_floats.reduce(wide, axis=-1, initial=initial), cells.dtype)
    return np.asarray(of_others.reduce(wide, axis=-1)).astype(cells.dtype)


def mode_of(cells: _Cells, counted: _Counted | None = None) -> _Cells:
    """Return the most frequent value of each block; the smallest if there are several.

    `counted` says which cells count, by default all; where none does, the result is any value.

    Examples
    --------
    >>> mode_of(np.array([[3, 1, 3, 1], [9, 9, 2, 1]]), np.array([[True] * 4, [False, False, True, True]])).tolist()
    [1, 1]
    """
    if cells.dtype.kind in "OV" and not is_extension(cells.dtype):
        return _mode_of_objects(cells)
    wide = computable(cells)
    if counted is None:
        ordered = np.sort(wide, axis=-1)
    else:  # cells that count come first
        order = np.lexsort((wide, ~counted), axis=-1)
        ordered, counted = (np.take_along_axis(array, order, axis=-1) for array in (wide, counted))
    if ordered.shape[-1] > 64:
        return _mode_of_long_blocks(ordered, counted).astype(cells.dtype)
    best = ordered[..., 0].copy()
    length = np.ones(best.shape, np.int64)
    longest = length.copy()
    for number in range(1, ordered.shape[-1]):
        value = ordered[..., number]
        length = np.where(value == ordered[..., number - 1], length + 1, 1)
        better = length > longest
        if counted is not None:
            better &= counted[..., number]
        np.copyto(best, value, where=better)
        np.copyto(longest, length, where=better)
    return best.astype(cells.dtype)


def _mode_of_long_blocks(ordered: _Cells, counted: _Cells | None) -> _Cells:
    result = np.empty(ordered.shape[:-1], ordered.dtype)
    for index in np.ndindex(result.shape):
        kept = ordered[index] if counted is None else ordered[index][: max(1, int(counted[index].sum()))]
        values, counts = np.unique(kept, return_counts=True)
        result[index] = values[counts.argmax()]
    return result


def _mode_of_objects(cells: _Cells) -> _Cells:
    result = np.empty(cells.shape[:-1], cells.dtype)
    for index in np.ndindex(result.shape):
        block = sorted(cells[index].tolist(), key=_json_order)
        runs = [list(run) for _, run in itertools.groupby(block, key=_json_order)]
        result[index] = max(runs, key=len)[0]
    return result


def _json_order(value: Any) -> tuple[Any, ...]:
    """Return a sort key for JSON values: null, booleans, numbers, objects, arrays, strings."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, value)
    if isinstance(value, (int, float)):
        return (2, value)
    if isinstance(value, dict):
        return (3, [(name, _json_order(member)) for name, member in sorted(value.items())])
    if isinstance(value, (list, tuple)):
        return (4, [_json_order(member) for member in value])
    return (5, value)


_REDUCTIONS: Final[dict[str, Callable[..., _Cells]]] = {
    "mean": mean_of,
    "min": partial(_extreme, of_floats=np.fmin, of_others=np.minimum, initial=np.inf),
    "max": partial(_extreme, of_floats=np.fmax, of_others=np.maximum, initial=-np.inf),
    "median": _median,
    "mode": mode_of,
}

METHODS: Final = ("stride", *_REDUCTIONS)
"""The names of all methods, in the order in which a message lists them."""
