"""Records and members of a zip archive (PKWARE APPNOTE 6.3). Every length and size in them is checked."""

from __future__ import annotations

import bz2
import lzma
import struct
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from tegula import config
from tegula.config.budget import Budget, check_size
from tegula.errors import StoreError
from tegula.stores.arguments import ByteRange, Generation, clip_range, is_key

__all__ = [
    "DEFLATED", "STORED", "UTF8_NAME", "Member", "central_record", "descriptor", "end_records", "local_header",
    "member_start", "moved_record", "pack", "packed_range", "read_directory", "read_member", "warn_of",
]  # fmt: skip

STORED, DEFLATED = 0, 8
HAS_DESCRIPTOR, UTF8_NAME = 0x8, 0x800
_MAX16, _MAX32 = 0xFFFF, 0xFFFFFFFF
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_OFFSET_AT = 42
_BLOCK = 1 << 20
_SEARCH = "searching for the end of the archive"
_SEARCHED = 8  # bytes that are searched at the cost of one
_CANDIDATE = 1 << 12  # the cost of what may be an end record
_MOST_FIELDS = 64  # of a record, that are searched for the one with long sizes
_BZIP2, _LZMA = 12, 14
_ENCRYPTED = 0x1
_OVERLAP = "the archive is damaged: a member reaches into another one, or out of the archive"
_offset = attrgetter("offset")

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Returns the bytes of an archive from start to stop; raises ``OSError`` if the archive ends before that."""


@dataclass(slots=True)
class Member:
    """One member: its position, how it is packed, and its record in the central directory.

    A member that is not written yet has its packed bytes in `data`. No part of a member lies beyond its `end`, where
    the next one begins, or the directory.
    """

    name: str
    method: int
    flags: int
    crc: int
    packed: int
    size: int
    offset: int
    record: bytes
    generation: Generation
    data: bytes | None = None
    start: int | None = None
    end: int = 0


class End(NamedTuple):
    """The end record: the number of members, the position of the directory, and where the archive ends."""

    members: int
    directory: int
    directory_end: int
    stop: int
    shift: int
    comment: bytes


def _find_end(read: ReadAt, size: int, reach: int | None = None) -> End:
    """Find the end record of an archive in a file of `size` bytes; with `reach`, only in its last `reach` bytes.

    A record at the end of the file is preferred. The next choice is the last record that is consistent with its
    position in the file, since a killed writer may leave bytes after it; then a record shifted by data before the
    archive.

    Raises
    ------
    StoreError
        If there is none, or it lies too far from the end of the file.
    """
    budget = Budget()
    tail = max(0, size - _END.size - _MAX16)
    last = [*_ends(read, read(tail, size), tail, size, budget)]
    for end in last:
        if end.stop == size and end.shift == 0 and _is_sound(read, end):
            return end
    stop = size
    lowest = 0 if reach is None else max(0, size - reach)
    while stop > lowest:
        start = max(0, stop - _BLOCK)
        budget.spend((stop - start) // _SEARCHED, _SEARCH)
        for end in _ends(read, read(start, min(size, stop + _END.size + _MAX16)), start, size, budget):
            if end.shift == 0 and _is_sound(read, end):
                return end
        stop = start
    for end in last:
        if end.stop == size and _is_sound(read, end):
            return end
    raise StoreError("the file is not a zip archive, or is damaged")


def _ends(read: ReadAt, block: bytes, start: int, size: int, budget: Budget) -> Iterator[End]:
    """Yield possible end records in a block of a file that begins at `start`, the last first."""
    at = len(block)
    while (at := block.rfind(b"PK\5\6", 0, at)) >= 0:
        if at + _END.size > len(block):
            continue
        _, disk, first, here, count, length, offset, comment = _END.unpack_from(block, at)
        position = start + at
        stop = position + _END.size + comment
        if stop > size or disk or first or here != count:
            continue
        budget.spend(_CANDIDATE + comment, _SEARCH)
        before = position - _LOCATOR.size - _END64.size
        if before >= 0:
            records = read(before, position)
            if records.startswith(b"PK\6\6") and records[_END64.size :].startswith(b"PK\6\7"):
                count, length, offset = _END64.unpack_from(records)[7:]
                position = before
        directory = position - length
        if directory >= offset and count * _CENTRAL.size <= length:
            text = read(stop - comment, stop)
            yield End(count, directory, position, stop, directory - offset, text)


def _is_sound(read: ReadAt, end: End) -> bool:
    if end.members == 0:
        return end.directory == end.directory_end
    return read(end.directory, end.directory + 4) == b"PK\1\2"


def _read_members(read: ReadAt, end: End) -> Iterator[Member]:
    """Yield the members that the central directory lists, in its order, without directories.

    A name can be anything; see `is_key`.

    Raises
    ------
    StoreError
        If the directory is damaged, or larger than the setting ``max_input_bytes``.
    """
    check_size(end.directory_end - end.directory, "a directory of an archive")
    data = read(end.directory, end.directory_end)
    at = 0
    for _ in range(end.members):
        if at + _CENTRAL.size > len(data):
            raise StoreError("the central directory of the archive is cut off")
        fields = _CENTRAL.unpack_from(data, at)
        flags, method, crc, packed, size = fields[3], fields[4], *fields[7:10]
        names, extras, comments = fields[10:13]
        stop = at + _CENTRAL.size + names + extras + comments
        if fields[0] != b"PK\1\2" or stop > len(data):
            raise StoreError("the central directory of the archive is damaged")
        record = data[at:stop]
        name = record[_CENTRAL.size : _CENTRAL.size + names].decode(
            "utf-8" if flags & UTF8_NAME else "cp437", "surrogateescape"
        )
        extra = record[_CENTRAL.size + names : _CENTRAL.size + names + extras]
        size, packed, offset = _wide(extra, size, packed, fields[16], name)
        at = stop
        if not name.endswith("/"):
            offset += end.shift
            yield Member(name, method, flags, crc, packed, size, offset, record, (crc, size, offset))


def _set_ends(members: Iterable[Member], limit: int) -> None:
    """Set the `end` of each member: where the next one begins, or `limit` for the last one.

    Members that begin at the same place also end there, so that none of them can be read. Otherwise, a small archive
    could have any number of large values.
    """
    next_one: Member | None = None
    for member in sorted(members, key=_offset, reverse=True):
        if next_one is None:
            member.end = limit
        elif member.offset == next_one.offset:
            member.end = next_one.end = member.offset
        else:
            member.end = min(next_one.offset, limit)
        next_one = member


def _wide(extra: bytes, size: int, packed: int, offset: int, name: str) -> tuple[int, int, int]:
    """Return sizes and offset, with those that do not fit into 32 bits taken from the zip64 field."""
    if _MAX32 not in (size, packed, offset):
        return size, packed, offset
    at, stop = _zip64_span(extra)
    values = []
    for narrow in (size, packed, offset):
        value = narrow
        if narrow == _MAX32:
            if at + 8 > stop:
                raise StoreError("the directory of the archive lacks a size or offset", key=name)
            value = int.from_bytes(extra[at : at + 8], "little")
            at += 8
        values.append(value)
    return values[0], values[1], values[2]


def _zip64_span(extra: bytes) -> tuple[int, int]:
    """Return start and stop of the contents of a record's zip64 field; (0, 0) if there is none."""
    at = 0
    for _ in range(_MOST_FIELDS):
        if at + 4 > len(extra):
            break
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            return at + 4, min(at + 4 + length, len(extra))
        at += 4 + length
    return 0, 0


