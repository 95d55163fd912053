"""Rows of a table: chosen, gathered from its columns, and handed out one by one or in blocks."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import prod
from types import FrameType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.bcolz.columns import Columns
from tegula.bcolz.errors import NotImplementedHereError
from tegula.bcolz.evaluation import evaluate, mask_of, scope_of_table
from tegula.bcolz.iteration import as_items
from tegula.bcolz.parameters import checked_flavor, defaults
from tegula.chunking import whole_chunks
from tegula.errors import MetadataError, SelectionError
from tegula.queries import chosen_rows, is_sparse, rows_at

__all__ = ["Queries", "checked_names", "gathered", "row_dtype", "row_numbers", "rows_of_slice", "take"]

ROW_NUMBER: Final = "nrow__"
"""The name that stands for the number of the row among the columns that are asked for."""

_NAMED: Any = namedtuple  # mypy knows it with literal names only
_ROWS: Final = 2**16
_BYTES: Final = 2**24
"""How many rows, and bytes of them, become Python objects at once."""
_WINDOW: Final = 2**20
"""Bytes of a column that are read at once, in whole chunks."""

Rows = npt.NDArray[np.intp] | range


def checked_names(names: Any, known: Sequence[str]) -> list[str]:
    """Return the names of columns that are asked for: all of them, a list of names, or names in one text."""
    if names is None:
        return [*known]
    if isinstance(names, (str, bytes)):
        text = names.decode() if isinstance(names, bytes) else names
        names = re.split(r"[\s,]+", text.strip(" ,"))
    if not isinstance(names, (list, tuple)):
        raise MetadataError(f"outcols must be a list or a text of names, not {names!r:.80}", field="outcols")
    unknown = [name for name in names if name not in known and name != ROW_NUMBER]
    if unknown:
        raise MetadataError(f"there is no column {unknown[0]!r:.80}", field="outcols")
    return [str(name) for name in names]


def rows_of_slice(key: slice, length: int) -> range:
    """Return the numbers of the rows in a slice."""
    if key.step is not None and key.step <= 0:
        raise NotImplementedHereError(f"the step of a slice must be positive, not {key.step}")
    return range(*key.indices(length))


def row_numbers(key: Any, length: int) -> npt.NDArray[np.intp]:
    """Return the numbers of the rows in a list, an array or a mask; none is negative."""
    if isinstance(key, list):
        try:
            key = np.array(key, np.intp)
        except (TypeError, ValueError, OverflowError) as error:
            raise SelectionError(f"{key!r:.80} are no numbers of rows") from error
    if getattr(key, "dtype", None) is None:
        raise NotImplementedHereError(f"{key!r:.80} can't select rows of a table")
    return np.asarray(chosen_rows(np.asarray(key), length))


def row_dtype(columns: Mapping[str, Any], names: Iterable[str]) -> np.dtype[Any]:
    """Return the data type of rows that consist of the named columns."""
    return np.dtype(
        [
            (name, np.dtype(np.intp)) if name == ROW_NUMBER else (name, columns[name].dtype, columns[name].shape[1:])
            for name in names
        ]
    )


def chosen(mask: npt.NDArray[np.bool_], limit: int | None, skip: int) -> npt.NDArray[np.intp]:
    """Return the numbers of the rows where a mask is true, but for the first `skip`, and at most `limit`."""
    rows = np.flatnonzero(mask)
    return rows[skip:] if limit is None else rows[skip : skip + limit]


def take(column: Any, rows: Rows) -> npt.NDArray[Any]:
    """Return the elements of a column in some rows, given by ascending numbers."""
    if isinstance(rows, range):
        return np.asarray(column[rows.start : rows.stop : rows.step])
    if is_sparse(rows):
        return np.asarray(column[rows])
    out = np.empty((len(rows), *column.shape[1:]), column.dtype)
    width = whole_chunks(column.chunklen, column.dtype.itemsize * prod(column.shape[1:]), _WINDOW)
    start = 0
    while start < len(rows):
        first = int(rows[start])
        stop = int(np.searchsorted(rows, (first // width + 1) * width))
        out[start:stop] = rows_at(column, rows[start:stop])
        start = stop
    return out


def gathered(columns: Mapping[str, Any], names: Sequence[str], rows: Rows) -> npt.NDArray[Any]:
    """Return rows as a structured array."""
    out = np.empty(len(rows), row_dtype(columns, names))
    for name in names:
        out[name] = rows if name == ROW_NUMBER else take(columns[name], rows)
    return out


def blocks_of_rows(
    columns: Mapping[str, Any], names: Sequence[str], rows: Rows, size: int
) -> Iterator[npt.NDArray[Any]]:
    """Yield rows as structured arrays of `size` elements."""
    return (gathered(columns, names, rows[start : start + size]) for start in range(0, len(rows), size))


def iterate(columns: Mapping[str, Any], names: Sequence[str], rows: Rows, flavor: Any) -> Iterator[Any]:
    """Iterate over rows: named tuples, tuples, or arrays of one row."""
    size = max(1, min(_ROWS, _BYTES // max(1, row_dtype(columns, names).itemsize)))
    parts = (rows[start : start + size] for start in range(0, len(rows), size))
    tuples = chain.from_iterable(zip(*(_items(columns, name, part) for name in names)) for part in parts)
    if flavor is namedtuple or flavor == "namedtuple":
        return map(partial(tuple.__new__, _NAMED("row", names, rename=True)), tuples)
    if flavor is np.ndarray or flavor == "ndarray":
        dtype = row_dtype(columns, names)
        return (np.array([values], dtype) for values in tuples)
    return tuples


def _items(columns: Mapping[str, Any], name: str, rows: Rows) -> Sequence[Any]:
    """Return the elements of a column in some rows as Python's values, or as arrays if they have dimensions."""
    if name == ROW_NUMBER:
        return rows if isinstance(rows, range) else rows.tolist()
    items: Sequence[Any] = as_items(take(columns[name], rows))
    return items


