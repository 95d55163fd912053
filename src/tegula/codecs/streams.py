"""Decompression with the standard library that never makes more than a chunk holds.

The decompressor objects of ``zlib``, ``bz2`` and ``lzma`` stop after a given number of bytes; asked for one byte too
many, they tell whether there is more than there should be.
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
    """Make the decoder for a compressed stream.

    Parameters
    ----------
    start : callable
        Makes a decompressor.
    size : int or None
        How many bytes must come out.
    limit : int
        How many bytes may come out.
    name : str
        The codec's name for errors.
    several : bool
        Whether one stream may follow another.
    padding : int
        If not 0, zero bytes may follow a stream, a multiple of this many.
    """

    def decode(data: Data) -> bytes:
        parts = []
        total = 0
        while True:
            stream = start()
            part = stream.decompress(data, limit + 1 - total)
            total += len(part)
            if total > limit:
                raise wrong_size(total, limit, name)
            if not stream.eof:
                raise CodecError("the compressed data is truncated", codec=name)
            parts.append(part)
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
