"""Whether a chunk holds nothing but the fill value, to the bit."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["equals_fill"]

_PLAIN: Final = frozenset({str, bytes, int, bool, type(None)})


def equals_fill(chunk: npt.NDArray[Any], fill: npt.NDArray[Any] | None) -> bool:
    """Return whether every element of `chunk` is the fill value, bit for bit.

    Negative zero is not zero, and a NaN equals a NaN of the same bits only. Of objects, text, bytes, numbers and
    ``None`` can be equal; containers never are. Without a fill value nothing equals it.

    Parameters
    ----------
    chunk : ndarray
        Any shape and memory layout.
    fill : 0-d ndarray or None
        Of the chunk's dtype.

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
    # with the dots the element stays an array: a scalar of text would drop the NULs at its end
    first: tuple[Any, ...] = (*(0,) * chunk.ndim, ...)
    if chunk[first].tobytes() != fill.tobytes():
        return False
    raw = np.ascontiguousarray(chunk).reshape(-1).view("u1")
    return bool(np.array_equal(raw[chunk.dtype.itemsize :], raw[: -chunk.dtype.itemsize]))


def _all_equal(chunk: npt.NDArray[Any], value: Any) -> bool:
    kind = type(value)
    if kind in _PLAIN:
        return all(type(item) is kind and item == value for item in chunk.flat)
    if kind is not float:
        return False  # == on what a container holds takes True for 1
    bits = struct.pack("d", value)
    return all(type(item) is float and struct.pack("d", item) == bits for item in chunk.flat)
