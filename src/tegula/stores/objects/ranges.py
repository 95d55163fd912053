"""Byte ranges of one object: obstore's options for them, and which of them share a request."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, Final, NamedTuple

from tegula.stores.arguments import ByteRange, clip_range

__all__ = ["Span", "range_options", "spans_of"]

_GAP: Final = 1 << 20  # bytes that take about as long to transfer as another request takes to begin
_LONGEST: Final = 16 << 20


class Span(NamedTuple):
    """Bytes that one request reads, for one or several ranges.

    Attributes
    ----------
    start, stop : int
        Where the bytes begin and end in the value.
    wanted : list of (int, int, int)
        Index, start and stop of the ranges in them.
    """

    start: int
    stop: int
    wanted: list[tuple[int, int, int]]


def spans_of(ranges: Sequence[tuple[int, int]], gap: int = _GAP, longest: int = _LONGEST) -> list[Span]:
    """Return the spans to read for ranges given as ``(start, stop)``; empty ranges need none.

    Examples
    --------
    >>> [(span.start, span.stop) for span in spans_of([(90, 95), (0, 5), (7, 9), (3, 3)], gap=10)]
    [(0, 9), (90, 95)]
    """
    found: list[Span] = []
    order = sorted((start, stop, place) for place, (start, stop) in enumerate(ranges) if start < stop)
    for start, stop, place in order:
        last = found[-1] if found else None
        if last is not None and start - last.stop <= gap and max(stop, last.stop) - last.start <= longest:
            found[-1] = Span(last.start, max(stop, last.stop), last.wanted)
        else:
            found.append(Span(start, stop, []))
        found[-1].wanted.append((place, start, stop))
    return found


def range_options(byte_range: ByteRange | None) -> dict[str, Any]:
    """Return obstore's options for reading a byte range, or one that begins there.

    Examples
    --------
    >>> range_options((0, 0)), range_options((-4, 2)), range_options((3, 4))
    ({'head': True}, {'range': {'suffix': 4}}, {'range': (3, 7)})
    """
    if byte_range is None:
        return {}
    clip_range(byte_range, 0)  # checks it
    start, length = index(byte_range[0]), None if byte_range[1] is None else index(byte_range[1])
    if length == 0:
        return {"head": True}
    if start < 0:
        return {"range": {"suffix": -start}}
    if length is None:
        return {"range": {"offset": start}} if start else {}
    return {"range": (start, start + length)}
