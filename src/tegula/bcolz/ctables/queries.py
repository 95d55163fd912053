"""Queries of a ctable: iteration over rows, and rows that fulfil a condition."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.bcolz.ctables.columns import Columns
from tegula.bcolz.errors import NotImplementedHereError
from tegula.bcolz.evaluating.expressions import evaluate, mask_of, scope_of_table
from tegula.bcolz.evaluating.gathering import blocks_of_rows, checked_names, gathered, iterate, true_rows
from tegula.bcolz.parameters import checked_flavor, defaults

__all__ = ["Queries"]


class Queries(ABC):
    """The queries of a ctable. Conditions can name columns, and variables of the caller."""

    cols: Columns

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return self.cols.names

    @property
    def len(self) -> int:
        """The number of rows; if the columns differ in length, that of the shortest."""
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
            The rows, as in a slice; `step` must be positive.
        outcols : list of str or str, optional
            The columns to return; ``nrow__`` is the row number.
        limit : int, optional
            Maximum number of rows.
        skip : int
            Number of rows to skip first.
        out_flavor : {namedtuple, tuple, numpy.ndarray}
            The type of a row.

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
            An expression over columns and variables of the caller, or a boolean for each row.
        outcols, limit, skip, out_flavor
            As for `iter`.
        user_dict : mapping, optional
            Additional variables by name.
        vm : {"numexpr", "python", "dask"}, optional
            The engine that evaluates the expression.

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
            Rows of a block; by default those of the shortest chunk.
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
            The type of the result, a ctable or a structured array; ``defaults.out_flavor`` by default.
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
    def __getitem__(self, key: Any) -> Any:
        """Select rows, a column, or a table of several columns."""

    @abstractmethod
    def _table_of_rows(self, names: list[str], rows: npt.NDArray[np.intp], options: dict[str, Any]) -> Any:
        """Return some rows as a new table."""

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
        return true_rows(mask_of(condition, scope, self.len, vm), limit, skip)

    def _even_columns(self) -> Mapping[str, Any]:
        """Return the columns, longer ones cut off to the number of rows."""
        length = self.len
        cut = {name: column[:length] for name, column in self.cols.items() if len(column) > length}
        return {**self.cols, **cut} if cut else self.cols

    def eval(self, expression: str, **options: Any) -> Any:
        """Evaluate an expression over columns and variables of the caller.

        Parameters
        ----------
        expression : str
            For example ``"2 * a + b"``. Unlike in conditions, a variable comes before a column of the same name.
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