def member_start(read: ReadAt, member: Member) -> int:
    """Return where the packed bytes of a member begin; no part of it may lie beyond its `end`.

    Raises
    ------
    StoreError
        If there is no such member at that place, or it reaches into another one.
    """
    if member.start is not None:
        return member.start
    start = member.offset + _LOCAL.size
    if start + member.packed > member.end:
        raise StoreError(_OVERLAP, key=member.name)
    fields = _LOCAL.unpack(read(member.offset, start))
    start = start + int(fields[9]) + int(fields[10])
    if fields[0] != b"PK\3\4":
        raise StoreError("the archive's directory points to a place that holds no such member", key=member.name)
    if start + member.packed > member.end:
        raise StoreError(_OVERLAP, key=member.name)
    member.start = start
    return start


def _check_odd(read: ReadAt, member: Member) -> None:
    """Check that a name which can't be a key is really the name of the member, and not a sign of damage.

    Raises
    ------
    StoreError
        If the member's own header has another name, or if there is a NUL in the name, which other programs treat as its
        end: leaving out the member could hide a value that was stored under a valid name.
    """
    if "\0" in member.name:
        raise StoreError("the archive has a member with a NUL in its name", key=member.name)
    member_start(read, member)
    raw = member.record[_CENTRAL.size : _CENTRAL.size + int.from_bytes(member.record[28:30], "little")]
    header = read(member.offset, member.offset + _LOCAL.size + len(raw))
    if _LOCAL.unpack_from(header)[9] != len(raw) or header[_LOCAL.size :] != raw:
        raise StoreError(
            "a member has one name in the archive's directory and another in its local header", key=member.name
        )


