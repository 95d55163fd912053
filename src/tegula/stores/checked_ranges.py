"""Byte ranges of storage that answers in its own ways: by errors for empty ranges, by too much, or by too little."""

from __future__ import annotations

from abc import abstractmethod

from tegula.errors import StoreError
from tegula.stores.arguments import ByteRange, clip_range
from tegula.stores.file_systems import is_absence
from tegula.stores.single_writer import SingleWriterStore

__all__ = ["CheckedRanges", "Limits"]

Limits = tuple[int | None, int | None]
"""Where a range begins and ends, as Python's slices have it; a negative begin without an end is a suffix."""


class CheckedRanges(SingleWriterStore):
    """Base class for stores over storage that is asked for parts of values by begin and end.

    Whatever the storage answers is held against the range that was asked for. If it does not fit, the size of the value
    decides whether the range reached beyond the end, or the storage sent something else.

    Attributes
    ----------
    may_ignore_ranges : bool
        Whether the storage may send the whole value for a part of it, as some web servers do.
    whole : Limits
        What to ask for to get a whole value.
    """

    may_ignore_ranges: bool = False
    whole: Limits = (None, None)

    @abstractmethod
    def fetch(self, key: str, limits: Limits) -> bytes | Exception:
        """Ask the storage for a value or a part of it; return an exception instead of raising it."""

    @abstractmethod
    def failure(self, action: str, key: str, error: Exception) -> StoreError:
        """Return the error that says what the storage failed to do."""

    def read(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        """Return a value, or a range of it; see `SingleWriterStore.read`."""
        limits = self.limits(byte_range)
        if limits is None:
            return self.read_sized(key, byte_range)
        return self.answer(key, byte_range, self.fetch(key, limits))

    def limits(self, byte_range: ByteRange | None) -> Limits | None:
        """Return what to ask for; ``None`` if that takes the size of the value."""
        if byte_range is None:
            return self.whole
        clip_range(byte_range, 0)  # checks it
        start, length = byte_range
        if length == 0 or (start < 0 and length is not None):
            return None
        if length is None:
            # that the storage ignores a range is seen by the length of the answer
            return None if start >= 0 and self.may_ignore_ranges else (start, None)
        return start, start + length

    def read_sized(self, key: str, byte_range: ByteRange | None) -> bytes | None:
        """Return a range for which the size of the value has to be known."""
        size = self.size(key)
        if size is None:
            return None
        first, stop = clip_range(byte_range or (0, None), size)
        return self.read(key, (first, stop - first)) if stop > first else b""

    def answer(self, key: str, byte_range: ByteRange | None, found: bytes | Exception) -> bytes | None:
        """Return the value or range that was asked for, from what the storage has sent.

        Raises
        ------
        StoreError
            If the storage has failed, or sent something else.
        """
        if is_absence(found):
            return None
        if isinstance(found, Exception):
            if byte_range is None and self.whole == (None, None):
                raise self.failure("read", key, found)
            # an empty range is an error for many servers
            size = self.size(key)
            if size is None:
                return None
            first, stop = clip_range(byte_range or (0, None), size)
            if first < stop:
                raise self.failure("read", key, found)
            return b""
        if byte_range is None:
            return bytes(found)
        start, length = byte_range
        expected = -start if length is None and start < 0 else length
        if expected is None or len(found) == expected:
            return bytes(found)

        # it is shorter at the end of a value, and longer if the storage has sent all of it
        size = self.size(key)
        if size is None:
            return None
        first, stop = clip_range(byte_range, size)
        if len(found) == stop - first:
            return bytes(found)
        if len(found) == size:
            return bytes(found[first:stop])
        if start < 0:  # a suffix longer than the value, which the storage has misread
            return self.read(key, (first, stop - first))
        raise StoreError(f"the storage sent {len(found)} bytes of a range of {stop - first}", key=key)
