"""The ``zarr`` driver: arrays of Zarr v2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.unit import Unit
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.keyed import KeyedDriver, KeyedSpec, stored_array
from tegula.tensorstore.drivers.zarr2_creation import check_schema, codec_of, new_metadata
from tegula.tensorstore.drivers.zarr2_layout import (
    Ranks,
    effective_domain,
    effective_layout,
    fill_of,
    ranks,
    shown_part,
)
from tegula.tensorstore.drivers.zarr2_metadata import Constraints, Metadata, check_constraints, parse_stored
from tegula.tensorstore.drivers.zarr2_types import ZarrType
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json.binding import MISSING, boolean, dump, invalid, member, one_of, string
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import on_demand

__all__ = ["ZarrDriver", "ZarrSpec"]


class ZarrSpec(KeyedSpec):
    """The spec of an array of Zarr v2.

    Attributes
    ----------
    constraints : Constraints
        The ``metadata`` member.
    field : str
        Name of the field to show; empty for the only one there is.
    void : bool
        Whether to show the bytes of whole elements.
    records : bool
        Whether to show whole elements, all their fields together.
    metadata_key : str
        Key of the document.
    """

    name = "zarr"
    format_name = "zarr2"
    attributes_key = ".zattrs"
    constraints: Constraints = Constraints()
    field: str = ""
    void: bool = False
    records: bool = False
    metadata_key: str = ".zarray"

    # --- JSON

    def read_members(self, members: dict[str, Any]) -> None:
        value = members.pop("metadata", {})
        with member("metadata"):
            self.constraints = Constraints.from_json(value)
        self._read_key_encoding(members)
        for name in ("field", "metadata_key"):
            if name in members:
                with member(name):
                    setattr(self, name, string(members.pop(name)))
        for name, attribute in (("open_as_void", "void"), ("open_as_records", "records")):
            if name in members:
                with member(name):
                    setattr(self, attribute, boolean(members.pop(name)))
        if self.void and self.field:
            raise invalid('"field" and "open_as_void" are mutually exclusive')
        if self.records and (self.field or self.void):
            other = "field" if self.field else "open_as_void"
            raise invalid(f'"{other}" and "open_as_records" are mutually exclusive')
        shown = self.shown
        rank = self.get_rank()
        if shown is not None:
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
        if self.field:
            json["field"] = self.field
        if self.metadata_key != ".zarray":
            json["metadata_key"] = self.metadata_key
        if self.void:
            json["open_as_void"] = True
        if self.records:
            json["open_as_records"] = True
        return json

    def url_suffix(self) -> str:
        options = {
            "non-default metadata_key": self.metadata_key != ".zarray",
            "selected_field": self.field,
            "open_as_void": self.void,
            "open_as_records": self.records,
        }
        for name, given in options.items():
            if given:
                what = name if name.startswith("non-") else f"{name} specified"
                raise invalid(f"zarr2 URL syntax not supported with {what}")
        return "zarr2:"

    # --- what is known of the array

    @property
    def shown(self) -> Elements | None:
        """What is shown of the stored elements, if their type is known."""
        zarr = self.constraints.zarr
        return None if zarr is MISSING else self.part_of(zarr)

    def part_of(self, zarr: ZarrType) -> Elements:
        """Return what is shown of elements of a type."""
        return shown_part(zarr, self.field, self.void, self.records)

    def get_domain(self) -> IndexDomain | None:
        return effective_domain(self._ranks(), self.constraints.shape, self.shown, self.schema.domain)

    def _ranks(self) -> Ranks:
        return ranks(self.constraints.rank, self.schema.rank, self.shown)

    def get_rank(self) -> int | None:
        return self._ranks().full

    def get_chunk_layout(self) -> ChunkLayout:
        found = self.constraints
        return effective_layout(self.schema.chunk_layout, self._ranks(), found.chunks, found.order, self.shown)

    def get_codec(self) -> CodecSpec:
        found = codec_of(self.constraints.compressor, self.constraints.filters)
        given = self.schema.codec
        return found if given is None else found.merged(given)

    def get_fill_value(self) -> npt.NDArray[Any] | None:
        shown = self.shown
        if self.constraints.fill is MISSING or shown is None:
            return self.schema.fill_value
        return fill_of(self.constraints.fill, shown)

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
        if (units := self.get_dimension_units()) is not None:
            found.set_dimension_units(units)
        return found

    def merge(self, *, minimal: bool = False, **constraints: Any) -> ZarrSpec:
        other = super().merge(minimal=minimal, **constraints)
        if minimal:
            other.constraints = Constraints()
        return other

    def described(self, members: dict[str, Any], data_type: dtype) -> ZarrSpec:
        other = super().described(members, data_type)
        other.constraints = Constraints.from_json(members["metadata"]) if "metadata" in members else Constraints()
        other.field = members.get("field", self.field)
        return other

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
        check_schema(metadata, self.schema, self.part_of(metadata.zarr))

    def driver(self, kvstore: KvStore, metadata: Metadata) -> ZarrDriver:
        shown = self.part_of(metadata.zarr)
        array = stored_array(
            kvstore, self, self.node_of(metadata), write_empty=self.store_equal or metadata.fill is None
        )
        driver = ZarrDriver(array, shown, fill_missing=self.fill_missing)
        driver.note(self, kvstore, metadata, shown)
        return driver


class ZarrDriver(KeyedDriver):
    """The driver of an array of Zarr v2."""

    name = "zarr"
    metadata: Metadata

    def note(self, source: ZarrSpec, kvstore: KvStore, metadata: Metadata, shown: Elements) -> None:
        """Keep what the driver was made of."""
        self.source, self.kvstore, self.metadata = source, kvstore, metadata
        fill = fill_of(metadata.fill, shown)
        self.fill_value = None if fill is None else np.asarray(fill)
        self.dimension_units = (None,) * self.domain.rank

    @on_demand
    def chunk_layout(self) -> ChunkLayout:
        known, metadata = ranks(len(self.metadata.shape), None, self.elements), self.metadata
        layout = effective_layout(ChunkLayout(), known, metadata.chunks, metadata.order, self.elements)
        layout.update(finalize=True)
        return layout

    @on_demand
    def codec(self) -> CodecSpec | None:
        return codec_of(self.metadata.compressor, self.metadata.filters)

    def spec_members(self) -> dict[str, Any]:
        metadata = {"dimension_separator": self.array.metadata.keys.separator, **self.metadata.to_json()}
        for name in self.metadata.extra:
            metadata.pop(name, None)
        field = self.elements.field
        return {"metadata": metadata} if field is None else {"metadata": metadata, "field": field}
