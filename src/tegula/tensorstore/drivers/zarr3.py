"""The ``zarr3`` driver: Zarr v3 arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tegula.codecs.serializers.sharding import EMPTY
from tegula.formats import zarr3
from tegula.formats.leniency import plain_zarr3
from tegula.formats.zarr3_codecs import extension_from_json, extensions_from_json
from tegula.indexing import Plan, refine
from tegula.metadata.chunk_grids import regular_grid
from tegula.metadata.chunk_keys import ChunkKeyEncoding
from tegula.metadata.data_types import DataType, data_type_from_json, data_type_to_json
from tegula.metadata.fill_value_json import fill_from_document
from tegula.metadata.fill_values import default_fill
from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.chunk_shapes import choose_shard_shapes
from tegula.tensorstore.constraints.codec_spec import (
    Chain,
    Codec,
    Layout,
    chain_from_json,
    complete_chain,
    decoded_layout,
    merge_chains,
)
from tegula.tensorstore.constraints.unit import Unit, Units, merged_units, units_to_json
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.keyed import KeyedDriver, KeyedSpec
from tegula.tensorstore.drivers.stored import SHOWN, Metadata, Ranks, Reader, ReadFill, fill_of_spec, mismatch, ranks
from tegula.tensorstore.errors import StatusError, invalid, stating
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json import MISSING, dump, integer, member, naming, obj, one_of, optional, string
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import SpecMember, on_demand

__all__ = ["Zarr3Spec"]

_UNITS = "dimension_units"
_VOID = Elements(DataType(np.dtype("V1")), None, True)


class Zarr3Driver(KeyedDriver):
    """The driver of a Zarr v3 array."""

    def __init__(self, source: Zarr3Spec, kvstore: KvStore, node: ArrayMetadata) -> None:
        super().__init__(source, kvstore, node)
        if self.fill_value is None:
            self.fill_value = np.asarray(node.fill_value)

    @on_demand
    def dimension_units(self) -> Units | None:
        units = _units_in(self.array.metadata.attributes, self.array.ndim)
        return None if units is None else (*units, *[None] * len(self.elements.shape))

    def count_stored(self, plan: Plan) -> tuple[int, int]:
        stored, sharding = self.array.stored, self.array.stored.chain.sharding
        if sharding is None:
            return super().count_stored(plan)
        shape = stored.metadata.grid.largest_chunk()
        size = sharding.index_nbytes(shape)
        count = total = 0
        for coords, selection, *_ in plan:  # those are inner chunks that count
            inner = refine(selection, shape, regular_grid(sharding.inner_shape))
            total += inner.nchunks
            raw = stored.store.get(stored.key(coords), (0, size) if sharding.index_at_start else (-size, None))
            if raw is not None:
                index = sharding.decode_index(raw, shape)
                count += sum(int(index[inner_coords][0]) != EMPTY for inner_coords, *_ in inner)
        return count, total


class Zarr3Spec(KeyedSpec):
    """The spec of a Zarr v3 array."""

    name = "zarr3"
    key = zarr3.SHAPE_KEY
    members: ClassVar[Mapping[str, SpecMember]] = {**KeyedSpec.members, **SHOWN}
    anything = Metadata(json={"node_type": "array"})
    compared_otherwise = frozenset(("codecs", "dimension_names", "attributes"))
    driver_type = Zarr3Driver
    type_to_json = staticmethod(data_type_to_json)

    # --- JSON

    def complete_schema(self) -> None:
        self.ranks()  # raises an error if members give different ranks
        wanted, shown, data_type = self.schema.dtype, self.shown, self.constraints.data_type
        if shown is None and data_type is not None and data_type.numpy.names is None:
            shown = Elements(data_type)  # the field that it lacks is an error on opening
        if wanted is not None and not self.void and (shown is None or shown.dtype != wanted):
            self.check_dtype(wanted)
        if shown is not None:
            known = ranks(self.constraints.rank, self.schema.rank, shown)
            self.schema._put(dtype=shown.dtype, rank=known.full)

    @classmethod
    def read_constraints(cls, members: dict[str, Any], read_fill: ReadFill = fill_of_spec) -> Metadata:
        reader = Reader(members)
        take, json = reader.take, reader.json
        take("zarr_format", lambda value: integer(value, 3, 3))
        take("node_type", lambda value: one_of(value, ("array",)))
        json["node_type"] = "array"
        # the elements
        data_type = take("data_type", data_type_from_json, data_type_to_json, "data_type")
        if data_type is not None and data_type.alias == "structured":  # which is always written in the same form
            reader.parts["data_type"] = data_type = DataType(data_type.numpy)
            json["data_type"] = data_type_to_json(data_type)
        reader.take_fill("data_type", data_type, read_fill, zarr3.write_fill)
        # the dimensions and the chunks
        reader.take_sizes("shape", "shape")
        names = take("dimension_names", lambda value: reader.per_dimension(value, optional(string)), list, "names")
        if not any(name is not None for name in names or ()):
            json.pop("dimension_names", None)
        take("chunk_key_encoding", zarr3.keys_from_json, _keys_to_json)
        take("chunk_grid", lambda value: _chunk_shape(value, reader), _grid_to_json, "chunk_shape")
        take("codecs", chain_from_json, Chain.to_json, "codecs")
        take("storage_transformers", lambda value: extensions_from_json(value, "storage_transformers"))
        json.pop("storage_transformers", None)
        # the user's attributes, which include the units, and other members that need not be understood
        attributes = take("attributes", obj) or {}
        units = _units_in(attributes, reader.rank)
        if units is not None:
            json["attributes"] = {**attributes, _UNITS: units_to_json(units)}
        elif not attributes:
            json.pop("attributes", None)
        for name, extension in sorted(members.items()):
            if not (isinstance(extension, dict) and extension.get("must_understand") is False):
                raise invalid(f'Unsupported metadata field {dump(name)} is not marked {{"must_understand": false}}')
        return reader.metadata(members, units=units, attributes=attributes)

    @classmethod
    def read_stored(cls, document: dict[str, Any]) -> Metadata:
        stored = cls.read_constraints(plain_zarr3(document), fill_from_document)
        assert stored.codecs is not None
        assert stored.data_type is not None
        codecs = complete_chain(stored.codecs, stored.data_type, len(stored.shape or ()))
        return replace(stored, codecs=codecs, json={**stored.json, "codecs": codecs.to_json()})

    # --- properties known before opening

    @property
    def shown(self) -> Elements | None:
        try:
            return super().shown
        except StatusError:  # which field is not yet known
            return None

    def ranks(self) -> Ranks:
        known = ranks(self.constraints.rank, self.schema.rank, self.shown or (_VOID if self.void else None))
        chunked, full = known.chunked, known.full
        return Ranks(full if chunked is None else chunked, chunked if full is None else full)

    def get_rank(self) -> int | None:
        # as in TensorStore, which waits for the data type, chunks and units alone do not tell it
        rank, domain = self.schema.rank, self.get_domain()
        return domain.rank if rank is None and domain is not None else rank

    def get_domain(self) -> IndexDomain | None:
        known = self.schema.rank, self.constraints.shape, self.constraints.names
        return None if all(value is None for value in known) else super().get_domain()

    def get_dimension_units(self) -> Units | None:
        units = merged_units(self.constraints.units, self.schema.dimension_units)
        rank = self.get_rank() if self.constraints.rank is None else self.constraints.rank
        return (None,) * rank if units is None and rank is not None else units

    @staticmethod
    def chunks_of(metadata: Metadata, rank: int) -> tuple[tuple[int, ...] | None, Layout]:
        codecs = metadata.codecs
        layout = Layout() if codecs is None else decoded_layout(codecs, rank, metadata.chunk_shape)
        return metadata.chunk_shape, layout

    # --- opening

    def completed(self, node: ArrayMetadata) -> ArrayMetadata:
        if _UNITS in node.attributes:
            _units_in(node.attributes, node.ndim)
        return node

    def new_members(
        self, data_type: DataType, domain: IndexDomain, rank: int, layout: ChunkLayout, fill: npt.NDArray[Any] | None
    ) -> dict[str, Any]:
        constraints, chain = self.constraints, self.get_codec()._members.get("codecs")
        wanted = self.schema.dimension_units
        units = merged_units(constraints.units, None if wanted is None else wanted[:rank])
        # the chunks, and the codecs that encode them
        read, write = _chunk_shapes(layout, domain, rank, constraints.codecs)
        if read != write and (chain is None or chain.sharding_height == 0):
            parts = {"chunk_shape": [*read], **({} if chain is None else {"codecs": chain})}
            chain = Chain(serializer=Codec("sharding_indexed", parts))
        order = layout._any_order
        outer = None if order is None else tuple(axis for axis in order if axis < rank)
        codecs = complete_chain(chain or Chain(), data_type, rank, Layout(outer, read))
        if (encoded := decoded_layout(codecs, rank, write).read_shape) is not None:
            with naming("read_chunk"):
                layout._set_parts("read_chunk", "shape", (*encoded, *[None] * (domain.rank - rank)), True)
        # the document, with further members from the constraints
        names = [
            label or ("" if name == "" else None)
            for label, name in zip(domain.labels[:rank], constraints.names or (None,) * rank)
        ]
        attributes = {name: value for name, value in constraints.attributes.items() if name != _UNITS}
        if any(unit is not None for unit in units or ()):
            attributes[_UNITS] = units_to_json(units or ())
        document = {
            "chunk_key_encoding": {"name": "default"},
            **{name: value for name, value in constraints.json.items() if name not in self.compared_otherwise},
            "zarr_format": 3,
            "shape": [*domain.shape[:rank]],
            "data_type": data_type_to_json(data_type),
            "fill_value": zarr3.write_fill(default_fill(data_type) if fill is None else fill, data_type),
            "chunk_grid": _grid_to_json(write),
            "codecs": codecs.to_json(stored=True),
        }
        if any(name is not None for name in names):
            document["dimension_names"] = names
        return {**document, "attributes": attributes} if attributes else document

    def check_members(self, stored: Metadata) -> None:
        super().check_members(stored)
        constraints = self.constraints
        with stating('Mismatch in "codecs"'):
            merge_chains(stored.codecs, constraints.codecs, strict=True)
        if constraints.names is not None and constraints.names != (stored.names or (None,) * len(constraints.names)):
            raise mismatch("dimension_names", constraints.names, stored.names)
        for name, value in constraints.attributes.items():
            found = stored.attributes.get(name, MISSING)
            if name != _UNITS and (found is MISSING or dump(value) != dump(found)):
                raise mismatch(f"attributes.{name}", value, found)
        units = units_to_json(constraints.units or ())
        found_units = units_to_json(stored.units or (None,) * len(units))
        if any(unit is not None and unit != found for unit, found in zip(units, found_units)):
            raise mismatch(_UNITS, units, found_units)


# --- members of documents


def _keys_to_json(keys: ChunkKeyEncoding) -> dict[str, Any]:
    """Write an encoding of chunk keys without the default separator."""
    _, encoding = zarr3.key_field(keys)
    return {"name": encoding["name"]} if keys.separator == ("/" if keys.prefix else ".") else encoding


def _chunk_shape(value: Any, reader: Reader) -> tuple[int, ...]:
    grid = extension_from_json(value, "chunk_grid")
    with member("name"):
        one_of(grid.name, ("regular",))
    with member("configuration"), member("chunk_shape"):
        return reader.sizes(grid.configuration.get("chunk_shape", MISSING), 1)


def _grid_to_json(chunk_shape: tuple[int, ...]) -> dict[str, Any]:
    return {"configuration": {"chunk_shape": [*chunk_shape]}, "name": "regular"}


def _chunk_shapes(
    layout: ChunkLayout, domain: IndexDomain, rank: int, codecs: Chain | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Choose the shapes of read and write chunks, which are the same if the codecs exclude sharding."""
    if codecs is not None and codecs.sharding_height == 0:
        read = write = layout._grid_of_both("write", "read")
    else:
        read, write = layout.read_chunk, layout.write_chunk
    hard = (read._vector("shape").hard[:rank], write._vector("shape").hard[:rank])
    return choose_shard_shapes(read._numbers(rank), write._numbers(rank), domain.shape[:rank], hard)


# --- units of dimensions, which are an attribute


def _units_in(attributes: Mapping[str, Any], rank: int | None) -> Units | None:
    if _UNITS not in attributes:
        return None
    with member("attributes"), member(_UNITS):
        return Reader({}, rank).per_dimension(attributes[_UNITS], optional(lambda unit: Unit(string(unit))))
