"""Plans: the chunks that a selection touches, the selection in each, and its place in the work buffer.

A read fills the *work buffer*, a write takes values from it. Its dimensions are those of NumPy's
``chunk[chunk_selection]``, so that an executor can assign one to the other: axes selected by an int are dropped, and
the dimensions of index arrays are together. They are at the position of the first index array if no slice separates
them (or separates them from an int), otherwise in front. `Plan.present` converts a work buffer to NumPy's result,
`Plan.arrange` converts values to write to a work buffer. Both return their argument unless there are index arrays or
new axes.

This module has all the code that plans a read by ints and slices, so that it can be read from top to bottom.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tegula.errors import SelectionError
from tegula.indexing.arrays import LONG, Column, Entry, Lookup, Points
from tegula.metadata.chunk_grids import ChunkAxis, ChunkGrid, RegularAxis

__all__ = ["Plan", "Projection", "Runs", "fixed", "out_of_bounds", "plain", "runs"]

Projection: TypeAlias = tuple[tuple[int, ...], tuple[Any, ...], tuple[Any, ...], bool]
"""``(coords, chunk_selection, work_selection, covers)`` of one chunk; see `Plan.__iter__`."""

Row: TypeAlias = tuple[int, int, int, int, int, bool]
_FULL = slice(None)


class Runs:
    """The table of an axis selected by an int or a slice: one row for each chunk, computed on demand.

    A row is ``(number, first, count, step, work, covers)``: number of the chunk along the axis; first index within the
    chunk, number of indices and distance between them (negative if the slice runs backwards, 1 for a single index);
    first index in the work buffer; whether the row has every index of the chunk that lies within the array.

    Attributes
    ----------
    start, step, count : int
        The selected indices of the axis.
    length : int or None
        Length of the axis in the work buffer; ``None`` for an int, which drops the axis.

    Examples
    --------
    >>> table = runs(slice(2, None, 3), 0, 10, RegularAxis(4))
    >>> list(table.rows())
    [(0, 2, 1, 1, 0, False), (1, 1, 1, 1, 1, False), (2, 0, 1, 1, 2, False)]
    >>> table.find(2)
    (2, slice(0, 1, 1), slice(2, 3, 1), False)
    """

    __slots__ = ("_cut", "_size", "count", "length", "start", "step")

    def __init__(self, length: int | None, span: tuple[int, int, int], size: int, cut: ChunkAxis) -> None:
        self.length = length
        self.start, self.step, self.count = span
        self._size = size
        self._cut = cut

    def rows(self) -> Iterator[Row]:
        """Yield a row for each chunk."""
        cut, size, step, remaining = self._cut, self._size, self.step, self.count
        index, done = self.start, 0
        chunk = cut.chunk if type(cut) is RegularAxis else 0
        while remaining:
            # the chunk of the next index
            if type(cut) is RegularAxis:
                number = index // chunk
                start = number * chunk
            else:
                number = cut.locate(index)
                start = cut.start(number)
                chunk = cut.length(number)

            # the number of indices in it
            end = min(start + chunk, size)
            count = (end - 1 - index) // step + 1 if step > 0 else (index - start) // -step + 1
            count = min(count, remaining)
            yield (number, index - start, count, step if count > 1 else 1, done, count == end - start)
            done += count
            remaining -= count
            index += count * step

    @property
    def nchunks(self) -> int:
        """Number of rows, computed without iterating over them if there may be very many."""
        count, cut = self.count, self._cut
        if count <= 1:
            return count
        last = self.start + (count - 1) * self.step
        if type(cut) is RegularAxis:
            chunk = cut.chunk
            return count if abs(self.step) >= chunk else abs(last // chunk - self.start // chunk) + 1
        if abs(self.step) == 1:  # every chunk from the first to the last has a row
            return abs(int(cut.locate(last)) - int(cut.locate(self.start))) + 1
        return sum(1 for _ in self.rows())

    def end(self, cut: ChunkAxis) -> int:
        """Return the index after the highest one; 0 if there is none."""
        return max(self.start, self.start + (self.count - 1) * self.step) + 1 if self.count else 0

    def column(self) -> Column:
        """Return the rows as selections, in a list unless there are more than `LONG`."""
        return [*self] if self.count <= LONG or self.nchunks <= LONG else self

    def __iter__(self) -> Iterator[Entry]:
        return map(self._entry, self.rows())

    def find(self, number: int) -> Entry | None:
        """Return the selection of one chunk, or ``None`` if nothing of it is selected."""
        cut, step, count = self._cut, self.step, self.count
        if number >= cut.count(self._size):
            return None
        start = cut.start(number)
        end = min(start + cut.length(number), self._size)
        # positions in the selection of the first and the last index that lies in the chunk
        low, high = (start, end - 1) if step > 0 else (end - 1, start)
        first = max(0, -((self.start - low) // step))
        last = min(count - 1, (high - self.start) // step)
        if first > last:
            return None
        here = last - first + 1
        inner = self.start + first * step - start
        return self._entry((number, inner, here, step if here > 1 else 1, first, here == end - start))

    def _entry(self, row: Row) -> Entry:
        number, first, count, step, work, covers = row
        if self.length is None:
            return number, first, None, covers
        stop: int | None = first + (count - 1) * step + (1 if step > 0 else -1)
        if stop == -1:  # NumPy would count it from the end
            stop = None
        return number, slice(first, stop, step), slice(work, work + count, 1), covers


class Plan:
    """A selection divided by chunks; made by the functions of `tegula.indexing`, and immutable.

    Attributes
    ----------
    shape : tuple of int
        Shape of NumPy's result.
    work_shape : tuple of int
        Shape of the work buffer.
    is_point : bool
        Whether there is an int for every axis and nothing else, so that NumPy's result is a scalar.
    axes : tuple of Runs, Lookup or None
        A table for each axis of the array; ``None`` for the axes of `points`.
    points : Points or None
        The points of a selection by several index arrays that are broadcast together.
    work_axes : tuple of int
        For each dimension of the work buffer the array axis that it corresponds to; -1 for the dimension of `points`.

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
        # from the work buffer to the result: reshape to the first item, transpose by the second, add new axes
        self._view = view

    def __repr__(self) -> str:
        return f"<Plan of shape {self.shape} over {self.nchunks} chunks>"

    @property
    def nchunks(self) -> int:
        """Number of chunks that the selection touches."""
        if not self.work_axes:
            return 1
        boxes = prod([table.nchunks for table in self.axes if table is not None])
        return boxes if self.points is None else boxes * len(self.points.numbers)

    def __iter__(self) -> Iterator[Projection]:
        """Iterate over the chunks that the selection touches, in no particular order.

        Yields
        ------
        coords : tuple of int
            Grid coordinates of the chunk.
        chunk_selection, work_selection : tuple
            ``work[work_selection] = chunk[chunk_selection]`` reads, ``chunk[chunk_selection] = work[work_selection]``
            writes; the chunk may be clipped to the array. The items are ints and slices with explicit steps, or int64
            arrays (open meshes if there are several) where these do not suffice.
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
        """Return the selection of one chunk, in the form in which iteration yields it.

        Parameters
        ----------
        coords : tuple of int
            Grid coordinates of the chunk.

        Returns
        -------
        tuple or None
            ``None`` if nothing of the chunk is selected.

        Raises
        ------
        SelectionError
            If the plan has index arrays.

        Examples
        --------
        >>> from tegula.indexing import basic
        >>> from tegula.metadata.chunk_grids import regular_grid
        >>> plan = basic(slice(2, None), (10**12,), regular_grid((4,)))
        >>> plan.at((0,)), plan.at((10**12,))
        (((0,), (slice(2, 4, 1),), (slice(0, 2, 1),), False), None)
        """
        if not self.is_basic:
            raise SelectionError("the selection of one chunk is only available for plans of ints and slices")
        entries = [table.find(number) for table, number in zip(self.axes, coords) if isinstance(table, Runs)]
        return None if None in entries else next(self._boxes([[entry] for entry in entries if entry is not None]))

    def ends(self, grid: ChunkGrid) -> tuple[int, ...]:
        """Return for each axis the index after the highest selected one, 0 if there is none.

        Parameters
        ----------
        grid : ChunkGrid
            The grid for which the plan was made.

        Examples
        --------
        >>> from tegula.indexing import basic
        >>> from tegula.metadata.chunk_grids import regular_grid
        >>> grid = regular_grid((4, 4))
        >>> basic((slice(8, None, -3), 5), (10, 10), grid).ends(grid)
        (9, 6)
        """
        ends = [0 if table is None else table.end(cut) for table, cut in zip(self.axes, grid.axes)]
        for column, axis in enumerate(() if self.points is None else self.points.axes):
            ends[axis] = self.points.end(column, grid.axes[axis])  # type: ignore[union-attr]
        return tuple(ends)

    @property
    def is_basic(self) -> bool:
        """True if each axis is selected by an int or a slice."""
        return all(isinstance(table, Runs) for table in self.axes)

    def _columns(self) -> list[Column]:
        """Return the entries of each axis, with placeholders for the axes of `points`."""
        columns = []
        for table in self.axes:
            if type(table) is not Runs:
                return self._looked_up_columns()
            columns.append(table.column())
        return columns

    def _looked_up_columns(self) -> list[Column]:
        lookups = [table for table in self.axes if isinstance(table, Lookup)]
        single = len(lookups) == 1
        # as a slice, a single array would not move to the front as NumPy requires; see the module's docstring
        in_order = single and self.work_axes == tuple(sorted(self.work_axes))
        sorted_all = all(table.positions is None for table in lookups)
        columns = []
        for table in self.axes:
            if isinstance(table, Runs):
                columns.append(table.column())
            elif table is not None and single:
                columns.append(table.column(in_order))
            elif table is not None:
                position = lookups.index(table)
                mesh = tuple([-1 if other == position else 1 for other in range(len(lookups))])
                columns.append(table.mesh(mesh, sorted_all))
            else:
                columns.append([])
        return columns

    def _boxes(self, columns: list[Column]) -> Iterator[Projection]:
        """Yield the product of the entries of all axes."""
        order = self.work_axes
        in_order = order == tuple(range(len(columns)))
        for rows in _product(columns):
            coords, inner, work, covers = zip(*rows)
            yield coords, inner, work if in_order else tuple([work[axis] for axis in order]), False not in covers

    def _scattered(self, points: Points) -> Iterator[Projection]:
        """Yield, for each group of points, the product with the entries of the other axes."""
        columns = self._columns()
        for numbers, offsets, points_work, filled in points.groups():
            for axis, number, each in zip(points.axes, numbers, offsets):
                columns[axis] = [(number, each, points_work, filled)]
            for rows in _product(columns):
                coords, inner, work, covers = zip(*rows)
                target = tuple([points_work if axis < 0 else work[axis] for axis in self.work_axes])
                yield coords, inner, target, False not in covers

    def present(self, work: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert a work buffer to NumPy's result.

        Parameters
        ----------
        work : ndarray of `work_shape`
            The work buffer, filled by a read.

        Returns
        -------
        ndarray of `shape`
            A view of `work`.
        """
        if self._view is not None:
            split, axes = self._view
            work = work.reshape(split).transpose(axes)
        return work if work.shape == self.shape else work.reshape(self.shape)

    def arrange(self, values: Any) -> npt.NDArray[Any]:
        """Convert values to write to a work buffer: broadcast them to `shape` as NumPy's assignment does, and reorder.

        Parameters
        ----------
        values : array_like
            The right-hand side of an assignment to a selection of `shape`.

        Returns
        -------
        ndarray of `work_shape`
            A read-only view of `values` where possible.

        Raises
        ------
        SelectionError
            If the values are not an array or can't be broadcast to `shape`.
        """
        try:
            array: npt.NDArray[Any] = np.asarray(values)
        except (ValueError, TypeError, OverflowError) as error:
            raise SelectionError(f"the values do not form an array: {error}") from error

        # nothing to do, or one value for all elements
        if array.shape == self.work_shape == self.shape and self._view is None:
            return array
        if array.ndim == 0:
            try:
                return np.broadcast_to(array, self.work_shape)
            except ValueError as error:
                raise SelectionError(f"a selection of shape {self.shape} is larger than any array: {error}") from error

        # broadcast; like NumPy's assignment, drop leading axes of length 1
        shape = array.shape
        while len(shape) > len(self.shape) and shape[0] == 1:
            shape = shape[1:]
        try:
            array = np.broadcast_to(array.reshape(shape), self.shape)
        except ValueError as error:
            raise SelectionError(
                f"values of shape {array.shape} can't be broadcast to a selection of shape {self.shape}"
            ) from error

        # reorder the axes
        if self._view is not None:
            split, axes = self._view
            array = array.reshape([split[dim] for dim in axes]).transpose(np.argsort(axes))
        return array.reshape(self.work_shape)


