"""Iteration over the rows of a carray: all of them, or those where a mask is true."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.bcolz.carrays.append_buffer import BufferedRows
from tegula.bcolz.carrays.properties import CarrayProperties
from tegula.bcolz.errors import KindError, NotImplementedHereError
from tegula.errors import MetadataError
from tegula.tables.queries import rows_at

__all__ = ["CarrayIteration", "RowIterator", "as_items", "limited", "lists_of_rows", "rows_where", "true_positions"]

_ITEMS: Final = 4096  # items of a list, few enough for the processor's cache


class RowIterator:
    """An iterator over the rows of a view that also has the methods of the view, as in bcolz.

    Parameters
    ----------
    rows : iterator
        Yields the rows.
    view : carray
        The view.
    """

    def __init__(self, rows: Iterator[Any], view: Any) -> None:
        self._rows = rows
        self._view = view

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


def as_items(values: npt.NDArray[Any]) -> list[Any]:
    """Return the elements of a 1-d array as Python objects, or the rows of any other array."""
    items: list[Any] = values.tolist() if values.ndim == 1 else [*values]
    return items


def limited(lists: Iterator[list[Any]], limit: int | None, skip: int) -> Iterator[Any]:
    """Iterate over the items of several lists: skip the first `skip`, and yield at most `limit`."""
    items = chain.from_iterable(lists)
    return islice(items, skip, None if limit is None else skip + limit) if skip or limit is not None else items


def lists_of_rows(rows: BufferedRows, start: int, stop: int, step: int) -> Iterator[list[Any]]:
    """Yield the rows of a slice with a positive step, in lists."""
    for first, block in rows.blocks(start, stop):
        selected = block[(start - first) % step :: step]
        for begin in range(0, len(selected), _ITEMS):
            yield as_items(selected[begin : begin + _ITEMS])


def true_positions(mask: Any, length: int, block: int) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the positions at which a mask, an array or a carray, is true; one array for each block that has any."""
    for start in range(0, length, block):
        found = np.flatnonzero(mask[start : start + block])
        if found.size:
            yield found + start


def rows_where(rows: BufferedRows, mask: Any) -> Iterator[npt.NDArray[Any]]:
    """Yield the rows at which a mask is true; one array for each block that has any."""
    array = rows.flushed()
    for positions in true_positions(mask, len(rows), rows.block_length):
        yield rows_at(array, positions)


class CarrayIteration(CarrayProperties):
    """The methods of a carray that iterate over its rows or add them up."""

    _is_view: bool
    _iteration: Iterator[Any] | None

    def sum(self, dtype: Any = None) -> Any:
        """Return the sum of all elements.

        Parameters
        ----------
        dtype : dtype-like, optional
            Data type of the sum; by default the one that NumPy chooses.

        Raises
        ------
        TypeError
            If elements of this data type can't be added.

        Examples
        --------
        >>> from tegula import bcolz
        >>> bcolz.carray([1, 2, 3]).sum()
        np.int64(6)
        """
        if self.dtype.kind in "SUVM":
            raise KindError(f"elements of type {self.dtype} can't be added")
        sums = [block.sum(dtype=dtype) for _, block in self._rows.blocks(0, len(self))]
        return (np.array(sums) if sums else np.empty(0, self.dtype)).sum(dtype=dtype)

    def iter(
        self, start: int = 0, stop: int | None = None, step: int = 1, limit: int | None = None, skip: int = 0
    ) -> Iterator[Any]:
        """Return an iterator over rows.

        Parameters
        ----------
        start, stop, step : int
            The rows, as in a slice; the step must be positive.
        limit, skip : int
            Maximum number of rows, and number of rows to skip first.

        Examples
        --------
        >>> from tegula import bcolz
        >>> [*bcolz.carray([1, 2, 3, 4]).iter(1, step=2)]
        [2, 4]
        """
        if step <= 0:
            raise NotImplementedHereError(f"the step must be positive, not {step}")
        first, last, step = slice(start, stop, step).indices(len(self))
        return limited(lists_of_rows(self._rows, first, last, step), limit, skip)

    def where(self, boolarr: Any, limit: int | None = None, skip: int = 0) -> Iterator[Any]:
        """Return an iterator over the rows of a 1-d carray where a mask is true.

        Parameters
        ----------
        boolarr : ndarray or carray
            A boolean for each row.
        limit, skip : int
            Maximum number of rows, and number of rows to skip first.

        Examples
        --------
        >>> from tegula import bcolz
        >>> c = bcolz.carray([1, 2, 3])
        >>> [*c.where(c[:] > 1)]
        [2, 3]
        """
        if self.ndim > 1:
            raise NotImplementedHereError("where is only for arrays of one axis")
        if getattr(boolarr, "dtype", None) != np.bool_:
            raise MetadataError(f"{boolarr!r:.80} is not a boolean array")
        if boolarr.ndim != 1:
            raise NotImplementedHereError("where takes only masks of one axis")
        if len(boolarr) != len(self):
            raise MetadataError(f"a mask of {len(boolarr)} rows does not fit {len(self)} rows")
        blocks = rows_where(self._rows, boolarr)
        return limited((block.tolist() for block in blocks), limit, skip)

    def wheretrue(self, limit: int | None = None, skip: int = 0) -> Iterator[int]:
        """Return an iterator over the numbers of the rows that are true.

        Parameters
        ----------
        limit, skip : int
            Maximum number of rows, and number of rows to skip first.

        Examples
        --------
        >>> from tegula import bcolz
        >>> [*bcolz.carray([True, False, True]).wheretrue()]
        [0, 2]
        """
        if self.dtype != np.bool_:
            raise MetadataError(f"an array of {self.dtype} is not a boolean array")
        if self.ndim > 1:
            raise NotImplementedHereError("wheretrue is only for arrays of one axis")
        blocks = true_positions(self._array, len(self), self._rows.block_length)
        return limited((block.tolist() for block in blocks), limit, skip)

    def __iter__(self) -> Iterator[Any]:
        return RowIterator(self.iter(), self) if self._is_view else self.iter()

    def __next__(self) -> Any:
        if self._iteration is None:
            self._iteration = self.iter()
        try:
            return next(self._iteration)
        except StopIteration:
            self._iteration = None
            raise
