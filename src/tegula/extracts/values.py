"""Conversion of values to JSON.

Numbers and booleans stay what they are. ``NaN`` and the infinities become strings, complex numbers become
``[real, imaginary]``, dates become ISO 8601 strings, durations strings with their unit. Bytes become a string if they
are valid UTF-8 and ``base64:…`` otherwise, structured elements become objects. A float has the fewest digits that
identify it among the floats of its size.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from math import isfinite, isnan, prod
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["array_to_json", "json_text", "to_json"]


def json_text(value: Any, indent: int | None = None) -> str:
    """Write JSON as text; characters that a terminal would not show as they are become escapes, which mean the same.

    Examples
    --------
    >>> print(json_text(["é", "\\x9b31m\\u202e"]))
    ["é", "\\u009b31m\\u202e"]
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    if text.isprintable():
        return text
    return "".join(letter if letter == "\n" or letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def to_json(value: Any) -> Any:
    """Convert a value to JSON.

    Examples
    --------
    >>> to_json({"fill": float("nan"), "shape": (2, 3), "raw": b"\\xff"})
    {'fill': 'NaN', 'shape': [2, 3], 'raw': 'base64:/w=='}
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else _special(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes(bytes(value))
    if isinstance(value, (np.ndarray, np.generic)):
        return array_to_json(np.asarray(value))
    if isinstance(value, Mapping):
        return {str(name): to_json(item) for name, item in value.items()}
    if isinstance(value, (Sequence, set, frozenset)):
        return [to_json(item) for item in value]
    return str(value)


def array_to_json(values: npt.NDArray[Any]) -> Any:
    """Convert an array to nested lists; a 0-d array to its value.

    Examples
    --------
    >>> array_to_json(np.array([[0.1, np.inf]], "f4"))
    [[0.1, 'Infinity']]
    >>> array_to_json(np.array((1, 2 + 3j), "u1,c16"))
    {'f0': 1, 'f1': [2.0, 3.0]}
    """
    if 0 in values.shape:
        return np.zeros(values.shape).tolist()
    items = _elements(values.reshape(-1))
    for size in reversed(values.shape[1:]):
        items = [items[start : start + size] for start in range(0, len(items), size)]
    return items if values.ndim else items[0]


def _elements(values: npt.NDArray[Any]) -> list[Any]:
    """Return the elements of a 1-d array."""
    dtype = values.dtype
    if dtype.names is not None:
        fields = [_field(values[name]) for name in dtype.names]
        return [dict(zip(dtype.names, row)) for row in zip(*fields)] if fields else [{} for _ in values]
    if issubclass(dtype.type, np.void):
        return [_base64(item.tobytes()) for item in values]
    if issubclass(dtype.type, np.floating):
        return _floats(values)
    if dtype.kind in "biuU":
        return [*values.tolist()]
    if dtype.kind == "c":
        return [list(pair) for pair in zip(_floats(values.real), _floats(values.imag))]
    if dtype.kind in "Mm":
        return _times(values)
    if dtype.kind == "S":
        return [_bytes(item) for item in values.tolist()]
    if dtype.kind == "O":
        return [to_json(item) for item in values]
    if "int" in dtype.name:  # types of ml_dtypes
        return [*values.astype("i8").tolist()]
    return _floats(values.astype("f8"))


def _field(values: npt.NDArray[Any]) -> list[Any]:
    if values.ndim > 1:  # the field is an array itself
        shape = values.shape[1:]
        return [array_to_json(item) for item in values] if prod(shape) else [np.zeros(shape).tolist() for _ in values]
    return _elements(values)


def _floats(values: npt.NDArray[Any]) -> list[Any]:
    if values.dtype.itemsize > 8:
        return [float(item) if item == np.float64(item) else str(item) for item in values]
    # the shortest text of a smaller float, parsed as a float64, keeps its digits
    items = (values if values.dtype.itemsize == 8 else values.astype("U").astype("f8")).tolist()
    return items if np.isfinite(values).all() else [item if isfinite(item) else _special(item) for item in items]


def _special(value: float) -> str:
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _times(values: npt.NDArray[Any]) -> list[Any]:
    if values.dtype.kind == "M" and np.datetime_data(values.dtype)[0] != "generic":
        return [*np.datetime_as_string(values).tolist()]
    if values.dtype.kind == "M":  # dates without a unit have no text but that of their numbers
        return ["NaT" if empty else str(item) for empty, item in zip(np.isnat(values), values.astype("i8"))]
    return [str(item) for item in values]


def _bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _base64(value)


def _base64(value: bytes) -> str:
    return "base64:" + base64.b64encode(value).decode()
