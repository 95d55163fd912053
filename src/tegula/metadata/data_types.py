"""Data types: the type of an element in memory, and its name in Zarr v3.

A `DataType` is a NumPy dtype, including the extended dtypes of ``ml_dtypes``, or a type of variable-length elements,
which are kept in object arrays. Names are those of Zarr v3 core, section "Data types", and of the Zarr extensions
registry; `tegula.formats.numpy_types` has the spellings of Zarr v1 and v2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tegula.errors import MetadataError, UnsupportedError
from tegula.runtime.deferred import Later
from tegula.runtime.frozen import Frozen

if TYPE_CHECKING:
    import json

    import ml_dtypes
else:
    json, ml_dtypes = Later("json"), Later("ml_dtypes")

__all__ = [
    "BYTES",
    "EXTENDED",
    "EXTENDED_DTYPES",
    "MAX_ITEMSIZE",
    "OBJECT",
    "STRING",
    "DataType",
    "as_data_type",
    "can_hold",
    "data_type_from_json",
    "data_type_of",
    "data_type_to_json",
    "dtype_of_text",
    "holds_extended",
    "packed",
    "same_type",
]

_REGISTERED: Final = (
    "bfloat16", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3",
    "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "int2", "int4", "uint2", "uint4",
)  # fmt: skip
_COMPLEX_PARTS: Final = {
    f"complex_{name}": name
    for name in (
        "bfloat16", "float16", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3",
        "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    )
}  # fmt: skip
"""Complex numbers that NumPy lacks: structs of two parts, by the name of the type; and the types of the parts."""
_OPTIONAL: Final = "zarrs.optional"
"""Elements that may be missing: structs of a value, and whether it is valid."""
_OF_A_LIBRARY: Final = 2  # `dtype.isbuiltin` of a type that another library has registered with NumPy


@cache
def _extended() -> dict[str, np.dtype[Any]]:
    return {name: np.dtype(getattr(ml_dtypes, name)) for name in _REGISTERED if hasattr(ml_dtypes, name)}


class _Extended(Mapping[str, "np.dtype[Any]"]):
    """A mapping of names to extended dtypes that imports ``ml_dtypes`` when one of its names is looked up."""

    def __getitem__(self, name: str) -> np.dtype[Any]:
        if name not in _REGISTERED:
            raise KeyError(name)
        return _extended()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_extended())

    def __len__(self) -> int:
        return len(_extended())


class _ExtendedDtypes(Set["np.dtype[Any]"]):
    """The set of extended dtypes; a lookup of NumPy's own types does not import ``ml_dtypes``."""

    def __contains__(self, dtype: object) -> bool:
        return getattr(dtype, "isbuiltin", 0) == _OF_A_LIBRARY and dtype in _extended().values()

    def __iter__(self) -> Iterator[np.dtype[Any]]:
        return iter(_extended().values())

    def __len__(self) -> int:
        return len(_extended())


EXTENDED: Final[Mapping[str, np.dtype[Any]]] = _Extended()
"""The dtypes of ``ml_dtypes`` that are in the Zarr extensions registry, by name."""

EXTENDED_DTYPES: Final[Set[np.dtype[Any]]] = _ExtendedDtypes()

_PLAIN: Final = {
    "bool": "?", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2",
    "uint32": "u4", "uint64": "u8", "float16": "f2", "float32": "f4", "float64": "f8", "complex64": "c8",
    "complex128": "c16", "complex_float32": "c8", "complex_float64": "c16",
}  # fmt: skip
_PLAIN_NAMES: Final = {np.dtype(code): name for name, code in _PLAIN.items() if not name.startswith("complex_")}
_TIME_UNITS: Final = frozenset("Y M W D h m s ms us μs ns ps fs as generic".split())
MAX_ITEMSIZE: Final = 2**24
"""The most bytes of an element; without a limit, a short document could demand a huge fill value."""
_MAX_DEPTH: Final = 32


