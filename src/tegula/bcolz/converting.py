"""What a user gives for rows, as arrays that fit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.bcolz.errors import KindError
from tegula.errors import MetadataError, SelectionError

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
    """Make a dtype of what stands for one."""
    try:
        return None if dtype is None else np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise KindError(f"{dtype!r:.80} is no data type: {error}", field="dtype") from error


def as_values(values: Any, dtype: np.dtype[Any] | None) -> npt.NDArray[Any]:
    """Convert values to elements of a type, with NumPy's freedom to lose something."""
    if type(values) is np.ndarray and (dtype is None or values.dtype == dtype):
        return values
    try:
        return np.array(values, dtype=dtype)
    except (ValueError, OverflowError) as error:
        raise MetadataError(f"the values can't be converted to {dtype or 'an array'}: {error}") from error
    except TypeError as error:
        raise KindError(f"the values can't be converted to {dtype or 'an array'}: {error}") from error


def as_default(value: Any, dtype: np.dtype[Any]) -> Any:
    """Make an element of a type of what is given as its default, zero if nothing is."""
    default = np.zeros((), dtype)
    try:
        if value is not None:
            default[()] = value
    except (TypeError, ValueError, OverflowError) as error:
        raise MetadataError(f"{value!r:.80} is no value of {dtype}: {error}", field="dflt") from error
    return default[()]


def as_new_rows(values: Any, dtype: Any) -> npt.NDArray[Any]:
    """Make the first rows of an array of what is given for them.

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
            raise MetadataError(f"the values can't be rows of {wanted}: {error}", field="dtype") from error
    return rows


def row_type(rows: npt.NDArray[Any], dtype: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the type of the elements and the shape of a row."""
    wanted = as_dtype(dtype)
    return (rows.dtype if wanted is None else wanted.base), rows.shape[1:]


def as_rows(values: Any, dtype: np.dtype[Any], inner: tuple[int, ...]) -> npt.NDArray[Any]:
    """Make rows of a known shape of what is given for several, or for one.

    Examples
    --------
    >>> as_rows(1, np.dtype("i4"), ()), as_rows([1, 2], np.dtype("i4"), (2,)).shape
    (array([1], dtype=int32), (1, 2))
    """
    if isinstance(values, np.ndarray) and values.dtype is dtype and dtype.kind != "O":  # as fast as can be
        rows = values
    else:
        rows = as_values(values, dtype)
    if dtype.kind == "O":
        return _objects(rows)
    if rows.shape[1:] == inner and rows.ndim:
        return rows
    if rows.shape == inner or (not inner and not rows.ndim):
        return rows.reshape(1, *inner)
    raise MetadataError(f"values of shape {rows.shape} are no rows of shape {inner}")


def _objects(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Make one axis of Python objects; what has further axes becomes arrays of its own."""
    if values.ndim <= 1:
        return values.reshape(-1)
    out = np.empty(len(values), object)
    for position, value in enumerate(values):
        out[position] = value
    return out


def as_index(index: int, length: int) -> int:
    """Return the number of a row, which may be counted from the end."""
    position = index + length if index < 0 else index
    if not 0 <= position < length:
        raise SelectionError(f"index {index} is out of range for {length} rows")
    return position


def as_count(nitems: Any) -> int:
    """Return a number of rows, which may be given as a float."""
    if not isinstance(nitems, (int, float, np.integer)):
        raise KindError(f"a number of rows must be an int, not {nitems!r:.80}", field="nitems")
    with suppress(ValueError, OverflowError):
        return int(nitems)
    raise MetadataError(f"{nitems!r:.80} is no number of rows", field="nitems")


def as_shape(newshape: int | Sequence[int], size: int) -> tuple[int, ...]:
    """Return a shape for so many elements, of which one length may be left to be found, as -1."""
    shape = (newshape,) if isinstance(newshape, int) else tuple(newshape)
    if shape.count(-1) > 1:
        raise MetadataError("only one length can be left to be found", field="newshape")
    rest = prod(length for length in shape if length != -1)
    shape = tuple((size // rest if rest else 0) if length == -1 else length for length in shape)
    if not shape or min(shape) < 0 or prod(shape) != size:
        raise MetadataError(f"{size} elements can't have the shape {newshape!r:.80}", field="newshape")
    return shape