def _product(columns: list[Column]) -> Iterator[tuple[Entry, ...]]:
    """Return the product of columns; `itertools.product` would store a column that is not a list."""
    for axis, column in enumerate(columns):
        if type(column) is not list:
            return _product_by(columns, axis)
    return product(*columns)


def _product_by(columns: list[Column], axis: int) -> Iterator[tuple[Entry, ...]]:
    """Yield the product of columns, iterating over the column of `axis`."""
    for entry in columns[axis]:
        yield from _product([*columns[:axis], [entry], *columns[axis + 1 :]])


def plain(selection: Any, shape: tuple[int, ...], grid: ChunkGrid) -> Plan | None:
    """Plan a selection of ints and slices; return ``None`` if it contains anything else.

    Raises
    ------
    SelectionError
        If an index is out of bounds, or a slice is not valid.

    Examples
    --------
    >>> from tegula.metadata.chunk_grids import regular_grid
    >>> plain((5, slice(2)), (10, 6), regular_grid((4, 4))), plain([1, 2], (10, 6), regular_grid((4, 4)))
    (<Plan of shape (2,) over 1 chunks>, None)
    """
    # one item for each axis
    if type(selection) is not tuple:
        selection = () if selection is ... and shape else (selection,)
    missing = len(shape) - len(selection)
    if missing:
        if missing < 0:
            return None
        selection += (_FULL,) * missing

    # one table for each item
    tables = []
    work_axes = []
    work_shape = []
    cuts = grid.axes
    for axis, item in enumerate(selection):
        if type(item) is int:
            tables.append(fixed(item, axis, shape[axis], cuts[axis]))
        elif type(item) is slice:
            table = runs(item, axis, shape[axis], cuts[axis])
            tables.append(table)
            work_axes.append(axis)
            work_shape.append(table.length)
        elif isinstance(item, np.integer):
            tables.append(fixed(int(item), axis, shape[axis], cuts[axis]))
        else:
            return None
    lengths: Any = tuple(work_shape)
    return Plan(tuple(tables), tuple(work_axes), lengths, lengths, is_point=not work_axes)


def out_of_bounds(index: int, axis: int, size: int) -> SelectionError:
    """Return the error for an index that is not within the array."""
    text = str(index) if index.bit_length() < 128 else f"of {index.bit_length()} bits"
    return SelectionError(f"index {text} is out of bounds for axis {axis} with size {size}")


def fixed(index: int, axis: int, size: int, cut: ChunkAxis) -> Runs:
    """Return the table of an axis selected by an int."""
    at = index + size if index < 0 else index
    if not 0 <= at < size:
        raise out_of_bounds(index, axis, size)
    return Runs(None, (at, 1, 1), size, cut)


def runs(part: slice, axis: int, size: int, cut: ChunkAxis) -> Runs:
    """Return the table of an axis selected by a slice."""
    try:
        start, stop, step = part.indices(size)
    except (TypeError, ValueError) as error:
        raise SelectionError(f"a slice is not valid for axis {axis} with size {size}: {error}") from error
    length = (stop - start + step - 1) // step if step > 0 else (start - stop - step - 1) // -step
    if length <= 0:
        return Runs(0, (0, 1, 0), size, cut)
    if length == 1:
        step = 1  # the step does not matter, and may exceed 64 bits
    return Runs(length, (start, step, length), size, cut)
