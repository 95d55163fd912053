"""Decompression with the standard library, limited to the size of a chunk.

The decompressor objects of ``zlib``, ``bz2`` and ``lzma`` stop after a given number of bytes. Requesting one byte more
than allowed shows whether there are too many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tegula.codecs.stages import Data, Decoder, flat, wrong_size
from tegula.errors import CodecError

__all__ = ["Streams"]


class Streams:
    """The compressed streams that make up a chunk, and the zeros that may follow them.

    Parameters
    ----------
    start : callable
        Creates a decompressor.
    name : str
        The codec's name, for errors.
    several : bool
        Whether several streams may follow each other.
    padding : int
        Unless it is 0, a multiple of this number of zero bytes may follow each stream.
    """

    def __init__(self, start: Callable[[], Any], name: str, *, several: bool, padding: int = 0) -> None:
        self._start = start
        self._name = name
        self._several = several
        self._padding = padding

    def decoder(self, size: int | None, limit: int) -> Decoder:
        """Return the decoder to exactly `size` bytes, or to at most `limit` if `size` is ``None``."""

        def decode(data: Data) -> bytes:
            parts, _ = self._split(data, limit)
            total = sum(map(len, parts))
            if size is not None and total != size:
                raise wrong_size(total, size, self._name)
            return parts[0] if len(parts) == 1 else b"".join(parts)

        return decode

    def excess(self, data: Data, limit: int) -> int:
        """Return how many zeros follow the last stream of data that decodes to at most `limit` bytes."""
        return self._split(data, limit)[1] if self._padding and flat(data)[-1:] == b"\0" else 0

    def _split(self, data: Data, limit: int) -> tuple[list[bytes], int]:
        """Decompress all streams; return their contents, and the number of zeros after the last one."""
        parts: list[bytes] = []
        total = 0
        while True:
            # decompress one stream
            stream = self._start()
            part = stream.decompress(data, limit + 1 - total)
            total += len(part)
            if total > limit:
                raise wrong_size(total, limit, self._name)
            if not stream.eof:
                raise CodecError("the compressed data is truncated", codec=self._name)
            parts.append(part)

            # the remaining data may be padding or another stream
            data = stream.unused_data
            zeros = len(data) - len(data.lstrip(b"\0")) if data and self._padding else 0
            if zeros and zeros % self._padding == 0:
                data = data[zeros:]
            if not data:
                return parts, zeros
            if not self._several:
                raise CodecError(f"{len(data)} bytes follow the compressed data", codec=self._name)
