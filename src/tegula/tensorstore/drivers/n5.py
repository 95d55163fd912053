"""The ``n5`` driver: arrays of N5, with the dimensions in the order of their document.

tegula shows N5 in C order, so the array of a driver has the dimensions in reverse order.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.formats import n5
from tegula.indexing import Transform
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.codec_spec import READERS, Layout
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.unit import Unit, Units
from tegula.tensorstore.drivers.keyed import KeyedDriver, KeyedSpec
from tegula.tensorstore.drivers.node import Division, new_shape
from tegula.tensorstore.drivers.stored import Metadata, Ranks, Reader, mismatch
from tegula.tensorstore.errors import invalid, status
from tegula.tensorstore.index.domain import IndexDomain, check_labels
from tegula.tensorstore.json import dump, member, number, one_of, string
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import ResizeOptions, on_demand

__all__ = ["N5Spec"]

_REQUIRED = ("dimensions", "blockSize", "dataType", "compression")
_TYPES = tuple(sorted(n5.TYPES))


class N5Driver(KeyedDriver):
    """The driver of an array of N5."""

    def __init__(self, source: N5Spec, kvstore: KvStore, node: ArrayMetadata) -> None:
        super().__init__(source, kvstore, node)
        self.fill_value = None  # missing blocks are zero, but that is no property of an array
        self._direct = False  # the dimensions are in another order

    def _note_shape(self) -> None:
        super()._note_shape()
        self.domain = IndexDomain._of(self.domain._dims[::-1])

    @on_demand
    def dimension_units(self) -> Units:
        return self.metadata.units or (None,) * self.domain.rank

    def check_schema(self, schema: Schema) -> None:
        super().check_schema(schema)
        wanted = schema.dimension_units or ()
        if any(unit is not None and found is None for unit, found in zip(wanted, self.dimension_units)):
            raise status("FAILED_PRECONDITION", "The array does not meet the schema: it has no dimension_units")

    # --- with the dimensions in reverse order

    def divided(self, transform: Transform) -> Division:
        return super().divided(Transform(transform.shape, transform.maps[::-1], transform.base[::-1]))

    def shown_coords(self, coords: tuple[int, ...]) -> tuple[int, ...]:
        return coords[::-1]

    def new_shape(self, old: tuple[int, ...], options: ResizeOptions) -> tuple[int, ...]:
        return new_shape(old[::-1], options)[::-1]


class N5Spec(KeyedSpec):
    """The spec of an array of N5."""

    name = "n5"
    key = n5.KEY
    mismatch_code = "INVALID_ARGUMENT"
    compared_otherwise = frozenset(("axes",))
    driver_type = N5Driver
    shape_member = "dimensions"

    @staticmethod
    def type_to_json(data_type: DataType) -> str:
        return one_of(data_type.numpy.name, _TYPES)

    # --- JSON

    def complete_schema(self) -> None:
        super().complete_schema()
        if self.schema.dtype is not None:
            self.check_dtype(self.schema.dtype)

    @staticmethod
    def read_constraints(members: dict[str, Any]) -> Metadata:
        reader = Reader(members)
        reader.take_sizes("dimensions", "shape")
        reader.take_sizes("blockSize", "chunk_shape", 1)
        types = partial(one_of, names=_TYPES)
        reader.take("dataType", lambda name: DataType(np.dtype(types(name))), N5Spec.type_to_json, "data_type")
        reader.take("compression", READERS["n5"]["compression"])
        names = reader.take("axes", lambda value: reader.per_dimension(value, string), list, "names")
        with member("axes"):
            check_labels(names or ())
        if not any(names or ()):
            reader.json.pop("axes", None)
        units = reader.take("units", lambda value: reader.per_dimension(value, string), list)
        lengths = reader.take("resolution", lambda value: reader.per_dimension(value, number), list)
        rank = reader.rank or 0
        stated: Units | None = None if lengths is None else (None,) * rank  # lengths alone are no units
        if units is not None:
            stated = tuple(Unit(length, unit) for length, unit in zip(lengths or (1.0,) * rank, units))
        return reader.metadata(members, units=stated)

    @classmethod
    def read_stored(cls, document: dict[str, Any]) -> Metadata:
        for name in _REQUIRED:
            if name not in document:
                raise invalid(f"the member {dump(name)} is missing")
        metadata = cls.read_constraints(document)
        assert metadata.chunk_shape is not None
        assert metadata.data_type is not None
        if prod(metadata.chunk_shape) * metadata.data_type.itemsize > 2**31:
            raise invalid(f'"blockSize" of {[*metadata.chunk_shape]} with {metadata.data_type} exceeds 2 GiB')
        return metadata

    # --- properties known before opening

    def ranks(self) -> Ranks:
        rank = self.schema.rank if self.constraints.rank is None else self.constraints.rank
        return Ranks(rank, rank)

    @staticmethod
    def chunks_of(metadata: Metadata, rank: int) -> tuple[tuple[int, ...] | None, Layout]:
        return metadata.chunk_shape, Layout(tuple(range(rank))[::-1], metadata.chunk_shape)

    def get_dimension_units(self) -> Units | None:
        lengths, units = self.constraints.json.get("resolution", ()), super().get_dimension_units()
        if any(unit is not None and unit.multiplier != length for unit, length in zip(units or (), lengths)):
            raise invalid(f'"resolution" of {dump(lengths)} does not match the dimension units of the schema')
        return units

    def get_fill_value(self) -> None:
        return None

    # --- documents

    def completed(self, node: ArrayMetadata) -> ArrayMetadata:
        names = self.stored_metadata(node).names
        return replace(node, dimension_names=None if names is None else names[::-1])

    def check_members(self, stored: Metadata) -> None:
        super().check_members(stored)
        wanted = self.constraints.names
        if wanted is not None and wanted != (found := stored.names or ("",) * len(wanted)):
            raise mismatch("axes", wanted, found)

    def new_members(
        self, data_type: DataType, domain: IndexDomain, rank: int, layout: ChunkLayout, fill: npt.NDArray[Any] | None
    ) -> dict[str, Any]:
        chunks = layout._chosen(rank, domain.shape)
        shuffle = 2 if data_type.itemsize == 1 else 1
        usual = {"blocksize": 0, "clevel": 5, "cname": "lz4", "shuffle": shuffle, "type": "blosc"}
        document = {
            **self.constraints.json,
            "dimensions": [*domain.shape],
            "blockSize": [*chunks],
            "dataType": self.type_to_json(data_type),
            "compression": self.get_codec()._members.get("compression", usual),
        }
        if any(domain.labels):
            document["axes"] = [*domain.labels]
        units = self.get_dimension_units() or ()
        if any(unit is not None for unit in units):
            document["units"] = ["" if unit is None else unit.base_unit for unit in units]
            document.setdefault("resolution", [1.0 if unit is None else unit.multiplier for unit in units])
        return document
