"""Fill values: arrays that are spread over a domain, as arguments, as JSON, and in the data type of the schema."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tegula.tensorstore.constraints.casting import convert, convertible
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.errors import StatusError, annotate, status, type_error
from tegula.tensorstore.json.arguments import braces
from tegula.tensorstore.json.binding import dump
from tegula.tensorstore.json.values import NumberRangeError, to_json_value

__all__ = ["as_dtype", "check_broadcast", "equal", "from_argument", "from_json", "shown", "stripped", "to_json"]

Array: TypeAlias = npt.NDArray[Any]

_OPAQUE = frozenset(("char", "byte"))
_OBJECT = np.dtype(object)


def from_argument(value: Any, wanted: dtype | None) -> Array:
    """Return a fill value given in Python as an array, of the wanted data type if there is one.

    Examples
    --------
    >>> from_argument([[1, 1]], None)
    array([1, 1])
    """
    if isinstance(value, np.ndarray):
        array = value
    elif wanted is not None and wanted.numpy_dtype == _OBJECT:
        array = np.array(value, object)
    else:
        try:
            array = np.array(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise status("INVALID_ARGUMENT", str(error)) from None
    array = stripped(array)
    if array.dtype == _OBJECT and (wanted is None or wanted.name == "json"):
        return _each_json(array)
    if wanted is None:
        dtype(array.dtype)  # refuses what has no data type here
        return array.copy()
    return as_dtype(array, wanted)


def from_json(value: Any, wanted: dtype | None) -> Array:
    """Return a fill value given in JSON as an array; without a data type its elements are JSON values.

    Examples
    --------
    >>> from tegula.tensorstore.constraints.dtypes import uint8
    >>> from_json([[1, 2], [3, 4]], uint8).tolist()
    [[1, 2], [3, 4]]
    """
    items, shape = _nested(value)
    array = np.empty(shape, object)
    flat = array.reshape(-1)
    for number, item in enumerate(items):
        flat[number] = item
    return stripped(array if wanted is None else _read(array, wanted))


def to_json(array: Array, kind: dtype) -> Any:
    """Return a fill value as JSON.

    Examples
    --------
    >>> from tegula.tensorstore.constraints.dtypes import float32
    >>> to_json(np.array([1.5, 2], "f4"), float32)
    [1.5, 2.0]
    """
    if kind.name == "json":
        return array.tolist()
    if array.dtype.kind == "U":
        return array.tolist()
    if kind.name in _OPAQUE:
        return np.frombuffer(array.tobytes(), np.uint8).reshape(_unpacked(array).shape).tolist()
    if array.dtype.kind in "mM":
        return np.where(np.isnat(array), "NaT", array.astype(np.int64).astype(object)).tolist()
    if kind.numpy_dtype.names:
        return np.vectorize(_record_text, otypes=[object])(array).tolist() if array.ndim else _record_text(array)
    if not convertible(kind.name, "json"):
        raise status("INVALID_ARGUMENT", f"Conversion from {kind.name} to JSON is not implemented")
    return convert(array, kind.name, "json", _OBJECT).tolist()


def stripped(array: Array) -> Array:
    """Return a fill value without the leading dimensions that only repeat it.

    Examples
    --------
    >>> stripped(np.array([[[1, 2]]])).shape, stripped(np.broadcast_to(5, (3, 4))).shape
    ((2,), ())
    """
    for axis, (size, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        if size > 1 and stride == 0:
            array = np.take(array, [0], axis)
    while array.ndim and array.shape[0] == 1:
        array = array[0, ...]
    return array


def as_dtype(array: Array, wanted: dtype) -> Array:
    """Return a fill value in another data type.

    Raises
    ------
    ValueError
        If a value would become another one. A float that is rounded to a shorter one is still the same.

    Examples
    --------
    >>> from tegula.tensorstore.constraints.dtypes import uint8
    >>> as_dtype(np.array(42.0), uint8)
    array(42, dtype=uint8)
    """
    target = wanted.numpy_dtype
    if array.dtype == _OBJECT and target != _OBJECT:
        return _read(array, wanted)
    if wanted.name == "json":
        return array if array.dtype == _OBJECT else convert(array, dtype(array.dtype).name, "json", target)
    if array.dtype == target and array.dtype != _OBJECT:
        return array.copy()
    if target == _OBJECT:
        kind = str if wanted.name == "ustring" else bytes
        if not all(isinstance(item, kind) for item in array.reshape(-1).tolist()):
            raise type_error(f"expected {kind.__name__}, {type(array.reshape(-1).tolist()[0]).__name__} found")
        return array.astype(object)
    if wanted.name in _OPAQUE and array.dtype.kind in "SV":
        return stripped(_unpacked(array)).view(target)
    fits = array.dtype.kind != "c" or target.kind == "c" or not array.imag.any()
    if fits:
        plain = array.real if array.dtype.kind == "c" and target.kind != "c" else array
        with np.errstate(all="ignore"):
            try:
                converted = np.asarray(plain).astype(target)
            except (TypeError, ValueError, OverflowError) as error:
                raise status("INVALID_ARGUMENT", str(error)) from None
        rounded = target.kind in "fc" or "float" in target.name
        if rounded or array.dtype.kind not in "iufcb" or plain.tolist() == converted.tolist():
            return converted
    raise NumberRangeError("INVALID_ARGUMENT", f"Value {shown(array)} cannot be represented as {wanted.name}")


def check_broadcast(array: Array, shape: Sequence[int]) -> None:
    """Refuse a fill value that can't be spread over a shape."""
    extra = max(0, array.ndim - len(shape))
    sizes = (1,) * (len(shape) - array.ndim) + array.shape
    if any(size != 1 for size in sizes[:extra]) or any(
        size not in (1, wanted) for size, wanted in zip(sizes[extra:], shape, strict=True)
    ):
        raise status(
            "INVALID_ARGUMENT",
            f"Cannot broadcast array of shape {braces(array.shape)} to target shape {braces(shape)}",
        )


