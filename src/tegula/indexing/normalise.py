"""Normalization of a selection, as written between brackets, to one item of a simple type for each axis."""

from __future__ import annotations

import operator
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tegula.errors import SelectionError
from tegula.indexing.arrays import IntArray
from tegula.indexing.plan import out_of_bounds

__all__ = ["Item", "itemise", "split_fields", "too_many"]

Item: TypeAlias = int | slice | IntArray | EllipsisType | None

_FULL = slice(None)


def split_fields(selection: Any) -> tuple[str | list[str] | None, Any]:
    """Separate the field names of a selection from the rest.

    Parameters
    ----------
    selection : any
        The selection, as written between brackets.

    Returns
    -------
    fields : str, list of str or None
        A name selects the field itself, a list of names a structure of these fields.
    others : any
        The selection without the names; ``...`` if there is nothing else.

    Examples
    --------
    >>> split_fields("x"), split_fields(["x", "y"]), split_fields(3)
    (('x', Ellipsis), (['x', 'y'], Ellipsis), (None, 3))
    >>> split_fields(("x", slice(2, 5))), split_fields(("x", 1, "y", 2))
    (('x', slice(2, 5, None)), (['x', 'y'], (1, 2)))
    """
    # a single item, or a tuple without names: the most frequent cases
    if isinstance(selection, str):
        return str(selection), ...
    if not isinstance(selection, tuple):
        return (list(selection), ...) if _is_names(selection) else (None, selection)
    for item in selection:
        if isinstance(item, (str, list)):
            break
    else:
        return None, selection

    # names among other items
    names: list[str] = []
    several = False
    others = []
    for item in selection:
        if isinstance(item, str):
            names.append(str(item))
        elif _is_names(item):
            names.extend(item)
            several = True
        else:
            others.append(item)
    if not names:
        return None, selection
    fields = names if several or len(names) > 1 else names[0]
    return fields, others[0] if len(others) == 1 else tuple(others) or ...


def _is_names(item: Any) -> bool:
    return isinstance(item, list) and bool(item) and all(isinstance(name, str) for name in item)


def itemise(selection: Any, shape: tuple[int, ...], outer: bool = False) -> list[Item]:
    """Normalize a selection.

    Parameters
    ----------
    selection : any
        The selection, as written between brackets, without field names.
    shape : tuple of int
        Shape of the array.
    outer : bool
        Whether arrays must be one-dimensional, as in an orthogonal selection.

    Returns
    -------
    list
        The items in order: ints and int64 arrays from 0 to the length of their axis, slices as given, ``None``, and
        ``...`` followed by the full slices that it stands for. A mask becomes an index array for each of its
        dimensions. Axes that are not mentioned become full slices.

    Raises
    ------
    SelectionError
        If the selection does not fit the array.

    Examples
    --------
    >>> itemise((..., -1), (4, 5))
    [Ellipsis, slice(None, None, None), 4]
    """
    # one item for each axis: full slices for the other axes replace the Ellipsis, or follow at the end
    items = [_plain(item) for item in (selection if isinstance(selection, tuple) else (selection,))]
    used = sum([_consumes(item) for item in items])
    if used > len(shape):
        raise too_many(used, len(shape))
    ellipses = [position for position, item in enumerate(items) if item is ...]
    if len(ellipses) > 1:
        raise SelectionError("a selection can have only one Ellipsis ('...')")
    gap = ellipses[0] + 1 if ellipses else len(items)
    items[gap:gap] = [_FULL] * (len(shape) - used)

    # check ints and arrays against their axis, and count negative indices from the end
    normal: list[Item] = []
    axis = 0
    for item in items:
        if isinstance(item, np.ndarray):
            if outer and item.ndim != 1:
                raise SelectionError(
                    f"an orthogonal selection takes one-dimensional arrays, but axis {axis} got {item.ndim} dimensions"
                )
            normal.extend(_mask(item, axis, shape) if item.dtype == np.bool_ else [_within(item, axis, shape[axis])])
        elif isinstance(item, int):
            size = shape[axis]
            if not -size <= item < size:
                raise out_of_bounds(item, axis, size)
            normal.append(item % size)
        else:
            normal.append(item)
        axis += _consumes(item)
    return normal


def too_many(used: int, ndim: int) -> SelectionError:
    """Return the error for a selection with more indices than the array has axes."""
    return SelectionError(f"too many indices: the array has {ndim} dimensions, but {used} were indexed")


def _consumes(item: Any) -> int:
    """Return how many axes of the array an item selects from."""
    if isinstance(item, np.ndarray):
        return item.ndim if item.dtype == np.bool_ else 1
    return 0 if item is None or item is ... else 1


def _plain(item: Any) -> int | slice | npt.NDArray[Any] | EllipsisType | None:
    """Convert an item to an int, a slice, ``None``, ``...`` or an array of integers or bools."""
    if item is None or item is ... or isinstance(item, slice):
        return item
    if isinstance(item, (bool, np.bool_)):
        raise SelectionError(f"{bool(item)} can't be used as an index; use an int, or a boolean array as a mask")
    if not isinstance(item, np.ndarray) or item.ndim == 0:
        try:
            return operator.index(item)
        except TypeError:
            pass
    return _array(item)


def _array(item: Any) -> npt.NDArray[Any]:
    """Convert an item to an array of integers or bools."""
    try:
        array = np.asarray(item)
    except (ValueError, TypeError, OverflowError) as error:
        raise SelectionError(f"a {type(item).__name__} that is not a regular array can't be an index") from error
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.int64)  # NumPy makes [] an array of floats
    if array.ndim == 0 or array.dtype.kind not in "iub":
        what = f" of data type {array.dtype}" if array.ndim else ""
        raise SelectionError(
            f"only ints, slices, '...', None and arrays of integers or bools can be indices, "
            f"not a {type(item).__name__}{what}"
        )
    return array


def _mask(mask: npt.NDArray[Any], axis: int, shape: tuple[int, ...]) -> list[IntArray]:
    """Convert a mask to index arrays, one for each of its dimensions."""
    for position, length in enumerate(mask.shape):
        if length != shape[axis + position]:
            raise SelectionError(
                f"a boolean mask has length {length} for axis {axis + position} with size {shape[axis + position]}"
            )
    return [index.astype(np.int64, copy=False) for index in mask.nonzero()]


def _within(index: npt.NDArray[Any], axis: int, size: int) -> IntArray:
    """Convert an index array to int64, and count negative indices from the end."""
    if index.size == 0:
        return index.astype(np.int64)
    low, high = int(index.min()), int(index.max())
    if low < -size or high >= size:
        raise out_of_bounds(low if low < -size else high, axis, size)
    if high >= 1 << 63:
        raise SelectionError(f"index {high} for axis {axis} with size {size} does not fit 64 bits")
    indices: IntArray = index.astype(np.int64, copy=False)
    return np.where(indices < 0, indices + size, indices) if low < 0 else indices
