"""Conversion of arguments: data types, rows, indices, numbers of rows and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import prod
from operator import index
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from tegula.bcolz.errors import KindError
from tegula.errors import MetadataError, SelectionError, brief

__all__ = [
    "as_count",
    "as_default",
    "as_dtype",
    "as_index",
    "as_new_rows",
    "as_rows",
    "as_shape",
    "as_values",
    "row_type",
]


def as_dtype(dtype: Any) -> np.dtype[Any] | None:
    """Convert to a NumPy data type; ``None`` stays ``None``."""
    try:
        return None if dtype is None else np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise KindError(f"{dtype!r:.80} is not a data type: {error}", field="dtype") from error


def as_values(values: Any, dtype: np.dtype[Any] | None) -> npt.NDArray[Any]:
    """Convert values to an array of a data type; conversions may lose precision, as in NumPy."""
    if type(values) is np.ndarray and (dtype is None or values.dtype == dtype):
        return values
    try:
        return np.array(values, dtype=dtype)
    except (ValueError, OverflowError) as error:
        raise MetadataError(f"the values can't be converted to {dtype or 'an array'}: {error}") from error
    except TypeError as error:
        raise KindError(f"the values can't be converted to {dtype or 'an array'}: {error}") from error


def as_default(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a default value to an element of a data type; ``None`` becomes zero."""
    default = np.zeros((), dtype)
    try:
        if value is not None:
            default[()] = value
    except (TypeError, ValueError, OverflowError) as error:
        raise MetadataError(f"{value!r:.80} is not a value of {dtype}: {error}", field="dflt") from error
    return default[()]


def as_new_rows(values: Any, dtype: Any) -> npt.NDArray[Any]:
    """Convert values to the first rows of a new array; a scalar becomes one row.

    Examples
    --------
    >>> as_new_rows([1, 2, 3, 4], ("i4", (2,))).tolist()
    [[1, 2], [3, 4]]
    """
    wanted = as_dtype(dtype)
    rows = as_values(values, None if wanted is None else wanted.base)
    if rows.dtype.hasobject:
        if rows.dtype.kind != "O":
            raise KindError(f"elements of type {rows.dtype} can't be stored", field="dtype")
        return _objects(rows)
    if rows.ndim == 0:
        rows = rows.reshape(1)
    if wanted is not None and wanted.shape and rows.shape[1:] != wanted.shape:
        try:
            rows = rows.reshape(-1 if rows.size else 0, *wanted.shape)
        except ValueError as error:
            raise MetadataError(f"the values can't be converted to rows of {wanted}: {error}", field="dtype") from error
    return rows


def row_type(rows: npt.NDArray[Any], dtype: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the data type of the elements and the shape of a row."""
    wanted = as_dtype(dtype)
    return (rows.dtype if wanted is None else wanted.base), rows.shape[1:]


def as_rows(values: Any, dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Convert values to rows of a known shape; the values of a single row become one row.

    Examples
    --------
    >>> as_rows(1, np.dtype("i4"), ()), as_rows([1, 2], np.dtype("i4"), (2,)).shape
    (array([1], dtype=int32), (1, 2))
    """
    if isinstance(values, np.ndarray) and values.dtype is dtype and dtype.kind != "O":  # the usual case, kept fast
        rows = values
    else:
        rows = as_values(values, dtype)
    if dtype.kind == "O":
        return _objects(rows)
    if rows.shape[1:] == row_shape and rows.ndim:
        return rows
    if rows.shape == row_shape or (not row_shape and not rows.ndim):
        return rows.reshape(1, *row_shape)
    raise MetadataError(f"values of shape {rows.shape} are not rows of shape {row_shape}")


def _objects(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return Python objects along one axis; elements along further axes become arrays."""
    if values.ndim <= 1:
        return values.reshape(-1)
    out = np.empty(len(values), object)
    for position, value in enumerate(values):
        out[position] = value
    return out


def as_index(number: int, length: int) -> int:
    """Return the number of a row; a negative index counts from the end."""
    position = number + length if number < 0 else number
    if not 0 <= position < length:
        raise SelectionError(f"index {brief(number)} is out of range for {length} rows")
    return position


def as_count(nitems: Any) -> int:
    """Return a number of rows as an int; floats are truncated."""
    if not isinstance(nitems, (int, float, np.integer)):
        raise KindError(f"the number of rows must be an int, not {nitems!r:.80}", field="nitems")
    with suppress(ValueError, OverflowError):
        return int(nitems)
    raise MetadataError(f"{nitems!r:.80} is not a number of rows", field="nitems")


def as_shape(newshape: SupportsIndex | Sequence[SupportsIndex], size: int) -> tuple[int, ...]:
    """Return a shape with `size` elements; one length may be -1, which is replaced."""
    try:
        shape = tuple(map(index, newshape if np.iterable(newshape) else (newshape,)))
    except TypeError as error:
        raise KindError(f"a shape has whole numbers, not {newshape!r:.80}", field="newshape") from error
    if shape.count(-1) > 1:
        raise MetadataError("only one length of a shape can be -1", field="newshape")
    rest = prod(length for length in shape if length != -1)
    shape = tuple((size // rest if rest else 0) if length == -1 else length for length in shape)
    if not shape or min(shape) < 0 or prod(shape) != size:
        raise MetadataError(f"{size} elements can't have the shape {newshape!r:.80}", field="newshape")
    return shape
