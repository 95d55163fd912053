"""Conversion between ctables and tables in HDF5 files, by PyTables."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tegula.bcolz.errors import ExistsError
from tegula.bcolz.parameters import BITSHUFFLE, SHUFFLE, cparams
from tegula.errors import NotFoundError, UnsupportedError
from tegula.runtime.optional import library

__all__ = ["read_table", "write_table"]

_ROWS: Final = 1 << 16  # rows that are copied at once


def read_table(make: Callable[..., Any], filepath: str, nodepath: str, options: dict[str, Any]) -> Any:
    """Read a table in an HDF5 file, with its attributes, block by block.

    Parameters
    ----------
    make : callable
        The class `ctable`.
    filepath, nodepath : str
        The file, and the path of the table in it.
    options : dict
        Options of the new ctable; ``names`` selects columns.

    Returns
    -------
    ctable

    Raises
    ------
    NotFoundError
        If there is no such node in the file.
    UnsupportedError
        If PyTables is not installed.
    """
    tables = library("tables")
    with tables.open_file(filepath) as file:
        try:
            source = file.get_node(nodepath)
        except tables.NoSuchNodeError:
            raise NotFoundError(f"there is no node {nodepath!r} in the file", path=filepath) from None
        # create an empty table, so that the file can be copied block by block
        names = list(options.pop("names", source.colnames))
        dtypes = [source.dtype.fields[name][0] for name in names]
        empty = [np.zeros((0, *dtype.shape), dtype.base) for dtype in dtypes]
        table = make(empty, names, **{"expectedlen": len(source), **options})
        step = max(_ROWS, source.chunkshape[0])
        for start in range(0, len(source), step):
            rows = source[start : start + step]
            table.append([rows[name] for name in names])
        for name in source.attrs._f_list():
            table.attrs[name] = _plain(source.attrs[name])
    table.flush()
    return table


def _plain(value: Any) -> Any:
    """Convert the value of an attribute to one that JSON can hold."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    return value.decode() if isinstance(value, bytes) else value


def write_table(table: Any, filepath: str, nodepath: str, mode: str, filters: cparams, cname: str | None) -> None:
    """Write a ctable with its attributes into an HDF5 file, block by block.

    Parameters
    ----------
    table : ctable
        The table.
    filepath, nodepath, mode : str
        The file, the path of the new node in it, and the mode to open the file with.
    filters : cparams
        Compression parameters.
    cname : str or None
        A compressor of PyTables; by default Blosc with the compressor of `filters`.

    Raises
    ------
    FileExistsError
        If the file exists and the mode is not ``"a"`` or ``"r+"``.
    UnsupportedError
        If PyTables is not installed, or has no column type for a data type.
    """
    tables = library("tables")
    # refuse everything that can't be written before the file is touched
    if os.path.exists(filepath) and mode not in ("a", "r+"):
        raise ExistsError("the file already exists", path=filepath)
    unknown = [name for name in table.names if table.cols[name].dtype.kind not in "biufcSV"]
    if unknown:
        kind = table.cols[unknown[0]].dtype
        raise UnsupportedError(f"PyTables has no column type for {kind}", field=unknown[0])
    above, _, name = nodepath.rpartition("/")
    compression = tables.Filters(
        complevel=filters.clevel,
        complib=cname or f"blosc:{filters.cname}",
        shuffle=filters.shuffle == SHUFFLE,
        bitshuffle=filters.shuffle == BITSHUFFLE,
    )
    # create the node, then copy attributes and rows
    with tables.open_file(filepath, mode=mode) as file:
        node = file.create_table(
            above or "/", name, table.dtype, filters=compression, expectedrows=len(table), createparents=True
        )
        for key, value in table.attrs:
            node.attrs[key] = value
        for start in range(0, len(table), _ROWS):
            node.append(table[start : start + _ROWS])
