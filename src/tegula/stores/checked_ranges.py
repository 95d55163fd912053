"""Byte ranges of storage that may answer with an error for an empty range, with too many bytes, or with too few."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from tegula.errors import StoreError
from tegula.stores.arguments import ByteRange, clip_range
from tegula.stores.fsspec.file_systems import is_absence
from tegula.stores.single_writer import SingleWriterStore

__all__ = ["CheckedRanges", "Limits"]

_ATTEMPTS: Final = 20

Limits = tuple[int | None, int | None]
"""Start and stop of a range, as in Python's slices; a negative start without a stop is a suffix."""


class CheckedRanges(SingleWriterStore):
    """Base class for stores over storage that returns parts of values by start and stop.

    Each answer is compared with the requested range. If it does not fit, the size of the value tells whether the range
    reached beyond the end, or the storage sent something else.

    Attributes
    ----------
    may_ignore_ranges : bool
        Whether the storage may send the whole value when a part is requested, as some web servers do.
    whole : Limits
        The limits that request a whole value.
    """

    may_ignore_ranges: bool = False
    whole: Limits = (None, None)

    @abstractmethod
    def fetch(self, key: str, limits: Limits) -> bytes | Exception:
        """Read a value or a part of it from the storage; return an exception instead of raising it."""

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
        """Return the limits to request; ``None`` if they can't be known without the size of the value."""
        if byte_range is None:
            return self.whole
        clip_range(byte_range, 0)  # checks it
        start, length = byte_range
        if length == 0 or (start < 0 and length is not None):
            return None
        if length is None:
            # if the storage ignores the range, the length of the answer shows it
            return None if start >= 0 and self.may_ignore_ranges else (start, None)
        return start, start + length

    def read_sized(self, key: str, byte_range: ByteRange | None) -> bytes | None:
        """Return a range for which the size of the value has to be known."""
        size = self.size(key)
        if size is None:
            return None
        if byte_range is not None and byte_range[0] < 0:
            return self._read_end(key, byte_range, size)
        first, stop = clip_range(byte_range or (0, None), size)
        return self.read(key, (first, stop - first)) if stop > first else b""

    def _read_end(self, key: str, byte_range: ByteRange, size: int) -> bytes | None:
        """Return a range that is counted from the end; read it again if a value with another end has been stored."""
        error = StoreError("the value has changed each time a range of it was read", key=key)
        for _ in range(_ATTEMPTS):
            first, stop = clip_range(byte_range, size)
            if first == stop:
                return b""
            try:
                found = self.read(key, (first, stop - first))
            except StoreError as failure:
                found, error = None, failure
            now = self.size(key)
            if now is None:
                return None
            if now == size and found is not None and len(found) == stop - first:
                return found
            size = now
        raise error

    def answer(self, key: str, byte_range: ByteRange | None, found: bytes | Exception) -> bytes | None:
        """Return the requested value or range from the storage's answer.

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
            # many servers answer an empty range with an error
            size = self.size(key)
            if size is None:
                return None
            first, stop = clip_range(byte_range or (0, None), size)
            if first == stop:
                return b""
            if byte_range is not None and byte_range[0] < 0:  # some file systems have no suffixes
                return self.read_sized(key, byte_range)
            raise self.failure("read", key, found)
        if byte_range is None:
            return bytes(found)
        start, length = byte_range
        expected = -start if length is None and start < 0 else length
        if expected is None or len(found) == expected:
            return bytes(found)

        # the answer is shorter at the end of a value, and longer if the storage has sent the whole value
        size = self.size(key)
        if size is None:
            return None
        first, stop = clip_range(byte_range, size)
        if len(found) == stop - first:
            return bytes(found)
        if len(found) == size:
            return bytes(found[first:stop])
        if start < 0:  # a suffix longer than the value, which the storage misread
            return self.read_sized(key, byte_range)
        raise StoreError(f"the storage sent {len(found)} bytes of a range of {stop - first}", key=key)
