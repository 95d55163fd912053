"""The common part of the Zarr v2 and v3 drivers, whose arrays have one metadata document under one key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tegula
from tegula import engine
from tegula.arrays.attributes import Attributes
from tegula.engine import StoredArray
from tegula.errors import NotFoundError, TegulaError
from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.drivers.array_spec import path_of
from tegula.tensorstore.drivers.keyed import KeyedSpec
from tegula.tensorstore.drivers.metadata import Metadata
from tegula.tensorstore.drivers.node import NodeDriver, new_shape
from tegula.tensorstore.errors import StatusError, annotate, as_status, status
from tegula.tensorstore.index.domain import check_labels
from tegula.tensorstore.json.binding import dump
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import Driver, Indices, ResizeOptions

if TYPE_CHECKING:
    from tegula.tensorstore.batch import Batch

__all__ = ["KeyedDriver"]


class KeyedDriver(NodeDriver):
    """The driver of an array with one metadata document.

    Attributes
    ----------
    metadata
        The document as read when the array was opened.
    """

    source: KeyedSpec
    metadata: Metadata

    def __init__(
        self,
        source: KeyedSpec,
        kvstore: KvStore,
        metadata: Metadata,
        *,
        labels: Iterable[str | None] = (),
        write_empty: bool = False,
    ) -> None:
        shown = source.part_of(metadata)
        names = [*(name or "" for name in labels), *[""] * len(shown.shape)] if any(labels) else None
        if names is not None:
            check_labels(names)
        array = _stored_array(kvstore, source, source.node_of(metadata), write_empty=write_empty or source.store_equal)
        super().__init__(array, shown, labels=names, fill_missing=source.fill_missing)
        self.source, self.kvstore, self.metadata = source, kvstore, metadata

    def spec_members(self) -> dict[str, Any]:
        members: dict[str, Any] = {"metadata": self.metadata.with_members(self.array.shape)}
        return members if self.elements.field is None else {**members, "field": self.elements.field}

    @property
    def attributes(self) -> Attributes:
        """The user's attributes, read from the store at each access."""
        kvstore = self._kvstore()
        store, path, fmt = kvstore._store, path_of(kvstore), self.source.format(kvstore)

        def look() -> Mapping[str, Any]:
            metadata = fmt.parse(engine.fetch_documents(store, path, fmt.keys))
            return {} if metadata is None else metadata.attributes

        def change(how: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
            if "w" not in self.mode:
                raise status("INVALID_ARGUMENT", "Destination does not support writing.")
            node = self.array.metadata
            engine.update_documents(
                store,
                path,
                node,
                lambda metadata: replace(metadata, attributes=how(dict(metadata.attributes))),
                fmt=fmt,
            )

        return Attributes(self.array, look, change)

    def _kvstore(self) -> KvStore:
        kvstore = self.kvstore
        if kvstore is None:
            raise status("FAILED_PRECONDITION", "the array has no kvstore")
        return kvstore

    def read(self, indices: Indices) -> Any:
        self._depend_on_document(writes=False)
        return super().read(indices)

    def write(self, indices: Indices, values: Any) -> None:
        self._depend_on_document(writes=True)
        super().write(indices, values)

    def _depend_on_document(self, *, writes: bool) -> None:
        """Add the document to the keys that an atomic transaction depends on."""
        kvstore = self.kvstore
        if kvstore is not None and (staged := kvstore._staged) is not None:
            staged.depend(kvstore._path + self.source.key, writes=writes)

    def _current(self) -> ArrayMetadata:
        """Return the array that the stored document describes now.

        Raises
        ------
        ValueError
            If the document was deleted, or has incompatible metadata.
        """
        kvstore = self._kvstore()
        raw = kvstore._store.get(kvstore._path + self.source.key)
        if raw is None:
            raise self._missing_document_error()
        return self._compatible(self.source.read_document(kvstore, raw))

    def _missing_document_error(self) -> StatusError:
        return status("FAILED_PRECONDITION", f"Metadata at {self.source.shown_key(self._kvstore())} does not exist")

    def _compatible(self, metadata: Metadata) -> ArrayMetadata:
        """Return the array that a document describes; raise unless it has the same chunks as when it was opened."""
        known = self.metadata
        if metadata.has_chunks_of(known):
            return self.source.node_of(metadata)
        known = known.with_members(self.array.shape)
        raise status(
            "FAILED_PRECONDITION",
            f"Updated zarr metadata {dump(metadata.json)} is incompatible with existing metadata {dump(known.json)}",
        )

    def resolve(self, *, fix_resizable_bounds: bool = False, batch: Batch | None = None) -> Driver:
        if self.source.flags.assume_metadata:
            return self
        array = self.shared()
        with array.metadata_lock():
            metadata = self._current()
            array.stored = array.reopened(metadata)
        return self if metadata.shape == self.array.shape else self.at(array)

    def resize(self, options: ResizeOptions) -> Driver:
        if self.source.flags.assume_metadata:
            raise status("INVALID_ARGUMENT", "Resize not supported because assume_metadata was specified")
        if any(bound is not None for bound in options.exclusive_max[: self.array.ndim]):
            self._check_other_fields(options)
        kvstore, array = self._kvstore(), self.shared()
        # other documents may change at the same time
        fmt = self.source.format(kvstore).changed(keys=(self.source.key,))

        def shape_of(node: ArrayMetadata) -> tuple[int, ...]:
            self._compatible(self.source.parse(node.documents[self.source.key]))
            try:
                return new_shape(node.shape, options)
            except StatusError as error:
                if not (options.expand_only or options.metadata_only):
                    raise
                raise annotate(error, f"Error writing {self.source.shown_key(kvstore)}") from None

        def update(change: Callable[[ArrayMetadata], ArrayMetadata]) -> StoredArray:
            return array.update_metadata(change, fmt=fmt, shape_only=True)

        # the engine stores the shape, and deletes the elements outside it
        try:
            if options.metadata_only:
                resized = update(lambda node: replace(node, shape=shape_of(node)))
            else:
                resized = engine.resize(array.path, shape_of, update, array.reopened, self._has_stored_shape)
        except NotFoundError:
            raise self._missing_document_error() from None
        except StatusError:
            raise
        except TegulaError as error:
            raise annotate(as_status(error), f"Error writing {self.source.shown_key(kvstore)}") from error
        return self.at(tegula.Array(resized, array.path, read_only=False))

    def _has_stored_shape(self, metadata: ArrayMetadata) -> bool:
        """Return whether the stored document has the shape of `metadata`."""
        try:
            return self._current().shape == metadata.shape
        except TegulaError:
            return False


def _stored_array(kvstore: KvStore, source: KeyedSpec, node: ArrayMetadata, *, write_empty: bool) -> tegula.Array:
    """Return the array that metadata describes; its document must exist unless the spec assumes the metadata."""
    store, path = kvstore._store, path_of(kvstore)
    assumed = source.flags.assume_metadata or source.flags.assume_cached_metadata
    document = None if assumed else kvstore._path + source.key
    try:
        stored = engine.stored_array(store, path, node, write_empty=write_empty, document=document)
    except TegulaError as error:
        raise as_status(error) from error
    return tegula.Array(stored, path, read_only=False)