def local_header(member: Member) -> bytes:
    """Return the header that goes before the packed bytes of a new member."""
    name = member.name.encode()
    wide = max(member.size, member.packed) >= _MAX32
    sizes = (_MAX32, _MAX32) if wide else (member.packed, member.size)
    extra = struct.pack("<HHQQ", 1, 16, member.size, member.packed) if wide else b""
    day, clock = _dos_time()
    needed = 45 if wide else 20
    head = _LOCAL.pack(
        b"PK\3\4", needed, member.flags, member.method, clock, day, member.crc, *sizes, len(name), len(extra)
    )
    return head + name + extra


def central_record(member: Member) -> bytes:
    """Return the record of a new member for the central directory."""
    name = member.name.encode()
    values = (member.size, member.packed, member.offset)
    wide = b"".join(struct.pack("<Q", value) for value in values if value >= _MAX32)
    size, packed, offset = (min(value, _MAX32) for value in values)
    extra = struct.pack("<HH", 1, len(wide)) + wide if wide else b""
    day, clock = _dos_time()
    made = (3 << 8) | 45  # on Unix, whose permissions are in the upper half of the attributes
    needed = 45 if wide else 20
    head = _CENTRAL.pack(
        b"PK\1\2", made, needed, member.flags, member.method, clock, day, member.crc, packed, size,
        len(name), len(extra), 0, 0, 0, 0o100644 << 16, offset,
    )  # fmt: skip
    return head + name + extra


def moved_record(member: Member, offset: int) -> bytes:
    """Return the record of a member, otherwise unchanged, for another offset that is not larger."""
    record = bytearray(member.record)
    fields = _CENTRAL.unpack_from(record)
    if fields[16] != _MAX32:
        struct.pack_into("<I", record, _OFFSET_AT, offset)
        return bytes(record)
    extra_at = _CENTRAL.size + fields[10]
    begin, _ = _zip64_span(bytes(record[extra_at : extra_at + fields[11]]))
    skipped = 8 * (fields[9], fields[8]).count(_MAX32)
    struct.pack_into("<Q", record, extra_at + begin + skipped, offset)
    return bytes(record)


def descriptor(member: Member) -> bytes:
    """Return the data descriptor, which follows a member whose header was written before its sizes were known."""
    if not member.flags & HAS_DESCRIPTOR:
        return b""
    kind = "<4sIQQ" if max(member.size, member.packed) >= _MAX32 else "<4sIII"
    return struct.pack(kind, b"PK\7\x08", member.crc, member.packed, member.size)


def end_records(count: int, directory: int, directory_end: int, comment: bytes, *, wide: bool = False) -> bytes:
    """Return the end records for a central directory that lies between two offsets; `wide` ones are always of ZIP64."""
    length = directory_end - directory
    head = b""
    if wide or count >= _MAX16 or length >= _MAX32 or directory >= _MAX32:
        made = (3 << 8) | 45
        head = _END64.pack(b"PK\6\6", _END64.size - 12, made, 45, 0, 0, count, count, length, directory)
        head += _LOCATOR.pack(b"PK\6\7", 0, directory_end, 1)
    if wide:  # some readers look for the records of ZIP64 only where these fields can't hold the numbers
        count, length, directory = _MAX16, _MAX32, _MAX32
    count, length, directory = min(count, _MAX16), min(length, _MAX32), min(directory, _MAX32)
    return head + _END.pack(b"PK\5\6", 0, 0, count, count, length, directory, len(comment)) + comment


