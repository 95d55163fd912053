"""Elements of variable length: ``vlen-utf8``, ``vlen-bytes`` (Zarr extensions registry) and numcodecs' ``vlen-*``.

All have one layout: the number of elements, then each element behind its length in bytes; every number is a
little-endian 32-bit integer. Zarr v2 and v3 store the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from struct import Struct, error
from typing import Any, Final

import numpy as np

from tegula.codecs.stages import (
    REQUIRED,
    Chunk,
    Context,
    Data,
    Decoder,
    NativeTexts,
    Serializer,
    Shape,
    known_options,
    option,
)
from tegula.errors import CodecError, MetadataError
from tegula.metadata.nodes import CodecSpec

__all__ = ["Vlen", "build"]

_NUMBER: Final = Struct("<I")
_pack, _unpack = _NUMBER.pack, _NUMBER.unpack_from
_KERNEL: Final[dict[Any, bool]] = {bytes.decode: True, bytes: False}
"""Of what makes elements in the kernel too, whether these are text."""


class Vlen(Serializer):
    """Elements behind their lengths.

    Parameters
    ----------
    name : str
        The codec's name in the chain.
    to_bytes : callable
        Makes the bytes of an element; raises ``TypeError`` for what is not one.
    from_bytes : callable
        Makes an element of its bytes.

    Examples
    --------
    >>> codec = Vlen("vlen-bytes", _bytes, bytes)
    >>> codec.encode(np.array([b"a", b""], object)).hex()
    '02000000010000006100000000'
    """

    def __init__(self, name: str, to_bytes: Callable[[Any], bytes], from_bytes: Callable[[Any], Any]) -> None:
        self.name = name
        self.to_bytes = to_bytes
        self.from_bytes = from_bytes

    @property
    def native(self) -> NativeTexts | None:
        """For tegula's kernel: ``("vlen", is_text)``."""
        kind = _KERNEL.get(self.from_bytes)
        return None if kind is None else NativeTexts(kind)

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


def _split(data: Data, count: int, name: str) -> list[Any]:
    """Cut the data into its elements, checking every length."""
    view = data if type(data) is bytes else bytes(data)
    if len(view) < 4 + 4 * count or _unpack(view)[0] != count:
        raise CodecError(f"the data is not that of {count} elements", codec=name)
    position, items = 4, []
    try:
        for _ in range(count):
            start = position + 4
            position = start + _unpack(view, position)[0]
            items.append(view[start:position])
    except error as cause:
        raise CodecError("the data ends before its last element", codec=name) from cause
    if position != len(view):
        raise CodecError("the lengths of the elements and that of the data differ", codec=name)
    return items


def _is_nothing(item: Any) -> bool:
    """Object arrays that were never filled hold None, others 0; numcodecs stores both as empty elements."""
    return item is None or (isinstance(item, (int, np.integer)) and item == 0)


def _text(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if _is_nothing(item):
        return b""
    raise TypeError(f"{item!r:.80} is not text")


def _bytes(item: Any) -> bytes:
    if isinstance(item, (bytes, bytearray)):
        return bytes(item)
    if _is_nothing(item):
        return b""
    raise TypeError(f"{item!r:.80} is not bytes")


def _arrays(dtype: np.dtype[Any]) -> tuple[Callable[[Any], bytes], Callable[[bytes], Chunk]]:
    def to_bytes(item: Any) -> bytes:
        if _is_nothing(item):
            return b""
        array = np.asarray(item, dtype)
        if array.ndim != 1:
            raise TypeError("an element must be an array of one dimension")
        return array.tobytes()

    def from_bytes(data: bytes) -> Chunk:
        return np.frombuffer(data, dtype).copy()

    return to_bytes, from_bytes


def build(spec: CodecSpec, context: Context) -> Vlen:
    """Build the codec; ``numcodecs.vlen-array`` has the option ``dtype``."""
    kind = spec.name.removeprefix("numcodecs.")
    known_options(spec, *(("dtype",) if kind == "vlen-array" else ()))
    if not context.data_type.variable:
        raise MetadataError(f"elements of type {context.data_type} have a fixed size", field="codecs", codec=spec.name)
    if kind == "vlen-utf8":
        return Vlen(spec.name, _text, bytes.decode)
    if kind == "vlen-bytes":
        return Vlen(spec.name, _bytes, bytes)
    try:
        dtype = np.dtype(option(spec, "dtype", REQUIRED, lambda value: isinstance(value, (str, list))))
    except (TypeError, ValueError) as cause:
        raise MetadataError(f"not a dtype: {cause}", field="codecs.dtype", codec=spec.name) from cause
    if dtype.hasobject or dtype.itemsize == 0:
        raise MetadataError(f"{dtype} has no fixed size", field="codecs.dtype", codec=spec.name)
    return Vlen(spec.name, *_arrays(dtype))
