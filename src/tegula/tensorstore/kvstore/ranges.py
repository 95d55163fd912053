"""Conversion of key ranges to prefixes, and of slices of values to byte ranges."""

from __future__ import annotations

from collections.abc import Iterator
from operator import index

from tegula.stores import ByteRange, Store
from tegula.tensorstore.errors import invalid, status, type_error
from tegula.tensorstore.kvstore.values import KeyRange, key_text

__all__ = ["ByteSlice", "keys_below", "listing_prefix", "prefix_of_range"]


class ByteSlice:
    """A range of the bytes of a value.

    Parameters
    ----------
    wanted : slice
        ``slice(start, stop)`` or ``slice(-n, None)``.

    Attributes
    ----------
    request : (start, length)
        The range in the form that stores accept.
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
            raise invalid(f"Unsupported byte_range slice: {wanted.start}:{wanted.stop}")
        self.request: ByteRange = (start, None if stop is None else stop - start)

    def is_doubtful(self, value: bytes) -> bool:
        """Return whether fewer bytes than requested may have been read."""
        if self._stop is not None:
            return self._stop == self._start or len(value) < self._stop - self._start
        return len(value) < -self._start if self._start < 0 else not value

    def check(self, size: int) -> None:
        """Raise ValueError unless a value of `size` bytes contains the range."""
        if max(abs(self._start), 0 if self._stop is None else self._stop) > size:
            shown = f"[{self._start}, {'?' if self._stop is None else self._stop})"
            text = f"Requested byte range {shown} is not valid for value of size {size}"
            raise status("OUT_OF_RANGE", text)


def prefix_of_range(path: str, range: KeyRange) -> str | None:
    """Return the prefix (empty or ending in a slash) with exactly the keys of a range; ``None`` if there is none.

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
    """Return a directory of the store that contains all keys of a range.

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


def keys_below(store: Store, path: str, directory: str) -> Iterator[str]:
    """Yield the keys of a directory, except those in subdirectories whose names do not start with the path."""
    if len(path) <= len(directory):
        yield from store.list_prefix(directory)
        return
    keys, children = store.list_dir(directory)
    yield from keys
    for child in children:
        if child.startswith(path):
            yield from store.list_prefix(child)
