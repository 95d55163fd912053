"""Selections by index arrays: a table for each axis, or a list of points for several axes together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tegula.metadata.chunk_grids import ChunkAxis

__all__ = ["LONG", "Column", "Entry", "IntArray", "Lookup", "Points", "lookup", "points"]

IntArray: TypeAlias = npt.NDArray[np.int64]

Entry: TypeAlias = tuple[int, Any, Any, bool]
"""For a chunk along one axis: its number, the selections within the chunk and in the work buffer, and `covers`."""

Column: TypeAlias = Iterable[Entry]
"""The entries of an axis: a list, or a reiterable object that computes them if there are more than `LONG`."""

LONG: Final = 2**12
"""If a table has more rows than this, they are computed again in each iteration instead of being stored."""


class Lookup:
    """The table of an axis selected by an index array, for outer products: one row for each chunk.

    Attributes
    ----------
    numbers : ndarray of int64, (rows,)
        Number of each chunk along the axis, in increasing order.
    bounds : ndarray of int64, (rows + 1,)
        Row ``r`` has the elements ``bounds[r]`` to ``bounds[r + 1]`` of `offsets` and `positions`.
    consecutive, whole : ndarray of bool, (rows,)
        Whether the offsets of a row are consecutive and increasing, and whether they include every index of the chunk
        that lies within the array.
    offsets : ndarray of int64, (indices,)
        Indices within their chunk, sorted by chunk; those of one chunk are in the order given.
    positions : ndarray of int64, (indices,), or None
        Index of each offset in the work buffer; ``None`` if that is its index in `offsets`.
    """

    __slots__ = ("bounds", "consecutive", "numbers", "offsets", "positions", "whole")

    def __init__(
        self,
        numbers: IntArray,
        bounds: IntArray,
        traits: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]],
        offsets: IntArray,
        positions: IntArray | None,
    ) -> None:
        self.numbers = numbers
        self.bounds = bounds
        self.consecutive, self.whole = traits
        self.offsets = offsets
        self.positions = positions

    @property
    def nchunks(self) -> int:
        """Number of rows."""
        return self.numbers.size

    @property
    def length(self) -> int:
        """Length of the axis in the work buffer."""
        return self.offsets.size

    def end(self, cut: ChunkAxis) -> int:
        """Return the index after the highest one, by the axis's division into chunks; 0 if there is none."""
        return _end(self.numbers, self.bounds, self.offsets, cut)

    def _rows(self) -> Iterator[tuple[int, int, int, bool, bool]]:
        """Yield ``(number, begin, end, consecutive, covers)`` of each row, as Python ints and bools."""
        for first in range(0, self.numbers.size, LONG):
            part = slice(first, first + LONG)
            bounds = self.bounds[first : first + LONG + 1].tolist()
            columns = self.numbers[part].tolist(), self.consecutive[part].tolist(), self.whole[part].tolist()
            yield from zip(columns[0], bounds, bounds[1:], *columns[1:])

    def column(self, as_slices: bool) -> Column:
        """Return the rows as selections; with `as_slices`, consecutive offsets become slices."""
        return _column(lambda: self._entries(as_slices), self.nchunks)

    def _entries(self, as_slices: bool) -> Iterator[Entry]:
        for number, begin, end, consecutive, covers in self._rows():
            inner: Any = self.offsets[begin:end]
            if consecutive and as_slices:
                first = int(inner[0])
                inner = slice(first, first + end - begin, 1)
            work = slice(begin, end, 1) if self.positions is None else self.positions[begin:end]
            yield number, inner, work, covers

    def mesh(self, shape: tuple[int, ...], as_slices: bool) -> Column:
        """Return the rows as selections of `shape` for an open mesh; `as_slices` makes work positions slices."""
        return _column(lambda: self._mesh(shape, as_slices), self.nchunks)

    def _mesh(self, shape: tuple[int, ...], as_slices: bool) -> Iterator[Entry]:
        for number, begin, end, _, covers in self._rows():
            inner = self.offsets[begin:end].reshape(shape)
            work: Any = slice(begin, end, 1)
            if not as_slices:
                work = np.arange(begin, end) if self.positions is None else self.positions[begin:end]
                work = work.reshape(shape)
            yield number, inner, work, covers


