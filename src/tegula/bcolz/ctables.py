"""The ctable: columns of one length, each compressed for itself, in memory or in a directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.bcolz import frames, hdf5
from tegula.bcolz.attributes import attrs
from tegula.bcolz.carrays import carray
from tegula.bcolz.columns import Columns, as_columns, is_inside, values_of_rows
from tegula.bcolz.converting import as_count, as_index, as_values
from tegula.bcolz.errors import ExistsError, ModeError
from tegula.bcolz.parameters import cparams as CParams
from tegula.bcolz.printing import array2string, human_readable_size
from tegula.bcolz.queries import (
    Queries,
    blocks_of_rows,
    checked_names,
    gathered,
    row_dtype,
    row_numbers,
    rows_of_slice,
)
from tegula.errors import MetadataError, NotFoundError, SelectionError

__all__ = ["ctable"]

_BLOCK: Final = 1 << 16
"""Rows that are copied at once from one table to another."""


class ctable(Queries):
    """A table of compressed columns.

    Parameters
    ----------
    columns : sequence of carrays, arrays or lists, or structured array, optional
        The columns. Carrays are taken as they are if the table is in memory, else copied.
    names : list or tuple of str, optional
        Names of the columns, ``f0``, ``f1``, … by default.
    rootdir : str or path, optional
        The directory that the table is stored in, or was.
    mode : {"r", "w", "a"}, optional
        ``r`` opens the table in `rootdir` for reading, ``a`` for anything, ``w`` makes it anew. By default ``a`` if the
        directory exists, else ``w``.
    auto_flush : bool
        Whether everything that is appended is stored at once.
    **options
        Passed to the carrays that are made: ``cparams``, ``chunklen``, ``expectedlen``, ``dflt``, …; of a table that
        is opened only ``allow_pickle`` matters, without which columns of Python objects are refused.

    Raises
    ------
    ValueError
        If the columns don't fit together, or there are none to make a table of.
    KeyError
        If there is no table to open.

    Examples
    --------
    >>> import numpy as np
    >>> from tegula import bcolz
    >>> t = bcolz.ctable([np.arange(4), np.arange(4) / 2], names=["n", "half"])
    >>> t["n > 1"].tolist()
    [(2, 1.0), (3, 1.5)]
    >>> [row.half for row in t.where("n > 1")]
    [1.0, 1.5]
    """

    def __init__(
        self,
        columns: Any = None,
        names: Any = None,
        *,
        rootdir: Any = None,
        mode: str | None = None,
        auto_flush: bool = True,
        **options: Any,
    ) -> None:
        self.rootdir: str | None = None if rootdir is None else os.fspath(rootdir)
        self.auto_flush = bool(auto_flush) and self.rootdir is not None
        exists = self.rootdir is not None and os.path.lexists(self.rootdir)
        self.mode: str = mode or ("a" if exists else "w")
        if self.mode not in ("r", "a", "w"):
            raise MetadataError(f"mode must be 'r', 'a' or 'w', not {mode!r:.80}", field="mode")
        if self.rootdir is None and columns is None:
            raise MetadataError("a table needs columns, or a rootdir with a table in it")
        if self.mode == "r" and not exists and self.rootdir is not None:
            raise NotFoundError(
                f"Disk-based ctable opened with `r`ead mode yet `rootdir='{self.rootdir}'` does not exist"
            )
        if columns is not None and exists and self.mode == "a":
            raise MetadataError("there is a table already, and mode 'a' does not replace it", path=self.rootdir)
        if columns is None and self.mode == "w":
            raise MetadataError("mode 'w' makes a table anew, and that needs columns", path=self.rootdir)
        if self.rootdir is not None and (self.mode == "r" or exists) and self.mode != "w":
            self.cols = Columns.open(self.rootdir, self.mode, options.get("allow_pickle"))
        else:
            self.cols = Columns.create(as_columns(columns, names), self.rootdir, self.mode, options)
        self.attrs = attrs(self.cols.attributes, lambda: self.mode)
        self._cparams = options.get("cparams") or self.cols.cparams or CParams()
        if self.auto_flush and columns is not None and self.mode != "r":
            self.flush()

    # --- what it is

    @property
    def cparams(self) -> CParams:
        """The compression parameters that new columns get."""
        return self._cparams

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of a row."""
        return row_dtype(self.cols, self.names)

    @property
    def shape(self) -> tuple[int]:
        """The number of rows, as a tuple."""
        return (self.len,)

    @property
    def ndim(self) -> int:
        """One."""
        return 1

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.len

    @property
    def nbytes(self) -> int:
        """Bytes of all rows in memory, uncompressed."""
        return sum(self.cols[name].nbytes for name in self.names)

    @property
    def cbytes(self) -> int:
        """Bytes of all rows, compressed."""
        return sum(self.cols[name].cbytes for name in self.names)

    def __len__(self) -> int:
        return self.len

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(self.cols[name].__sizeof__() for name in self.names)

    # --- growing and shrinking

    def append(self, cols: Any) -> None:
        """Append rows.

        Parameters
        ----------
        cols : sequence, structured array, record, or ctable
            A value or a sequence of values for each column, in order; or rows with the table's names.

        Raises
        ------
        ValueError
            If the columns differ in length or number. Nothing has been appended then.

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
        for rows in _parts(cols):
            self.cols.append(values_of_rows(rows, self.cols.in_order()), at_once=self.auto_flush)
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
        """Cut the table off after `nitems` rows, or add rows of the columns' default values.

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
            Its name, ``f`` and the position by default.
        pos : int, optional
            Its position, the last by default.
        move : bool
            Whether a carray in a directory is moved into that of the table, instead of copied.
        **options
            Passed to the new carray.

        Raises
        ------
        ValueError
            If there is a column of that name, or the length is another one.

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
        name = self._column_name(f"f{pos}" if name is None else name)
        if name in self.names:
            raise MetadataError(f"there is a column {name!r} already")
        if not isinstance(newcol, (carray, np.ndarray, list, tuple)):
            raise MetadataError(f"{type(newcol).__name__} can't be made a column")
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
            Whether its directory stays.

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
        if (name is None) == (pos is None):
            raise MetadataError("a column is removed by its name or by its position")
        if pos is not None:
            if type(pos) is not int or not 0 <= pos < len(self.names):
                raise MetadataError(f"pos must be an int below {len(self.names)}, not {pos!r:.80}")
            name = self.names[pos]
        name = self._column_name(name)
        if name not in self.names:
            raise MetadataError(f"there is no column {name!r:.80}")
        column = self.cols.pop(name)
        if not keep and self.rootdir is not None:
            column.purge()
        if self.auto_flush:
            self.flush()

    @staticmethod
    def _column_name(name: Any) -> str:
        if not isinstance(name, (str, bytes)):
            raise MetadataError(f"the name of a column must be text, not {name!r:.80}", field="name")
        return name if isinstance(name, str) else name.decode()

    # --- copies in other forms

    def copy(self, **options: Any) -> ctable:
        """Return a copy.

        Parameters
        ----------
        **options
            As for `ctable`; in particular ``rootdir`` for a copy in a directory.

        Raises
        ------
        OSError
            If the directory is that of the table itself.

        Examples
        --------
        >>> from tegula import bcolz
        >>> bcolz.ctable([[1, 2]]).copy(cparams=bcolz.cparams(clevel=9)).cparams.clevel
        9
        """
        rootdir = options.get("rootdir")
        if rootdir is not None and self.rootdir is not None and is_inside(rootdir, self.rootdir):
            raise ExistsError("a table can't be copied into itself", path=self.rootdir)
        names = options.pop("names", self.names)
        columns = [self.cols[name] for name in self.names]
        if rootdir is None:
            columns = [column.copy(**options) for column in columns]
        return ctable(columns, [*names], **options)

    @staticmethod
    def fromdataframe(df: Any, **options: Any) -> ctable:
        """Make a table of a pandas DataFrame; its index is left out.

        Parameters
        ----------
        df : DataFrame
            Columns of strings get a fixed length.
        **options
            As for `ctable`; ``names`` chooses columns.

        Examples
        --------
        >>> import pandas
        >>> from tegula import bcolz
        >>> bcolz.ctable.fromdataframe(pandas.DataFrame({"a": [1, 2], "b": ["x", "yz"]})).dtype
        dtype([('a', '<i8'), ('b', '<U2')])
        """
        names = [*options.pop("names", df.columns)]
        return ctable(frames.columns_of_frame(df, names), names, **options)

    def todataframe(self, columns: Sequence[Any] | None = None, orient: str = "columns") -> Any:
        """Return a pandas DataFrame.

        Parameters
        ----------
        columns : sequence, optional
            The columns to take; with ``orient="index"``, the labels of the columns that rows become.
        orient : {"columns", "index"}
            Whether columns of the table are columns or rows of the result.

        Examples
        --------
        >>> from tegula import bcolz
        >>> bcolz.ctable([[1, 2]], names=["a"]).todataframe()["a"].sum()
        np.int64(3)
        """
        names = checked_names(columns if orient == "columns" and columns is not None else None, self.names)
        values = {name: np.asarray(self.cols[name][:]) for name in names}
        return frames.frame_of_columns(values, columns, orient)

    @staticmethod
    def fromhdf5(filepath: str, nodepath: str = "/ctable", **options: Any) -> ctable:
        """Make a table of a table in an HDF5 file, with its attributes.

        Parameters
        ----------
        filepath, nodepath : str
            The file, and the path of the node in it.
        **options
            As for `ctable`; ``names`` chooses columns.

        Raises
        ------
        NotFoundError
            If there is no such node.
        UnsupportedError
            If PyTables is not installed.
        """
        table: ctable = hdf5.read_table(ctable, filepath, nodepath, options)
        return table

    def tohdf5(
        self,
        filepath: str,
        nodepath: str = "/ctable",
        mode: str = "w",
        cparams: CParams | None = None,
        cname: str | None = None,
    ) -> None:
        """Write the table and its attributes into an HDF5 file.

        Parameters
        ----------
        filepath, nodepath : str
            The file, and the path of the node in it.
        mode : str
            ``w`` makes the file, which must not exist; ``a`` adds to it.
        cparams : cparams, optional
            Compression parameters, the defaults if left out.
        cname : str, optional
            A compressor of PyTables, Blosc by default.

        Raises
        ------
        OSError
            If the file exists.
        UnsupportedError
            If PyTables is not installed, or has no columns of a data type.
        """
        hdf5.write_table(self, filepath, nodepath, mode, cparams or CParams(), cname)

    # --- rows

    def __getitem__(self, key: Any) -> Any:
        if not self.names:
            raise NotFoundError("a table without columns has no rows", path=self.rootdir)
        if isinstance(key, tuple):
            if len(key) != 1:
                raise SelectionError("a table has one axis")
            key = key[0]
        if isinstance(key, (int, np.integer)):
            index = as_index(int(key), self.len)
            row = np.empty(1, self.dtype)
            row[0] = tuple([self.cols[name][index] for name in self.names])
            return row[0]
        if isinstance(key, (str, bytes)):
            name = self._column_name(key)
            if name in self.cols:
                return self.cols[name]
            return _with_attributes(gathered(self.cols, self.names, self._rows_where(name, sys._getframe(1))))
        if isinstance(key, list) and key and all(isinstance(item, (str, bytes)) for item in key):
            names = [self._column_name(item) for item in key]
            return ctable([self.cols[name] for name in names], names)
        if isinstance(key, slice):
            return gathered(self.cols, self.names, rows_of_slice(key, self.len))
        rows = row_numbers(key, self.len)
        if getattr(key, "dtype", None) == np.bool_:  # so that they ascend
            return _with_attributes(gathered(self.cols, self.names, rows))
        out = np.empty(len(rows), self.dtype)
        for name in self.names:
            out[name] = self.cols[name][rows]
        return out

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check_writable()
        if not self.names:
            raise NotFoundError("a table without columns has no rows", path=self.rootdir)
        if isinstance(key, (str, bytes)):
            name = self._column_name(key)
            if name in self.cols:
                self.cols[name] = value
                return
            key = self._rows_where(name, sys._getframe(1))
        elif isinstance(key, (int, np.integer)):
            index = as_index(int(key), self.len)
            key = slice(index, index + 1)
        elif isinstance(key, slice):
            rows = rows_of_slice(key, self.len)
            key = slice(rows.start, rows.stop, rows.step)
        else:
            key = row_numbers(key, self.len)
        rows_to_set = as_values(value, self.dtype).reshape(-1)
        for name in self.names:
            self.cols[name][key] = rows_to_set[name]

    def _table_of_rows(self, names: list[str], rows: npt.NDArray[np.intp], options: dict[str, Any]) -> ctable:
        empty = np.empty(0, row_dtype(self.cols, names))
        out = ctable(empty, **{"expectedlen": len(rows), **options})
        for block in blocks_of_rows(self.cols, names, rows, _BLOCK):
            out.append(block)
        out.flush()
        return out

    # --- keeping it

    def _check_writable(self) -> None:
        if self.mode == "r" and self.rootdir is not None:
            raise ModeError("the table can't be changed: the mode is 'r'", path=self.rootdir)

    def flush(self) -> None:
        """Store all rows that wait in memory."""
        self.cols.flush()

    def free_cachemem(self) -> None:
        """Give back memory that was kept for speed."""
        for name in self.names:
            self.cols[name].free_cachemem()

    def __enter__(self) -> ctable:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.mode != "r":
            self.flush()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.rootdir is not None:
            self.flush()
            return _reopened, (self.rootdir, "r" if self.mode == "r" else "a", self.auto_flush)
        return _rebuilt, ([self.cols[name] for name in self.names], [*self.names], self.attrs.getall())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        rows = self[:]
        return np.asarray(rows, dtype)

    def __str__(self) -> str:
        return array2string(self) if self.names else ""

    def __repr__(self) -> str:
        nbytes, cbytes = self.nbytes, self.cbytes
        lines = [
            f"ctable({self.shape}, {self.dtype})",
            f"  nbytes: {human_readable_size(nbytes)}; cbytes: {human_readable_size(cbytes)};"
            f" ratio: {nbytes / cbytes if cbytes else np.nan:.2f}",
            f"  cparams := {self.cparams!r}",
        ]
        if self.rootdir:
            lines.append(f"  rootdir := '{self.rootdir}'")
        return "\n".join([*lines, str(self)])


def _with_attributes(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Let each row have its fields as attributes too."""
    return rows.view(np.dtype((np.record, rows.dtype)))


def _parts(rows: Any) -> Iterator[Any]:
    """Yield what is to be appended; another table in blocks."""
    if isinstance(rows, ctable):
        for start in range(0, len(rows), _BLOCK):
            yield rows[start : start + _BLOCK]
    else:
        yield rows


def _reopened(rootdir: str, mode: str, auto_flush: bool) -> ctable:
    return ctable(rootdir=rootdir, mode=mode, auto_flush=auto_flush)


def _rebuilt(columns: list[carray], names: list[str], attributes: dict[str, Any]) -> ctable:
    table = ctable(columns, names)
    for name, value in attributes.items():
        table.attrs[name] = value
    return table
