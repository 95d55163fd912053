"""``zstd`` and ``numcodecs.zstd``: Zstandard frames (RFC 8878).

The header of a frame usually states the size of its content. If it does not, the blocks are counted before the library
decompresses them; each holds at most 128 KiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from tegula.codecs.native import NativeZstd
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

__all__ = ["Zstd", "build", "content_size", "is_one_frame"]

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = b"\x2a\x4d\x18"
_BLOCK: Final = 128 * 1024
_SLACK: Final = 8 * _BLOCK  # blocks need not be full: a writer that flushes begins a new one


class Zstd(BufferCodec):
    """Zstandard with a compression level, and with or without the checksum of the frame."""

    def __init__(self, name: str, level: int, checksum: bool) -> None:
        self.name = name
        self.settings = (level, checksum)

    @property
    def native(self) -> NativeZstd:
        return NativeZstd(*self.settings)

    def load(self) -> None:
        library("numcodecs.zstd")

    def encode(self, data: Data) -> Data:
        return library("numcodecs.zstd").compress(data, *self.settings)

    def decoder(self, size: int | None, limit: int) -> Decoder:
        name, decompress = self.name, library("numcodecs.zstd").decompress

        def decode(data: Data) -> Data:
            known = size and content_size(data) == size
            decoded = decompress(data) if known else b"".join(_frames(data, limit, name))
            if size is not None and len(decoded) != size:
                raise wrong_size(len(decoded), size, name)
            return decoded

        return decode


def content_size(data: Data) -> int | None:
    """Return the content size in the header of a frame, or ``None`` if it states none or is not a header.

    Examples
    --------
    >>> content_size(bytes.fromhex("28b52ffd2003190000010203"))
    3
    """
    if len(data) < 6 or data[:4] != _MAGIC:
        return None
    start, end, base = _content_field(data[4])
    return int.from_bytes(data[start:end], "little") + base if start < end <= len(data) else None


@cache
def _content_field(descriptor: int) -> tuple[int, int, int]:
    """Return start and end of the content size in the header of a frame, and the number to add to it."""
    single = descriptor >> 5 & 1
    start = 6 - single + (0, 1, 2, 4)[descriptor & 3]
    width = (single, 2, 4, 8)[descriptor >> 6]
    return start, start + width, 256 if width == 2 else 0


def _frames(data: Data, limit: int, name: str) -> Iterator[bytes]:
    """Decompress frames one after the other; raise before a frame would make the total exceed `limit` bytes."""
    view = memoryview(data)
    while view:
        # skippable frames
        if len(view) < 8:
            raise CodecError("the zstd frame is truncated", codec=name)
        if bytes(view[1:4]) == _SKIPPABLE and view[0] >> 4 == 5:
            end = 8 + int.from_bytes(view[4:8], "little")
            if end > len(view):
                raise CodecError("the zstd frame is truncated", codec=name)
            view = view[end:]
            continue

        # check the size of the next frame
        end, bound, known = _walk_frame(view, name)
        # without a content size, only the upper bound is known
        if (bound - _SLACK if known is None else known) > limit:
            raise CodecError(f"the zstd frame may hold more than the {limit} bytes of a chunk", codec=name)
        if known is not None and known > bound:
            raise CodecError("the content size of the zstd frame is larger than its blocks", codec=name)

        # decompress it
        frame, view = view[:end], view[end:]
        if known == 0 or bound == 0:
            continue
        decoded = bytes(library("numcodecs.zstd").decompress(frame))
        limit -= len(decoded)
        if limit < 0:
            raise CodecError("the zstd frames hold more than a chunk does", codec=name)
        yield decoded


def is_one_frame(data: Data, size: int | None) -> bool:
    """Return whether data are one whole frame that states a content size.

    Raises
    ------
    CodecError
        If the data begin with a frame that is truncated or has an invalid block, or with something else.
    """
    end, _, known = _walk_frame(data, "zstd")
    return known is not None and known == size and end == len(data)


def _walk_frame(view: Data, name: str) -> tuple[int, int, int | None]:
    """Return the end of a frame, an upper bound on the decoded size of its blocks, and the content size it states."""
    if len(view) < 6 or view[:4] != _MAGIC:
        raise CodecError("this is not a zstd frame", codec=name)
    start, position, base = _content_field(view[4])
    known = int.from_bytes(view[start:position], "little") + base if start < position else None
    bound, last = 0, False
    while not last:
        if position + 3 > len(view):
            raise CodecError("the zstd frame is truncated", codec=name)
        header = int.from_bytes(view[position : position + 3], "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        if kind == 3 or size > _BLOCK:
            raise CodecError("the zstd frame has an invalid block", codec=name)
        bound += _BLOCK if kind == 2 else size
        position += 3 + (1 if kind == 1 else size)
    position += 4 if view[4] & 4 else 0
    if position > len(view):
        raise CodecError("the zstd frame is truncated", codec=name)
    return position, bound, known


def build(spec: CodecSpec, context: Context) -> Zstd:
    """Build the codec with the options ``level`` and ``checksum``."""
    check_options(spec, "level", "checksum")
    level = option(spec, "level", 0 if spec.name == "zstd" else 1, between(-131072, 22))
    return Zstd(spec.name, level, option(spec, "checksum", False, {False: False, True: True, None: False}))
