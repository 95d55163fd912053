"""Decompression with the standard library, limited to the size of a chunk.

The decompressor objects of ``zlib``, ``bz2`` and ``lzma`` stop after a given number of bytes. Requesting one byte more
than allowed shows whether there are too many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tegula.codecs.stages import Data, Decoder, wrong_size
from tegula.errors import CodecError

__all__ = ["bounded"]


def bounded(
    start: Callable[[], Any], size: int | None, limit: int, name: str, *, several: bool, padding: int = 0
) -> Decoder:
    """Return the decoder for a compressed stream.

    Parameters
    ----------
    start : callable
        Creates a decompressor.
    size : int or None
        Number of bytes that decoding must return, if known.
    limit : int
        Number of bytes that decoding may return.
    name : str
        The codec's name, for errors.
    several : bool
        Whether several streams may follow each other.
    padding : int
        Unless it is 0, a multiple of this number of zero bytes may follow each stream.
    """

    def decode(data: Data) -> bytes:
        parts = []
        total = 0
        while True:
            # decompress one stream
            stream = start()
            part = stream.decompress(data, limit + 1 - total)
            total += len(part)
            if total > limit:
                raise wrong_size(total, limit, name)
            if not stream.eof:
                raise CodecError("the compressed data is truncated", codec=name)
            parts.append(part)

            # the remaining data may be padding or another stream
            data = stream.unused_data
            if not data:
                break
            if padding and (len(data) - len(rest := data.lstrip(b"\0"))) % padding == 0:
                data = rest
                if not data:
                    break
            if not several:
                raise CodecError(f"{len(data)} bytes follow the compressed data", codec=name)
        if size is not None and total != size:
            raise wrong_size(total, size, name)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    return decode
