"""Limbs: the bits of elements as small unsigned integers, whatever the byte order, and the names of data types.

Elements whose size is a multiple of two bytes are cut into limbs of 16 bits, lowest first; others into limbs of 8 bits.
Padding between fields is left out. Text, bytes and objects of variable length are replaced by a hash.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.errors import UnsupportedError
from tegula.metadata.data_types import EXTENDED_DTYPES, DataType, data_type_of, packed
from tegula.metadata.fill_values import is_empty

__all__ = ["limbs_of", "type_name"]

_HASH_BYTES: Final = 16
_SMALL: Final = ("int2", "int4", "uint2", "uint4")


def type_name(data_type: DataType) -> str:
    """Return a name of a data type that does not depend on byte order, padding or format.

    Examples
    --------
    >>> type_name(data_type_of(np.dtype(">i4"))), type_name(data_type_of(np.dtype([("a", "<f2"), ("b", "S3", (2,))])))
    ('int32', '{a: float16, b: 2 bytes24}')
    """
    return data_type.variable or _name_of(data_type.numpy)


def _name_of(dtype: np.dtype[Any]) -> str:
    if dtype.subdtype is not None:
        inner, shape = dtype.subdtype
        return f"{','.join(map(str, shape))} {_name_of(inner)}"
    if dtype.names is not None:
        return f"{{{', '.join(f'{name}: {_name_of(dtype[name])}' for name in dtype.names)}}}"
    return str(dtype.name)


def limbs_of(values: npt.NDArray[Any], data_type: DataType) -> npt.NDArray[Any]:
    """Return the limbs of each element along a new last axis.

    Raises
    ------
    UnsupportedError
        If an object is not of the kinds that JSON, MessagePack and NumPy have.

    Examples
    --------
    >>> limbs_of(np.array([1.5, -0.0], ">f4"), data_type_of(np.dtype("f4"))).tolist()
    [[0, 16320], [0, 32768]]
    """
    if data_type.variable:
        return _hashes(values, _BYTES_OF[data_type.variable])
    dtype = values.dtype
    if dtype in EXTENDED_DTYPES and dtype.name in _SMALL:
        values = values.astype(np.int8)  # the unused upper bits repeat the sign
    elif dtype.names is not None:
        values = values.astype(packed(dtype).newbyteorder("<"))
    elif dtype.isbuiltin != 2:  # a type of NumPy, not of another package
        values = values.astype(dtype.newbyteorder("<"), copy=False)
    size = values.dtype.itemsize
    if not size:
        return np.zeros((*values.shape, 0), np.uint8)
    if dtype.char in "gG":
        return _without_padding(values)
    flat = np.ascontiguousarray(values).reshape(-1)
    unit = 1 if size % 2 else 2
    return flat.view(f"<u{unit}").reshape(*values.shape, size // unit)


def _without_padding(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the limbs of long doubles without the bytes that hold nothing."""
    part = np.dtype(np.longdouble)
    used = 10 if np.finfo(part).nmant == 63 else part.itemsize
    parts = values.dtype.itemsize // part.itemsize
    raw = np.ascontiguousarray(values).reshape(-1).view("u1").reshape(*values.shape, parts, part.itemsize)
    return np.ascontiguousarray(raw[..., :used]).reshape(*values.shape, parts * used).view("<u2")


# --- elements of variable length


def _hashes(values: npt.NDArray[Any], as_bytes: Callable[[Any], bytes]) -> npt.NDArray[Any]:
    try:
        raw = b"".join(blake2b(as_bytes(value), digest_size=_HASH_BYTES).digest() for value in values.reshape(-1))
    except RecursionError:
        raise UnsupportedError("an object is nested too deeply for a checksum") from None
    return np.frombuffer(raw, "<u2").reshape(*values.shape, _HASH_BYTES // 2)


def _of_text(value: Any) -> bytes:
    """Return text in UTF-8: Zarr v2 reads missing texts as its fill value, which may be 0 or null."""
    return b"" if is_empty(value) else str(value).encode("utf-8", "surrogatepass")


def _of_bytes(value: Any) -> bytes:
    if is_empty(value):
        return b""
    if not isinstance(value, (bytes, bytearray)):  # a fill value that is not bytes
        raise UnsupportedError(f"{value!r:.60} is not bytes, so it has no checksum")
    return bytes(value)


def _of_object(value: Any) -> bytes:
    return b"".join(_parts(value))


_BYTES_OF: Final = {"string": _of_text, "bytes": _of_bytes, "object": _of_object}


def _parts(value: Any) -> Iterator[bytes]:
    """Yield the kind of an object and its contents, with their lengths, so that different objects never look alike."""
    if isinstance(value, (np.bool_, np.integer, np.floating)) and value.dtype.itemsize <= 8:
        value = value.item()
    if value is None or isinstance(value, bool):
        yield b"n" if value is None else b"t" if value else b"f"
    elif isinstance(value, int):
        yield from _sized(b"i", b"%d" % value)
    elif isinstance(value, float):
        yield b"d" + struct.pack("<d", value)
    elif isinstance(value, complex):
        yield b"c" + struct.pack("<dd", value.real, value.imag)
    elif isinstance(value, str):
        yield from _sized(b"s", value.encode("utf-8", "surrogatepass"))
    elif isinstance(value, (bytes, bytearray)):
        yield from _sized(b"b", bytes(value))
    elif isinstance(value, (list, tuple)):
        yield b"l%d:" % len(value)
        for item in value:
            yield from _parts(item)
    elif isinstance(value, Mapping):
        yield b"m%d:" % len(value)
        for name, item in sorted(((_of_object(name), item) for name, item in value.items()), key=itemgetter(0)):
            yield name
            yield from _parts(item)
    elif isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        data_type = DataType(array.dtype, "object") if array.dtype.hasobject else data_type_of(array.dtype)
        shape = ",".join(map(str, array.shape))
        yield from _sized(b"a", f"{type_name(data_type)} {shape}".encode("utf-8", "surrogatepass"))
        yield np.ascontiguousarray(limbs_of(array, data_type)).tobytes()
    else:
        raise UnsupportedError(f"objects of type {type(value).__qualname__} have no checksum")


def _sized(kind: bytes, value: bytes) -> Iterator[bytes]:
    yield b"%b%d:" % (kind, len(value))
    yield value
