"""Variable-length elements: ``vlen-utf8``, ``vlen-bytes`` (Zarr extensions registry) and ``vlen-*`` of numcodecs.

All have the same layout in Zarr v2 and v3: the number of elements, then for each element its length in bytes and its
bytes. Every number is a little-endian 32-bit integer. zarr-python also writes text and bytes of fixed length so.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from struct import Struct, error
from typing import Any, Final

import numpy as np

from tegula.codecs.native import NativeStrings
from tegula.codecs.stages import REQUIRED, Chunk, Context, Data, Decoder, Serializer, Shape, check_options, option
from tegula.errors import CodecError, MetadataError
from tegula.metadata.data_types import dtype_of_text
from tegula.metadata.nodes import CodecSpec, is_fixed_vlen

__all__ = ["Vlen", "build"]

_NUMBER: Final = Struct("<I")
_pack, _unpack = _NUMBER.pack, _NUMBER.unpack_from
_KERNEL: Final[dict[Any, bool]] = {bytes.decode: True, bytes: False}
"""The conversions from bytes that the kernel supports, and whether each returns strings."""


class Vlen(Serializer):
    """The codec for one type of elements.

    Parameters
    ----------
    name : str
        The codec's name in the chain.
    to_bytes : callable
        Converts an element to bytes; raises ``TypeError`` for a value of another type.
    from_bytes : callable
        Converts bytes to an element.

    Examples
    --------
    >>> codec = Vlen("vlen-bytes", bytes, bytes)
    >>> codec.encode(np.array([b"a", b""], object)).hex()
    '02000000010000006100000000'
    """

    def __init__(self, name: str, to_bytes: Callable[[Any], bytes], from_bytes: Callable[[Any], Any]) -> None:
        self.name = name
        self.to_bytes = to_bytes
        self.from_bytes = from_bytes

    @property
    def native(self) -> NativeStrings | None:
        """The codec for the kernel, or ``None`` for elements that are neither strings nor bytes."""
        kind = _KERNEL.get(self.from_bytes)
        return None if kind is None else NativeStrings(kind)

    def encode(self, chunk: Chunk) -> bytes:
        parts = [_pack(chunk.size)]
        for item in map(self.to_bytes, chunk.ravel()):
            parts += (_pack(len(item)), item)
        return b"".join(parts)

    def decoder(self, shape: Shape, limit: int) -> Decoder:
        count, name, from_bytes = prod(shape), self.name, self.from_bytes

        def decode(data: Data) -> Chunk:
            items = [from_bytes(item) for item in _split(data, count, name)]
            return np.fromiter(items, object, count).reshape(shape)

        return decode


class FixedVlen(Vlen):
    """The codec for text or bytes of fixed length.

    Parameters
    ----------
    name : str
        The codec's name in the chain.
    dtype : numpy.dtype
        Data type of the elements.

    Examples
    --------
    >>> codec = FixedVlen("vlen-utf8", np.dtype("U3"))
    >>> codec.decoder((2,), 100)(codec.encode(np.array(["ab", "xyz"])))
    array(['ab', 'xyz'], dtype='<U3')
    """

    def __init__(self, name: str, dtype: np.dtype[Any]) -> None:
        to_bytes: dict[str, Callable[[Any], bytes]] = {"U": str.encode, "S": bytes, "V": np.void.tobytes}
        super().__init__(name, to_bytes[dtype.kind], bytes)
        self.dtype = dtype

    @property
    def native(self) -> None:
        return None

    def decoder(self, shape: Shape, limit: int) -> Decoder:
        count, name, dtype = prod(shape), self.name, self.dtype
        most = dtype.itemsize // (4 if dtype.kind == "U" else 1)

        def decode(data: Data) -> Chunk:
            items = _split(data, count, name)
            if dtype.kind == "U":
                items = [bytes.decode(item) for item in items]
            longest = max(map(len, items), default=0)
            if longest > most:
                raise CodecError(f"an element has length {longest}, the data type {most}", codec=name)
            if dtype.kind == "V":
                items = [item.ljust(most, b"\0") for item in items]
            return np.array(items, dtype).reshape(shape)

        return decode


def _split(data: Data, count: int, name: str) -> list[Any]:
    """Split the data into the bytes of its elements, and check every length."""
    view = data if type(data) is bytes else bytes(data)
    if len(view) < 4 + 4 * count or _unpack(view)[0] != count:
        raise CodecError(f"the data does not hold {count} elements", codec=name)
    position, items = 4, []
    try:
        for _ in range(count):
            start = position + 4
            position = start + _unpack(view, position)[0]
            items.append(view[start:position])
    except error as cause:
        raise CodecError("the data ends before its last element", codec=name) from cause
    if position != len(view):
        raise CodecError("the lengths of the elements do not add up to that of the data", codec=name)
    return items


def _is_empty(item: Any) -> bool:
    """Return whether an element is ``None`` or 0, as in new object arrays; numcodecs stores both as empty elements."""
    return item is None or (isinstance(item, (int, np.integer)) and item == 0)


def _encode_string(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if _is_empty(item):
        return b""
    raise TypeError(f"{item!r:.80} is not a string")


def _encode_bytes(item: Any) -> bytes:
    if isinstance(item, (bytes, bytearray)):
        return bytes(item)
    if _is_empty(item):
        return b""
    raise TypeError(f"{item!r:.80} is not bytes")


def _array_conversions(dtype: np.dtype[Any]) -> tuple[Callable[[Any], bytes], Callable[[bytes], Chunk]]:
    """Return the conversions of one-dimensional arrays to bytes, and back."""

    def to_bytes(item: Any) -> bytes:
        if _is_empty(item):
            return b""
        array = np.asarray(item, dtype)
        if array.ndim != 1:
            raise TypeError("an element must be an array of one dimension")
        return array.tobytes()

    def from_bytes(data: bytes) -> Chunk:
        return np.frombuffer(data, dtype).copy()

    return to_bytes, from_bytes


def build(spec: CodecSpec, context: Context) -> Vlen:
    """Build the codec; ``numcodecs.vlen-array`` has the option ``dtype``.

    ``vlen-array`` and ``zarrs.vlen_v2`` of Zarr v3, which zarrs writes, are the same for text and for bytes.
    """
    kind = spec.name.removeprefix("numcodecs.")
    if spec.name in ("vlen-array", "zarrs.vlen_v2") and context.data_type.variable in ("string", "bytes"):
        kind = "vlen-utf8" if context.data_type.variable == "string" else "vlen-bytes"
    check_options(spec, *(("dtype",) if kind == "vlen-array" else ()))
    if is_fixed_vlen(spec, context.data_type):
        return FixedVlen(spec.name, context.data_type.numpy)
    if not context.data_type.variable:
        raise MetadataError(f"elements of type {context.data_type} have a fixed size", field="codecs", codec=spec.name)
    if kind == "vlen-utf8":
        return Vlen(spec.name, _encode_string, bytes.decode)
    if kind == "vlen-bytes":
        return Vlen(spec.name, _encode_bytes, bytes)
    try:
        stated = option(spec, "dtype", REQUIRED, lambda value: isinstance(value, (str, list)))
        dtype = dtype_of_text(stated) if isinstance(stated, str) else np.dtype(stated)
    except (TypeError, ValueError) as cause:
        raise MetadataError(f"the option is not a dtype: {cause}", field="codecs.dtype", codec=spec.name) from cause
    if dtype.hasobject or dtype.itemsize == 0:
        raise MetadataError(f"{dtype} has no fixed size", field="codecs.dtype", codec=spec.name)
    return Vlen(spec.name, *_array_conversions(dtype))
