"""Drivers of formats that TensorStore lacks, ``zarr1`` and ``bcolz``: arrays are opened and created as tegula's nodes.

A driver names the members of its ``metadata``, creates the documents of a new array from them, and describes a stored
array by them.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from dataclasses import replace
from math import prod
from typing import Any, ClassVar

import numpy as np

import tegula
from tegula.arrays.attributes import Attributes
from tegula.arrays.creation import new_array_of
from tegula.errors import TegulaError
from tegula.formats import find_format
from tegula.formats.bcolz.chunks import automatic_chunklen
from tegula.formats.numpy_types import dtype_to_json, dtype_to_text
from tegula.hierarchy.group import open_node
from tegula.metadata.data_types import DataType, dtype_of_text
from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.chunk_shapes import choose_shape
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.constraints.fill_values import as_dtype
from tegula.tensorstore.constraints.fill_values import to_json as fill_to_json
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.context import SpecBuilder
from tegula.tensorstore.drivers.metadata import Metadata, Ranks, Reader, effective_domain, mismatch
from tegula.tensorstore.drivers.node import NodeDriver, new_shape
from tegula.tensorstore.drivers.stored import ArraySpec
from tegula.tensorstore.errors import as_status, status
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json.binding import MISSING, dump, invalid, known_only, member, obj, string
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import Driver, OpenMode, ResizeOptions

__all__ = ["BcolzSpec", "Zarr1Spec"]


class DocumentedSpec(ArraySpec):
    """The spec of an array of one of tegula's formats."""

    metadata_members: ClassVar[tuple[str, ...]]
    """The members that ``metadata`` may have."""

    # --- defined by each format

    @abstractmethod
    def new_documents(self) -> dict[str, bytes]:
        """Return the documents of a new array that meets the spec."""

    @classmethod
    @abstractmethod
    def describe(cls, array: tegula.Array) -> dict[str, Any]:
        """Return the ``metadata`` of a stored array."""

    @classmethod
    @abstractmethod
    def codec_of(cls, described: dict[str, Any]) -> CodecSpec:
        """Return the codec that ``metadata`` describes."""

    # --- JSON

    def read_members(self, members: dict[str, Any]) -> None:
        super().read_members(members)
        if "metadata" in members:
            with member("metadata"):
                metadata = obj(members.pop("metadata"))
                known_only({name: value for name, value in metadata.items() if name not in self.metadata_members})
                reader = Reader(metadata)
                shape = reader.take_sizes("shape")
                self.constraints = Metadata(json={**metadata, **reader.json}, shape=shape)
                if "dtype" in metadata:
                    with member("dtype"):
                        self.schema._set_dtype(_data_type(metadata["dtype"]))

    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        json = super().write_members(builder, include_defaults)
        if self.field:
            json["field"] = self.field
        if self.constraints.json or include_defaults:
            json["metadata"] = dict(self.constraints.json)
        return json

    def get_schema(self) -> Schema:
        schema = self.schema.copy()
        domain = self.get_domain()
        if domain is not None:
            schema._set_domain(domain, "domain")
        return schema

    def get_domain(self) -> IndexDomain | None:
        rank = self.schema.rank if self.constraints.rank is None else self.constraints.rank
        return effective_domain(self.constraints, Ranks(rank, rank), None, self.schema.domain)

    def url_suffix(self) -> str:
        """Return the part of a URL after the path of the array."""
        if self.field:
            raise invalid(f"{self.name} URL syntax not supported with a field specified")
        return f"{self.name}:"

    # --- opening

    def open_existing(self, kvstore: KvStore, flags: OpenMode) -> Driver | None:
        node = open_node(kvstore._store, kvstore._path.strip("/"), self.name, read_only=False)
        if isinstance(node, tegula.Table):
            if self.field not in node.names:
                names = dump([*node.names])
                if not self.field:
                    raise status("FAILED_PRECONDITION", f'Must specify a "field" that is one of: {names}')
                raise status("FAILED_PRECONDITION", f"Requested field {dump(self.field)} is not one of: {names}")
            node = node[self.field]
        elif self.field:
            raise status("FAILED_PRECONDITION", f"Requested field {dump(self.field)} but there is no table at the path")
        if not isinstance(node, tegula.Array):
            return None
        if not flags._opens:
            raise self.already_exists_error(kvstore)
        self._check_metadata(node)
        return self._driver(kvstore, node)

    def create(self, kvstore: KvStore, *, overwrite: bool) -> Driver:
        fmt = find_format(self.name)
        try:
            if self.field:
                raise invalid("a column can only be created together with its table")
            metadata = fmt.parse(self.new_documents())
        except TegulaError as error:
            raise self.write_error(kvstore, self.undetermined_error(error)) from None
        assert isinstance(metadata, ArrayMetadata)
        path = kvstore._path.strip("/")
        return self._driver(kvstore, new_array_of(kvstore._store, path, fmt, fmt.adapt(metadata), overwrite))

    def _driver(self, kvstore: KvStore, array: tegula.Array) -> Driver:
        driver = DocumentedDriver(self, kvstore, array)
        driver.check_schema(self.schema)
        return driver

    def _check_metadata(self, array: tegula.Array) -> None:
        """Raise unless a stored array has the metadata required by the spec."""
        stored = self.describe(array)
        for name, value in self.constraints.json.items():
            if not _same(name, value, stored.get(name, MISSING)):
                raise mismatch(name, value, stored.get(name, MISSING))


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
        self.codec = source.codec_of(described)
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
        try:
            array.refresh()
            shape = new_shape(array.shape, options)
            if shape != array.shape and options.metadata_only:
                array.update_metadata(lambda metadata: replace(metadata, shape=shape))
            elif shape != array.shape:
                array.resize(shape)
        except TegulaError as error:
            raise as_status(error) from error
        return self.at(array)

    def resolve(self, *, fix_resizable_bounds: bool = False, batch: Any = None) -> Driver:
        array = self.shared()
        try:
            array.refresh()
        except TegulaError as error:
            raise as_status(error) from error
        return self.at(array)


