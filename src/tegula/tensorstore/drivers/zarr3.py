"""The ``zarr3`` driver: arrays of Zarr v3."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from tegula.errors import TegulaError
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.zarr3_codecs import Chain
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.keyed import KeyedDriver, KeyedSpec, stored_array
from tegula.tensorstore.drivers.viewed import numpy_selection
from tegula.tensorstore.drivers.zarr2_layout import Ranks, fill_of, ranks
from tegula.tensorstore.drivers.zarr2_types import ZarrType
from tegula.tensorstore.drivers.zarr3_creation import check_schema, new_metadata
from tegula.tensorstore.drivers.zarr3_layout import (
    effective_domain,
    effective_layout,
    layout_of_chunks,
    merge_units,
    shown_part,
)
from tegula.tensorstore.drivers.zarr3_metadata import (
    ANYTHING,
    KEY,
    Constraints,
    Metadata,
    check_constraints,
    parse_stored,
)
from tegula.tensorstore.drivers.zarr3_statistics import stored_parts
from tegula.tensorstore.drivers.zarr3_types import check_name
from tegula.tensorstore.errors import StatusError, annotate, as_status
from tegula.tensorstore.index.domain import IndexDomain, check_labels
from tegula.tensorstore.json.binding import MISSING, boolean, invalid, member, string
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import Indices, on_demand

__all__ = ["Zarr3Driver", "Zarr3Spec"]


class Zarr3Spec(KeyedSpec):
    """The spec of an array of Zarr v3."""

    name: ClassVar[str] = "zarr3"
    format_name: ClassVar[str] = "zarr3"
    constraints: Constraints
    field: str = ""
    void: bool = False
    records: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.constraints = ANYTHING

    @property
    def key(self) -> str:
        return KEY

    # --- JSON

    def read_members(self, members: dict[str, Any]) -> None:
        metadata = members.pop("metadata", MISSING)
        wanted = self.schema.dtype
        if wanted is not None and not (isinstance(metadata, dict) and "data_type" in metadata):
            check_name(wanted.name)
        if metadata is not MISSING:
            with member("metadata"):
                self.constraints = Constraints.from_json(metadata)
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
        zarr = self.constraints.zarr
        shown = self._shown() or (None if zarr is None or zarr.named else shown_part(zarr, "", False))
        if wanted is not None and not self.void and (shown is None or shown.dtype != wanted):
            check_name(wanted.name)
        if shown is not None:
            self.schema.set_dtype(shown.dtype)
            known = ranks(self.constraints.rank, self.schema.rank, shown).full
            if known is not None:
                self.schema.set_rank(known, "metadata")

    def write_members(self, *, include_defaults: bool) -> dict[str, Any]:
        json: dict[str, Any] = {}
        metadata = self.constraints.to_json()
        if len(metadata) > 1 or include_defaults:
            json["metadata"] = metadata
        if self.field:
            json["field"] = self.field
        if self.void:
            json["open_as_void"] = True
        if self.records:
            json["open_as_records"] = True
        return json

    # --- what is known before anything is opened

    def _shown(self) -> Elements | None:
        """Return the part of the elements that will be shown, as far as that is known."""
        if self.constraints.zarr is None:
            return None
        try:
            return self.part_of(self.constraints.zarr)
        except StatusError:
            return None

    def part_of(self, zarr: ZarrType) -> Elements:
        """Return what is shown of elements of a type."""
        return shown_part(zarr, self.field, self.void, self.records)

    def part_of_stored(self, metadata: Metadata) -> Elements:
        """Return what is shown of the elements of an array."""
        shown = metadata.parts.get((self.field, self.void, self.records))
        if shown is None:
            shown = metadata.parts[self.field, self.void, self.records] = self.part_of(metadata.zarr)
        return shown

    def _ranks(self) -> Ranks:
        shown = self._shown()
        return ranks(self.constraints.rank, self.schema.rank, shown or (_VOID if self.void else None))

    def get_schema(self) -> Schema:
        schema, own = Schema(), self.schema
        known, shown = self._ranks(), self._shown()
        if known.full is not None:
            schema.set_rank(known.full, "rank")
        if own.dtype is not None:
            schema.set_dtype(own.dtype)
        domain = self.get_domain()
        if domain is not None:
            schema.set_domain(domain, "domain")
        schema.set_chunk_layout(effective_layout(self.constraints, known, shown, own.chunk_layout))
        schema.set_codec(self._codec())
        fill = self._fill()
        if fill is not None:
            schema.set_fill_value(fill)
        units = merge_units(self.constraints.units, own.dimension_units)
        if units is not None and any(unit is not None for unit in units):
            schema.set_dimension_units(units)
        return schema

    def _fill(self) -> npt.NDArray[Any] | None:
        constraints = self.constraints
        if constraints.fill is None or constraints.zarr is None:
            return self.schema.fill_value
        return fill_of(constraints.fill, self.part_of(constraints.zarr))

    def get_domain(self) -> IndexDomain | None:
        if self.constraints is ANYTHING and self.schema.is_empty:
            return None
        return effective_domain(self.constraints, self._ranks(), self._shown(), self.schema.domain)

    def _codec(self) -> CodecSpec:
        codecs = {} if self.constraints.codecs is None else {"codecs": self.constraints.codecs}
        codec = CodecSpec.of("zarr3", **codecs)
        return codec if self.schema.codec is None else codec.merged(self.schema.codec)

    # --- opening

    def parse(self, raw: bytes) -> Metadata:
        return parse_stored(bytes(raw))

    def node_of(self, metadata: Metadata) -> ArrayMetadata:
        return metadata.node()

    def new_metadata(self) -> Metadata:
        chain: Chain | None = self._codec().members.get("codecs")
        metadata = new_metadata(self.constraints, self.schema, self.field, self.void, chain, self.records)
        self._check_schema(metadata)
        return metadata

    def check(self, metadata: Metadata) -> None:
        check_constraints(self.constraints, metadata)
        self._check_schema(metadata)

    def _check_schema(self, metadata: Metadata) -> None:
        if self.schema.is_empty:
            return
        check_schema(metadata, self.schema, self.part_of_stored(metadata))
        if self.schema.codec is not None:
            try:
                CodecSpec.of("zarr3", codecs=metadata.codecs).merged(self.schema.codec)
            except StatusError as error:
                raise annotate(error, "codec from metadata does not match codec in schema") from None

    def driver(self, kvstore: KvStore, metadata: Metadata) -> Zarr3Driver:
        return Zarr3Driver(self, kvstore, metadata)

    # --- other specs

    def merge(self, *, minimal: bool = False, **options: Any) -> Zarr3Spec:
        other = super().merge(minimal=minimal, **options)
        assert isinstance(other, Zarr3Spec)
        if minimal:
            other.constraints = Constraints()
        return other

    def described(self, members: dict[str, Any], data_type: dtype) -> Zarr3Spec:
        other = copy(super().described(members, data_type))
        assert isinstance(other, Zarr3Spec)
        other.constraints = members.get("metadata", Constraints())
        other.field = members.get("field", "")
        return other

    def url_suffix(self) -> str:
        """Return what a URL says of the array after where it is.

        Raises
        ------
        ValueError
            If a URL has no place for it.
        """
        if self.field:
            raise invalid("zarr3 URL syntax not supported with selected_field specified")
        if self.void:
            raise invalid("zarr3 URL syntax not supported with open_as_void specified")
        if self.records:
            raise invalid("zarr3 URL syntax not supported with open_as_records specified")
        return "zarr3:"


_VOID: Final = Elements(DataType(np.dtype("V1")), None, True)


class Zarr3Driver(KeyedDriver):
    """The driver of an array of Zarr v3."""

    name = "zarr3"
    metadata: Metadata

    def __init__(self, source: Zarr3Spec, kvstore: KvStore, metadata: Metadata) -> None:
        shown = source.part_of_stored(metadata)
        labels = None
        if any(metadata.names):
            labels = [*(name or "" for name in metadata.names), *[""] * len(shown.shape)]
            check_labels(labels)
        array = stored_array(kvstore, source, source.node_of(metadata), write_empty=source.store_equal)
        super().__init__(array, shown, labels=labels, fill_missing=source.fill_missing)
        self.source = source
        self.kvstore = kvstore
        self.metadata = metadata
        if metadata.units is not None:
            self.dimension_units = (*metadata.units, *[None] * len(shown.shape))
        if self.fill_value is None:
            self.fill_value = np.asarray(metadata.fill)

    @on_demand
    def chunk_layout(self) -> ChunkLayout:
        rank, metadata = len(self.metadata.shape), self.metadata
        layout = layout_of_chunks(ChunkLayout(), rank, self.elements.shape, metadata.chunk_shape, metadata.codecs)
        layout.finalize()
        return layout

    @on_demand
    def codec(self) -> CodecSpec | None:
        return CodecSpec.of("zarr3", codecs=self.metadata.codecs)

    def spec_members(self) -> dict[str, Any]:
        members: dict[str, Any] = {"metadata": self.metadata}
        if self.elements.field is not None:
            members["field"] = self.elements.field
        return members

    def storage_statistics(
        self, indices: Indices, *, query_not_stored: bool = False, query_fully_stored: bool = False
    ) -> dict[str, Any]:
        stored = self.array._stored
        if stored.chain.sharding is None:
            return super().storage_statistics(
                indices, query_not_stored=query_not_stored, query_fully_stored=query_fully_stored
            )
        selection, _ = numpy_selection(indices[: self.array.ndim])
        try:
            count, total = stored_parts(stored, self._plan(selection))
        except TegulaError as error:
            raise as_status(error) from error
        found: dict[str, Any] = {}
        if query_not_stored:
            found["not_stored"] = count == 0
        if query_fully_stored:
            found["fully_stored"] = count == total
        return found
