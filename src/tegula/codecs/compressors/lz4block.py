"""``lz4block``: the stream of Java's ``LZ4BlockOutputStream``, which N5 calls ``lz4``.

A stream consists of blocks of up to a stated size and ends with an empty block. Each has the magic ``LZ4Block``, a byte
for method and size, three little-endian 32-bit integers (the sizes of the encoded and of the decoded block, and a
checksum), and a block of LZ4, or the bytes as they are if these are shorter. The checksum is XXH32 without its first
four bits.
"""

from __future__ import annotations

from struct import Struct, unpack
from typing import Final

from tegula.codecs.native import NativeLz4Block
from tegula.codecs.stages import (
    BufferCodec,
    Context,
    Data,
    Decoder,
    between,
    check_options,
    flat,
    library,
    option,
    wrong_size,
)
from tegula.errors import CodecError
from tegula.metadata.nodes import CodecSpec

__all__ = ["Lz4Block", "build", "xxh32"]

_NAME: Final = "lz4block"
_HEADER: Final = Struct("<8sBIII")
_MAGIC: Final = b"LZ4Block"
_RAW, _LZ4 = 0x10, 0x20
_SMALLEST, _LARGEST = 64, 2**25
_BASE: Final = 10  # the smallest size that a header can state is 2**10
_SEED: Final = 0x9747B28C
_BEST_RATIO: Final = 255
_PRIMES: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_ALL: Final = 0xFFFFFFFF


class Lz4Block(BufferCodec):
    """The codec for blocks of up to `size` bytes."""

    name = _NAME

    def __init__(self, size: int) -> None:
        self.block_size = size
        self.level = max(0, (size - 1).bit_length() - _BASE)

    @property
    def native(self) -> NativeLz4Block:
        return NativeLz4Block(self.block_size)

    def load(self) -> None:
        library("numcodecs.lz4")

    def encode(self, data: Data) -> Data:
        compress, raw, out = library("numcodecs.lz4").compress, flat(data), []
        for start in range(0, len(raw), self.block_size):
            block = bytes(raw[start : start + self.block_size])
            method, encoded = _LZ4, compress(block)[4:]  # numcodecs puts the size of the block before it
            if len(encoded) >= len(block):
                method, encoded = _RAW, block
            out += [self._header(method, len(encoded), len(block), _checksum(block)), encoded]
        return b"".join([*out, self._header(_RAW, 0, 0, 0)])

    def _header(self, method: int, encoded: int, decoded: int, checksum: int) -> bytes:
        return _HEADER.pack(_MAGIC, method | self.level, encoded, decoded, checksum)

    def decoder(self, size: int | None, limit: int) -> Decoder:
        decompress = library("numcodecs.lz4").decompress

        def decode(data: Data) -> Data:
            raw, out, total, start = flat(data), [], 0, 0
            while True:
                method, encoded, decoded, checksum = _read_header(raw, start)
                start += _HEADER.size
                if not decoded:
                    break
                total += decoded
                if total > limit:
                    raise wrong_size(total, limit, _NAME)
                if len(raw) - start < encoded or decoded > _BEST_RATIO * encoded:
                    raise CodecError("a block of the LZ4 stream states an impossible size", codec=_NAME)
                block = bytes(raw[start : start + encoded])
                if method == _LZ4:
                    block = decompress(decoded.to_bytes(4, "little") + block)
                if len(block) != decoded or _checksum(block) != checksum:
                    raise CodecError("the checksum of a block of the LZ4 stream is wrong", codec=_NAME)
                out.append(block)
                start += encoded
            if size is not None and total != size:
                raise wrong_size(total, size, _NAME)
            return out[0] if len(out) == 1 else b"".join(out)

        return decode


def _read_header(raw: bytes | memoryview, start: int) -> tuple[int, int, int, int]:
    """Return method, encoded and decoded size, and checksum of the block at `start`."""
    if len(raw) - start < _HEADER.size:
        raise CodecError("the LZ4 stream is truncated", codec=_NAME)
    magic, token, encoded, decoded, checksum = _HEADER.unpack_from(raw, start)
    method, most = token & 0xF0, 1 << (_BASE + (token & 0x0F))
    fits = encoded == decoded if method == _RAW else method == _LZ4
    if magic != _MAGIC or not fits or decoded > most or (not decoded) != (not encoded):
        raise CodecError("the LZ4 stream is damaged", codec=_NAME)
    return method, encoded, decoded, checksum


def _checksum(block: bytes) -> int:
    return xxh32(block, _SEED) & 0x0FFFFFFF


def xxh32(data: bytes, seed: int = 0) -> int:
    """Return the hash XXH32 of bytes.

    Examples
    --------
    >>> hex(xxh32(b"")), hex(xxh32(b"Nobody inspects the spammish repetition"))
    ('0x2cc5d05', '0xe2293b2f')
    """
    one, two, three, four, five = _PRIMES
    end = len(data) & ~15
    if end:
        lanes = [seed + one + two, seed + two, seed, seed - one]
        words = unpack(f"<{end // 4}I", data[:end])
        for lane in range(4):
            value = lanes[lane] & _ALL
            for word in words[lane::4]:
                value = (value + word * two) & _ALL
                value = ((value << 13 | value >> 19) * one) & _ALL
            lanes[lane] = value
        value = sum(_rotated(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18)))
    else:
        value = seed + five
    value = (value + len(data)) & _ALL
    middle = len(data) & ~3
    for (word,) in Struct("<I").iter_unpack(data[end:middle]):
        value = _rotated((value + word * three) & _ALL, 17) * four & _ALL
    for byte in data[middle:]:
        value = _rotated((value + byte * five) & _ALL, 11) * one & _ALL
    value = (value ^ value >> 15) * two & _ALL
    value = (value ^ value >> 13) * three & _ALL
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _ALL


def build(spec: CodecSpec, context: Context) -> Lz4Block:
    """Build the codec with the option ``blockSize``, as in N5."""
    check_options(spec, "blockSize")
    return Lz4Block(option(spec, "blockSize", 2**16, between(_SMALLEST, _LARGEST)))
