"""Specs and drivers of arrays of Zarr v2, Zarr v3 and N5, whose metadata is one document under one key.

`tegula.formats` reads stored documents. A spec compares their members with its own (`KeyedSpec.check`), and chooses the
document of a new array. As for other nodes, `tegula.engine` creates arrays and changes documents.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import numpy.typing as npt

import tegula
from tegula import engine
from tegula.arrays.attributes import Attributes
from tegula.engine import StoredArray
from tegula.engine.nodes.creating import create_node
from tegula.engine.nodes.deleting import delete_node
from tegula.engine.nodes.replacing import replacing
from tegula.errors import NotFoundError, TegulaError
from tegula.formats import Format, find_format
from tegula.formats.documents import load
from tegula.metadata.data_types import DataType, as_data_type
from tegula.metadata.nodes import ArrayMetadata, NodeMetadata
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.codec_spec import READERS, CodecSpec, Layout
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.unit import Units, merged_units
from tegula.tensorstore.drivers.elements import Elements, fill_of, shown_part, stored_fill
from tegula.tensorstore.drivers.node import NodeDriver, new_shape
from tegula.tensorstore.drivers.stored import UNDETERMINED, ArraySpec, Metadata, Ranks, path_of, ranks
from tegula.tensorstore.errors import StatusError, as_status, invalid, stating, status
from tegula.tensorstore.future import Batch
from tegula.tensorstore.index.domain import IndexDomain, check_labels
from tegula.tensorstore.json import dump, member, naming
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import Driver, OpenMode, ResizeOptions, on_demand

__all__ = ["KeyedDriver", "KeyedSpec"]

T = TypeVar("T")
_UNSTORED = frozenset(("char", "byte", "json", "string", "ustring"))


class KeyedSpec(ArraySpec):
    """A spec of an array with one metadata document."""

    driver_type: ClassVar[type[Any]]
    """The class of drivers."""
    shape_member: ClassVar[str] = "shape"
    """The name of the member with the shape of the array."""
    # --- defined by each format

    @classmethod
    @abstractmethod
    def read_stored(cls, document: dict[str, Any]) -> Metadata:
        """Read all members of a stored document."""

    @staticmethod
    @abstractmethod
    def type_to_json(data_type: DataType) -> Any:
        """Write a data type; raise if the format lacks it."""

    @staticmethod
    @abstractmethod
    def chunks_of(metadata: Metadata, rank: int) -> tuple[tuple[int, ...] | None, Layout]:
        """Return the shape of stored chunks, and the layout inside of them, as far as they are known."""

    @abstractmethod
    def new_members(
        self, data_type: DataType, domain: IndexDomain, rank: int, layout: ChunkLayout, fill: npt.NDArray[Any] | None
    ) -> dict[str, Any]:
        """Return the document of a new array whose domain has `rank` dimensions besides those of its elements."""

    # --- the schema, as far as it is known before opening

    def read_members(self, members: dict[str, Any]) -> None:
        super().read_members(members)
        self.chosen()
        self.complete_schema()

    def complete_schema(self) -> None:
        """Put into the schema what the metadata say; raise if they contradict it."""
        if (shown := self.shown) is not None:
            self.schema._set_dtype(shown.dtype)
        self.schema._put(rank=self.get_rank())
        if self.constraints is not self.anything or self.schema._domain is not None:
            self.get_domain()  # refuses members that contradict each other

    def part_of(self, data_type: DataType) -> Elements:
        """Return the shown part of the elements of an array."""
        return shown_part(data_type, self.field, self.void, self.records)

    @property
    def shown(self) -> Elements | None:
        """The part of the elements to show; None if their type is unknown."""
        return None if self.constraints.data_type is None else self.part_of(self.constraints.data_type)

    def ranks(self) -> Ranks:
        """Return the numbers of dimensions, if they are known."""
        return ranks(self.constraints.rank, self.schema.rank, self.shown)

    def get_rank(self) -> int | None:
        return self.ranks().full

    def get_domain(self) -> IndexDomain | None:
        if self.constraints is self.anything and self.schema._is_empty:  # any array meets the spec
            return None
        try:
            known = self.ranks()
        except StatusError as error:
            raise status(self.mismatch_code, error.sentence) from None
        return self.domain_of(known, self.shown)

    # --- what metadata and the schema determine; see `DriverSpec.get`

    def get_chunk_layout(self) -> ChunkLayout:
        return self.layout_of(self.constraints, self.ranks(), self.shown, self.schema.chunk_layout)

    def layout_of(self, metadata: Metadata, known: Ranks, shown: Elements | None, layout: ChunkLayout) -> ChunkLayout:
        """Return constraints on the chunks, merged with those that metadata implies."""
        layout, full = layout.copy(), known.full
        if full is None:
            return layout
        rank, inner = full if known.chunked is None else known.chunked, () if shown is None else shown.shape
        layout._set_rank(full)
        layout._set("grid_origin", [0] * full, True)
        write, decoded = self.chunks_of(metadata, rank)
        for usage, shape in (("write", write), ("read", decoded.read_shape)):
            if shape is not None:
                with naming(f"{usage}_chunk"):
                    layout._set_parts(
                        f"{usage}_chunk", "shape", (*shape, *inner, *[None] * (full - rank - len(inner))), True
                    )
        if decoded.inner_order is not None and known.chunked is not None:
            layout._set("inner_order", (*decoded.inner_order, *range(rank, full)), True)
        return layout

    def get_codec(self) -> CodecSpec:
        required, wanted = self.codec_of(self.constraints), self.schema.codec
        return required if wanted is None else required._merged(wanted)

    def get_fill_value(self) -> npt.NDArray[Any] | None:
        if "fill_value" not in self.constraints.json or self.shown is None:
            return self.schema.fill_value
        return fill_of(self.constraints.fill, self.shown)

    def get_dimension_units(self) -> Units | None:
        units, rank = merged_units(self.constraints.units, self.schema.dimension_units), self.get_rank()
        return (None,) * rank if units is None and rank is not None else units

    def get_schema(self) -> Schema:
        units = self.get_dimension_units() or ()
        return Schema()._put(
            rank=self.get_rank(),
            dtype=self.schema.dtype,
            domain=self.get_domain(),
            chunk_layout=self.get_chunk_layout(),
            codec=self.get_codec(),
            fill_value=self.get_fill_value(),
            dimension_units=units if any(unit is not None for unit in units) else None,
        )

    # --- documents

    @property
    def plain_format(self) -> Format:
        """The format, with this array's key for the document."""
        return _format_with_key(self.format_name, self.key)

    def format(self, kvstore: KvStore) -> Format:
        """Return the format with this array's key for the document, and with this interface's checks."""

        def parse(documents: Mapping[str, bytes]) -> ArrayMetadata | None:
            return self.node_of(kvstore, documents) if self.key in documents else None

        # without `attributes_at`, written documents are always parsed again
        return self.plain_format.changed(parse=parse, attributes_at=None)

    def node_of(self, kvstore: KvStore, documents: Mapping[str, bytes]) -> ArrayMetadata:
        """Return the array that its documents describe."""
        try:
            if len(documents) == 1:
                node = _parsed(self.format_name, self.key, documents[self.key])
            else:
                node = self.plain_format.parse(documents)
            if not isinstance(node, ArrayMetadata):
                raise invalid("it does not describe an array")
            return self.completed(node)
        except TegulaError as error:
            raise self.reading_error(kvstore, error) from error

    def reading_error(self, kvstore: KvStore, error: TegulaError, what: str = "") -> StatusError:
        """Return the error for a document that can't be read."""
        return status(
            "FAILED_PRECONDITION", f"Error reading {self.shown_key(kvstore)}: {what}{as_status(error).sentence}"
        )

    def completed(self, node: ArrayMetadata) -> ArrayMetadata:
        """Return an array with what its document does not say; raise if this interface can't show it."""
        return node

    def stored_metadata(self, node: ArrayMetadata) -> Metadata:
        """Return the members of the document of an array; recent results are cached."""
        return _stored_metadata(type(self), node.documents[self.key], self.key)

    # --- opening

    def open_or_create(self, kvstore: KvStore, flags: OpenMode) -> Driver:
        if flags.assume_metadata or flags.assume_cached_metadata:
            return self.new_array(kvstore)[1]
        return super().open_or_create(kvstore, flags)

    def open_existing(self, kvstore: KvStore, flags: OpenMode) -> Driver | None:
        raw = kvstore._store.get(kvstore._path + self.key)
        if raw is None:
            return None
        node = self.node_of(kvstore, {self.key: bytes(raw)})
        if not flags._opens:
            raise status("ALREADY_EXISTS", f"Error writing {self.shown_key(kvstore)}")
        try:
            driver: KeyedDriver = self.driver_type(self, kvstore, node)
        except StatusError:
            raise
        except TegulaError as error:
            raise self.reading_error(kvstore, error, f"{' or '.join(map(dump, READERS[self.name]))}: ") from error
        self.check(driver)
        return driver

    def create(self, kvstore: KvStore, *, overwrite: bool) -> Driver:
        store, path = kvstore._store, path_of(kvstore)
        # raise errors before anything is changed
        with self.writing(kvstore):
            raw, driver = self.new_array(kvstore)
        fmt, array = self.format(kvstore), driver.array.stored
        node = replace(driver.array.metadata, documents={self.key: raw})
        done = False
        if overwrite:  # all keys below the path, not only those of a node
            if kvstore.transaction is None:
                with replacing(store, path, fmt, True, "none", anywhere=True, everything=True) as destination:
                    if done := destination.is_staged:
                        create_node(destination.store, destination.path, fmt, node, False, array, anywhere=True)
                if not done:
                    delete_node(store, path)  # deletes the document first: an interrupted deletion leaves no array
            if not done:
                kvstore.delete_range(KvStore.KeyRange()).result()
        if not done:
            create_node(store, path, fmt, node, overwrite, array, anywhere=True)
        array.created()
        return driver

    def new_array(self, kvstore: KvStore) -> tuple[bytes, KeyedDriver]:
        """Return the document of a new array, and its driver; raise unless it meets the spec."""
        with stating(UNDETERMINED):
            raw = dump(self.new_document()).encode("utf-8", "surrogatepass")
            node = self.plain_format.parse({self.key: raw})
            assert isinstance(node, ArrayMetadata)
            driver: KeyedDriver = self.driver_type(self, kvstore, self.completed(node))
            self.check(driver)
        return raw, driver

    def new_document(self) -> dict[str, Any]:
        """Choose the metadata of a new array, and return its document."""
        constraints, schema = self.constraints, self.schema
        data_type = constraints.data_type
        if data_type is None:
            for name in self.chosen():
                if name != "open_as_records":
                    raise invalid(f'"dtype" must be specified in "metadata" if "{name}" is specified')
            self.check_dtype(wanted := schema._required("dtype"))
            data_type = as_data_type(wanted.numpy_dtype)
        shown = self.part_of(data_type)
        known = ranks(constraints.rank, schema.rank, shown)
        domain = self.domain_of(known, shown)
        if domain is None or known.chunked is None or any(end >= 2**62 for end in domain.exclusive_max):
            raise invalid("domain must be specified")
        layout = self.layout_of(constraints, known, shown, schema.chunk_layout)
        return self.new_members(data_type, domain, known.chunked, layout, self._new_fill(data_type, shown))

    def check_dtype(self, wanted: dtype) -> None:
        """Raise if the format has no such data type."""
        try:
            if wanted.name not in _UNSTORED:
                self.type_to_json(as_data_type(wanted.numpy_dtype))
                return
        except TegulaError:
            pass
        raise invalid(f"Data type not supported: {wanted.name}")

    def _new_fill(self, data_type: DataType, shown: Elements) -> npt.NDArray[Any] | None:
        wanted = self.schema.fill_value
        if "fill_value" in self.constraints.json or wanted is None:
            return self.constraints.fill
        if len(data_type.numpy.names or "1") != 1 and not shown.dtype.numpy_dtype.names:
            raise invalid("Cannot specify fill_value through schema for structured zarr data type")
        with member("fill_value"):
            return stored_fill(wanted, data_type, shown)

    # --- checks

    def check(self, driver: KeyedDriver) -> None:
        """Raise unless an array meets the spec."""
        if self.constraints is not self.anything:
            self.check_members(driver.metadata)
        if not self.schema._is_empty:
            driver.check_schema(self.schema)


