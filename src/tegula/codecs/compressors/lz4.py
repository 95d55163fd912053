"""``numcodecs.lz4``: the decoded size as a 32-bit integer, then an LZ4 block; ``z5.lz4``: the block alone."""

from __future__ import annotations

from typing import Final

from tegula.codecs.native import NativeLz4
from tegula.codecs.stages import (
    BufferCodec,
    Context,
    Data,
    Decoder,
    between,
    check_options,
    library,
    option,
    wrong_size,
)
from tegula.errors import CodecError
from tegula.metadata.nodes import CodecSpec

__all__ = ["BareLz4", "Lz4", "build"]

_BARE: Final = "z5.lz4"
_BEST_RATIO: Final = 255  # an LZ4 block decodes to at most this many bytes for each of its bytes


class Lz4(BufferCodec):
    """LZ4 with an acceleration factor; 1 compresses best."""

    name = "numcodecs.lz4"

    def __init__(self, acceleration: int) -> None:
        self.acceleration = acceleration

    @property
    def native(self) -> NativeLz4:
        return NativeLz4(self.acceleration)

    def load(self) -> None:
        library("numcodecs.lz4")

    def encode(self, data: Data) -> Data:
        return library("numcodecs.lz4").compress(data, self.acceleration)

    def decoder(self, size: int | None, limit: int) -> Decoder:
        decompress = library("numcodecs.lz4").decompress

        def decode(data: Data) -> Data:
            if len(data) < 5:
                raise CodecError("the LZ4 data is truncated", codec="numcodecs.lz4")
            nbytes = int.from_bytes(data[:4], "little")
            if nbytes > limit or (size is not None and nbytes != size):
                raise wrong_size(nbytes, limit, "numcodecs.lz4")
            if nbytes > _BEST_RATIO * len(data):
                raise CodecError("the decoded size in the LZ4 data is impossible", codec="numcodecs.lz4")
            return decompress(data)

        return decode


class BareLz4(BufferCodec):
    """An LZ4 block, whose decoded size is known from elsewhere."""

    name = _BARE

    def load(self) -> None:
        library("numcodecs.lz4")

    def encode(self, data: Data) -> Data:
        return bytes(library("numcodecs.lz4").compress(data)[4:])

    def decoder(self, size: int | None, limit: int) -> Decoder:
        decompress = library("numcodecs.lz4").decompress

        def decode(data: Data) -> Data:
            if size is None or not 0 < size <= min(limit, _BEST_RATIO * len(data)):
                raise CodecError(f"an LZ4 block of {len(data)} bytes can't hold the elements", codec=_BARE)
            return decompress(size.to_bytes(4, "little") + bytes(data))

        return decode


def build(spec: CodecSpec, context: Context) -> Lz4 | BareLz4:
    """Build the codec with the option ``acceleration``, or ``level`` of z5."""
    if spec.name == _BARE:
        check_options(spec, "level")
        return BareLz4()
    check_options(spec, "acceleration")
    return Lz4(option(spec, "acceleration", 1, between(-(2**31), 2**31 - 1)))
