"""Fill values: arrays that broadcast to a domain, from arguments and JSON, in the data type of the schema."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tegula.tensorstore.constraints.casting import convert, convertible, from_json_to
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.errors import StatusError, annotate, invalid, type_error
from tegula.tensorstore.json import NumberRangeError, each, nested_array, to_json_value

__all__ = ["as_dtype", "check_broadcast", "equal", "from_argument", "from_json", "read_elements", "stripped", "to_json"]

Array: TypeAlias = npt.NDArray[Any]

_OPAQUE = frozenset(("char", "byte"))
_OBJECT = np.dtype(object)


def from_argument(value: Any, wanted: dtype | None) -> Array:
    """Return the array for a fill value given in Python, converted to `wanted` if that is given."""
    if isinstance(value, np.ndarray):
        array = value
    elif wanted is not None and wanted.numpy_dtype == _OBJECT:
        array = np.array(value, object)
    else:
        try:
            array = np.array(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise invalid(str(error)) from None
    array = stripped(array)
    if array.dtype == _OBJECT and (wanted is None or wanted.name == "json"):
        return each(array, to_json_value, _OBJECT)
    if wanted is None:
        dtype(array.dtype)  # raises for dtypes without a data type
        return array.copy()
    return as_dtype(array, wanted)


def from_json(value: Any, wanted: dtype | None) -> Array:
    """Return the array for a fill value given in JSON; without `wanted`, its elements are JSON values."""
    array = nested_array(value)
    return stripped(array if wanted is None else read_elements(array, wanted))


def to_json(array: Array, wanted: dtype | None) -> Any:
    """Return the JSON for a fill value, in its own data type if that is not `wanted`."""
    if array.dtype.kind == "U":
        return array.tolist()
    if array.dtype == _OBJECT:
        encoded = any(isinstance(element, bytes) for element in array.flat)
        return (convert(array, "string", "json", _OBJECT) if encoded else array).tolist()
    kind = wanted if wanted is not None and wanted.numpy_dtype == array.dtype else dtype(array.dtype)
    if kind.name in _OPAQUE:
        return np.frombuffer(array.tobytes(), np.uint8).reshape(_unpacked(array).shape).tolist()
    if array.dtype.kind in "mM":
        return np.where(np.isnat(array), "NaT", array.astype(np.int64).astype(object)).tolist()
    if kind.numpy_dtype.names:
        return each(array, lambda record: base64.b64encode(record.tobytes()).decode(), _OBJECT).tolist()
    if not convertible(kind.name, "json"):
        raise invalid(f"Conversion from {kind.name} to JSON is not implemented")
    return convert(array, kind.name, "json", _OBJECT).tolist()


def stripped(array: Array) -> Array:
    """Return a fill value without repetition: broadcast dimensions get size 1, leading ones of size 1 are removed."""
    for axis, (size, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        if size > 1 and stride == 0:
            array = np.take(array, [0], axis)
    while array.ndim and array.shape[0] == 1:
        array = array[0, ...]
    return array


def as_dtype(array: Array, wanted: dtype) -> Array:
    """Return a fill value in another data type."""
    target = wanted.numpy_dtype
    if array.dtype == _OBJECT and target != _OBJECT:
        return read_elements(array, wanted)
    if wanted.name == "json":
        return array if array.dtype == _OBJECT else convert(array, dtype(array.dtype).name, "json", target)
    if array.dtype == target and array.dtype != _OBJECT:
        return array.copy()
    if target == _OBJECT:
        kind = str if wanted.name == "ustring" else bytes
        for element in array.reshape(-1).tolist():
            if not isinstance(element, kind):
                raise type_error(f"expected {kind.__name__}, {type(element).__name__} found")
        return array.astype(object)
    if wanted.name in _OPAQUE and array.dtype.kind in "SV":
        return stripped(_unpacked(array)).view(target)
    if array.dtype.kind != "c" or target.kind == "c" or not array.imag.any():
        plain = array.real if array.dtype.kind == "c" and target.kind != "c" else array
        with np.errstate(all="ignore"):
            try:
                converted = np.asarray(plain).astype(target)
            except (TypeError, ValueError, OverflowError) as error:
                raise invalid(str(error)) from None
        rounded = target.kind in "fc" or "float" in target.name
        if rounded or array.dtype.kind not in "iufcb" or plain.tolist() == converted.tolist():
            return converted
    raise NumberRangeError("INVALID_ARGUMENT", f"Value {array.tolist()} cannot be represented as {wanted.name}")


def check_broadcast(array: Array, shape: Sequence[int]) -> None:
    """Refuse a fill value that does not broadcast to a shape."""
    wanted = (*reversed(shape), *[1] * array.ndim)
    if any(size not in (1, full) for size, full in zip(reversed(array.shape), wanted)):
        raise invalid(f"Cannot broadcast array of shape {[*array.shape]} to target shape {[*shape]}")


def equal(first: Array, second: Array) -> bool:
    """Return whether two fill values are the same; NaNs are equal."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    if first.dtype.kind in "fc":
        return bool(np.array_equal(first, second, equal_nan=True))
    return bool(np.array_equal(first, second)) or (first.dtype != _OBJECT and first.tobytes() == second.tobytes())


def read_elements(array: Array, wanted: dtype) -> Array:
    """Convert an array of JSON values to a data type."""
    target = wanted.numpy_dtype
    if wanted.name == "json":
        return array
    if target.kind == "c":
        array = _pairs(array, wanted)
    read = _reader(wanted)
    converted = np.empty(array.shape, target)
    with np.errstate(over="ignore"):
        for position in np.ndindex(array.shape):
            try:
                converted[position] = read(array[position])
            except OverflowError:
                converted[position] = np.inf
            except (TypeError, ValueError, IndexError) as error:
                reason = error if isinstance(error, StatusError) else invalid(str(error))
                raise annotate(reason, f"Error parsing array element at position {[*position]}") from None
    return converted


def _reader(wanted: dtype) -> Callable[[Any], Any]:
    """Return the reader of an element in JSON, which for some types differs from what `convert` reads."""
    target = wanted.numpy_dtype
    if target.kind in "cU":
        return lambda value: value
    if target.names:
        return lambda value: np.frombuffer(base64.b64decode(value), target)[0]
    if wanted.name in _OPAQUE:
        return lambda value: bytes([value]) if isinstance(value, int) else str(value).encode("latin-1")
    if target.kind in "mM":
        return lambda value: np.array(value).astype(target)
    if not convertible("json", wanted.name):
        raise invalid(f"Conversion from JSON to {wanted.name} is not implemented")
    return from_json_to(wanted.name)


def _pairs(array: Array, wanted: dtype) -> Array:
    """Join pairs of real and imaginary parts along the last dimension."""
    kind = dtype(np.dtype("f4" if wanted.numpy_dtype.itemsize == 8 else "f8"))
    if all(isinstance(element, complex) for element in array.reshape(-1)):
        return array
    if not array.ndim or array.shape[-1] != 2:
        raise invalid(f"Expected pairs of numbers for {wanted.name}")
    return stripped(read_elements(array, kind).view(wanted.numpy_dtype)[..., 0])


def _unpacked(array: Array) -> Array:
    """Return multi-byte strings as single bytes along an additional dimension."""
    size = array.dtype.itemsize
    if size == 1:
        return array
    return np.frombuffer(array.tobytes(), np.dtype((array.dtype.type, 1))).reshape(*array.shape, size)
