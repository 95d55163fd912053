"""Frames of pandas: converted to columns of NumPy, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.errors import MetadataError, UnsupportedError
from tegula.runtime.optional import library

__all__ = ["columns_of_pandas", "is_pandas", "to_pandas"]

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
        raise MetadataError("two columns have the same name", field="columns")
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
    if isinstance(dtype, pandas.DatetimeTZDtype) or getattr(getattr(dtype, "pyarrow_dtype", None), "tz", None):
        how = ".dt.tz_convert('UTC').dt.tz_localize(None)"
        raise UnsupportedError(
            f"times are stored without a time zone, {dtype} has one; convert them to UTC with {how}", field=str(name)
        )
    plain = getattr(dtype, "numpy_dtype", None)  # of masked and Arrow-backed values
    if isinstance(plain, np.dtype) and plain.kind in "biufcmM":
        if plain.kind in "biu" and series.isna().any():
            raise MetadataError(f"a value is missing, which {plain} can't represent", field=str(name))
        missing = {"na_value": np.nan} if plain.kind in "fc" else {}
        return np.asarray(series.to_numpy(dtype=plain, **missing))
    if isinstance(dtype, (np.dtype, pandas.StringDtype)) or (isinstance(plain, np.dtype) and plain.kind in "OSU"):
        if series.isna().any():
            raise MetadataError("a value is missing, which text can't represent", field=str(name))
        return np.asarray(series.to_numpy(dtype=object))
    raise UnsupportedError(f"NumPy has no type for a column of {dtype}", field=str(name))


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


def _for_others(values: Array) -> Array:
    """Return text as Python objects, numbers in native byte order."""
    if values.dtype.kind in "US":
        return values.astype(object)
    return values.astype(values.dtype.newbyteorder("="), copy=False)
