"""Interop with pandas and Arrow: their tables converted to columns of NumPy, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.errors import MetadataError, UnsupportedError
from tegula.optional import library

__all__ = ["columns_of_arrow", "columns_of_pandas", "is_pandas", "to_arrow", "to_pandas"]

Array = npt.NDArray[Any]


def is_pandas(value: Any) -> bool:
    """Return whether a value is a DataFrame, without importing pandas."""
    if type(value).__module__.partition(".")[0] != "pandas":
        return False
    return isinstance(value, library("pandas").DataFrame)


def columns_of_pandas(frame: Any) -> dict[str, Array]:
    """Return the columns of a DataFrame, without its index; text as Python strings, categories as their values.

    Raises
    ------
    MetadataError
        If a value is missing that neither NaN nor NaT can represent; the message names the column.
    UnsupportedError
        If NumPy has no type for a column.
    """
    if not frame.columns.is_unique:
        raise MetadataError("two columns have one name", field="columns")
    return {name: _of_series(name, frame[name]) for name in frame.columns}


def _of_series(name: Any, series: Any) -> Array:
    pandas = library("pandas")
    dtype = series.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        if series.isna().any():
            raise MetadataError("a value is missing, which categories can't represent", field=str(name))
        return _of_series(name, series.astype(dtype.categories.dtype))
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return np.asarray(series.to_numpy())
    if isinstance(dtype, pandas.DatetimeTZDtype):
        how = ".dt.tz_convert('UTC').dt.tz_localize(None)"
        raise UnsupportedError(
            f"times are stored without a time zone, {dtype} has one; convert them to UTC with {how}", field=str(name)
        )
    plain = getattr(dtype, "numpy_dtype", None)  # of masked and Arrow-backed numbers
    if isinstance(plain, np.dtype) and plain.kind in "biufcmM":
        if plain.kind in "biu" and series.isna().any():
            raise MetadataError(f"a value is missing, which {plain} can't represent", field=str(name))
        missing = {"na_value": np.nan} if plain.kind in "fc" else {}
        return np.asarray(series.to_numpy(dtype=plain, **missing))
    if isinstance(dtype, (np.dtype, pandas.StringDtype)) or (isinstance(plain, np.dtype) and plain.hasobject):
        if series.isna().any():
            raise MetadataError("a value is missing, which text can't represent", field=str(name))
        return np.asarray(series.to_numpy(dtype=object))
    raise UnsupportedError(f"NumPy has no type for a column of {dtype}", field=str(name))


def columns_of_arrow(table: Any) -> dict[str, Array]:
    """Return the columns of an Arrow table, or of a value with its interface; as for `columns_of_pandas`.

    Raises
    ------
    MetadataError, UnsupportedError
        As for `columns_of_pandas`.
    """
    arrow = library("pyarrow")
    if not isinstance(table, arrow.Table):
        table = arrow.table(table)
    if len({*table.column_names}) < len(table.column_names):
        raise MetadataError("two columns have one name", field="columns")
    return {name: _of_chunked(name, table.column(name)) for name in table.column_names}


def _of_chunked(name: str, column: Any) -> Array:
    arrow = library("pyarrow")
    kind = column.type
    if arrow.types.is_dictionary(kind):
        return _of_chunked(name, column.cast(kind.value_type))
    has_missing = arrow.types.is_floating(kind) or arrow.types.is_timestamp(kind) or arrow.types.is_duration(kind)
    if column.null_count and not (has_missing or arrow.types.is_date(kind)):
        raise MetadataError(f"a value is missing, which {kind} can't represent", field=name)
    if arrow.types.is_timestamp(kind) and kind.tz is not None:
        raise UnsupportedError(f"times are stored without a time zone, {kind} has one", field=name)
    if arrow.types.is_fixed_size_list(kind):
        whole = column.combine_chunks()
        inner = _of_chunked(name, arrow.chunked_array([whole.flatten()], kind.value_type))
        return inner.reshape(len(column), kind.list_size, *inner.shape[1:])
    if (
        arrow.types.is_nested(kind)
        or arrow.types.is_decimal(kind)
        or arrow.types.is_time(kind)
        or arrow.types.is_null(kind)
    ):
        raise UnsupportedError(f"NumPy has no type for a column of {kind}", field=name)
    return np.asarray(column.to_numpy())


def to_pandas(columns: Mapping[str, Array]) -> Any:
    """Return a DataFrame with the columns.

    Raises
    ------
    UnsupportedError
        If pandas is not installed, or can't represent a column.
    """
    pandas = library("pandas")
    series = {}
    for name, values in columns.items():
        if values.ndim > 1:
            raise UnsupportedError(
                f"a DataFrame has no column whose rows have the shape {values.shape[1:]}", field=name
            )
        try:
            series[name] = pandas.Series(_for_others(values))
        except (TypeError, ValueError, NotImplementedError) as error:
            raise UnsupportedError(f"pandas has no column of {values.dtype}: {error}", field=name) from error
    return pandas.DataFrame(series, columns=[*columns])


def to_arrow(columns: Mapping[str, Array]) -> Any:
    """Return an Arrow table with the columns; rows that are arrays become lists of fixed size.

    Raises
    ------
    UnsupportedError
        If pyarrow is not installed, or can't represent a column.
    """
    arrow = library("pyarrow")
    parts = {}
    for name, values in columns.items():
        try:
            part = arrow.array(_for_others(values.reshape(-1)))
            for size in values.shape[:0:-1]:
                part = arrow.FixedSizeListArray.from_arrays(part, size)
        except (arrow.ArrowException, TypeError, ValueError, NotImplementedError) as error:
            raise UnsupportedError(f"Arrow has no column of {values.dtype}: {error}", field=name) from error
        parts[name] = part
    return arrow.table(parts)


def _for_others(values: Array) -> Array:
    """Return text as Python objects, numbers in native byte order."""
    if values.dtype.kind in "US":
        return values.astype(object)
    return values.astype(values.dtype.newbyteorder("="), copy=False)
