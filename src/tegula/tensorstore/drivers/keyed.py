"""Arrays whose metadata is one document under one key: opened, created and changed by one set of rules.

A driver says how a document is read (`KeyedSpec.parse`), what a new one says (`new_metadata`), and whether one that is
stored is as the spec wants it (`check`); when to do which, and what users are told, is here.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import tegula
from tegula import engine
from tegula.attributes import Attributes
from tegula.engine import StoredArray, cut_off, make_room
from tegula.errors import ConflictError, TegulaError
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import ABSENT, Store
from tegula.tensorstore.drivers.attributes import attributes_in
from tegula.tensorstore.drivers.interface import Driver, Indices, OpenFlags, ResizeOptions, mode_of
from tegula.tensorstore.drivers.node import NodeDriver, new_shape
from tegula.tensorstore.drivers.stored import StoredSpec
from tegula.tensorstore.errors import StatusError, annotate, as_status, status
from tegula.tensorstore.kvstore import KvStore
from tegula.tensorstore.staging import StagedStore

if TYPE_CHECKING:
    from tegula.tensorstore.batch import Batch
    from tegula.tensorstore.context import Context
    from tegula.tensorstore.transaction import Transaction

__all__ = ["KeyedDriver", "KeyedSpec", "stored_array"]

_RETRIES = 10_000


class KeyedSpec(StoredSpec):
    """A spec of an array with one metadata document."""

    document_kind: ClassVar[str] = "zarr"
    """What messages call the metadata."""
    attributes_key: ClassVar[str | None] = None
    """The document the user's attributes are in, if that is not the array's own."""

    @property
    @abstractmethod
    def key(self) -> str:
        """The key of the document, relative to the path."""

    @abstractmethod
    def parse(self, raw: bytes) -> Any:
        """Read a stored document; raises FAILED_PRECONDITION where it is none."""

    @abstractmethod
    def new_metadata(self) -> Any:
        """Return the metadata of a new array that is as the spec says."""

    @abstractmethod
    def check(self, metadata: Any) -> None:
        """Raise unless a document is as the spec says."""

    @abstractmethod
    def driver(self, kvstore: KvStore, metadata: Any) -> KeyedDriver:
        """Return the driver of an array."""

    def open(
        self,
        context: Context,
        transaction: Transaction | None = None,
        read: bool = True,
        write: bool = True,
        batch: Batch | None = None,
    ) -> Driver:
        flags = self.checked_flags(read, write)
        kvstore = self.opened_kvstore(context, transaction)
        if flags.assume_metadata or flags.assume_cached_metadata:
            driver = self.driver(kvstore, self.new_metadata())
        else:
            driver = self._found_or_created(kvstore, flags)
        driver.mode = mode_of(read, write)
        return driver

    def _found_or_created(self, kvstore: KvStore, flags: OpenFlags) -> KeyedDriver:
        store, key = self.place(kvstore)
        for _ in range(_RETRIES):
            raw = None if flags.delete_existing else store.get(key)
            if raw is not None:
                found = self.read_document(kvstore, raw)
                if not flags.opens:
                    raise self._exists(kvstore)
                self.check(found)
                return self.driver(kvstore, found)
            if not flags.create:
                raise status("NOT_FOUND", f"Metadata at {self.shown_key(kvstore)} does not exist")
            driver = self._new(kvstore)  # before anything is changed, as it may not be possible
            if flags.delete_existing:
                kvstore.delete_range(KvStore.KeyRange()).result()
            try:
                store.set(key, driver.metadata.encode(), if_generation=ABSENT)
                return driver
            except ConflictError:
                continue  # somebody was faster
        raise status("ABORTED", f"{self.shown_key(kvstore)} kept changing")

    def _new(self, kvstore: KvStore) -> KeyedDriver:
        try:
            made = self.new_metadata()
        except StatusError as error:
            error = annotate(error, 'Cannot create using specified "metadata" and schema')
            raise annotate(error, f"Error writing {self.shown_key(kvstore)}") from None
        self.check(made)
        return self.driver(kvstore, made)

    def _exists(self, kvstore: KvStore) -> StatusError:
        return status("ALREADY_EXISTS", f"Error writing {self.shown_key(kvstore)}")

    def read_document(self, kvstore: KvStore, raw: bytes) -> Any:
        """Read a document, and say where it is if that fails."""
        try:
            return self.parse(raw)
        except TegulaError as error:
            raise annotate(error, f"Error reading {self.shown_key(kvstore)}") from None

    def place(self, kvstore: KvStore) -> tuple[Store, str]:
        """Return the store and the document's key in it."""
        return kvstore._store, kvstore._path + self.key

    def shown_key(self, kvstore: KvStore) -> str:
        """Return what messages call the document."""
        return kvstore.describe_key(self.key)


