"""Data types and fill values of Zarr v2, checked with TensorStore's error messages.

`tegula.formats` and `tegula.metadata` read the values after these checks. Types that NumPy has but TensorStore refuses
(dates, text) are accepted.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.errors import TegulaError
from tegula.formats.numpy_types import dtype_from_json
from tegula.metadata.data_types import EXTENDED, DataType
from tegula.metadata.fill_value_json import fill_from_json, fill_to_json
from tegula.tensorstore.errors import StatusError, quoted
from tegula.tensorstore.json.binding import MISSING, array, at, boolean, dump, expected, integer, invalid, string

__all__ = [
    "bytes_in_base64",
    "data_type",
    "fill_to_document",
    "fill_value",
    "plain_number",
    "type_of_name",
    "unsupported",
]

_TYPESTR: Final = re.compile(
    r"[<>|](?:b1|i[1248]|u[1248]|f[248]|c8|c16|[SV][0-9]{1,9}|U[1-9][0-9]{0,8}"
    r"|[Mm]8(?:\[(?:[1-9][0-9]{0,8})?[A-Za-zμ]{1,7}\])?)"
)
_MAX_INDEX: Final = 2**62 - 1
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEX: Final = re.compile(r"[+-]?0[xX](?:[0-9A-Fa-f]+\.?[0-9A-Fa-f]*|\.[0-9A-Fa-f]+)(?:[pP][+-]?[0-9]+)?")
_SPECIAL: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_EXTENDED_NAMES: Final = {numpy: name for name, numpy in EXTENDED.items()}
ReadFloat = Callable[[Any, np.dtype[Any]], Any]


# --- data types


def data_type(value: Any) -> tuple[DataType, Any]:
    """Read a ``dtype``; return the data type, and its JSON in the form that is written.

    Raises
    ------
    ValueError
        If it is not a data type.

    Examples
    --------
    >>> data_type([["x", "<u2", [2.0, 3]], ["y", "|S4", []]])[1]
    [['x', '<u2', [2, 3]], ['y', '|S4']]
    """
    if isinstance(value, str):
        return _scalar_type(value, objects=True), value
    fields: list[list[Any]] = []
    nbytes = 0
    for position, element in enumerate(array(value)):
        with at(position):
            field, size = _field(element)
        if any(other[0] == field[0] for other in fields):
            raise invalid(f"Field name {quoted(field[0])} occurs more than once")
        fields.append(field)
        nbytes += size
        if nbytes >= 2**63:
            raise invalid("Total number of bytes per outer array element is too large")
    try:
        return dtype_from_json(fields, ".zarray"), fields
    except TegulaError as error:
        raise invalid(error.message) from error


def _field(value: Any) -> tuple[list[Any], int]:
    """Read a field of a structure; return its JSON and its size in bytes."""
    parts = array(value)
    if len(parts) not in (2, 3):
        raise expected("array of size 2 or 3", value)
    with at(0):
        if not isinstance(parts[0], str) or not parts[0]:
            raise expected("non-empty string", parts[0])
    with at(1):
        dtype = _scalar_type(string(parts[1])).numpy
    shape: list[int] = []
    if len(parts) == 3:
        with at(2):
            for position, length in enumerate(array(parts[2])):
                with at(position):
                    shape.append(_integer(length, 1, _MAX_INDEX))
            if shape and not dtype.itemsize:
                raise unsupported(parts[1])
    return [*parts[:2], *([shape] if shape else [])], prod(shape) * dtype.itemsize


def _scalar_type(text: str, objects: bool = False) -> DataType:
    known = text in EXTENDED or (objects and text == "|O") or _TYPESTR.fullmatch(text)
    if not known or (text[0] == "|" and text[1:] not in ("O", "b1", "i1", "u1") and text[1] not in "SV"):
        raise unsupported(text)
    try:
        return dtype_from_json(text, ".zarray")
    except TegulaError:
        raise unsupported(text) from None


def unsupported(document: Any) -> StatusError:
    """Return the error for a ``dtype`` that cannot be read."""
    return invalid(f"Unsupported zarr dtype: {quoted(document)}")


def type_of_name(name: str) -> str | None:
    """Return the type string for a TensorStore data type, in native byte order; ``None`` if there is none."""
    if name in EXTENDED:
        return name
    if name in ("char", "byte", "string", "ustring", "json"):
        return None
    try:
        text = np.dtype(name).str
    except TypeError:
        return None
    return text if _TYPESTR.fullmatch(text) else None


# --- fill values


def fill_value(value: Any, data_type: DataType) -> npt.NDArray[Any] | None:
    """Read a ``fill_value`` into a 0-d array of the stored type; ``None`` for null.

    Raises
    ------
    ValueError
        If it is not a value of the type.
    """
    if value is None:
        return None
    dtype = data_type.numpy
    if dtype.kind == "O":
        if value is MISSING:
            raise expected("fill value", value)
        out = np.zeros((), dtype)
        out[()] = value
        return out
    if dtype.kind in "SV" and dtype not in _EXTENDED_NAMES:
        empty = value == "" or (type(value) is int and value == 0)  # zarr-python writes this for empty values
        raw = bytes(dtype.itemsize) if empty else bytes_in_base64(value, dtype.itemsize)
        return np.frombuffer(raw, dtype).reshape(()).copy() if raw else np.zeros((), dtype)
    if dtype.kind == "c" and (isinstance(value, str) or not isinstance(value, (list, tuple))):
        return np.frombuffer(bytes_in_base64(value, dtype.itemsize), dtype).reshape(()).copy()
    usual = plain_number(value, dtype, _float)
    try:
        return fill_from_json(value if usual is MISSING else usual, DataType(dtype))
    except TegulaError:
        raise expected(f"fill value of {dtype}", value) from None


def plain_number(value: Any, dtype: np.dtype[Any], read_float: ReadFloat) -> Any:
    """Return a boolean or number in the form of Zarr v3; `MISSING` for a type with other values.

    Raises
    ------
    ValueError
        If it is not a value of the type.
    """
    name = _EXTENDED_NAMES.get(dtype, "")
    if dtype.kind == "b":
        return boolean(value)
    if "int" in name:
        bits, signed = int(name.lstrip("uint")), not name.startswith("u")
        return _integer(value, -(2 ** (bits - 1)) if signed else 0, 2 ** (bits - signed) - 1)
    if name or dtype.kind == "f":
        return read_float(value, dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return _integer(value, int(limits.min), int(limits.max))
    if dtype.kind != "c":
        return MISSING
    parts = []
    for position, part in enumerate(array(value, 2)):
        with at(position):
            parts.append(read_float(part, np.dtype(f"f{dtype.itemsize // 2}")))
    return parts


def _integer(value: Any, low: int, high: int) -> int:
    """Read an integer; errors name 64-bit types instead of their range."""
    names = {(-(2**63), 2**63 - 1): "64-bit signed integer", (0, 2**64 - 1): "64-bit unsigned integer"}
    try:
        return integer(value, low, high)
    except StatusError:
        if (low, high) not in names:
            raise
    raise expected(names[low, high], value)


def _float(value: Any, dtype: np.dtype[Any]) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    if isinstance(value, str):
        if value in _SPECIAL:
            return _SPECIAL[value]
        text = value.strip(" \t\n\r\v\f")
        if _DECIMAL.fullmatch(text):
            return float(text)
        if _HEX.fullmatch(text):
            return float.fromhex(text)
    if value is MISSING:
        raise expected("number", value)
    raise invalid(f"Invalid floating-point value: {dump(value)}")


def bytes_in_base64(value: Any, size: int) -> bytes:
    """Read `size` bytes in Base64, with or without padding.

    Raises
    ------
    ValueError
        If it is not Base64, or has a different length.
    """
    try:
        text = value.rstrip("=")
        raw = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (AttributeError, ValueError, binascii.Error):
        raw = None
    if raw is None or len(raw) != size:
        raise expected(f"{size} base64-encoded bytes", value)
    return raw


def fill_to_document(fill: npt.NDArray[Any] | None, data_type: DataType) -> Any:
    """Write a ``fill_value``."""
    if fill is None or data_type.variable:
        return None if fill is None else fill[()]
    dtype = data_type.numpy
    if dtype.kind in "SV" and dtype not in _EXTENDED_NAMES:
        return base64.b64encode(fill.tobytes()).decode()
    if dtype.kind in "Mm":
        return int(fill.astype(dtype.newbyteorder("=")).view("i8"))
    value = fill_to_json(fill, DataType(dtype))
    return [_plain_nan(part) for part in value] if dtype.kind == "c" else _plain_nan(value)


def _plain_nan(value: Any) -> Any:
    """Return the JSON of a number with any NaN as ``"NaN"``, the only one in Zarr v2."""
    return "NaN" if isinstance(value, str) and value.startswith("0x") else value
