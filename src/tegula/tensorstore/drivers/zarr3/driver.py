"""The ``zarr3`` driver: Zarr v3 arrays."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np

from tegula.indexing import Plan
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.zarr3_codecs import Chain
from tegula.tensorstore.drivers.domains import Ranks, ranks
from tegula.tensorstore.drivers.elements import Elements, shown_part
from tegula.tensorstore.drivers.keyed import KeyedSpec
from tegula.tensorstore.drivers.keyed_driver import KeyedDriver
from tegula.tensorstore.drivers.metadata import Metadata
from tegula.tensorstore.drivers.zarr3.creation import check_schema, new_document
from tegula.tensorstore.drivers.zarr3.layout import (
    effective_domain,
    effective_layout,
    layout_of_chunks,
    merge_units,
)
from tegula.tensorstore.drivers.zarr3.metadata import (
    ANYTHING,
    KEY,
    Units,
    check_constraints,
    constraints_from_json,
    node_of,
    parse_stored,
)
from tegula.tensorstore.drivers.zarr3.statistics import count_inner_chunks
from tegula.tensorstore.drivers.zarr3.types import check_name
from tegula.tensorstore.errors import StatusError, annotate
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json.binding import MISSING, member
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import on_demand

__all__ = ["Zarr3Driver", "Zarr3Spec"]


class Zarr3Spec(KeyedSpec):
    """The spec of a Zarr v3 array."""

    name: ClassVar[str] = "zarr3"
    format_name: ClassVar[str] = "zarr3"
    key = KEY
    anything = ANYTHING

    # --- JSON

    def read_members(self, members: dict[str, Any]) -> None:
        metadata = members.pop("metadata", MISSING)
        wanted = self.schema.dtype
        if wanted is not None and not (isinstance(metadata, dict) and "data_type" in metadata):
            check_name(wanted.name)
        if metadata is not MISSING:
            with member("metadata"):
                self.constraints = constraints_from_json(metadata)
        self.read_shown(members)
        kind = self.constraints.data_type
        shown = self.shown or (None if kind is None or kind.numpy.names else shown_part(kind, "", False))
        if wanted is not None and not self.void and (shown is None or shown.dtype != wanted):
            check_name(wanted.name)
        if shown is not None:
            self.schema._set_dtype(shown.dtype)
            known = ranks(self.constraints.rank, self.schema.rank, shown).full
            if known is not None:
                self.schema._set_rank(known, "metadata")

    def write_members(self, *, include_defaults: bool) -> dict[str, Any]:
        json: dict[str, Any] = {}
        metadata = dict(self.constraints.json)
        if len(metadata) > 1 or include_defaults:
            json["metadata"] = metadata
        return {**json, **self.write_shown()}

    # --- properties known before opening

    @property
    def shown(self) -> Elements | None:
        if self.constraints.data_type is None:
            return None
        try:
            return self.part_of(self.constraints)
        except StatusError:
            return None

    def ranks(self) -> Ranks:
        return ranks(self.constraints.rank, self.schema.rank, self.shown or (_VOID if self.void else None))

    def get_chunk_layout(self) -> ChunkLayout:
        return effective_layout(self.constraints, self.ranks(), self.shown, self.schema.chunk_layout)

    def get_dimension_units(self) -> Units | None:
        units = merge_units(self.constraints.units, self.schema.dimension_units)
        rank = self.get_rank() if self.constraints.rank is None else self.constraints.rank
        return (None,) * rank if units is None and rank is not None else units

    def get_domain(self) -> IndexDomain | None:
        if self.constraints is ANYTHING and self.schema._is_empty:
            return None
        return effective_domain(self.constraints, self.ranks(), self.shown, self.schema.domain)

    def codec_constraint(self) -> CodecSpec:
        return CodecSpec._of(
            "zarr3", **({} if self.constraints.codecs is None else {"codecs": self.constraints.codecs})
        )

    # --- opening

    def parse(self, raw: bytes) -> Metadata:
        return parse_stored(bytes(raw))

    def node_of(self, metadata: Metadata) -> ArrayMetadata:
        return node_of(metadata)

    def new_document(self) -> dict[str, Any]:
        chain: Chain | None = self.get_codec()._members.get("codecs")
        return new_document(self.constraints, self.schema, self.field, self.void, chain, self.records)

    def check(self, metadata: Metadata) -> None:
        check_constraints(self.constraints, metadata)
        if self.schema._is_empty:
            return
        check_schema(metadata, self.schema, self.part_of(metadata))
        if self.schema.codec is not None:
            try:
                CodecSpec._of("zarr3", codecs=metadata.codecs)._merged(self.schema.codec)
            except StatusError as error:
                raise annotate(error, "codec from metadata does not match codec in schema") from None

    def driver(self, kvstore: KvStore, metadata: Metadata) -> Zarr3Driver:
        return Zarr3Driver(self, kvstore, metadata)


_VOID: Final = Elements(DataType(np.dtype("V1")), None, True)


class Zarr3Driver(KeyedDriver):
    """The driver of a Zarr v3 array."""

    name = "zarr3"

    def __init__(self, source: Zarr3Spec, kvstore: KvStore, metadata: Metadata) -> None:
        super().__init__(source, kvstore, metadata, labels=metadata.names or ())
        if metadata.units is not None:
            self.dimension_units = (*metadata.units, *[None] * len(self.elements.shape))
        if self.fill_value is None:
            self.fill_value = np.asarray(metadata.fill)

    @on_demand
    def chunk_layout(self) -> ChunkLayout:
        rank, metadata = self.array.ndim, self.metadata
        layout = layout_of_chunks(ChunkLayout(), rank, self.elements.shape, metadata.chunk_shape, metadata.codecs)
        layout._finalize()
        return layout

    @on_demand
    def codec(self) -> CodecSpec | None:
        return CodecSpec._of("zarr3", codecs=self.metadata.codecs)

    def count_stored(self, plan: Plan) -> tuple[int, int]:
        stored = self.array.stored
        sharding = stored.chain.sharding
        return super().count_stored(plan) if sharding is None else count_inner_chunks(stored, sharding, plan)
