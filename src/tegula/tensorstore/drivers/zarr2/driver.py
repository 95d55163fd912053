"""The ``zarr`` driver: Zarr v2 arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tegula.formats.documents import load
from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.drivers.domains import ranks
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.keyed import KeyedSpec
from tegula.tensorstore.drivers.keyed_driver import KeyedDriver
from tegula.tensorstore.drivers.metadata import Metadata
from tegula.tensorstore.drivers.zarr2.creation import check_schema, new_document
from tegula.tensorstore.drivers.zarr2.layout import codec_of, effective_domain, effective_layout
from tegula.tensorstore.drivers.zarr2.metadata import (
    ANYTHING,
    check_constraints,
    constraints_from_json,
    node_of,
    parse_stored,
)
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json.binding import MISSING, dump, invalid, member, one_of, string
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import on_demand

__all__ = ["ZarrDriver", "ZarrSpec"]

_ATTRIBUTES = ".zattrs"


class ZarrSpec(KeyedSpec):
    """The spec of a Zarr v2 array.

    Attributes
    ----------
    metadata_key : str
        Key of the metadata document.
    """

    name = "zarr"
    format_name = "zarr2"
    anything = ANYTHING
    metadata_key: str = ".zarray"

    # --- JSON

    def read_members(self, members: dict[str, Any]) -> None:
        if "metadata" in members:
            with member("metadata"):
                self.constraints = constraints_from_json(members.pop("metadata"))
        self._read_key_encoding(members)
        if "metadata_key" in members:
            with member("metadata_key"):
                self.metadata_key = string(members.pop("metadata_key"))
        self.read_shown(members)
        shown = self.shown
        if shown is not None:
            rank = self.get_rank()
            self.schema._set_dtype(shown.dtype)
            if rank is not None:
                self.schema._set_rank(rank, "rank")
        if self.constraints is not ANYTHING or self.schema._domain is not None:
            self.get_domain()  # refuses members that contradict each other

    def _read_key_encoding(self, members: dict[str, Any]) -> None:
        value = members.pop("key_encoding", MISSING)
        if value is MISSING:
            return
        with member("key_encoding"):
            separator = one_of(value, (".", "/"))
            in_metadata = self.constraints.json.get("dimension_separator", separator)
            if in_metadata != separator:
                raise invalid(f"value ({dump(separator)}) does not match value in metadata ({dump(in_metadata)})")
        members = {**self.constraints.json, "dimension_separator": separator}
        self.constraints = replace(self.constraints, json=members)

    def write_members(self, *, include_defaults: bool) -> dict[str, Any]:
        json: dict[str, Any] = {}
        metadata = dict(sorted(self.constraints.json.items()))
        if metadata or include_defaults:
            json["metadata"] = metadata
        if self.metadata_key != ".zarray":
            json["metadata_key"] = self.metadata_key
        return {**json, **self.write_shown()}

    def url_suffix(self) -> str:
        if self.metadata_key != ".zarray":
            raise self.no_url_error("non-default metadata_key")
        return super().url_suffix()

    # --- properties known before opening

    @property
    def shown(self) -> Elements | None:
        return None if self.constraints.data_type is None else self.part_of(self.constraints)

    def get_domain(self) -> IndexDomain | None:
        if self.constraints is ANYTHING and self.schema._is_empty:
            return None
        return effective_domain(self.ranks(), self.constraints.shape, self.shown, self.schema.domain)

    def get_chunk_layout(self) -> ChunkLayout:
        return effective_layout(self.schema.chunk_layout, self.ranks(), self.constraints, self.shown)

    def codec_constraint(self) -> CodecSpec:
        return codec_of(self.constraints)

    # --- documents

    @property
    def key(self) -> str:
        return self.metadata_key

    def parse(self, raw: bytes) -> Metadata:
        return parse_stored(bytes(raw))

    def node_of(self, metadata: Metadata) -> ArrayMetadata:
        return node_of(metadata, self.constraints.json.get("dimension_separator", "."))

    def attributes_in(self, metadata: Metadata, documents: Mapping[str, bytes]) -> Mapping[str, Any]:
        return load(documents[_ATTRIBUTES], _ATTRIBUTES) if _ATTRIBUTES in documents else {}

    def new_document(self) -> dict[str, Any]:
        return new_document(self.constraints, self.schema, self.field, self.void, self.records)

    def check(self, metadata: Metadata) -> None:
        check_constraints(self.constraints, metadata)
        if not self.schema._is_empty:
            check_schema(metadata, self.schema, self.part_of(metadata))

    def driver(self, kvstore: KvStore, metadata: Metadata) -> ZarrDriver:
        return ZarrDriver(self, kvstore, metadata)


class ZarrDriver(KeyedDriver):
    """The driver of a Zarr v2 array."""

    name = "zarr"

    def __init__(self, source: ZarrSpec, kvstore: KvStore, metadata: Metadata) -> None:
        super().__init__(source, kvstore, metadata, write_empty=metadata.fill is None)
        self.dimension_units = (None,) * self.domain.rank

    @on_demand
    def chunk_layout(self) -> ChunkLayout:
        known = ranks(self.array.ndim, None, self.elements)
        layout = effective_layout(ChunkLayout(), known, self.metadata, self.elements)
        layout.update(finalize=True)
        return layout

    @on_demand
    def codec(self) -> CodecSpec | None:
        return codec_of(self.metadata)

    def spec_members(self) -> dict[str, Any]:
        separator = self.array.metadata.keys.separator
        metadata = self.metadata.with_members(self.array.shape, dimension_separator=separator)
        return {**super().spec_members(), "metadata": metadata}
