"""The pages of a Parquet file, by their headers: what decoding them would take, before anything is decoded.

The footer of a file may say anything. What a page becomes is said by its own header, by which the decoder allocates
memory. A header is a structure of Thrift's compact protocol.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

__all__ = ["Page", "pages_of"]

_DEEPEST: Final = 8  # nested structures of a header
_SIZE, _PACKED, _V1, _V2 = 2, 3, 5, 8  # fields of a header
_ENCODING: Final = {_V1: 2, _V2: 4}  # a field of what describes the values
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_NUMBERS: Final = (4, 5, 6)


class Page(NamedTuple):
    """One page: its length once it is decompressed, and the encoding of its values; -1 for that of a dictionary."""

    size: int
    encoding: int


def pages_of(raw: bytes, start: int, stop: int) -> list[Page]:
    """Return the pages of a column between two offsets of a file.

    Raises
    ------
    ValueError
        If a header is not valid, or a page reaches beyond the file.
    """
    found = []
    at = start
    while at < stop:
        try:
            header, at = _struct(raw, at, 0)
        except IndexError:
            raise ValueError("a page's header reaches beyond the file") from None
        size, packed = header.get(_SIZE), header.get(_PACKED)
        if type(size) is not int or type(packed) is not int or size < 0 or not 0 <= packed <= len(raw) - at:
            raise ValueError("a page has no valid size")
        kind = next((kind for kind in _ENCODING if isinstance(header.get(kind), dict)), 0)
        encoding = header[kind].get(_ENCODING[kind], -1) if kind else -1
        found.append(Page(size, encoding))
        at += packed
    return found


def _struct(raw: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Read a structure: its numbers and structures by field; everything else is skipped."""
    if depth > _DEEPEST:
        raise ValueError("a page's header is nested too deeply")
    fields: dict[int, Any] = {}
    field = 0
    while raw[at]:
        step, kind = raw[at] >> 4, raw[at] & 15
        at += 1
        if step:
            field += step
        else:
            field, at = _number(raw, at)
        if kind not in (_TRUE, _FALSE):  # a truth value is part of the field's head
            fields[field], at = _value(raw, at, kind, depth)
    return fields, at + 1


def _value(raw: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _NUMBERS:
        return _number(raw, at)
    if kind == _STRUCT:
        return _struct(raw, at, depth + 1)
    if kind == _BINARY:
        length, at = _plain(raw, at)
        return None, at + length
    if kind in (_BYTE, _DOUBLE):
        return None, at + (1 if kind == _BYTE else 8)
    if kind in (_LIST, _SET):
        count, kind = raw[at] >> 4, raw[at] & 15
        count, at = _plain(raw, at + 1) if count == 15 else (count, at + 1)
        for _ in range(count):
            _, at = (None, at + 1) if kind in (_TRUE, _FALSE) else _value(raw, at, kind, depth + 1)
            raw[at]  # raises at the end of the file
        return None, at
    raise ValueError(f"a page's header has a field of the unknown kind {kind}")


def _plain(raw: bytes, at: int) -> tuple[int, int]:
    """Read a number of variable length."""
    number = shift = 0
    while True:
        byte = raw[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError("a page's header has too long a number")


def _number(raw: bytes, at: int) -> tuple[int, int]:
    """Read a number that may be negative (zigzag)."""
    number, at = _plain(raw, at)
    return number >> 1 ^ -(number & 1), at
