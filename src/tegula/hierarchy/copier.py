"""The copier: copies stored values from prefix to prefix, the documents of each node last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import prod
from threading import Lock
from time import perf_counter
from typing import Final

from tegula import engine
from tegula.engine.far import UNITS
from tegula.engine.pool import for_each, gather
from tegula.errors import AlreadyExistsError, ConflictError, MetadataError, UnsupportedError
from tegula.formats import FORMATS
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores import ABSENT, LocalStore, Store
from tegula.stores.capabilities import Copying, SizedListing
from tegula.targets.paths import place

__all__ = ["Copier", "CopyProgress"]

CopyProgress = Callable[[str, int, int], None]
"""Called with the path of the current node, and the numbers of values and bytes copied so far."""

_Sized = tuple[str, int]
"""A key and the approximate size of its value in bytes, or 0 where the size does not matter."""
_FIRST: Final = 4  # values that are timed before threads are used
_QUICK: Final = 0.0001  # seconds for one value, below which threads do not pay


def _documents_in_order() -> tuple[str, ...]:
    """Return the keys of all documents in the order to copy them: documents that make a node last."""
    inner = [key for item in FORMATS.values() for key in item.keys if key not in item.node_keys]
    copies = [item.consolidated_key for item in FORMATS.values() if item.consolidated_key]
    nodes = [key for item in [*FORMATS.values()][::-1] for key in item.node_keys]
    return (*dict.fromkeys(key for key in (*inner, *copies) if key not in nodes), *nodes)


_RANK: Final = {key: rank for rank, key in enumerate(_documents_in_order())}


class Copier:
    """A copy of the values below a prefix, and its counts for the report."""

    def __init__(self, source: Store, old: str, target: Store, new: str, progress: CopyProgress | None) -> None:
        self.source, self.old = source, old
        self.target, self.new = target, new
        self.requests = max(source.concurrency, target.concurrency)
        self.progress = progress
        self.arrays = self.groups = self.values = self.nbytes = 0
        self._node = ""
        self._chunks: dict[str, int] = {}  # bytes of a decoded chunk, by the prefix of an array to be copied
        self._lock = Lock()
        # if the storage can copy values itself, they do not pass through this process
        self._by_storage = isinstance(target, Copying) and target.copies_from(source, create=True)
        self._sizes_known = isinstance(source, SizedListing)
        # only a local store can be listed while values are written to it
        self._listed_first = target == source and not isinstance(source, LocalStore)

    def tree(self) -> None:
        """Copy all values: members before their group, and the documents of each node last."""
        levels: list[list[tuple[str, list[str]]]] = []
        level = [self.old]
        while level:
            # the arrays of a level, and the other keys directly in its groups
            arrays = gather(self._is_array, level, self.requests)
            groups = [prefix for prefix, is_array in zip(level, arrays) if not is_array]
            wanted = [prefix for prefix, is_array in zip(level, arrays) if is_array]
            for_each(self._array, wanted, parallel=False, requests=self.requests)
            listed = gather(self.source.list_dir, groups, self.requests)
            self._values(
                (key, 0) for prefix, (keys, _) in zip(groups, listed) for key in keys if key[len(prefix) :] not in _RANK
            )
            documents = [
                [key[len(prefix) :] for key in keys if key[len(prefix) :] in _RANK]
                for prefix, (keys, _) in zip(groups, listed)
            ]
            levels.append([*zip(groups, documents)])
            level = [child for _, children in listed for child in children]
        for found in reversed(levels):
            for_each(lambda group: self._documents(*group), found, parallel=False, requests=self.requests)

    def _is_array(self, prefix: str) -> bool:
        """Return whether a prefix holds an array, or documents that can't be read; count the node."""
        try:
            found = engine.read_metadata(self.source, prefix[:-1])
        except (MetadataError, UnsupportedError):
            return True
        with self._lock:
            self.arrays += isinstance(found, ArrayMetadata)
            self.groups += isinstance(found, GroupMetadata)
            if isinstance(found, ArrayMetadata):
                self._chunks[prefix] = prod(found.grid.largest_chunk()) * found.data_type.itemsize
        return isinstance(found, ArrayMetadata)

    def _array(self, prefix: str) -> None:
        self._node = prefix[len(self.old) :].rstrip("/")
        documents: list[str] = []
        chunk = self._chunks.pop(prefix, 0)

        def others() -> Iterator[_Sized]:
            if isinstance(self.source, SizedListing):
                listed = self.source.list_sizes(prefix)
            else:
                listed = ((key, chunk) for key in self.source.list_prefix(prefix))
            for key, nbytes in listed:
                if key[len(prefix) :] in _RANK:
                    documents.append(key[len(prefix) :])
                else:
                    yield key, nbytes

        self._values(others())
        self._documents(prefix, documents)

    def _documents(self, prefix: str, names: list[str]) -> None:
        for name in sorted(names, key=_RANK.__getitem__):
            self._value((prefix + name, 0))

    def _values(self, keys: Iterable[_Sized]) -> None:
        source = iter([*keys] if self._listed_first else keys)
        if self.requests:
            for_each(self._value, source, parallel=True, requests=self.requests)
            return
        start = perf_counter()
        for key in islice(source, _FIRST):
            self._value(key)
        # for small values threads would spend their time waiting for each other
        for_each(self._value, source, perf_counter() - start > _QUICK * _FIRST)

    def _value(self, item: _Sized) -> None:
        key, nbytes = item
        with UNITS.hold(nbytes if self.requests and not self._by_storage else 0):
            self._copy(key, nbytes)

    def _copy(self, key: str, nbytes: int) -> None:
        name = self.new + key[len(self.old) :]
        try:
            copied = self._copied(key, name, nbytes)
            if copied is None:  # deleted since it was listed
                return
        except ConflictError as error:
            raise AlreadyExistsError(
                "a value already exists at the target, or another process is writing there",
                path=place(self.target, self.new[:-1]),
                key=name,
            ) from error
        with self._lock:  # progress is reported by one thread at a time, with increasing numbers
            self.values += 1
            self.nbytes += copied
            if self.progress is not None:
                self.progress(self._node, self.values, self.nbytes)

    def _copied(self, key: str, name: str, nbytes: int) -> int | None:
        """Copy a value and return its size in bytes; return ``None`` if it no longer exists."""
        if isinstance(self.target, Copying) and self._by_storage:
            known = nbytes if nbytes and self._sizes_known else None
            return self.target.copy_from(self.source, key, name, create=True, nbytes=known)
        data = self.source.get(key)
        if data is None:
            return None
        self.target.set(name, data, if_generation=ABSENT)
        return len(data)

    def undo(self) -> None:
        """Delete the copied values, documents first."""
        for wanted in (True, False):
            listed = self.source.list_prefix(self.old)
            for key in [*listed] if self._listed_first else listed:
                name = key[len(self.old) :]
                if any(name == last or name.endswith(f"/{last}") for last in _RANK) is wanted:
                    self.target.delete(self.new + name)
