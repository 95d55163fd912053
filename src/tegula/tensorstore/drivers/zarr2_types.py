"""Data types and fill values of Zarr v2 as TensorStore reads them from metadata.

What TensorStore itself refuses, but NumPy has a form of (dates, text), is read too.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite, isnan, prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.errors import TegulaError
from tegula.formats.zarr2 import OBJECT_CODECS
from tegula.metadata.data_types import EXTENDED, DataType
from tegula.metadata.fill_values import fill_from_json, fill_to_json
from tegula.tensorstore.errors import StatusError, quoted
from tegula.tensorstore.json.binding import MISSING, array, at, boolean, dump, expected, integer, invalid, string

__all__ = ["Field", "ZarrType", "fill_to_document", "fill_value", "set_number", "type_of_name", "zarr_type"]

_TYPESTR: Final = re.compile(
    r"[<>|](?:b1|i[1248]|u[1248]|f[248]|c8|c16|[SV][0-9]{1,9}|U[1-9][0-9]{0,8}"
    r"|[Mm]8(?:\[(?:[1-9][0-9]{0,8})?[A-Za-zμ]{1,7}\])?)"
)
_MAX_INDEX: Final = 2**62 - 1
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEX: Final = re.compile(r"[+-]?0[xX](?:[0-9A-Fa-f]+\.?[0-9A-Fa-f]*|\.[0-9A-Fa-f]+)(?:[pP][+-]?[0-9]+)?")
_SPECIAL: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_EXTENDED_NAMES: Final = {numpy: name for name, numpy in EXTENDED.items()}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record, or the one part of a type without names.

    ``S`` and ``V`` are arrays of single bytes here: their length is the last axis of `shape`.
    """

    name: str
    encoded: str
    element: np.dtype[Any]
    outer: tuple[int, ...]
    flexible: tuple[int, ...]
    offset: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The axes that the field adds to those of the chunks."""
        return self.outer + self.flexible

    @property
    def nbytes(self) -> int:
        """Bytes of the field in one record."""
        return prod(self.shape) * self.element.itemsize

    @property
    def numpy(self) -> np.dtype[Any]:
        """The field's type as NumPy writes it."""
        if self.flexible:
            return np.dtype(f"{self.element.kind}{self.flexible[0]}")
        return self.element


