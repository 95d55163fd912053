"""Selections of carrays, converted to selections of tegula arrays and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.bcolz.errors import NotImplementedHereError
from tegula.errors import MetadataError, SelectionError

__all__ = ["as_selection", "assign", "selected"]


def as_selection(key: Any, shape: tuple[int, ...], mask_error: type[Exception] = SelectionError) -> tuple[Any, Any]:
    """Split a selection into a selection for a tegula array, and a selection that NumPy applies to the result.

    Parameters
    ----------
    key : int, slice, list, array, carray or tuple
        The selection.
    shape : tuple of int
        The shape of the carray.
    mask_error : type
        The error to raise if a mask is not as long as the array.

    Returns
    -------
    tuple
        The selection for the array, and the one for the result, or ``None`` if that is complete.

    Raises
    ------
    NotImplementedError
        If bcolz has no such selection, or the step of a slice is negative.
    SelectionError
        If the selection does not fit the array.

    Examples
    --------
    >>> as_selection((slice(1, 3), [0, 0]), (4, 2))
    (slice(1, 3, None), (slice(None, None, None), [0, 0]))
    """
    if isinstance(key, tuple):
        if not key:
            raise MetadataError("an empty tuple selects nothing")
        first, rest = _first(key[0], shape[0], mask_error), key[1:]
        if all(isinstance(item, (int, np.integer)) or _is_forward(item) for item in rest):
            return (first, *rest), None
        return first, rest if isinstance(first, int) else (slice(None), *rest)
    return _first(key, shape[0], mask_error), None


def _is_forward(item: Any) -> bool:
    return isinstance(item, slice) and (item.step is None or item.step > 0)


def _first(key: Any, length: int, mask_error: type[Exception]) -> Any:
    """Check and convert the selection along the first axis."""
    if isinstance(key, (int, np.integer)):
        return int(key)
    if isinstance(key, slice):
        if not _is_forward(key):
            raise NotImplementedHereError(f"the step of a slice must be positive, not {key.step}")
        return key
    if isinstance(key, list):
        try:
            return np.array(key, dtype=np.int_)
        except (TypeError, ValueError, OverflowError) as error:
            raise SelectionError(f"{key!r:.80} is not a list of indices") from error
    if hasattr(key, "dtype"):
        if key.dtype.kind == "b" and len(key) != length:
            raise mask_error(f"a mask of {len(key)} rows does not fit {length} rows")
        if key.dtype.kind not in "biu":
            raise SelectionError(f"an index array must hold integers or booleans, not {key.dtype}")
        return np.asarray(key)
    raise NotImplementedHereError(f"{key!r:.80} is not a selection of a carray")


def selected(rows: Any, rest: Any) -> Any:
    """Select from rows in memory, and copy the result."""
    try:
        found = rows[rest]
    except (IndexError, TypeError, ValueError) as error:
        raise SelectionError(f"the selection does not fit: {error}") from error
    return found.copy() if isinstance(found, np.ndarray) else found


def assign(rows: Any, rest: Any, values: Any) -> None:
    """Change a selection of rows in memory."""
    try:
        rows[rest] = values
    except (IndexError, TypeError, ValueError) as error:
        raise SelectionError(f"the selection or the values do not fit: {error}") from error