class DataType(Frozen):
    """The type of an array's elements.

    Parameters
    ----------
    numpy : numpy.dtype
        The dtype that reading returns. Its byte order is the stored one where the format makes it part of the type
        (Zarr v1 and v2, bcolz).
    variable : str
        ``"string"``, ``"bytes"`` or ``"object"`` for variable-length elements, for which `numpy` is ``object``;
        otherwise ``""``.
    alias : str
        The name to write if the type has several (``"r16"`` and ``"raw_bytes"``); ``""`` for the preferred one. For
        times without a unit, their scale factor, which arrays of NumPy do not keep. For elements that may be missing,
        ``zarrs.optional`` and the type of the values as JSON.

    Examples
    --------
    >>> as_data_type("bfloat16").numpy.itemsize, as_data_type(str).variable
    (2, 'string')
    """

    numpy: np.dtype[Any]
    variable: str = ""
    alias: str = ""

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return self.numpy.itemsize

    @property
    def is_fixed(self) -> bool:
        """True if every element takes the same number of bytes."""
        return not self.variable

    @property
    def has_byte_order(self) -> bool:
        """True if the byte order matters, so that a document must state it."""
        dtype = self.numpy if self.complex_part is None else self.complex_part
        if self.variable or self.alias.startswith(_OPTIONAL):  # the codec of the values has an order
            return False
        if dtype in EXTENDED_DTYPES:
            return dtype == EXTENDED["bfloat16"]
        return dtype.names is not None or (dtype.kind not in "bSV" and dtype.itemsize > 1)

    @property
    def complex_part(self) -> np.dtype[Any] | None:
        """Type of the fields ``real`` and ``imag`` of complex numbers that NumPy lacks; ``None`` for other types."""
        return self.numpy["real"] if self.alias in _COMPLEX_PARTS else None

    @property
    def inner(self) -> DataType | None:
        """Type of the field ``value`` of elements that may be missing, beside ``valid``; ``None`` for other types."""
        if not self.alias.startswith(_OPTIONAL):
            return None
        return data_type_from_json(json.loads(self.alias.removeprefix(_OPTIONAL)))

    def __str__(self) -> str:
        if self.alias in _COMPLEX_PARTS:
            return self.alias
        if (inner := self.inner) is not None:
            return f"optional {inner}"
        if self.variable or self.numpy.names is None:
            return self.variable or str(self.numpy)
        try:
            return str(self.numpy.descr)
        except ValueError:  # `descr` can't describe overlapping or unordered fields
            return str(self.numpy)


STRING: Final = DataType(np.dtype(object), "string")
BYTES: Final = DataType(np.dtype(object), "bytes")
OBJECT: Final = DataType(np.dtype(object), "object")


