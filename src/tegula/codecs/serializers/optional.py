"""``zarrs.optional``: elements that may be missing (zarrs, "optional codec").

A chunk is stored as two sequences of bytes behind their lengths: which elements there are, and the elements that there
are, in C order. In memory an element is a record of its value and whether it is valid.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

import numpy as np

from tegula.codecs.serializers.sharding import inner_specs
from tegula.codecs.stages import Chunk, Context, Data, Decoder, Serializer, Shape, check_options, flat
from tegula.errors import CodecError, MetadataError
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import CodecSpec

__all__ = ["Optional", "build"]

_NAME: Final = "zarrs.optional"
_LENGTHS: Final = Struct("<QQ")
_OPTIONS: Final = ("mask_codecs", "data_codecs")


class Optional(Serializer):
    """The codec for one type of elements.

    Parameters
    ----------
    mask, values : CodecChain
        The codecs of the booleans, which have the shape of the chunk, and of the elements that are valid, which have
        one dimension.
    dtype : numpy.dtype
        The type of the records.
    """

    name = _NAME

    def __init__(self, mask: Any, values: Any, dtype: np.dtype[Any]) -> None:
        self.mask, self.values, self.dtype = mask, values, dtype

    def load(self) -> None:
        self.mask.load()
        self.values.load()

    def encode(self, chunk: Chunk) -> Data:
        valid = np.ascontiguousarray(chunk["valid"]).reshape(chunk.shape)
        there = chunk["value"][valid]
        mask = flat(self.mask.encode(valid))
        values = flat(self.values.encode(there)) if there.size else b""
        return b"".join((_LENGTHS.pack(len(mask), len(values)), mask, values))

    def decoder(self, shape: Shape, limit: int) -> Decoder:
        def decode(data: Data) -> Chunk:
            raw = memoryview(flat(data))
            if len(raw) < _LENGTHS.size:
                raise CodecError(f"a chunk of {len(raw)} bytes is shorter than its two lengths", codec=_NAME)
            lengths = _LENGTHS.unpack_from(raw)
            start = _LENGTHS.size + lengths[0]
            if start + lengths[1] != len(raw):
                raise CodecError(f"a chunk of {len(raw)} bytes can't have parts of {lengths}", codec=_NAME)
            valid = np.not_equal(self.mask.decode(raw[_LENGTHS.size : start], shape).view("u1"), 0)
            chunk = np.zeros(shape, self.dtype)
            chunk["valid"] = valid
            if count := int(np.count_nonzero(valid)):
                chunk["value"][valid] = self.values.decode(raw[start:], (count,))
            return chunk

        return decode


def build(spec: CodecSpec, context: Context) -> Optional:
    """Build the codec with the options ``mask_codecs`` and ``data_codecs``."""
    check_options(spec, *_OPTIONS)
    inner = context.data_type.inner
    if inner is None:
        raise MetadataError(f"elements of the type {context.data_type} can't be missing", field="codecs", codec=_NAME)
    shapes = ((DataType(np.dtype(bool)), context.ndim, context.shape), (inner, 1, None))
    mask, values = (
        context.build(
            inner_specs(spec, name), data_type, None, allow_pickle=context.allow_pickle, ndim=ndim, chunk_shape=shape
        )
        for name, (data_type, ndim, shape) in zip(_OPTIONS, shapes)
    )
    return Optional(mask, values, context.data_type.numpy)
