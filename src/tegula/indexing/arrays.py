"""Axes selected by index arrays: one table for each axis, or a list of points for several axes together."""

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
"""Of a chunk along one axis: its number, what to select of it, where that is in the work buffer, and `whole`."""

Column: TypeAlias = Iterable[Entry]
"""The entries of an axis: a list, or where that would be long an iterable that makes them one after the other."""

LONG: Final = 2**12
"""More rows than this are not kept in memory."""


class Lookup:
    """The table of an axis selected by an index array, for outer products: one row for each chunk touched.

    Attributes
    ----------
    numbers : ndarray of int64
        For each row the chunk's number along the axis, in increasing order.
    bounds : ndarray of int64
        Row ``r`` has the members ``bounds[r]`` to ``bounds[r + 1]`` of `offsets` and `positions`.
    consecutive, whole : ndarray of bool
        For each row whether its offsets are consecutive and increasing, and whether it has every index of the chunk
        that lies within the array.
    offsets : ndarray of int64
        Indices within their chunk, sorted by chunk; those of one chunk are in the order given.
    positions : ndarray of int64 or None
        Index in the work buffer of each offset; ``None`` if it is the offset's own place in `offsets`.
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

    def _rows(self) -> Iterator[tuple[int, int, int, bool, bool]]:
        """Yield ``(number, begin, end, consecutive, whole)`` of each row, as Python's own numbers."""
        for first in range(0, self.numbers.size, LONG):
            part = slice(first, first + LONG)
            bounds = self.bounds[first : first + LONG + 1].tolist()
            columns = self.numbers[part].tolist(), self.consecutive[part].tolist(), self.whole[part].tolist()
            yield from zip(columns[0], bounds, bounds[1:], *columns[1:])

    def column(self, as_slices: bool) -> Column:
        """Return the rows as selections, consecutive offsets as slices where that is asked for."""
        return _column(lambda: self._entries(as_slices), self.nchunks)

    def _entries(self, as_slices: bool) -> Iterator[Entry]:
        for number, begin, end, consecutive, whole in self._rows():
            inner: Any = self.offsets[begin:end]
            if consecutive and as_slices:
                first = int(inner[0])
                inner = slice(first, first + end - begin, 1)
            place = slice(begin, end, 1) if self.positions is None else self.positions[begin:end]
            yield number, inner, place, whole

    def mesh(self, shape: tuple[int, ...], as_slices: bool) -> Column:
        """Return the rows as selections that take part in an open mesh; work positions as slices where asked for."""
        return _column(lambda: self._mesh(shape, as_slices), self.nchunks)

    def _mesh(self, shape: tuple[int, ...], as_slices: bool) -> Iterator[Entry]:
        for number, begin, end, _, whole in self._rows():
            inner = self.offsets[begin:end].reshape(shape)
            place: Any = slice(begin, end, 1)
            if not as_slices:
                place = np.arange(begin, end) if self.positions is None else self.positions[begin:end]
                place = place.reshape(shape)
            yield number, inner, place, whole


