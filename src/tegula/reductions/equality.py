"""Equality of values, element by element or bit by bit, in any byte order."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.metadata.data_types import DataType, packed
from tegula.metadata.fill_values import is_empty
from tegula.metadata.json_values import equal_json
from tegula.reductions.dtypes import computable

__all__ = ["are_comparable", "equal_values", "identical", "native"]

_PIECE: Final = 2**20  # bytes that are compared at once


def are_comparable(one: DataType, other: DataType) -> bool:
    """Return whether values of two types can be equal."""
    if one.numpy.names is not None or other.numpy.names is not None:
        return native(one) == native(other)
    first, second = _kind(one), _kind(other)
    return first == second and (first != "void" or one.numpy.itemsize == other.numpy.itemsize)


def native(data_type: DataType) -> np.dtype[Any]:
    """Return the data type of elements in memory, in native byte order and without padding between fields."""
    return packed(data_type.numpy).newbyteorder("=")


def _kind(data_type: DataType) -> str:
    dtype = data_type.numpy
    if dtype.kind == "O":
        return {"string": "text", "bytes": "bytes"}.get(data_type.variable, "object")
    if dtype.kind == "V":
        return "void" if issubclass(dtype.type, np.void) else "number"
    return {"U": "text", "S": "bytes", "M": "time", "m": "duration"}.get(dtype.kind, "number")


def equal_values(
    one: npt.NDArray[Any], other: npt.NDArray[Any], types: tuple[DataType, DataType], exact: bool
) -> npt.NDArray[np.bool_]:
    """Return for each pair of elements whether they are equal.

    NaN equals NaN, NaT equals NaT, and -0.0 equals 0.0; structures are equal if all their fields are. With `exact` the
    bits of elements of one type must be the same, in any byte order and apart from padding between fields.
    """
    one, other = (values.astype(packed(values.dtype).newbyteorder("="), copy=False) for values in (one, other))
    if one.dtype.hasobject or other.dtype.hasobject:
        empty: Any = {"text": "", "bytes": b""}.get(_kind(types[0]))
        pairs = zip(one.ravel().tolist(), other.ravel().tolist())
        same = (
            _equal_objects(a, b, exact) if empty is None else equal_json(_text(a, empty), _text(b, empty))
            for a, b in pairs
        )
        return np.fromiter(same, bool, one.size).reshape(one.shape)
    if one.dtype == other.dtype and (exact or (issubclass(one.dtype.type, np.void) and one.dtype.names is None)):
        return _equal_bits(one, other)
    if one.dtype.names is not None:
        same_fields = [equal_values(one[name], other[name], types, exact) for name in one.dtype.names]
        own = [part.reshape(*one.shape, -1).all(axis=-1) for part in same_fields]  # a field may be a subarray
        return np.logical_and.reduce(own) if own else np.ones(one.shape, bool)
    return _equal_numbers(one, other)


def _equal_numbers(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    one, other = computable(one), computable(other)
    if "c" in (one.dtype.kind, other.dtype.kind):
        return _equal_numbers(one.real, other.real) & _equal_numbers(one.imag, other.imag)
    same: npt.NDArray[np.bool_] = np.asarray(one == other)
    if one.dtype.kind in "Mm":
        same |= np.isnat(one) & np.isnat(other)
    elif one.dtype.kind == "f" and other.dtype.kind == "f":
        same |= np.isnan(one) & np.isnan(other)
    return same


def _equal_bits(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    size = one.dtype.itemsize
    if not size:
        return np.ones(one.shape, bool)
    unit, number = (f"u{size}", 1) if size in (1, 2, 4, 8) else ("u1", size)
    shape = (*one.shape, number)
    old, new = (np.ascontiguousarray(values).reshape(-1).view(unit).reshape(shape) for values in (one, other))
    same: npt.NDArray[np.bool_] = (old == new).all(axis=-1)
    return same


def _text(value: Any, empty: Any) -> Any:
    """Return text or bytes: Zarr v2 reads missing ones as its fill value, which may be 0 or null."""
    return empty if is_empty(value) else value


def _equal_objects(one: Any, other: Any, exact: bool) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.shape != other.shape or (exact and one.dtype != other.dtype):
            return False
        types = DataType(one.dtype), DataType(other.dtype)
        return are_comparable(*types) and bool(equal_values(one, other, types, exact).all())
    return equal_json(one, other)


def identical(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> bool:
    """Return whether values are equal bit by bit, in any byte order."""
    if old.shape != new.shape:
        return False
    if old.dtype.hasobject:
        return all(
            np.array_equal(a, b) if isinstance(a, np.ndarray) else equal_json(a, b) for a, b in zip(old.flat, new.flat)
        )
    if old.dtype != new.dtype:
        old = old.astype(new.dtype)
    if old.nbytes <= _PIECE:
        return old.tobytes() == new.tobytes()
    one, other = (np.ascontiguousarray(each).reshape(-1).view("u1") for each in (old, new))
    pieces = range(0, len(one), _PIECE)
    return all(one[start : start + _PIECE].tobytes() == other[start : start + _PIECE].tobytes() for start in pieces)
