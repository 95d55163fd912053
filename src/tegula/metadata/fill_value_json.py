"""Fill values in JSON: the member ``fill_value`` of Zarr v3 documents, and scalars in the configuration of a codec.

Implements the section "Fill value" of Zarr v3 core and its counterparts in the registered data type extensions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import copysign, isfinite, isnan
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tegula.errors import MetadataError, UnsupportedError
from tegula.metadata.data_types import EXTENDED_DTYPES, DataType
from tegula.runtime.deferred import Later, matcher

if TYPE_CHECKING:
    import base64

    from tegula.metadata import fill_values
    from tegula.metadata.fill_values import Fill
else:
    base64, fill_values = Later("base64"), Later("tegula.metadata.fill_values")

__all__ = ["decode_base64", "fill_from_document", "fill_from_json", "fill_to_json"]

_SPECIAL: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_INTEGER: Final = matcher(r"[+-]?[0-9]{1,20}")
_NUMBER: Final = matcher(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:nan|inf|infinity))")


def decode_base64(text: Any) -> bytes:
    """Decode standard base64.

    Raises
    ------
    MetadataError
        If `text` is not base64.

    Examples
    --------
    >>> decode_base64("AAE=")
    b'\\x00\\x01'
    """
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (AttributeError, UnicodeEncodeError, ValueError) as error:
        raise MetadataError(f"{text!r:.80} is not base64", field="fill_value") from error


def fill_from_document(value: Any, data_type: DataType) -> Fill:
    """Read the fill value of a document, including forms that zarr-python reads but the specification does not have.

    A text is accepted for a number, and a number for a boolean or a text; missing bytes are padded with zeros. A
    boolean is not accepted for a number, nor a text for a boolean, although zarr-python reads them (any text as true).

    Parameters
    ----------
    value : JSON value
        The member ``fill_value``.
    data_type : DataType
        Type of the array's elements.

    Returns
    -------
    0-d ndarray
        The fill value, of the dtype of `data_type`.

    Raises
    ------
    MetadataError
        If the JSON value is not valid for the data type.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> fill_from_document(0, as_data_type("bool"))
    array(False)
    >>> fill_from_document("5", as_data_type("i2"))
    array(5, dtype=int16)
    """
    return fill_from_json(_standard_form(value, data_type), data_type)


def _standard_form(value: Any, data_type: DataType) -> Any:
    """Convert a form that only zarr-python reads to that of Zarr v3 core; return any other value unchanged."""
    dtype, kind = data_type.numpy, type(value)
    if data_type.variable:
        return str(value) if data_type.variable == "string" and kind in (int, float, bool) else value
    if dtype in EXTENDED_DTYPES or dtype.names is not None:
        return value
    if dtype.kind == "b":
        return bool(value) if kind in (int, float) or value == "" else value
    if dtype.kind in "iumM":
        if kind is float and value.is_integer():
            return int(value)
        return int(value) if kind is str and dtype.kind in "iu" and _INTEGER(value.strip()) else value
    if dtype.kind == "f":
        return float(value) if kind is str and _NUMBER(value.strip()) else value
    if dtype.kind == "V" and kind is str:
        return [*decode_base64(value).ljust(dtype.itemsize, b"\0")]
    return value


def fill_from_json(value: Any, data_type: DataType) -> Fill:
    """Read a fill value (Zarr v3 core, section "Fill value", and the data type extensions).

    Parameters
    ----------
    value : JSON value
        The value, exactly in the form of the specification.
    data_type : DataType
        Its type.

    Returns
    -------
    0-d ndarray
        The fill value, of the dtype of `data_type`.

    Raises
    ------
    MetadataError
        If the JSON value is not valid for the data type.

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
    if dtype.kind in "iu" or (dtype in EXTENDED_DTYPES and "int" in dtype.name):
        if type(value) is not int:
            raise _wrong(value, data_type)
        return fill_values.scalar_array(value, data_type)
    out = np.zeros((), dtype)
    _SETTERS.get("f" if dtype in EXTENDED_DTYPES else dtype.kind, _set_bytes)(out, value, data_type)
    return out


def _wrong(value: Any, data_type: DataType) -> MetadataError:
    return MetadataError(f"{value!r:.80} is not a fill value for {data_type}", field="fill_value")


def _set_float(out: Fill, value: Any, data_type: DataType) -> None:
    """Read a number, the name of a special value, or the bits as hexadecimal digits, most significant first."""
    if isinstance(value, str):
        if value in _SPECIAL:
            out[()] = _SPECIAL[value]
        elif re.fullmatch(r"0x[0-9a-fA-F]{1,32}", value) and int(value, 16) < 256**out.dtype.itemsize:
            payload = int(value, 16).to_bytes(out.dtype.itemsize, "big" if _is_big(out.dtype) else "little")
            out.reshape(1).view("u1")[:] = np.frombuffer(payload, "u1")
        else:
            raise _wrong(value, data_type)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        if value == 0 and copysign(1, value) > 0 and out.dtype.kind == "f":
            return  # `out` is positive zero already
        try:
            with np.errstate(over="ignore"):
                out[()] = float(value)
        except OverflowError as error:
            raise _wrong(value, data_type) from error
    else:
        raise _wrong(value, data_type)


