"""The ``zarr1`` driver, which TensorStore lacks: arrays of Zarr v1."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import tegula
from tegula.formats.numpy_types import dtype_to_json
from tegula.metadata.data_types import DataType
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.drivers.documented import DocumentedSpec, chunk_shape_of, fill_json, shape_of
from tegula.tensorstore.json.binding import dump, invalid

__all__ = ["Zarr1Spec"]

_BLOSC = {"cname": "lz4", "clevel": 5, "shuffle": 1}


class Zarr1Spec(DocumentedSpec):
    """The spec of a Zarr v1 array.

    Its ``metadata`` has the members of the document ``meta``: ``shape``, ``chunks``, ``dtype``, ``compression``,
    ``compression_opts``, ``fill_value`` and ``order``.
    """

    name: ClassVar[str] = "zarr1"
    key: ClassVar[str] = "meta"
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
