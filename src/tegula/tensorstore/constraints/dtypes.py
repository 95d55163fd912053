"""Data types with TensorStore's names, and the NumPy dtypes of their elements."""

from __future__ import annotations

import builtins
import json as json_module
from typing import Any

import numpy as np

from tegula.metadata.data_types import EXTENDED, EXTENDED_DTYPES
from tegula.runtime.frozen import attribute
from tegula.tensorstore.errors import invalid, type_error
from tegula.tensorstore.json import conversion_error, dump, to_json_value
from tegula.tensorstore.json import string as text

__all__ = [
    "DTypeLike", "bfloat16", "bool", "byte", "char", "complex64", "complex128", "dtype", "float4_e2m1fn", "float8_e3m4",
    "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float16", "float32", "float64", "int2", "int4", "int8", "int16", "int32", "int64", "json", "string", "uint8",
    "uint16", "uint32", "uint64", "ustring",
]  # fmt: skip


class dtype:
    """A data type, by its name or from a dtype of NumPy, whose byte order does not count.

    NumPy's dtypes for dates, durations, text and structures are accepted, too, although TensorStore has no such types.

    Examples
    --------
    >>> dtype("bfloat16").numpy_dtype
    dtype(bfloat16)
    >>> dtype(np.dtype(">i4")) == int32
    True
    """

    __slots__ = ("_name", "_numpy", "_type")

    _name: str
    _numpy: np.dtype[Any]
    _type: Any

    def __new__(cls, dtype: DTypeLike) -> dtype:
        if isinstance(dtype, cls):
            return dtype
        if isinstance(dtype, str):
            return _by_name(dtype)
        if isinstance(dtype, (np.dtype, type)):
            return _by_numpy(dtype)
        raise type_error(f"expected a name, a type or a dtype, not {dtype!r:.80}")

    name: str = attribute("_name", "The name, as in JSON.")
    numpy_dtype: np.dtype[Any] = attribute(
        "_numpy", "The NumPy dtype of arrays of this type, in this machine's byte order."
    )
    dtype: np.dtype[Any] = attribute(
        "_numpy", "The same as ``numpy_dtype``; NumPy uses it where this object is passed as a dtype."
    )
    type: Any = attribute("_type", "The Python type of an element.")

    def __getattr__(self, name: str) -> Any:
        """Import what NumPy lacks, which takes long, when its NumPy dtype or type is first asked for."""
        if name not in ("_numpy", "_type"):
            raise AttributeError(f"a data type has no attribute {name!r}", name=name, obj=self)
        self._numpy = EXTENDED[self._name]
        self._type = self._numpy.type
        return getattr(self, name)

    def to_json(self) -> str:
        """Return the name."""
        return self._name

    def __call__(self, arg: Any) -> Any:
        if self._name == "json":
            return to_json_value(arg)
        try:
            return self._type(arg)
        except (ValueError, TypeError, OverflowError) as error:
            raise conversion_error(error) from error

    def __eq__(self, other: object) -> builtins.bool:
        if isinstance(other, dtype):
            return self is other or self._name == other._name
        return self == dtype(other) if isinstance(other, (str, np.dtype, type)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (dtype, (self._name,))

    def __repr__(self) -> str:
        return f"dtype({dump(self._name)})"


DTypeLike = dtype | str | np.dtype[Any] | type

TYPES: dict[str, dtype] = {}
"""TensorStore's types by name."""
_BY_NUMPY: dict[np.dtype[Any], dtype] = {}
"""The same types by their NumPy dtype, without those of ml_dtypes, so that none of these is imported here."""


def _new(name: str, numpy_dtype: np.dtype[Any], kind: Any = None) -> dtype:
    created = object.__new__(dtype)
    created._name, created._numpy, created._type = name, numpy_dtype, kind or numpy_dtype.type
    return created


def _named(name: str, numpy_dtype: Any, kind: Any = None) -> dtype:
    created = TYPES[name] = _new(name, np.dtype(numpy_dtype), kind)
    if created._numpy.kind != "O":
        _BY_NUMPY[created._numpy] = created
    return created


def _extended(name: str) -> dtype:
    created = TYPES[name] = object.__new__(dtype)
    created._name = name
    return created


bool = _named("bool", np.bool_)
char = _named("char", "S1")
byte = _named("byte", "V1")
int2 = _extended("int2")
int4 = _extended("int4")
int8 = _named("int8", np.int8)
uint8 = _named("uint8", np.uint8)
int16 = _named("int16", np.int16)
uint16 = _named("uint16", np.uint16)
int32 = _named("int32", np.int32)
uint32 = _named("uint32", np.uint32)
int64 = _named("int64", np.int64)
uint64 = _named("uint64", np.uint64)
float4_e2m1fn = _extended("float4_e2m1fn")
float8_e3m4 = _extended("float8_e3m4")
float8_e4m3fn = _extended("float8_e4m3fn")
float8_e4m3fnuz = _extended("float8_e4m3fnuz")
float8_e4m3b11fnuz = _extended("float8_e4m3b11fnuz")
float8_e5m2 = _extended("float8_e5m2")
float8_e5m2fnuz = _extended("float8_e5m2fnuz")
float8_e8m0fnu = _extended("float8_e8m0fnu")
float16 = _named("float16", np.float16)
bfloat16 = _extended("bfloat16")
float32 = _named("float32", np.float32)
float64 = _named("float64", np.float64)
complex64 = _named("complex64", np.complex64)
complex128 = _named("complex128", np.complex128)
string = _named("string", object, bytes)
ustring = _named("ustring", object, str)
json = _named("json", object)


def _by_name(name: str) -> dtype:
    known = TYPES.get(name)
    if known is not None:
        return known
    try:
        if name.startswith("[["):
            return _numpy_only(np.dtype(_fields(json_module.loads(name))))
        if name[:1] in "<|=" and name[1:2] in tuple("mMU"):
            return _numpy_only(np.dtype(name))
    except (TypeError, ValueError):
        pass
    raise invalid(f"No TensorStore data type with name: {dump(name)}")


def from_json(value: Any) -> dtype:
    """Return the data type for a name in JSON."""
    return _by_name(text(value))


def _fields(fields: list[Any]) -> list[Any]:
    """Convert the fields of a structure from JSON to NumPy's form."""
    return [
        (name, _fields(kind) if isinstance(kind, list) else kind, *map(tuple, shape)) for name, kind, *shape in fields
    ]


def _by_numpy(source: np.dtype[Any] | type) -> dtype:
    if source is str or source is bytes:
        return ustring if source is str else string
    try:
        numpy_dtype = np.dtype(source)
    except TypeError as error:
        raise type_error(f"not a data type: {error}") from None
    if numpy_dtype in EXTENDED_DTYPES:
        known = TYPES.get(numpy_dtype.name)
    else:
        known = _BY_NUMPY.get(numpy_dtype) or _BY_NUMPY.get(numpy_dtype.newbyteorder("="))
    if known is not None:
        return known
    if numpy_dtype.kind == "S":
        return char
    if numpy_dtype.kind == "V" and numpy_dtype.names is None and numpy_dtype.type is np.void:
        return byte
    if numpy_dtype.names or (numpy_dtype.kind in "mMU" and numpy_dtype.itemsize):
        return _numpy_only(numpy_dtype)
    raise invalid(f"No TensorStore data type corresponding to NumPy dtype: {numpy_dtype!r}")


def _numpy_only(numpy_dtype: np.dtype[Any]) -> dtype:
    """Return the type for a NumPy dtype that TensorStore lacks; the name of a structure is its list of fields."""
    if numpy_dtype.names is None:
        numpy_dtype = numpy_dtype.newbyteorder("=")
    return _new(dump(numpy_dtype.descr) if numpy_dtype.names else numpy_dtype.str, numpy_dtype)
