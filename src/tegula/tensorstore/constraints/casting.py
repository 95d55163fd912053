"""Conversion of elements from one data type to another.

Types are given by name. Numbers convert as in C: integers wrap around, fractions are truncated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tegula.tensorstore.constraints.dtypes import TYPES
from tegula.tensorstore.errors import checked, invalid
from tegula.tensorstore.json import boolean, each, integer, number, string

__all__ = ["convert", "convertible", "from_json_to", "implicit"]

_TEXTS = frozenset(("string", "ustring"))
_KINDS = {"string": "T", "ustring": "T", "json": "J"}  # beside NumPy's letters; numbers have "n"
_OPAQUE = frozenset(("byte", "char"))
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")
_NUMBER = re.compile(
    r"\s*[+-]?(0[xX](?P<hex>[0-9a-fA-F]*\.?[0-9a-fA-F]*([pP][+-]?[0-9]+)?)|[0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?"
    r"|\.[0-9]+([eE][+-]?[0-9]+)?|[iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN])\s*"
)
_PARTS = {"complex64": "float32", "complex128": "float64"}
_SIGNIFICANT: dict[str, int] = {
    name: ml_dtypes.finfo(kind.numpy_dtype).nmant + 1 for name, kind in TYPES.items() if "float" in name
}
"""The number of significant binary digits of each type of floating-point numbers."""
_LIMITS = {name: ml_dtypes.iinfo(kind.numpy_dtype) for name, kind in TYPES.items() if "int" in name}
_RANGES = {name: range(int(limits.min), int(limits.max) + 1) for name, limits in _LIMITS.items()}
_BYTES = frozenset(name for name in _SIGNIFICANT if name.startswith("float8"))
_FLOATS = frozenset(("bfloat16", "float16", "float32", "float64"))
_WIDER = {
    "float4_e2m1fn": (_BYTES - {"float8_e8m0fnu"}) | _FLOATS,
    "float8_e5m2": frozenset(("float8_e5m2fnuz",)),
    "bfloat16": frozenset(("float32", "float64")),
    "float16": frozenset(("float32", "float64")),
    "float32": frozenset(("float64",)),
}
_Function = Callable[[Any], Any]


def convertible(source: str, target: str) -> bool:
    """Return whether values of type `source` can be converted to type `target`."""
    if source == target:
        return True
    if source in _OPAQUE or target in _OPAQUE:
        return False
    if _is_numpy_only(source) or _is_numpy_only(target):
        kinds = {name[1] if _is_numpy_only(name) else _KINDS.get(name, "n") for name in (source, target)}
        return kinds <= set("SUTJ") or (kinds <= set("Mmn") and "complex" not in source + target)
    if source == "json":
        return not target.startswith("complex")
    if source in _TEXTS:
        return target in _TEXTS or target == "json"
    if target in _TEXTS:
        return source != "bool"
    return not (source.startswith("complex") and target == "bool")


def implicit(source: str, target: str) -> bool:
    """Return whether a conversion is lossless, so that writes may apply it without an explicit cast."""
    if source == target or source == "bool":
        return True
    if _is_numpy_only(source) or _is_numpy_only(target):
        return False
    if target == "json" or source in _TEXTS:
        return source != "string" and target in ("json", "string")
    if target in _PARTS:
        return implicit(source, _PARTS[target]) or source == "complex64"
    if source in _SIGNIFICANT:
        if target == "float16" and source in ("float8_e5m2fnuz", "float8_e8m0fnu"):
            return False
        return target in _WIDER.get(source, ()) or (source in _BYTES and target in _FLOATS)
    if source not in _RANGES:
        return False
    own, wider = _RANGES[source], _RANGES.get(target, range(0))
    if target in _SIGNIFICANT:
        return own[-1].bit_length() <= _SIGNIFICANT[target]
    return own[0] in wider and own[-1] in wider


def convert(values: np.ndarray[Any, Any], source: str, target: str, result: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Convert an array between types with ``convertible(source, target)``; `result` is NumPy's type for `target`."""
    if source == target:
        return values
    if _is_numpy_only(source) or _is_numpy_only(target):
        return _numpy_convert(values, source, target, result)
    if source == "json":
        return each(values, from_json_to(target), result)
    if target == "json":
        return each(values, _to_json(source), result)
    if source in _TEXTS:
        return each(values, str.encode if target == "string" else _decode, result)
    if target in _TEXTS:
        written = _to_text(source)
        return each(values, (lambda value: written(value).encode()) if target == "string" else written, result)
    return _numbers(values, source, result)


# --- numbers


def _numbers(values: np.ndarray[Any, Any], source: str, result: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if values.dtype.kind == "c" and result.kind != "c":
        values = values.real
    with np.errstate(all="ignore"):
        if result.name in ("int2", "int4"):
            if values.dtype.kind == "f" or "float" in source:
                # by way of int64, so that a number that is too large keeps its low bits
                values = values.astype(np.float64).astype(np.int64)
            width = int(result.name[3:])
            low = values.astype(np.int64) & ((1 << width) - 1)
            return (low - ((low >> (width - 1)) << width)).astype(np.int8).astype(result)
        if source in ("int2", "int4"):
            values = values.astype(np.int8)
        elif values.dtype.isbuiltin != 1 or result.name == "float8_e8m0fnu":
            # ml_dtypes lacks some conversions, and limits negative numbers to those of an unsigned type
            values = values.astype(np.float32)
        return values.astype(result)


# --- texts


def _decode(value: Any) -> str:
    try:
        return checked("an element", value, bytes).decode()
    except UnicodeDecodeError:
        raise invalid("Invalid UTF-8 sequence encountered") from None


def _to_text(source: str) -> Callable[[Any], str]:
    if source.startswith("complex"):
        return lambda value: f"({_six_digits(value.real)},{_six_digits(value.imag)})"
    return _six_digits if "float" in source else lambda value: str(int(value))


def _six_digits(value: Any) -> str:
    return format(float(value), ".6g")


# --- JSON


def _to_json(source: str) -> _Function:
    if source == "string":
        return _decode
    if source.startswith("complex"):
        return lambda value: [float(value.real), float(value.imag)]
    if "float" in source:
        return float
    return {"bool": bool, "ustring": str}.get(source, int)


def from_json_to(target: str) -> _Function:
    """Return the function that converts a JSON value to an element of a type of numbers or text."""
    if target == "bool":
        return lambda value: value == "true" if value in ("true", "false") else boolean(value)
    if target in _TEXTS:
        return (lambda value: string(value).encode()) if target == "string" else string
    return _json_to_float if "float" in target else _json_to_integer(target)


def _json_to_float(value: Any) -> float:
    if isinstance(value, str) and (match := _NUMBER.fullmatch(value)):
        return float.fromhex(value.strip()) if match["hex"] else float(value)
    return number(value)


def _json_to_integer(target: str) -> _Function:
    low, high = _RANGES[target][0], _RANGES[target][-1]
    return lambda x: integer(int(x) if isinstance(x, str) and _INTEGER.fullmatch(x) else x, low, high)


# --- types that only NumPy has: dates, fixed-length strings, records


def _is_numpy_only(name: str) -> bool:
    return name[0] in "<>|["


def _numpy_convert(
    values: np.ndarray[Any, Any], source: str, target: str, result: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    if target in _TEXTS or target == "json":
        text = values.dtype.kind == "S"
        decoded = each(values, _decode if text and target != "string" else lambda value: value, np.dtype(object))
        return each(decoded, str.encode, result) if target == "string" and not text else decoded
    if source == "string" and result.kind == "U":
        values = each(values, _decode, np.dtype(object))
    return values.astype(result)
