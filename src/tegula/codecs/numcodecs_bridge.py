"""``numcodecs.<id>``: any codec that is registered with numcodecs.

In Zarr v3 filters are before the array→bytes codec and process arrays; in Zarr v2 they are after it and process
buffers. A filter that changes the data type states the new type in its options, so that the input type of the next
codec is known.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from tegula.codecs.describing import filter_native
from tegula.codecs.native import NativeCodec
from tegula.codecs.stages import (
    ArrayCodec,
    BufferCodec,
    Chunk,
    Context,
    Data,
    Decoder,
    Serializer,
    Shape,
    exportable,
    flat,
    library,
    wrong_size,
)
from tegula.errors import CodecError, MetadataError, UnsupportedError
from tegula.metadata.data_types import DataType, data_type_of, dtype_of_text
from tegula.metadata.nodes import CodecSpec
from tegula.runtime.optional import failure_message

__all__ = ["build_array_codec", "build_buffer_codec", "build_serializer"]

_TYPED: Final = {"delta": "dtype", "fixedscaleoffset": "dtype", "quantize": "dtype", "astype": "decode_dtype"}
"""Filters that need the type of their input, and the option that states it."""
_LOSSY: Final = frozenset({"fixedscaleoffset", "quantize"})
"""Filters that round numbers: where they take the bytes in the wrong order, the numbers are lost."""
_TYPES: Final = ("dtype", "astype", "decode_dtype", "encode_dtype")
"""Options that state types."""

_CHECKSUMS: Final = frozenset({"fletcher32", "jenkins_lookup3"})
_SAME_SIZE: Final = frozenset({"shuffle", "bitround"})


def _codec(spec: CodecSpec, context: Context, dtype: np.dtype[Any] | None) -> Any:
    """Create the codec object of numcodecs, with the data type of its input if the options do not state it."""
    # complete the options
    name = spec.name.removeprefix("numcodecs.")
    options = {key: value for key, value in spec.configuration.items() if key != "id"}
    if dtype is not None and name in _TYPED:
        options = {_TYPED[name]: dtype.str, **{key: value for key, value in options.items() if value is not None}}
    if name == "shuffle":
        options.setdefault("elementsize", 4 if dtype is None else dtype.itemsize)
        if type(options["elementsize"]) is not int:
            raise MetadataError("elementsize must be an integer", field="codecs.elementsize", codec=spec.name)

    # create the object; a codec of another package may raise anything
    registry, errors, pickles = (library(f"numcodecs.{part}") for part in ("registry", "errors", "pickles"))
    try:
        if name in _TYPED:
            options |= {key: dtype_of_text(options[key]) for key in _TYPES if isinstance(options.get(key), str)}
        codec = registry.get_codec({"id": name, **options})
    except errors.UnknownCodecError as error:
        raise UnsupportedError(f"no codec {name!r:.80} is registered with numcodecs", field="codecs") from error
    except ImportError as error:
        raise UnsupportedError(failure_message(error.name or name, error), codec=spec.name) from error
    except Exception as error:
        raise MetadataError(f"the options are not valid: {error}", field="codecs", codec=spec.name) from error
    if isinstance(codec, pickles.Pickle) and not context.allow_pickle:
        raise UnsupportedError(
            "unpickling executes code that the data contains; pass allow_pickle=True if you trust their source",
            codec=spec.name,
        )
    return codec


def _dtypes(codec: Any) -> tuple[np.dtype[Any] | None, np.dtype[Any] | None]:
    """Return the dtypes of a filter's decoded and encoded elements; ``None`` for a dtype that is not fixed."""
    if hasattr(codec, "encode_dtype"):
        return codec.decode_dtype, codec.encode_dtype
    taken = getattr(codec, "dtype", None)
    return taken, getattr(codec, "astype", None) or taken


