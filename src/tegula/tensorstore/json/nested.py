"""Nested JSON arrays as NumPy arrays of their elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.tensorstore.errors import invalid
from tegula.tensorstore.json.arguments import MAX_RANK
from tegula.tensorstore.json.binding import dump

__all__ = ["nested_array", "nested_shape"]


def nested_shape(value: Any, depth: int = MAX_RANK + 1) -> list[int]:
    """Return the shape of nested lists, from the first list of each level, with at most `depth` dimensions.

    Examples
    --------
    >>> nested_shape([[1, 2, 3], [4, 5, 6]]), nested_shape([[1, 2, 3], [4, 5, 6]], 1), nested_shape(7)
    ([2, 3], [2], [])
    """
    shape: list[int] = []
    while isinstance(value, list) and len(shape) < depth:
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return shape


def nested_array(value: Any, shape: Sequence[int]) -> npt.NDArray[Any]:
    """Return the elements of nested lists as an array of objects.

    Examples
    --------
    >>> nested_array([[1, 2], [3, 4]], [2, 2]).tolist()
    [[1, 2], [3, 4]]
    """
    if len(shape) > MAX_RANK:
        raise invalid(f"Nesting level exceeds maximum rank of {MAX_RANK}")
    values = np.empty(shape, object)
    _fill(values, value, ())
    return values


def _fill(values: npt.NDArray[Any], value: Any, position: tuple[int, ...]) -> None:
    depth, shape = len(position), values.shape
    if depth == len(shape):
        values[position] = value
        return
    if not isinstance(value, list):
        raise invalid(
            f"Expected rank-{len(shape)} array, but found non-array element {dump(value)} at position {[*position]}."
        )
    if len(value) != shape[depth]:
        raise invalid(
            f"Expected array of shape {[*shape]}, but found array element {dump(value)} of length {len(value)} "
            f"at position {[*position]}."
        )
    for number, inner in enumerate(value):
        _fill(values, inner, (*position, number))
