"""The plan: which chunks a selection touches, what it takes from each, and where that goes.

What an executor fills or empties is the *work* buffer. Its layout is the one NumPy gives ``chunk[chunk_selection]``,
so that plain assignment between the two is right: axes selected by an int are gone, and the dimensions that stand for
index arrays lie together, at the place of the first if no slice stands between them (or between them and an int), and
in front otherwise. `Plan.present` turns a work buffer into NumPy's result, `Plan.arrange` turns values to be
written into a work buffer; both differ from the identity only for index arrays and new axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tegula.errors import SelectionError
from tegula.indexing.arrays import Lookup, Points
from tegula.indexing.runs import Column, Entry, Runs

__all__ = ["Plan", "Projection"]

Projection: TypeAlias = tuple[tuple[int, ...], tuple[Any, ...], tuple[Any, ...], bool]
"""``(coords, chunk_selection, work_selection, covers)`` of one chunk; see `Plan.__iter__`."""


class Plan:
    """What a selection touches, chunk by chunk; made by the functions of `tegula.indexing`, not to be changed.

    Attributes
    ----------
    shape : tuple of int
        Shape of NumPy's result.
    work_shape : tuple of int
        Shape of the buffer that an executor fills or empties.
    is_point : bool
        Whether every axis is selected by an int and nothing else, so that NumPy's result is a scalar.
    axes : tuple of Runs, Lookup or None
        One table for each axis of the array; ``None`` for the axes that `points` has.
    points : Points or None
        The points of a selection by several index arrays that go together.
    work_axes : tuple of int
        For each dimension of the work buffer the array axis that it stands for; -1 for the dimension of `points`.

    Examples
    --------
    >>> from tegula.indexing import basic
    >>> from tegula.metadata.chunk_grids import regular_grid
    >>> plan = basic(slice(None, None, -2), (5,), regular_grid((3,)))
    >>> list(plan.axes[0].rows())
    [(1, 1, 1, 1, 0, False), (0, 2, 2, -2, 1, False)]
    >>> [projection[1:3] for projection in plan]
    [((slice(1, 2, 1),), (slice(0, 1, 1),)), ((slice(2, None, -2),), (slice(1, 3, 1),))]
    """

    __slots__ = ("_view", "axes", "is_point", "points", "shape", "work_axes", "work_shape")

    def __init__(
        self,
        axes: tuple[Runs | Lookup | None, ...],
        work_axes: tuple[int, ...],
        work_shape: tuple[int, ...],
        shape: tuple[int, ...],
        *,
        is_point: bool,
        points: Points | None = None,
        view: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
    ) -> None:
        self.axes = axes
        self.work_axes = work_axes
        self.work_shape = work_shape
        self.shape = shape
        self.is_point = is_point
        self.points = points
        # From work to result: reshape to the first, transpose by the second, insert new axes.
        self._view = view

    def __repr__(self) -> str:
        return f"<Plan of shape {self.shape} over {self.nchunks} chunks>"

    @property
    def nchunks(self) -> int:
        """Number of chunks touched."""
        if not self.work_axes:
            return 1
        boxes = prod([table.nchunks for table in self.axes if table is not None])
        return boxes if self.points is None else boxes * len(self.points.numbers)

    def __iter__(self) -> Iterator[Projection]:
        """Iterate over the chunks touched, in no particular order.

        Yields
        ------
        coords : tuple of int
            The chunk's position in the grid.
        chunk_selection, work_selection : tuple
            ``work[work_selection] = chunk[chunk_selection]`` reads, ``chunk[chunk_selection] = work[work_selection]``
            writes, and the chunk need only be as large as its part within the array. Ints, and slices with explicit
            steps, wherever index arrays are not needed; int64 arrays (open meshes if there are several) where they are.
        covers : bool
            Whether every element of the chunk that lies within the array is selected.
        """
        if 0 in self.work_shape:
            return iter(())
        if self.points is not None:
            return self._scattered(self.points)
        if self.axes:
            return self._boxes(self._columns())
        return iter((((), (), (), True),))

    def at(self, coords: tuple[int, ...]) -> Projection | None:
        """Return what is selected of one chunk by ints and slices, as iterating does; ``None`` if nothing is.

        Examples
        --------
        >>> from tegula.indexing import basic
        >>> from tegula.metadata.chunk_grids import regular_grid
        >>> plan = basic(slice(2, None), (10**12,), regular_grid((4,)))
        >>> plan.at((0,)), plan.at((10**12,))
        (((0,), (slice(2, 4, 1),), (slice(0, 2, 1),), False), None)
        """
        if not self.is_basic:
            raise SelectionError("only a plan of ints and slices tells what it selects of a chunk")
        entries = [table.find(number) for table, number in zip(self.axes, coords) if isinstance(table, Runs)]
        return None if None in entries else next(self._boxes([[entry] for entry in entries if entry is not None]))

    @property
    def is_basic(self) -> bool:
        """Whether each axis is selected by an int or a slice."""
        return all(isinstance(table, Runs) for table in self.axes)

    def _columns(self) -> list[Column]:
        lookups = [table for table in self.axes if isinstance(table, Lookup)]
        single = len(lookups) == 1
        # A slice would leave the place that NumPy gives the array; see the module's text.
        in_order = single and self.work_axes == tuple(sorted(self.work_axes))
        sorted_all = all(table.positions is None for table in lookups)
        columns = []
        for table in self.axes:
            if isinstance(table, Runs):
                columns.append(table.column())
            elif table is not None and single:
                columns.append(table.column(in_order))
            elif table is not None:
                place = lookups.index(table)
                mesh = tuple([-1 if other == place else 1 for other in range(len(lookups))])
                columns.append(table.mesh(mesh, sorted_all))
            else:
                columns.append([])
        return columns

    def _boxes(self, columns: list[Column]) -> Iterator[Projection]:
        order = self.work_axes
        in_order = order == tuple(range(len(columns)))
        for rows in _combined(columns):
            coords, inner, work, whole = zip(*rows)
            yield coords, inner, work if in_order else tuple([work[axis] for axis in order]), False not in whole

    def _scattered(self, points: Points) -> Iterator[Projection]:
        columns = self._columns()
        for numbers, offsets, place, filled in points.groups():
            for axis, number, each in zip(points.axes, numbers, offsets):
                columns[axis] = [(number, each, place, filled)]
            for rows in _combined(columns):
                coords, inner, work, whole = zip(*rows)
                target = tuple([place if axis < 0 else work[axis] for axis in self.work_axes])
                yield coords, inner, target, False not in whole

    def present(self, work: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a full work buffer as NumPy's result: a view of `shape`.

        Parameters
        ----------
        work : ndarray of `work_shape`
            What an executor filled.
        """
        if self._view is not None:
            split, turn = self._view
            work = work.reshape(split).transpose(turn)
        return work if work.shape == self.shape else work.reshape(self.shape)

    def arrange(self, values: Any) -> npt.NDArray[Any]:
        """Return values to be written as a work buffer: broadcast to `shape` as NumPy's assignment does, and reordered.

        Parameters
        ----------
        values : array_like
            What the right-hand side of an assignment may be for a selection of `shape`.

        Returns
        -------
        ndarray of `work_shape`
            Often a view of `values`, which may have several indices for one element; not to be written to.

        Raises
        ------
        SelectionError
            If the values are not an array or can't be broadcast to `shape`.
        """
        try:
            array: npt.NDArray[Any] = np.asarray(values)
        except (ValueError, TypeError, OverflowError) as error:
            raise SelectionError(f"the values do not form an array: {error}") from error
        if array.shape == self.work_shape == self.shape and self._view is None:
            return array
        if array.ndim == 0:
            try:
                return np.broadcast_to(array, self.work_shape)
            except ValueError as error:
                raise SelectionError(f"a selection of shape {self.shape} is larger than any array: {error}") from error
        shape = array.shape
        while len(shape) > len(self.shape) and shape[0] == 1:
            shape = shape[1:]
        try:
            array = np.broadcast_to(array.reshape(shape), self.shape)
        except ValueError as error:
            raise SelectionError(
                f"values of shape {array.shape} can't be broadcast to a selection of shape {self.shape}"
            ) from error
        if self._view is not None:
            split, turn = self._view
            array = array.reshape([split[dim] for dim in turn]).transpose(np.argsort(turn))
        return array.reshape(self.work_shape)


def _combined(columns: list[Column]) -> Iterator[tuple[Entry, ...]]:
    """Return the product of columns; long ones are walked, since `itertools.product` would store them."""
    for axis, column in enumerate(columns):
        if type(column) is not list:
            return _walked(columns, axis)
    return product(*columns)


def _walked(columns: list[Column], axis: int) -> Iterator[tuple[Entry, ...]]:
    for entry in columns[axis]:
        yield from _combined([*columns[:axis], [entry], *columns[axis + 1 :]])