@dataclass(frozen=True, slots=True)
class ZarrType:
    """A ``dtype`` of Zarr v2: fields one after the other, or one part without a name.

    Objects are of a kind that only the filters tell: ``"string"``, ``"bytes"`` or any ``"object"``, in `variable`.
    """

    fields: tuple[Field, ...]
    named: bool
    document: Any
    variable: str = ""

    @property
    def itemsize(self) -> int:
        """Bytes of one record."""
        return sum(field.nbytes for field in self.fields)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The type of the stored elements."""
        if not self.named:
            return self.fields[0].numpy
        # NumPy has no subarrays of empty elements, not even of no dimensions
        return np.dtype([(field.name, field.numpy, *([field.outer] if field.outer else [])) for field in self.fields])

    @property
    def data_type(self) -> DataType:
        """The same as the lower floors have it."""
        return DataType(self.numpy, self.variable)

    def of_filters(self, filters: list[dict[str, Any]] | None) -> ZarrType:
        """Return the type with what the filters tell of it.

        Raises
        ------
        ValueError
            If it is one of objects that no filter encodes.
        """
        if self.named or self.fields[0].element.kind != "O":
            return self
        name = filters[0]["id"] if filters else ""
        if f"numcodecs.{name}" not in OBJECT_CODECS - {"numcodecs.pickle"}:
            raise _unsupported(self.document)
        return replace(self, variable={"vlen-utf8": "string", "vlen-bytes": "bytes"}.get(name, "object"))

    @property
    def names(self) -> list[str]:
        """The names of the fields."""
        return [field.name for field in self.fields] if self.named else []


def zarr_type(value: Any) -> ZarrType:
    """Read a ``dtype``.

    Examples
    --------
    >>> [(f.name, f.shape, f.offset) for f in zarr_type([["x", "<u2", [2, 3]], ["y", "|S4"]]).fields]
    [('x', (2, 3), 0), ('y', (4,), 12)]
    """
    if isinstance(value, str):
        return ZarrType((_field("", value, (), 0),), False, value)
    fields: list[Field] = []
    offset = 0
    for position, item in enumerate(array(value)):
        with at(position):
            parts = array(item)
            if len(parts) not in (2, 3):
                raise expected("array of size 2 or 3", item)
            with at(0):
                if not isinstance(parts[0], str) or not parts[0]:
                    raise expected("non-empty string", parts[0])
            with at(1):
                field = _field(parts[0], string(parts[1]), (), offset)
            if len(parts) == 3:
                with at(2):
                    field = _field(parts[0], parts[1], _outer_shape(parts[2]), offset)
        if any(other.name == field.name for other in fields):
            raise invalid(f"Field name {quoted(field.name)} occurs more than once")
        fields.append(field)
        offset += field.nbytes
        if offset >= 2**63:
            raise invalid("Total number of bytes per outer array element is too large")
    document = [[f.name, f.encoded, *([[*f.outer]] if f.outer else [])] for f in fields]
    return ZarrType(tuple(fields), True, document)


def _outer_shape(value: Any) -> tuple[int, ...]:
    shape = []
    for position, item in enumerate(array(value)):
        with at(position):
            shape.append(_integer(item, 1, _MAX_INDEX))
    return tuple(shape)


def _field(name: str, text: str, outer: tuple[int, ...], offset: int) -> Field:
    if text == "|O" and not name:
        return Field(name, text, np.dtype(object), (), (), 0)
    if text in EXTENDED:
        return Field(name, text, EXTENDED[text], outer, (), offset)
    if not _TYPESTR.fullmatch(text) or (text[0] == "|" and text[1:] not in ("b1", "i1", "u1") and text[1] not in "SV"):
        raise _unsupported(text)
    if text[1] in "SV":
        if outer and not int(text[2:]):
            raise _unsupported(text)
        return Field(name, text, np.dtype(f"{text[1]}1"), outer, (int(text[2:]),), offset)
    try:
        return Field(name, text, np.dtype(text), outer, (), offset)
    except (TypeError, ValueError):
        raise _unsupported(text) from None


def _unsupported(text: str) -> StatusError:
    return invalid(f"Unsupported zarr dtype: {quoted(text)}")


def type_of_name(name: str) -> str | None:
    """Return the type string for a data type of TensorStore, native in byte order; ``None`` if there is none."""
    if name in EXTENDED:
        return name
    if name in ("char", "byte", "string", "ustring", "json"):
        return None
    try:
        text = np.dtype(name).str
    except TypeError:
        return None
    return text if _TYPESTR.fullmatch(text) else None


def fill_value(value: Any, zarr: ZarrType) -> npt.NDArray[Any] | None:
    """Read a ``fill_value`` into a 0-d array of the stored type; ``None`` for null."""
    if value is None:
        return None
    dtype = zarr.numpy
    if dtype.kind in "SV" and dtype not in _EXTENDED_NAMES:
        return _from_base64(value, dtype)
    out = np.zeros((), dtype)
    if dtype.kind == "O":
        out[()] = value
        return out
    with np.errstate(over="ignore"):
        _set_value(out, value, dtype)
    return out


def set_number(out: npt.NDArray[Any], value: Any, read_float: Callable[[Any, np.dtype[Any]], Any]) -> bool:
    """Read a truth value or a real number into a 0-d array; return whether it is of such a type."""
    dtype = out.dtype
    name = _EXTENDED_NAMES.get(dtype, "")
    if dtype.kind == "b":
        out[()] = boolean(value)
    elif "int" in name:
        bits, signed = int(name.lstrip("uint")), not name.startswith("u")
        out[()] = _integer(value, -(2 ** (bits - 1)) if signed else 0, 2 ** (bits - signed) - 1)
    elif name or dtype.kind == "f":
        out[()] = read_float(value, dtype)
    elif dtype.kind in "iu":
        limits = np.iinfo(dtype)
        out[()] = _integer(value, int(limits.min), int(limits.max))
    else:
        return False
    return True


def _set_value(out: npt.NDArray[Any], value: Any, dtype: np.dtype[Any]) -> None:
    if set_number(out, value, lambda value, dtype: _float(value)):
        return
    if dtype.kind == "c":
        if isinstance(value, str) or not isinstance(value, (list, tuple)):
            out[()] = _from_base64(value, dtype)
        else:
            out[()] = complex(*_two_floats(value))
    else:  # dates and text, which TensorStore does not know
        try:
            out[()] = fill_from_json(value, DataType(dtype))
        except TegulaError:
            raise expected(f"fill value of {dtype}", value) from None


def _integer(value: Any, low: int, high: int) -> int:
    """Read an integer; where all of 64 bits will do, no range is named."""
    names = {(-(2**63), 2**63 - 1): "64-bit signed integer", (0, 2**64 - 1): "64-bit unsigned integer"}
    try:
        return integer(value, low, high)
    except StatusError:
        if (low, high) not in names:
            raise
    raise expected(names[low, high], value)


def _two_floats(value: Any) -> list[float]:
    parts = []
    for position, item in enumerate(array(value, 2)):
        with at(position):
            parts.append(_float(item))
    return parts


def _float(value: Any) -> float:
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


def _from_base64(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if (value == "" or (type(value) is int and value == 0)) and dtype.kind != "c":
        return np.zeros((), dtype)  # as zarr-python writes what is empty
    try:
        text = value.rstrip("=")
        raw = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (AttributeError, ValueError, binascii.Error):
        raw = None
    if raw is None or len(raw) != dtype.itemsize:
        raise expected(f"{dtype.itemsize} base64-encoded bytes", value)
    return np.frombuffer(raw, dtype).reshape(()).copy() if dtype.itemsize else np.zeros((), dtype)


def fill_to_document(fill: npt.NDArray[Any] | None, zarr: ZarrType) -> Any:
    """Write a ``fill_value``."""
    if fill is None:
        return None
    dtype = zarr.numpy
    name = _EXTENDED_NAMES.get(dtype, "")
    if dtype.kind in "SV" and not name:
        return base64.b64encode(fill.tobytes()).decode()
    if "int" in name or dtype.kind in "iu":
        return int(fill)
    if dtype.kind == "b":
        return bool(fill)
    if name or dtype.kind == "f":
        return _float_to_document(float(fill))
    if dtype.kind == "c":
        number = complex(fill)
        return [_float_to_document(number.real), _float_to_document(number.imag)]
    if dtype.kind == "O":
        return fill[()]
    if dtype.kind in "Mm":
        return int(fill.astype(dtype.newbyteorder("=")).view("i8"))
    return fill_to_json(fill, DataType(dtype))


def _float_to_document(value: float) -> Any:
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
