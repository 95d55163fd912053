"""Which byte ranges of one value share a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["GAP", "Span", "spans_of"]

GAP: Final = 1 << 20
"""Bytes that take about as long to transfer as another request takes to begin."""

_LONGEST: Final = 16 << 20


class Span(NamedTuple):
    """Bytes that one request reads, for one or several ranges.

    Attributes
    ----------
    start, stop : int
        Where the bytes begin and end in the value.
    ranges : list of (int, int, int)
        Index, start and stop of the ranges in them.
    """

    start: int
    stop: int
    ranges: list[tuple[int, int, int]]


def spans_of(ranges: Sequence[tuple[int, int]], gap: int = GAP, longest: int = _LONGEST) -> list[Span]:
    """Return the spans to read for ranges given as ``(start, stop)``; empty ranges need none.

    Examples
    --------
    >>> [(span.start, span.stop) for span in spans_of([(90, 95), (0, 5), (7, 9), (3, 3)], gap=10)]
    [(0, 9), (90, 95)]
    """
    spans: list[Span] = []
    order = sorted((start, stop, number) for number, (start, stop) in enumerate(ranges) if start < stop)
    for start, stop, number in order:
        last = spans[-1] if spans else None
        if last is not None and start - last.stop <= gap and max(stop, last.stop) - last.start <= longest:
            spans[-1] = Span(last.start, max(stop, last.stop), last.ranges)
        else:
            spans.append(Span(start, stop, []))
        spans[-1].ranges.append((number, start, stop))
    return spans
