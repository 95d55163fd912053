"""A zip archive that is a value of another store, such as an object of a bucket; only the necessary parts are read."""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

from tegula.errors import ConflictError, NotFoundError, StoreError
from tegula.stores.arguments import ABSENT, ByteRange, Generation, check_key, check_prefix
from tegula.stores.capabilities import Ranged, UnreachableNames
from tegula.stores.fsspec.store import FsspecStore
from tegula.stores.interface import Store
from tegula.stores.key_tree import KeyTree
from tegula.stores.names import ARCHIVES
from tegula.stores.read_only import ReadOnlyStore
from tegula.stores.zip.records import Member, packed_range, read_directory, read_member, warn_of

__all__ = ["RemoteZipStore"]

Span: TypeAlias = tuple[int, int]
"""Start and stop of bytes in an archive."""

Tail: TypeAlias = tuple[int, bytes]
"""Offset of the bytes read from the end of an archive, and the bytes."""

_REACH: Final = 8 << 20  # bytes at the end of a torn archive to search for its end record
_TAIL: Final = 256 << 10  # read at once when an archive is opened: the end record, and most directories
_AHEAD: Final = 16 << 20  # a longer directory is not read in one request with the bytes after it
_HEADER: Final = 30  # length of a member's header without its name
_SLACK: Final = 64  # room for fields after the name in a header: reading them costs less than another request


class Source:
    """The bytes of an archive in another store, all of one state."""

    def __init__(self, store: Store, key: str) -> None:
        self.size = 0
        self.has_failed = False  # whether the archive is known to have changed; it can then no longer be read
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
        parts: Any
        store: Any = self._store
        if self._has_states:
            try:
                parts, self._state = store.get_ranges(self._key, ranges, self._state)
            except ConflictError:
                raise self._changed() from None
            parts = parts or [None] * len(spans)
        elif len(ranges) == 1:
            parts = [self._store.get(self._key, ranges[0])]
        else:
            parts = self._store.get_many([(self._key, each) for each in ranges])
        for (start, stop), data in zip(spans, parts):
            if data is None or len(data) != stop - start:
                raise self._changed()
        return list(parts)

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

    If its tail was read already, this is extended as far as necessary.
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


def member_spans(member: Member, byte_range: ByteRange | None) -> list[Span]:
    """Return the spans that are necessary to read a member, or a range of it; none goes beyond its end.

    The length of a header is not known before it is read, so a few bytes more are read if it has not been read yet. A
    member that `read_member` refuses needs no bytes.
    """
    try:
        first, stop = packed_range(member, byte_range)
    except StoreError:
        return []
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


class RemoteZipStore(UnreachableNames, ReadOnlyStore):
    """Members of a zip archive that is a value of another store; read-only.

    Opening reads the end of the archive, with its directory. A member is read by one request for its bytes, and the
    members of `get_many` by one wave of requests; of an uncompressed member, only the requested part is read. Nothing
    else of the archive is transferred. Damaged archives are treated as by `ZipStore`.

    If the archive is replaced while the store is open, reading raises `StoreError`. Object storage reports this with
    the bytes. Other storage is asked after reading part of a member; a whole member is checked against its CRC.

    Parameters
    ----------
    store : Store
        The store that has the archive.
    key : str
        Its key there.

    Raises
    ------
    NotFoundError
        If there is no such archive.
    StoreError
        If it is not a sound zip archive, or can't be read.

    Examples
    --------
    >>> import io, zipfile
    >>> from tegula.stores import MemoryStore
    >>> archive = io.BytesIO()
    >>> with zipfile.ZipFile(archive, "w") as members:
    ...     members.writestr("c/0", b"abcdef")
    >>> store = RemoteZipStore(MemoryStore({"data/a.zip": archive.getvalue()}), "data/a.zip")
    >>> store.get("c/0", (2, 3)), [*store.list()]
    (b'cde', ['c/0'])
    """

    in_archive = True
    why_read_only = "is an archive in another store, which can only be read"

    def __init__(self, store: Store, key: str) -> None:
        self.store = store
        self.key = check_key(key)
        self.concurrency = store.concurrency
        self._source = Source(store, key)
        tail = self._checked(None, self._source.open)
        if tail is None:
            raise NotFoundError("there is no zip archive", path=self.url)
        self._members, self._odd = self._checked(None, partial(self._load, tail))
        warn_of(self.url, self._odd)

    @cached_property
    def _tree(self) -> KeyTree:
        return KeyTree(self._members)

    def _load(self, tail: Tail) -> tuple[dict[str, Member], list[Member]]:
        blocks = Blocks(self._source, tail)

        def fetch_headers(odd: Sequence[Member]) -> None:
            blocks.fetch(
                (member.offset, min(member.offset + _HEADER + _name_length(member), member.end)) for member in odd
            )

        _, members, odd = read_directory(blocks.read, self._source.size, _REACH, fetch_headers)
        return members, odd

    # --- values

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        member = self._members.get(check_key(key))
        value = self.get_many([(key, byte_range)])[0]
        if not with_generation:
            return value
        return value, ABSENT if member is None else member.generation

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the results of `get` for each ``(key, byte_range)``, in order, with one wave of requests."""
        wanted = [(self._members.get(check_key(key)), byte_range) for key, byte_range in requests]
        values: list[bytes | None] = self._checked(None, partial(self._read, wanted))
        return values

    def _read(self, wanted: list[tuple[Member | None, ByteRange | None]]) -> list[bytes | None]:
        blocks = Blocks(self._source)
        blocks.fetch([span for member, part in wanted if member for span in member_spans(member, part)])
        values: list[bytes | None] = []
        for member, part in wanted:
            if member is None:
                values.append(None)
                continue
            read = partial(read_member, blocks.read, member, None, part)
            values.append(self._checked(member.name, read))
        if any(member is not None and part is not None for member, part in wanted):
            self._source.check()  # parts have no checksum
        return values

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        member = self._members.get(check_key(key))
        return None if member is None else member.size

    # --- listings

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        return iter(self._tree.keys(check_prefix(prefix)))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) directly below `prefix`, each sorted."""
        return self._tree.children(check_prefix(prefix))

    def unreachable(self, prefix: str = "") -> Iterator[str]:
        """Yield the names of members below `prefix` that can't be keys, such as ``../a`` and ``a//b``."""
        check_prefix(prefix)
        return (member.name for member in self._odd if member.name.startswith(prefix))

    @property
    def url(self) -> str:
        """The URL of the archive; `tegula.open` can open it if it can open the URL of the store that holds it."""
        url = f"{self.store.url.rstrip('/')}/{self.key}"
        return url if url.endswith(ARCHIVES) else f"zip::{url}"

    # --- how it is done

    def _checked(self, key: str | None, read: Callable[[], Any]) -> Any:
        """Call `read`, and add the archive and the key to errors; raise a special error if the archive has changed."""
        try:
            return read()
        except StoreError as error:
            if not self._source.has_failed:
                self._source.check()
            if self.url not in error.message:
                error.message += f" ({self.url})"
            if key is not None:
                error.key = key
            raise
        except (OSError, MemoryError, OverflowError) as error:
            self._source.check()
            raise StoreError(f"can't read the archive {self.url}: {error}", key=key) from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RemoteZipStore):
            return NotImplemented
        return self.key == other.key and self.store == other.store

    def __hash__(self) -> int:
        return hash((type(self), self.key))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.key)
