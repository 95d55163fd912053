"""Blosc 1 frames compressed with snappy, which the library is built without: read only, in plain Python.

The frame is a header, a table of where blocks start, and blocks. A block is cut into as many streams as an element has
bytes, or is one stream, each behind its length; a stream that did not shrink is stored as it is. What comes out of a
block is shuffled (c-blosc's README_HEADER and ``blosc_d``; snappy's ``format_description.txt``).
"""

from __future__ import annotations

from struct import unpack_from
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.errors import CodecError, UnsupportedError

__all__ = ["decode_frame", "decompress"]

_HEADER: Final = 16
_SHUFFLED, _BITS_SHUFFLED, _ONE_STREAM = 0x01, 0x04, 0x10
_MOST_STREAMS, _LEAST_ELEMENTS = 16, 128


def decode_frame(frame: memoryview) -> bytes:
    """Decode a frame whose header and table of blocks have been checked.

    Raises
    ------
    CodecError
        If a block is damaged.
    UnsupportedError
        If it was made by a version of snappy that there never was.
    """
    _, version, flags, typesize, nbytes, blocksize, cbytes = unpack_from("<BBBBIII", frame)
    if version != 1:
        raise UnsupportedError(f"snappy of version {version} is not known")
    parts = []
    for number, start in enumerate(unpack_from(f"<{-(-nbytes // blocksize)}i", frame, _HEADER)):
        size = min(blocksize, nbytes - number * blocksize)
        many = not flags & _ONE_STREAM and size == blocksize and typesize <= _MOST_STREAMS
        streams = typesize if many and blocksize // typesize >= _LEAST_ELEMENTS else 1
        parts.append(_unshuffled(_block(frame[:cbytes], start, size, streams), typesize, flags))
    return b"".join(parts)


def _block(frame: memoryview, at: int, size: int, streams: int) -> bytes:
    parts = []
    for _ in range(streams):
        length = int.from_bytes(frame[at : at + 4], "little")
        stream = frame[at + 4 : at + 4 + length]
        if not 0 < length == len(stream):
            raise CodecError("a block of the Blosc frame is cut off")
        parts.append(bytes(stream) if length == size // streams else decompress(stream, size // streams))
        at += 4 + length
    return b"".join(parts)


def decompress(data: memoryview, size: int) -> bytes:
    """Decode raw snappy to exactly `size` bytes.

    Raises
    ------
    CodecError
        If it is damaged, or makes another number of bytes.

    Examples
    --------
    >>> decompress(memoryview(bytes([6, 0b100, 97, 98, 0b1101, 2])), 6)
    Traceback (most recent call last):
    ...
    tegula.errors.CodecError: the snappy data make 9 bytes, not 6
    >>> decompress(memoryview(bytes([6, 0b100, 97, 98, 0b0001, 2])), 6)
    b'ababab'
    """
    told, at = _varint(data)
    if told != size:
        raise CodecError(f"the snappy data make {told} bytes, not {size}")
    out = bytearray()
    try:
        while at < len(data):
            kind, length = data[at] & 3, data[at] >> 2
            at += 1
            if kind == 0:
                if length >= 60:
                    extra = length - 59
                    length = int.from_bytes(data[at : at + extra], "little")
                    at += extra
                out += data[at : at + length + 1]
                at += length + 1
            else:
                if kind == 1:
                    offset, length, width = (length >> 3) << 8 | data[at], (length & 7) + 4, 1
                else:
                    width = 2 if kind == 2 else 4
                    offset, length = int.from_bytes(data[at : at + width], "little"), length + 1
                at += width
                _repeat(out, offset, length)
            if len(out) > size:
                break
    except IndexError as error:
        raise CodecError("the snappy data are cut off") from error
    if len(out) != size or at != len(data):
        raise CodecError(f"the snappy data make {len(out)} bytes, not {size}")
    return bytes(out)


def _varint(data: memoryview) -> tuple[int, int]:
    value = 0
    for at in range(min(5, len(data))):
        value |= (data[at] & 0x7F) << 7 * at
        if data[at] < 0x80:
            return value, at + 1
    raise CodecError("the snappy data do not say how long they are")


def _repeat(out: bytearray, offset: int, length: int) -> None:
    """Append what stands `offset` bytes before the end, again and again if that is less than `length`."""
    if not 0 < offset <= len(out):
        raise CodecError("the snappy data refer to what is before them")
    start = len(out) - offset
    part = out[start : start + length]
    out += part if len(part) == length else (part * (length // offset + 1))[:length]


def _unshuffled(block: bytes, typesize: int, flags: int) -> bytes:
    count = len(block) // typesize
    shuffled = flags & _SHUFFLED and typesize > 1
    # Blosc shuffles no bits of another number of elements, and none at all if it shuffles bytes
    bits_too = not shuffled and flags & _BITS_SHUFFLED and count % 8 == 0
    if not bits_too and not shuffled:
        return block
    whole = count * typesize
    if not whole:
        return block
    data: npt.NDArray[Any] = np.frombuffer(block, "u1", whole)
    if bits_too:
        bits = np.unpackbits(data.reshape(typesize * 8, -1), axis=1, bitorder="little")
        data = np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little")
    else:
        data = data.reshape(typesize, count).T
    return data.tobytes() + block[whole:]
