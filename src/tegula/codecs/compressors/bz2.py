"""``numcodecs.bz2``: bzip2 streams, with zeros between and after them."""

from __future__ import annotations

import bz2
from typing import Final

from tegula.codecs.compressors.streams import Streams
from tegula.codecs.native import NativeLevel
from tegula.codecs.stages import BufferCodec, Context, Data, Decoder, between, check_options, flat, option
from tegula.metadata.nodes import CodecSpec

__all__ = ["Bz2", "build"]


class Bz2(BufferCodec):
    """Bzip2 with a compression level from 1 to 9."""

    name = "numcodecs.bz2"
    _streams: Final = Streams(bz2.BZ2Decompressor, name, several=True, padding=1)

    def __init__(self, level: int) -> None:
        self.level = level

    @property
    def native(self) -> NativeLevel:
        return NativeLevel("bz2", self.level)

    def encode(self, data: Data) -> bytes:
        return bz2.compress(flat(data), self.level)

    def decoder(self, size: int | None, limit: int) -> Decoder:
        return self._streams.decoder(size, limit)

    def excess(self, data: Data, size: int | None, limit: int) -> int:
        return self._streams.excess(data, limit)


def build(spec: CodecSpec, context: Context) -> Bz2:
    """Build the codec with the option ``level``."""
    check_options(spec, "level")
    return Bz2(option(spec, "level", 1, between(1, 9)))
