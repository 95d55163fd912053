"""Drivers of formats that TensorStore lacks, ``zarr1`` and ``bcolz``: arrays are opened and created as tegula's nodes.

A driver names the members of its ``metadata``, creates the documents of a new array from them, and describes a stored
array by them.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any, ClassVar

import tegula
from tegula.arrays.attributes import Attributes
from tegula.arrays.creation import adapted, array_metadata, new_array_of
from tegula.formats import Format, find_format
from tegula.formats.bcolz.chunks import automatic_chunklen
from tegula.formats.numpy_types import dtype_from_json, dtype_from_text
from tegula.hierarchy.nodes import open_node
from tegula.metadata.data_types import as_data_type
from tegula.metadata.nodes import ArrayMetadata
from tegula.runtime.frozen import attribute
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.constraints.fill_values import as_dtype
from tegula.tensorstore.drivers.elements import checked_field
from tegula.tensorstore.drivers.node import NodeDriver, new_shape
from tegula.tensorstore.drivers.stored import SHOWN, UNDETERMINED, ArraySpec, Metadata, Ranks, Reader, inner_order
from tegula.tensorstore.errors import invalid, stating, status
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json import dump, known_only, member, obj, take
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import Driver, OpenMode, ResizeOptions, SpecMember

__all__ = ["BcolzSpec", "Zarr1Spec"]


class DocumentedSpec(ArraySpec):
    """The spec of an array of one of tegula's formats."""

    compared_otherwise = frozenset(("dtype",))  # by the schema
    metadata_members: ClassVar[tuple[str, ...]]
    """The members that ``metadata`` may have."""
    read_dtype: Callable[[Any, str], Any] = staticmethod(dtype_from_json)
    """Reads the data type in a document with a key."""

    # --- defined by each format

    def new_chunks(self, shape: tuple[int, ...], itemsize: int) -> Any:
        """Choose the chunk shape of a new array from the constraints, as `tegula.create_array` takes it."""
        return self.schema.chunk_layout._chosen(len(shape), shape)

    @abstractmethod
    def change(self, document: dict[str, Any], codec: Mapping[str, Any]) -> None:
        """Put the members that the spec gives, and those of its codec, into the document of a new array."""

    @classmethod
    def describe(cls, array: tegula.Array) -> dict[str, Any]:
        """Return the ``metadata`` of a stored array."""
        stored = json.loads(array.metadata.documents[cls.key])
        return {"shape": [*array.shape], **{name: stored[name] for name in cls.metadata_members if name in stored}}

    # --- the schema, as far as it is known before opening

    @classmethod
    def read_constraints(cls, members: dict[str, Any]) -> Metadata:
        known_only({name: value for name, value in members.items() if name not in cls.metadata_members})
        reader = Reader(members)
        reader.take_sizes("shape", "shape")
        return reader.metadata(members)

    def read_members(self, members: dict[str, Any]) -> None:
        super().read_members(members)
        if "dtype" in self.constraints.json:
            with member("metadata"), member("dtype"):
                stored = self.read_dtype(self.constraints.json["dtype"], self.key)
                self.schema._set_dtype(dtype(as_data_type(stored).numpy))

    def get_domain(self) -> IndexDomain | None:
        rank = self.schema.rank if self.constraints.rank is None else self.constraints.rank
        return self.domain_of(Ranks(rank, rank), None)

    # --- opening

    def open_existing(self, kvstore: KvStore, flags: OpenMode) -> Driver | None:
        node = open_node(kvstore._store, kvstore._path.strip("/"), self.name, read_only=False)
        if isinstance(node, tegula.Table):
            node = node[checked_field(self.field, node.names)]
        elif self.field:
            raise status("FAILED_PRECONDITION", f"Requested field {dump(self.field)} but there is no table at the path")
        if not isinstance(node, tegula.Array):
            return None
        if not flags._opens:
            raise status("ALREADY_EXISTS", f"Error writing {self.shown_key(kvstore)}")
        self.check_members(Metadata(json=self.describe(node)))
        return self._driver(kvstore, node)

    def create(self, kvstore: KvStore, *, overwrite: bool) -> Driver:
        fmt = find_format(self.name)
        with self.writing(kvstore), stating(UNDETERMINED):
            metadata = fmt.adapt(self._new_metadata(fmt))
        return self._driver(kvstore, new_array_of(kvstore._store, kvstore._path.strip("/"), fmt, metadata, overwrite))

    def _new_metadata(self, fmt: Format) -> ArrayMetadata:
        """Describe a new array: as `tegula.create_array` does it, with what the spec gives."""
        if self.field:
            raise invalid("a column can only be created together with its table")
        wanted, domain, fill = self.schema._required("dtype"), self.get_domain(), self.schema.fill_value
        if domain is None or any(size >= 2**62 for size in domain.shape):
            raise invalid("domain must be specified")
        if any(domain.inclusive_min):
            raise invalid("the domain must start at 0")
        shape, order = domain.shape, self.schema.chunk_layout.inner_order
        is_reversed = order is not None and [*order] == [*range(len(shape))][::-1] and len(shape) > 1
        draft = array_metadata(
            fmt,
            shape,
            as_data_type(wanted.numpy_dtype),
            self.new_chunks(shape, wanted.numpy_dtype.itemsize),
            order="F" if is_reversed else "C",
            fill_value=0 if fill is None else as_dtype(fill, wanted),
            codecs="auto",
        )
        documents = fmt.serialize(adapted(fmt, draft))
        document = json.loads(documents[self.key])
        self.change(document, {} if self.schema.codec is None else self.schema.codec._members)
        node = fmt.parse({**documents, self.key: dump(document).encode()})
        assert isinstance(node, ArrayMetadata)
        return node

    def _driver(self, kvstore: KvStore, array: tegula.Array) -> Driver:
        driver = DocumentedDriver(self, kvstore, array)
        driver.check_schema(self.schema)
        return driver


