"""The copier: copies stored values from prefix to prefix, the documents of each node last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from math import prod
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Final

from tegula import engine
from tegula.engine.concurrency.pool import for_each, gather
from tegula.engine.documents.finding import without_jobs
from tegula.engine.nodes.deleting import is_chunk_key
from tegula.engine.reading.remote import UNITS
from tegula.errors import AlreadyExistsError, ConflictError, MetadataError, UnsupportedError
from tegula.formats import FORMATS
from tegula.hierarchy.drafts import entered
from tegula.hierarchy.sources import Source, Sources
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores import ABSENT, Store
from tegula.stores.capabilities import Copying, SizedListing
from tegula.stores.targets.paths import location_of

if TYPE_CHECKING:
    from tegula.stores.zarr3_draft import DraftStore

__all__ = ["Copier", "CopyProgress"]

CopyProgress = Callable[[str, int, int], None]
"""Called with the path of the current node, and the numbers of values and bytes copied so far."""

_Sized = tuple[str, int]
"""A key and the approximate size of its value in bytes, or 0 where the size does not matter."""
_FIRST: Final = 4  # values that are timed before threads are used
_QUICK: Final = 0.0001  # seconds for one value, below which threads do not pay


def _documents_in_order() -> tuple[str, ...]:
    """Return the keys of all documents in the order to copy them: documents that make a node last."""
    inner = [key for fmt in FORMATS.values() for key in fmt.keys if key not in fmt.node_keys]
    consolidated = [fmt.consolidated_key for fmt in FORMATS.values() if fmt.consolidated_key]
    nodes = [key for fmt in [*FORMATS.values()][::-1] for key in fmt.node_keys]
    return (*dict.fromkeys(key for key in (*inner, *consolidated) if key not in nodes), *nodes)


_RANK: Final = {key: rank for rank, key in enumerate(_documents_in_order())}


class Copier:
    """A copy of the values below a prefix, and its counts for the report."""

    def __init__(self, source: Store, old: str, target: Store, new: str, progress: CopyProgress | None) -> None:
        self.source, self.old = source, old
        self.target, self.new = target, new
        self.requests = max(source.concurrency, target.concurrency)
        self._is_remote = source.is_remote or target.is_remote
        self.progress = progress
        self.arrays = self.groups = self.values = self.nbytes = 0
        self._node = ""
        self._chunks: dict[str, int] = {}  # bytes of a decoded chunk, by the prefix of an array to be copied
        self._lock = Lock()
        self._sources = Sources(None, old.rstrip("/"), implicit=True)
        self._nodes: dict[str, Source | Mapping[str, bytes]] = {}  # arrays, and documents of groups, by prefix
        self._drafts: dict[str, DraftStore | None] = {}  # views of what has an entry point, by prefix
        self._sizes_known = isinstance(source, SizedListing)
        # only a local store can be listed while values are written to it
        self._listed_first = target == source and source.local_directory is None

    @cached_property
    def _by_storage(self) -> bool:
        """Whether the storage copies values itself; asked before the first value, since it may take a test there."""
        return isinstance(self.target, Copying) and self.target.copies_from(self.source, create=True)

    def tree(self) -> None:
        """Copy all values: members before their group, and the documents of each node last.

        The documents are those by which the chunks were found, once it is known that they still describe the source.

        Raises
        ------
        ConflictError, NotFoundError
            If the source has changed meanwhile; its last documents are not written then.
        """
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
            level = [child for prefix, (_, below) in zip(groups, listed) for child in without_jobs(prefix, below)]
        self._check_sources()
        for pairs in reversed(levels):
            for_each(lambda group: self._documents(*group), pairs, parallel=False, requests=self.requests)

    def _check_sources(self) -> None:
        """Compare groups and the names of their members, before documents of groups are written."""
        self._sources.check()

    def _is_array(self, prefix: str) -> bool:
        """Return whether a prefix holds an array, or documents that can't be read; count the node."""
        path = prefix[:-1]
        try:
            node = engine.read_metadata(self.source, path)
        except (MetadataError, UnsupportedError) as error:
            self._sources.see_path(path)
            self._nodes[prefix] = Source(self.source, path, None)
            self._drafts[prefix] = entered(self.source, path, error)
            return True
        if node is not None:
            self._sources.see_path(path)
        if isinstance(node, ArrayMetadata):
            self._nodes[prefix] = self._array_at(path, node)
        else:
            self._nodes[prefix] = {} if node is None else node.documents
            self._sources.see_group(self.source, path, node or GroupMetadata(format="zarr3"))
        with self._lock:
            self.arrays += isinstance(node, ArrayMetadata)
            self.groups += isinstance(node, GroupMetadata)
            if isinstance(node, ArrayMetadata):
                self._chunks[prefix] = prod(node.grid.largest_chunk()) * node.data_type.itemsize
        return isinstance(node, ArrayMetadata)

    def _array_at(self, path: str, metadata: ArrayMetadata) -> Source:
        """Return an array that is about to be copied."""
        return Source(self.source, path, metadata, lengths="same")

    def _array(self, prefix: str) -> None:
        self._node = prefix[len(self.old) :].rstrip("/")
        documents: list[str] = []
        chunk, draft = self._chunks.pop(prefix, 0), self._drafts.pop(prefix, None)

        def others() -> Iterator[_Sized]:
            if isinstance(self.source, SizedListing):
                listed = self.source.list_sizes(prefix)
            else:
                listed = ((key, chunk) for key in self.source.list_prefix(prefix))
            for key, nbytes in listed:
                if draft is not None and (kind := draft.kind_of(key)) is not None:
                    with self._lock:
                        self.arrays += kind == "array"
                        self.groups += kind == "group"
                if key[len(prefix) :] in _RANK:
                    documents.append(key[len(prefix) :])
                else:
                    yield key, nbytes

        self._values(others())
        self._documents(prefix, documents)

    def _documents(self, prefix: str, names: list[str]) -> None:
        """Write the documents of a node, after a last comparison of those of an array."""
        node = self._nodes[prefix]
        if isinstance(node, Source):
            node.check()
        known = node.documents if isinstance(node, Source) else node
        for name in sorted({*names, *known}, key=_RANK.__getitem__):
            self._copy(prefix + name, 0, known.get(name))

    def _values(self, keys: Iterable[_Sized]) -> None:
        source = iter([*keys] if self._listed_first else keys)
        if self._is_remote:
            for_each(self._value, source, parallel=True, requests=self.requests)
            return
        start = perf_counter()
        for key in islice(source, _FIRST):
            self._value(key)
        # for small values threads would spend their time waiting for each other
        for_each(self._value, source, perf_counter() - start > _QUICK * _FIRST)

    def _value(self, item: _Sized) -> None:
        key, nbytes = item
        with UNITS.hold(nbytes if self._is_remote and not self._by_storage else 0):
            self._copy(key, nbytes)

    def _copy(self, key: str, nbytes: int, data: bytes | None = None) -> None:
        name = self.new + key[len(self.old) :]
        try:
            if data is not None:
                self.target.set(name, data, if_generation=ABSENT)
            copied = self._copied(key, name, nbytes) if data is None else len(data)
            if copied is None:  # deleted since it was listed
                return
        except ConflictError as error:
            raise AlreadyExistsError(
                "a value already exists at the target, or another process is writing there",
                path=location_of(self.target, self.new[:-1]),
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
        """Delete the copied values, documents first; the source may be gone."""
        for wanted in (True, False):
            listed = self.target.list_prefix(self.new)
            for key in listed if self.target.local_directory is not None else [*listed]:
                name = key[len(self.new) :]
                is_document = any(name == last or name.endswith(f"/{last}") for last in _RANK)
                if is_document is wanted and self._is_copied(name):
                    self.target.delete(key)

    def _is_copied(self, name: str) -> bool:
        """Return whether a value at the target comes from the source; values that were there before stay."""
        parts = name.split("/")
        for count in range(len(parts)):
            prefix, inner = self.old + "".join(f"{part}/" for part in parts[:count]), "/".join(parts[count:])
            if (node := self._nodes.get(prefix)) is not None and (
                inner in _RANK or (isinstance(node, Source) and is_chunk_key(inner))
            ):
                return True
        return self.source.exists(self.old + name)
