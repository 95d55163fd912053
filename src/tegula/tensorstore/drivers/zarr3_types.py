"""Data types and fill values of Zarr v3 as TensorStore reads them from metadata.

Those that TensorStore itself refuses, but the lower floors know (dates, text, byte strings), are read too.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.errors import TegulaError
from tegula.metadata.data_types import EXTENDED, DataType, data_type_from_json, data_type_to_json
from tegula.metadata.fill_values import default_fill, fill_from_json, fill_to_json
from tegula.tensorstore.drivers.zarr2_types import Field, ZarrType, set_number
from tegula.tensorstore.drivers.zarr3_resolution import Element
from tegula.tensorstore.json.binding import array, at, dump, expected, integer, invalid, obj, string

__all__ = ["check_name", "element_of", "fill_to_document", "fill_value", "no_fill", "zarr_type"]

_SUPPORTED: Final = (
    "bool int2 int4 int8 uint8 int16 uint16 int32 uint32 int64 uint64 float8_e3m4 float8_e4m3fn float8_e4m3fnuz"
    " float8_e4m3b11fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn float16 bfloat16 float32 float64"
    " complex64 complex128"
).split()
_MAX_BYTES: Final = 2**62
_BITS: Final = {"int2": 2, "int4": 4, "uint2": 2, "uint4": 4}
_NAMES: Final = {numpy: name for name, numpy in EXTENDED.items()}


def check_name(name: str) -> None:
    """Refuse a data type of a schema that Zarr v3 has no name for.

    Raises
    ------
    ValueError
        If it is a name of TensorStore's own, such as ``json``.
    """
    if name in ("char", "byte", "json", "string", "ustring"):
        raise _unsupported(name, ", ".join(_SUPPORTED))


def _unsupported(name: str, listed: str) -> Exception:
    return invalid(f"{name} data type is not one of the supported data types: {listed}")


def zarr_type(value: Any) -> ZarrType:
    """Read a ``data_type``.

    Examples
    --------
    >>> zarr_type("r24").fields[0].shape, zarr_type([["x", "int16"]]).names
    ((3,), ['x'])
    """
    if isinstance(value, str):
        return _plain(value, value)
    if isinstance(value, dict):
        if "name" not in value or "configuration" not in value:
            raise expected("string, array, or object with 'name' and 'configuration'", value)
        name = string(value["name"])
        configuration = value["configuration"]
        if name in ("struct", "structured"):
            if not isinstance(configuration, dict) or "fields" not in configuration:
                raise invalid(f"{name} data type requires 'configuration' object with 'fields' array")
            return _fields(configuration["fields"], name)
        if name == "raw_bytes":
            return _raw_bytes(configuration)
        return _plain(name, value)
    return _fields(value, "structured")


def _raw_bytes(configuration: Any) -> ZarrType:
    if not isinstance(configuration, dict) or "length_bytes" not in configuration:
        raise invalid("raw_bytes data type requires 'configuration' object with 'length_bytes' field")
    length = integer(configuration["length_bytes"], -(2**63), 2**63 - 1)
    if length <= 0:
        raise invalid("raw_bytes length_bytes must be positive")
    document = {"configuration": {"length_bytes": length}, "name": "raw_bytes"}
    return ZarrType((Field("", "raw_bytes", np.dtype("V1"), (), (length,), 0),), False, document)


def _plain(name: str, value: Any) -> ZarrType:
    if name in _SUPPORTED or re.fullmatch("r[0-9]*", name):
        return ZarrType((_field("", name, 0),), False, name)
    try:
        known = data_type_from_json(value)
        document = data_type_to_json(known)
    except TegulaError:
        raise _unsupported(name, ", ".join((*_SUPPORTED, "r<N>"))) from None
    if known.variable:
        return ZarrType((Field("", known.variable, known.numpy, (), (), 0),), False, document, known.variable)
    if known.numpy.kind in "SV":
        part = Field("", name, np.dtype(f"{known.numpy.kind}1"), (), (known.numpy.itemsize,), 0)
        return ZarrType((part,), False, document)
    return ZarrType((Field("", name, known.numpy, (), (), 0),), False, document)


def _field(name: str, text: str, offset: int) -> Field:
    if text in EXTENDED and text in _SUPPORTED:
        return Field(name, text, EXTENDED[text], (), (), offset)
    if text in _SUPPORTED:
        return Field(name, text, np.dtype(text), (), (), offset)
    if text.startswith("r"):
        bits = int(text[1:]) if re.fullmatch("[0-9]{1,19}", text[1:]) else 0
        if not bits or bits % 8:
            raise invalid(f"{text} data type is invalid; expected r<N> where N is a positive multiple of 8")
        return Field(name, text, np.dtype("V1"), (), (bits // 8,), offset)
    raise _unsupported(text, ", ".join((*_SUPPORTED, "r<N>")))


def _fields(value: Any, kind: str) -> ZarrType:
    fields: list[Field] = []
    offset = 0
    items = array(value)
    if not items:
        raise invalid(f"{kind} data type requires at least one field")
    for position, item in enumerate(items):
        with at(position):
            name, text = _named(item) if kind == "struct" else _paired(item)
            field = _field(name, text, offset)
        if any(other.name == name for other in fields):
            raise invalid(f"Field name {dump(name)} occurs more than once")
        fields.append(field)
        offset += field.nbytes
        if offset >= _MAX_BYTES:
            raise invalid("Total number of bytes per outer array element is too large")
    listed = [{"data_type": field.encoded, "name": field.name} for field in fields]
    return ZarrType(tuple(fields), True, {"configuration": {"fields": listed}, "name": "struct"})


def _named(item: Any) -> tuple[str, str]:
    if not isinstance(item, dict):
        raise invalid(f"struct dtype requires fields as objects, but received: {dump(item)}")
    if "name" not in item or "data_type" not in item:
        raise invalid(f"Field object must contain 'name' and 'data_type', but received: {dump(item)}")
    name = string(item["name"])
    if not name:
        raise invalid("Field 'name' must be non-empty")
    if isinstance(item["data_type"], dict):
        raise invalid(
            "Nested struct types and extension data types with configuration are not supported by TensorStore."
            " Field 'data_type' must be a string."
        )
    return name, string(item["data_type"])


def _paired(item: Any) -> tuple[str, str]:
    if not isinstance(item, (list, tuple)):
        raise invalid(f"structured dtype requires fields as arrays, but received: {dump(item)}")
    if len(item) != 2:
        raise invalid(f"Expected array of size 2, but received: {dump(item)}")
    with at(0):
        if not isinstance(item[0], str) or not item[0]:
            raise expected("non-empty string", item[0])
    with at(1):
        return item[0], string(item[1])


def element_of(zarr: ZarrType) -> Element:
    """Return what codecs need to know of a type."""
    first = zarr.fields[0]
    if zarr.named:
        return Element("byte", 8, True)
    if first.encoded == "string":
        return Element("ustring", -1, False, "vlen-utf8")
    if first.encoded == "bytes":
        return Element("string", -1, False, "vlen-bytes")
    dtype = first.numpy
    if dtype.kind in "SV" and dtype not in _NAMES:
        return Element("byte", 8 * dtype.itemsize, False)
    return Element(first.encoded, 8 * dtype.itemsize, dtype.itemsize > 1)


# --- fill values


def no_fill(zarr: ZarrType) -> npt.NDArray[Any]:
    """Return the fill value of an array that was given none."""
    if zarr.numpy.kind == "O":
        return default_fill(data_type_from_json(zarr.document))
    return np.zeros((), zarr.numpy)


def fill_value(value: Any, zarr: ZarrType) -> npt.NDArray[Any]:
    """Read a ``fill_value`` into a 0-d array of the stored type."""
    if len(zarr.fields) == 1:
        out = _scalar(value, zarr.fields[0], zarr)
        return out if not zarr.named else _wrapped(out, zarr)
    members = obj(value)
    record = np.zeros((), zarr.numpy)
    for field in zarr.fields:
        if field.name not in members:
            raise invalid(f"Missing required field {dump(field.name)} in fill_value object")
        record[field.name] = _scalar(members[field.name], field, zarr)
    return record


def _wrapped(value: npt.NDArray[Any], zarr: ZarrType) -> npt.NDArray[Any]:
    record = np.zeros((), zarr.numpy)
    record[zarr.fields[0].name] = value
    return record


def _scalar(value: Any, field: Field, zarr: ZarrType) -> npt.NDArray[Any]:
    dtype = field.numpy
    out = np.zeros((), dtype)
    if field.element.kind == "V" and dtype not in _NAMES:
        return _raw(value, dtype)
    if set_number(out, value, _float):
        return out
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        pair = np.zeros(2, part)
        for i, item in enumerate(array(value, 2)):
            with at(i):
                pair[i] = _float(item, part)
        return pair.view(dtype).reshape(())
    try:
        return fill_from_json(value, data_type_from_json(zarr.document))
    except TegulaError:
        raise expected(f"fill value of {dump(zarr.document)}", value) from None


def _raw(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if not isinstance(value, str):
        raise invalid("Expected base64-encoded string for raw_bytes fill_value")
    text = value.rstrip("=")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (ValueError, binascii.Error):
        raise invalid(f"Expected valid base64-encoded fill value, but received: {dump(value)}") from None
    if len(raw) != dtype.itemsize:
        raise invalid(f"Expected {dtype.itemsize} base64-encoded bytes for fill_value, but received {len(raw)} bytes")
    return np.frombuffer(raw, dtype).reshape(()).copy()


_SPECIAL: Final = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


def _float(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    digits = 2 * dtype.itemsize
    if isinstance(value, str):
        if value in _SPECIAL:
            with np.errstate(all="ignore"):
                return np.array(_SPECIAL[value]).astype(dtype)
        if not re.fullmatch(f"0x[0-9a-fA-F]{{1,{digits}}}", value):
            raise expected('"Infinity", "-Infinity", "NaN", or hex string', value)
        return np.array(int(value, 16), f"u{dtype.itemsize}").view(dtype)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise expected("floating-point number", value)
    with np.errstate(all="ignore"):
        return np.array(float(value)).astype(dtype)


def fill_to_document(fill: npt.NDArray[Any], zarr: ZarrType) -> Any:
    """Write a ``fill_value``; that of a record with one field is the field's."""
    value = fill[zarr.fields[0].name] if zarr.named and len(zarr.fields) == 1 else fill
    if value.dtype.kind in "Mm":
        return int(value.astype(value.dtype.newbyteorder("=")).view("i8"))  # of "NaT", too
    return fill_to_json(value, DataType(value.dtype, zarr.variable))
