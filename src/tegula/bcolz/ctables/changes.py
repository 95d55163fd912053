"""Changes of a ctable: appended and removed rows, added and removed columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tegula.bcolz.carrays.carray import carray
from tegula.bcolz.converting import as_count
from tegula.bcolz.ctables.input import values_of_rows
from tegula.bcolz.ctables.queries import Queries
from tegula.bcolz.errors import ModeError
from tegula.bcolz.parameters import cparams as CParams
from tegula.errors import MetadataError

__all__ = ["BLOCK_ROWS", "Changes", "column_name"]

BLOCK_ROWS: Final = 1 << 16
"""Rows that are copied at once from one table to another."""


class Changes(Queries):
    """The methods of a ctable that change its rows and columns."""

    rootdir: str | None
    mode: str
    auto_flush: bool

    @property
    @abstractmethod
    def cparams(self) -> CParams:
        """The compression parameters of new columns."""

    @abstractmethod
    def flush(self) -> None:
        """Store the appended rows that are still in memory."""

    def append(self, cols: Any) -> None:
        """Append rows.

        Parameters
        ----------
        cols : sequence, structured array, record, or ctable
            A value or a sequence of values for each column, in order; or rows with the names of the columns.

        Raises
        ------
        ValueError
            If the values differ in length, or do not fit the columns. Nothing is appended then.
        OSError
            If the mode is ``'r'``.

        Examples
        --------
        >>> from tegula import bcolz
        >>> t = bcolz.ctable([[1, 2], [10.0, 20.0]], names=["a", "b"])
        >>> t.append((3, 30.0))
        >>> t.append([[4, 5], [40.0, 50.0]])
        >>> len(t)
        5
        """
        self._check_writable()
        columns = self.cols
        for rows in _blocks(cols) if isinstance(cols, Changes) else (cols,):
            columns.append(values_of_rows(rows, columns.in_order()), at_once=self.auto_flush)
        if self.auto_flush:
            self.flush()

    def trim(self, nitems: int) -> None:
        """Remove the last `nitems` rows.

        Examples
        --------
        >>> from tegula import bcolz
        >>> t = bcolz.ctable([[1, 2, 3]])
        >>> t.trim(2)
        >>> len(t)
        1
        """
        self.resize(self.len - as_count(nitems))

    def resize(self, nitems: int) -> None:
        """Change the number of rows; added rows hold the default values of the columns.

        Examples
        --------
        >>> from tegula import bcolz
        >>> t = bcolz.ctable([[1, 2, 3]])
        >>> t.resize(4)
        >>> t[3]
        np.void((0,), dtype=[('f0', '<i8')])
        """
        self._check_writable()
        length = as_count(nitems)
        if length < 0:
            raise MetadataError(f"a table can't have {length} rows", field="nitems")
        self.cols.resize(length)

    def addcol(
        self, newcol: Any, name: str | None = None, pos: int | None = None, move: bool = False, **options: Any
    ) -> None:
        """Add a column.

        Parameters
        ----------
        newcol : carray, ndarray, list or tuple
            Its values, one for each row.
        name : str, optional
            Its name; ``f`` followed by the position by default.
        pos : int, optional
            Its position; the last by default.
        move : bool
            Move a carray in a directory into the table's directory, instead of copying it.
        **options
            Passed to the new carray.

        Raises
        ------
        ValueError
            If a column of that name exists, or the number of values is not that of the rows.

        Examples
        --------
        >>> from tegula import bcolz
        >>> t = bcolz.ctable([[1, 2, 3]])
        >>> t.addcol([4, 5, 6], name="first", pos=0)
        >>> t.names
        ['first', 'f0']
        """
        self._check_writable()
        pos = len(self.names) if pos is None else pos
        if type(pos) is not int or not 0 <= pos <= len(self.names):
            raise MetadataError(f"pos must be an int from 0 to {len(self.names)}, not {pos!r:.80}")
        name = column_name(f"f{pos}" if name is None else name)
        if name in self.names:
            raise MetadataError(f"a column {name!r} already exists")
        if not isinstance(newcol, (carray, np.ndarray, list, tuple)):
            raise MetadataError(f"{type(newcol).__name__} can't be converted to a column")
        if len(newcol) != self.len:
            raise MetadataError(f"the new column has {len(newcol)} rows, the table has {self.len}")
        self.cols.add(name, pos, newcol, move, {"cparams": self.cparams, **options})
        if self.auto_flush:
            self.flush()

    def delcol(self, name: str | None = None, pos: int | None = None, keep: bool = False) -> None:
        """Remove a column.

        Parameters
        ----------
        name : str, optional
            Its name.
        pos : int, optional
            Its position, instead of its name.
        keep : bool
            Keep its directory.

        Raises
        ------
        ValueError
            If there is no such column.

        Examples
        --------
        >>> from tegula import bcolz
        >>> t = bcolz.ctable([[1], [2]])
        >>> t.delcol("f0")
        >>> t.names
        ['f1']
        """
        self._check_writable()
        # find the column by name or position
        if (name is None) == (pos is None):
            raise MetadataError("give either the name or the position of the column")
        if pos is not None:
            if type(pos) is not int or not 0 <= pos < len(self.names):
                raise MetadataError(f"pos must be an int below {len(self.names)}, not {pos!r:.80}")
            name = self.names[pos]
        name = column_name(name)
        if name not in self.names:
            raise MetadataError(f"there is no column {name!r:.80}")
        # remove its name first, so that the table never lists a column without data
        column = self.cols.pop(name)
        if not keep and self.rootdir is not None:
            column.purge()
        if self.auto_flush:
            self.flush()

    def _check_writable(self) -> None:
        if self.mode == "r" and self.rootdir is not None:
            raise ModeError("the table can't be changed: the mode is 'r'", path=self.rootdir)


def column_name(name: Any) -> str:
    """Return the name of a column as a str; bytes are decoded."""
    if not isinstance(name, (str, bytes)):
        raise MetadataError(f"the name of a column must be a str, not {name!r:.80}", field="name")
    return name if isinstance(name, str) else name.decode()


def _blocks(rows: Changes) -> Iterator[Any]:
    """Yield the rows of a table in blocks."""
    for start in range(0, rows.len, BLOCK_ROWS):
        yield rows[start : start + BLOCK_ROWS]