def _is_big(dtype: np.dtype[Any]) -> bool:
    """Return whether elements are big-endian in memory; ``dtype.byteorder`` does not say it for the machine's order."""
    return dtype.str[0] == ">"


def _set_bool(out: Fill, value: Any, data_type: DataType) -> None:
    if not isinstance(value, bool):
        raise _wrong(value, data_type)
    out[()] = value


def _set_string(out: Fill, value: Any, data_type: DataType) -> None:
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


def _bytes(value: Any, data_type: DataType) -> bytes:
    """Read bytes: a list of byte values, as for the raw bits of v3 core, or base64, as for the types of NumPy."""
    if isinstance(value, str):
        return decode_base64(value)
    if isinstance(value, Sequence) and all(type(item) is int and 0 <= item < 256 for item in value):
        return bytes(value)
    raise _wrong(value, data_type)


def _set_bytes(out: Fill, value: Any, data_type: DataType) -> None:
    raw, size = _bytes(value, data_type), out.dtype.itemsize
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
    "U": _set_string,
}


def _variable_from_json(value: Any, data_type: DataType) -> Fill:
    out = np.zeros((), object)
    if data_type.variable == "string" and not isinstance(value, str):
        raise _wrong(value, data_type)
    out[()] = _bytes(value, data_type) if data_type.variable == "bytes" else value
    return out


def _struct_from_json(value: Any, data_type: DataType) -> Fill:
    """Read the value of each field, or the bytes of the whole struct in base64, or 0."""
    dtype = data_type.numpy
    out = np.zeros((), dtype)
    if (inner := data_type.inner) is not None:
        if isinstance(value, list) and len(value) == 1:
            out["value"], out["valid"] = fill_from_json(value[0], inner)[()], True
        elif value is not None:
            raise _wrong(value, data_type)
        return out
    if isinstance(value, str) and data_type.complex_part is None:
        raw = decode_base64(value)
        if len(raw) != dtype.itemsize:
            raise _wrong(value, data_type)
        out.reshape(1).view("u1")[:] = np.frombuffer(raw, "u1")
    elif isinstance(value, Mapping) and set(value) == set(dtype.names or ()):
        for name in dtype.names or ():
            out[name] = fill_from_json(value[name], DataType(dtype[name]))[()]
    elif data_type.complex_part is not None and isinstance(value, Sequence) and len(value) == 2:
        for name, part in zip(("real", "imag"), value):
            out[name] = fill_from_json(part, DataType(dtype[name]))[()]
    elif value == 0 and type(value) is int and data_type.complex_part is None:
        pass
    else:
        raise _wrong(value, data_type)
    return out


def fill_to_json(fill: Fill, data_type: DataType) -> Any:
    """Convert a fill value to the ``fill_value`` member of a Zarr v3 document (Zarr v3 core, section "Fill value").

    Parameters
    ----------
    fill : 0-d ndarray
        The fill value.
    data_type : DataType
        Its type.

    Raises
    ------
    UnsupportedError
        If Zarr v3 has no form for values of this type.

    Examples
    --------
    >>> import numpy as np
    >>> from tegula.metadata.data_types import as_data_type
    >>> fill_to_json(np.array(np.nan), as_data_type("f8"))
    'NaN'
    >>> fill_to_json(np.array(1 - 2j), as_data_type("c16"))
    [1.0, -2.0]
    """
    # variable-length elements and structs
    dtype = data_type.numpy
    if data_type.variable:
        value: Any = fill[()]
        return base64.b64encode(value).decode() if isinstance(value, bytes) else value
    if (inner := data_type.inner) is not None:
        return [fill_to_json(fill["value"], inner)] if fill["valid"] else None
    if data_type.complex_part is not None:
        return [_float_to_json(fill[name]) for name in ("real", "imag")]
    if dtype.names is not None:
        if data_type.alias == "structured":  # zarr-python's older form
            return base64.b64encode(fill.tobytes()).decode()
        return {name: fill_to_json(fill[name], DataType(dtype[name])) for name in dtype.names}

    # numbers
    if dtype.kind == "b":
        return bool(fill)
    if dtype.kind in "iu" or (dtype in EXTENDED_DTYPES and "int" in dtype.name):
        return int(fill)
    if dtype.kind == "f" or dtype in EXTENDED_DTYPES:
        return _float_to_json(fill)
    if dtype.kind == "c":
        parts = fill.reshape(1).view(f"{dtype.byteorder}f{dtype.itemsize // 2}")
        return [_float_to_json(parts[:1].reshape(())), _float_to_json(parts[1:].reshape(()))]
    if dtype.kind in "Mm":
        return "NaT" if np.isnat(fill) else int(fill.view(f"{dtype.byteorder}i8"))

    # strings and bytes of fixed length
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
    # each of the three names means a single bit pattern; any other pattern is written as its bits
    name = "NaN" if isnan(number) else ("Infinity" if number > 0 else "-Infinity")
    usual = np.array(_SPECIAL[name]).astype(value.dtype)
    if usual.tobytes() == value.tobytes():
        return name
    raw = value.tobytes() if _is_big(value.dtype) else value.tobytes()[::-1]
    return "0x" + raw.hex()
