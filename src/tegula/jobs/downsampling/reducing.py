"""Reduction of each block of values to one: the mean or the most frequent value, without missing ones, or the first.

The arithmetic is that of `tegula.jobs.downsampling.blocks`. This module adds missing values, times, and means of
floating-point numbers that do not lose digits, since sums are taken in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.errors import UnsupportedError
from tegula.jobs.downsampling.blocks import (
    downsample_values,
    float_sum,
    integer_mean,
    is_extension,
    mode_of,
    reduce_blocks,
)
from tegula.jobs.units import pieces
from tegula.metadata.conventions import missing_in

__all__ = ["METHODS", "check_method", "reduced"]

METHODS: Final = ("mean", "mode", "nearest")
_CELLS: Final = 2**19
_SCALE: Final = 2.0**-32  # keeps sums of the largest numbers finite

Values = npt.NDArray[Any]


def check_method(method: str, dtype: np.dtype[Any]) -> None:
    """Refuse a method that a data type does not have.

    Raises
    ------
    UnsupportedError
        If it is the mean of elements that are not numbers, booleans or times.
    """
    if method == "mean" and dtype.kind not in "biufcmM" and not is_extension(dtype):
        raise UnsupportedError(f"elements of type {dtype} have no mean; pass method='mode' or 'nearest'", field="dtype")


def reduced(
    values: Values, factors: Sequence[int], method: str, masks: Sequence[Any] = (), most: int = _CELLS
) -> Values:
    """Reduce each block of an array to one value; blocks at the far edges may be smaller.

    Parameters
    ----------
    values : ndarray
        The elements.
    factors : sequence of int
        The shape of a block.
    method : {"mean", "mode", "nearest"}
        The mean of integers and times is rounded to the nearest integer, ties to even. Of several most frequent values
        ``"mode"`` takes the smallest. ``"nearest"`` takes the first element of a block.
    masks : sequence of scalar
        Values that mark missing data, besides NaN and NaT. A block of such values only becomes the first of
        them, or NaN.
    most : int
        How many elements to reduce at a time, since intermediate results take about 40 bytes for each.

    Examples
    --------
    >>> reduced(np.array([[1.0, np.nan, 5.0], [2.0, 3.0, np.nan]]), (2, 2), "mean").tolist()
    [[2.0, 5.0]]
    >>> reduced(np.array([7, 7, 1, 2, 9], "u1"), (3,), "mode").tolist()
    [7, 2]
    """
    if method == "nearest":
        return downsample_values(values, [0] * values.ndim, factors, "stride")
    out = np.empty([-(-size // factor) for size, factor in zip(values.shape, factors)], values.dtype)
    block = int(np.prod(factors, dtype=np.int64))
    for box in pieces(out.shape, (1,) * out.ndim, max(1, min(most, _CELLS) // block)):
        part = tuple(slice(axis.start * factor, axis.stop * factor) for axis, factor in zip(box, factors))
        out[box] = _piece(values[part], factors, method, masks)
    return out


def _piece(values: Values, factors: Sequence[int], method: str, masks: Sequence[Any]) -> Values:
    dtype = values.dtype
    origin = [0] * values.ndim
    values = values.astype(dtype.newbyteorder("="), copy=False) if dtype.isbuiltin != 2 else values
    is_missing = None
    if dtype.kind not in "OV":
        is_missing = missing_in(values, masks)
    elif is_extension(dtype) and "int" not in dtype.name:
        is_missing = missing_in(values.astype("f8"), [float(mask) for mask in masks])
    counted = None if is_missing is None else ~is_missing
    known = (values,) if counted is None else (values, counted)
    if method == "mode":
        found = reduce_blocks(mode_of, origin, factors, *known)
    elif dtype.kind in "mM":
        found = reduce_blocks(_integers, origin, factors, values.view("i8"), *known[1:]).view(values.dtype)
    elif dtype.kind in "biu" or "int" in dtype.name:
        found = reduce_blocks(_integers, origin, factors, *known)
    else:
        found = reduce_blocks(_floats, origin, factors, *known)
    if counted is not None:  # blocks without a value
        some = reduce_blocks(lambda cells: cells.any(axis=-1), origin, factors, counted)
        found[~some] = masks[0] if len(masks) else _nothing(values.dtype)
    return found


def _nothing(dtype: np.dtype[Any]) -> Any:
    """Return NaN or NaT."""
    return dtype.type("NaT") if dtype.kind in "mM" else np.nan


def _integers(cells: Values, counted: Values | None = None) -> Values:
    if counted is None:
        return integer_mean(cells, cells.shape[-1]).astype(cells.dtype)
    zero = np.zeros((), cells.dtype)
    return integer_mean(np.where(counted, cells, zero), np.maximum(counted.sum(axis=-1), 1)).astype(cells.dtype)


@np.errstate(all="ignore")
def _floats(cells: Values, counted: Values | None = None) -> Values:
    dtype = cells.dtype
    wide = np.dtype("c16" if dtype.kind == "c" else "f8")
    wide = np.promote_types(wide, dtype) if not is_extension(dtype) else wide  # long doubles stay long doubles
    count: Any = cells.shape[-1]
    if counted is not None:
        cells = np.where(counted, cells, np.zeros((), dtype))
        count = np.maximum(counted.sum(axis=-1), 1)
    total = float_sum(cells, wide)
    # if the sum overflows though no value is infinite, scaled values are summed
    lost = ~np.isfinite(total)
    if lost.any():
        lost &= np.isfinite(cells.astype(wide)).all(axis=-1)
        part = float_sum(cells[lost].astype(wide) * _SCALE, wide) if lost.any() else total[lost]
        total[lost] = part / (count if np.ndim(count) == 0 else count[lost])
        count = np.where(lost, 1, count)
        found = np.asarray(_divided(total, count))
        found[lost] /= _SCALE
        return found.astype(dtype)
    return _divided(total, count).astype(dtype)


def _divided(total: Values, count: Any) -> Values:
    if total.dtype.kind != "c":
        return np.asarray(total / count)
    out = np.empty(total.shape, total.dtype)
    out.real, out.imag = total.real / count, total.imag / count
    return out
