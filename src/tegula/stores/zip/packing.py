"""Packing and unpacking the members of a zip archive, with checks of their sizes."""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib

from tegula import config
from tegula.budget import Budget
from tegula.errors import StoreError
from tegula.stores.interface import ByteRange, clip_range
from tegula.stores.zip.records import DEFLATED, STORED, Member, ReadAt, member_start

__all__ = ["pack", "read_member"]

_BZIP2, _LZMA = 12, 14
_ENCRYPTED = 0x1


def pack(value: bytes, method: int) -> bytes:
    """Return `value` stored as it is, or deflated."""
    if method == STORED:
        return value
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(value) + packer.flush()


def read_member(read: ReadAt, member: Member, data: bytes | None, byte_range: ByteRange | None) -> bytes:
    """Return the value of a member of an archive, or a range of the value.

    `data` are its packed bytes if they are not in the archive yet. Of a stored member only the range is read; a whole
    value is checked against its CRC.

    Raises
    ------
    StoreError
        If the member is damaged, encrypted, packed by an unknown method, larger than the setting ``max_chunk_bytes``,
        much larger than its packed bytes and the setting ``max_input_bytes``, or not of the size that the directory
        says.
    OSError
        If the archive can't be read.
    """
    if member.flags & _ENCRYPTED:
        raise StoreError("the member of the archive is encrypted", key=member.name)
    if member.method == STORED and member.size != member.packed:
        raise StoreError("the archive's directory gives a stored member two sizes", key=member.name)
    first, stop = (0, member.size) if byte_range is None else clip_range(byte_range, member.size)
    wanted = stop - first if member.method == STORED else member.size
    if wanted > config.current().max_chunk_bytes:
        raise StoreError(f"{wanted} bytes are more than the setting max_chunk_bytes allows", key=member.name)
    if member.method == STORED and wanted != member.size:
        if data is not None:
            return data[first:stop]
        start = member_start(read, member)
        return read(start + first, start + stop)
    if data is None:
        start = member_start(read, member)
        if member.method != STORED:
            _check_inflation(member)
        data = read(start, start + member.packed)
    value = _unpack(member, data)
    if len(value) != member.size:
        raise StoreError(f"the member of the archive is not {member.size} bytes long", key=member.name)
    if zlib.crc32(value) != member.crc:
        raise StoreError("the member of the archive does not match its CRC", key=member.name)
    return value if byte_range is None else value[first:stop]


def _check_inflation(member: Member) -> None:
    try:
        Budget(member.packed).spend(member.size, f"a member of {member.packed} packed bytes that becomes {member.size}")
    except StoreError as error:
        raise error.within(key=member.name) from None


def _unpack(member: Member, packed: bytes) -> bytes:
    """Unpack a member, up to one byte more than its size."""
    limit = member.size + 1
    try:
        if member.method == STORED:
            return packed
        if member.method == DEFLATED:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, limit)
        if member.method == _BZIP2:
            return bz2.BZ2Decompressor().decompress(packed, limit)
        if member.method == _LZMA:
            return _unpack_lzma(packed, member.size)
    except (zlib.error, OSError, EOFError, lzma.LZMAError, ValueError, struct.error) as error:
        raise StoreError(f"the member of the archive is damaged: {error}", key=member.name) from error
    raise StoreError(
        f"the archive compresses the member with method {member.method}, which is not supported", key=member.name
    )


def _unpack_lzma(packed: bytes, size: int) -> bytes:
    """Unpack the LZMA of APPNOTE 5.8.8: version, length of the properties, properties, raw stream."""
    _, length, bits, dictionary = struct.unpack_from("<HHBI", packed)
    options = {
        "id": lzma.FILTER_LZMA1,
        "dict_size": min(dictionary, max(size, 4096)),  # a larger one would only waste memory
        "lc": bits % 9,
        "lp": bits // 9 % 5,
        "pb": bits // 45,
    }
    return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[options]).decompress(packed[4 + length :], size + 1)