class _Filter(ArrayCodec):
    """A filter before the array→bytes codec.

    Parameters
    ----------
    name : str
        Its name.
    codec : object
        The codec of numcodecs.
    before, after : DataType
        Types of the elements before and after encoding.
    taken : dtype
        The type of the elements as the filter takes them.
    """

    def __init__(self, name: str, codec: Any, before: DataType, after: DataType, taken: np.dtype[Any]) -> None:
        self.name = name
        self.codec = codec
        self.before = before
        self.taken = taken
        self.data_type = after
        self.packs = name == "numcodecs.packbits"

    @property
    def native(self) -> NativeCodec | None:
        kind = self.name.removeprefix("numcodecs.")
        return None if kind in _CHECKSUMS or self.taken != self.before.numpy else filter_native(self.codec, self.taken)

    def shape(self, shape: Shape) -> Shape:
        return (1 + -(-prod(shape) // 8),) if self.packs else shape

    def fill(self, fill: Chunk) -> Chunk:
        return fill.astype(self.data_type.numpy)

    def encode(self, chunk: Chunk) -> Chunk:
        _refuse_booleans(self.name, self.codec)
        contiguous = np.ascontiguousarray(chunk, self.taken).reshape(chunk.shape)
        # some filters return a flat array, and bitround returns integers of the same size
        return _view(self.codec.encode(contiguous), self.data_type.numpy).reshape(self.shape(chunk.shape))

    def decoder(self, shape: Shape) -> Decoder:
        decode, taken, dtype = self.codec.decode, self.taken, self.before.numpy
        return lambda chunk: _view(decode(np.ascontiguousarray(chunk)), taken).reshape(shape).astype(dtype, copy=False)


def _refuse_booleans(name: str, codec: Any) -> None:
    """Refuse to encode booleans with delta, in an array that exists: numcodecs decodes most of them as True."""
    if name == "numcodecs.delta" and codec.dtype.kind == "b":
        raise UnsupportedError("booleans can't be restored from their differences; use another codec", codec=name)


def _view(decoded: Any, dtype: np.dtype[Any]) -> Chunk:
    array = np.asarray(decoded).reshape(-1, order="A")
    return array if array.dtype == dtype else array.view(dtype)


def build_array_codec(spec: CodecSpec, context: Context) -> ArrayCodec:
    """Build a filter that is before the array→bytes codec.

    Raises
    ------
    MetadataError
        If the filter does not support elements of this type, or its options are not valid.
    UnsupportedError
        If numcodecs does not have the filter, a package that it needs is missing, or the filter would round numbers
        whose bytes it takes in the wrong order.
    """
    data_type = context.data_type
    if data_type.variable:
        raise MetadataError(f"elements of type {data_type} can't be filtered", field="codecs", codec=spec.name)
    # numcodecs takes the bytes of elements for those of the type that the document states
    is_typed = spec.name.removeprefix("numcodecs.") in _TYPED
    input_type = data_type.numpy.newbyteorder("<") if is_typed and data_type.numpy.isnative else data_type.numpy
    codec = _codec(spec, context, input_type)
    taken, made = _dtypes(codec)
    if taken is not None and taken.itemsize != data_type.itemsize:
        raise MetadataError(
            f"the filter takes {taken}, the array has {data_type}", field="codecs.dtype", codec=spec.name
        )
    orders = set() if taken is None else {taken.str[0], input_type.str[0]}
    if taken is not None and orders == {"<", ">"} and spec.name.removeprefix("numcodecs.") in _LOSSY:
        raise UnsupportedError(
            f"the filter would take the bytes of numbers in another order, as {taken.str}, and round them to others",
            field="codecs.dtype",
            codec=spec.name,
        )
    if spec.name == "numcodecs.packbits":
        made = np.dtype("u1")
        if data_type.numpy.kind != "b":
            raise MetadataError(f"the filter takes bool, the array has {data_type}", field="codecs", codec=spec.name)
    return _Filter(spec.name, codec, data_type, data_type if made is None else data_type_of(made), input_type)


class _Buffer(BufferCodec):
    """A filter or compressor after the array→bytes codec."""

    def __init__(self, name: str, codec: Any, ratio: tuple[int, int] | None, context: Context) -> None:
        self.name = name
        self.codec = codec
        self.kind = name.removeprefix("numcodecs.")
        self.ratio = ratio
        self.buffer = _dtypes(codec)[1] if ratio else None
        self.input_type = context.buffer
        self.unit = context.unit if self.kind == "bitround" else None  # bitround returns integers of the same size

    @property
    def native(self) -> NativeCodec | None:
        return filter_native(self.codec, self.input_type)

    def size(self, size: int) -> int | None:
        if self.kind in _CHECKSUMS:
            return size + 4
        if self.kind in _SAME_SIZE:
            return size
        if self.kind == "packbits":
            return 1 + -(-size // 8)
        if self.kind == "base64":
            return -(-size // 3) * 4
        return None if self.ratio is None else size // self.ratio[0] * self.ratio[1]

    def decoder(self, size: int | None, limit: int) -> Decoder:
        name, decode_any = self.name, self.codec.decode
        expected = None if size is None else self.size(size)
        least = 4 if self.kind in _CHECKSUMS else 0

        def decode(data: Data) -> Data:
            if len(data) < least or (expected is not None and len(data) != expected):
                raise wrong_size(len(data), expected or least, name)
            decoded = decode_any(data)
            if isinstance(decoded, np.ndarray):
                decoded = decoded.reshape(-1, order="A")
                if decoded.dtype.hasobject:
                    raise CodecError("the codec returned objects instead of bytes", codec=name)
            decoded = flat(decoded)
            if len(decoded) > limit or (size is not None and len(decoded) != size):
                raise wrong_size(len(decoded), limit, name)
            return decoded

        return decode

    def encode(self, data: Data) -> Data:
        _refuse_booleans(self.name, self.codec)
        return self.codec.encode(data)


def build_buffer_codec(spec: CodecSpec, context: Context) -> BufferCodec:
    """Build a filter or compressor that is after the array→bytes codec; raises as `build_array_codec` does."""
    codec = _codec(spec, context, context.buffer)
    taken, made = _dtypes(codec)
    known = isinstance(taken, np.dtype) and isinstance(made, np.dtype) and taken.itemsize and made.itemsize
    ratio = (taken.itemsize, made.itemsize) if known and taken is not None and made is not None else None
    return _Buffer(spec.name, codec, ratio, context)


class _Serializer(Serializer):
    """A codec that converts an array of objects, or of any elements, to bytes."""

    def __init__(self, name: str, codec: Any, data_type: DataType) -> None:
        self.name = name
        self.codec = codec
        self.dtype = data_type.numpy
        made = _dtypes(codec)[1] if name == "numcodecs.categorize" else None
        self.made = made
        self.buffer = None if made is None else exportable(made)

    def size(self, shape: Shape) -> int | None:
        return None if self.made is None else prod(shape) * self.made.itemsize

    def encode(self, chunk: Chunk) -> Data:
        return self.codec.encode(np.ascontiguousarray(chunk).reshape(chunk.shape))

    def decoder(self, shape: Shape, limit: int) -> Decoder:
        size, decode_any, dtype, name, count = self.size(shape), self.codec.decode, self.dtype, self.name, prod(shape)

        def decode(data: Data) -> Chunk:
            if size is not None and len(data) != size:
                raise wrong_size(len(data), size, name)
            decoded = np.asarray(decode_any(data)).reshape(-1, order="A")
            if decoded.size != count:
                raise CodecError(f"there are {decoded.size} elements where the chunk has {count}", codec=name)
            return decoded.astype(dtype, copy=False).reshape(shape)

        return decode


def build_serializer(spec: CodecSpec, context: Context) -> Serializer:
    """Build a codec that is the array→bytes codec itself; raises as `build_array_codec` does."""
    return _Serializer(spec.name, _codec(spec, context, None), context.data_type)