# --- parts of a new array


def _data_type(value: Any) -> dtype:
    try:
        return dtype(dtype_of_text(value) if isinstance(value, str) else np.dtype([tuple(field) for field in value]))
    except (TypeError, ValueError) as error:
        raise invalid(f"{dump(value)} is not a data type: {error}") from None


def _same(name: str, wanted: Any, stored: Any) -> bool:
    if name == "dtype" and stored is not MISSING:
        return bool(_data_type(wanted) == _data_type(stored))
    return dump(wanted) == dump(stored)


def shape_of(spec: DocumentedSpec) -> tuple[int, ...]:
    """Return the shape of a new array."""
    domain = spec.get_domain()
    if domain is None or any(size >= 2**62 for size in domain.shape):
        raise invalid("domain must be specified")
    if any(domain.inclusive_min):
        raise invalid("the domain must start at 0")
    return tuple(domain.shape)


def chunk_shape_of(spec: DocumentedSpec, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Choose the chunk shape of a new array from the constraints."""
    layout = spec.schema.chunk_layout
    grid = layout.read_chunk
    grid._merge(layout.write_chunk)
    return choose_shape(*grid._numbers(len(shape)), shape)


def fill_json(spec: DocumentedSpec, wanted: dtype) -> Any:
    """Return the schema's fill value as JSON; 0 if it has none."""
    fill = spec.schema.fill_value
    return 0 if fill is None else fill_to_json(as_dtype(fill, wanted), wanted)


# --- the formats

_BLOSC = {"cname": "lz4", "clevel": 5, "shuffle": 1}
_CPARAMS = {"clevel": 5, "shuffle": 1, "cname": "lz4", "quantize": 0}


class Zarr1Spec(DocumentedSpec):
    """The spec of a Zarr v1 array.

    Its ``metadata`` has the members of the document ``meta``: ``shape``, ``chunks``, ``dtype``, ``compression``,
    ``compression_opts``, ``fill_value`` and ``order``.
    """

    name: ClassVar[str] = "zarr1"
    key = "meta"
    metadata_members: ClassVar[tuple[str, ...]] = (
        *("zarr_format", "shape", "chunks", "dtype", "compression", "compression_opts", "fill_value", "order"),
    )

    def new_documents(self) -> dict[str, bytes]:
        wanted = self.schema.dtype
        if wanted is None:
            raise invalid("dtype must be specified")
        shape = shape_of(self)
        codec = {} if self.schema.codec is None else self.schema.codec._members
        order = self.schema.chunk_layout.inner_order
        document: dict[str, Any] = {
            "zarr_format": 1,
            "shape": [*shape],
            "chunks": [*chunk_shape_of(self, shape)],
            "dtype": dtype_to_json(DataType(wanted.numpy_dtype)),
            "compression": "blosc",
            "compression_opts": _BLOSC,
            "fill_value": fill_json(self, wanted),
            "order": "F" if order is not None and [*order] == [*range(len(shape))][::-1] and len(shape) > 1 else "C",
        }
        if {"compression"} & (codec.keys() | self.constraints.json.keys()):
            del document["compression_opts"]
            document["compression_opts"] = None
        return {"meta": dump({**document, **codec, **self.constraints.json}).encode()}

    @classmethod
    def describe(cls, array: tegula.Array) -> dict[str, Any]:
        document = array.metadata.documents.get("meta", b"{}")
        metadata: dict[str, Any] = json.loads(document)
        return metadata

    @classmethod
    def codec_of(cls, described: dict[str, Any]) -> CodecSpec:
        members = {name: described[name] for name in ("compression", "compression_opts") if name in described}
        return CodecSpec._of("zarr1", **members)


class BcolzSpec(DocumentedSpec):
    """The spec of a bcolz array, or of the column of a table that ``field`` names.

    Its ``metadata`` has the members ``shape``, ``dtype``, ``chunklen``, ``cparams``, ``dflt`` and ``expectedlen``.
    """

    name: ClassVar[str] = "bcolz"
    key = "meta/storage"
    metadata_members: ClassVar[tuple[str, ...]] = ("shape", "dtype", "chunklen", "cparams", "dflt", "expectedlen")

    def read_members(self, members: dict[str, Any]) -> None:
        if "field" in members:
            with member("field"):
                self.field = string(members.pop("field"))
        super().read_members(members)

    def new_documents(self) -> dict[str, bytes]:
        wanted = self.schema.dtype
        if wanted is None:
            raise invalid("dtype must be specified")
        # the shape and the length of the chunks
        shape = shape_of(self)
        if not shape:
            raise invalid("bcolz does not support 0-d arrays")
        layout = self.schema.chunk_layout
        row = prod(shape[1:]) * wanted.numpy_dtype.itemsize
        expected = self.constraints.json.get("expectedlen", shape[0])
        chunklen = automatic_chunklen(max(expected, 1), max(row, 1))
        if layout.read_chunk.to_json() or layout.write_chunk.to_json():
            chunks = chunk_shape_of(self, shape)
            if any(chunk < size for chunk, size in zip(chunks[1:], shape[1:])):
                raise invalid("bcolz arrays are chunked along the first dimension only")
            chunklen = chunks[0]
        # the documents; members of `metadata` take precedence over the rest of the spec
        codec = {} if self.schema.codec is None else self.schema.codec._members.get("compressor") or {"clevel": 0}
        storage: dict[str, Any] = {
            "dtype": dtype_to_text(wanted.numpy_dtype),
            "cparams": {**_CPARAMS, **{name: value for name, value in codec.items() if name != "id"}},
            "chunklen": chunklen,
            "expectedlen": expected,
            "dflt": fill_json(self, wanted),
        }
        explicit = {name: value for name, value in self.constraints.json.items() if name != "shape"}
        if "cparams" in explicit:
            explicit["cparams"] = {**_CPARAMS, **explicit["cparams"]}
        sizes = {"shape": [*shape], "nbytes": 0, "cbytes": 0}
        return {"meta/storage": dump({**storage, **explicit}).encode(), "meta/sizes": dump(sizes).encode()}

    @classmethod
    def describe(cls, array: tegula.Array) -> dict[str, Any]:
        documents = array.metadata.documents
        storage = json.loads(documents.get("meta/storage", b"{}"))
        return {"shape": [*array.shape], **{name: storage[name] for name in cls.metadata_members if name in storage}}

    @classmethod
    def codec_of(cls, described: dict[str, Any]) -> CodecSpec:
        options = {name: value for name, value in described.get("cparams", {}).items() if name != "quantize"}
        return CodecSpec._of("bcolz", compressor={"id": "blosc", **options})
