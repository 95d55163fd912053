"""Types of Arrow: the type of each column, and NumPy values as Arrow arrays. pyarrow is imported at its first use.

| NumPy | Arrow |
|---|---|
| bool, whole numbers, floats of 16, 32 and 64 bits | the same |
| `datetime64` in s, ms, us or ns; in h or m | `timestamp` of that unit; of seconds; NaT is null |
| `datetime64` in Y, M, W or D | `date32`; NaT is null |
| `timedelta64` in s, ms, us or ns; in W, D, h or m | `duration` of that unit; of seconds; NaT is null |
| text, of fixed or variable length | `string` |
| byte strings, of fixed or variable length | `binary`, without the padding |
| raw bytes (`V8`) | `fixed_size_binary` |
| complex numbers | a `struct` of `real` and `imag` |
| records | a `struct` of their fields |
| rows that are arrays | nested `fixed_size_list` |
| Python objects | what pyarrow infers from the first rows |

Numbers in the machine's byte order are passed on as they are, without a copy.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array as Column
from tegula.errors import MetadataError, UnsupportedError
from tegula.metadata.data_types import EXTENDED_DTYPES
from tegula.runtime.optional import library

__all__ = ["arrow_array", "arrow_field"]

Array = npt.NDArray[Any]

_DATES: Final = ("Y", "M", "W", "D")
_SECONDS: Final = {"M": ("h", "m"), "m": ("W", "D", "h", "m")}
_UNITS: Final = ("s", "ms", "us", "ns")
_TOO_LONG: Final = "a batch holds more than 2 GiB of text; read fewer rows at once with scan(batch_rows=...)"
_LEAVE_OUT: Final = "leave the column out with columns=[...]"


def arrow_field(name: str, column: Column) -> Any:
    """Return the field of an Arrow schema for a column; for Python objects it reads the first chunk.

    Raises
    ------
    UnsupportedError
        If Arrow has no type for the column.

    Examples
    --------
    >>> import tegula
    >>> arrow_field("a", tegula.create_array({}, shape=(9, 3), dtype=">M8[D]", format="zarr2"))
    pyarrow.Field<a: fixed_size_list<item: date32[day]>[3]>
    """
    arrow = library("pyarrow")
    data_type = column.metadata.data_type
    if data_type.variable == "object":
        kind = _inferred(name, np.asarray(column[: column.metadata.grid.axes[0].longest()]))
    elif data_type.variable:
        kind = arrow.string() if data_type.variable == "string" else arrow.binary()
    else:
        kind = _arrow_type(name, data_type.numpy)
    return arrow.field(name, _lists(kind, column.shape[1:]))


def _inferred(name: str, values: Array) -> Any:
    arrow = library("pyarrow")
    try:
        return arrow.infer_type(values.reshape(-1))
    except (arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UnsupportedError(f"Arrow has no type for these objects: {error}; {_LEAVE_OUT}", field=name) from error


def _lists(kind: Any, shape: tuple[int, ...]) -> Any:
    for size in reversed(shape):
        kind = library("pyarrow").list_(kind, size)
    return kind


def _arrow_type(name: str, dtype: np.dtype[Any]) -> Any:
    arrow = library("pyarrow")
    if dtype.subdtype is not None:
        return _lists(_arrow_type(name, dtype.base), dtype.shape)
    if dtype.names is not None:
        return arrow.struct([(field, _arrow_type(name, dtype[field])) for field in dtype.names])
    if dtype not in EXTENDED_DTYPES:
        if dtype.kind in "biuf" and dtype.itemsize <= 8:
            return arrow.from_numpy_dtype(dtype.newbyteorder("="))
        if dtype.kind == "c" and dtype.itemsize <= 16:
            part = arrow.float32() if dtype.itemsize == 8 else arrow.float64()
            return arrow.struct([("real", part), ("imag", part)])
        if dtype.kind in "US":
            return arrow.string() if dtype.kind == "U" else arrow.binary()
        if dtype.kind == "V":
            return arrow.binary(dtype.itemsize)
        unit = _time_unit(dtype)
        if unit:
            make = arrow.timestamp if dtype.kind == "M" else arrow.duration
            return arrow.date32() if unit == "D" else make(unit)
    raise UnsupportedError(f"Arrow has no type for {dtype}; {_LEAVE_OUT}", field=name)


def _time_unit(dtype: np.dtype[Any]) -> str:
    """Return the unit of a time in Arrow; empty if Arrow has none that holds it."""
    if dtype.kind not in "mM":
        return ""
    unit = np.datetime_data(dtype)[0]
    if dtype.kind == "M" and unit in _DATES:
        return "D"
    if unit in _SECONDS[dtype.kind]:
        return "s"
    return unit if unit in _UNITS else ""


def arrow_array(name: str, values: Array, kind: Any) -> Any:
    """Return values of a column as an Arrow array of the type that `arrow_field` has found.

    Raises
    ------
    MetadataError
        If Arrow can't represent a value, such as text that is not Unicode; the message names the column.
    """
    arrow = library("pyarrow")
    try:
        return _array(np.asarray(values), kind)
    except (arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise MetadataError(f"a value can't be passed on to Arrow: {error}", field=name) from error


def _array(values: Array, kind: Any) -> Any:
    arrow = library("pyarrow")
    if values.ndim > 1:
        flat = values.reshape(len(values) * values.shape[1], *values.shape[2:])
        return arrow.Array.from_buffers(kind, len(values), [None], children=[_array(flat, kind.value_type)])
    dtype = values.dtype
    if dtype.names is not None:
        children = [_array(values[field], kind.field(field).type) for field in dtype.names]
        return arrow.Array.from_buffers(kind, len(values), [None], children=children)
    if dtype.kind == "c":
        children = [_array(part, field.type) for part, field in zip((values.real, values.imag), kind)]
        return arrow.Array.from_buffers(kind, len(values), [None], children=children)
    if dtype.kind == "V":
        return arrow.Array.from_buffers(kind, len(values), [None, arrow.py_buffer(_bytes(values))])
    if dtype.kind in "US":
        return _text(values, kind)
    if dtype.kind in "mM":
        values = _times(values)
    array = arrow.array(values.astype(values.dtype.newbyteorder("="), copy=False), type=kind)
    if isinstance(array, arrow.ChunkedArray):
        raise OverflowError(_TOO_LONG)
    return array


def _bytes(values: Array) -> Any:
    """Return the bytes of values, without a copy if they are contiguous."""
    return np.ascontiguousarray(values).view(np.uint8) if values.nbytes else b""


def _times(values: Array) -> Array:
    """Convert times to the unit that they have in Arrow."""
    unit = _time_unit(values.dtype)
    converted = values.astype(f"{values.dtype.kind}8[{unit}]", copy=False)
    limits = np.iinfo(np.int32 if unit == "D" else np.int64)
    numbers = converted.view(np.int64)
    outside = ((numbers < limits.min) | (numbers > limits.max)) & ~np.isnat(values)
    if outside.any() or not np.array_equal(converted.astype(values.dtype, copy=False), values, equal_nan=True):
        raise OverflowError(f"a time of {values.dtype} is out of Arrow's range")
    return converted


def _text(values: Array, kind: Any) -> Any:
    """Return text or byte strings of fixed width, without the padding, but with NUL inside."""
    arrow = library("pyarrow")
    wide = values.dtype.kind == "U"
    width = values.dtype.itemsize // (4 if wide else 1)
    code = np.dtype("u4" if wide else "u1").newbyteorder(values.dtype.byteorder)
    codes = np.frombuffer(_bytes(values), code).reshape(len(values), width)
    if wide and codes.size and codes.max() >= 128:
        return arrow.array(values.astype(object), type=kind)
    lengths = np.char.str_len(values)
    offsets = np.zeros(len(values) + 1, np.int32)
    if lengths.sum() > np.iinfo(np.int32).max:
        raise OverflowError(_TOO_LONG)
    np.cumsum(lengths, out=offsets[1:])
    letters = codes.astype(np.uint8, copy=False)
    content = letters[letters != 0]
    if len(content) < offsets[-1]:  # text contains NUL that is not padding
        content = letters[np.arange(width) < lengths[:, None]]
    return arrow.Array.from_buffers(kind, len(values), [None, arrow.py_buffer(offsets), arrow.py_buffer(content)])
