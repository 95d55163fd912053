"""A store of references: its values are parts of files elsewhere, such as HDF5, NetCDF-4, GRIB or TIFF."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

from tegula import config
from tegula.errors import ReadOnlyError, StoreError, TegulaError
from tegula.stores.arguments import ABSENT, ByteRange, BytesLike, Generation, check_key, check_prefix, clip_range
from tegula.stores.capabilities import Ranged
from tegula.stores.interface import Store
from tegula.stores.reference_sets import Reference, ReferenceSet
from tegula.stores.secrets import plain_url
from tegula.stores.single_writer import digest

__all__ = ["ReferenceStore"]

Found = Reference | bytes | None
Resolve = Callable[[str], tuple[Store, str]]


class ReferenceStore(Store):
    """Parts of files elsewhere, by the references that kerchunk and others write; it can only be read.

    Parts of one file that lie close together are read by one request, and all requests of an operation go at once. A
    part that reaches beyond the end of its file, and a file that does not exist, are errors and never absent chunks.

    Parameters
    ----------
    references : ReferenceSet
        The references.
    resolve : callable
        Returns the store that holds a file, and the file's key there, by its URL.
    url : str
        The name of the store.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> from tegula.stores.reference_sets import JsonReferences
    >>> files = MemoryStore({"file.bin": b"abcdefgh"})
    >>> found = JsonReferences({"version": 1, "refs": {"x/0": ["file.bin", 2, 4], "x/1": "base64:eA=="}})
    >>> store = ReferenceStore(found, lambda url: (files, url), "reference://example")
    >>> store.get("x/0"), store.get("x/0", (1, 2)), store.get("x/1"), store.get("x/2"), store.size("x/0")
    (b'cdef', b'de', b'x', None, 4)
    """

    read_only = True

    def __init__(self, references: ReferenceSet, resolve: Resolve, url: str) -> None:
        self.references = references
        self.resolve = resolve
        self._url = url

    @property
    def url(self) -> str:
        """The URL of the references."""
        return self._url

    @cached_property
    def concurrency(self) -> int:  # type: ignore[override]
        """How many requests go at once: as many as the store of the files wants."""
        try:
            url = self.references.some_url()
            return 0 if url is None else self.resolve(url)[0].concurrency
        except TegulaError:  # reading raises it, with the key
            return config.current().concurrency

    # --- values

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        found = self._find(key)
        if not with_generation:
            return self._read(key, found, byte_range)
        if not isinstance(found, Reference):
            value = self._read(key, found, byte_range)
            return value, ABSENT if found is None else digest(found)
        store, name = self._file(key, found)
        wanted = self._part(key, found, byte_range, lambda: store.size(name))
        try:
            value, generation = store.get(name, wanted, with_generation=True)
        except TegulaError as error:
            raise self._located(error, key, found)
        return self._checked(key, found, wanted, value), (generation, found)

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the answers of `get` for each ``(key, byte_range)``, in order; parts of one file are read together."""
        wanted = [(key, self._find(key), byte_range) for key, byte_range in requests]
        answers: list[bytes | None] = [None] * len(wanted)
        files: dict[str, list[int]] = {}
        for place, (key, found, byte_range) in enumerate(wanted):
            if isinstance(found, Reference):
                files.setdefault(found.url, []).append(place)
            else:
                answers[place] = self._read(key, found, byte_range)

        # files of one store go together, so that all their requests go at once
        batches: dict[int, tuple[Store, list[int], list[tuple[str, ByteRange]]]] = {}
        for places in files.values():
            key, first, _ = wanted[places[0]]
            assert isinstance(first, Reference)
            store, name = self._file(key, first)
            parts = [self._part(wanted[at][0], wanted[at][1], wanted[at][2], lambda: store.size(name)) for at in places]
            if isinstance(store, Ranged) and len(places) > 1:
                for at, value in zip(places, self._ranges(key, first, store, name, parts)):
                    answers[at] = value
                continue
            batch = batches.setdefault(id(store), (store, [], []))
            batch[1].extend(places)
            batch[2].extend((name, part) for part in parts)
        for store, places, asked in batches.values():
            try:
                values = store.get_many(asked)
            except TegulaError as error:
                raise error.within(path=self._url)
            for at, value in zip(places, values):
                answers[at] = value
            for at, (_, part) in zip(places, asked):
                answers[at] = self._checked(wanted[at][0], wanted[at][1], part, answers[at])
        return answers

    def _ranges(
        self, key: str, first: Reference, store: Any, name: str, parts: list[ByteRange]
    ) -> list[bytes]:
        try:
            values, _ = store.get_ranges(name, parts)
        except TegulaError as error:
            raise self._located(error, key, first)
        return [
            self._checked(key, first, part, value)
            for part, value in zip(parts, [None] * len(parts) if values is None else values)
        ]

    def _read(self, key: str, found: Found, byte_range: ByteRange | None) -> bytes | None:
        if isinstance(found, Reference):
            store, name = self._file(key, found)
            part = self._part(key, found, byte_range, lambda: store.size(name))
            try:
                return self._checked(key, found, part, store.get(name, part))
            except TegulaError as error:
                raise self._located(error, key, found)
        if found is None or byte_range is None:
            return found
        start, stop = clip_range(byte_range, len(found))
        return found[start:stop]

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        found = self._find(key)
        if not isinstance(found, Reference):
            return None if found is None else len(found)
        return self._size(key, found) if found.length is None else found.length

    def exists(self, key: str) -> bool:
        """Return whether `key` has a value; the file that holds it is not asked."""
        return self._find(key) is not None

    # --- references

    def _find(self, key: str) -> Found:
        check_key(key)
        try:
            return self.references.find(key)
        except TegulaError as error:
            raise error.within(key=key, path=self._url)

    def _file(self, key: str, found: Reference) -> tuple[Store, str]:
        try:
            return self.resolve(found.url)
        except TegulaError as error:
            raise self._located(error, key, found)

    def _size(self, key: str, found: Reference) -> int:
        store, name = self._file(key, found)
        try:
            size = store.size(name)
        except TegulaError as error:
            raise self._located(error, key, found)
        return len(self._checked(key, found, (0, None), None)) if size is None else max(0, size - found.offset)

    def _part(
        self, key: str, found: Found, byte_range: ByteRange | None, size: Callable[[], int | None]
    ) -> ByteRange:
        """Return the range of the file that a range of a value is."""
        assert isinstance(found, Reference)
        offset, length = found.offset, found.length
        if byte_range is None:
            return offset, length
        if length is None:
            if byte_range[0] >= 0:
                clip_range(byte_range, 0)  # checks it
                return offset + byte_range[0], byte_range[1]
            length = self._size(key, found)
        start, stop = clip_range(byte_range, length)
        return offset + start, stop - start

    def _checked(self, key: str, found: Found, part: ByteRange, value: bytes | None) -> bytes:
        """Return what was read; refuse less than the reference promises."""
        assert isinstance(found, Reference)
        if value is None:
            raise self._located(StoreError("the file that the reference names does not exist", key=key), key, found)
        if found.length is not None and part[1] is not None and len(value) != part[1]:
            text = f"the reference names {part[1]} bytes at {part[0]}, and the file has {len(value)} of them"
            raise self._located(StoreError(text, key=key), key, found)
        return value

    def _located(self, error: TegulaError, key: str, found: Reference) -> TegulaError:
        """Name key, references and file in an error."""
        error.key = key
        name = plain_url(found.url)[:200]
        if name not in error.message:
            error.message += f" ({name})"
        return error.within(path=self._url)

    # --- listings

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        return self.references.keys(check_prefix(prefix))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) that stand directly below `prefix`, each sorted."""
        return self.references.children(check_prefix(prefix))

    # --- changes

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Raise `ReadOnlyError`."""
        raise self._read_only(check_key(key))

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Raise `ReadOnlyError`."""
        raise self._read_only(check_key(key))

    def delete_prefix(self, prefix: str) -> None:
        """Raise `ReadOnlyError`."""
        raise self._read_only(check_prefix(prefix))

    def _read_only(self, key: str) -> ReadOnlyError:
        return ReadOnlyError(f"{self!r} has references to files, which can only be read", key=key)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.references, self.resolve, self._url)
