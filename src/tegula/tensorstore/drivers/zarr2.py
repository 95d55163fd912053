"""The ``zarr`` driver: arrays of Zarr v2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.keyed import KeyedDriver, KeyedSpec
from tegula.tensorstore.drivers.zarr2_creation import check_schema, codec_of, new_metadata
from tegula.tensorstore.drivers.zarr2_layout import (
    effective_domain,
    effective_layout,
    fill_of,
    ranks,
)
from tegula.tensorstore.drivers.zarr2_metadata import ANYTHING, Constraints, Metadata, check_constraints, parse_stored
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json.binding import MISSING, dump, invalid, member, one_of, string
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import on_demand

__all__ = ["ZarrDriver", "ZarrSpec"]


class ZarrSpec(KeyedSpec):
    """The spec of an array of Zarr v2.

    Attributes
    ----------
    metadata_key : str
        Key of the document.
    """

    name = "zarr"
    format_name = "zarr2"
    attributes_key = ".zattrs"
    anything = ANYTHING
    constraints: Constraints
    metadata_key: str = ".zarray"

    # --- JSON

    def read_members(self, members: dict[str, Any]) -> None:
        if "metadata" in members:
            with member("metadata"):
                self.constraints = Constraints.from_json(members.pop("metadata"))
        self._read_key_encoding(members)
        if "metadata_key" in members:
            with member("metadata_key"):
                self.metadata_key = string(members.pop("metadata_key"))
        self.read_shown(members)
        shown = self.shown
        if shown is not None:
            rank = self.get_rank()
            self.schema.set_dtype(shown.dtype)
            if rank is not None:
                self.schema.set_rank(rank, "rank")
        self.get_domain()

    def _read_key_encoding(self, members: dict[str, Any]) -> None:
        value = members.pop("key_encoding", MISSING)
        if value is MISSING:
            return
        with member("key_encoding"):
            separator = one_of(value, (".", "/"))
            given = self.constraints.separator
            if given is not MISSING and given != separator:
                raise invalid(f"value ({dump(separator)}) does not match value in metadata ({dump(given)})")
        self.constraints = replace(self.constraints, separator=separator)

    def write_members(self, *, include_defaults: bool) -> dict[str, Any]:
        json: dict[str, Any] = {}
        metadata = dict(sorted(self.constraints.to_json().items()))
        if metadata or include_defaults:
            json["metadata"] = metadata
        if self.metadata_key != ".zarray":
            json["metadata_key"] = self.metadata_key
        return {**json, **self.write_shown()}

    def url_suffix(self) -> str:
        if self.metadata_key != ".zarray":
            raise self.not_in_url("non-default metadata_key")
        return super().url_suffix()

    # --- what is known of the array

    @property
    def shown(self) -> Elements | None:
        zarr = self.constraints.zarr
        return None if zarr is MISSING else self.part_of(zarr)

    def get_domain(self) -> IndexDomain | None:
        if self.constraints is ANYTHING and self.schema.is_empty:
            return None
        return effective_domain(self.ranks(), self.constraints.shape, self.shown, self.schema.domain)

    def get_chunk_layout(self) -> ChunkLayout:
        found = self.constraints
        return effective_layout(self.schema.chunk_layout, self.ranks(), found.chunks, found.order, self.shown)

    def codec_constraint(self) -> CodecSpec:
        return codec_of(self.constraints.compressor, self.constraints.filters)

    # --- documents

    @property
    def key(self) -> str:
        return self.metadata_key

    def parse(self, raw: bytes) -> Metadata:
        return parse_stored(bytes(raw))

    def node_of(self, metadata: Metadata) -> ArrayMetadata:
        return metadata.node("." if self.constraints.separator is MISSING else self.constraints.separator)

    def new_metadata(self) -> Metadata:
        return new_metadata(self.constraints, self.schema, self.field, self.void, self.records)

    def check(self, metadata: Metadata) -> None:
        check_constraints(self.constraints, metadata)
        if not self.schema.is_empty:
            check_schema(metadata, self.schema, self.part_of_stored(metadata))

    def driver(self, kvstore: KvStore, metadata: Metadata) -> ZarrDriver:
        return ZarrDriver(self, kvstore, metadata)


class ZarrDriver(KeyedDriver):
    """The driver of an array of Zarr v2."""

    name = "zarr"
    metadata: Metadata

    def __init__(self, source: ZarrSpec, kvstore: KvStore, metadata: Metadata) -> None:
        super().__init__(source, kvstore, metadata, write_empty=source.store_equal or metadata.fill is None)
        self.fill_value = fill_of(metadata.fill, self.elements)
        self.dimension_units = (None,) * self.domain.rank

    @on_demand
    def chunk_layout(self) -> ChunkLayout:
        metadata = self.metadata
        known = ranks(len(metadata.shape), None, self.elements)
        layout = effective_layout(ChunkLayout(), known, metadata.chunks, metadata.order, self.elements)
        layout.update(finalize=True)
        return layout

    @on_demand
    def codec(self) -> CodecSpec | None:
        return codec_of(self.metadata.compressor, self.metadata.filters)

    def spec_members(self) -> dict[str, Any]:
        separator = self.metadata.separator or self.array.metadata.keys.separator
        return {**super().spec_members(), "metadata": self.metadata.constraints(separator)}
