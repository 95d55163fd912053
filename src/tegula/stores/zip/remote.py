"""A zip archive that is a value of another store, such as an object of a bucket; only the necessary parts are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Final

from tegula.errors import NotFoundError, ReadOnlyError, StoreError
from tegula.stores.arguments import ABSENT, ByteRange, BytesLike, Generation, check_key, check_prefix
from tegula.stores.capabilities import UnreachableNames
from tegula.stores.interface import Store
from tegula.stores.key_tree import KeyTree
from tegula.stores.zip.contents import read_directory, warn_of
from tegula.stores.zip.packing import read_member
from tegula.stores.zip.records import Member
from tegula.stores.zip.spans import Blocks, Source, Tail, header_span, spans_of

__all__ = ["RemoteZipStore"]

_REACH: Final = 8 << 20  # bytes at the end of a torn archive to search for its end record


class RemoteZipStore(UnreachableNames, Store):
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
    read_only = True

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
            blocks.fetch([header_span(member) for member in odd])

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
        blocks.fetch([span for member, part in wanted if member for span in spans_of(member, part)])
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

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Raise `ReadOnlyError`."""
        raise self._read_only(check_key(key))

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Raise `ReadOnlyError`."""
        raise self._read_only(check_key(key))

    def delete_prefix(self, prefix: str) -> None:
        """Raise `ReadOnlyError`."""
        raise self._read_only(check_prefix(prefix))

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
        return url if url.endswith(".zip") else f"zip::{url}"

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

    def _read_only(self, key: str) -> ReadOnlyError:
        return ReadOnlyError(f"{self!r} is an archive in another store, which can only be read", key=key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RemoteZipStore):
            return NotImplemented
        return self.key == other.key and self.store == other.store

    def __hash__(self) -> int:
        return hash((type(self), self.key))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.key)
