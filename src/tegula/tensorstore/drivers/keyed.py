"""Arrays whose metadata is one document under one key, those of Zarr v2 and v3: opened, created and changed.

A format says how a document is read (`KeyedSpec.parse`), what a new one says (`new_metadata`), what the ``metadata``
member of a spec means for the schema, and whether a stored document fits a spec (`check`). Which part of the elements a
spec shows, the order of steps, and the messages for users are here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy.typing as npt

import tegula
from tegula import engine
from tegula.attributes import Attributes
from tegula.creation import create_node, delete_node
from tegula.engine import StoredArray
from tegula.errors import AlreadyExistsError, NotFoundError, TegulaError
from tegula.formats import Format, find_format
from tegula.metadata.nodes import ArrayMetadata, NodeMetadata
from tegula.stores import Store
from tegula.stores.staging import StagedStore
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.unit import Unit
from tegula.tensorstore.drivers.attributes import attributes_in
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.node import NodeDriver, new_shape
from tegula.tensorstore.drivers.stored import StoredSpec
from tegula.tensorstore.drivers.zarr2_layout import Ranks, fill_of, ranks, shown_part
from tegula.tensorstore.drivers.zarr2_types import ZarrType
from tegula.tensorstore.errors import StatusError, annotate, as_status, status
from tegula.tensorstore.index.domain import check_labels
from tegula.tensorstore.json.binding import boolean, invalid, member, string
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import Driver, Indices, Opening, OpenMode, ResizeOptions

if TYPE_CHECKING:
    from tegula.tensorstore.batch import Batch
    from tegula.tensorstore.kvstore.transaction import Transaction

__all__ = ["KeyedDriver", "KeyedSpec", "stored_array"]


class KeyedSpec(StoredSpec):
    """A spec of an array with one metadata document.

    Attributes
    ----------
    constraints
        The ``metadata`` member.
    field : str
        Name of the field to show; empty for the only one there is.
    void : bool
        Whether to show the bytes of whole elements.
    records : bool
        Whether to show whole elements, all their fields together.
    """

    format_name: ClassVar[str]
    """The format of the array, as tegula calls it, and the scheme of URLs."""
    attributes_key: ClassVar[str | None] = None
    """The document the user's attributes are in, if that is not the array's own."""
    anything: ClassVar[Any]
    """The constraints that every array meets."""

    constraints: Any
    field: str = ""
    void: bool = False
    records: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.constraints = self.anything

    # --- JSON

    def read_shown(self, members: dict[str, Any]) -> None:
        """Take the members out of a spec that say which part of the elements is shown."""
        if "field" in members:
            with member("field"):
                self.field = string(members.pop("field"))
        for name, attribute in (("open_as_void", "void"), ("open_as_records", "records")):
            if name in members:
                with member(name):
                    setattr(self, attribute, boolean(members.pop(name)))
        if self.void and self.field:
            raise invalid('"field" and "open_as_void" are mutually exclusive')
        if self.records and (self.field or self.void):
            other = "field" if self.field else "open_as_void"
            raise invalid(f'"{other}" and "open_as_records" are mutually exclusive')

    def write_shown(self) -> dict[str, Any]:
        """Write the members that say which part of the elements is shown."""
        found = {"field": self.field, "open_as_void": self.void, "open_as_records": self.records}
        return {name: value for name, value in found.items() if value}

    def url_suffix(self) -> str:
        for name, given in (("selected_field", self.field), ("open_as_void", self.void)):
            if given:
                raise self.not_in_url(f"{name} specified")
        if self.records:
            raise self.not_in_url("open_as_records specified")
        return f"{self.format_name}:"

    def not_in_url(self, what: str) -> StatusError:
        """Return the error for a spec that no URL can express."""
        return invalid(f"{self.format_name} URL syntax not supported with {what}")

    # --- what is known before anything is opened

    def part_of(self, zarr: ZarrType) -> Elements:
        """Return what is shown of elements of a type."""
        return shown_part(zarr, self.field, self.void, self.records)

    def part_of_stored(self, metadata: Any) -> Elements:
        """Return what is shown of the elements of an array."""
        key = self.field, self.void, self.records
        shown: Elements | None = metadata.parts.get(key)
        if shown is None:
            shown = metadata.parts[key] = self.part_of(metadata.zarr)
        return shown

    @property
    @abstractmethod
    def shown(self) -> Elements | None:
        """The part of the elements that is shown, if their type is known."""

    @abstractmethod
    def codec_constraint(self) -> CodecSpec:
        """Return the codec that the ``metadata`` member asks for."""

    def ranks(self) -> Ranks:
        """Return the numbers of dimensions."""
        return ranks(self.constraints.rank, self.schema.rank, self.shown)

    def get_rank(self) -> int | None:
        return self.ranks().full

    def get_codec(self) -> CodecSpec:
        found, given = self.codec_constraint(), self.schema.codec
        return found if given is None else found.merged(given)

    def get_fill_value(self) -> npt.NDArray[Any] | None:
        found, anything = self.constraints, self.anything
        if found.fill is anything.fill or found.zarr is anything.zarr:
            return self.schema.fill_value
        return fill_of(found.fill, self.part_of(found.zarr))

    def get_dimension_units(self) -> tuple[Unit | None, ...] | None:
        units, rank = self.schema.dimension_units, self.get_rank()
        return (None,) * rank if units is None and rank is not None else units

    def get_schema(self) -> Schema:
        found = Schema()
        if (rank := self.get_rank()) is not None:
            found.set_rank(rank, "rank")
        if self.schema.dtype is not None:
            found.set_dtype(self.schema.dtype)
        if (domain := self.get_domain()) is not None:
            found.set_domain(domain, "domain")
        found.set_chunk_layout(self.get_chunk_layout())
        found.set_codec(self.get_codec())
        if (fill := self.get_fill_value()) is not None:
            found.set_fill_value(fill)
        units = self.get_dimension_units() or ()
        if any(unit is not None for unit in units):
            found.set_dimension_units(units)
        return found

    # --- other specs

    def merge(self, *, minimal: bool = False, **options: Any) -> Self:
        other = super().merge(minimal=minimal, **options)
        if minimal:
            other.constraints = self.anything
        return other

    def described(self, members: dict[str, Any], data_type: dtype) -> Self:
        other = super().described(members, data_type)
        other.constraints = members.get("metadata", self.anything)
        other.field = members.get("field", self.field)
        return other

    # --- documents

    @property
    @abstractmethod
    def key(self) -> str:
        """The key of the document, relative to the path."""

    @abstractmethod
    def parse(self, raw: bytes) -> Any:
        """Read a stored document; raises FAILED_PRECONDITION where it is none."""

    @abstractmethod
    def node_of(self, metadata: Any) -> ArrayMetadata:
        """Return the array's description as the lower floors have it."""

    @abstractmethod
    def new_metadata(self) -> Any:
        """Return the metadata of a new array that is as the spec says."""

    @abstractmethod
    def check(self, metadata: Any) -> None:
        """Raise unless a document is as the spec says."""

    @abstractmethod
    def driver(self, kvstore: KvStore, metadata: Any) -> KeyedDriver:
        """Return the driver of an array."""

    # --- opening

    def open(self, request: Opening) -> Driver:
        flags = self.checked_flags(request)
        kvstore = self.opened_kvstore(request)
        if flags.assume_metadata or flags.assume_cached_metadata:
            driver = self.driver(kvstore, self.new_metadata())
        else:
            driver = self._found_or_created(kvstore, flags)
        driver.mode = request.mode
        return driver

    def _found_or_created(self, kvstore: KvStore, flags: OpenMode) -> KeyedDriver:
        driver = None if flags.delete_existing else self._found(kvstore, flags)
        if driver is not None:
            return driver
        if not flags.create:
            raise status("NOT_FOUND", f"Metadata at {self.shown_key(kvstore)} does not exist")
        try:
            return self._created(kvstore, overwrite=flags.delete_existing)
        except AlreadyExistsError as error:
            driver = self._found(kvstore, flags)  # another creator was faster
            if driver is not None:
                return driver
            text = error.message.replace("overwrite=True", "delete_existing=True")
            raise annotate(status("ALREADY_EXISTS", text), f"Error writing {self.shown_key(kvstore)}") from None

    def _found(self, kvstore: KvStore, flags: OpenMode) -> KeyedDriver | None:
        """Open the array that is stored, if there is one."""
        raw = kvstore._store.get(kvstore._path + self.key)
        if raw is None:
            return None
        found = self.read_document(kvstore, raw)
        if not flags._opens:
            raise status("ALREADY_EXISTS", f"Error writing {self.shown_key(kvstore)}")
        self.check(found)
        return self.driver(kvstore, found)

    def _created(self, kvstore: KvStore, *, overwrite: bool) -> KeyedDriver:
        """Create the array by the rules that hold for every node."""
        store, path = kvstore._store, path_of(kvstore)
        driver = self._new(kvstore)  # before anything is changed, as it may not be possible
        if overwrite:
            if kvstore.transaction is None:
                delete_node(store, path)  # the document first: if it is interrupted, no array is there with chunks lost
            kvstore.delete_range(KvStore.KeyRange()).result()
        node = self._node(driver.metadata, driver.metadata.encode())
        create_node(store, path, self.format(kvstore), node, overwrite, driver.array._stored, anywhere=True)
        return driver

    def _new(self, kvstore: KvStore) -> KeyedDriver:
        try:
            made = self.new_metadata()
        except StatusError as error:
            error = annotate(error, 'Cannot create using specified "metadata" and schema')
            raise annotate(error, f"Error writing {self.shown_key(kvstore)}") from None
        self.check(made)
        return self.driver(kvstore, made)

    def format(self, kvstore: KvStore) -> Format:
        """Return the format with the document under its key here, and read and written as this interface does it."""
        item = find_format(self.format_name)
        keys, node_keys = (
            tuple(self.key if key == item.shape_key else key for key in names) for names in (item.keys, item.node_keys)
        )

        def parse(documents: Mapping[str, bytes]) -> ArrayMetadata | None:
            raw = documents.get(self.key)
            return None if raw is None else self._node(self.read_document(kvstore, raw), raw)

        return replace(item, keys=keys, node_keys=node_keys, shape_key=self.key, parse=parse, serialize=self._serialize)

    def _node(self, metadata: Any, raw: bytes) -> ArrayMetadata:
        return replace(self.node_of(metadata), documents={self.key: raw})

    def _serialize(self, node: NodeMetadata) -> dict[str, bytes]:
        assert isinstance(node, ArrayMetadata)
        raw = node.documents[self.key]
        metadata = self.parse(raw)
        return {self.key: raw if metadata.shape == node.shape else metadata.resized(node.shape).encode()}

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

    def __init__(
        self,
        source: KeyedSpec,
        kvstore: KvStore,
        metadata: Any,
        *,
        labels: Iterable[str | None] = (),
        write_empty: bool = False,
    ) -> None:
        shown = source.part_of_stored(metadata)
        names = [*(name or "" for name in labels), *[""] * len(shown.shape)] if any(labels) else None
        if names is not None:
            check_labels(names)
        array = stored_array(kvstore, source, source.node_of(metadata), write_empty=write_empty or source.store_equal)
        super().__init__(array, shown, labels=names, fill_missing=source.fill_missing)
        self.source, self.kvstore, self.metadata = source, kvstore, metadata

    def spec_members(self) -> dict[str, Any]:
        field = self.elements.field
        return {"metadata": self.metadata} if field is None else {"metadata": self.metadata, "field": field}

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
        if self.newest is not None:
            driver.newest = self.newest
        return driver

    def at(self, array: tegula.Array) -> Driver:
        return self.with_metadata(self.metadata.resized(array.shape))

    def _kvstore(self) -> KvStore:
        kvstore = self.kvstore
        if kvstore is None:
            raise status("FAILED_PRECONDITION", "the array has no kvstore")
        return kvstore

    def with_transaction(self, transaction: Transaction | None) -> Driver:
        other = copy(self)
        other.kvstore = self._kvstore().with_transaction(transaction)
        vars(other).pop("newest", None)
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

    def _current(self) -> Any:
        """Return the document as it is now.

        Raises
        ------
        ValueError
            If it is gone, or of another array.
        """
        kvstore = self._kvstore()
        store, key = self.source.place(kvstore)
        raw = store.get(key)
        if raw is None:
            raise self._gone()
        found = self.source.read_document(kvstore, raw)
        self._check_compatible(found)
        return found

    def _gone(self) -> StatusError:
        return status("FAILED_PRECONDITION", f"Metadata at {self.source.shown_key(self._kvstore())} does not exist")

    def _check_compatible(self, found: Any) -> None:
        if not self.metadata.compatible(found):
            raise status(
                "FAILED_PRECONDITION",
                f"Updated zarr metadata {found.encode().decode()} is incompatible with "
                f"existing metadata {self.metadata.encode().decode()}",
            )

    def resolve(self, *, fix_resizable_bounds: bool = False, batch: Batch | None = None) -> Driver:
        if self.source.flags.assume_metadata:
            return self
        array = self.shared()
        with array._noting():
            found = self._current()
            array._stored = array._restored(self.source.node_of(found))
        return self if found.shape == self.metadata.shape else self.with_metadata(found)

    def resize(self, options: ResizeOptions) -> Driver:
        if self.source.flags.assume_metadata:
            raise status("INVALID_ARGUMENT", "Resize not supported because assume_metadata was specified")
        if any(bound is not None for bound in options.exclusive_max[: self.array.ndim]):
            self._check_other_fields(options)
        kvstore, array = self._kvstore(), self.shared()
        # no other document has to stay as it is
        item = replace(self.source.format(kvstore), keys=(self.source.key,))

        def shape_of(node: ArrayMetadata) -> tuple[int, ...]:
            self._check_compatible(self.source.parse(node.documents[self.source.key]))
            try:
                return new_shape(node.shape, options)
            except StatusError as error:
                if not (options.expand_only or options.metadata_only):
                    raise
                raise annotate(error, f"Error writing {self.source.shown_key(kvstore)}") from None

        def update(change: Callable[[ArrayMetadata], ArrayMetadata]) -> StoredArray:
            return array._update(change, item=item)

        try:
            if options.metadata_only:
                resized = update(lambda node: replace(node, shape=shape_of(node)))
            else:
                resized = engine.resize(array.path, shape_of, update, array._restored, self._holds)
        except NotFoundError:
            raise self._gone() from None
        except StatusError:
            raise
        except TegulaError as error:
            raise annotate(as_status(error), f"Error writing {self.source.shown_key(kvstore)}") from error
        return self.with_metadata(self.source.parse(resized.metadata.documents[self.source.key]))

    def _holds(self, metadata: ArrayMetadata) -> bool:
        try:
            return bool(self._current().shape == metadata.shape)
        except TegulaError:
            return False


def path_of(kvstore: KvStore) -> str:
    """Return the path of the node whose keys begin with the path of a kvstore."""
    return kvstore._path.removesuffix("/")


def stored_array(kvstore: KvStore, source: KeyedSpec, node: ArrayMetadata, *, write_empty: bool) -> tegula.Array:
    """Return the array of a description, which exists by its document unless the spec stands for that."""
    store, path = kvstore._store, kvstore._path.removesuffix("/")
    assumed = source.flags.assume_metadata or source.flags.assume_cached_metadata
    document = None if assumed else kvstore._path + source.key
    try:
        stored = engine.stored_array(store, path, node, write_empty=write_empty, document=document)
    except TegulaError as error:
        raise as_status(error) from error
    return tegula.Array(stored, path, read_only=False)
