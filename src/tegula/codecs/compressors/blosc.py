"""``blosc`` and ``numcodecs.blosc``: Blosc 1 frames (Zarr v3 core, "blosc codec"; README_HEADER of c-blosc).

The library does not know the length of the frame or the size of the output buffer. So this module checks each frame
before decoding: the three lengths in its header, and the offsets of its blocks. Zeros may follow the frame, as z5
leaves them there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from struct import Struct, unpack_from
from types import ModuleType
from typing import Any, Final

import numpy as np

from tegula.codecs.native import NativeBlosc
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
from tegula.errors import CodecError, UnsupportedError
from tegula.metadata.nodes import CodecSpec
from tegula.runtime.optional import HOW_TO_BUILD

__all__ = ["Blosc", "build", "check_frame"]

_HEADER: Final = Struct("<BBBBIII").unpack_from  # version, version of the inner codec, flags, typesize, three lengths
_SIZE: Final = 16
_STORED, _BLOSC2 = 0x02, 0x08
_BLOSCLZ, _SNAPPY, _ZSTD = 0, 2, 4
_LONG: Final = 2**22
_LEGACY_ZSTD: Final = b"\x27\xb5\x2f\xfd"
_CNAMES: Final = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_SHUFFLES: Final = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
_MAX_TYPESIZE: Final = 255
_NEEDS_KERNEL: Final = f"only tegula's compiled kernel reads it; where it is missing, {HOW_TO_BUILD}"


def _numcodecs() -> ModuleType:
    """Return the library, and import what it would otherwise import at its first use, maybe in a thread of a pool."""
    module = library("numcodecs.blosc")
    with suppress(UnsupportedError):
        library("multiprocessing.synchronize")
    return module


class Blosc(BufferCodec):
    """Blosc with one internal compressor.

    Parameters
    ----------
    name : str
        The codec's name in the chain.
    cname : str
        The internal compressor.
    clevel, shuffle, blocksize : int
        As in c-blosc; a shuffle of -1 is the bit shuffle for elements of one byte, otherwise the byte shuffle.
    typesize : int or None
        Bytes of an element; ``None`` for the element size of the buffer to encode.
    given : int
        Element size of the buffer to encode.
    """

    def __init__(
        self,
        name: str,
        cname: str,
        *,
        clevel: int,
        shuffle: int,
        blocksize: int,
        typesize: int | None,
        itemsize: int = 1,
    ) -> None:
        self.name = name
        self.cname = cname
        self.settings = (cname.encode(), clevel, shuffle, blocksize, typesize)
        self.itemsize = typesize or itemsize

    @property
    def native(self) -> NativeBlosc:
        _, clevel, shuffle, blocksize, _ = self.settings
        if shuffle < 0:
            shuffle = 2 if self.itemsize == 1 else 1
        typesize = self.itemsize if self.itemsize <= _MAX_TYPESIZE else 1  # c-blosc does not shuffle larger elements
        return NativeBlosc(self.cname, clevel, shuffle, blocksize, typesize)

    def load(self) -> None:
        _numcodecs()

    def encode(self, data: Data) -> Data:
        if self.cname == "snappy":
            raise UnsupportedError("only the kernel writes snappy in Blosc; use lz4 or zstd", codec=self.name)
        return _numcodecs().compress(data, *self.settings)

    def decoder(self, size: int | None, limit: int) -> Decoder:
        name = self.name
        decompress: Callable[[Data], bytes] = _numcodecs().decompress

        def decode(data: Data) -> Data:
            if check_frame(data, size, limit, name):
                return memoryview(data)[_SIZE : _length(data)]
            if data[2] >> 5 == _SNAPPY:
                raise UnsupportedError(f"this Blosc frame was compressed with snappy: {_NEEDS_KERNEL}", codec=name)
            try:
                return decompress(data)
            except RuntimeError as error:
                raise _explain(data, error, name) from error

        return decode

    def excess(self, data: Data, size: int | None, limit: int) -> int:
        return len(data) - _length(data)


def _length(data: Data) -> int:
    """Return the length of a frame according to its header."""
    length: int = _HEADER(data)[6]
    return length


def check_frame(data: Data, size: int | None, limit: int, name: str = "blosc") -> bool:
    """Check the header of a Blosc frame, so that decoding stays within the frame and within the output buffer.

    Parameters
    ----------
    data : bytes or flat buffer
        The frame, and zeros that may follow it.
    size : int or None
        Number of bytes that it must decode to, if known.
    limit : int
        Number of bytes that it may decode to.
    name : str
        The codec's name, for errors.

    Returns
    -------
    bool
        True if the frame stores its content uncompressed.

    Raises
    ------
    CodecError
        If the header does not match the frame.
    """
    # the three lengths
    length = len(data)
    if length < _SIZE:
        raise CodecError(f"a Blosc frame of {length} bytes is shorter than its header", codec=name)
    version, _, flags, typesize, nbytes, blocksize, cbytes = _HEADER(data)
    if cbytes != length and (cbytes > length or bytes(data[cbytes:]).strip(b"\0")):
        raise CodecError(f"the Blosc header states {cbytes} bytes, the frame has {length}", codec=name)
    if nbytes != size and (size is not None or nbytes > limit):
        raise wrong_size(nbytes, limit, name)
    if version != 2 or flags & _BLOSC2 or typesize == 0:
        raise CodecError("this is not the header of a Blosc 1 frame", codec=name)
    if flags & _STORED:
        if cbytes != nbytes + _SIZE:
            raise CodecError("the lengths in the Blosc header contradict each other", codec=name)
        return True

    # the table of block offsets
    if not 0 < blocksize <= nbytes:
        raise CodecError(f"the Blosc header has blocks of {blocksize} bytes", codec=name)
    blocks = -(-nbytes // blocksize)
    first, last = _SIZE + 4 * blocks, cbytes - 4
    if first > last:
        raise CodecError("the Blosc frame is shorter than its table of blocks", codec=name)
    if blocks < 16:
        starts = unpack_from(f"<{blocks}i", data, _SIZE)
        low, high = min(starts), max(starts)
    else:
        table = np.frombuffer(data, "<i4", blocks, _SIZE)
        low, high = table.min(), table.max()
    if low < first or high > last:
        raise CodecError("a block of the Blosc frame lies outside of it", codec=name)

    # blosclz adds up lengths in 32 bits, which a long run of 255 can overflow
    if flags >> 5 == _BLOSCLZ and length >= _LONG and b"\xff" * (blocksize // 255 + 65) in bytes(data):
        raise CodecError("the Blosc frame is damaged: a length in it is larger than its block", codec=name)
    return False


def _explain(data: Data, error: Exception, name: str) -> Exception:
    """Return the error for a frame that the library rejects: written by an old zstd, or damaged."""
    if data[2] >> 5 == _ZSTD:
        start = unpack_from("<i", data, _SIZE)[0] + 4
        if data[start : start + 4] == _LEGACY_ZSTD:
            return UnsupportedError(f"this Blosc frame was written with zstd 0.7: {_NEEDS_KERNEL}", codec=name)
    return CodecError(f"the Blosc frame is damaged: {error}", codec=name)


def build(spec: CodecSpec, context: Context) -> Blosc:
    """Build the codec from the options of Zarr v3 or numcodecs.

    Missing options matter only for writing. Their defaults are those of zarr-python and numcodecs.
    """
    check_options(spec, "cname", "clevel", "shuffle", "blocksize", "typesize")
    core = spec.name == "blosc"
    cname = option(spec, "cname", "zstd" if core else "lz4", {name: name for name in _CNAMES})
    clevel = option(spec, "clevel", 5, between(0, 9))
    blocksize = option(spec, "blocksize", 0, between(0, 2**31 - 1))
    if core:
        shuffle = option(spec, "shuffle", "shuffle", _SHUFFLES)
        # without a shuffle, other libraries write 1, and a document need not state it
        usual = context.data_type.itemsize if context.data_type.is_fixed and shuffle else 1
        typesize = option(spec, "typesize", usual, _is_typesize) or 1
    else:
        shuffle = option(spec, "shuffle", 1, between(-1, 2))
        typesize = option(spec, "typesize", None, _is_typesize)
    return Blosc(
        spec.name, cname, clevel=clevel, shuffle=shuffle, blocksize=blocksize, typesize=typesize, itemsize=context.unit
    )


def _is_typesize(value: Any) -> bool:
    return value is None or (type(value) is int and value > 0)
