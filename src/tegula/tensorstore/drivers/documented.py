"""Drivers of formats that TensorStore lacks, ``zarr1`` and ``bcolz``: arrays are opened and created as tegula's nodes.

A driver names the members of its ``metadata``, creates the documents of a new array from them, and describes a stored
array by them.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any, ClassVar

import numpy as np

import tegula
from tegula.arrays.attributes import Attributes
from tegula.arrays.creation import adapted, array_metadata, new_array_of
from tegula.formats import Format, find_format
from tegula.formats.bcolz.chunks import automatic_chunklen
from tegula.hierarchy.nodes import open_node
from tegula.metadata.data_types import as_data_type, dtype_of_text
from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.constraints.fill_values import as_dtype
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.drivers.elements import checked_field
from tegula.tensorstore.drivers.node import NodeDriver, new_shape
from tegula.tensorstore.drivers.stored import SHOWN, UNDETERMINED, ArraySpec, Metadata, Ranks, Reader
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

    # --- defined by each format

    def new_chunks(self, shape: tuple[int, ...], itemsize: int) -> Any:
        """Choose the chunk shape of a new array from the constraints, as `tegula.create_array` takes it."""
        return self.schema.chunk_layout._chosen(len(shape), shape)

    @abstractmethod
    def change(self, document: dict[str, Any], codec: Mapping[str, Any]) -> None:
        """Put the members that the spec gives, and those of its codec, into the document of a new array."""

    @classmethod
    @abstractmethod
    def describe(cls, array: tegula.Array) -> dict[str, Any]:
        """Return the ``metadata`` of a stored array."""

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
                self.schema._set_dtype(_data_type(self.constraints.json["dtype"]))

    def get_schema(self) -> Schema:
        return self.schema.copy()._put(domain=self.get_domain())

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
    kvstore: KvStore

    def __init__(self, source: DocumentedSpec, kvstore: KvStore, array: tegula.Array) -> None:
        super().__init__(array, fill_missing=source.fill_missing)
        self.name = source.name
        self.source = source
        self.kvstore = kvstore
        described = source.describe(array)
        self.codec = source.codec_of(Metadata(json=described))
        chunks = [*array.metadata.grid.largest_chunk(), *self.elements.shape]
        order = [*range(len(chunks))]
        if described.get("order") == "F":
            order[: array.ndim] = order[: array.ndim][::-1]
        self.chunk_layout = ChunkLayout(rank=len(chunks))
        if chunks:
            self.chunk_layout.update(chunk_shape=chunks, inner_order=order, grid_origin=[0] * len(chunks))

    @property
    def attributes(self) -> Attributes:
        """The user's attributes."""
        return self.array.attrs

    def spec_members(self) -> dict[str, Any]:
        return {"metadata": Metadata(json=self.source.describe(self.array), shape=self.array.shape)}

    # --- other bounds

    def resize(self, options: ResizeOptions) -> Driver:
        array = self.shared()
        if all(bound is None for bound in options.exclusive_max[: self.array.ndim]):
            return self.latest()
        self._check_other_fields(options)
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


# --- parts of a new array


def _data_type(value: Any) -> dtype:
    try:
        return dtype(dtype_of_text(value) if isinstance(value, str) else np.dtype([tuple(field) for field in value]))
    except (TypeError, ValueError) as error:
        raise invalid(f"{dump(value)} is not a data type: {error}") from None


# --- the formats


class Zarr1Spec(DocumentedSpec):
    """The spec of a Zarr v1 array.

    Its ``metadata`` has the members of the document ``meta``: ``shape``, ``chunks``, ``dtype``, ``compression``,
    ``compression_opts``, ``fill_value`` and ``order``.
    """

    name: ClassVar[str] = "zarr1"
    format_name = "zarr1"
    codec_names = ("compression", "compression_opts")
    key = "meta"
    metadata_members: ClassVar[tuple[str, ...]] = (
        *("zarr_format", "shape", "chunks", "dtype", "compression", "compression_opts", "fill_value", "order"),
    )

    def change(self, document: dict[str, Any], codec: Mapping[str, Any]) -> None:
        given = {**codec, **self.constraints.json}
        if "compression" in given:
            document["compression_opts"] = None
        document.update(given)

    @classmethod
    def describe(cls, array: tegula.Array) -> dict[str, Any]:
        metadata: dict[str, Any] = json.loads(array.metadata.documents.get("meta", b"{}"))
        return metadata


class BcolzSpec(DocumentedSpec):
    """The spec of a bcolz array, or of the column of a table that ``field`` names.

    Its ``metadata`` has the members ``shape``, ``dtype``, ``chunklen``, ``cparams``, ``dflt`` and ``expectedlen``.
    """

    name: ClassVar[str] = "bcolz"
    format_name = "bcolz"
    key = "meta/storage"
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
    def describe(cls, array: tegula.Array) -> dict[str, Any]:
        documents = array.metadata.documents
        storage = json.loads(documents.get("meta/storage", b"{}"))
        return {"shape": [*array.shape], **{name: storage[name] for name in cls.metadata_members if name in storage}}

    @classmethod
    def codec_of(cls, metadata: Metadata) -> CodecSpec:
        options = {name: value for name, value in metadata.json.get("cparams", {}).items() if name != "quantize"}
        return CodecSpec._of("bcolz", compressor={"id": "blosc", **options})