def as_data_type(value: Any) -> DataType:
    """Convert a user's ``dtype`` argument to a `DataType`.

    Parameters
    ----------
    value : DataType, numpy.dtype, type, str, list or dict
        Anything that `numpy.dtype` accepts, a Zarr v3 name (``"bfloat16"``, ``"string"``, ``"bytes"``, ``"r16"``), a
        Zarr v3 object, or a data type of zarr-python. ``str`` and ``numpy.dtypes.StringDType()`` stand for
        variable-length strings, ``bytes`` for variable-length byte strings.

    Raises
    ------
    MetadataError
        If the value is not a data type.
    UnsupportedError
        If no chunk can hold elements of this type.

    Examples
    --------
    >>> as_data_type("<M8[ms]").numpy, as_data_type("r16").numpy
    (dtype('<M8[ms]'), dtype('V2'))
    """
    if isinstance(value, DataType):
        return value

    # `str` and `bytes` mean any length here; NumPy would make them strings of length 0
    if value is str or (isinstance(value, str) and value in ("string", "str")):
        return STRING
    if value is bytes or (isinstance(value, str) and value == "bytes"):
        return BYTES

    # names and objects of Zarr v3 that NumPy does not know
    if isinstance(value, str) and (value in EXTENDED or re.fullmatch(r"r[0-9]+|complex_.*", value)):
        return data_type_from_json(value)
    if isinstance(value, Mapping) and "name" in value:
        return data_type_from_json(value)

    # data types of zarr-python know those of NumPy, which for elements of any length are Python objects
    if hasattr(value, "to_native_dtype"):
        if isinstance(value, type):
            raise MetadataError(f"pass a data type, such as {value.__name__}(), not its class", field="dtype")
        dtype = value.to_native_dtype()
        is_bytes = dtype.kind == "O" and value.to_json(zarr_format=2).get("object_codec_id") == "vlen-bytes"
        return BYTES if is_bytes else data_type_of(dtype)

    # everything else is NumPy's
    try:
        dtype = np.dtype(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise MetadataError(f"{value!r:.80} is not a data type: {error}", field="dtype") from error
    return data_type_of(dtype)


def data_type_of(dtype: np.dtype[Any]) -> DataType:
    """Convert a NumPy dtype to a `DataType`.

    Raises
    ------
    UnsupportedError
        If no chunk can hold elements of this dtype: fields of Python objects, elements without a size, or larger than
        `MAX_ITEMSIZE`.

    Examples
    --------
    >>> data_type_of(np.dtype("U")).variable, data_type_of(np.dtype("U5")).variable
    ('string', '')
    """
    if dtype.kind == "T":
        return STRING
    if dtype.kind == "O":
        return OBJECT
    if dtype.kind in "SU" and dtype.itemsize == 0:
        return BYTES if dtype.kind == "S" else STRING
    if dtype.hasobject:
        raise UnsupportedError(f"fields that hold Python objects can't be stored: {dtype}", field="dtype")
    if dtype.itemsize > MAX_ITEMSIZE:
        raise UnsupportedError(f"an element of {dtype.itemsize} bytes is larger than {MAX_ITEMSIZE}", field="dtype")
    if dtype.itemsize == 0 and dtype.kind != "V":
        raise UnsupportedError(f"elements of type {dtype} have no size", field="dtype")
    return _without_scale(dtype) if dtype.kind in "mM" else DataType(dtype)


def _without_scale(dtype: np.dtype[Any]) -> DataType:
    """Return the type of times; the scale of those without a unit is kept beside the dtype."""
    unit, scale = np.datetime_data(dtype)[:2]
    if unit != "generic" or scale == 1:
        return DataType(dtype)
    return DataType(np.dtype(dtype.str), alias=str(scale))


def data_type_from_json(value: Any, depth: int = 0) -> DataType:
    """Read the ``data_type`` of a Zarr v3 document (Zarr v3 core, section "Data types", and the extensions registry).

    Parameters
    ----------
    value : str or mapping
        A name, or an object with the members ``name`` and ``configuration``.
    depth : int
        Nesting depth in structs, which is limited.

    Raises
    ------
    MetadataError
        If the value does not have the form of a data type, or its configuration is not valid.
    UnsupportedError
        If no data type has that name.

    Examples
    --------
    >>> data_type_from_json("int16").numpy
    dtype('int16')
    >>> data_type_from_json({"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 10}}).numpy
    dtype('<M8[10s]')
    """
    if depth > _MAX_DEPTH:
        raise MetadataError("the data type is nested too deeply", field="data_type")
    name, configuration = _name_and_configuration(value)

    # numbers
    if name in _PLAIN:
        return DataType(np.dtype(_PLAIN[name]), alias=name if name.startswith("complex_") else "")
    if name in EXTENDED:
        return DataType(EXTENDED[name])
    if name in _COMPLEX_PARTS:
        part = EXTENDED.get(_COMPLEX_PARTS[name], np.dtype("<f2"))
        return DataType(np.dtype([("real", part), ("imag", part)]), alias=name)

    # variable-length strings and bytes
    if name == "string":
        return STRING
    if name in ("bytes", "variable_length_bytes"):
        return DataType(BYTES.numpy, BYTES.variable, "" if name == "bytes" else name)

    # types with parameters
    if re.fullmatch(r"r[0-9]{1,12}", name):
        bits = int(name[1:])
        if bits == 0 or bits % 8 or bits // 8 > MAX_ITEMSIZE:
            raise MetadataError(f"the number of raw bits must be a multiple of 8, not {name!r:.40}", field="data_type")
        return DataType(np.dtype(f"V{bits // 8}"), alias=name)
    if name in ("raw_bytes", "null_terminated_bytes", "fixed_length_utf32"):
        return DataType(_sized_dtype(name, configuration))
    if name in ("numpy.datetime64", "numpy.timedelta64"):
        return _without_scale(_time_dtype(name, configuration))
    if name in ("struct", "structured"):
        return DataType(_struct_dtype(configuration, depth), alias=name if name == "structured" else "")
    if name == _OPTIONAL:
        return _optional(data_type_from_json(configuration, depth + 1))
    raise UnsupportedError(f"no data type is called {name!r:.40}", field="data_type")


def _optional(inner: DataType) -> DataType:
    """Return the type of elements of the type `inner` that may be missing."""
    if inner.variable:
        raise UnsupportedError(
            f"elements of the type {_OPTIONAL} of {inner} are not read: NumPy has no form for them; let zarrs, which "
            f"wrote them, store them as {inner}, with a value that stands for what is missing",
            field="data_type",
        )
    try:
        dtype = np.dtype([("value", inner.numpy), ("valid", "?")]).newbyteorder("<")
    except ValueError as error:
        raise MetadataError(f"elements of {inner} can't be missing: {error}", field="data_type") from error
    if dtype.itemsize > MAX_ITEMSIZE:
        raise MetadataError(f"an element of {dtype.itemsize} bytes is larger than {MAX_ITEMSIZE}", field="data_type")
    return DataType(dtype, alias=f"{_OPTIONAL} {json.dumps(data_type_to_json(inner))}")


def _name_and_configuration(value: Any) -> tuple[str, Mapping[str, Any]]:
    """Split a ``data_type`` into its name and its configuration, which a bare name leaves out."""
    if isinstance(value, Mapping):
        name, configuration = value.get("name"), value.get("configuration", {})
        if not isinstance(configuration, Mapping):
            raise MetadataError("a data type's configuration must be an object", field="data_type.configuration")
    else:
        name, configuration = value, {}
    if not isinstance(name, str):
        raise MetadataError(
            f"a data type must be a name or an object with a name, not {value!r:.80}", field="data_type"
        )
    return name, configuration


def _sized_dtype(name: str, configuration: Mapping[str, Any]) -> np.dtype[Any]:
    """Read ``raw_bytes``, ``null_terminated_bytes`` or ``fixed_length_utf32``, which state their length in bytes."""
    length = configuration.get("length_bytes")
    if type(length) is not int or not 0 <= length <= MAX_ITEMSIZE:
        raise MetadataError(f"{name} needs a length in bytes, not {length!r:.40}", field="data_type.length_bytes")
    if name == "fixed_length_utf32":
        if length % 4:
            raise MetadataError("UTF-32 takes 4 bytes for each character", field="data_type.length_bytes")
        return np.dtype(f"U{length // 4}")
    return np.dtype(f"V{length}" if name == "raw_bytes" else f"S{length}")


def _time_dtype(name: str, configuration: Mapping[str, Any]) -> np.dtype[Any]:
    """Read ``numpy.datetime64`` or ``numpy.timedelta64`` with its unit and scale factor."""
    unit, scale = configuration.get("unit"), configuration.get("scale_factor")
    if not isinstance(unit, str) or unit not in _TIME_UNITS:
        raise MetadataError(f"unknown time unit {unit!r:.40}", field="data_type.unit")
    if type(scale) is not int or not 1 <= scale < 2**31:
        raise MetadataError(
            f"the scale factor must be a positive integer, not {scale!r:.40}", field="data_type.scale_factor"
        )
    kind = "M8" if name == "numpy.datetime64" else "m8"
    return np.dtype(f"{kind}[{scale}{'us' if unit == 'μs' else unit}]")


def _struct_dtype(configuration: Mapping[str, Any], depth: int) -> np.dtype[Any]:
    """Read the fields of a ``struct`` (objects) or of zarr-python's ``structured`` (pairs)."""
    fields = configuration.get("fields")
    if not isinstance(fields, Sequence) or isinstance(fields, str) or not fields:
        raise MetadataError("a struct needs a list of fields", field="data_type.fields")
    parts: list[tuple[str, np.dtype[Any]]] = []
    for item in fields:
        if isinstance(item, Mapping):
            name, inner = item.get("name"), item.get("data_type")
        elif isinstance(item, Sequence) and not isinstance(item, str) and len(item) == 2:
            name, inner = item
        else:
            raise MetadataError(f"{item!r:.80} is not a field", field="data_type.fields")
        if not isinstance(name, str) or not name:
            raise MetadataError(
                f"the name of a field must be a non-empty string, not {name!r:.80}", field="data_type.fields"
            )
        part = data_type_from_json(inner, depth + 1)
        if part.variable:
            raise UnsupportedError("a struct can't hold a field of variable length", field="data_type.fields")
        parts.append((name, part.numpy))
    try:
        dtype = np.dtype(parts)
    except ValueError as error:
        raise MetadataError(f"the fields do not form a struct: {error}", field="data_type.fields") from error
    if dtype.itemsize > MAX_ITEMSIZE:
        raise MetadataError(
            f"an element of {dtype.itemsize} bytes is larger than {MAX_ITEMSIZE}", field="data_type.fields"
        )
    return dtype.newbyteorder("<")  # unless the codec ``bytes`` states another order


def data_type_to_json(data_type: DataType) -> Any:
    """Convert a data type to the ``data_type`` member of a Zarr v3 document.

    Raises
    ------
    UnsupportedError
        If Zarr v3 has no name for the type (subarray fields, long double, Python objects).

    Examples
    --------
    >>> data_type_to_json(as_data_type("f8"))
    'float64'
    >>> data_type_to_json(as_data_type("S3"))
    {'name': 'null_terminated_bytes', 'configuration': {'length_bytes': 3}}
    """
    if data_type.variable == "object":
        raise UnsupportedError("Zarr v3 has no data type for Python objects", field="dtype")
    if data_type.variable:
        return data_type.alias or data_type.variable
    if data_type.alias.startswith(_OPTIONAL):
        inner = json.loads(data_type.alias.removeprefix(_OPTIONAL))
        named = {"name": inner} if isinstance(inner, str) else inner
        return {"name": _OPTIONAL, "configuration": {"configuration": {}, **named}}
    if data_type.numpy.kind in "mM" and data_type.alias:
        plain = _dtype_to_json(data_type.numpy)
        return {**plain, "configuration": {"unit": "generic", "scale_factor": int(data_type.alias)}}
    if data_type.alias and data_type.alias != "structured":
        return data_type.alias
    return _dtype_to_json(data_type.numpy, legacy=data_type.alias == "structured")


def _dtype_to_json(dtype: np.dtype[Any], legacy: bool = False) -> Any:
    """Convert a dtype; `legacy` writes structs in zarr-python's older form ``structured``."""
    native = dtype.newbyteorder("=")
    if native in _PLAIN_NAMES:
        return _PLAIN_NAMES[native]
    if dtype in EXTENDED_DTYPES:
        return next(name for name, extended in EXTENDED.items() if extended == dtype)
    if dtype.names is not None:
        parts = [(name, _dtype_to_json(dtype[name], legacy)) for name in dtype.names]
        fields = [list(part) for part in parts] if legacy else [{"name": n, "data_type": t} for n, t in parts]
        return {"name": "structured" if legacy else "struct", "configuration": {"fields": fields}}
    if dtype.kind in "Mm":
        unit, scale = np.datetime_data(dtype)
        name = "numpy.datetime64" if dtype.kind == "M" else "numpy.timedelta64"
        return {"name": name, "configuration": {"unit": unit, "scale_factor": scale}}
    if dtype.kind in "SUV" and dtype.subdtype is None:
        name = {"S": "null_terminated_bytes", "U": "fixed_length_utf32", "V": "raw_bytes"}[dtype.kind]
        return {"name": name, "configuration": {"length_bytes": dtype.itemsize}}
    raise UnsupportedError(f"Zarr v3 has no data type for {dtype}", field="dtype")


def dtype_of_text(text: str) -> np.dtype[Any]:
    """Convert a type string or name in a document to a dtype; without a stated byte order it is little-endian.

    NumPy takes the order of the machine, also for ``=``. But a document means the same on every machine, and those that
    state no order were written on little-endian machines.

    Raises
    ------
    TypeError, ValueError
        If NumPy knows no such type.

    Examples
    --------
    >>> dtype_of_text("float64").str, dtype_of_text("=i2").str, dtype_of_text(">f4").str
    ('<f8', '<i2', '>f4')
    """
    dtype = np.dtype(text)
    if dtype.isbuiltin == _OF_A_LIBRARY or "<" in text or ">" in text:
        return dtype
    little = dtype.newbyteorder("<")
    return dtype if dtype == little else little  # only long doubles of native order have buffers


def holds_extended(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is an extended one, or has a field of one.

    Examples
    --------
    >>> holds_extended(EXTENDED["bfloat16"]), holds_extended(np.dtype([("x", "f4")]))
    (True, False)
    """
    if dtype.names is None:
        return dtype.base in EXTENDED_DTYPES
    return any(holds_extended(dtype[name]) for name in dtype.names)


def packed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return `dtype` without padding between its fields.

    Examples
    --------
    >>> packed(np.dtype("u1,f8", align=True)).itemsize
    9
    """
    if dtype.subdtype is not None:
        inner, shape = dtype.subdtype
        return np.dtype((packed(inner), shape))
    if dtype.names is None:
        return dtype
    return np.dtype([(name, packed(dtype[name])) for name in dtype.names])


def same_type(there: DataType, wanted: DataType) -> bool:
    """Return whether two data types are the same apart from byte order and padding between fields."""
    native = (packed(item.numpy).newbyteorder("=") for item in (there, wanted))
    return there.variable == wanted.variable and len({*native}) == 1


def can_hold(there: DataType, wanted: DataType) -> bool:
    """Return whether a data type has all values of another.

    Examples
    --------
    >>> can_hold(as_data_type("f8"), as_data_type("i4")), can_hold(as_data_type("i4"), as_data_type("f8"))
    (True, False)
    """
    same_kind = there.variable == wanted.variable and (there.numpy.names is None) == (wanted.numpy.names is None)
    return same_type(there, wanted) or (
        same_kind and there.numpy.names is None and np.can_cast(wanted.numpy, there.numpy)
    )
