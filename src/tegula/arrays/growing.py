"""Changes of shape: the new shape, the values that are added at the end of an axis, and several arrays at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.arrays.chunking import as_shape
from tegula.arrays.values import as_values
from tegula.engine.stored.array import StoredArray
from tegula.errors import MetadataError, SelectionError, TegulaError, UnsupportedError, brief

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["change_rows", "new_part", "new_shape"]


def new_shape(array: StoredArray, shape: Any) -> tuple[int, ...]:
    """Return the shape that an array is resized to.

    Raises
    ------
    MetadataError
        If the number of axes differs, or a length is negative.
    UnsupportedError
        If the format's arrays grow along their first axis only, and another would change.
    """
    old, new = array.metadata.shape, as_shape(shape)
    if len(new) != len(old):
        raise _at(array, MetadataError(f"an array of {len(old)} axes can't be resized to {new}", field="shape"))
    if array.metadata.dense and new[1:] != old[1:]:
        raise _grows_by_rows(array)
    return new


def new_part(array: StoredArray, values: Any, axis: int) -> tuple[npt.NDArray[Any], int]:
    """Return values that are appended as an ndarray, and the number of the axis.

    Raises
    ------
    SelectionError
        If there is no such axis.
    UnsupportedError
        If the format's arrays grow along their first axis only, and it is another.
    """
    data_type, shape = array.metadata.data_type, array.metadata.shape
    added = as_values(values, data_type, data_type.numpy)
    if not isinstance(axis, (int, np.integer)) or not -len(shape) <= axis < len(shape):
        raise _at(array, SelectionError(f"there is no axis {brief(axis)} in {len(shape)} dimensions"))
    axis %= len(shape)
    if array.metadata.dense and axis:
        raise _grows_by_rows(array)
    if array.metadata.dense and (added.shape[1:] != shape[1:] or added.ndim != len(shape)):
        raise _at(array, SelectionError(f"values of shape {added.shape} can't be appended to {shape} along axis 0"))
    return added, axis


def change_rows(arrays: Sequence[Any], act: Callable[[list[tuple[StoredArray, str]]], list[StoredArray]]) -> None:
    """Change the rows of several arrays together; `act` calls a function such as `engine.append_rows`."""
    before = [(array.stored, array.path) for array in arrays]
    for array, (old, _), new in zip(arrays, before, act(before)):
        with array.metadata_lock():
            array.stored = new if array.stored is old else array.stored.with_metadata(new.metadata)


def _grows_by_rows(array: StoredArray) -> TegulaError:
    return _at(array, UnsupportedError(f"{array.metadata.format} arrays grow along their first axis only"))


def _at(array: StoredArray, error: TegulaError) -> TegulaError:
    array.locate(error)
    return error