class _Again:
    """Entries that are made anew each time they are iterated over."""

    def __init__(self, make: Callable[[], Iterator[Entry]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Entry]:
        return self._make()


def _column(make: Callable[[], Iterator[Entry]], count: int) -> Column:
    return [*make()] if count <= LONG else _Again(make)


class Points:
    """A list of points on some of the axes, grouped by chunk.

    Attributes
    ----------
    axes : tuple of int
        The array axes that the points have coordinates on.
    numbers : ndarray of int64, (groups, axes)
        Grid position of each group's chunk along those axes.
    extents : ndarray of int64, (groups, axes)
        Length of each group's chunk along those axes, clipped to the array.
    bounds : ndarray of int64, (groups + 1,)
        Group ``g`` has the points ``bounds[g]`` to ``bounds[g + 1]``.
    offsets : tuple of ndarray of int64
        For each of the axes, the points' indices within their chunk; points of a group are in the order given.
    positions : ndarray of int64 or None
        Index of each point along its dimension of the work buffer; ``None`` if it is the point's own place.
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

    def groups(self) -> Iterator[tuple[list[int], list[IntArray], Any, bool]]:
        """Yield for each chunk its numbers, the offsets along each axis, the place in the work buffer, and `whole`."""
        for first in range(0, len(self.numbers), LONG):
            part = slice(first, first + LONG)
            bounds = self.bounds[first : first + LONG + 1].tolist()
            each_group = zip(self.numbers[part].tolist(), self.extents[part].tolist(), bounds, bounds[1:])
            for numbers, extents, begin, end in each_group:
                offsets = [each[begin:end] for each in self.offsets]
                place = slice(begin, end, 1) if self.positions is None else self.positions[begin:end]
                yield numbers, offsets, place, _fills(offsets, extents)


def _fills(offsets: list[IntArray], extents: list[int]) -> bool:
    """Return whether the points hit every place of a box of `extents`."""
    volume = prod(extents)
    if volume == 1 or offsets[0].size < volume:
        return volume == 1
    flat = offsets[0]
    for each, extent in zip(offsets[1:], extents[1:]):
        flat = flat * extent + each
    return bool(np.unique(flat).size == volume)


def lookup(index: IntArray, size: int, cut: ChunkAxis) -> Lookup:
    """Make the table of an axis that is selected by an array of indices, each within 0 and `size`."""
    if index.size == 0:
        nothing = np.zeros(0, bool)
        return Lookup(index, np.zeros(1, np.int64), (nothing, nothing), index, None)
    numbers = cut.locate(index)
    order, bounds = _grouping([numbers])
    if order is not None:
        index, numbers = index[order], numbers[order]
    begins, ends = bounds[:-1], bounds[1:]
    touched = numbers[begins]
    starts = cut.start(touched)
    extents = np.minimum(cut.start(touched + 1), size) - starts
    counts = ends - begins
    breaks = np.diff(index, prepend=0) != 1
    breaks[begins] = False
    consecutive = np.add.reduceat(breaks, begins, dtype=np.int64) == 0
    whole = consecutive & (counts == extents)
    if (~consecutive & (counts >= extents)).any():
        fresh = np.diff(np.sort(index), prepend=-1) != 0
        whole = np.add.reduceat(fresh, begins, dtype=np.int64) == extents
    offsets = index - np.repeat(starts, counts)
    return Lookup(touched, bounds, (consecutive, whole), offsets, order)


def points(
    axes: tuple[int, ...], indices: list[IntArray], sizes: tuple[int, ...], cuts: tuple[ChunkAxis, ...]
) -> Points:
    """Group points by chunk.

    Parameters
    ----------
    axes : tuple of int
        The array axes that the points have coordinates on.
    indices : list of ndarray of int64
        For each of them the points' indices, each within 0 and the axis' size.
    sizes, cuts : tuple
        Size and grid of each of them.
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
    numbers : list of ndarray of int64
        For each axis the numbers of the points' chunks; there is at least one point.

    Returns
    -------
    order : ndarray of int64 or None
        Where the points stand after sorting, those of one chunk in the order given; ``None`` if nothing moves.
    bounds : ndarray of int64
        Where the chunks begin after sorting, and the number of points.
    """
    key = np.zeros_like(numbers[0])
    total = 1
    for number in numbers:
        low = int(number.min())
        span = int(number.max()) - low + 1
        total *= span
        if total >= 1 << 63:
            # Only the order counts: ranks are below the number of points, and so their pairs fit.
            ranks = [np.unique(each, return_inverse=True)[1].reshape(-1) for each in (key, number)]
            span = int(ranks[1].max()) + 1
            total = (int(ranks[0].max()) + 1) * span
            key = ranks[0] * span + ranks[1]
        else:
            key = key * span + (number - low)
    order = None
    if (key[1:] < key[:-1]).any():
        # NumPy sorts small integers by radix, in linear time.
        order = np.argsort(key.astype(np.uint16) if total <= 1 << 16 else key, kind="stable")
        key = key[order]
    return order, np.concatenate(([0], np.flatnonzero(np.diff(key)) + 1, [key.size]))
