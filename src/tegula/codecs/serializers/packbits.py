"""``packbits``: elements packed into fewer bits (Zarr extensions registry, "packbits codec").

Bits are numbered from the least significant one, in an element and in an encoded byte.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from tegula.codecs.stages import Chunk, Context, Data, Decoder, Serializer, Shape, check_options, option, wrong_size
from tegula.errors import CodecError, MetadataError
from tegula.metadata.data_types import EXTENDED, EXTENDED_DTYPES
from tegula.metadata.nodes import CodecSpec

__all__ = ["Packbits", "build"]

_NAME: Final = "packbits"
_BITS: Final = {
    "bool": 1,
    "int2": 2,
    "uint2": 2,
    "int4": 4,
    "uint4": 4,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
}
_PADDINGS: Final = {"none": "none", None: "none", "first_byte": "first_byte", "last_byte": "last_byte"}


class Packbits(Serializer):
    """The codec that stores bits `first` to `last` of each element.

    Parameters
    ----------
    dtype : numpy.dtype
        Type of the elements.
    bits : int
        Number of bits of an element, or of each component of a complex number.
    first, last : int
        The first and the last bit to store.
    padding : {"none", "first_byte", "last_byte"}
        Position of a byte with the number of padding bits.

    Examples
    --------
    >>> Packbits(np.dtype(bool), 1, 0, 0, "first_byte").encode(np.array([True, False, True])).tolist()
    [5, 5]
    """

    name = _NAME

    def __init__(self, dtype: np.dtype[Any], bits: int, first: int, last: int, padding: str) -> None:
        self.dtype = dtype
        self.little = dtype if dtype in EXTENDED_DTYPES else dtype.newbyteorder("<")
        self.components = 2 if dtype.kind == "c" or dtype.names is not None else 1
        self.memory = np.dtype(f"<u{dtype.itemsize // self.components}")
        self.signed = dtype.kind == "i" or dtype in (EXTENDED["int2"], EXTENDED["int4"])
        self.kept = range(first, last + 1)
        self.bits = bits
        self.padding = padding

    def _packed(self, shape: Shape) -> tuple[int, int]:
        """Return the number of bytes of the packed bits, and the number of padding bits in the last one."""
        bits = prod(shape) * self.components * len(self.kept)
        return -(-bits // 8), -bits % 8

    def size(self, shape: Shape) -> int:
        return self._packed(shape)[0] + (self.padding != "none")

    def encode(self, chunk: Chunk) -> Data:
        raw = np.ascontiguousarray(chunk, self.little).reshape(-1).view(self.memory)
        columns = [(raw >> bit).astype("u1") & 1 for bit in self.kept]
        packed = np.packbits(np.stack(columns, axis=-1).reshape(-1), bitorder="little")
        if self.padding == "none":
            return packed
        count = np.array([self._packed(chunk.shape)[1]], "u1")
        return np.concatenate([count, packed] if self.padding == "first_byte" else [packed, count])

    def decoder(self, shape: Shape, limit: int) -> Decoder:
        size, (_, spare), count = self.size(shape), self._packed(shape), prod(shape) * self.components

        def decode(data: Data) -> Chunk:
            if len(data) != size:
                raise wrong_size(len(data), size, _NAME)
            packed = np.frombuffer(data, "u1")
            if self.padding != "none":
                position = 0 if self.padding == "first_byte" else -1
                if packed[position] != spare:
                    raise CodecError(
                        f"the data has {packed[position]} bits of padding where the chunk has {spare}", codec=_NAME
                    )
                packed = packed[1:] if position == 0 else packed[:-1]
            width = len(self.kept)
            columns = np.unpackbits(packed, count=count * width, bitorder="little").reshape(count, width)
            return self._values(columns).reshape(shape)

        return decode

    def _values(self, columns: Chunk) -> Chunk:
        """Move the bits to their positions, and extend the sign of signed integers."""
        raw = np.zeros(len(columns), self.memory)
        for number, bit in enumerate(self.kept):
            raw |= columns[:, number].astype(self.memory) << self.memory.type(bit)
        if self.signed and self.kept[-1] + 1 < self.bits:
            high = sum(1 << bit for bit in range(self.kept[-1] + 1, self.bits))
            raw |= columns[:, -1].astype(self.memory) * self.memory.type(high)
        return raw.view(self.little).astype(self.dtype, copy=False)


def build(spec: CodecSpec, context: Context) -> Packbits:
    """Build the codec with the options ``padding_encoding``, ``first_bit`` and ``last_bit``."""
    check_options(spec, "padding_encoding", "first_bit", "last_bit")
    dtype, part = context.data_type.numpy, context.data_type.complex_part
    is_number = (dtype.kind in "iufc" and dtype.itemsize <= 16) or dtype in EXTENDED_DTYPES or part is not None
    if context.data_type.variable or not (is_number or dtype.kind == "b"):
        raise MetadataError(f"{context.data_type} can't be packed", field="codecs", codec=_NAME)
    name, components = (dtype.name, 1 + (dtype.kind == "c")) if part is None else (part.name, 2)
    bits = _BITS.get(name) or 8 * dtype.itemsize // components
    padding = option(spec, "padding_encoding", "none", _PADDINGS)
    first = option(spec, "first_bit", None, _is_bit(bits)) or 0
    last = option(spec, "last_bit", None, _is_bit(bits))
    last = bits - 1 if last is None else last
    if last < first:
        raise MetadataError("last_bit must not be less than first_bit", field="codecs.last_bit", codec=_NAME)
    return Packbits(dtype, bits, first, last, padding)


def _is_bit(bits: int) -> Callable[[Any], bool]:
    return lambda value: value is None or (type(value) is int and 0 <= value < bits)
