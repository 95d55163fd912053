"""``gzip``, ``numcodecs.gzip`` and ``numcodecs.zlib``: DEFLATE in its two containers (RFC 1952 and RFC 1950).

Zeros may follow the data. Some writers leave them there, and all common readers ignore them.
"""

from __future__ import annotations

import zlib
from functools import partial
from struct import pack
from typing import Final

from tegula.codecs.compressors.streams import Streams
from tegula.codecs.native import NativeLevel
from tegula.codecs.stages import BufferCodec, Context, Data, Decoder, between, check_options, flat, option
from tegula.metadata.nodes import CodecSpec

__all__ = ["Gzip", "Zlib", "build"]


class Gzip(BufferCodec):
    """The gzip format, written without name and time, so that equal chunks give equal bytes.

    Examples
    --------
    >>> Gzip("gzip", 5).encode(b"").hex()
    '1f8b08000000000000ff03000000000000000000'
    """

    def __init__(self, name: str, level: int) -> None:
        self.name = name
        self.level = level
        self._streams = Streams(partial(zlib.decompressobj, 16 + zlib.MAX_WBITS), name, several=True, padding=1)

    @property
    def native(self) -> NativeLevel:
        return NativeLevel("gzip", self.level)

    def encode(self, data: Data) -> bytes:
        data = flat(data)
        extra = {9: 2, 1: 4}.get(self.level, 0)  # the flag XFL: best compression, or fastest
        stream = zlib.compressobj(self.level, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, 0)
        tail = pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
        head = b"\x1f\x8b\x08\0\0\0\0\0" + bytes((extra, 255))
        return b"".join((head, stream.compress(data), stream.flush(), tail))

    def decoder(self, size: int | None, limit: int) -> Decoder:
        return self._streams.decoder(size, limit)

    def excess(self, data: Data, size: int | None, limit: int) -> int:
        # the last four bytes are the size of the content, which often ends in zeros itself
        if size and flat(data)[-4:] == pack("<I", size & 0xFFFFFFFF):
            return 0
        return self._streams.excess(data, limit)


class Zlib(BufferCodec):
    """The zlib format, which is also what Zarr v1 calls gzip."""

    name = "numcodecs.zlib"
    _streams: Final = Streams(zlib.decompressobj, name, several=False, padding=1)

    def __init__(self, level: int) -> None:
        self.level = level

    @property
    def native(self) -> NativeLevel:
        return NativeLevel("zlib", self.level)

    def encode(self, data: Data) -> bytes:
        return zlib.compress(flat(data), self.level)

    def decoder(self, size: int | None, limit: int) -> Decoder:
        return self._streams.decoder(size, limit)

    def excess(self, data: Data, size: int | None, limit: int) -> int:
        return self._streams.excess(data, limit)


def build(spec: CodecSpec, context: Context) -> BufferCodec:
    """Build the codec with the option ``level``."""
    check_options(spec, "level")
    if spec.name == "gzip":
        return Gzip("gzip", option(spec, "level", 5, between(0, 9)))
    level = option(spec, "level", 1, between(-1, 9))
    return Zlib(level) if spec.name == "numcodecs.zlib" else Gzip(spec.name, level)
