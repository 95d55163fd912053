"""Chunk grids: the division of an array into chunks, axis by axis.

A grid is a tuple of axes: every grid in use (regular, Zarr v3 core, section "Chunk grids"; rectilinear, Zarr extensions
registry) is a product of one-dimensional divisions. An axis answers three questions: which chunk holds an index, where
a chunk starts, and how long it is. Lengths are those of the stored chunk, which may extend beyond the edge of the
array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, product, starmap
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.errors import MetadataError
from tegula.runtime.deferred import Later
from tegula.runtime.frozen import Frozen, field

if TYPE_CHECKING:
    import bisect

    import numpy.typing as npt
else:
    bisect = Later("bisect")

__all__ = [
    "ChunkAxis", "ChunkGrid", "RegularAxis", "VaryingAxis", "as_slice", "cells", "chunk_grid", "joined_grid",
    "regular_grid",
]  # fmt: skip

Coords = tuple[int, ...]
_SHORT = 4096  # of so many numbers, `product` may hold each in memory


def cells(box: Sequence[tuple[int, int]]) -> Iterator[Coords]:
    """Yield the grid coordinates in a box, the last axis fastest, in constant memory.

    Examples
    --------
    >>> [*cells([(0, 2), (5, 7)])], next(cells([(0, 2**62), (1, 2**62)]))
    ([(0, 5), (0, 6), (1, 5), (1, 6)], (0, 1))
    """
    if max([stop - start for start, stop in box], default=0) <= _SHORT:
        return product(*starmap(range, box))
    return _walk(box)


def _walk(box: Sequence[tuple[int, int]]) -> Iterator[Coords]:
    if not box:
        yield ()
        return
    *above, (start, stop) = box
    for outer in _walk(above):
        for number in range(start, stop):
            yield *outer, number


class RegularAxis(Frozen):
    """An axis divided into chunks of equal length.

    Parameters
    ----------
    chunk : int
        Length of each chunk, at least 1.

    Raises
    ------
    MetadataError
        If the length is less than 1.

    Examples
    --------
    >>> axis = RegularAxis(4)
    >>> axis.count(10), axis.locate(9), axis.start(2), axis.length(2)
    (3, 2, 8, 4)
    """

    chunk: int

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise MetadataError(f"the length of a chunk must be at least 1, not {self.chunk}", field="chunks")

    def count(self, size: int) -> int:
        """Return how many chunks an axis of `size` indices has."""
        return -(-size // self.chunk)  # rounded up

    def locate(self, index: Any) -> Any:
        """Return the number of the chunk that holds each index (an int or an integer array)."""
        return index // self.chunk

    def start(self, number: Any) -> Any:
        """Return the first index of chunk `number` (an int or an integer array)."""
        return number * self.chunk

    def length(self, number: int) -> int:
        """Return the stored length of chunk `number`."""
        return self.chunk

    def longest(self) -> int:
        """Return the length of the longest chunk."""
        return self.chunk


class VaryingAxis(Frozen):
    """An axis divided into chunks of individual lengths.

    Parameters
    ----------
    edges : tuple of int
        Length of each chunk, each at least 1.

    Raises
    ------
    MetadataError
        If a length is less than 1, or the sum of all is 2**63 or more.

    Examples
    --------
    >>> axis = VaryingAxis((3, 2, 5))
    >>> axis.count(10), axis.locate(4), axis.start(2), axis.length(2)
    (3, 1, 5, 5)
    """

    edges: tuple[int, ...]
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _offsets: npt.NDArray[np.int64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if any(edge < 1 for edge in self.edges):
            raise MetadataError("the length of every chunk must be at least 1", field="chunks")
        starts = tuple(accumulate(self.edges, initial=0))
        if starts[-1] >= 2**63:
            raise MetadataError("the chunks of an axis must cover less than 2**63 indices", field="chunks")
        # kept twice: bisection in a tuple is faster for a single index, and an array is needed for arrays of indices
        object.__setattr__(self, "_starts", starts)
        object.__setattr__(self, "_offsets", np.array(starts, np.int64))

    @property
    def extent(self) -> int:
        """Total length of the chunks: the largest size that the axis can have."""
        return self._starts[-1]

    def count(self, size: int) -> int:
        """Return how many chunks an axis of `size` indices has."""
        return bisect.bisect_left(self._starts, size)

    def locate(self, index: Any) -> Any:
        """Return the number of the chunk that holds each index (an int or an integer array)."""
        if isinstance(index, np.ndarray):
            return np.searchsorted(self._offsets, index, "right") - 1
        return bisect.bisect_right(self._starts, index) - 1

    def start(self, number: Any) -> Any:
        """Return the first index of chunk `number` (an int or an integer array)."""
        return self._offsets[number] if isinstance(number, np.ndarray) else self._starts[number]

    def length(self, number: int) -> int:
        """Return the stored length of chunk `number`."""
        return self.edges[number]

    def longest(self) -> int:
        """Return the length of the longest chunk."""
        return max(self.edges, default=1)


ChunkAxis = RegularAxis | VaryingAxis


class ChunkGrid(Frozen):
    """A product of chunk axes, one for each dimension.

    Parameters
    ----------
    axes : tuple of RegularAxis or VaryingAxis
        The division of each dimension.

    Examples
    --------
    >>> grid = regular_grid((4, 3))
    >>> grid.counts((10, 6)), grid.chunk_shape((2, 1)), grid.is_regular
    ((3, 2), (4, 3), True)
    >>> ChunkGrid((RegularAxis(4), VaryingAxis((3, 1)))).lengths
    (4, (3, 1))
    """

    axes: tuple[ChunkAxis, ...]
    one_shape: tuple[int, ...] | None = field(init=False, repr=False, compare=False)
    """The shape of every chunk of a regular grid; ``None`` for any other grid."""

    def __post_init__(self) -> None:
        regular = all(isinstance(axis, RegularAxis) for axis in self.axes)
        object.__setattr__(self, "one_shape", tuple(axis.longest() for axis in self.axes) if regular else None)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.axes)

    @property
    def is_regular(self) -> bool:
        """True if all chunks have the same shape."""
        return self.one_shape is not None

    @property
    def lengths(self) -> tuple[Any, ...]:
        """Length of the chunks along each axis; a tuple of their lengths where they differ."""
        return tuple(axis.edges if isinstance(axis, VaryingAxis) else axis.chunk for axis in self.axes)

    def counts(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the number of chunks along each axis of an array of `shape`."""
        return tuple(axis.count(size) for axis, size in zip(self.axes, shape))

    def chunk_shape(self, coords: Sequence[int]) -> tuple[int, ...]:
        """Return the stored shape of the chunk at grid coordinates `coords`, including the part beyond the edge."""
        if self.one_shape is not None:
            return self.one_shape
        return tuple(axis.length(number) for axis, number in zip(self.axes, coords))

    def region(self, coords: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
        """Return the region of an array of `shape` that the chunk at grid coordinates `coords` holds.

        Examples
        --------
        >>> regular_grid((4, 3)).region((1, 0), (6, 3))
        (slice(4, 6, None), slice(0, 3, None))
        """
        starts = [axis.start(number) for axis, number in zip(self.axes, coords)]
        return tuple(
            slice(start, min(start + axis.length(number), size))
            for axis, number, start, size in zip(self.axes, coords, starts, shape)
        )

    def regions(self, shape: Sequence[int]) -> Iterator[tuple[slice, ...]]:
        """Yield the regions of all chunks of an array of `shape`, in C order."""
        for coords in cells([(0, count) for count in self.counts(shape)]):
            yield self.region(coords, shape)

    def touched(self, box: Sequence[slice]) -> tuple[tuple[int, int], ...]:
        """Return for each axis the number of the first chunk that a box touches, and that after the last one.

        Examples
        --------
        >>> regular_grid((4, 3)).touched((slice(5, 9), slice(3, 3)))
        ((1, 3), (0, 0))
        """
        return tuple(
            (int(axis.locate(part.start)), axis.count(part.stop)) if part.stop > part.start else (0, 0)
            for axis, part in zip(self.axes, box)
        )

    def largest_chunk(self) -> tuple[int, ...]:
        """Return the elementwise largest chunk shape."""
        if self.one_shape is not None:
            return self.one_shape
        return tuple(axis.longest() for axis in self.axes)


def as_slice(indices: range) -> slice:
    """Return the slice that selects the indices of a range.

    Examples
    --------
    >>> as_slice(range(1, 7, 2)), as_slice(range(4, -1, -2)), as_slice(range(3, 3))
    (slice(1, 7, 2), slice(4, None, -2), slice(0, 0, 1))
    """
    if not indices:
        return slice(0, 0, 1)
    return slice(indices.start, None if indices.stop < 0 else indices.stop, indices.step)


def regular_grid(chunk_shape: Sequence[int]) -> ChunkGrid:
    """Make a grid of chunks of one shape (Zarr v3 core, section "Regular grids").

    Parameters
    ----------
    chunk_shape : sequence of int
        Length of a chunk along each axis, each at least 1.

    Raises
    ------
    MetadataError
        If a length is not positive.

    Examples
    --------
    >>> regular_grid((2, 5)).largest_chunk()
    (2, 5)
    """
    return ChunkGrid(tuple(RegularAxis(chunk) for chunk in chunk_shape))


def joined_grid(unit: Sequence[int], shape: Sequence[int], most: int) -> ChunkGrid:
    """Return a grid of boxes of as many units in a row as fit: up to `most` elements, but at least one unit.

    Examples
    --------
    >>> joined_grid((2, 5), (10, 10), 40).largest_chunk()
    (4, 10)
    """
    joined = [*unit]
    for axis in reversed(range(len(joined))):
        room = max(1, most // max(1, prod(joined)))
        joined[axis] *= max(1, min(room, -(-shape[axis] // joined[axis])))
    return regular_grid(joined)


def chunk_grid(chunks: Sequence[int | Sequence[int]]) -> ChunkGrid:
    """Make a grid from one chunk length, or a list of chunk lengths, for each axis.

    Parameters
    ----------
    chunks : sequence of int or sequence of int
        For each axis the length of all its chunks, or the length of each of its chunks.

    Raises
    ------
    MetadataError
        If a length is not positive.

    Examples
    --------
    >>> chunk_grid((4, [3, 2, 5])).chunk_shape((0, 2))
    (4, 5)
    """
    return ChunkGrid(
        tuple(RegularAxis(c) if isinstance(c, int) else VaryingAxis(tuple(int(e) for e in c)) for c in chunks)
    )
