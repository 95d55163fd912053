"""``n5_default``: blocks of N5 (registry of Zarr v3, "n5_default"; N5, "File-system specification", item 9).

A block is a header and the elements: big-endian, in Fortran order, and compressed. The header states the shape of the
block, which may be smaller than a chunk at the edge of an array, or anywhere else; the rest of such a chunk is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from struct import Struct
from typing import Any, Final

import numpy as np

from tegula.codecs.native import NativeBlock, NativeChain
from tegula.codecs.serializers.sharding import inner_specs
from tegula.codecs.stages import Chunk, Context, Data, Decoder, Serializer, Shape, check_options, flat
from tegula.errors import CodecError, MetadataError
from tegula.metadata.nodes import CodecSpec

__all__ = ["N5Block", "build", "header_of", "read_header"]

_NAME: Final = "n5_default"
_BEGINNING: Final = Struct(">HH")  # mode and number of dimensions
_NUMBER: Final = Struct(">I")
_WITH_COUNT: Final = 1
_LONGEST: Final = 2**32 - 1


class N5Block(Serializer):
    """The codec of blocks.

    Parameters
    ----------
    inner : CodecChain
        The codecs behind the header: the axes in reverse order, the elements big-endian, and at most one compressor.
    dtype : numpy.dtype
        Type of the elements.
    shape : tuple of int or None
        Shape of all chunks, if they have the same.
    """

    name = _NAME

    def __init__(self, inner: Any, dtype: np.dtype[Any], shape: Shape | None) -> None:
        self.inner = inner
        self.dtype = dtype
        self.shape = shape

    @property
    def native(self) -> NativeChain | None:
        inner = self.inner.native
        if inner is None or not self.shape or max(self.shape) > _LONGEST:
            return None
        return NativeChain(
            inner.order, inner.serializer, (NativeBlock(self.shape, self.dtype.itemsize, inner.buffers),)
        )

    def load(self) -> None:
        self.inner.load()

    def encode(self, chunk: Chunk) -> Data:
        return b"".join((header_of(chunk.shape), self.inner.encode(chunk)))

    def decoder(self, shape: Shape, limit: int) -> Decoder:
        def decode(data: Data) -> Chunk:
            raw = memoryview(flat(data))
            block, start = read_header(raw, shape)
            part: Chunk = self.inner.decode(raw[start:], block)
            if block == shape:
                return part
            chunk = np.zeros(shape, self.dtype)
            chunk[tuple(map(slice, block))] = part
            return chunk

        return decode


def header_of(shape: Sequence[int]) -> bytes:
    """Return the header of a block of a shape.

    Raises
    ------
    CodecError
        If the numbers do not fit the header.

    Examples
    --------
    >>> header_of((1, 2, 3)).hex(" ", 4)
    '00000003 00000001 00000002 00000003'
    """
    if max(shape, default=0) > _LONGEST:
        raise CodecError(f"a block of N5 can't have the shape {shape}", codec=_NAME)
    return _BEGINNING.pack(0, len(shape)) + b"".join(map(_NUMBER.pack, shape))


def read_header(data: Any, shape: Shape) -> tuple[Shape, int]:
    """Read the header of a block.

    Parameters
    ----------
    data : bytes or memoryview
        At least the beginning of the block.
    shape : tuple of int
        Shape of the chunk.

    Returns
    -------
    tuple of int, int
        Shape of the block, and length of the header.

    Raises
    ------
    CodecError
        If the header is damaged, or that of a block that does not fit the chunk.

    Examples
    --------
    >>> read_header(header_of((2, 3)) + b"elements", (4, 3))
    ((2, 3), 12)
    """
    ndim, length = len(shape), _BEGINNING.size + _NUMBER.size * len(shape)
    if len(data) < length:
        raise CodecError(f"a block of {len(data)} bytes is shorter than its header", codec=_NAME)
    mode, dimensions = _BEGINNING.unpack_from(data)
    if mode not in (0, _WITH_COUNT):
        raise CodecError(f"the block has mode {mode}; blocks of numbers have mode 0 or 1", codec=_NAME)
    if dimensions != ndim:
        raise CodecError(f"the block has {dimensions} dimensions, the array {ndim}", codec=_NAME)
    block = tuple(_NUMBER.unpack_from(data, start)[0] for start in range(_BEGINNING.size, length, _NUMBER.size))
    if any(not 0 < size <= most for size, most in zip(block, shape)):
        raise CodecError(f"a block of shape {block} does not fit a chunk of shape {shape}", codec=_NAME)
    if mode == _WITH_COUNT:
        if len(data) < length + _NUMBER.size:
            raise CodecError(f"a block of {len(data)} bytes is shorter than its header", codec=_NAME)
        (count,) = _NUMBER.unpack_from(data, length)
        if count != prod(block):
            raise CodecError(f"a block of shape {block} can't have {count} elements", codec=_NAME)
        length += _NUMBER.size
    return block, length


def build(spec: CodecSpec, context: Context) -> N5Block:
    """Build the codec with the option ``codecs``: ``transpose``, ``bytes``, and at most one compressor."""
    check_options(spec, "codecs")
    inner = inner_specs(spec, "codecs")
    reverse = [*range(context.ndim)][::-1]
    usual = ["transpose", "bytes"]
    needed = [codec for codec in inner if codec.must_understand or codec.name in usual]
    if [codec.name for codec in needed[:2]] != usual or len(needed) > 3:
        message = "its codecs must be transpose, bytes and at most one compressor"
        raise MetadataError(message, field="codecs", codec=_NAME)
    if not context.ndim or needed[0].configuration.get("order") not in (reverse, tuple(reverse)):
        raise MetadataError("its first codec must reverse the axes", field="codecs.order", codec=_NAME)
    dtype = context.data_type.numpy
    if not context.data_type.is_fixed or dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise MetadataError(f"elements of type {context.data_type} can't be stored in N5", field="codecs", codec=_NAME)
    if dtype.itemsize > 1 and needed[1].configuration.get("endian") != "big":
        raise MetadataError("its elements must be big-endian", field="codecs.endian", codec=_NAME)
    chain = context.build(
        inner,
        context.data_type,
        None,
        allow_pickle=context.allow_pickle,
        ndim=context.ndim,
        chunk_shape=context.shape,
    )
    return N5Block(chain, dtype, context.shape)
