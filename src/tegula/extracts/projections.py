"""Projections: the greatest values along an axis, block by block."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.arrays.chunk_regions import indices_of, selection_of
from tegula.errors import SelectionError, UnsupportedError

__all__ = ["Projection"]

_BLOCK_BYTES: Final = 2**23  # read at once, beside the greatest values so far


class Projection:
    """The greatest elements of an array along one axis, as an array without that axis.

    Elements are compared as they are decoded. Missing elements are left out, unless all along the axis are missing.

    Parameters
    ----------
    array : Array
        An array of real numbers, dates or booleans.
    through : int
        Number of the axis.
    along : range
        The indices along it.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.array([[3, 1], [2, 5]])
    >>> top = Projection(a, 0, range(2))
    >>> top.shape, top[...,]
    ((2,), array([3, 5]))
    """

    def __init__(self, array: Array, through: int, along: range) -> None:
        if array.dtype.kind not in "biufmM":
            raise UnsupportedError(f"elements of the type {array.dtype} have no greatest one", path=f"/{array.path}")
        if not along:
            raise SelectionError("of no elements there is no greatest one")
        self._array = array
        self.through = through
        self._along = along
        self.conventions = array.conventions
        self.dtype = array.dtype
        self.shape = self._without(array.shape)
        self.chunks = self._without(array.chunks)
        self.ndim = array.ndim - 1

    def axes_of(self, axes: tuple[int | range, ...]) -> tuple[int | range, ...]:
        """Return the indices of the array itself that are read for those of the projection."""
        return (*axes[: self.through], self._along, *axes[self.through :])

    def _without(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*values[: self.through], *values[self.through + 1 :])

    def __getitem__(self, selection: tuple[Any, ...]) -> npt.NDArray[Any]:
        # ints, which windows read as slices, do not come here
        axes = indices_of(selection, self.shape)
        parts = list(selection_of(self.axes_of(axes)))
        counts = [len(axis) for axis in axes if isinstance(axis, range)]
        chunk = self._array.chunks[self.through]
        # whole chunks, so that none is decoded twice, if memory allows
        count = max(1, _BLOCK_BYTES // max(1, prod(counts) * self.dtype.itemsize))
        depth = chunk if isinstance(chunk, int) else max(chunk)
        count -= count % depth if count > depth else 0
        greatest: npt.NDArray[Any] | None = None
        for first in range(0, len(self._along), count):
            parts[self.through] = selection_of((self._along[first : first + count],))[0]
            found = self._of(np.asarray(self._array[tuple(parts)]), self.through)
            greatest = found if greatest is None else self._of(np.stack([greatest, found]), 0)
        assert greatest is not None
        return greatest

    def _of(self, values: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
        """Return the greatest of some stored elements along an axis."""
        way = self.conventions
        values = values.view(way.read_as) if way.read_as != way.stored else values
        choose = np.fmin if (way.scale or 1) < 0 else np.fmax
        missing = way.missing(values) if way.masks else None
        if missing is None:
            found = choose.reduce(values, axis)
        else:
            # what stands for least takes the place of what is missing
            if values.dtype.kind == "f":
                least: Any = np.nan
            elif values.dtype.kind in "mM":
                least = np.array("NaT", values.dtype)
            else:
                ends = np.iinfo(values.dtype)
                least = ends.max if choose is np.fmin else ends.min
            found = choose.reduce(np.where(missing, values.dtype.type(least), values), axis)
            found = np.where(missing.all(axis), way.masks[0], found)
        return np.asarray(found, values.dtype).view(way.stored)
