"""Comparison of a chunk with the fill value, bit by bit."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["equals_fill"]

_PLAIN: Final = frozenset({str, bytes, int, bool, type(None)})


def equals_fill(chunk: npt.NDArray[Any], fill: npt.NDArray[Any] | None) -> bool:
    """Return whether every element of `chunk` equals the fill value, bit by bit.

    Negative zero differs from zero, and a NaN equals only a NaN with the same bits. Objects can be equal if they are
    strings, bytes, numbers or ``None``; containers are never equal. Without a fill value the result is False.

    Parameters
    ----------
    chunk : ndarray
        Any shape and memory layout.
    fill : 0-d ndarray or None
        The fill value, of the chunk's dtype.

    Examples
    --------
    >>> equals_fill(np.full((2, 2), np.nan), np.array(np.nan)), equals_fill(np.zeros(3), np.array(-0.0))
    (True, False)
    """
    if fill is None:
        return False
    if chunk.dtype.kind == "O":
        return _all_equal(chunk, fill[()])
    if chunk.size == 0 or chunk.dtype.itemsize == 0:
        return True
    # index with `...` to get a 0-d array: a string scalar would lose trailing NULs
    first: tuple[Any, ...] = (*(0,) * chunk.ndim, ...)
    if chunk[first].tobytes() != fill.tobytes():
        return False
    # the first element equals the fill value; all do if each equals the element before it
    raw = np.ascontiguousarray(chunk).reshape(-1).view("u1")
    return bool(np.array_equal(raw[chunk.dtype.itemsize :], raw[: -chunk.dtype.itemsize]))


def _all_equal(chunk: npt.NDArray[Any], value: Any) -> bool:
    kind = type(value)
    if kind in _PLAIN:
        return all(type(item) is kind and item == value for item in chunk.flat)
    if kind is not float:
        return False  # == between containers does not distinguish True from 1
    bits = struct.pack("d", value)
    return all(type(item) is float and struct.pack("d", item) == bits for item in chunk.flat)
