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
from tegula.indexing.arrays import LONG, Column, Entry, Lookup, Points
from tegula.metadata.chunk_grids import ChunkAxis, ChunkGrid, RegularAxis

__all__ = ["Plan", "Projection", "Runs", "fixed", "out_of_bounds", "plain", "runs"]

Projection: TypeAlias = tuple[tuple[int, ...], tuple[Any, ...], tuple[Any, ...], bool]
"""``(coords, chunk_selection, work_selection, covers)`` of one chunk; see `Plan.__iter__`."""

Row: TypeAlias = tuple[int, int, int, int, int, bool]
_FULL = slice(None)


class Runs:
    """An axis selected by an int or a slice: one row for each chunk touched, computed when it is asked for.

    A row is ``(number, first, count, step, work, whole)``: number of the chunk along the axis; first index within the
    chunk, number of indices and distance between them (negative when the slice runs backwards, 1 for a single index);
    first index in the work buffer; whether the row has every index of the chunk that lies within the array.

    Attributes
    ----------
    start, step, count : int
        The selected indices of the array's axis.
    length : int or None
        Length of the axis in the work buffer; ``None`` for an int, which has no axis there.

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
        """Divide the indices among the chunks, and yield a row for each."""
        cut, size, step, left = self._cut, self._size, self.step, self.count
        index, done = self.start, 0
        chunk = cut.chunk if type(cut) is RegularAxis else 0
        while left:
            if type(cut) is RegularAxis:
                number = index // chunk
                start = number * chunk
            else:
                number = cut.locate(index)
                start = cut.start(number)
                chunk = cut.length(number)
            end = min(start + chunk, size)
            count = (end - 1 - index) // step + 1 if step > 0 else (index - start) // -step + 1
            count = min(count, left)
            yield (number, index - start, count, step if count > 1 else 1, done, count == end - start)
            done += count
            left -= count
            index += count * step

    @property
    def nchunks(self) -> int:
        """Number of rows, found without making them where the axis may have very many."""
        count, cut = self.count, self._cut
        if count <= 1:
            return count
        last = self.start + (count - 1) * self.step
        if type(cut) is RegularAxis:
            chunk = cut.chunk
            return count if abs(self.step) >= chunk else abs(last // chunk - self.start // chunk) + 1
        if abs(self.step) == 1:  # no chunk is left out between the first and the last
            return abs(int(cut.locate(last)) - int(cut.locate(self.start))) + 1
        return sum(1 for _ in self.rows())

    def column(self) -> Column:
        """Return the rows as selections."""
        return [*self] if self.count <= LONG or self.nchunks <= LONG else self

    def __iter__(self) -> Iterator[Entry]:
        return map(self._entry, self.rows())

    def find(self, number: int) -> Entry | None:
        """Return what is selected of a chunk; ``None`` if nothing is."""
        cut, step, count = self._cut, self.step, self.count
        if number >= cut.count(self._size):
            return None
        start = cut.start(number)
        end = min(start + cut.length(number), self._size)
        # the first and the last position of which the index lies in the chunk
        low, high = (start, end - 1) if step > 0 else (end - 1, start)
        first = max(0, -((self.start - low) // step))
        last = min(count - 1, (high - self.start) // step)
        if first > last:
            return None
        here = last - first + 1
        inner = self.start + first * step - start
        return self._entry((number, inner, here, step if here > 1 else 1, first, here == end - start))

    def _entry(self, row: Row) -> Entry:
        number, first, count, step, work, whole = row
        if self.length is None:
            return number, first, None, whole
        stop: int | None = first + (count - 1) * step + (1 if step > 0 else -1)
        if stop == -1:  # NumPy would count it from the end
            stop = None
        return number, slice(first, stop, step), slice(work, work + count, 1), whole


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
        columns = []
        for table in self.axes:
            if type(table) is not Runs:
                return self._looked_up_columns()
            columns.append(table.column())
        return columns

    def _looked_up_columns(self) -> list[Column]:
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


def plain(selection: Any, shape: tuple[int, ...], grid: ChunkGrid) -> Plan | None:
    """Plan a selection of nothing but ints and slices; ``None`` if there is anything else in it.

    Raises
    ------
    SelectionError
        If an index is out of bounds, or a slice is not one.
    """
    if type(selection) is not tuple:
        selection = () if selection is ... and shape else (selection,)
    missing = len(shape) - len(selection)
    if missing:
        if missing < 0:
            return None
        selection += (_FULL,) * missing
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
    """Make the error for an index that is not within the array."""
    text = str(index) if index.bit_length() < 128 else f"of {index.bit_length()} bits"
    return SelectionError(f"index {text} is out of bounds for axis {axis} with size {size}")


def fixed(index: int, axis: int, size: int, cut: ChunkAxis) -> Runs:
    """Make the table of an axis that is selected by an int."""
    at = index + size if index < 0 else index
    if not 0 <= at < size:
        raise out_of_bounds(index, axis, size)
    return Runs(None, (at, 1, 1), size, cut)


def runs(part: slice, axis: int, size: int, cut: ChunkAxis) -> Runs:
    """Make the table of an axis that is selected by a slice."""
    try:
        start, stop, step = part.indices(size)
    except (TypeError, ValueError) as error:
        raise SelectionError(f"a slice is not valid for axis {axis} with size {size}: {error}") from error
    length = (stop - start + step - 1) // step if step > 0 else (start - stop - step - 1) // -step
    if length <= 0:
        return Runs(0, (0, 1, 0), size, cut)
    if length == 1:
        step = 1  # it may be larger than any integer of the machine
    return Runs(length, (start, step, length), size, cut)
