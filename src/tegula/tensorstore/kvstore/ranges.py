"""Ranges of keys as prefixes, and slices of bytes as what stores take."""

from __future__ import annotations

from operator import index
from typing import Any

from tegula.stores import ByteRange
from tegula.tensorstore.errors import StatusError, status, type_error
from tegula.tensorstore.kvstore.values import KeyRange, key_text

__all__ = ["ByteSlice", "listing_prefix", "prefix_of_range"]


class ByteSlice:
    """Which bytes of a value to read.

    Parameters
    ----------
    wanted : slice
        ``slice(start, stop)`` or ``slice(-n, None)``.

    Raises
    ------
    ValueError
        If it is another kind of slice.

    Attributes
    ----------
    request : (start, length)
        The same for a store.
    """

    __slots__ = ("_start", "_stop", "request")

    def __init__(self, wanted: slice) -> None:
        if not isinstance(wanted, slice) or wanted.step is not None:
            raise type_error(f"byte_range must be a slice without a step, not {wanted!r}")
        try:
            self._start = 0 if wanted.start is None else index(wanted.start)
            self._stop = None if wanted.stop is None else index(wanted.stop)
        except TypeError:
            raise type_error(f"byte_range must be a slice of integers, not {wanted!r}") from None
        start, stop = self._start, self._stop
        if stop is not None and (start < 0 or stop < start):
            raise status("INVALID_ARGUMENT", f"Unsupported byte_range slice: {wanted.start}:{wanted.stop}")
        self.request: ByteRange = (start, None if stop is None else stop - start)

    def is_doubtful(self, value: bytes) -> bool:
        """Return whether what was read may be less than was wanted."""
        if self._stop is not None:
            return self._stop == self._start or len(value) < self._stop - self._start
        return len(value) < -self._start if self._start < 0 else not value

    def check(self, size: int) -> None:
        """Raise a ValueError unless all the bytes are in a value of `size` bytes."""
        if max(abs(self._start), 0 if self._stop is None else self._stop) > size:
            raise self._out_of_range(size)

    def _out_of_range(self, size: int) -> StatusError:
        shown: Any = "?" if self._stop is None else self._stop
        range = f"[{self._start}, {shown})"
        return status("OUT_OF_RANGE", f"Requested byte range {range} is not valid for value of size {size}")


def prefix_of_range(path: str, range: KeyRange) -> str | None:
    """Return the prefix for a store (empty or ending in a slash) that a range is all keys of, or ``None``.

    Examples
    --------
    >>> prefix_of_range("a/", KeyRange()), prefix_of_range("a/", KeyRange("b/", "b0")), prefix_of_range("a", KeyRange())
    ('a/', 'a/b/', None)
    """
    start, stop = range.inclusive_min, range.exclusive_max
    if start and stop != (start[:-1] + b"0" if start.endswith(b"/") else None):
        return None
    prefix = path + key_text(start)
    return prefix if (start or not stop) and (not prefix or prefix.endswith("/")) else None


def listing_prefix(path: str, range: KeyRange) -> str:
    """Return a prefix for a store that all keys of a range begin with.

    Examples
    --------
    >>> listing_prefix("a/b", KeyRange()), listing_prefix("a/", KeyRange("c/d", "c/e"))
    ('a/', 'a/c/')
    """
    start, stop = range.inclusive_min, range.exclusive_max
    common = start.rpartition(b"/")
    directory = common[0] + common[1]
    if directory and stop and stop <= directory[:-1] + b"0":
        path += key_text(directory)
    return path[: path.rfind("/") + 1]
