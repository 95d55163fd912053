"""The ``zarr`` driver: Zarr v2 arrays."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tegula.formats import zarr2
from tegula.formats.leniency import plain_zarr2
from tegula.formats.numpy_types import dtype_from_json, dtype_to_json
from tegula.metadata.chunk_keys import v2_keys
from tegula.metadata.data_types import EXTENDED_DTYPES, OBJECT, DataType
from tegula.metadata.fill_value_json import decode_base64
from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.codec_spec import DEFAULT_COMPRESSOR, READERS, Layout
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.drivers.keyed import KeyedDriver, KeyedSpec
from tegula.tensorstore.drivers.stored import SHOWN, Metadata, Reader, ReadFill, fill_of_spec, inner_order
from tegula.tensorstore.errors import invalid
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json import dump, integer, known_only, member, one_of, string, take
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import SpecMember

__all__ = ["ZarrSpec"]

_SEPARATOR = "dimension_separator"
_separator = partial(one_of, names=(".", "/"))


class ZarrDriver(KeyedDriver):
    """The driver of a Zarr v2 array."""

    def __init__(self, source: ZarrSpec, kvstore: KvStore, node: ArrayMetadata) -> None:
        super().__init__(source, kvstore, node, write_empty=node.fill_value is None)
        self.dimension_units = (None,) * self.domain.rank

    def check_schema(self, schema: Schema) -> None:
        super().check_schema(schema)
        if any(unit is not None for unit in schema.dimension_units or ()):
            raise invalid("Dimension units not supported by zarr driver")

    def spec_members(self, **members: Any) -> dict[str, Any]:
        return super().spec_members(dimension_separator=self.array.metadata.keys.separator)


class ZarrSpec(KeyedSpec):
    """The spec of a Zarr v2 array, whose document may have another key."""

    name = "zarr"
    format_name = "zarr2"
    mismatch_code = "INVALID_ARGUMENT"
    compared_otherwise = frozenset((_SEPARATOR,))
    driver_type = ZarrDriver
    key = zarr2.SHAPE_KEY
    members: ClassVar[Mapping[str, SpecMember]] = {
        **KeyedSpec.members,
        **SHOWN,
        "metadata_key": SpecMember("key", string),
    }
    type_to_json = staticmethod(dtype_to_json)

    # --- JSON

    def read_members(self, members: dict[str, Any]) -> None:
        super().read_members(members)
        separator = take(members, "key_encoding", _separator)
        if separator is not None:
            json = {_SEPARATOR: separator, **self.constraints.json}
            if json[_SEPARATOR] != separator:
                raise invalid(f'"key_encoding" of {dump(separator)} is not that in metadata, {dump(json[_SEPARATOR])}')
            self.constraints = replace(self.constraints, json=json)

    def url_suffix(self) -> str:
        if self.key != zarr2.SHAPE_KEY:
            raise invalid("zarr2 URL syntax not supported with non-default metadata_key")
        return super().url_suffix()

    @staticmethod
    def read_metadata(members: dict[str, Any], read_fill: ReadFill) -> Metadata:
        reader = Reader(members)
        reader.take("zarr_format", lambda value: integer(value, 2, 2))
        reader.take_sizes("shape", "shape")
        reader.take_sizes("chunks", "chunk_shape", 1)
        written = members.get("dtype")
        data_type = reader.take("dtype", lambda value: dtype_from_json(value, ".zarray"), dtype_to_json)
        if isinstance(written, str) and written[0] in "<>|":  # such as "<i1", which stays
            reader.json["dtype"] = written
        for name, read in READERS["zarr"].items():
            reader.take(name, read)
        if data_type is OBJECT:
            filters = zarr2.codecs_from_json(reader.json.get("filters"), "filters")
            with member("dtype"):
                data_type, _ = zarr2.with_serializer(data_type, filters)
        reader.take_fill("dtype", data_type, read_fill, _fill_to_json)
        reader.take("order", partial(one_of, names=("C", "F")))
        reader.take(_SEPARATOR, _separator)
        return reader.metadata({}, data_type=data_type)

    @classmethod
    def read_constraints(cls, members: dict[str, Any]) -> Metadata:
        metadata = cls.read_metadata(members, _fill_of_spec)
        known_only(members)
        return metadata

    @classmethod
    def read_stored(cls, document: dict[str, Any]) -> Metadata:
        return cls.read_metadata(plain_zarr2(document), zarr2.read_fill)

    # --- properties known before opening

    @staticmethod
    def chunks_of(metadata: Metadata, rank: int) -> tuple[tuple[int, ...] | None, Layout]:
        # without known chunks, there are still those of the dimensions of elements
        chunks = (0,) * rank if metadata.chunk_shape is None else metadata.chunk_shape
        order = metadata.json.get("order")
        return chunks, Layout(None if order is None else inner_order(order, rank, rank), chunks)

    # --- documents

    def completed(self, node: ArrayMetadata) -> ArrayMetadata:
        separator = self.constraints.json.get(_SEPARATOR, node.keys.separator)
        if separator == node.keys.separator:
            return node
        return node if _SEPARATOR in self.stored_metadata(node).json else replace(node, keys=v2_keys(separator))

    def check_members(self, stored: Metadata) -> None:
        super().check_members(stored)
        wanted = self.constraints.json.get(_SEPARATOR)
        if wanted is not None and wanted != (found := stored.json.get(_SEPARATOR, wanted)):
            raise invalid(f'Expected "{_SEPARATOR}" of {dump(wanted)} but received: {dump(found)}')

    def new_members(
        self, data_type: DataType, domain: IndexDomain, rank: int, layout: ChunkLayout, fill: npt.NDArray[Any] | None
    ) -> dict[str, Any]:
        chunks = layout._chosen(domain.rank, domain.shape)[:rank]
        if prod(chunks) * max(data_type.itemsize, 1) >= 2**63 - 1:
            raise invalid(f"Product of chunk dimensions {[*chunks]} is too large")
        orders = [order for order in "CF" if layout._any_order in (None, inner_order(order, rank, layout.rank))]
        if not orders and layout.inner_order is not None:
            raise invalid(f'Invalid "inner_order" constraint: {[*layout.inner_order]}')
        codecs, members = self.get_codec()._members, self.constraints.json
        return {
            "zarr_format": 2,
            "shape": [*domain.shape[:rank]],
            "chunks": [*chunks],
            "dtype": members.get("dtype", dtype_to_json(data_type)),
            "compressor": codecs.get("compressor", DEFAULT_COMPRESSOR),
            "fill_value": _fill_to_json(fill, data_type),
            "order": members.get("order", (orders or ["C"])[0]),
            "filters": codecs.get("filters"),
            _SEPARATOR: members.get(_SEPARATOR, "."),
        }


def _fill_of_spec(value: Any, data_type: DataType) -> npt.NDArray[Any] | None:
    """Read a ``fill_value`` in a spec: complex numbers, text and raw bytes may be Base64 of exactly their bytes."""
    dtype, is_text = data_type.numpy, isinstance(value, str)
    kind = "" if dtype in EXTENDED_DTYPES else dtype.kind
    if value is None or kind in ("m", "M", "O", "U") or (kind == "f" and is_text):
        return zarr2.read_fill(value, data_type)
    if kind not in ("S", "V") and not (kind == "c" and is_text):
        return fill_of_spec(value, data_type)
    text = string(value).rstrip("=")
    raw = decode_base64(text + "=" * (-len(text) % 4))
    if len(raw) != dtype.itemsize:
        raise invalid(f"{dump(value)} is not Base64 of {dtype.itemsize} bytes")
    return np.ndarray((), dtype, raw).copy()


def _fill_to_json(fill: npt.NDArray[Any] | None, data_type: DataType) -> Any:
    """Write a ``fill_value`` as TensorStore does: all bytes of text and raw bytes, and any NaN as ``"NaN"``."""
    if fill is not None and data_type.numpy.kind in "SV" and data_type.numpy not in EXTENDED_DTYPES:
        return base64.b64encode(fill.tobytes()).decode()
    value = zarr2.write_fill(fill, data_type)
    parts = value if isinstance(value, list) else [value]
    plain = ["NaN" if isinstance(part, str) and part.startswith("0x") else part for part in parts]
    return plain if isinstance(value, list) else plain[0]
