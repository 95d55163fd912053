"""Values that users assign, converted to arrays of the right type."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.errors import MetadataError
from tegula.metadata.data_types import DataType

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["as_data", "as_element", "as_records", "as_values"]


def as_data(values: Any) -> npt.NDArray[Any]:
    """Convert a user's data for a new array to an ndarray.

    Raises
    ------
    MetadataError
        If the values do not form an array.
    """
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise MetadataError(f"the values do not form an array: {error}") from error


def as_values(values: Any, data_type: DataType, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert values for writing; numbers of another type are converted later, chunk by chunk.

    Parameters
    ----------
    values : array_like
        Anything that NumPy converts to an array; for elements of variable length also a sequence of elements.
    data_type : DataType
        Type of the array's elements.
    dtype : numpy.dtype
        The dtype to write: that of the array, or of some of its fields.

    Raises
    ------
    MetadataError
        If the values can't be converted.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> as_values(["a", "bc"], as_data_type(str), np.dtype(object))
    array(['a', 'bc'], dtype=object)
    """
    inner = data_type.inner if dtype.names == ("value", "valid") else None
    if inner is None and not isinstance(values, (np.ndarray, np.generic)) and hasattr(values, "__array__"):
        values = np.asarray(values)
    if data_type.variable:
        return _objects(values)
    try:
        if inner is not None:
            values = _optional(values, inner, dtype)
        if not isinstance(values, (np.ndarray, np.generic)):
            converted = np.asarray(values, dtype)
        elif isinstance(values, np.ndarray) and (
            values.dtype == dtype or (values.dtype.kind in "biuf" and dtype.kind in "iufc")
        ):
            return values
        elif values.dtype.kind == "T":
            # some versions of NumPy convert StringDType to text in native byte order, whatever the dtype says
            converted = np.asarray(values).astype(dtype.newbyteorder("=")).astype(dtype)
        else:
            converted = np.asarray(values).astype(dtype)
    except MetadataError:  # of the values of elements that may be missing
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise MetadataError(f"the values can't be converted to {dtype}: {error}") from error
    if dtype.kind in "mM" and np.datetime_data(converted.dtype) != np.datetime_data(dtype):
        raise MetadataError(f"the values can't be converted to {dtype}: they have a unit")  # NumPy keeps that unit
    return converted


def as_element(value: Any) -> npt.NDArray[Any]:
    """Wrap one element of variable length, which may be a list or an array, in a 0-d array.

    Examples
    --------
    >>> as_element([1, 2])
    array(list([1, 2]), dtype=object)
    """
    element = np.empty((), object)
    element[()] = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    return element


def as_records(values: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Put values into records with a single field, which is a subarray.

    Raises
    ------
    MetadataError
        If the values don't fit.

    Examples
    --------
    >>> as_records([[1, 2], [3, 4]], np.dtype([("v", "u1", (2,))]), (2,))["v"].tolist()
    [[1, 2], [3, 4]]
    """
    records = np.empty(shape, dtype)
    try:
        for name in dtype.names or ():
            records[name] = values
    except (TypeError, ValueError, OverflowError) as error:
        raise MetadataError(f"the values don't fit the field: {error}") from error
    return records


def _optional(values: Any, inner: DataType, dtype: np.dtype[Any]) -> Any:
    """Return records of elements; masked elements, nulls and ``None`` become missing ones."""
    if callable(compute := getattr(values, "compute", None)):
        values = compute()  # dask drops the mask when NumPy asks for an array
    if (nulls := _nulls(values)) is not None:
        valid, there = ~nulls, _not_null(values, ~nulls)
    else:
        if isinstance(values, (list, tuple)) and _holds_records(values):
            return _with_records(values, inner, dtype)
        as_it_is = isinstance(values, np.generic) or hasattr(values, "__array__")
        values = np.asanyarray(values, None if as_it_is else object)  # may be a masked array
        plain = np.asarray(values)
        valid = ~_masked(values)
        if plain.dtype.names == dtype.names:
            if plain is values:
                return values
            valid = valid & plain["valid"] & ~_masked(values, "value") & ~_masked(values, "valid")
            values = values["value"]
        elif plain.dtype.kind == "O":
            valid = valid & ~np.asarray(np.frompyfunc(_is_missing, 1, 1)(plain), bool)
        there = values[valid]
    records = np.zeros(valid.shape, dtype)
    records["valid"] = valid
    records["value"][valid] = as_values(there.tolist() if there.dtype.hasobject else there, inner, dtype["value"])
    return records


def _nulls(values: Any) -> npt.NDArray[Any] | None:
    """Return which elements of an array of another library are null, if it says so; NumPy would make them NaN."""
    if not isinstance(values, (np.ndarray, np.generic)):
        for name in ("isna", "is_null"):  # of pandas; of Arrow and Polars
            if callable(ask := getattr(values, name, None)):
                return np.asarray(ask()).astype(bool)
    return None


def _not_null(values: Any, valid: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the elements that are not null; with nulls among them NumPy would change their data type."""
    if valid.ndim == 1:
        for name in ("dropna", "drop_null", "drop_nulls"):
            if callable(drop := getattr(values, name, None)):
                return np.asarray(drop())
    there: npt.NDArray[Any] = np.asarray(values, object)[valid]
    return there


def _is_missing(item: Any) -> bool:
    return item is None or item is np.ma.masked or item is getattr(sys.modules.get("pandas"), "NA", None)


def _masked(values: Any, field: str | None = None) -> npt.NDArray[Any]:
    """Return which elements are masked in a masked array, or in one of its fields: those with all fields masked."""
    mask: Any = (
        np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else np.zeros(np.shape(values), bool)
    )
    return _collapsed(mask if field is None or mask.dtype.names is None else mask[field], mask.ndim)


def _collapsed(mask: npt.NDArray[Any], ndim: int) -> npt.NDArray[np.bool_]:
    fields = mask.dtype.names
    if fields is None:
        fields_masked = mask.all(axis=tuple(range(ndim, mask.ndim)))  # a subarray has axes of its own
    else:
        fields_masked = np.all([_collapsed(mask[name], ndim) for name in fields], axis=0)
    return np.asarray(fields_masked)


def _holds_records(values: Any) -> bool:
    """Return whether innermost elements of nested lists are tuples or records."""
    if isinstance(values, list):
        return any(_holds_records(item) for item in values)
    return isinstance(values, (tuple, np.void))


def _with_records(values: Any, inner: DataType, dtype: np.dtype[Any]) -> Any:
    """Return nested lists of records, in which other elements have become records."""
    if isinstance(values, list):
        return [_with_records(item, inner, dtype) for item in values]
    if isinstance(values, (tuple, np.void)):
        return values
    return _optional(values, inner, dtype)[()]


def _objects(values: Any) -> npt.NDArray[Any]:
    if isinstance(values, np.ndarray):
        return values.astype(object)
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes, bytearray)):
        try:
            shaped = np.array(values)  # finds the nesting of lists of text
        except ValueError:
            shaped = None
        if shaped is not None and shaped.dtype.kind in "SUT":
            return np.array(values, object)
        out = np.empty(len(values), object)
        for position, value in enumerate(values):
            out[position] = value
        return out
    out = np.empty((), object)
    out[()] = values
    return out
