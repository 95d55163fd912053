"""``numcodecs.zfpy``: compression of floating-point numbers and integers by zfp.

The library trusts its input: it allocates the size that the header states, and reads past the end of a truncated
stream. So this module checks the header against the chunk, and appends as many zero bytes as decoding may read.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from tegula.codecs.stages import Chunk, Context, Data, Decoder, Serializer, Shape, create_codec, library
from tegula.errors import CodecError, MetadataError, UnsupportedError
from tegula.metadata.nodes import CodecSpec

__all__ = ["Zfpy", "build", "field_header", "header"]

_NAME: Final = "numcodecs.zfpy"
_TYPES: Final = ("<i4", "<i8", "<f4", "<f8")
_FIELD_BITS: Final = (48, 24, 16, 12)
_MODE: Final = 84  # bits before the mode: the magic number and the shape


def header(data: Data) -> tuple[str, Shape] | None:
    """Return dtype and shape, last axis first, of a zfp header; ``None`` if `data` does not begin with one.

    Examples
    --------
    >>> header(b"zfp\\x05" + (3 | 0 << 2 | 9 << 4).to_bytes(8, "little"))
    ('<f8', (10,))
    """
    if len(data) < 12 or bytes(data[:3]) != b"zfp":
        return None
    field = int.from_bytes(data[4:12], "little")
    dtype, axes = _TYPES[field & 3], field >> 2 & 3
    width = _FIELD_BITS[axes]
    return dtype, tuple((field >> 4 + width * axis & (1 << width) - 1) + 1 for axis in range(axes + 1))


def field_header(
    dtype: np.dtype[Any], shape: Shape, minbits: int, maxbits: int, maxprec: int, minexp: int
) -> tuple[int, int]:
    """Return the bits of a zfp header in its expert mode, the first one lowest, and their number.

    Examples
    --------
    >>> head, bits = field_header(np.dtype("f8"), (10,), 1, 16658, 64, -1074)
    >>> header(head.to_bytes(-(-bits // 8), "little")), bits
    (('<f8', (10,)), 148)
    """
    kind = _TYPES.index(dtype.newbyteorder("<").str)
    width = _FIELD_BITS[len(shape) - 1]
    field = kind | len(shape) - 1 << 2
    for axis, length in enumerate(shape[::-1]):
        field |= length - 1 << 4 + width * axis
    mode = 0xFFF | minbits - 1 << 12 | maxbits - 1 << 27 | maxprec - 1 << 42 | minexp + 16495 << 49
    return int.from_bytes(b"zfp\x05", "little") | field << 32 | mode << _MODE, _MODE + 64


def _least_bits(data: Data, blocks: int) -> int:
    """Return the smallest number of bits of a stream: its header, and for each block what the mode requires."""
    mode = int.from_bytes(data[:24], "little") >> _MODE
    if mode & 0xFFF == 0xFFF:  # the long form of the mode
        return _MODE + 64 + blocks * ((mode >> 12 & 0x7FFF) + 1)
    return _MODE + 12 + blocks * ((mode & 0xFFF) + 1 if mode & 0xFFF < 2048 else 1)


class Zfpy(Serializer):
    """Zfp in one of its modes."""

    name = _NAME

    def __init__(self, codec: Any, dtype: np.dtype[Any]) -> None:
        self.codec = codec
        self.dtype = dtype
        self.machine = dtype.newbyteorder("=")

    def encode(self, chunk: Chunk) -> Data:
        return self.codec.encode(np.ascontiguousarray(chunk, self.machine).reshape(chunk.shape))

    def decoder(self, shape: Shape, limit: int) -> Decoder:
        count, stored = prod(shape), self.dtype.newbyteorder("<")

        def decode(data: Data) -> Chunk:
            stated = header(data)
            if stated is None or np.dtype(stated[0]) != stored or prod(stated[1]) != count:
                raise CodecError(f"the zfp header is not that of {count} elements of type {stored}", codec=_NAME)
            blocks = prod(-(-length // 4) for length in stated[1])
            if _least_bits(data, blocks) > 8 * len(data):
                raise CodecError("the zfp data is truncated", codec=_NAME)
            # a block has 4 values along each axis, and no value takes more than twice its size in memory
            most = 2 * blocks * 4 ** len(stated[1]) * stored.itemsize
            array = self.codec.decode(bytes(data) + bytes(most + 4096))
            return np.asarray(array).reshape(-1).astype(self.dtype, copy=False).reshape(shape)

        return decode


def build(spec: CodecSpec, context: Context) -> Zfpy:
    """Build the codec from the options of numcodecs."""
    dtype = context.data_type.numpy
    if dtype.kind not in "if" or dtype.itemsize not in (4, 8) or not 0 < context.ndim <= 4:
        raise MetadataError("zfp takes 32-bit and 64-bit numbers in 1 to 4 dimensions", field="codecs", codec=_NAME)
    library("zfpy")
    try:
        codec = library("numcodecs.zfpy").ZFPY
    except AttributeError as error:  # numcodecs does not define the class for versions of zfpy that it does not support
        raise UnsupportedError("numcodecs can't use the installed version of zfpy", codec=_NAME) from error
    return Zfpy(create_codec(codec, spec), dtype)
