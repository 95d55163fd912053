"""Values that users assign, converted to arrays of the right type."""

from __future__ import annotations

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
    if not isinstance(values, (np.ndarray, np.generic)) and hasattr(values, "__array__"):
        values = np.asarray(values)
    if data_type.variable:
        return _objects(values)
    if dtype.names == ("value", "valid") and (inner := data_type.inner) is not None:
        values = _optional(values, inner, dtype)
    try:
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
    """Return records of elements that may be missing: those masked in a masked array, or ``None``."""
    plain: Any = np.asarray(values, None if isinstance(values, (np.ndarray, np.generic)) else object)
    if isinstance(values, np.ma.MaskedArray):
        valid = ~np.ma.getmaskarray(values)
    elif plain.dtype.names == dtype.names or _holds_tuples(values):
        return values  # records as NumPy takes them
    else:
        valid = np.asarray(plain != None if plain.dtype.hasobject else np.ones(plain.shape, bool))  # noqa: E711
    records = np.zeros(plain.shape, dtype)
    records["valid"] = valid
    there = plain[valid]
    records["value"][valid] = as_values(there.tolist() if there.dtype.hasobject else there, inner, dtype["value"])
    return records


def _holds_tuples(values: Any) -> bool:
    """Return whether the innermost elements of nested lists are tuples."""
    while isinstance(values, list) and values:
        values = values[0]
    return isinstance(values, tuple)


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
