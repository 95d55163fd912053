"""Input of tables: new columns, and rows to append, converted to arrays by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.bcolz.carrays.carray import carray
from tegula.bcolz.converting import as_rows
from tegula.errors import MetadataError

__all__ = ["as_columns", "values_of_rows"]


def as_columns(columns: Any, names: Any) -> dict[str, Any]:
    """Return the columns of a new table by name.

    Parameters
    ----------
    columns : list, tuple or structured ndarray
        The columns; the fields of a 1-d structured array.
    names : list or tuple, optional
        Names of the columns, ``f0``, ``f1``, … by default; of a structured array, the fields to use.

    Raises
    ------
    MetadataError
        If there are no columns, or names and columns do not fit together.
    """
    # fields of a structured array
    if isinstance(columns, np.ndarray):
        if columns.dtype.names is None or columns.ndim != 1:
            raise MetadataError("an array of columns must be structured and have one dimension", field="columns")
        fields = names if names is not None else columns.dtype.names
        unknown = [name for name in fields if name not in columns.dtype.names]
        if unknown:
            raise MetadataError(f"the array has no field {unknown[0]!r:.80}", field="names")
        return {name: columns[name] for name in _identifiers(fields)}
    # a sequence of columns
    if not isinstance(columns, (list, tuple)):
        raise MetadataError(f"columns must be a list or a structured array, not {type(columns)}", field="columns")
    if names is None:
        names = [f"f{position}" for position in range(len(columns))]
    if not isinstance(names, (list, tuple)):
        raise MetadataError(f"names must be a list or a tuple, not {names!r:.80}", field="names")
    if len(names) != len(columns) or not columns:
        raise MetadataError(f"there are {len(columns)} columns and {len(names)} names", field="names")
    return dict(zip(_identifiers(names), columns))


def _identifiers(names: Sequence[Any]) -> list[str]:
    out = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    for name in out:
        if not name.isidentifier() or iskeyword(name):
            raise MetadataError(
                f"{name!r:.80} can't be the name of a column: it is not a Python identifier", field="names"
            )
    if len({*out}) < len(out):
        raise MetadataError("two columns have the same name", field="names")
    return out


def values_of_rows(rows: Any, columns: Mapping[str, carray]) -> dict[str, npt.NDArray[Any]]:
    """Return the values of rows to append, by column.

    Parameters
    ----------
    rows : list, tuple, structured ndarray or mapping
        Values for each column in order, or by name.
    columns : mapping of str to carray
        The columns.

    Raises
    ------
    MetadataError
        If values for a column are missing, can't be converted, or differ in number.
    """
    # bring the values into one form: by name
    given: Mapping[str, Any]
    if isinstance(rows, (list, tuple)):
        if len(rows) != len(columns):
            raise MetadataError(f"there are values for {len(rows)} columns, the table has {len(columns)}")
        given = dict(zip(columns, rows))
    elif isinstance(rows, (np.ndarray, np.void)) and rows.dtype.names is not None:
        given = {name: rows[name] for name in rows.dtype.names}
    elif isinstance(rows, Mapping):
        given = rows
    else:
        raise MetadataError(f"{type(rows)} can't be converted to rows")
    # convert them to the data types of the columns
    values, lengths = {}, {*()}
    for name, column in columns.items():
        if name not in given:
            raise MetadataError(f"there are no values for column {name!r}")
        dtype, row_shape = column._rows.dtype, column._rows.row_shape
        value = given[name]
        if row_shape and isinstance(value, (list, tuple)) and not value:
            value = np.empty((0, *row_shape), dtype)
        try:
            values[name] = found = as_rows(value, dtype, row_shape)
            lengths.add(len(found))
        except MetadataError as error:
            error.within(field=name)
            raise
    if len(lengths) > 1:
        raise MetadataError("all columns need the same number of values")
    return values
