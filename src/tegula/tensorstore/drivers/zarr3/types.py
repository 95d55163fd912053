"""Data types and fill values of Zarr v3, checked with TensorStore's error messages.

`tegula.metadata` reads the values after these checks. Types that `tegula.metadata` has but TensorStore refuses (dates,
text, byte strings) are accepted.
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
from tegula.metadata.fill_value_json import fill_from_json, fill_to_json
from tegula.tensorstore.drivers.zarr2.types import plain_number
from tegula.tensorstore.drivers.zarr3.resolution import Element
from tegula.tensorstore.errors import StatusError
from tegula.tensorstore.json.binding import MISSING, array, at, dump, expected, integer, invalid, obj, string

__all__ = ["check_name", "data_type", "element_of", "fill_to_document", "fill_value"]

_SUPPORTED: Final = (
    "bool int2 int4 int8 uint8 int16 uint16 int32 uint32 int64 uint64 float8_e3m4 float8_e4m3fn float8_e4m3fnuz"
    " float8_e4m3b11fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn float16 bfloat16 float32 float64"
    " complex64 complex128"
).split()
_EXTENDED_DTYPES: Final = frozenset(EXTENDED.values())


# --- data types


def check_name(name: str) -> None:
    """Refuse a data type of a schema that Zarr v3 lacks.

    Raises
    ------
    ValueError
        If only TensorStore has the data type, such as ``json``.
    """
    if name in ("char", "byte", "json", "string", "ustring"):
        raise _unsupported(name, _SUPPORTED)


def _unsupported(name: str, listed: list[str]) -> StatusError:
    return invalid(f"{name} data type is not one of the supported data types: {', '.join(listed)}")


def data_type(value: Any) -> tuple[DataType, Any]:
    """Read a ``data_type``; return the data type, and its JSON in the form that is written.

    Raises
    ------
    ValueError
        If it is not a data type.

    Examples
    --------
    >>> data_type("r24")[0].numpy, data_type([["x", "int16"]])[1]["configuration"]
    (dtype('V3'), {'fields': [{'data_type': 'int16', 'name': 'x'}]})
    """
    if isinstance(value, str):
        return _plain(value, value)
    if not isinstance(value, dict):
        return _structure(value, "structured")
    if "name" not in value or "configuration" not in value:
        raise expected("string, array, or object with 'name' and 'configuration'", value)
    name, configuration = string(value["name"]), value["configuration"]
    if name in ("struct", "structured"):
        if not isinstance(configuration, dict) or "fields" not in configuration:
            raise invalid(f"{name} data type requires 'configuration' object with 'fields' array")
        return _structure(configuration["fields"], name)
    return _raw_bytes(configuration) if name == "raw_bytes" else _plain(name, value)


def _known(document: Any) -> tuple[DataType, Any]:
    try:
        return data_type_from_json(document), document
    except TegulaError as error:
        raise invalid(error.message) from error


def _raw_bytes(configuration: Any) -> tuple[DataType, Any]:
    if not isinstance(configuration, dict) or "length_bytes" not in configuration:
        raise invalid("raw_bytes data type requires 'configuration' object with 'length_bytes' field")
    length = integer(configuration["length_bytes"], -(2**63), 2**63 - 1)
    if length <= 0:
        raise invalid("raw_bytes length_bytes must be positive")
    return _known({"configuration": {"length_bytes": length}, "name": "raw_bytes"})


def _plain(name: str, value: Any) -> tuple[DataType, Any]:
    if name in _SUPPORTED or re.fullmatch("r[0-9]*", name):
        _check_element_type(name)
        return _known(name)
    try:
        known = data_type_from_json(value)
        return known, data_type_to_json(known)
    except TegulaError:
        raise _unsupported(name, [*_SUPPORTED, "r<N>"]) from None


def _check_element_type(name: str) -> None:
    """Refuse the name of a data type that elements and fields can't have."""
    if name in _SUPPORTED:
        return
    if not name.startswith("r"):
        raise _unsupported(name, [*_SUPPORTED, "r<N>"])
    bits = int(name[1:]) if re.fullmatch("[0-9]{1,19}", name[1:]) else 0
    if not bits or bits % 8:
        raise invalid(f"{name} data type is invalid; expected r<N> where N is a positive multiple of 8")


def _structure(value: Any, kind: str) -> tuple[DataType, Any]:
    elements = array(value)
    if not elements:
        raise invalid(f"{kind} data type requires at least one field")
    fields: list[dict[str, str]] = []
    for position, element in enumerate(elements):
        with at(position):
            name, text = _object_field(element) if kind == "struct" else _pair_field(element)
            _check_element_type(text)
        if any(field["name"] == name for field in fields):
            raise invalid(f"Field name {dump(name)} occurs more than once")
        fields.append({"data_type": text, "name": name})
    return _known({"configuration": {"fields": fields}, "name": "struct"})


