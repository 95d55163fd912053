"""NumPy data types in documents: type strings and field lists of the array interface, and results of ``str(dtype)``."""

from __future__ import annotations

import ast
import sys
from typing import Any

import numpy as np

from tegula.errors import MetadataError, UnsupportedError
from tegula.metadata.data_types import EXTENDED, EXTENDED_DTYPES, MAX_ITEMSIZE, OBJECT, DataType, dtype_of_text
from tegula.runtime.deferred import matcher
from tegula.runtime.parsing import parse_expression

__all__ = ["dtype_from_json", "dtype_from_text", "dtype_to_json", "dtype_to_text"]

_TYPESTR = matcher(r"[<>|=]?(?:[biufcSUV][0-9]{1,10}|[Mm]8?(?:\[(?:[1-9][0-9]{0,8})?[A-Za-zμ]{1,7}\])?|\?)")
_NAME = matcher(r"[<>|=]?[A-Za-z]{1,12}_?[0-9]{0,10}(?:\[[A-Za-z0-9μ]{1,16}\])?|\?")
_MAX_DEPTH = 32
_MAX_TEXT = 2**16
_RECORD = "(numpy.record, "  # in the text of data types of `numpy.recarray`


def dtype_from_json(value: Any, key: str) -> DataType:
    """Read a ``dtype`` (Zarr v1 and v2, section "Data type encoding"), or the name of an extended type of TensorStore.

    Parameters
    ----------
    value : JSON value
        A type string, a list of fields, or a name such as ``"bfloat16"``.
    key : str
        Key of the document, for errors.

    Raises
    ------
    MetadataError
        If it is not a data type.
    UnsupportedError
        If no chunk can hold elements of this type.

    Examples
    --------
    >>> dtype_from_json([["r", "|u1"], ["xy", "<f4", [2]]], ".zarray").numpy
    dtype([('r', 'u1'), ('xy', '<f4', (2,))])
    """
    if value in ("|O", "O"):
        return OBJECT
    try:
        dtype = _parse(value, 0)
    except (TypeError, ValueError, OverflowError) as error:
        raise MetadataError(f"{value!r:.80} is not a data type: {error}", key=key, field="dtype") from error
    return DataType(_checked(dtype, key))


def _checked(dtype: np.dtype[Any], key: str) -> np.dtype[Any]:
    if dtype.itemsize > MAX_ITEMSIZE:
        raise UnsupportedError(f"an element of {dtype.itemsize} bytes is too large", key=key, field="dtype")
    if dtype.hasobject and dtype.names is not None:
        raise UnsupportedError("fields of Python objects can't be read", key=key, field="dtype")
    return dtype


def _parse(value: Any, depth: int) -> np.dtype[Any]:
    """Read a type string or a list of fields, which may be nested; raise ``ValueError`` for anything else."""
    if isinstance(value, str):
        if value in EXTENDED:
            return EXTENDED[value]
        if not _TYPESTR(value):
            raise ValueError("it is not a type string of the array interface")
        return dtype_of_text(value)
    if not isinstance(value, list) or not value or depth > _MAX_DEPTH:
        raise ValueError("it is neither a type string nor a list of fields")
    fields: list[Any] = []
    for item in value:
        if not isinstance(item, list) or not 2 <= len(item) <= 3:
            raise ValueError(f"{item!r:.80} is not a field")
        name = tuple(item[0]) if isinstance(item[0], list) else item[0]
        if not all(isinstance(part, str) for part in (name if isinstance(name, tuple) else (name,))):
            raise ValueError(f"{item[0]!r:.80} is not the name of a field")
        inner = _parse(item[1], depth + 1)
        if len(item) == 3:
            shape = item[2] if isinstance(item[2], list) else [item[2]]
            if any(type(n) is not int or not 0 < n < 2**31 for n in shape):
                raise ValueError(f"{item[2]!r:.80} is not the shape of a field")
            fields.append((name, inner, tuple(shape)))
        else:
            fields.append((name, inner))
    return np.dtype(fields)


def dtype_from_text(value: Any, key: str) -> np.dtype[Any]:
    """Read the result of ``str(dtype)``: a name, a type string, or the ``repr`` of a list or dict of fields.

    A list or dict is parsed as a literal and not evaluated.

    Parameters
    ----------
    value : JSON value
        The text.
    key : str
        Key of the document, for errors.

    Raises
    ------
    MetadataError
        If it is not a data type.
    UnsupportedError
        If no chunk can hold elements of this type.

    Examples
    --------
    >>> dtype_from_text("[('a', '<i4'), ('b', '<f8')]", "meta/storage")
    dtype([('a', '<i4'), ('b', '<f8')])
    """
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise MetadataError(f"{value!r:.80} is not a data type", key=key, field="dtype")
    if value.startswith(_RECORD) and value.endswith(")"):
        value = value[len(_RECORD) : -1]
    try:
        dtype = np.dtype(_with_order(_literal(value) if value[:1] in ("[", "{") else _plain_name(value)))
    except (TypeError, ValueError, OverflowError, SyntaxError, RecursionError, MemoryError, KeyError) as error:
        raise MetadataError(f"{value!r:.80} is not a data type: {error}", key=key, field="dtype") from error
    if dtype.itemsize == 0 or dtype.subdtype is not None or dtype.kind == "T":
        raise UnsupportedError(f"no chunk can hold elements of type {value!r:.80}", key=key, field="dtype")
    return _checked(dtype, key)


