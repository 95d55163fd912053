"""A chain of codecs: ``[array -> array ...] [array -> bytes] [bytes -> bytes ...]`` (Zarr v3 core, "codecs").

The codecs of the array formats are known by name, each in a module of its own that is imported when an array first
needs it. Any other codec registered with numcodecs goes by ``numcodecs.<id>``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from math import prod
from typing import Any, Final

import numpy as np

from tegula import config
from tegula.codecs.native import describe
from tegula.codecs.stages import (
    ArrayCodec,
    BufferCodec,
    Chunk,
    Codec,
    Context,
    Data,
    Decoder,
    NativeChain,
    Serializer,
    Shape,
    flat,
    library,
    wrong_size,
)
from tegula.errors import CodecError, MetadataError, TegulaError, UnsupportedError, out_of_memory
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import CodecSpec

__all__ = ["CodecChain", "build_chain", "build_steps", "known_codecs", "serializer_position"]

_PREFIX: Final = "numcodecs."
_ARRAYS: Final = {
    "transpose": "transpose", "cast_value": "cast_value", "scale_offset": "scale_offset",
}  # fmt: skip
_SERIALIZERS: Final = {
    "bytes": "bytes", "sharding_indexed": "sharding", "packbits": "packbits",
    "vlen-utf8": "vlen", "vlen-bytes": "vlen", "numcodecs.vlen-utf8": "vlen", "numcodecs.vlen-bytes": "vlen",
    "numcodecs.vlen-array": "vlen", "numcodecs.json2": "objects", "numcodecs.json": "objects",
    "numcodecs.msgpack2": "objects", "numcodecs.msgpack": "objects", "numcodecs.pickle": "objects",
    "numcodecs.pcodec": "pcodec", "numcodecs.zfpy": "zfpy", "bcolz.pickle": "objects",
}  # fmt: skip
_BUFFERS: Final = {
    "blosc": "blosc", "numcodecs.blosc": "blosc", "gzip": "deflate", "numcodecs.gzip": "deflate",
    "numcodecs.zlib": "deflate", "numcodecs.bz2": "bz2", "numcodecs.lzma": "lzma", "zstd": "zstd",
    "numcodecs.zstd": "zstd", "numcodecs.lz4": "lz4", "crc32c": "checksums", "numcodecs.crc32c": "checksums",
    "numcodecs.crc32": "checksums", "numcodecs.adler32": "checksums", "blpk": "blpk",
}  # fmt: skip
_PICKLES: Final = frozenset({"pickle", "numcodecs.pickle", "bcolz.pickle", "dill", "cloudpickle"})
_MAX_PLANS: Final = 256

_builders: dict[tuple[str, str], Callable[[CodecSpec, Context], Any]] = {}


class CodecChain:
    """Makes bytes of chunks and chunks of bytes; made by `build_chain`, safe to use from several threads at once.

    Attributes
    ----------
    sharding : Sharding or None
        The shard codec, if the chain consists of nothing else, so that parts of a shard can be read on their own.
    """

    __slots__ = ("_arrays", "_buffers", "_encoders", "_names", "_plain", "_plans", "_serializer", "sharding")

    def __init__(self, arrays: Sequence[ArrayCodec], serializer: Serializer, buffers: Sequence[BufferCodec]) -> None:
        self._arrays = tuple(arrays)
        self._serializer = serializer
        self._buffers = tuple(buffers)
        codecs: list[Codec] = [*arrays, serializer, *buffers]
        self._names = tuple(codec.name for codec in codecs)
        self._encoders = tuple(codec.encode for codec in codecs)
        self._plain = None if arrays else serializer.plain
        self._plans: dict[Shape, tuple[Decoder, ...]] = {}
        self.sharding = serializer.sharding if not arrays and not buffers else None

    @property
    def native(self) -> NativeChain | None:
        """The chain for tegula's compiled kernel; ``None`` if it can't do all of it.

        See `tegula.codecs.native.describe`.
        """
        return describe(self._arrays, self._serializer, self._buffers)

    def load(self) -> None:
        """Import the libraries of all codecs; one that can't be imported is reported when it is used.

        A thread does this before it hands chunks to others. While one of those imports a library, a fork would leave
        the child with the lock on that import, and without the thread that releases it.
        """
        codecs: list[Serializer | BufferCodec] = [self._serializer, *self._buffers]
        for codec in codecs:
            with suppress(UnsupportedError):
                codec.load()

    def encode(self, chunk: Chunk) -> Data:
        """Make the bytes of a chunk.

        Parameters
        ----------
        chunk : ndarray
            A whole chunk of the array's dtype, in any memory layout; it is not changed.

        Returns
        -------
        bytes or memoryview
            Flat; may share memory with `chunk`.

        Raises
        ------
        CodecError
            If a codec can't encode these values.
        """
        data: Any = chunk
        step = self._encoders[0]
        try:
            for step in self._encoders:
                data = step(data)
            return data if type(data) is bytes else flat(data)
        except TegulaError as error:
            raise error.within(codec=self._names[self._encoders.index(step)]) from error.__cause__
        except MemoryError as error:
            raise out_of_memory(error).within(codec=self._names[self._encoders.index(step)]) from error
        except Exception as error:
            name = self._names[self._encoders.index(step)]
            raise CodecError(f"a chunk could not be encoded: {error}", codec=name) from error

    def decode(self, data: Data, shape: Shape) -> Chunk:
        """Make the chunk of bytes.

        Parameters
        ----------
        data : bytes or contiguous buffer
            What is stored for the chunk.
        shape : tuple of int
            The chunk's shape.

        Returns
        -------
        ndarray
            Of `shape` and the array's dtype; may be a read-only view of `data`.

        Raises
        ------
        CodecError
            If the bytes are damaged, or not those of a chunk of that shape.
        """
        plan = self._plans.get(shape)
        if plan is None:
            plan = self._plan(shape)
        value: Any = data if type(data) is bytes else flat(data)
        step: Any = None
        try:
            for step in plan:
                value = step(value)
        except TegulaError as error:
            raise error.within(codec=self._names[-1 - plan.index(step)]) from error.__cause__
        except MemoryError as error:
            raise out_of_memory(error).within(codec=self._names[-1 - plan.index(step)]) from error
        except Exception as error:
            name = self._names[-1 - plan.index(step)]
            raise CodecError(f"a chunk could not be decoded: {error}", codec=name) from error
        if self._plain is not None:
            size = prod(shape) * self._plain.itemsize
            if len(value) != size:
                raise wrong_size(len(value), size, "bytes")
            value = np.ndarray(shape, self._plain, value)
        result: Chunk = value
        return result

    def rows(self, data: Data, shape: Shape) -> int:
        """Return how many rows are in the bytes of a chunk of at most `shape`, as the codec outermost tells.

        Raises
        ------
        CodecError
            If they are no whole number of rows, or more than the chunk can hold.
        """
        outermost = self._buffers[-1] if self._buffers else None
        row = self._sizes((1, *shape[1:]))[0][0] if shape[0] > 1 else None
        found = None if outermost is None else outermost.content_size(data)
        if found is None or not row:
            return shape[0]
        if found % row or found > row * shape[0]:
            raise CodecError(
                f"there are {found} bytes where the chunk holds up to {shape[0]} rows of {row}", codec=self._names[-1]
            )
        return found // row

    def excess(self, data: Data) -> int:
        """Return how many bytes at the end of `data` decoding takes no notice of, as the codec outermost tells."""
        return self._buffers[-1].excess(data) if self._buffers else 0

    def encoded_size(self, shape: Shape) -> int | None:
        """Return how many bytes a chunk of `shape` is encoded to, ``None`` if that depends on its values."""
        sizes, _ = self._sizes(shape)
        return sizes[-1]

    def _sizes(self, shape: Shape) -> tuple[list[int | None], Shape]:
        for codec in self._arrays:
            shape = codec.shape(shape)
        size = self._serializer.size(shape)
        sizes = [size]
        for buffer in self._buffers:
            size = None if size is None else buffer.size(size)
            sizes.append(size)
        return sizes, shape

    def _plan(self, shape: Shape) -> tuple[Decoder, ...]:
        """Make the decoders for chunks of `shape`, last codec first, each knowing how much may come out of it."""
        most = config.current().max_chunk_bytes
        sizes, inner = self._sizes(shape)
        if (sizes[0] or 0) > most:
            raise UnsupportedError(f"a chunk of {sizes[0]} bytes is larger than max_chunk_bytes allows ({most})")
        limit = most if sizes[0] is None else sizes[0]
        limits = [limit]
        for size in sizes[1:]:
            # compressed data can be larger than what went in, but not by much
            limit = most if sizes[0] is None else size if size is not None else 2 * limit + 65536
            limits.append(limit)
        steps: list[Decoder] = [
            codec.decoder(size, limit) for codec, size, limit in reversed([*zip(self._buffers, sizes, limits)])
        ]
        if self._plain is None:
            steps.append(self._serializer.decoder(inner, most))
        shapes = [shape]
        for codec in self._arrays[:-1]:
            shapes.append(codec.shape(shapes[-1]))
        steps += [codec.decoder(before) for codec, before in reversed([*zip(self._arrays, shapes)])]
        plan = tuple(steps)
        if sizes[0] is not None:  # without a fixed size the limit may change with the configuration
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[shape] = plan
        return plan


def build_chain(
    specs: Sequence[CodecSpec],
    data_type: DataType,
    fill_value: Chunk | None,
    *,
    allow_pickle: bool = False,
    ndim: int,
    chunk_shape: Shape | None = None,
    keep_empty: bool | None = None,
) -> CodecChain:
    """Build the chain that a list of codecs describes.

    Parameters
    ----------
    specs : sequence of CodecSpec
        The codecs in the order of encoding.
    data_type : DataType
        Type of the array's elements.
    fill_value : 0-d ndarray or None
        The array's fill value.
    allow_pickle : bool
        Whether a codec may unpickle, which runs code that the data brings along.
    ndim : int
        Number of dimensions.
    chunk_shape : tuple of int, optional
        The chunks' shape, if all have the same; lets shards be checked at once.
    keep_empty : bool, optional
        Whether shards keep inner chunks that are equal to the fill value, instead of what the configuration says.

    Raises
    ------
    MetadataError
        If the codecs are in no valid order, or a configuration is not valid.
    UnsupportedError
        If a codec is not known or not installed, or unpickles without leave.

    Examples
    --------
    >>> import numpy as np
    >>> from tegula.metadata.data_types import as_data_type
    >>> specs = [CodecSpec("bytes", {"endian": "big"}), CodecSpec("crc32c")]
    >>> chain = build_chain(specs, as_data_type("<u2"), None, ndim=1)
    >>> data = chain.encode(np.array([1, 2], "<u2"))
    >>> data.hex(), chain.decode(data, (2,))
    ('000100024ea91d0c', array([1, 2], dtype=uint16))
    """
    try:
        context = Context(data_type, fill_value, ndim, chunk_shape, allow_pickle, build_chain, keep_empty)
        return _build(specs, context)
    except RecursionError as error:
        raise MetadataError("the codecs are nested too deeply", field="codecs") from error


def _build(specs: Sequence[CodecSpec], context: Context) -> CodecChain:
    arrays: list[ArrayCodec] = []
    buffers: list[BufferCodec] = []
    serializer: Serializer | None = None
    for _, codec, _, _ in _steps(specs, context):
        if isinstance(codec, ArrayCodec):
            arrays.append(codec)
        elif isinstance(codec, Serializer):
            serializer = codec
        elif codec is not None:
            buffers.append(codec)
    if serializer is None:
        raise MetadataError("no codec of the chain makes bytes of an array", field="codecs")
    return CodecChain(arrays, serializer, buffers)


def build_steps(
    specs: Sequence[CodecSpec], data_type: DataType, *, ndim: int, chunk_shape: Shape | None = None
) -> list[tuple[CodecSpec, Codec | None, DataType, int]]:
    """Build the codecs of a chain one by one, for what can be known of each in its place; none of them is used.

    Parameters
    ----------
    specs, data_type, ndim, chunk_shape
        As for `build_chain`.

    Returns
    -------
    list of (CodecSpec, codec or None, DataType, int)
        Description, codec (``None`` for one that changes nothing), and type and number of dimensions of what it takes.
    """
    try:
        return [*_steps(specs, Context(data_type, None, ndim, chunk_shape, True, build_chain))]
    except RecursionError as error:
        raise MetadataError("the codecs are nested too deeply", field="codecs") from error


def _steps(specs: Sequence[CodecSpec], context: Context) -> Iterator[tuple[CodecSpec, Codec | None, DataType, int]]:
    """Build codec after codec and move the context along; yield with each the type and dimensions of its input."""
    middle = serializer_position(specs, context.data_type)
    for position, spec in enumerate(specs):
        if spec.name in _PICKLES or _mentions_pickle(spec.configuration):
            _allow(context, spec.name)
        before, ndim = context.data_type, context.ndim
        try:
            codec = _builder(spec.name, (position > middle) - (position < middle))(spec, context)
        except UnsupportedError as error:
            if error.codec is None and not spec.must_understand:
                yield spec, None, before, ndim  # an unknown codec that may be ignored
                continue
            raise error.within(codec=spec.name) from error.__cause__
        if isinstance(codec, ArrayCodec):
            _move(context, codec, wants_fill=middle < len(specs) and specs[middle].name == "sharding_indexed")
        elif isinstance(codec, Serializer):
            context.buffer = codec.buffer
            context.unit = codec.buffer.itemsize if codec.buffer is not None else 1
        elif codec is not None:
            context.buffer = codec.buffer
            context.unit = codec.unit or (codec.buffer.itemsize if codec.buffer is not None else 1)
        yield spec, codec, before, ndim


def known_codecs() -> list[str]:
    """Return the names that codecs of a chain can have, those registered with numcodecs among them.

    Examples
    --------
    >>> {"bytes", "zstd", "numcodecs.delta"} <= {*known_codecs()}
    True
    """
    registry: Mapping[str, Any] = {}
    with suppress(UnsupportedError):
        registry = library("numcodecs.registry").codec_registry
    return sorted({*_ARRAYS, *_SERIALIZERS, *_BUFFERS, *(_PREFIX + name for name in registry)})


def serializer_position(specs: Sequence[CodecSpec], data_type: DataType) -> int:
    """Return the position of the one codec that makes bytes of an array.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> serializer_position([CodecSpec("transpose"), CodecSpec("bytes"), CodecSpec("zstd")], as_data_type("f8"))
    1
    """
    for position, spec in enumerate(specs):
        if spec.name in _SERIALIZERS or (spec.name == "numcodecs.categorize" and data_type.variable):
            return position
    return len(specs)


def _move(context: Context, codec: ArrayCodec, wants_fill: bool) -> None:
    """Go past an array→array codec; only shards need the fill value, which not every codec can encode."""
    context.data_type = codec.data_type
    if context.shape is not None:
        context.shape = codec.shape(context.shape)
        context.ndim = len(context.shape)
    else:
        context.ndim = len(codec.shape((1,) * context.ndim))
    if wants_fill and context.fill is not None:
        context.fill = codec.fill(context.fill)


def _builder(name: str, side: int) -> Callable[[CodecSpec, Context], Any]:
    """Return what builds the codec `name` before (-1), at (0) or after (1) the array→bytes codec."""
    table, entry = ((_ARRAYS, "array"), (_SERIALIZERS, "serializer"), (_BUFFERS, "buffer"))[side + 1]
    if name in table:
        module, entry = table[name], "build"
    elif side > 0 and name == "numcodecs.pcodec":
        module, entry = "pcodec", "build_filter"
    elif (
        name in _ARRAYS
        or name in _BUFFERS
        or name in ("bytes", "sharding_indexed", "packbits", "vlen-utf8", "vlen-bytes")
    ):
        raise MetadataError("the codec does not belong at this place of the chain", field="codecs", codec=name)
    elif name.startswith(_PREFIX):
        module = "numcodecs_bridge"
    else:
        raise UnsupportedError(f"no codec is called {name!r:.80}", field="codecs")
    key = (module, entry)
    if key not in _builders:
        _builders[key] = getattr(import_module(f"tegula.codecs.{module}"), entry)
    return _builders[key]


def _mentions_pickle(value: Any) -> bool:
    """Whether a codec that unpickles hides in a configuration."""
    if isinstance(value, Mapping):
        return any(value.get(key) in [*_PICKLES] for key in ("id", "name")) or any(
            map(_mentions_pickle, value.values())
        )
    return isinstance(value, (list, tuple)) and any(map(_mentions_pickle, value))


def _allow(context: Context, name: str) -> None:
    if not context.allow_pickle:
        raise UnsupportedError(
            "unpickling runs code that the data brings along; pass allow_pickle=True if you trust its source",
            codec=name,
        )
