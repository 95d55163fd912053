"""Selections of ints and slices: in zarr 1.x, assigned values must have their shape."""

from __future__ import annotations

from types import EllipsisType
from typing import Any

import numpy as np

from tegula.zarr1.errors import ShapeError

__all__ = ["basic_shape", "check_shape"]


def basic_shape(selection: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape of a selection of ints and slices; ``None`` for other selections and for invalid ones.

    Examples
    --------
    >>> basic_shape((slice(2, 8, 2), ...), (10, 20)), basic_shape([1, 2], (10, 20))
    ((3, 20), None)
    """
    keys = selection if isinstance(selection, tuple) else (selection,)
    if not all(isinstance(key, (int, np.integer, slice, EllipsisType)) and not isinstance(key, bool) for key in keys):
        return None
    try:
        # elements without bytes take no memory, however large the array is
        selected: tuple[int, ...] = np.broadcast_to(np.empty((), "V0"), shape)[selection].shape
    except (IndexError, TypeError, ValueError):
        return None  # reading or writing raises the error
    return selected


def check_shape(value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Check that values have the shape of a selection, or are a scalar; zarr 1.1 does not broadcast.

    Raises
    ------
    ShapeError
        If they have another shape.
    """
    if not hasattr(value, "shape"):
        if dtype.fields:
            return  # a tuple in a list may be an element
        try:
            value = np.asarray(value)
        except ValueError:
            return  # writing raises the error
    given = tuple(value.shape)
    if given and given != shape:
        raise ShapeError(f"values of shape {given} do not fit a selection of shape {shape}")
