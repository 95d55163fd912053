"""The bytes that each member of a zip archive takes, and reading them from another store in one wave of requests."""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from tegula import config
from tegula.errors import ConflictError, StoreError
from tegula.stores.arguments import ByteRange, Generation, clip_range
from tegula.stores.capabilities import Ranged
from tegula.stores.fsspec.store import FsspecStore
from tegula.stores.interface import Store
from tegula.stores.zip.records import STORED, Member

__all__ = ["Blocks", "Source", "Span", "Tail", "header_span", "spans_of"]

Span: TypeAlias = tuple[int, int]
"""Start and stop of bytes in an archive."""

Tail: TypeAlias = tuple[int, bytes]
"""Offset of the bytes read from the end of an archive, and the bytes."""

_TAIL: Final = 256 << 10  # read at once when an archive is opened: the end record, and most directories
_AHEAD: Final = 16 << 20  # a longer directory is not read in one request with the bytes after it
_HEADER: Final = 30  # length of a member's header without its name
_SLACK: Final = 64  # room for fields after the name in a header: reading them costs less than another request


class Source:
    """The bytes of an archive in another store, all of one state.

    Parameters
    ----------
    store : Store
        The store.
    key : str
        The key of the archive.

    Attributes
    ----------
    size : int
        The length of the archive.
    has_failed : bool
        Whether the archive is known to have changed; it can then no longer be read.
    """

    def __init__(self, store: Store, key: str) -> None:
        self.size = 0
        self.has_failed = False
        self._store = store
        self._key = key
        self._state: Any = None
        # with fsspec, `get_ranges` would check the state at each call, more often than necessary
        self._has_states = isinstance(store, Ranged) and not isinstance(store, FsspecStore)

    def open(self) -> Tail | None:
        """Read the end of the archive; return ``None`` if there is no archive."""
        size = self._store.size(self._key)
        if size is None:
            return None
        self.size = size
        start = max(0, size - _TAIL)
        if not self._has_states:
            self._state = self._version()
        return start, self.read([(start, size)])[0]

    def read(self, spans: list[Span]) -> list[bytes]:
        """Read parts of the archive, in one wave of requests.

        Raises
        ------
        StoreError
            If the archive has changed since it was opened, or can't be read.
        """
        if self.has_failed:
            raise self._changed()
        ranges = [(start, stop - start) for start, stop in spans]
        found: Any
        store: Any = self._store
        if self._has_states:
            try:
                found, self._state = store.get_ranges(self._key, ranges, self._state)
            except ConflictError:
                raise self._changed() from None
            found = found or [None] * len(spans)
        elif len(ranges) == 1:
            found = [self._store.get(self._key, ranges[0])]
        else:
            found = self._store.get_many([(self._key, each) for each in ranges])
        for (start, stop), data in zip(spans, found):
            if data is None or len(data) != stop - start:
                raise self._changed()
        return list(found)

    def check(self) -> None:
        """Raise `StoreError` if the archive is known to have changed since it was opened."""
        if not self._has_states and self._state is not None and self._version() != self._state:
            raise self._changed()

    def _version(self) -> Generation:
        """Return what distinguishes the states of the archive, for stores whose ranges have no generation."""
        if isinstance(self._store, FsspecStore):  # `get` would read the whole archive for a generation
            return self._store.version(self._key)
        generation: Generation = self._store.get(self._key, (0, 0), with_generation=True)[1]
        return generation

    def _changed(self) -> StoreError:
        self.has_failed = True
        return StoreError("the archive changed while it was open: open it again")


class Blocks:
    """Parts of an archive that were read ahead; other parts are read when they are needed.

    Parameters
    ----------
    source : Source
        The archive.
    tail : Tail, optional
        Its end, which is extended as far as necessary.
    """

    def __init__(self, source: Source, tail: Tail | None = None) -> None:
        self._source = source
        self._tail = tail
        self._starts: list[int] = []
        self._blocks: list[bytes] = []

    def fetch(self, spans: Iterable[Span]) -> None:
        """Read parts ahead, in one wave."""
        wanted = sorted({span for span in spans if span[0] < span[1]})
        if wanted:
            self._blocks = self._source.read(wanted)
            self._starts = [start for start, _ in wanted]

    def read(self, start: int, stop: int) -> bytes:
        """Return bytes of the archive.

        Raises
        ------
        OSError
            If the archive ends before `stop`.
        """
        if start >= stop:
            return b""
        if stop > self._source.size or start < 0:
            raise OSError(errno.EIO, "the archive is shorter than it should be")
        if self._tail is not None:
            first, data = self._tail
            if first - _AHEAD <= start < first:
                data = self._source.read([(start, first)])[0] + data
                first = start
                self._tail = first, data
            if start >= first:
                return data[start - first : stop - first]
        number = bisect_right(self._starts, start) - 1
        if number >= 0:
            first, data = self._starts[number], self._blocks[number]
            if stop <= first + len(data):
                return data[start - first : stop - first]
        return self._source.read([(start, stop)])[0]


def header_span(member: Member) -> Span:
    """Return the span that may hold the header of a member with its name, up to the member's end."""
    return member.offset, min(member.offset + _HEADER + _name_length(member), member.end)


def spans_of(member: Member, byte_range: ByteRange | None) -> list[Span]:
    """Return the spans that are necessary to read a member, or a range of it; none goes beyond its end.

    The length of a header is not known before it is read, so a few bytes more are read if it has not been read yet. A
    member that `read_member` refuses needs no bytes.
    """
    stored = member.method == STORED
    if stored and member.size != member.packed:
        return []
    first, stop = (0, member.size) if byte_range is None else clip_range(byte_range, member.size)
    if (stop - first if stored else member.size) > config.current().max_chunk_bytes:
        return []
    if not stored or stop - first == member.size:
        first, stop = 0, member.packed
    if member.start is not None:
        spans = [(member.start + first, member.start + stop)]
    else:
        behind = member.offset + _HEADER + _name_length(member)
        spans = [(member.offset, member.offset + _HEADER), (behind + first, behind + _SLACK + stop)]
        if first == 0:
            spans = [(member.offset, behind + _SLACK + stop)]
    end = member.end
    return [(start, min(stop, end)) for start, stop in spans if start < end]


def _name_length(member: Member) -> int:
    return int.from_bytes(member.record[28:30], "little")
