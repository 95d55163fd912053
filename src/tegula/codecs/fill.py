"""Whether a chunk holds nothing but the fill value, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["equals_fill"]


def equals_fill(chunk: npt.NDArray[Any], fill: npt.NDArray[Any] | None) -> bool:
    """Return whether every element of `chunk` is the fill value, bit for bit.

    Negative zero is not zero, and a NaN equals a NaN of the same bits only. Without a fill value nothing equals it.

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
        value = fill[()]
        return all(type(item) is type(value) and _same(item, value) for item in chunk.flat)
    if chunk.size == 0 or chunk.dtype.itemsize == 0:
        return True
    # with the dots the element stays an array: a scalar of text would drop the NULs at its end
    first: tuple[Any, ...] = (*(0,) * chunk.ndim, ...)
    if chunk[first].tobytes() != fill.tobytes():
        return False
    raw = np.ascontiguousarray(chunk).reshape(-1).view("u1")
    return bool(np.array_equal(raw[chunk.dtype.itemsize :], raw[: -chunk.dtype.itemsize]))


def _same(one: Any, other: Any) -> bool:
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)
