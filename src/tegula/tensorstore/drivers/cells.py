"""Splitting of indices by the cells of a grid."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.tensorstore.drivers.viewed import array_rank
from tegula.tensorstore.spec.interface import Indices

__all__ = ["cells"]

_Numbers = npt.NDArray[np.int64]
Part = tuple[tuple[int, ...], tuple[Any, ...], tuple[Any, ...]]


def cells(indices: Indices, locate: Callable[[int, _Numbers], _Numbers]) -> Iterator[Part]:
    """Split indices by the cells of a grid.

    Parameters
    ----------
    indices : tuple
        A term for each dimension.
    locate : callable
        Returns the cell numbers for a dimension and indices along it.

    Yields
    ------
    numbers : tuple of int
        The number of the cell along each dimension.
    part : tuple
        The indices in the cell.
    position : tuple
        Their position in the result: ``result[position]`` has the shape that reading the part returns.
    """
    arrays = [axis for axis, term in enumerate(indices) if isinstance(term, np.ndarray)]
    slices = [axis for axis, term in enumerate(indices) if isinstance(term, slice)]
    fixed = {
        axis: int(locate(axis, np.asarray([term]))[0]) for axis, term in enumerate(indices) if isinstance(term, int)
    }
    joint = array_rank(indices)
    groups = list(_points(indices, arrays, locate)) if arrays else [((), {}, ())]
    runs = [list(_runs(indices[axis], axis, locate)) for axis in slices]
    for array_numbers, points, position in groups:
        for chosen in product(*runs):
            numbers = [0] * len(indices)
            part: list[Any] = list(indices)
            for axis, number in fixed.items():
                numbers[axis] = number
            for axis, number in zip(arrays, array_numbers):
                numbers[axis] = number
                part[axis] = points[axis]
            for axis, (number, piece, _) in zip(slices, chosen):
                numbers[axis] = number
                part[axis] = piece
            spans = tuple(span for _, _, span in chosen)
            yield tuple(numbers), tuple(part), (*(position if joint else ()), *spans)


def _points(
    indices: Indices, arrays: list[int], locate: Callable[[int, _Numbers], _Numbers]
) -> Iterator[tuple[tuple[int, ...], dict[int, _Numbers], tuple[Any, ...]]]:
    shape = np.broadcast_shapes(*(np.asarray(indices[axis]).shape for axis in arrays))
    flat = {axis: np.broadcast_to(np.asarray(indices[axis]), shape).reshape(-1) for axis in arrays}
    if not flat[arrays[0]].size:
        return
    numbers = np.stack([locate(axis, flat[axis]) for axis in arrays])
    unique, groups = np.unique(numbers, axis=1, return_inverse=True)
    groups = groups.reshape(-1)
    for number in range(unique.shape[1]):
        members = np.flatnonzero(groups == number)
        position = np.unravel_index(members, shape)
        yield tuple(unique[:, number].tolist()), {axis: flat[axis][members] for axis in arrays}, position


def _runs(term: Any, axis: int, locate: Callable[[int, _Numbers], _Numbers]) -> Iterator[tuple[int, slice, slice]]:
    covered = range(term.start, term.stop, term.step)
    if not covered:
        return
    sign = 1 if term.step > 0 else -1

    def cell(position: int) -> int:
        return sign * int(locate(axis, np.asarray([covered[position]]))[0])

    begin = 0
    while begin < len(covered):
        number = cell(begin)
        end = bisect_right(range(len(covered)), number, lo=begin, key=cell)
        yield sign * number, slice(covered[begin], covered[end - 1] + sign, term.step), slice(begin, end)
        begin = end