def equal(first: Array, second: Array) -> bool:
    """Say whether two fill values are the same; one NaN is as good as another.

    Examples
    --------
    >>> equal(np.array(np.nan), np.array(np.nan)), equal(np.array(1), np.array([1, 1]))
    (True, False)
    """
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    if first.dtype.kind in "fc":
        return bool(np.array_equal(first, second, equal_nan=True))
    return bool(np.array_equal(first, second)) or (first.dtype != _OBJECT and first.tobytes() == second.tobytes())


def shown(array: Array) -> str:
    """Return a fill value as messages show it.

    Examples
    --------
    >>> shown(np.array([[1, 2], [3, 4]]))
    '{{1, 2}, {3, 4}}'
    """
    if array.ndim:
        return "{" + ", ".join(shown(np.asarray(item)) for item in array) + "}"
    value = array.item()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _nested(value: Any) -> tuple[list[Any], tuple[int, ...]]:
    """Return the items of nested lists one after the other, and their shape."""
    shape: list[int] = []
    inner = value
    while isinstance(inner, list):
        shape.append(len(inner))
        if not inner:
            break
        inner = inner[0]
    items: list[Any] = []

    def walk(part: Any, position: tuple[int, ...]) -> None:
        if len(position) == len(shape):
            items.append(part)
            return
        if not isinstance(part, list):
            raise _ragged(shape, position, dump(part))
        if len(part) != shape[len(position)]:
            raise _ragged(shape, position, f"{dump(part)} of length {len(part)}")
        for number, item in enumerate(part):
            walk(item, (*position, number))

    walk(value, ())
    return items, tuple(shape)


def _ragged(shape: Sequence[int], position: Sequence[int], what: str) -> StatusError:
    where = f"at position {braces(position)}."
    return status(
        "INVALID_ARGUMENT", f"Expected array of shape {braces(shape)}, but found array element {what} {where}"
    )


def _read(array: Array, wanted: dtype) -> Array:
    """Convert JSON values, saying which one is wrong."""
    target = wanted.numpy_dtype
    if wanted.name == "json":
        return array
    if wanted.name in _OPAQUE or target.kind in "mM" or target.names:
        return _read_odd(array, wanted)
    if not convertible("json", wanted.name) and target.kind != "c":
        raise status("INVALID_ARGUMENT", f"Conversion from JSON to {wanted.name} is not implemented")
    if target.kind == "c":
        array = _pairs(array, wanted)
    converted = np.empty(array.shape, target)
    for position in np.ndindex(array.shape):
        item = np.empty((), object)
        item[()] = array[position]
        try:
            with np.errstate(over="ignore"):
                converted[position] = item[()] if target.kind == "c" else convert(item, "json", wanted.name, target)[()]
        except StatusError as error:
            raise annotate(error, f"Error parsing array element at position {braces(position)}") from None
        except OverflowError:
            converted[position] = np.inf
    return converted


def _pairs(array: Array, wanted: dtype) -> Array:
    """Join pairs of real and imaginary part in the last dimension."""
    part = np.dtype("f4" if wanted.numpy_dtype.itemsize == 8 else "f8")
    kind = dtype(part)
    if all(isinstance(item, complex) for item in array.reshape(-1)):
        return array
    if not array.ndim or array.shape[-1] != 2:
        raise status("INVALID_ARGUMENT", f"Expected pairs of numbers for {wanted.name}")
    numbers = _read(array, kind)
    joined = np.empty(numbers.shape[:-1], object)
    for position in np.ndindex(joined.shape):
        joined[position] = complex(*numbers[position].tolist())
    return stripped(joined)


def _read_odd(array: Array, wanted: dtype) -> Array:
    converted = np.empty(array.shape, wanted.numpy_dtype)
    for position in np.ndindex(array.shape):
        value: Any = array[position]
        try:
            if converted.dtype.names:
                converted[position] = np.frombuffer(base64.b64decode(value), converted.dtype)[0]
            elif wanted.name not in _OPAQUE:
                converted[position] = np.array(value).astype(converted.dtype)
            elif isinstance(value, int):
                converted[position] = bytes([value])
            else:
                converted[position] = str(value).encode("latin-1")
        except (TypeError, ValueError, IndexError) as error:
            raise status(
                "INVALID_ARGUMENT", f"Error parsing array element at position {braces(position)}: {error}"
            ) from None
    return converted


def _record_text(record: Array) -> str:
    """Return the bytes of a record as metadata have them."""
    return base64.b64encode(record.tobytes()).decode()


def _unpacked(array: Array) -> Array:
    """Return strings of several bytes as single bytes in one more dimension."""
    size = array.dtype.itemsize
    if size == 1:
        return array
    return np.frombuffer(array.tobytes(), np.dtype((array.dtype.type, 1))).reshape(*array.shape, size)


def _each_json(array: Array) -> Array:
    checked = np.empty(array.shape, object)
    for position in np.ndindex(array.shape):
        checked[position] = to_json_value(array[position])
    return checked
