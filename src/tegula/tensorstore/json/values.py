"""Conversion of Python values to JSON, and of JSON to the text of reprs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn

import numpy as np

from tegula.tensorstore.errors import StatusError, ValueStatusError, invalid, type_error

__all__ = [
    "NumberRangeError",
    "as_bytes",
    "conversion_error",
    "key_bytes",
    "key_text",
    "parse",
    "pretty",
    "sound_text",
    "to_json_value",
]

_WIDTH = 80
_DEPTH = 100


class NumberRangeError(ValueStatusError, OverflowError):
    """A number outside the range of its type."""


def conversion_error(error: Exception) -> StatusError:
    """Convert an error that NumPy or Python raised in a conversion to the corresponding error of this package."""
    if isinstance(error, StatusError):
        return error
    if isinstance(error, OverflowError):
        return NumberRangeError("INVALID_ARGUMENT", str(error))
    return type_error(str(error)) if isinstance(error, TypeError) else invalid(str(error))


def parse(document: bytes, parse_int: Callable[[str], Any] = int) -> Any:
    """Return the value of a JSON document, every part of which can be written again."""
    text = document.decode("utf-8-sig")
    value = json.loads(text, parse_constant=_no_number, parse_float=_finite_float, parse_int=parse_int)
    if re.search(r"\\u[dD]", text):
        json.dumps(value, ensure_ascii=False, default=str).encode()
    return value


def _finite_float(text: str) -> float:
    return number if math.isfinite(number := float(text)) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


def to_json_value(value: Any, room: int = _DEPTH) -> Any:
    """Convert a Python value to JSON: dict, list, str, int, float, bool or None; `room` is the maximum depth.

    Examples
    --------
    >>> import numpy as np
    >>> to_json_value({"shape": (np.int64(3), None)})
    {'shape': [3, None]}
    """
    kind = type(value)
    if kind is str and value.isascii():
        return value
    if room < 1:
        raise invalid("Recursion limit exceeded converting value to JSON")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return sound_text(str.__str__(value))  # NumPy's strings are a subclass
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise NumberRangeError("INVALID_ARGUMENT", "int too big to convert")
        return int(value)
    if kind is not dict and hasattr(value, "to_json") and not isinstance(value, type):
        return to_json_value(value.to_json(), room)
    if kind is dict or isinstance(value, Mapping):
        return {
            name if type(name) is str and name.isascii() else sound_text(str(name)): (
                element if type(element) is str and element.isascii() else to_json_value(element, room - 1)
            )
            for name, element in value.items()
        }
    if isinstance(value, (np.generic, np.ndarray)):
        return to_json_value(value.tolist(), room)
    if isinstance(value, Sequence):
        return [to_json_value(element, room - 1) for element in value]
    raise type_error(f"Object '{type(value).__name__}' does not support conversion to JSON")


def sound_text(value: str) -> str:
    """Return text if it can be encoded; surrogates may only stand for bytes of a path that are not UTF-8.

    Examples
    --------
    >>> sound_text("x")
    'x'
    """
    if not value.isascii():
        as_bytes(value, "text", "surrogateescape")
    return value


def as_bytes(value: Any, what: str, errors: Literal["strict", "surrogateescape"] = "strict") -> bytes:
    """Return text or bytes as bytes; `what` describes the value in errors."""
    if isinstance(value, str):
        try:
            return value.encode("utf-8", errors)
        except UnicodeEncodeError:
            raise type_error(f"{what} can't have lone surrogates: {value!r:.80}") from None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise type_error(f"{what} must be str or bytes, not {type(value).__name__}")


def key_text(key: Any) -> str:
    """Return a key as text; bytes that are not UTF-8 become lone surrogates."""
    encoded = as_bytes(key, "a key")
    return key if isinstance(key, str) else encoded.decode("utf-8", "surrogateescape")


def key_bytes(key: str) -> bytes:
    """Return the bytes of a key, by which keys are sorted."""
    return as_bytes(key, "a key", "surrogateescape")


def pretty(value: Any, before: str = "", after: str = "") -> str:
    """Return JSON as Python source, between `before` and `after`, in lines of up to 80 characters where possible.

    Examples
    --------
    >>> print(pretty({"rank": 2, "dtype": None}, "Schema(", ")"))
    Schema({'dtype': None, 'rank': 2})
    """
    return before + _pretty(value, _WIDTH, 0) + after


def _pretty(value: Any, room: int, indent: int) -> str:
    flat = _flat(value)
    if len(flat) <= room or not isinstance(value, (dict, list, tuple)) or not value:
        return flat
    margin = " " * (indent + 2)
    # each level leaves room for its comma
    width = _WIDTH - len(margin) - len(margin) // 2
    lines = []
    for name in sorted(value) if isinstance(value, dict) else range(len(value)):
        label = f"{_literal(name)}: " if isinstance(value, dict) else ""
        lines.append(f"{margin}{label}{_pretty(value[name], width - len(label), indent + 2)},\n")
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{''.join(lines)}{' ' * indent}{closing}"


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(name)}: {_flat(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flat, value)) + "]"
    if isinstance(value, str):
        return _literal(value)
    return "null" if isinstance(value, float) and not math.isfinite(value) else repr(value)


def _literal(text: Any) -> str:
    inner = repr(str(text))[1:-1].replace("\\'", "'")
    return "'" + inner.replace("'", "\\'").replace('"', '\\"') + "'"
