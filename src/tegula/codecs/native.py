"""Descriptions of codec chains for the compiled kernel: structures whose attributes Rust reads by name.

Codecs make their own descriptions (`BufferCodec.native`); `tegula.codecs.describing` makes that of a chain. The kernel
finds a codec by its attribute ``name``; the other attributes are its options.
"""

from __future__ import annotations

from typing import TypeAlias

from tegula.runtime.frozen import Frozen

__all__ = [
    "NativeBitRound", "NativeBlock", "NativeBlosc", "NativeChain", "NativeChecksum", "NativeCodec", "NativeDelta",
    "NativeElements", "NativeFixedScaleOffset", "NativeLevel", "NativeLz4", "NativeLz4Block", "NativeLzma",
    "NativePlain", "NativeQuantize", "NativeSerializer", "NativeShards", "NativeShuffle", "NativeStrings", "NativeZstd",
]  # fmt: skip


class NativePlain(Frozen):
    """A codec without options: ``blpk``, ``fletcher32``, ``packbits``."""

    name: str


class NativeLevel(Frozen):
    """A compressor whose only option is a level: ``gzip``, ``zlib``, ``bz2``."""

    name: str
    level: int


class NativeZstd(Frozen):
    """Zstandard."""

    level: int
    checksum: bool
    name: str = "zstd"


class NativeLz4(Frozen):
    """LZ4 blocks."""

    acceleration: int
    name: str = "lz4"


class NativeLzma(Frozen):
    """XZ and LZMA: container format, check and preset as in Python's ``lzma``."""

    container: int
    check: int
    preset: int | None
    name: str = "lzma"


class NativeBlosc(Frozen):
    """Blosc 1: `shuffle` is 0, 1 (bytes) or 2 (bits); a `blocksize` of 0 is the automatic one."""

    compressor: str
    level: int
    shuffle: int
    blocksize: int
    typesize: int
    name: str = "blosc"


class NativeChecksum(Frozen):
    """A checksum before or after the data: ``crc32c``, ``crc32``, ``adler32``."""

    name: str
    at_start: bool


class NativeShuffle(Frozen):
    """The byte shuffle of numcodecs."""

    elementsize: int
    name: str = "shuffle"


class NativeDelta(Frozen):
    """Differences of neighbours; data types as NumPy spells them."""

    dtype: str
    astype: str
    name: str = "delta"


class NativeFixedScaleOffset(Frozen):
    """``(x - offset) * scale``, rounded; data types as NumPy spells them."""

    offset: int | float
    scale: int | float
    dtype: str
    astype: str
    name: str = "fixedscaleoffset"


class NativeQuantize(Frozen):
    """Floating-point numbers rounded to decimal digits; data types as NumPy spells them."""

    digits: int
    dtype: str
    astype: str
    name: str = "quantize"


class NativeBitRound(Frozen):
    """Floating-point numbers rounded to bits of the significand; the data type as NumPy spells it."""

    keepbits: int
    dtype: str
    name: str = "bitround"


class NativeLz4Block(Frozen):
    """LZ4 in the blocks of Java's ``LZ4BlockOutputStream``, each of up to `size` bytes."""

    size: int
    name: str = "lz4block"


class NativeBlock(Frozen):
    """A block of N5: its header, for chunks of one shape, and the elements in Fortran order, compressed by `codecs`."""

    shape: tuple[int, ...]
    itemsize: int
    codecs: tuple[NativeCodec, ...]
    name: str = "n5_default"


NativeCodec: TypeAlias = (
    NativePlain
    | NativeLevel
    | NativeZstd
    | NativeLz4
    | NativeLzma
    | NativeBlosc
    | NativeChecksum
    | NativeShuffle
    | NativeDelta
    | NativeFixedScaleOffset
    | NativeQuantize
    | NativeBitRound
    | NativeLz4Block
    | NativeBlock
)
"""A bytes→bytes codec."""


class NativeElements(Frozen):
    """Contiguous elements of one size.

    `swap` is the size in bytes of the units that are stored byte-swapped, 0 if none are. Text must consist of Unicode
    code points.
    """

    itemsize: int
    swap: int
    is_text: bool


class NativeStrings(Frozen):
    """Variable-length strings: text or bytes."""

    is_text: bool


class NativeShards(Frozen):
    """Shards: shape and chain of inner chunks, chain and location of the index."""

    inner_shape: tuple[int, ...]
    inner: NativeChain
    index: NativeChain
    index_at_start: bool


NativeSerializer: TypeAlias = NativeElements | NativeStrings | NativeShards


class NativeChain(Frozen):
    """A chain of codecs.

    Stored axis ``i`` is axis ``order[i]`` of the chunk; ``None`` if the order is the same. The bytes→bytes codecs are
    in the order of encoding.
    """

    order: tuple[int, ...] | None
    serializer: NativeSerializer
    buffers: tuple[NativeCodec, ...]
