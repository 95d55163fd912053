"""``numcodecs.pcodec``: compression of numbers that makes use of their type."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any, Final

import numpy as np

from tegula.codecs.stages import (
    BufferCodec,
    Chunk,
    Context,
    Data,
    Decoder,
    Serializer,
    Shape,
    create_codec,
    flat,
    library,
    nbytes,
)
from tegula.errors import CodecError, MetadataError, UnsupportedError
from tegula.metadata.nodes import CodecSpec

__all__ = ["Pcodec", "PcodecFilter", "build", "build_filter"]

_NAME: Final = "numcodecs.pcodec"
_OTHER: Final = {f"{kind}{size}": f"{other}{size}" for kind, other in ("fi", "if") for size in (2, 4, 8)}
"""For each type of signed integers, the type of floating-point numbers with as many bits, and the reverse."""


def _decompress(data: Data, out: Chunk) -> Chunk:
    """Decompress into exactly `out`.

    Floating-point numbers may be stored as integers with the same bits, and the reverse: `bitround` of numcodecs
    returns integers, unless it keeps all bits.
    """
    raw, other = bytes(data), _OTHER.get(out.dtype.str[1:])
    try:
        progress = _decompress_into(raw, out)
    except CodecError as error:
        try:
            progress = _decompress_into(raw, out if other is None else out.view(other))
        except CodecError:
            raise error from error.__cause__
    if progress.n_processed != out.size or not progress.finished:
        raise CodecError(f"the pcodec data does not hold {out.size} elements", codec=_NAME)
    return out


def _decompress_into(raw: bytes, out: Chunk) -> Any:
    try:
        return library("pcodec.standalone").simple_decompress_into(raw, out)
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":  # a Rust panic: not an Exception
            raise CodecError(f"the pcodec data is damaged: {error}", codec=_NAME) from error
        raise


class Pcodec(Serializer):
    """Pcodec as the array→bytes codec."""

    name = _NAME

    def __init__(self, codec: Any, dtype: np.dtype[Any]) -> None:
        self.codec = codec
        self.dtype = dtype
        self.machine = dtype.newbyteorder("=")

    def encode(self, chunk: Chunk) -> Data:
        return self.codec.encode(np.ascontiguousarray(chunk, self.machine).reshape(-1))

    def decoder(self, shape: Shape, limit: int) -> Decoder:
        count, native, dtype = prod(shape), self.machine, self.dtype
        if nbytes(shape, dtype) > limit:
            raise CodecError(f"a chunk of {nbytes(shape, dtype)} bytes is larger than allowed", codec=_NAME)
        return lambda data: _decompress(data, np.empty(count, native)).astype(dtype, copy=False).reshape(shape)


class PcodecFilter(BufferCodec):
    """Pcodec as the compressor of Zarr v2, after the array→bytes codec."""

    name = _NAME

    def __init__(self, codec: Any, dtype: np.dtype[Any]) -> None:
        self.codec = codec
        self.dtype = dtype

    def encode(self, data: Data) -> Data:
        return self.codec.encode(data)

    def decoder(self, size: int | None, limit: int) -> Decoder:
        dtype = self.dtype
        if size is None or size % dtype.itemsize:
            raise UnsupportedError("pcodec needs to know the number of elements", codec=_NAME)
        return lambda data: flat(_decompress(data, np.empty(size // dtype.itemsize, dtype)))


@cache  # once per process
def _prepare() -> None:
    """Import pcodec and use it once, in this thread.

    A process may fork while a thread of the pool imports a library, or while the library prepares its first array with
    NumPy: the child would wait forever for that to end.
    """
    library("pcodec")
    standalone = library("pcodec.standalone")
    chunk = np.zeros(1, "u4")
    _decompress(standalone.simple_compress(chunk, library("pcodec").ChunkConfig()), chunk)


def _codec(spec: CodecSpec, dtype: np.dtype[Any]) -> Any:
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise MetadataError(f"pcodec can't compress elements of type {dtype}", field="codecs", codec=_NAME)
    _prepare()
    return create_codec(library("numcodecs.pcodec").PCodec, spec)


def build(spec: CodecSpec, context: Context) -> Pcodec:
    """Build the codec from the options of numcodecs."""
    dtype = context.data_type.numpy
    return Pcodec(_codec(spec, dtype), dtype)


def build_filter(spec: CodecSpec, context: Context) -> PcodecFilter:
    """Build the codec for a position after the array→bytes codec, where the type of the elements must be known."""
    if context.buffer is None:
        raise UnsupportedError("pcodec can't be used where the type of the elements is unknown", codec=_NAME)
    return PcodecFilter(_codec(spec, context.buffer), context.buffer)