class KeyedDriver(NodeDriver):
    """The driver of an array with one metadata document."""

    source: KeyedSpec

    def __init__(self, source: KeyedSpec, kvstore: KvStore, node: ArrayMetadata, *, write_empty: bool = False) -> None:
        shown = source.part_of(node.data_type)
        names = [*(name or "" for name in node.dimension_names or ()), *[""] * len(shown.shape)]
        labels = names if any(names) else None
        if labels is not None:
            check_labels(labels)
        store, path = kvstore._store, path_of(kvstore)
        document: str | None = kvstore._path + source.key
        if source.flags.assume_metadata or source.flags.assume_cached_metadata:  # the document need not be stored
            self.metadata = source.stored_metadata(node)
            node, document = replace(node, documents={}), None
        write_empty = write_empty or source.store_equal
        stored = engine.stored_array(store, path, node, write_empty=write_empty, document=document)
        super().__init__(source, kvstore, tegula.Array(stored, path, read_only=False), shown, labels)

    @on_demand
    def metadata(self) -> Metadata:
        """The members of the document."""
        return self.source.stored_metadata(self.array.metadata)

    @on_demand
    def chunk_layout(self) -> ChunkLayout:
        known = ranks(self.array.ndim, None, self.elements)
        layout = self.source.layout_of(self.metadata, known, self.elements, ChunkLayout())
        layout._finalize()
        return layout

    @on_demand
    def codec(self) -> CodecSpec | None:
        return self.source.codec_of(self.metadata)

    def spec_members(self, **members: Any) -> dict[str, Any]:
        shape = self.shown_coords(self.array.shape)
        json = {**self.metadata.json, self.source.shape_member: [*shape], **members}
        members = {"metadata": replace(self.metadata, json=json, shape=shape)}
        return members if self.elements.field is None else {**members, "field": self.elements.field}

    @property
    def attributes(self) -> Attributes:
        """The user's attributes, read from the store at each access."""
        kvstore = self.kvstore
        store, path, fmt = kvstore._store, path_of(kvstore), self.source.format(kvstore)

        def look() -> Mapping[str, Any]:
            metadata = fmt.parse(engine.fetch_documents(store, path, fmt.keys))
            return {} if metadata is None else metadata.attributes

        def change(how: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
            if "w" not in self.mode:
                raise status("INVALID_ARGUMENT", "Destination does not support writing.")

            def changed(metadata: Any) -> Any:
                return replace(metadata, attributes=how(dict(metadata.attributes)))

            engine.update_documents(store, path, self.array.metadata, changed, fmt=fmt)

        return Attributes(self.array, look, change)

    def depend(self, *, writes: bool) -> None:
        if (staged := self.kvstore._staged) is not None:
            staged.depend(self.kvstore._path + self.source.key, writes=writes)

    def _current(self) -> ArrayMetadata:
        """Return the array that the stored document describes now."""
        kvstore = self.kvstore
        raw = kvstore._store.get(kvstore._path + self.source.key)
        if raw is None:
            raise self._missing_document_error()
        return self._compatible(self.source.node_of(kvstore, {self.source.key: bytes(raw)}))

    def _missing_document_error(self) -> StatusError:
        return status("FAILED_PRECONDITION", f"Metadata at {self.source.shown_key(self.kvstore)} does not exist")

    def _compatible(self, node: ArrayMetadata) -> ArrayMetadata:
        """Return an array as it is stored now; raise unless it has the same chunks as when it was opened."""
        if node.has_chunks_of(self.array.metadata):
            return node
        raise status("FAILED_PRECONDITION", f"{self.source.shown_key(self.kvstore)} describes other chunks than before")

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
        names, is_kept = self.array.dtype.names or (), all(bound is None for bound in options.exclusive_max)
        if len(names) > 1 and self.elements.field is not None and not (is_kept or options.tied_bounds):
            raise status("FAILED_PRECONDITION", "the resize affects other fields: `resize_tied_bounds` is needed")
        kvstore, array = self.kvstore, self.shared()
        # other documents may change at the same time
        fmt = self.source.format(kvstore).changed(keys=(self.source.key,))

        def shape_of(node: ArrayMetadata) -> tuple[int, ...]:
            return self.new_shape(self._compatible(node).shape, options)

        def update(change: Callable[[ArrayMetadata], ArrayMetadata]) -> StoredArray:
            return array.update_metadata(change, fmt=fmt, shape_only=True)

        # the engine stores the shape, and deletes the elements outside it
        with self.source.writing(kvstore):
            try:
                if options.metadata_only:
                    resized = update(lambda node: replace(node, shape=shape_of(node)))
                else:
                    resized = engine.resize(array.path, shape_of, update, array.reopened, self._has_stored_shape)
            except NotFoundError:
                raise self._missing_document_error() from None
        return self.at(tegula.Array(resized, array.path, read_only=False))

    def new_shape(self, old: tuple[int, ...], options: ResizeOptions) -> tuple[int, ...]:
        """Return the new shape of the array for a resize."""
        return new_shape(old, options)

    def _has_stored_shape(self, metadata: ArrayMetadata) -> bool:
        """Return whether the stored document has the shape of `metadata`."""
        try:
            return self._current().shape == metadata.shape
        except TegulaError:
            return False


@lru_cache(maxsize=64)
def _stored_metadata(kind: type[KeyedSpec], raw: bytes, key: str) -> Metadata:
    return kind.read_stored(load(raw, key))


@lru_cache(maxsize=64)
def _format_with_key(name: str, key: str) -> Format:
    fmt = find_format(name)
    if key == fmt.shape_key:
        return fmt

    def parse(documents: Mapping[str, bytes]) -> NodeMetadata | None:
        node = fmt.parse(_renamed(documents, key, fmt.shape_key))
        return None if node is None else replace(node, documents=documents)

    def serialize(node: NodeMetadata) -> dict[str, bytes]:
        documents = fmt.serialize(replace(node, documents=_renamed(node.documents, key, fmt.shape_key)))
        return _renamed(documents, fmt.shape_key, key)

    keys, node_keys = (tuple(_renamed(dict.fromkeys(names), fmt.shape_key, key)) for names in (fmt.keys, fmt.node_keys))
    return fmt.changed(keys=keys, node_keys=node_keys, shape_key=key, parse=parse, serialize=serialize)


@lru_cache(maxsize=64)
def _parsed(name: str, key: str, raw: bytes) -> NodeMetadata | None:
    """Return what a document describes; arrays that are opened again share the result."""
    return _format_with_key(name, key).parse({key: raw})


def _renamed(documents: Mapping[str, T], old: str, new: str) -> dict[str, T]:
    return {new if key == old else key: value for key, value in documents.items()}
