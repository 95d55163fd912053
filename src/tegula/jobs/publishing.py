"""Arrays whose chunks are written before their documents, so that readers see only complete arrays."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from tegula import engine
from tegula.arrays.array import Array
from tegula.arrays.creation import completing, new_array_of
from tegula.errors import AlreadyExistsError, NotFoundError, TegulaError
from tegula.formats import Format, find_format
from tegula.jobs.ledger import Records
from tegula.jobs.runners.runner import Work
from tegula.metadata.nodes import ArrayMetadata, NodeMetadata
from tegula.runtime.frozen import replace
from tegula.stores import Store
from tegula.stores.targets.paths import location_of

__all__ = ["Destination", "Writing", "array_at", "publish"]

_RETRIES: Final = 10


@dataclass(frozen=True)
class Destination:
    """An array that a job writes, whose documents need not be stored yet."""

    store: Store
    path: str
    documents: dict[str, bytes]  # as they are or will be stored
    format: str
    options: dict[str, Any]  # for `tegula.engine.stored_array`
    visible: bool  # whether the documents are stored already

    def open(self) -> Array:
        """Return the array for writing."""
        metadata = find_format(self.format).parse(self.documents)
        assert isinstance(metadata, ArrayMetadata)
        return self.of(metadata)

    def of(self, metadata: ArrayMetadata) -> Array:
        """Return the array for writing; `metadata` is what `documents` describe."""
        if not self.visible:  # without documents, no operation checks that they exist
            metadata = replace(metadata, documents={})
        # the job itself leaves out chunks that hold the fill value alone, so a missing chunk is no error here
        options = {"missing_chunks": "fill", **self.options}
        return Array(engine.stored_array(self.store, self.path, metadata, **options), self.path, read_only=False)


class Writing(Work):
    """Work whose units are read from one array, the source, and written to another one."""

    def __init__(
        self, name: str, source: Array, destination: Destination, ledger: Records, limits: Mapping[str, int]
    ) -> None:
        self.name, self.source, self.destination, self.ledger = name, source, destination, ledger
        self.limits = {**limits}
        self.requests = max(source.store.concurrency, destination.store.concurrency)
        self.is_remote = source.store.is_remote or destination.store.is_remote

    def __getstate__(self) -> dict[str, Any]:
        opened = {name for name in vars(self) if isinstance(getattr(type(self), name, None), cached_property)}
        return {name: value for name, value in vars(self).items() if name not in opened}

    @cached_property
    def target(self) -> Array:
        """The array that is written."""
        return self.destination.open()


def array_at(store: Store, path: str, format: str, *, allow_pickle: bool = False) -> Array:
    """Open an array that a job has made, for writing; the job leaves out chunks that hold the fill value alone."""
    metadata = engine.read_metadata(store, path, format)
    if not isinstance(metadata, ArrayMetadata):
        raise NotFoundError("the array has been deleted", path=location_of(store, path))
    stored = engine.stored_array(store, path, metadata, allow_pickle=allow_pickle, missing_chunks="fill")
    return Array(stored, path, read_only=False)


def publish(
    store: Store, path: str, fmt: Format, metadata: ArrayMetadata, options: dict[str, Any], *, has_parent: bool
) -> Array:
    """Write the documents of an array, unless this job has done so before; return the array.

    Its chunks may be stored already. `metadata` is as `read_back` returns it, `options` are those for
    `tegula.engine.stored_array`, and `has_parent` says whether the groups above exist already.

    Raises
    ------
    AlreadyExistsError
        If another program has created a node here since the job began.
    """
    names, final = metadata.documents.keys(), replace(metadata, documents={})
    created = options | {"filled": False, "reserved": True, "has_chunks": True, "has_parent": has_parent}
    for attempt in range(_RETRIES):
        documents = engine.fetch_documents(store, path, fmt.keys)
        node = None
        with suppress(TegulaError):
            node = fmt.parse(documents)
        if isinstance(node, ArrayMetadata) and replace(node, documents={}) == final and names <= documents.keys():
            return Array(engine.stored_array(store, path, node, **options), path, read_only=True)
        if node is not None and not _is_beginning(node, final):
            break  # another program has created this node, which stays
        if documents and attempt:
            engine.back_off(attempt)  # another part of the job may be about to write the rest
        for key in documents if attempt in (0, _RETRIES - 2) else ():  # left by this job when it was killed
            store.delete(f"{path}/{key}".lstrip("/"))
        with suppress(AlreadyExistsError):
            target = new_array_of(store, path, fmt, metadata, False, **created)
            with completing(target):
                return target
    raise AlreadyExistsError("another process has created a node here", path=location_of(store, path))


def _is_beginning(node: NodeMetadata, final: ArrayMetadata) -> bool:
    """Return whether a node may be the final array, before the documents with its attributes are written."""
    if not isinstance(node, ArrayMetadata):
        return False
    names = final.dimension_names
    return replace(node, attributes=final.attributes, dimension_names=names, documents={}) == final