def _dos_time() -> tuple[int, int]:
    now = time.localtime()
    year = min(max(now.tm_year, 1980), 2107) - 1980
    return year << 9 | now.tm_mon << 5 | now.tm_mday, now.tm_hour << 11 | now.tm_min << 5 | now.tm_sec // 2


def read_directory(
    read: ReadAt, size: int, reach: int | None = None, announce: Callable[[Sequence[Member]], Any] | None = None
) -> tuple[End, dict[str, Member], list[Member]]:
    """Read the central directory of an archive that ends a file of `size` bytes.

    With `reach`, only so many bytes at the end are searched for the end of the archive. `announce` is called with the
    members whose headers are about to be read.

    Returns
    -------
    End, dict of str to Member, list of Member
        The end record; the members by name, of several members of one name, the last; members whose names can't be
        keys.

    Raises
    ------
    StoreError
        If it is not a sound archive. ``OSError`` is raised if it can't be read.
    """
    end = _find_end(read, size, reach)
    members = [*_read_members(read, end)]
    _set_ends(members, end.directory)
    odd = [member for member in members if not is_key(member.name)]
    if odd and announce is not None:
        announce(odd)
    for member in odd:
        _check_odd(read, member)
    return end, {member.name: member for member in members if is_key(member.name)}, odd


_warned: set[str] = set()  # archives that `warn_of` has warned about


def warn_of(path: str, odd: Sequence[Member]) -> None:
    """Warn about members whose names can't be keys, once per archive and process."""
    if not odd or path in _warned:
        return
    _warned.add(path)
    names = ", ".join(f"{member.name!r:.60}" for member in odd[:3])
    text = f"a member whose name can't be a key, so nothing reads it: {names}"
    if len(odd) > 1:
        text = f"{len(odd)} members whose names can't be keys, so nothing reads them: {names}{', …' * (len(odd) > 3)}"
    warnings.warn(f"the archive {path} has {text}", stacklevel=2)


def pack(value: bytes, method: int) -> bytes:
    """Return `value` stored as it is, or deflated."""
    if method == STORED:
        return value
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(value) + packer.flush()


def packed_range(member: Member, byte_range: ByteRange | None) -> tuple[int, int]:
    """Return which packed bytes of a member are read for a range of its value: all, unless it is stored.

    Raises
    ------
    StoreError
        If the member is encrypted, of two sizes, or larger than the setting ``max_chunk_bytes``.
    """
    if member.flags & _ENCRYPTED:
        raise StoreError("the member of the archive is encrypted", key=member.name)
    stored = member.method == STORED
    if stored and member.size != member.packed:
        raise StoreError("the archive's directory gives a stored member two sizes", key=member.name)
    start, stop = (0, member.size) if byte_range is None else clip_range(byte_range, member.size)
    wanted = stop - start if stored else member.size
    if wanted > config.current().max_chunk_bytes:
        raise StoreError(f"{wanted} bytes are more than the setting max_chunk_bytes allows", key=member.name)
    return (start, stop) if stored else (0, member.packed)


def read_member(read: ReadAt, member: Member, data: bytes | None, byte_range: ByteRange | None) -> bytes:
    """Return the value of a member of an archive, or a range of the value.

    `data` are its packed bytes if they are not in the archive yet. Of a stored member only the range is read; a whole
    value is checked against its CRC.

    Raises
    ------
    StoreError
        If the member is damaged, refused by `packed_range`, packed by an unknown method, much larger than its packed
        bytes and the setting ``max_input_bytes``, or not of the size that the directory says.
    OSError
        If the archive can't be read.
    """
    first, last = packed_range(member, byte_range)
    if data is not None:
        data = data[first:last]
    else:
        start = member_start(read, member)
        if member.method != STORED:
            _check_inflation(member)
        data = read(start + first, start + last)
    if last - first != member.packed:
        return data
    value = _unpack(member, data)
    if len(value) != member.size:
        raise StoreError(f"the member of the archive is not {member.size} bytes long", key=member.name)
    if zlib.crc32(value) != member.crc:
        raise StoreError("the member of the archive does not match its CRC", key=member.name)
    start, stop = (0, member.size) if byte_range is None else clip_range(byte_range, member.size)
    return value[start:stop]


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
