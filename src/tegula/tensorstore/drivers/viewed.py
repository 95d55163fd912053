"""Views of the arrays that adapters read, and conversion between the axis orders of drivers and of NumPy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.constraints.schema import units_through
from tegula.tensorstore.constraints.unit import Unit
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.index.transform import IndexTransform, compose, identity
from tegula.tensorstore.spec.interface import Driver, Indices
from tegula.tensorstore.views import select

__all__ = [
    "Viewed",
    "array_rank",
    "cells",
    "joint_first",
    "joint_in_place",
    "numpy_selection",
    "read_at",
    "result_shape",
    "write_at",
]

_Values = npt.NDArray[Any]


class Viewed:
    """A driver and the transform of a view of it, by default the identity."""

    __slots__ = ("driver", "view")

    def __init__(self, driver: Driver, view: IndexTransform | None) -> None:
        self.driver = driver
        self.view = identity(driver.domain) if view is None else view

    @property
    def domain(self) -> IndexDomain:
        """The domain of the view."""
        return self.view.domain

    @property
    def dtype(self) -> dtype:
        """The data type of the elements."""
        return self.driver.dtype

    @property
    def dimension_units(self) -> tuple[Unit | None, ...] | None:
        """The unit of each dimension of the view; None if unknown."""
        units = self.driver.dimension_units
        return None if units is None else units_through(units, self.view)

    def read(self, indices: Indices) -> _Values:
        """Read as `Driver.read` does."""
        selection = select(compose(self.view, _indexing(indices)), self.driver.domain)
        return selection.present(self.driver.read(selection.indices))

    def write(self, indices: Indices, values: _Values) -> None:
        """Write as `Driver.write` does."""
        selection = select(compose(self.view, _indexing(indices)), self.driver.domain)
        if selection.size:
            self.driver.write(selection.indices, selection.arrange(values))


def result_shape(indices: Indices) -> tuple[int, ...]:
    """Return the shape of the result of a read."""
    shapes = [term.shape for term in indices if isinstance(term, np.ndarray)]
    joint = np.broadcast_shapes(*shapes) if shapes else ()
    return (*joint, *(len(range(s.start, s.stop, s.step)) for s in indices if isinstance(s, slice)))


def array_rank(indices: Indices) -> int:
    """Return the number of dimensions that the index arrays broadcast to."""
    return max((term.ndim for term in indices if isinstance(term, np.ndarray)), default=0)


def _indexing(indices: Indices) -> IndexTransform:
    """Return the transform from the result of a read to the elements of the base."""
    shape, joint = result_shape(indices), array_rank(indices)
    sliced = iter(range(joint, len(shape)))
    maps = []
    for term in indices:
        if isinstance(term, slice):
            maps.append(OutputIndexMap(input_dimension=next(sliced), offset=term.start, stride=term.step))
        elif isinstance(term, np.ndarray):
            wide = term.reshape((1,) * (joint - term.ndim) + term.shape + (1,) * (len(shape) - joint))
            maps.append(OutputIndexMap(index_array=wide))
        else:
            maps.append(OutputIndexMap(offset=term))
    return IndexTransform(input_shape=shape, output=maps)


# --- indices for NumPy


def numpy_selection(indices: Indices) -> tuple[tuple[Any, ...], int]:
    """Return indices of an array with origin 0 in NumPy's form, and their `array_rank`."""
    joint = 0
    backwards = False
    for term in indices:
        if isinstance(term, np.ndarray):
            joint = max(joint, term.ndim)
        elif isinstance(term, slice) and term.step is not None and term.step < 0:
            backwards = True
    if not backwards:
        return indices, joint
    return tuple(_with_open_stop(term) for term in indices), joint


def read_at(values: _Values, indices: Indices) -> _Values:
    """Return the elements of a NumPy array at indices, with the axis order of `Driver.read`."""
    selection, joint = numpy_selection(indices)
    elements: _Values = values[(*selection, ...)]
    return joint_first(elements, selection, joint) if joint else elements


def write_at(values: _Values, indices: Indices, new: _Values) -> None:
    """Set the elements of a NumPy array at indices, as `Driver.write` does."""
    selection, joint = numpy_selection(indices)
    values[(*selection, ...)] = joint_in_place(new, selection, joint) if joint else new


def _with_open_stop(term: Any) -> Any:
    """Return a term with ``None`` for the stop of a backward slice that includes index 0."""
    if isinstance(term, slice) and term.step is not None and term.step < 0 and term.stop is not None and term.stop < 0:
        return slice(term.start, None, term.step)
    return term


def _joint_axis(selection: tuple[Any, ...]) -> int:
    """Return where NumPy puts the axes of index arrays: in place if these and ints are adjacent, else first."""
    axes = [axis for axis, term in enumerate(selection) if not isinstance(term, slice)]
    return axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0


def joint_first(values: _Values, selection: tuple[Any, ...], joint: int) -> _Values:
    """Move the axes of index arrays from where NumPy puts them to the front."""
    axis = _joint_axis(selection)
    return np.moveaxis(values, range(axis, axis + joint), range(joint)) if axis else values


def joint_in_place(values: _Values, selection: tuple[Any, ...], joint: int) -> _Values:
    """Move the axes of index arrays from the front to where NumPy puts them."""
    axis = _joint_axis(selection)
    return np.moveaxis(values, range(joint), range(axis, axis + joint)) if axis else values


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
