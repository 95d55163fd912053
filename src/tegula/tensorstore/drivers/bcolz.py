"""The ``bcolz`` driver, which TensorStore lacks: arrays of bcolz 1.x, and columns of its tables."""

from __future__ import annotations

import json
from math import prod
from typing import Any, ClassVar

import tegula
from tegula.formats.bcolz.chunks import automatic_chunklen
from tegula.formats.numpy_types import dtype_to_text
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.drivers.documented import DocumentedSpec, chunk_shape_of, fill_json, shape_of
from tegula.tensorstore.json.binding import dump, invalid, member, string

__all__ = ["BcolzSpec"]

_CPARAMS = {"clevel": 5, "shuffle": 1, "cname": "lz4", "quantize": 0}


class BcolzSpec(DocumentedSpec):
    """The spec of a bcolz array, or of the column of a table that ``field`` names.

    Its ``metadata`` has the members ``shape``, ``dtype``, ``chunklen``, ``cparams``, ``dflt`` and ``expectedlen``.
    """

    name: ClassVar[str] = "bcolz"
    key: ClassVar[str] = "meta/storage"
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
