"""Scalars in JSON: the fill values of Zarr v3 documents, also used where a codec's configuration holds a scalar.

Zarr v3 core, "fill value", and the data type extensions. A value is kept as a 0-d array of the array's dtype, so that
NaN payloads and negative zeros survive; values of variable length are a Python ``str`` or ``bytes`` in a 0-d object
array.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from math import copysign, isfinite, isnan
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.errors import MetadataError, UnsupportedError
from tegula.metadata.data_types import EXTENDED, DataType

__all__ = [
    "decode_base64",
    "default_fill",
    "fill_from_document",
    "fill_from_json",
    "fill_to_json",
    "scalar_array",
    "undefined_fill",
]

Fill = npt.NDArray[Any]
_SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_EXTENDED_DTYPES = frozenset(EXTENDED.values())
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def scalar_array(value: Any, data_type: DataType) -> Fill:
    """Make the 0-d array that holds `value` as a fill value, converting as NumPy does.

    Raises
    ------
    MetadataError
        If the value does not fit the data type.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> scalar_array(7, as_data_type("u1"))
    array(7, dtype=uint8)
    """
    out = np.zeros((), data_type.numpy)
    try:
        with np.errstate(over="ignore"):  # too large for the type is infinite, as in NumPy
            _assign(out, value, data_type)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise MetadataError(f"{value!r:.80} is not a value of {data_type}: {error}", field="fill_value") from error
    return out


def _assign(out: Fill, value: Any, data_type: DataType) -> None:
    dtype = data_type.numpy
    if data_type.variable:
        out[()] = _variable(value, data_type.variable)
    elif dtype.names is not None and isinstance(value, (int, float, str)) and not isinstance(value, np.generic):
        for name in dtype.names:  # a plain scalar fills every field, as NumPy's fill does
            out[name] = value
    elif dtype.kind in "iu" or (dtype in _EXTENDED_DTYPES and "int" in dtype.name):
        out[()] = _integer(value, dtype)
    elif dtype.kind in "Mm" and (type(value) is int or (isinstance(value, np.generic) and value.dtype.kind in "iu")):
        out[()] = np.array(int(value), "i8").astype(dtype)
    else:
        out[()] = value


def _variable(value: Any, kind: str) -> Any:
    if kind == "string":
        if value is None or (isinstance(value, (int, np.integer)) and value == 0):
            return ""
        return value.decode() if isinstance(value, bytes) else str(value)
    if kind == "bytes":
        if value is None or (isinstance(value, (int, np.integer)) and value == 0):
            return b""
        if isinstance(value, (int, np.integer)):
            raise TypeError("a number says no bytes")  # but to Python, how many
        return value.encode() if isinstance(value, str) else bytes(value)
    return value


def _integer(value: Any, dtype: np.dtype[Any]) -> Any:
    number = int(value)
    if number != value:
        raise ValueError("it is not an integer")
    if dtype in _EXTENDED_DTYPES:
        bits = int(dtype.name.removeprefix("u").removeprefix("int"))
        low, high = (0, 2**bits - 1) if dtype.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if not low <= number <= high:
            raise OverflowError(f"it is not between {low} and {high}")
    else:
        info = np.iinfo(dtype)
        if not info.min <= number <= info.max:
            raise OverflowError(f"it is not between {info.min} and {info.max}")
    return number


def default_fill(data_type: DataType) -> Fill:
    """Return the fill value of an array created without one: zero, false, the empty string.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> default_fill(as_data_type(str))
    array('', dtype=object)
    """
    if data_type.variable == "object":
        return scalar_array(0, data_type)
    return scalar_array(0, data_type) if data_type.variable else np.zeros((), data_type.numpy)


def undefined_fill(data_type: DataType) -> Fill:
    """Return what stands for elements that were never written where the fill value is undefined, as in zarr-python.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> undefined_fill(as_data_type("i4")), undefined_fill(as_data_type("M8[s]"))
    (array(0, dtype=int32), array('NaT', dtype='datetime64[s]'))
    """
    kind = data_type.numpy.kind
    return np.array("NaT", data_type.numpy) if kind in "mM" else default_fill(data_type)


def decode_base64(text: Any) -> bytes:
    """Decode standard base64, refusing anything else."""
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (AttributeError, UnicodeEncodeError, binascii.Error) as error:
        raise MetadataError(f"{text!r:.80} is not base64", field="fill_value") from error


def fill_from_document(value: Any, data_type: DataType, *, zarr_format: int = 3) -> Fill:
    """Read the fill value of a document, also in other forms that zarr-python reads.

    A boolean or a string may be given as a number, and too few bytes are completed with zeros. In Zarr v2 a number may
    also be given as a boolean or in a string; v3 core requires a JSON number there. Text is refused for a boolean,
    though zarr-python reads it as true.

    Raises
    ------
    MetadataError
        If the JSON value is not one that the data type allows.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> fill_from_document(0, as_data_type("bool"))
    array(False)
    >>> fill_from_document("5", as_data_type("i2"), zarr_format=2)
    array(5, dtype=int16)
    """
    if zarr_format == 3 and data_type.numpy.kind in "iufmM" and type(value) in (bool, str):
        return fill_from_json(value, data_type)
    return fill_from_json(_usual_form(value, data_type), data_type)


def _usual_form(value: Any, data_type: DataType) -> Any:
    """Return the JSON value that v3 core has for what is meant."""
    dtype, kind = data_type.numpy, type(value)
    if data_type.variable:
        return str(value) if data_type.variable == "string" and kind in (int, float, bool) else value
    if dtype in _EXTENDED_DTYPES or dtype.names is not None:
        return value
    if dtype.kind == "b":
        return bool(value) if kind in (int, float) or value == "" else value
    if dtype.kind in "iumM":
        if kind is bool or (kind is float and value.is_integer()):
            return int(value)
        return int(value) if kind is str and dtype.kind in "iu" and _INTEGER.fullmatch(value) else value
    if dtype.kind == "f":
        return float(value) if kind is bool or (kind is str and _NUMBER.fullmatch(value)) else value
    if dtype.kind == "V" and kind is str:
        return [*decode_base64(value).ljust(dtype.itemsize, b"\0")]
    return value


def fill_from_json(value: Any, data_type: DataType) -> Fill:
    """Read a fill value in the form of Zarr v3 core.

    Raises
    ------
    MetadataError
        If the JSON value is not one that the data type allows.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> fill_from_json("-Infinity", as_data_type("f4"))
    array(-inf, dtype=float32)
    >>> hex(fill_from_json("0x7fc00001", as_data_type("f4")).view("u4")[()])
    '0x7fc00001'
    """
    dtype = data_type.numpy
    if data_type.variable:
        return _variable_from_json(value, data_type)
    if dtype.names is not None:
        return _struct_from_json(value, data_type)
    if dtype.kind in "iu" or (dtype in _EXTENDED_DTYPES and "int" in dtype.name):
        if type(value) is not int:
            raise _wrong(value, data_type)
        return scalar_array(value, data_type)
    out = np.zeros((), dtype)
    _SETTERS.get("f" if dtype in _EXTENDED_DTYPES else dtype.kind, _set_bytes)(out, value, data_type)
    return out


def _wrong(value: Any, data_type: DataType) -> MetadataError:
    return MetadataError(f"{value!r:.80} is not a fill value for {data_type}", field="fill_value")


def _set_float(out: Fill, value: Any, data_type: DataType) -> None:
    if isinstance(value, str):
        if value in _SPECIAL:
            out[()] = _SPECIAL[value]
        elif re.fullmatch(r"0x[0-9a-fA-F]{1,32}", value) and int(value, 16) < 256**out.dtype.itemsize:
            big = out.dtype.byteorder == ">"
            payload = int(value, 16).to_bytes(out.dtype.itemsize, "big" if big else "little")
            out.reshape(1).view("u1")[:] = np.frombuffer(payload, "u1")
        else:
            raise _wrong(value, data_type)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        if value == 0 and copysign(1, value) > 0 and out.dtype.kind == "f":
            return  # which it is already
        try:
            with np.errstate(over="ignore"):
                out[()] = float(value)
        except OverflowError as error:
            raise _wrong(value, data_type) from error
    else:
        raise _wrong(value, data_type)


def _set_bool(out: Fill, value: Any, data_type: DataType) -> None:
    if not isinstance(value, bool):
        raise _wrong(value, data_type)
    out[()] = value


def _set_text(out: Fill, value: Any, data_type: DataType) -> None:
    if not isinstance(value, str):
        raise _wrong(value, data_type)
    out[()] = value


def _set_complex(out: Fill, value: Any, data_type: DataType) -> None:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise _wrong(value, data_type)
    parts = out.reshape(1).view(f"{out.dtype.byteorder}f{out.dtype.itemsize // 2}")
    for position in range(2):
        _set_float(parts[position : position + 1].reshape(()), value[position], data_type)


def _set_time(out: Fill, value: Any, data_type: DataType) -> None:
    number = -(2**63) if value == "NaT" else value
    if type(number) is not int or not -(2**63) <= number < 2**63:
        raise _wrong(value, data_type)
    out.view(f"{out.dtype.byteorder}i8")[()] = number


def _set_bytes(out: Fill, value: Any, data_type: DataType) -> None:
    """Raw bits are a list of byte values in v3 core; the NumPy types for bytes hold base64."""
    if isinstance(value, str):
        raw = decode_base64(value)
    elif isinstance(value, Sequence) and all(type(item) is int and 0 <= item < 256 for item in value):
        raw = bytes(value)
    else:
        raise _wrong(value, data_type)
    size = out.dtype.itemsize
    if len(raw) > size or (len(raw) < size and out.dtype.kind == "V"):
        raise _wrong(value, data_type)
    if size:
        out.reshape(1).view("u1")[:] = np.frombuffer(raw.ljust(size, b"\0"), "u1")


_SETTERS: Final[Mapping[str, Callable[[Fill, Any, DataType], None]]] = {
    "b": _set_bool,
    "f": _set_float,
    "c": _set_complex,
    "M": _set_time,
    "m": _set_time,
    "U": _set_text,
}


def _variable_from_json(value: Any, data_type: DataType) -> Fill:
    out = np.zeros((), object)
    if data_type.variable == "string":
        if not isinstance(value, str):
            raise _wrong(value, data_type)
        out[()] = value
    elif data_type.variable == "bytes":
        if isinstance(value, str):
            out[()] = decode_base64(value)
        elif isinstance(value, Sequence) and all(type(item) is int and 0 <= item < 256 for item in value):
            out[()] = bytes(value)
        else:
            raise _wrong(value, data_type)
    else:
        out[()] = value
    return out


def _struct_from_json(value: Any, data_type: DataType) -> Fill:
    dtype = data_type.numpy
    out = np.zeros((), dtype)
    if isinstance(value, str):
        raw = decode_base64(value)
        if len(raw) != dtype.itemsize:
            raise _wrong(value, data_type)
        out.reshape(1).view("u1")[:] = np.frombuffer(raw, "u1")
    elif isinstance(value, Mapping) and set(value) == set(dtype.names or ()):
        for name in dtype.names or ():
            out[name] = fill_from_json(value[name], DataType(dtype[name]))[()]
    elif value == 0 and type(value) is int:
        pass
    else:
        raise _wrong(value, data_type)
    return out


def fill_to_json(fill: Fill, data_type: DataType) -> Any:
    """Write a fill value for a Zarr v3 document.

    Examples
    --------
    >>> import numpy as np
    >>> from tegula.metadata.data_types import as_data_type
    >>> fill_to_json(np.array(np.nan), as_data_type("f8"))
    'NaN'
    >>> fill_to_json(np.array(1 - 2j), as_data_type("c16"))
    [1.0, -2.0]
    """
    dtype = data_type.numpy
    if data_type.variable:
        value: Any = fill[()]
        return base64.b64encode(value).decode() if isinstance(value, bytes) else value
    if dtype.names is not None:
        if data_type.alias == "structured":
            return base64.b64encode(fill.tobytes()).decode()
        return {name: fill_to_json(fill[name], DataType(dtype[name])) for name in dtype.names}
    if dtype.kind == "b":
        return bool(fill)
    if dtype.kind in "iu" or (dtype in _EXTENDED_DTYPES and "int" in dtype.name):
        return int(fill)
    if dtype.kind == "f" or dtype in _EXTENDED_DTYPES:
        return _float_to_json(fill)
    if dtype.kind == "c":
        parts = fill.reshape(1).view(f"{dtype.byteorder}f{dtype.itemsize // 2}")
        return [_float_to_json(parts[:1].reshape(())), _float_to_json(parts[1:].reshape(()))]
    if dtype.kind in "Mm":
        return "NaT" if np.isnat(fill) else int(fill.view(f"{dtype.byteorder}i8"))
    if dtype.kind == "U":
        return str(fill)
    if dtype.kind in "SV" and dtype.subdtype is None:
        raw = fill.tobytes() if dtype.kind == "V" else bytes(fill[()])
        return [*raw] if data_type.alias else base64.b64encode(raw).decode()
    raise UnsupportedError(f"Zarr v3 has no fill value for {dtype}", field="fill_value")


def _float_to_json(value: Fill) -> Any:
    number = float(value)
    if isfinite(number):
        return number
    # the three names stand for one bit pattern each; any other one is written as its bits
    name = "NaN" if isnan(number) else ("Infinity" if number > 0 else "-Infinity")
    usual = np.array(_SPECIAL[name]).astype(value.dtype)
    if usual.tobytes() == value.tobytes():
        return name
    raw = value.tobytes() if value.dtype.byteorder == ">" else value.tobytes()[::-1]
    return "0x" + raw.hex()
