"""The ctable: compressed columns of the same length, in memory or in a directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.bcolz.attributes import attrs
from tegula.bcolz.carrays.carray import carray
from tegula.bcolz.converting import as_index, as_values
from tegula.bcolz.ctables import dataframes, hdf5
from tegula.bcolz.ctables.changes import BLOCK_ROWS, Changes, column_name
from tegula.bcolz.ctables.columns import Columns, is_inside
from tegula.bcolz.ctables.input import as_columns
from tegula.bcolz.errors import ExistsError
from tegula.bcolz.evaluating.gathering import (
    blocks_of_rows,
    checked_names,
    gathered,
    row_dtype,
    row_numbers,
    rows_of_slice,
)
from tegula.bcolz.parameters import cparams as CParams
from tegula.bcolz.printing import array2string, human_readable_size
from tegula.errors import MetadataError, NotFoundError, SelectionError

__all__ = ["ctable"]


class ctable(Changes):
    """A table of compressed columns.

    Parameters
    ----------
    columns : sequence of carrays, arrays or lists, or structured array, optional
        The columns. A table in memory uses carrays as they are, a table in a directory copies them.
    names : list or tuple of str, optional
        Names of the columns; ``f0``, ``f1``, … by default.
    rootdir : str or path, optional
        The directory of the table.
    mode : {"r", "w", "a"}, optional
        ``r`` opens the table in `rootdir` for reading, ``a`` for reading and writing, ``w`` creates it and deletes an
        existing one. By default ``a`` if the directory exists, else ``w``.
    auto_flush : bool
        Store appended rows immediately.
    **options
        Passed to new carrays: ``cparams``, ``chunklen``, ``expectedlen``, ``dflt``, …. For an existing table only
        ``allow_pickle`` has an effect: without it, columns of Python objects can't be opened.

    Raises
    ------
    ValueError
        If the columns do not fit together, or a new table has none.
    KeyError, FileNotFoundError
        If there is no table to open.
    FileExistsError
        If another process creates the same table at the same time.

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
        # check the arguments
        self.rootdir = None if rootdir is None else os.fspath(rootdir)
        self.auto_flush = bool(auto_flush) and self.rootdir is not None
        exists = self.rootdir is not None and os.path.lexists(self.rootdir)
        self.mode = mode or ("a" if exists else "w")
        if self.mode not in ("r", "a", "w"):
            raise MetadataError(f"mode must be 'r', 'a' or 'w', not {mode!r:.80}", field="mode")
        if self.rootdir is None and columns is None:
            raise MetadataError("a table needs columns, or the rootdir of a table to open")
        if self.mode == "r" and not exists and self.rootdir is not None:
            raise NotFoundError(
                f"Disk-based ctable opened with `r`ead mode yet `rootdir='{self.rootdir}'` does not exist"
            )
        if columns is not None and exists and self.mode == "a":
            raise MetadataError("the directory exists, and mode 'a' does not replace it", path=self.rootdir)
        if columns is None and self.mode == "a" and not exists:
            raise NotFoundError("there is no table to open", path=self.rootdir)
        if columns is None and self.mode == "w":
            raise MetadataError("mode 'w' creates a table, which needs columns", path=self.rootdir)
        # open or create the columns
        if self.rootdir is not None and (self.mode == "r" or exists) and self.mode != "w":
            self.cols = Columns.open(self.rootdir, self.mode, options.get("allow_pickle"))
        else:
            self.cols = Columns.create(as_columns(columns, names), self.rootdir, self.mode, options)
        self._attach(options.get("cparams"))
        if self.auto_flush and columns is not None and self.mode != "r":
            self.flush()

    def _attach(self, cparams: CParams | None = None) -> None:
        self.attrs = attrs(self.cols.attributes, lambda: self.mode)
        self._cparams = cparams or self.cols.cparams or CParams()

    # --- properties

    @property
    def cparams(self) -> CParams:
        """The compression parameters of new columns."""
        return self._cparams

    @property
    def dtype(self) -> np.dtype[Any]:
        """The structured data type of a row."""
        return row_dtype(self.cols, self.names)

    @property
    def shape(self) -> tuple[int]:
        """The number of rows, as a tuple."""
        return (self.len,)

    @property
    def ndim(self) -> int:
        """The number of axes, 1."""
        return 1

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.len

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, uncompressed."""
        return sum(self.cols[name].nbytes for name in self.names)

    @property
    def cbytes(self) -> int:
        """Bytes of all rows, compressed."""
        return sum(self.cols[name].cbytes for name in self.names)

    def __len__(self) -> int:
        return self.len

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(self.cols[name].__sizeof__() for name in self.names)

    # --- copies and conversions

    def copy(self, **options: Any) -> ctable:
        """Return a copy.

        Parameters
        ----------
        **options
            As for `ctable`; with ``rootdir``, the copy is in a directory.

        Raises
        ------
        OSError
            If the new directory lies inside the table's directory.

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
        """Create a table from a pandas DataFrame, without its index.

        Parameters
        ----------
        df : DataFrame
            The DataFrame; columns of strings get a fixed length.
        **options
            As for `ctable`; ``names`` selects columns.

        Raises
        ------
        TypeError
            If `df` is not a DataFrame, or ``names`` does not hold names.
        NotFoundError
            If it has no column of a name.

        Examples
        --------
        >>> import pandas
        >>> from tegula import bcolz
        >>> bcolz.ctable.fromdataframe(pandas.DataFrame({"a": [1, 2], "b": ["x", "yz"]})).dtype
        dtype([('a', '<i8'), ('b', '<U2')])
        """
        names, columns = dataframes.columns_of_frame(df, options.pop("names", None))
        return ctable(columns, names, **options)

    def todataframe(self, columns: Sequence[Any] | None = None, orient: str = "columns") -> Any:
        """Convert the table to a pandas DataFrame.

        Parameters
        ----------
        columns : sequence, optional
            The columns to convert; with ``orient="index"``, the labels of the columns of the result.
        orient : {"columns", "index"}
            Convert the columns of the table to the columns or to the rows of the result.

        Raises
        ------
        ValueError
            If pandas has no DataFrame for the columns, such as for one whose rows are arrays.

        Examples
        --------
        >>> from tegula import bcolz
        >>> bcolz.ctable([[1, 2]], names=["a"]).todataframe()["a"].sum()
        np.int64(3)
        """
        names = checked_names(columns if orient == "columns" and columns is not None else None, self.names)
        values = {name: np.asarray(self.cols[name][:]) for name in names}
        return dataframes.frame_of_columns(values, columns, orient)

    @staticmethod
    def fromhdf5(filepath: str, nodepath: str = "/ctable", **options: Any) -> ctable:
        """Read a table and its attributes from an HDF5 file.

        Parameters
        ----------
        filepath, nodepath : str
            The file, and the path of the table in it.
        **options
            As for `ctable`; ``names`` selects columns.

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
            The file, and the path of the table in it.
        mode : str
            ``w`` creates the file, which must not exist; ``a`` adds to it.
        cparams : cparams, optional
            Compression parameters; the defaults if left out.
        cname : str, optional
            A compressor of PyTables; Blosc by default.

        Raises
        ------
        OSError
            If the file exists.
        UnsupportedError
            If PyTables is not installed, or has no column type for a data type.
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
            name = column_name(key)
            if name in self.cols:
                return self.cols[name]
            return _with_attributes(gathered(self.cols, self.names, self._rows_where(name, sys._getframe(1))))
        if isinstance(key, list) and key and all(isinstance(item, (str, bytes)) for item in key):
            names = [column_name(item) for item in key]
            return ctable([self.cols[name] for name in names], names)
        if isinstance(key, slice):
            return gathered(self.cols, self.names, rows_of_slice(key, self.len))
        rows = row_numbers(key, self.len)
        if getattr(key, "dtype", None) == np.bool_:  # only then the row numbers are known to ascend
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
            name = column_name(key)
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
        for block in blocks_of_rows(self.cols, names, rows, BLOCK_ROWS):
            out.append(block)
        out.flush()
        return out

    # --- storing, pickling and printing

    def flush(self) -> None:
        """Store the appended rows that are still in memory."""
        self.cols.flush()

    def free_cachemem(self) -> None:
        """Free the memory of the chunks that were read last."""
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
    """Return rows whose fields are attributes too."""
    return rows.view(np.dtype((np.record, rows.dtype)))


def _reopened(rootdir: str, mode: str, auto_flush: bool) -> ctable:
    return ctable(rootdir=rootdir, mode=mode, auto_flush=auto_flush)


def _rebuilt(columns: list[carray], names: list[str], attributes: dict[str, Any]) -> ctable:
    table = ctable.__new__(ctable)
    table.rootdir, table.auto_flush, table.mode = None, False, "w"
    table.cols = Columns(dict(zip(names, columns)), None, table.mode, None)
    table._attach()
    for name, value in attributes.items():
        table.attrs[name] = value
    return table