class _Recomputed:
    """Entries that each iteration computes again."""

    def __init__(self, make: Callable[[], Iterator[Entry]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Entry]:
        return self._make()


def _column(make: Callable[[], Iterator[Entry]], count: int) -> Column:
    return [*make()] if count <= LONG else _Recomputed(make)


class Points:
    """A list of points on some of the axes, grouped by chunk.

    Attributes
    ----------
    axes : tuple of int
        The array axes on which the points have coordinates.
    numbers : ndarray of int64, (groups, axes)
        Grid coordinates of the chunk of each group, along those axes.
    extents : ndarray of int64, (groups, axes)
        Shape of the chunk of each group along those axes, clipped to the array.
    bounds : ndarray of int64, (groups + 1,)
        Group ``g`` has the points ``bounds[g]`` to ``bounds[g + 1]``.
    offsets : tuple of ndarray of int64, (points,)
        For each of the axes, the indices of the points within their chunk; points of a group are in the order given.
    positions : ndarray of int64, (points,), or None
        Index of each point in the work buffer; ``None`` if that is its index in `offsets`.
    """

    __slots__ = ("axes", "bounds", "extents", "numbers", "offsets", "positions")

    def __init__(
        self,
        axes: tuple[int, ...],
        numbers: IntArray,
        extents: IntArray,
        bounds: IntArray,
        *,
        offsets: tuple[IntArray, ...],
        positions: IntArray | None,
    ) -> None:
        self.axes = axes
        self.numbers = numbers
        self.extents = extents
        self.bounds = bounds
        self.offsets = offsets
        self.positions = positions

    def end(self, column: int, cut: ChunkAxis) -> int:
        """Return the index after the highest one along one of the axes, given its division into chunks."""
        return _end(self.numbers[:, column], self.bounds, self.offsets[column], cut)

    def groups(self) -> Iterator[tuple[list[int], list[IntArray], Any, bool]]:
        """Yield for each chunk its grid coordinates, the offsets along each axis, the work positions, and `covers`."""
        for first in range(0, len(self.numbers), LONG):
            part = slice(first, first + LONG)
            bounds = self.bounds[first : first + LONG + 1].tolist()
            each_group = zip(self.numbers[part].tolist(), self.extents[part].tolist(), bounds, bounds[1:])
            for numbers, extents, begin, end in each_group:
                offsets = [each[begin:end] for each in self.offsets]
                work = slice(begin, end, 1) if self.positions is None else self.positions[begin:end]
                yield numbers, offsets, work, _fills(offsets, extents)


def _end(numbers: IntArray, bounds: IntArray, offsets: IntArray, cut: ChunkAxis) -> int:
    """Return the index after the highest one of some chunks, given the offsets in each chunk; 0 if there is none."""
    if not offsets.size:
        return 0
    return int((cut.start(numbers) + np.maximum.reduceat(offsets, bounds[:-1])).max()) + 1


def _fills(offsets: list[IntArray], extents: list[int]) -> bool:
    """Return whether the points hit every element of a box of shape `extents`."""
    volume = prod(extents)
    if volume == 1 or offsets[0].size < volume:
        return volume == 1
    # number the elements of the box in C order, and count the selected ones
    flat = offsets[0]
    for each, extent in zip(offsets[1:], extents[1:]):
        flat = flat * extent + each
    return bool(np.unique(flat).size == volume)


def lookup(index: IntArray, size: int, cut: ChunkAxis) -> Lookup:
    """Return the table of an axis selected by an index array.

    Parameters
    ----------
    index : ndarray of int64, one-dimensional
        The indices, each from 0 to ``size - 1``.
    size : int
        Length of the axis.
    cut : ChunkAxis
        Its division into chunks.
    """
    if index.size == 0:
        nothing = np.zeros(0, bool)
        return Lookup(index, np.zeros(1, np.int64), (nothing, nothing), index, None)

    # group the indices by chunk
    numbers = cut.locate(index)
    order, bounds = _grouping([numbers])
    if order is not None:
        index, numbers = index[order], numbers[order]
    begins, ends = bounds[:-1], bounds[1:]
    touched = numbers[begins]
    starts = cut.start(touched)
    extents = np.minimum(cut.start(touched + 1), size) - starts
    counts = ends - begins

    # consecutive: each index of a row is 1 more than the one before it
    breaks = np.diff(index, prepend=0) != 1
    breaks[begins] = False
    consecutive = np.add.reduceat(breaks, begins, dtype=np.int64) == 0

    # covers: as many consecutive indices as the chunk has, or as many different ones
    covers = consecutive & (counts == extents)
    if (~consecutive & (counts >= extents)).any():
        fresh = np.diff(np.sort(index), prepend=-1) != 0
        covers = np.add.reduceat(fresh, begins, dtype=np.int64) == extents
    offsets = index - np.repeat(starts, counts)
    return Lookup(touched, bounds, (consecutive, covers), offsets, order)


def points(
    axes: tuple[int, ...], indices: list[IntArray], sizes: tuple[int, ...], cuts: tuple[ChunkAxis, ...]
) -> Points:
    """Group points by chunk.

    Parameters
    ----------
    axes : tuple of int
        The array axes on which the points have coordinates.
    indices : list of ndarray of int64
        For each of these axes the indices of the points, from 0 to the length of the axis.
    sizes, cuts : tuple
        Length and division of each of these axes.
    """
    numbers = [cut.locate(index) for cut, index in zip(cuts, indices)]
    offsets = [index - cut.start(number) for cut, index, number in zip(cuts, indices, numbers)]
    count = indices[0].size
    if count == 0:
        nothing = np.zeros((0, len(axes)), np.int64)
        return Points(axes, nothing, nothing, np.zeros(1, np.int64), offsets=tuple(offsets), positions=None)
    order, bounds = _grouping(numbers)
    if order is not None:
        numbers = [number[order] for number in numbers]
        offsets = [offset[order] for offset in offsets]
    touched = [number[bounds[:-1]] for number in numbers]
    extents = [
        np.minimum(cut.start(number + 1), size) - cut.start(number) for cut, number, size in zip(cuts, touched, sizes)
    ]
    return Points(axes, np.stack(touched, 1), np.stack(extents, 1), bounds, offsets=tuple(offsets), positions=order)


def _grouping(numbers: list[IntArray]) -> tuple[IntArray | None, IntArray]:
    """Sort points by chunk.

    Parameters
    ----------
    numbers : list of ndarray of int64, (points,)
        For each axis the number of the chunk of each point; there is at least one point.

    Returns
    -------
    order : ndarray of int64, (points,), or None
        The indices that sort the points by chunk, stably; ``None`` if they are sorted.
    bounds : ndarray of int64, (chunks + 1,)
        Index of the first point of each chunk after sorting, and the number of points.
    """
    # one number for each chunk, in C order of the grid
    key = np.zeros_like(numbers[0])
    total = 1
    for number in numbers:
        low = int(number.min())
        span = int(number.max()) - low + 1
        total *= span
        if total >= 1 << 63:
            # the numbers would overflow; their ranks have the same order, and are less than the number of points
            ranks = [np.unique(each, return_inverse=True)[1].reshape(-1) for each in (key, number)]
            span = int(ranks[1].max()) + 1
            total = (int(ranks[0].max()) + 1) * span
            key = ranks[0] * span + ranks[1]
        else:
            key = key * span + (number - low)

    # sort by them; NumPy sorts 16-bit integers by radix, in linear time
    order = None
    if (key[1:] < key[:-1]).any():
        order = np.argsort(key.astype(np.uint16) if total <= 1 << 16 else key, kind="stable")
        key = key[order]
    return order, np.concatenate(([0], np.flatnonzero(np.diff(key)) + 1, [key.size]))