class Queries(ABC):
    """What can be asked of a ctable. Names in conditions are those of columns, or of variables of the caller."""

    cols: Columns

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return self.cols.names

    @property
    def len(self) -> int:
        """The number of rows: those of the shortest column, should columns differ."""
        return self.cols.length

    def __iter__(self) -> Iterator[Any]:
        return self.iter()

    def iter(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        outcols: Any = None,
        limit: int | None = None,
        skip: int = 0,
        out_flavor: Any = namedtuple,
    ) -> Iterator[Any]:
        """Iterate over rows.

        Parameters
        ----------
        start, stop, step : int
            Which rows, as in a slice; `step` is positive.
        outcols : list of str or str, optional
            The columns to give; ``nrow__`` among them is the number of the row.
        limit : int, optional
            How many rows to give at most.
        skip : int
            How many rows to leave out first.
        out_flavor : {namedtuple, tuple, numpy.ndarray}
            What a row is given as.

        Examples
        --------
        >>> from tegula import bcolz
        >>> t = bcolz.ctable([[1, 2, 3]], names=["a"])
        >>> [(row.nrow__, row.a) for row in t.iter(1, outcols="nrow__, a")]
        [(1, 2), (2, 3)]
        """
        names = checked_names(outcols, self.names)
        if step <= 0:
            raise NotImplementedHereError("step must be positive")
        rows = range(*slice(start, stop, step).indices(self.len))[skip:]
        return iterate(self.cols, names, rows if limit is None else rows[:limit], out_flavor)

    def where(
        self,
        expression: Any,
        outcols: Any = None,
        limit: int | None = None,
        skip: int = 0,
        out_flavor: Any = namedtuple,
        user_dict: Mapping[str, Any] | None = None,
        vm: str | None = None,
    ) -> Iterator[Any]:
        """Iterate over the rows that fulfil a condition.

        Parameters
        ----------
        expression : str, carray or ndarray
            An expression of columns and of variables of the caller, or a boolean for each row.
        outcols, limit, skip, out_flavor
            As for `iter`.
        user_dict : mapping, optional
            More variables by name.
        vm : {"numexpr", "python"}, optional
            What computes the expression.

        Examples
        --------
        >>> from tegula import bcolz
        >>> t = bcolz.ctable([[1, 2, 3], [4.0, 5.0, 6.0]], names=["a", "b"])
        >>> least = 2
        >>> [row.b for row in t.where("a >= least")]
        [5.0, 6.0]
        """
        names = checked_names(outcols, self.names)
        rows = self._rows_where(expression, sys._getframe(1), limit, skip, user_dict, vm)
        return iterate(self.cols, names, rows, out_flavor)

    def whereblocks(
        self,
        expression: Any,
        blen: int | None = None,
        outcols: Any = None,
        limit: int | None = None,
        skip: int = 0,
        user_dict: Mapping[str, Any] | None = None,
        vm: str | None = None,
    ) -> Iterator[npt.NDArray[Any]]:
        """Iterate over the rows that fulfil a condition, as structured arrays of `blen` rows.

        Parameters
        ----------
        blen : int, optional
            Rows in a block, by default as many as in the smallest chunk.
        expression, outcols, limit, skip, user_dict, vm
            As for `where`.

        Examples
        --------
        >>> from tegula import bcolz
        >>> t = bcolz.ctable([[1, 2, 3]], names=["a"])
        >>> [len(block) for block in t.whereblocks("a > 0", blen=2)]
        [2, 1]
        """
        names = checked_names(outcols, self.names)
        rows = self._rows_where(expression, sys._getframe(1), limit, skip, user_dict, vm)
        size = blen or min((self.cols[name].chunklen for name in self.names), default=1)
        return blocks_of_rows(self.cols, names, rows, size)

    def fetchwhere(
        self,
        expression: Any,
        outcols: Any = None,
        limit: int | None = None,
        skip: int = 0,
        out_flavor: str | None = None,
        user_dict: Mapping[str, Any] | None = None,
        vm: str | None = None,
        **options: Any,
    ) -> Any:
        """Return the rows that fulfil a condition.

        Parameters
        ----------
        expression, outcols, limit, skip, user_dict, vm
            As for `where`.
        out_flavor : {"bcolz", "carray", "numpy"}, optional
            Whether the result is a ctable or a structured array; by default what ``defaults.out_flavor`` says.
        **options
            Passed to the new table.

        Examples
        --------
        >>> from tegula import bcolz
        >>> t = bcolz.ctable([[1, 2, 3]], names=["a"])
        >>> t.fetchwhere("a > 1", out_flavor="numpy")
        array([(2,), (3,)], dtype=[('a', '<i8')])
        """
        flavor = checked_flavor(defaults.out_flavor if out_flavor is None else out_flavor)
        names = checked_names(outcols, self.names)
        rows = self._rows_where(expression, sys._getframe(1), limit, skip, user_dict, vm)
        if flavor == "numpy":
            return gathered(self.cols, names, rows)
        return self._table_of_rows(names, rows, options)

    @abstractmethod
    def _table_of_rows(self, names: list[str], rows: npt.NDArray[np.intp], options: dict[str, Any]) -> Any:
        """Make a table of some rows."""

    def _rows_where(
        self,
        condition: Any,
        caller: FrameType,
        limit: int | None = None,
        skip: int = 0,
        user_dict: Mapping[str, Any] | None = None,
        vm: str | None = None,
    ) -> npt.NDArray[np.intp]:
        scope = scope_of_table(caller, self._even_columns(), user_dict)
        return chosen(mask_of(condition, scope, self.len, vm), limit, skip)

    def _even_columns(self) -> Mapping[str, Any]:
        length = self.len
        cut = {name: column[:length] for name, column in self.cols.items() if len(column) > length}
        return {**self.cols, **cut} if cut else self.cols

    def eval(self, expression: str, **options: Any) -> Any:
        """Evaluate an expression of columns and of variables of the caller.

        Parameters
        ----------
        expression : str
            Such as ``"2 * a + b"``. Here, unlike in conditions, a variable comes before a column of the same name.
        **options
            As for `tegula.bcolz.eval`.

        Examples
        --------
        >>> from tegula import bcolz
        >>> bcolz.ctable([[1, 2], [3, 4]], names=["a", "b"]).eval("a + b")[:].tolist()
        [4, 6]
        """
        caller = sys._getframe(1)
        scope = (caller.f_locals, caller.f_globals, self._even_columns(), options.pop("user_dict", None) or {})
        return evaluate(expression, scope, **options)
