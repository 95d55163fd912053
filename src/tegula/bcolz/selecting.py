"""What may stand between a carray's brackets, in NumPy's terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.bcolz.errors import NotImplementedHereError
from tegula.errors import MetadataError, SelectionError

__all__ = ["as_selection", "assign", "selected"]


def as_selection(key: Any, shape: tuple[int, ...], mask_error: type[Exception] = SelectionError) -> tuple[Any, Any]:
    """Split a selection into what a tegula array takes, and what NumPy has to select from the result.

    Parameters
    ----------
    key : int, slice, list, array, carray or tuple
        What stood between the brackets.
    shape : tuple of int
        The shape of what is selected from.
    mask_error : type
        What to raise if a mask is not as long as the array.

    Raises
    ------
    NotImplementedError
        If it is nothing bcolz takes, or a slice goes backwards.
    SelectionError
        If it does not fit.

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
    """Check the selection along the first axis."""
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
            raise SelectionError(f"{key!r:.80} are no indices") from error
    if hasattr(key, "dtype"):
        if key.dtype.kind == "b" and len(key) != length:
            raise mask_error(f"a mask of {len(key)} rows does not fit {length} rows")
        if key.dtype.kind not in "biu":
            raise SelectionError(f"an array that selects must be of integers or booleans, not {key.dtype}")
        return np.asarray(key)
    raise NotImplementedHereError(f"{key!r:.80} can't select from a carray")


def selected(rows: Any, rest: Any) -> Any:
    """Select from what has been read, as an array of its own."""
    try:
        found = rows[rest]
    except (IndexError, TypeError, ValueError) as error:
        raise SelectionError(f"the selection does not fit: {error}") from error
    return found.copy() if isinstance(found, np.ndarray) else found


def assign(rows: Any, rest: Any, values: Any) -> None:
    """Change a selection of what has been read."""
    try:
        rows[rest] = values
    except (IndexError, TypeError, ValueError) as error:
        raise SelectionError(f"the selection or the values do not fit: {error}") from error
