"""Sizes, durations and counts as text, and numbers that floats hold."""

from __future__ import annotations

from math import isfinite

__all__ = ["counted", "human_bytes", "human_seconds", "is_finite"]


def human_bytes(size: int) -> str:
    """Return a number of bytes as readable text.

    Examples
    --------
    >>> human_bytes(512), human_bytes(1536), human_bytes(5 * 2**30)
    ('512 B', '1.5 KiB', '5.0 GiB')
    """
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} EiB"


def human_seconds(seconds: float) -> str:
    """Return a duration as readable text.

    Examples
    --------
    >>> human_seconds(0.0123), human_seconds(3.21), human_seconds(125), human_seconds(7384)
    ('12 ms', '3.2 s', '2 min 5 s', '2 h 3 min')
    """
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def counted(number: int, word: str) -> str:
    """Return a number with a word in singular or plural.

    Examples
    --------
    >>> counted(1, "array"), counted(1234567, "chunk"), counted(0, "group")
    ('1 array', '1,234,567 chunks', '0 groups')
    """
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def is_finite(number: float) -> bool:
    """Return whether a float can hold a number, which an integer of any size may be, and it is no infinity and no NaN.

    Examples
    --------
    >>> is_finite(1), is_finite(10**400), is_finite(float("nan"))
    (True, False, False)
    """
    try:
        return isfinite(number)
    except OverflowError:
        return False