class KeyedDriver(NodeDriver):
    """The driver of an array with one metadata document.

    Attributes
    ----------
    metadata
        The document as it was read when the array was opened, resolved or resized.
    """

    source: KeyedSpec
    metadata: Any

    @property
    def attributes(self) -> Attributes:
        """The user's attributes, as they are stored now."""
        kvstore = self._kvstore()
        beside = self.source.attributes_key
        store, key = self.source.place(kvstore)
        writable = "w" in self.mode
        if beside is None:
            return attributes_in(store, key, self.source.parse, writable=writable)
        return attributes_in(store, kvstore._path + beside, None, writable=writable)

    def with_metadata(self, metadata: Any) -> KeyedDriver:
        """Return the driver of the same array as another document describes it."""
        driver = self.source.driver(self._kvstore(), metadata)
        driver.mode = self.mode
        return driver

    def _kvstore(self) -> KvStore:
        kvstore = self.kvstore
        if kvstore is None:
            raise status("FAILED_PRECONDITION", "the array has no kvstore")
        return kvstore

    def with_transaction(self, transaction: Transaction | None) -> Driver:
        other = copy(self)
        other.kvstore = self._kvstore().with_transaction(transaction)
        return other.with_metadata(self.metadata)

    def read(self, indices: Indices) -> Any:
        self._take_part(writes=False)
        return super().read(indices)

    def write(self, indices: Indices, values: Any) -> None:
        self._take_part(writes=True)
        super().write(indices, values)

    def _take_part(self, *, writes: bool) -> None:
        """Make the document one of the keys that an atomic transaction is about."""
        store = self.array._stored.store
        if isinstance(store, StagedStore):
            store.depend(self._kvstore()._path + self.source.key, writes=writes)

    def _current(self) -> tuple[Any, Any]:
        """Return the document as it is now, and its generation.

        Raises
        ------
        ValueError
            If it is gone, or of another array.
        """
        kvstore = self._kvstore()
        store, key = self.source.place(kvstore)
        raw, generation = store.get(key, with_generation=True)
        if raw is None:
            raise status("FAILED_PRECONDITION", f"Metadata at {self.source.shown_key(kvstore)} does not exist")
        found = self.source.read_document(kvstore, raw)
        if not self.metadata.compatible(found):
            raise status(
                "FAILED_PRECONDITION",
                f"Updated {self.source.document_kind} metadata {found.encode().decode()} is incompatible with "
                f"existing metadata {self.metadata.encode().decode()}",
            )
        return found, generation

    def resolve(self, *, fix_resizable_bounds: bool = False, batch: Batch | None = None) -> Driver:
        if self.source.flags.assume_metadata:
            return self
        found, _ = self._current()
        return self if found.shape == self.metadata.shape else self.with_metadata(found)

    def resize(
        self, inclusive_min: tuple[int | None, ...], exclusive_max: tuple[int | None, ...], options: ResizeOptions
    ) -> Driver:
        if self.source.flags.assume_metadata:
            raise status("INVALID_ARGUMENT", "Resize not supported because assume_metadata was specified")
        kvstore = self._kvstore()
        store, key = self.source.place(kvstore)
        if any(bound is not None for bound in exclusive_max[: self.array.ndim]):
            self._check_other_fields(options)
        for _ in range(_RETRIES):
            found, generation = self._current()
            try:
                shape = new_shape(found.shape, exclusive_max[: len(found.shape)], options)
            except StatusError as error:
                if not (options.expand_only or options.metadata_only):
                    raise
                raise annotate(error, f"Error writing {self.source.shown_key(kvstore)}") from None
            if shape == found.shape:
                return self.with_metadata(found)
            resized = found.resized(shape)
            if any(size > old for size, old in zip(shape, found.shape)) and not options.metadata_only:
                self._make_room(found, resized)
            try:
                store.set(key, resized.encode(), if_generation=generation)
            except ConflictError:
                continue
            except TegulaError as error:
                raise annotate(as_status(error), f"Error writing {self.source.shown_key(kvstore)}") from error
            if any(size < old for size, old in zip(shape, found.shape)) and not options.metadata_only:
                self._cut_off(resized, found)
            return self.with_metadata(resized)
        raise status("ABORTED", f"{self.source.shown_key(kvstore)} kept changing")

    def _shaped(self, metadata: Any) -> StoredArray:
        stored = self.array._stored
        node: ArrayMetadata = replace(stored.metadata, shape=metadata.shape)
        return replace(stored, metadata=node)

    def _holds(self, metadata: Any) -> bool:
        try:
            return bool(self._current()[0].shape == metadata.shape)
        except TegulaError:
            return False

    def _make_room(self, found: Any, resized: Any) -> None:
        """Clear what a shrink that was interrupted has left where the array grows, while it has the shape found."""
        array, grown = self._shaped(found), self._shaped(resized)
        make_room(array, grown, self.array.path, lambda: self._holds(found))

    def _cut_off(self, resized: Any, found: Any) -> None:
        """Delete the chunks outside the new shape, and clear those across its edge, while it is the shape."""
        cut_off(self._shaped(resized), self.array.path, found.shape, lambda: self._holds(resized))


def stored_array(kvstore: KvStore, node: ArrayMetadata, *, write_empty: bool) -> tegula.Array:
    """Return the array of a description."""
    path = kvstore._path.rstrip("/")
    try:
        stored = engine.stored_array(kvstore._store, path, node, write_empty=write_empty)
    except TegulaError as error:
        raise as_status(error) from error
    return tegula.Array(stored, path, read_only=False)