def _plain_name(value: str) -> str:
    if not _NAME(value):
        raise ValueError("it is not the name of a data type")
    return value


def _literal(text: str) -> Any:
    """Parse a list or dict of fields; deep nesting, which would exhaust the stack of Python's parser, is an error."""
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if deepest > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    value = ast.literal_eval(parse_expression(text))
    _check_fields(value)
    return value


def _check_fields(value: Any) -> None:
    """Raise unless a literal has only parts of a dtype's description: names, type strings, numbers, lists, dicts."""
    if isinstance(value, (list, tuple)):
        for item in value:
            _check_fields(item)
    elif isinstance(value, dict):
        if {*value} - {"names", "formats", "offsets", "titles", "itemsize", "aligned"}:
            raise ValueError("it has members that a data type does not have")
        for item in value.values():
            _check_fields(item)
    elif not isinstance(value, (str, int, type(None))):
        raise TypeError(f"{value!r:.40} can't be part of a data type")


def _with_order(value: Any) -> Any:
    """Convert the type strings in the description of a dtype, so that each has a byte order on every machine."""
    if isinstance(value, str):
        return dtype_of_text(value)
    if isinstance(value, list):  # fields: names, types, and perhaps shapes
        return [(item[0], _with_order(item[1]), *item[2:]) if _is_pair(item) else item for item in value]
    if isinstance(value, dict) and isinstance(value.get("formats"), (list, tuple)):
        return {**value, "formats": [_with_order(item) for item in value["formats"]]}
    return (_with_order(value[0]), *value[1:]) if _is_pair(value) else value


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) > 1


def dtype_to_json(data_type: DataType) -> Any:
    """Convert a data type to the member ``dtype`` of Zarr v1 and v2: a type string, or a list of fields.

    Examples
    --------
    >>> dtype_to_json(DataType(np.dtype(">i4"))), dtype_to_json(DataType(np.dtype([("x", "u1")])))
    ('>i4', [['x', '|u1']])
    """
    if data_type.variable:
        return "|O"
    dtype = data_type.numpy
    if dtype in EXTENDED_DTYPES:
        return next(name for name, extended in EXTENDED.items() if extended == dtype)
    if dtype.fields is None:
        return dtype.str
    return [_field_to_json(dtype, *field) for field in dtype.descr]


def _field_to_json(dtype: np.dtype[Any], name: Any, kind: Any, *shape: Any) -> list[Any]:
    """Convert a field in NumPy's description of a structure; NumPy has no type strings for extended types."""
    field = dtype.fields.get(name if isinstance(name, str) else name[1]) if dtype.fields else None
    base = None if field is None else field[0].base
    kind = dtype_to_json(DataType(base)) if base is not None and base in EXTENDED_DTYPES else kind
    return [_lists(part) for part in (name, kind, *shape)]


def _lists(value: Any) -> Any:
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def dtype_to_text(dtype: np.dtype[Any], machine: str = sys.byteorder) -> str:
    """Convert a data type to text as bcolz does: the result of ``str(dtype)``, with the byte order where it is needed.

    Parameters
    ----------
    dtype : dtype
        The data type.
    machine : {"little", "big"}
        Byte order of the machine. On a big-endian one ``str(dtype)`` leaves out the order of big-endian types, which
        `dtype_from_text` and bcolz elsewhere would take for little-endian.

    Examples
    --------
    >>> dtype_to_text(np.dtype("<f8")), dtype_to_text(np.dtype(">f8"))
    ('float64', '>f8')
    >>> dtype_to_text(np.dtype(">f8"), "big"), dtype_to_text(np.dtype("u1"), "big")
    ('>f8', 'uint8')
    """
    if dtype.kind == "O":
        return "object"
    if dtype.names is None and machine == "big" and dtype.str[0] in "<>":
        return dtype.str
    text = str(dtype)  # states the order of each field
    return str(_without_records(dtype)) if "numpy.record" in text else text


def _without_records(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a data type without `numpy.record`, which can't be expressed in the text of a data type."""
    if dtype.subdtype is not None:
        return np.dtype((_without_records(dtype.base), dtype.shape))
    if dtype.fields is None or dtype.names is None:
        return dtype
    fields: Any = {
        "names": [*dtype.names],
        "formats": [_without_records(dtype[name]) for name in dtype.names],
        "offsets": [dtype.fields[name][1] for name in dtype.names],
        "itemsize": dtype.itemsize,
    }
    dtype_of_fields: np.dtype[Any] = np.dtype(fields, align=dtype.isalignedstruct)
    return dtype_of_fields
