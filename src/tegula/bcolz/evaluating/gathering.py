"""Rows of a table, gathered from its columns as structured arrays or one by one."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.chunking import whole_chunks
from tegula.bcolz.carrays.iteration import as_items
from tegula.bcolz.errors import NotImplementedHereError
from tegula.errors import MetadataError, SelectionError
from tegula.tables.queries import chosen_rows, is_sparse, rows_at

__all__ = [
    "blocks_of_rows",
    "checked_names",
    "gathered",
    "iterate",
    "row_dtype",
    "row_numbers",
    "rows_of_slice",
    "true_rows",
]

ROW_NUMBER: Final = "nrow__"
"""The name in `outcols` that stands for the row number."""

_NAMED: Any = namedtuple  # mypy accepts only literal names
_ROWS_AT_ONCE: Final = 2**16  # converted to Python objects
_BYTES_AT_ONCE: Final = 2**24
_WINDOW_BYTES: Final = 2**20  # bytes of a column that are read at once, in whole chunks

RowNumbers = npt.NDArray[np.intp] | range


def checked_names(names: Any, known: Sequence[str]) -> list[str]:
    """Return names of columns as a list.

    Parameters
    ----------
    names : list, tuple, str, bytes or None
        The names, as a sequence or in one string, separated by spaces or commas; ``None`` for all columns.
    known : sequence of str
        The columns of the table. ``nrow__``, the row number, is a valid name too.

    Raises
    ------
    MetadataError
        If there is no such column.
    """
    if names is None:
        return [*known]
    if isinstance(names, (str, bytes)):
        text = names.decode() if isinstance(names, bytes) else names
        names = re.split(r"[\s,]+", text.strip(" ,"))
    if not isinstance(names, (list, tuple)):
        raise MetadataError(f"outcols must be a list of names or a string, not {names!r:.80}", field="outcols")
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
    """Return the row numbers that a list, an index array or a mask selects; none is negative."""
    if isinstance(key, list):
        try:
            key = np.array(key, np.intp)
        except (TypeError, ValueError, OverflowError) as error:
            raise SelectionError(f"{key!r:.80} is not a list of row numbers") from error
    if getattr(key, "dtype", None) is None:
        raise NotImplementedHereError(f"{key!r:.80} is not a selection of rows")
    return np.asarray(chosen_rows(np.asarray(key), length))


def row_dtype(columns: Mapping[str, Any], names: Iterable[str]) -> np.dtype[Any]:
    """Return the structured data type of rows with the given columns."""
    return np.dtype(
        [
            (name, np.dtype(np.intp)) if name == ROW_NUMBER else (name, columns[name].dtype, columns[name].shape[1:])
            for name in names
        ]
    )


def true_rows(mask: npt.NDArray[np.bool_], limit: int | None, skip: int) -> npt.NDArray[np.intp]:
    """Return the row numbers where a mask is true, without the first `skip`, and at most `limit` of them."""
    rows = np.flatnonzero(mask)
    return rows[skip:] if limit is None else rows[skip : skip + limit]


def _take(column: Any, rows: RowNumbers) -> npt.NDArray[Any]:
    """Read some rows of a column, given by ascending numbers, window by window."""
    if isinstance(rows, range):
        return np.asarray(column[rows.start : rows.stop : rows.step])
    if is_sparse(rows):
        return np.asarray(column[rows])
    out = np.empty((len(rows), *column.shape[1:]), column.dtype)
    width = whole_chunks(column.chunklen, column.dtype.itemsize * prod(column.shape[1:]), _WINDOW_BYTES)
    start = 0
    while start < len(rows):
        first = int(rows[start])
        stop = int(np.searchsorted(rows, (first // width + 1) * width))
        out[start:stop] = rows_at(column, rows[start:stop])
        start = stop
    return out


def gathered(columns: Mapping[str, Any], names: Sequence[str], rows: RowNumbers) -> npt.NDArray[Any]:
    """Read some rows of several columns as a structured array."""
    out = np.empty(len(rows), row_dtype(columns, names))
    for name in names:
        out[name] = rows if name == ROW_NUMBER else _take(columns[name], rows)
    return out


def blocks_of_rows(
    columns: Mapping[str, Any], names: Sequence[str], rows: RowNumbers, size: int
) -> Iterator[npt.NDArray[Any]]:
    """Yield structured arrays of `size` rows."""
    return (gathered(columns, names, rows[start : start + size]) for start in range(0, len(rows), size))


def iterate(columns: Mapping[str, Any], names: Sequence[str], rows: RowNumbers, flavor: Any) -> Iterator[Any]:
    """Iterate over rows as named tuples, tuples, or structured arrays of one row."""
    size = max(1, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE // max(1, row_dtype(columns, names).itemsize)))
    parts = (rows[start : start + size] for start in range(0, len(rows), size))
    tuples = chain.from_iterable(zip(*(_items(columns, name, part) for name in names)) for part in parts)
    if flavor is namedtuple or flavor == "namedtuple":
        return map(partial(tuple.__new__, _NAMED("row", names, rename=True)), tuples)
    if flavor is np.ndarray or flavor == "ndarray":
        dtype = row_dtype(columns, names)
        return (np.array([values], dtype) for values in tuples)
    return tuples


def _items(columns: Mapping[str, Any], name: str, rows: RowNumbers) -> Sequence[Any]:
    """Return some rows of a column as Python objects, or as arrays if the rows have axes."""
    if name == ROW_NUMBER:
        return rows if isinstance(rows, range) else rows.tolist()
    items: Sequence[Any] = as_items(_take(columns[name], rows))
    return items
