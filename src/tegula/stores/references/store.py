"""A store of references: its values are parts of files elsewhere, such as HDF5, NetCDF-4, GRIB or TIFF."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from tegula import config
from tegula.errors import StoreError, TegulaError
from tegula.stores.arguments import ABSENT, ByteRange, check_key, check_prefix, clip_range, cut
from tegula.stores.capabilities import Ranged
from tegula.stores.interface import Store
from tegula.stores.read_only import ReadOnlyStore
from tegula.stores.references.sets import Reference, ReferenceSet
from tegula.stores.secrets import plain_url
from tegula.stores.single_writer import digest
from tegula.stores.spans import GAP, spans_of

__all__ = ["ReferenceStore"]

Resolve = Callable[[str], tuple[Store, str]]


class _Wanted(NamedTuple):
    """A part of a file, for a range of the value of a key."""

    key: str
    reference: Reference
    store: Store
    name: str
    part: ByteRange


class ReferenceStore(ReadOnlyStore):
    """Parts of files elsewhere, given by the references that kerchunk and other programs write; read-only.

    Parts of one file that lie close together are read by one request, and all requests of an operation are sent at
    once. A part that reaches beyond the end of its file, or a file that does not exist, is an error and never an absent
    chunk.

    Parameters
    ----------
    references : ReferenceSet
        The references.
    resolve : callable
        Returns the store that holds the file of a URL, and the file's key in it.
    url : str
        The name of the store.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> from tegula.stores.references.sets import JsonReferences
    >>> files = MemoryStore({"file.bin": b"abcdefgh"})
    >>> references = JsonReferences({"version": 1, "refs": {"x/0": ["file.bin", 2, 4], "x/1": "base64:eA=="}})
    >>> store = ReferenceStore(references, lambda url: (files, url), "reference://example")
    >>> store.get("x/0"), store.get("x/0", (1, 2)), store.get("x/1"), store.get("x/2"), store.size("x/0")
    (b'cdef', b'de', b'x', None, 4)
    """

    why_read_only = "has references to files, which can only be read"

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
        """How many requests one operation should have under way at once: the `concurrency` of the files' store."""
        try:
            url = self.references.some_url()
            return 0 if url is None else self.resolve(url)[0].concurrency
        except TegulaError:  # reading raises this error, with the key
            return config.current().concurrency

    # --- values

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        entry = self._find(key)
        if not isinstance(entry, Reference):
            value = cut(entry, byte_range)
            return (value, ABSENT if entry is None else digest(entry)) if with_generation else value
        wanted = self._wanted(key, entry, byte_range)
        store: Any = wanted.store
        try:
            if not with_generation:
                return self._checked(wanted, store.get(wanted.name, wanted.part))
            if store.single_writer and isinstance(store, Ranged):  # `get` would read the whole file for a generation
                parts, generation = store.get_ranges(wanted.name, [wanted.part])
                value = parts[0] if parts else None
            else:
                value, generation = store.get(wanted.name, wanted.part, with_generation=True)
        except TegulaError as error:
            self._locate(error, wanted)
            raise
        return self._checked(wanted, value), (generation, entry)

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the results of `get` for each ``(key, byte_range)``, in order, with one wave of requests."""
        answers: list[bytes | None] = []
        by_store: dict[int, list[tuple[int, _Wanted]]] = {}
        for number, (key, byte_range) in enumerate(requests):
            entry = self._find(key)
            if isinstance(entry, Reference):
                wanted = self._wanted(key, entry, byte_range)
                by_store.setdefault(id(wanted.store), []).append((number, wanted))
                answers.append(None)
            else:
                answers.append(cut(entry, byte_range))
        for several in by_store.values():
            for (number, _), value in zip(several, self._fetch([wanted for _, wanted in several])):
                answers[number] = value
        return answers

    def _fetch(self, several: list[_Wanted]) -> list[bytes]:
        """Return parts of files in one store; those of a file that lie close together are one request."""
        store = several[0].store
        by_file: dict[str, list[int]] = {}
        for number, wanted in enumerate(several):
            by_file.setdefault(wanted.name, []).append(number)

        # the ranges to request, and where the parts are in them
        asked: list[tuple[str, ByteRange]] = []
        pieces: dict[int, tuple[int, int, int | None]] = {}
        for name, numbers in by_file.items():
            bounded = [number for number in numbers if several[number].part[1]]
            for number in {*numbers} - {*bounded}:
                pieces[number] = len(asked), 0, None
                asked.append((name, several[number].part))
            ranges = [(several[number].part[0], sum(several[number].part)) for number in bounded]  # type: ignore[arg-type]  # no None
            for start, stop, inside in spans_of(ranges, GAP if store.is_remote else 0):
                pieces.update({bounded[at]: (len(asked), first - start, last - start) for at, first, last in inside})
                asked.append((name, (start, stop - start)))
        try:
            values = store.get_many(asked)
        except TegulaError as error:
            self._locate(error, several[0])
            raise

        parts: list[bytes] = []
        for number, wanted in enumerate(several):
            at, first, last = pieces[number]
            value = values[at]
            parts.append(self._checked(wanted, None if value is None else value[first:last]))
        return parts

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        entry = self._find(key)
        if not isinstance(entry, Reference):
            return None if entry is None else len(entry)
        return entry.length if entry.length is not None else self._rest(self._wanted(key, entry, None))

    def exists(self, key: str) -> bool:
        """Return whether `key` has a reference or a value; the file is not looked up."""
        return self._find(key) is not None

    # --- references

    def _find(self, key: str) -> Reference | bytes | None:
        check_key(key)
        try:
            return self.references.find(key)
        except TegulaError as error:
            error.within(key=key, path=self._url)
            raise

    def _wanted(self, key: str, reference: Reference, byte_range: ByteRange | None) -> _Wanted:
        """Return the part of a file for a range of a value."""
        wanted = _Wanted(key, reference, self, "", (reference.offset, reference.length))
        try:
            store, name = self.resolve(reference.url)
            wanted = wanted._replace(store=store, name=name)
        except TegulaError as error:
            self._locate(error, wanted)
            raise
        if byte_range is None:
            return wanted
        length = reference.length
        if length is None:
            clip_range(byte_range, 0)  # checks it
            if byte_range[0] >= 0:
                return wanted._replace(part=(reference.offset + byte_range[0], byte_range[1]))
            length = self._rest(wanted)
        start, stop = clip_range(byte_range, length)
        return wanted._replace(part=(reference.offset + start, stop - start))

    def _rest(self, wanted: _Wanted) -> int:
        """Return how many bytes a file has after the offset of a reference."""
        try:
            size = wanted.store.size(wanted.name)
        except TegulaError as error:
            self._locate(error, wanted)
            raise
        return len(self._checked(wanted, None)) if size is None else max(0, size - wanted.reference.offset)

    def _checked(self, wanted: _Wanted, value: bytes | None) -> bytes:
        """Return the bytes that were read; raise if there are fewer than the reference says."""
        if value is None:
            raise self._locate(StoreError("the file that the reference names does not exist"), wanted)
        start, length = wanted.part
        if wanted.reference.length is not None and length is not None and len(value) != length:
            text = f"the reference names {length} bytes at {start}, and the file has {len(value)} of them"
            raise self._locate(StoreError(text), wanted)
        return value

    def _locate(self, error: TegulaError, wanted: _Wanted) -> TegulaError:
        """Add key, references and file to an error."""
        error.key = wanted.key
        name = plain_url(wanted.reference.url)[:200]
        if name not in error.message:
            error.message += f" ({name})"
        return error.within(path=self._url)

    # --- listings

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        return self.references.keys(check_prefix(prefix))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) directly below `prefix`, each sorted."""
        return self.references.children(check_prefix(prefix))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.references, self.resolve, self._url)
