"""Specs of Zarr v2 and v3 arrays, whose metadata is one document under one key.

A driver reads documents (`KeyedSpec.parse`), checks them against a spec (`check`) and chooses those of new arrays
(`new_document`). Specs of both formats choose the part of the elements to show in the same way. As for other nodes,
`tegula.engine` creates arrays and changes documents.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy.typing as npt

from tegula.engine.nodes.creating import create_node
from tegula.engine.nodes.deleting import delete_node
from tegula.engine.nodes.replacing import replacing
from tegula.errors import TegulaError
from tegula.formats import Format, find_format
from tegula.metadata.nodes import ArrayMetadata, NodeMetadata
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.unit import Unit
from tegula.tensorstore.drivers.array_spec import ArraySpec, path_of
from tegula.tensorstore.drivers.domains import Ranks, ranks
from tegula.tensorstore.drivers.elements import Elements, fill_of, shown_part
from tegula.tensorstore.drivers.metadata import Metadata
from tegula.tensorstore.drivers.node import NodeDriver
from tegula.tensorstore.errors import StatusError, annotate
from tegula.tensorstore.json.binding import boolean, dump, invalid, member, string
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import Driver, OpenMode

__all__ = ["KeyedSpec"]

T = TypeVar("T")


class KeyedSpec(ArraySpec):
    """A spec of an array with one metadata document.

    Attributes
    ----------
    void : bool
        Whether to show the bytes of whole elements.
    records : bool
        Whether to show whole elements, with all their fields.
    """

    format_name: ClassVar[str]
    """The name of the format in tegula, which is also the URL scheme."""
    void: bool = False
    records: bool = False

    # --- JSON

    def read_shown(self, members: dict[str, Any]) -> None:
        """Remove from a spec the members that choose the part of the elements to show, and read them."""
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
        """Write the members that choose the part of the elements to show."""
        members = {"field": self.field, "open_as_void": self.void, "open_as_records": self.records}
        return {name: value for name, value in members.items() if value}

    def url_suffix(self) -> str:
        for name, value in (("selected_field", self.field), ("open_as_void", self.void)):
            if value:
                raise self.no_url_error(f"{name} specified")
        if self.records:
            raise self.no_url_error("open_as_records specified")
        return f"{self.format_name}:"

    def no_url_error(self, what: str) -> StatusError:
        """Return the error for a spec without a URL."""
        return invalid(f"{self.format_name} URL syntax not supported with {what}")

    # --- the schema, as far as it is known before opening

    def part_of(self, metadata: Metadata) -> Elements:
        """Return the shown part of the elements of an array."""
        key = self.field, self.void, self.records
        shown = metadata.parts.get(key)
        if shown is None:
            assert metadata.data_type is not None
            shown = metadata.parts[key] = shown_part(metadata.data_type, self.field, self.void, self.records)
        return shown

    @property
    @abstractmethod
    def shown(self) -> Elements | None:
        """The part of the elements to show; None if their type is unknown."""

    @abstractmethod
    def codec_constraint(self) -> CodecSpec:
        """Return the codec required by the ``metadata`` member."""

    def ranks(self) -> Ranks:
        """Return the numbers of dimensions, if they are known."""
        return ranks(self.constraints.rank, self.schema.rank, self.shown)

    def get_rank(self) -> int | None:
        return self.ranks().full

    def get_codec(self) -> CodecSpec:
        required, wanted = self.codec_constraint(), self.schema.codec
        return required if wanted is None else required._merged(wanted)

    def get_fill_value(self) -> npt.NDArray[Any] | None:
        if "fill_value" not in self.constraints.json:
            return self.schema.fill_value
        return fill_of(self.constraints.fill, self.part_of(self.constraints))

    def get_dimension_units(self) -> tuple[Unit | None, ...] | None:
        units, rank = self.schema.dimension_units, self.get_rank()
        return (None,) * rank if units is None and rank is not None else units

    def get_schema(self) -> Schema:
        schema = Schema()
        if (rank := self.get_rank()) is not None:
            schema._set_rank(rank, "rank")
        if self.schema.dtype is not None:
            schema._set_dtype(self.schema.dtype)
        if (domain := self.get_domain()) is not None:
            schema._set_domain(domain, "domain")
        schema._set_chunk_layout(self.get_chunk_layout())
        schema._set_codec(self.get_codec())
        if (fill := self.get_fill_value()) is not None:
            schema._set_fill_value(fill)
        units = self.get_dimension_units() or ()
        if any(unit is not None for unit in units):
            schema._set_dimension_units(units)
        return schema

    # --- documents

    @abstractmethod
    def parse(self, raw: bytes) -> Metadata:
        """Read a stored document; the error code is FAILED_PRECONDITION if it does not describe an array."""

    @abstractmethod
    def node_of(self, metadata: Metadata) -> ArrayMetadata:
        """Return the array that a complete document describes."""

    def attributes_in(self, metadata: Metadata, documents: Mapping[str, bytes]) -> Mapping[str, Any]:
        """Return the user's attributes, from the array's document or another document."""
        return metadata.attributes

    @abstractmethod
    def new_document(self) -> dict[str, Any]:
        """Return the document of a new array that meets the spec."""

    @abstractmethod
    def check(self, metadata: Metadata) -> None:
        """Raise unless a document meets the spec."""

    @abstractmethod
    def driver(self, kvstore: KvStore, metadata: Metadata) -> NodeDriver:
        """Return the driver of an array."""

    # --- opening

    def open_or_create(self, kvstore: KvStore, flags: OpenMode) -> Driver:
        if flags.assume_metadata or flags.assume_cached_metadata:
            return self.driver(kvstore, self._new_metadata()[1])
        return super().open_or_create(kvstore, flags)

    def open_existing(self, kvstore: KvStore, flags: OpenMode) -> Driver | None:
        raw = kvstore._store.get(kvstore._path + self.key)
        if raw is None:
            return None
        metadata = self.read_document(kvstore, raw)
        if not flags._opens:
            raise self.already_exists_error(kvstore)
        self.check(metadata)
        return self.driver(kvstore, metadata)

    def create(self, kvstore: KvStore, *, overwrite: bool) -> Driver:
        store, path = kvstore._store, path_of(kvstore)
        # raise errors before anything is changed
        try:
            raw, metadata = self._new_metadata()
        except StatusError as error:
            raise self.write_error(kvstore, error) from None
        driver = self.driver(kvstore, metadata)
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

    def _new_metadata(self) -> tuple[bytes, Metadata]:
        """Return the document of a new array, as bytes and parsed; raise unless it meets the spec."""
        try:
            raw = dump(self.new_document()).encode("utf-8", "surrogatepass")
            metadata = self.parse(raw)
            self.check(metadata)
        except StatusError as error:
            raise self.undetermined_error(error) from None
        return raw, metadata

    def format(self, kvstore: KvStore) -> Format:
        """Return the format with this array's key for the document, and with this interface's checks."""
        fmt = find_format(self.format_name)

        def parse(documents: Mapping[str, bytes]) -> ArrayMetadata | None:
            raw = documents.get(self.key)
            if raw is None:
                return None
            metadata = self.read_document(kvstore, raw)
            return replace(
                self.node_of(metadata), attributes=self.attributes_in(metadata, documents), documents=documents
            )

        def serialize(node: NodeMetadata) -> dict[str, bytes]:
            documents = _renamed(node.documents, self.key, fmt.shape_key)
            return _renamed(fmt.serialize(replace(node, documents=documents)), fmt.shape_key, self.key)

        keys, node_keys = (
            tuple(_renamed(dict.fromkeys(names), fmt.shape_key, self.key)) for names in (fmt.keys, fmt.node_keys)
        )
        return fmt.changed(
            keys=keys,
            node_keys=node_keys,
            shape_key=self.key,
            parse=parse,
            serialize=serialize,
            attributes_at=None,  # so that written documents are always parsed again
        )

    def read_document(self, kvstore: KvStore, raw: bytes) -> Metadata:
        """Read a document; errors name its key."""
        try:
            return self.parse(raw)
        except TegulaError as error:
            raise annotate(error, f"Error reading {self.shown_key(kvstore)}") from None


def _renamed(documents: Mapping[str, T], old: str, new: str) -> dict[str, T]:
    """Return documents with one key renamed."""
    return {new if key == old else key: value for key, value in documents.items()}
