"""Ranges and preconditions of HTTP (RFC 9110, sections 13 and 14)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["Span", "UnsatisfiableError", "matches", "precondition", "wanted_span"]

_RANGE: Final = re.compile(r"\s*bytes\s*=\s*(?:([0-9]+)\s*-\s*([0-9]*)|-\s*([0-9]+))\s*", re.IGNORECASE).fullmatch
_TAG: Final = re.compile(r'(?:W/)?"[^"]*"')
_MOST_DIGITS: Final = 18  # numbers with more digits are larger than any value


class Span(NamedTuple):
    """A part of a value; `partial` says whether the response has status 206, even if the part is all of the value."""

    start: int
    stop: int
    partial: bool = False


class UnsatisfiableError(Exception):
    """A range that lies beyond the end of the value."""


def wanted_span(header: str | None, size: int) -> Span:
    """Return the part that a header ``Range`` requests; all of the value without a header.

    Several ranges, other units and invalid headers are ignored, as the standard allows.

    Raises
    ------
    UnsatisfiableError
        If the range begins after the end.

    Examples
    --------
    >>> [tuple(wanted_span(header, 10)) for header in ("bytes=2-3", "bytes=-3", "bytes=8-")]
    [(2, 4, True), (7, 10, True), (8, 10, True)]
    >>> wanted_span("bytes=0-1,4-5", 10)
    Span(start=0, stop=10, partial=False)
    """
    match = _RANGE(header) if header is not None else None
    if match is None:
        return Span(0, size)
    first, last, suffix = (_number(part) for part in match.groups())
    if suffix is not None:
        if not suffix:
            raise UnsatisfiableError
        return Span(max(0, size - suffix), size, True) if size else Span(0, 0)
    assert first is not None  # the pattern requires one of the two
    if last is not None and last < first:
        return Span(0, size)
    if first >= size:
        raise UnsatisfiableError
    return Span(first, size if last is None else min(size, last + 1), True)


def _number(digits: str | None) -> int | None:
    """Return a number of a header; for a very long one, a number that is larger than any value."""
    if not digits:
        return None
    return int(digits) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS


def matches(header: str, tag: str, *, strong: bool) -> bool:
    """Return whether a header ``If-Match`` or ``If-None-Match`` lists a tag, by the strong or the weak comparison.

    Examples
    --------
    >>> matches('"a", W/"b"', '"b"', strong=False), matches('"a", W/"b"', '"b"', strong=True)
    (True, False)
    """
    if header.strip() == "*":
        return True
    tags = _TAG.findall(header)
    return tag in tags or (not strong and f"W/{tag}" in tags)


def precondition(headers: Mapping[str, str], tag: str) -> int | None:
    """Return the status that the preconditions of a request for an existing value demand: 304, 412 or ``None``.

    Dates are ignored, since values have no date of their own.

    Examples
    --------
    >>> precondition({"if-none-match": '"a"'}, '"a"'), precondition({"if-match": '"b"'}, '"a"')
    (304, 412)
    """
    if (wanted := headers.get("if-match")) is not None and not matches(wanted, tag, strong=True):
        return 412
    if (known := headers.get("if-none-match")) is not None and matches(known, tag, strong=False):
        return 304
    return None