def _object_field(field: Any) -> tuple[str, str]:
    if not isinstance(field, dict):
        raise invalid(f"struct dtype requires fields as objects, but received: {dump(field)}")
    if "name" not in field or "data_type" not in field:
        raise invalid(f"Field object must contain 'name' and 'data_type', but received: {dump(field)}")
    name = string(field["name"])
    if not name:
        raise invalid("Field 'name' must be non-empty")
    if isinstance(field["data_type"], dict):
        raise invalid(
            "Nested struct types and extension data types with configuration are not supported by TensorStore."
            " Field 'data_type' must be a string."
        )
    return name, string(field["data_type"])


def _pair_field(field: Any) -> tuple[str, str]:
    if not isinstance(field, (list, tuple)):
        raise invalid(f"structured dtype requires fields as arrays, but received: {dump(field)}")
    if len(field) != 2:
        raise invalid(f"Expected array of size 2, but received: {dump(field)}")
    with at(0):
        if not isinstance(field[0], str) or not field[0]:
            raise expected("non-empty string", field[0])
    with at(1):
        return field[0], string(field[1])


def element_of(data_type: DataType) -> Element:
    """Return the properties of a type that codecs depend on."""
    dtype = data_type.numpy
    if data_type.variable:
        name, serializer = {"string": ("ustring", "vlen-utf8"), "bytes": ("string", "vlen-bytes")}[data_type.variable]
        return Element(name, -1, False, serializer)
    if dtype.names is not None:
        return Element("byte", 8, True)
    if dtype.kind in "SV" and dtype not in _EXTENDED_DTYPES:
        return Element("byte", 8 * dtype.itemsize, False)
    document = data_type_to_json(data_type)
    name = document if isinstance(document, str) else document["name"]
    return Element(name, 8 * dtype.itemsize, dtype.itemsize > 1)


# --- fill values


def fill_value(value: Any, data_type: DataType) -> npt.NDArray[Any]:
    """Read a ``fill_value`` as a 0-d array of the stored type; for a structure with one field, it is the field's value.

    Raises
    ------
    ValueError
        If it is not a value of the type.
    """
    names = data_type.numpy.names
    if names is None:
        return _scalar(value, data_type)
    record = np.zeros((), data_type.numpy)
    members = {names[0]: value} if len(names) == 1 else obj(value)
    for name in names:
        if name not in members:
            raise invalid(f"Missing required field {dump(name)} in fill_value object")
        record[name] = _scalar(members[name], DataType(data_type.numpy[name]))
    return record


def _scalar(value: Any, data_type: DataType) -> npt.NDArray[Any]:
    dtype = data_type.numpy
    usual = plain_number(value, dtype, _float) if data_type.is_fixed else MISSING
    if usual is MISSING:
        usual = _raw(value, dtype) if dtype.kind == "V" and dtype not in _EXTENDED_DTYPES else value
    try:
        return fill_from_json(usual, data_type)
    except TegulaError:
        raise expected(f"fill value of {dump(data_type_to_json(data_type))}", value) from None


def _raw(value: Any, dtype: np.dtype[Any]) -> str:
    """Return the padded Base64 text of raw bytes."""
    if not isinstance(value, str):
        raise invalid("Expected base64-encoded string for raw_bytes fill_value")
    text = value.rstrip("=")
    text += "=" * (-len(text) % 4)
    try:
        length = len(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error):
        raise invalid(f"Expected valid base64-encoded fill value, but received: {dump(value)}") from None
    if length != dtype.itemsize:
        raise invalid(f"Expected {dtype.itemsize} base64-encoded bytes for fill_value, but received {length} bytes")
    return text


def _float(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, str):
        if value not in ("Infinity", "-Infinity", "NaN") and not re.fullmatch(
            f"0x[0-9a-fA-F]{{1,{2 * dtype.itemsize}}}", value
        ):
            raise expected('"Infinity", "-Infinity", "NaN", or hex string', value)
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise expected("floating-point number", value)
    return float(value)


def fill_to_document(fill: npt.NDArray[Any], data_type: DataType) -> Any:
    """Write a ``fill_value``; for a structure with one field, it is the field's value."""
    names = data_type.numpy.names
    value = fill[names[0]] if names is not None and len(names) == 1 else fill
    if value.dtype.kind in "Mm":
        return int(value.astype(value.dtype.newbyteorder("=")).view("i8"))  # NaT, too
    return fill_to_json(np.asarray(value), DataType(value.dtype, data_type.variable))