class DocumentedDriver(NodeDriver):
    """The driver of an array of one of tegula's formats."""

    source: DocumentedSpec

    def __init__(self, source: DocumentedSpec, kvstore: KvStore, array: tegula.Array) -> None:
        super().__init__(source, kvstore, array)
        described = source.describe(array)
        self.codec = source.codec_of(Metadata(json=described))
        chunks = [*array.metadata.grid.largest_chunk(), *self.elements.shape]
        order = inner_order(described.get("order", "C"), array.ndim, len(chunks))
        self.chunk_layout = ChunkLayout(
            rank=len(chunks), chunk_shape=chunks, inner_order=order, grid_origin=[0] * len(chunks)
        )

    attributes: Attributes = attribute("array.attrs", "The user's attributes.")

    def spec_members(self) -> dict[str, Any]:
        return {"metadata": Metadata(json=self.source.describe(self.array), shape=self.array.shape)}

    # --- other bounds

    def resize(self, options: ResizeOptions) -> Driver:
        array = self.shared()
        with stating():
            array.refresh()
            shape = new_shape(array.shape, options)
            if shape != array.shape and options.metadata_only:
                array.update_metadata(lambda metadata: replace(metadata, shape=shape))
            elif shape != array.shape:
                array.resize(shape)
        return self.at(array)

    def resolve(self, *, fix_resizable_bounds: bool = False, batch: Any = None) -> Driver:
        array = self.shared()
        with stating():
            array.refresh()
        return self.at(array)


# --- the formats


class Zarr1Spec(DocumentedSpec):
    """The spec of a Zarr v1 array."""

    name: ClassVar[str] = "zarr1"
    key = "meta"
    metadata_members: ClassVar[tuple[str, ...]] = (
        *("zarr_format", "shape", "chunks", "dtype", "compression", "compression_opts", "fill_value", "order"),
    )

    def change(self, document: dict[str, Any], codec: Mapping[str, Any]) -> None:
        given = {**codec, **self.constraints.json}
        if "compression" in given:
            document["compression_opts"] = None
        document.update(given)


class BcolzSpec(DocumentedSpec):
    """The spec of a bcolz array, or of the column of a table that ``field`` names."""

    name: ClassVar[str] = "bcolz"
    key = "meta/storage"
    read_dtype = staticmethod(dtype_from_text)
    members: ClassVar[Mapping[str, SpecMember]] = {**ArraySpec.members, "field": SHOWN["field"]}
    metadata_members: ClassVar[tuple[str, ...]] = ("shape", "dtype", "chunklen", "cparams", "dflt", "expectedlen")

    def new_chunks(self, shape: tuple[int, ...], itemsize: int) -> Any:
        if not shape:
            raise invalid("bcolz does not support 0-d arrays")
        layout = self.schema.chunk_layout
        if layout.read_chunk.to_json() or layout.write_chunk.to_json():
            chunks = super().new_chunks(shape, itemsize)
            if any(chunk < size for chunk, size in zip(chunks[1:], shape[1:])):
                raise invalid("bcolz arrays are chunked along the first dimension only")
            return chunks
        expected = self.constraints.json.get("expectedlen", shape[0])
        return (automatic_chunklen(max(expected, 1), max(prod(shape[1:]) * itemsize, 1)), *shape[1:])

    def change(self, document: dict[str, Any], codec: Mapping[str, Any]) -> None:
        if codec:
            parameters = codec.get("compressor") or {"clevel": 0}
            document["cparams"].update({name: value for name, value in parameters.items() if name != "id"})
        given = {name: value for name, value in self.constraints.json.items() if name != "shape"}
        document["cparams"].update(take(given, "cparams", obj, {}))
        document.update(given)

    @classmethod
    def codec_of(cls, metadata: Metadata) -> CodecSpec:
        options = {name: value for name, value in metadata.json.get("cparams", {}).items() if name != "quantize"}
        return CodecSpec._of("bcolz", compressor={"id": "blosc", **options})
