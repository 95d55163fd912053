"""``blpk``: the container around the Blosc frame in each chunk file of bcolz 1.x (section "The `data` layout").

A header of 16 bytes: the magic number ``blpk``, a version, three reserved bytes, and the number of frames, which is
always 1. Like all readers so far, this module does not check the header: the header of the frame states the frame's
length, and bytes after the frame are ignored.
"""

from __future__ import annotations

from typing import Final

from tegula.codecs.native import NativePlain
from tegula.codecs.stages import BufferCodec, Context, Data, Decoder, check_options, flat
from tegula.errors import CodecError
from tegula.metadata.nodes import CodecSpec

__all__ = ["Container", "build"]

_HEADER: Final = b"blpk\x01\0\0\0" + (1).to_bytes(8, "little")
_SIZE: Final = len(_HEADER)
_FRAME: Final = 16


class Container(BufferCodec):
    """The container of one frame.

    Examples
    --------
    >>> Container().encode(b"frame")[:5]
    b'blpk\\x01'
    """

    name = "blpk"

    @property
    def native(self) -> NativePlain:
        return NativePlain("blpk")

    def content_size(self, data: Data) -> int:
        self._check(data)
        return int.from_bytes(memoryview(data)[_SIZE + 4 : _SIZE + 8], "little")

    def excess(self, data: Data, size: int | None, limit: int) -> int:
        return len(data) - self._check(data)

    def encode(self, data: Data) -> bytes:
        return b"".join((_HEADER, flat(data)))

    def decoder(self, size: int | None, limit: int) -> Decoder:
        return lambda data: memoryview(data)[_SIZE : self._check(data)]

    def _check(self, data: Data) -> int:
        """Return the end of the frame, which must be within the file; no other check finds a truncated file."""
        if len(data) < _SIZE + _FRAME:
            raise CodecError(f"a chunk file of {len(data)} bytes is shorter than its headers", codec=self.name)
        end = _SIZE + int.from_bytes(memoryview(data)[_SIZE + 12 : _SIZE + 16], "little")
        if not _SIZE + _FRAME <= end <= len(data):
            raise CodecError(
                f"the frame says it is {end - _SIZE} bytes long, the file has {len(data) - _SIZE}", codec=self.name
            )
        return end


def build(spec: CodecSpec, context: Context) -> Container:
    """Build the codec, which has no options."""
    check_options(spec)
    return Container()
