"""A chain of codecs (Zarr v3 core, section "Codecs"): array→array codecs, one array→bytes codec, bytes→bytes codecs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from tegula import config
from tegula.codecs.describing import describe
from tegula.codecs.native import NativeChain
from tegula.codecs.registry import builder, check_pickle, is_ignored, serializer_position
from tegula.codecs.stages import (
    ArrayCodec,
    BufferCodec,
    Chunk,
    Codec,
    Context,
    Data,
    Decoder,
    Serializer,
    Shape,
    flat,
    wrong_size,
)
from tegula.errors import CodecError, MetadataError, TegulaError, UnsupportedError, out_of_memory
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import CodecSpec

__all__ = ["CodecChain", "build_chain", "build_steps"]

Step: TypeAlias = tuple[CodecSpec, Codec | None, DataType, int, Shape | None]
_MAX_PLANS: Final = 256
_MARGIN: Final = 2**16  # bytes by which compressed data may exceed twice the size of their content


class CodecChain:
    """An encoder and decoder of the chunks of an array, built by `build_chain`; several threads may use it at once.

    Attributes
    ----------
    sharding : Sharding or None
        The sharding codec if it is the only codec of the chain, so that inner chunks can be read on their own.
    """

    __slots__ = (
        "_encoders",
        "_names",
        "_native",
        "_plain",
        "_plans",
        "array_codecs",
        "buffer_codecs",
        "serializer",
        "sharding",
    )

    def __init__(self, arrays: Sequence[ArrayCodec], serializer: Serializer, buffers: Sequence[BufferCodec]) -> None:
        self.array_codecs = tuple(arrays)
        self.serializer = serializer
        self.buffer_codecs = tuple(buffers)
        codecs: list[Codec] = [*arrays, serializer, *buffers]
        self._names = tuple(codec.name for codec in codecs)
        self._encoders = tuple(codec.encode for codec in codecs)
        self._plain = None if arrays else serializer.plain
        self._plans: dict[Shape, tuple[Decoder, ...]] = {}
        self._native: tuple[NativeChain | None] | None = None  # until it is first needed
        self.sharding = serializer.sharding if not arrays and not buffers else None

    @property
    def native(self) -> NativeChain | None:
        """The chain for tegula's compiled kernel; ``None`` if the kernel does not support all of it.

        See `tegula.codecs.describing.describe`.
        """
        if self._native is None:
            self._native = (describe(self.array_codecs, self.serializer, self.buffer_codecs),)
        return self._native[0]

    @property
    def item_nbytes(self) -> int | None:
        """Bytes of an element if a chunk is stored as its elements in C order and nothing else; otherwise ``None``."""
        plain = not self.array_codecs and not self.buffer_codecs and self.serializer.name == "bytes"
        return self.serializer.size((1,)) if plain else None

    def load(self) -> None:
        """Import the libraries of all codecs; a failure is reported when the codec is used.

        A thread calls this before it passes chunks to a pool: if the process forks while a thread of the pool imports a
        library, the child inherits a locked import lock without the thread that would release it.
        """
        codecs: list[Serializer | BufferCodec] = [self.serializer, *self.buffer_codecs]
        for codec in codecs:
            with suppress(UnsupportedError):
                codec.load()

    def encode(self, chunk: Chunk) -> Data:
        """Encode a chunk.

        Parameters
        ----------
        chunk : ndarray
            A whole chunk of the array's dtype, in any memory layout; it is not modified.

        Returns
        -------
        bytes or memoryview
            One-dimensional; may share memory with `chunk`.

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
        """Decode a chunk.

        Parameters
        ----------
        data : bytes or contiguous buffer
            The stored bytes of the chunk.
        shape : tuple of int
            Shape of the chunk.

        Returns
        -------
        ndarray
            The chunk, of `shape` and the array's dtype; may be a read-only view of `data`.

        Raises
        ------
        CodecError
            If the bytes are damaged, or those of a chunk of another shape.
        UnsupportedError
            If the chunk is larger than the setting ``max_chunk_bytes``, or a library is missing.
        """
        # run the decoders, last codec first
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

        # elements that are stored as they are in memory need no decoder
        if self._plain is not None:
            size = prod(shape) * self._plain.itemsize
            if len(value) != size:
                raise wrong_size(len(value), size, "bytes")
            value = np.ndarray(shape, self._plain, value)
        result: Chunk = value
        return result

    def rows(self, data: Data, shape: Shape) -> int:
        """Return how many rows the bytes of a chunk hold, according to the header of the last codec.

        Parameters
        ----------
        data : bytes
            The stored bytes of the chunk.
        shape : tuple of int
            The largest shape that the chunk may have.

        Returns
        -------
        int
            Number of rows, at most ``shape[0]``, which is also the result if the header does not state a size.

        Raises
        ------
        CodecError
            If the size is not a whole number of rows, or more than the chunk can hold.
        """
        outermost = self.buffer_codecs[-1] if self.buffer_codecs else None
        row = self._sizes((1, *shape[1:]))[0][0] if shape[0] > 1 else None
        nbytes = None if outermost is None else outermost.content_size(data)
        if nbytes is None or not row:
            return shape[0]
        if nbytes % row or nbytes > row * shape[0]:
            raise CodecError(
                f"there are {nbytes} bytes where the chunk holds up to {shape[0]} rows of {row}", codec=self._names[-1]
            )
        return nbytes // row

    def excess(self, data: Data, shape: Shape) -> int:
        """Return how many bytes at the end of the bytes of a chunk, which can be decoded, the last codec ignores."""
        if not self.buffer_codecs:
            return 0
        sizes, limits, _ = self._limits(shape)
        return self.buffer_codecs[-1].excess(data if type(data) is bytes else flat(data), sizes[-2], limits[-2])

    def encoded_size(self, shape: Shape) -> int | None:
        """Return the size in bytes of an encoded chunk of `shape`, or ``None`` if it depends on the values."""
        sizes, _ = self._sizes(shape)
        return sizes[-1]

    def _sizes(self, shape: Shape) -> tuple[list[int | None], Shape]:
        """Return the sizes after the array→bytes codec and after each codec that follows, and the shape before it."""
        for codec in self.array_codecs:
            shape = codec.shape(shape)
        size = self.serializer.size(shape)
        sizes = [size]
        for buffer in self.buffer_codecs:
            size = None if size is None else buffer.size(size)
            sizes.append(size)
        return sizes, shape

    def _limits(self, shape: Shape) -> tuple[list[int | None], list[int], Shape]:
        """Return what `_sizes` returns, and between both a limit for each size: for the size of the elements, and a
        generous multiple of it for compressed data.
        """
        most = config.current().max_chunk_bytes
        sizes, inner = self._sizes(shape)
        if (sizes[0] or 0) > most:
            raise UnsupportedError(f"a chunk of {sizes[0]} bytes is larger than max_chunk_bytes allows ({most})")
        limit = most if sizes[0] is None else sizes[0]
        limits = [limit]
        for size in sizes[1:]:
            limit = most if sizes[0] is None else size if size is not None else 2 * limit + _MARGIN
            limits.append(limit)
        return sizes, limits, inner

    def _plan(self, shape: Shape) -> tuple[Decoder, ...]:
        """Return the decoders for chunks of `shape`, last codec first, each with a limit on the size of its output."""
        sizes, limits, inner = self._limits(shape)
        steps: list[Decoder] = [
            codec.decoder(size, limit) for codec, size, limit in reversed([*zip(self.buffer_codecs, sizes, limits)])
        ]
        if self._plain is None:
            steps.append(self.serializer.decoder(inner, config.current().max_chunk_bytes))
        shapes = [shape]
        for codec in self.array_codecs[:-1]:
            shapes.append(codec.shape(shapes[-1]))
        steps += [codec.decoder(before) for codec, before in reversed([*zip(self.array_codecs, shapes)])]
        plan = tuple(steps)
        if sizes[0] is not None:  # otherwise the limit is the setting max_chunk_bytes, which may change
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
    """Build a codec chain from a list of codec descriptions.

    Parameters
    ----------
    specs : sequence of CodecSpec
        The codecs in the order of encoding.
    data_type : DataType
        Type of the array's elements.
    fill_value : 0-d ndarray or None
        The array's fill value.
    allow_pickle : bool
        Whether a codec may unpickle, which executes code that the data contain.
    ndim : int
        Number of dimensions.
    chunk_shape : tuple of int, optional
        Shape of the chunks, if all have the same shape; the shape of inner chunks is then checked at once.
    keep_empty : bool, optional
        Whether shards store inner chunks that equal the fill value; the default is the setting
        ``write_empty_chunks``.

    Raises
    ------
    MetadataError
        If the order of the codecs or a configuration is not valid.
    UnsupportedError
        If a codec is unknown or not installed, or unpickles although that is not allowed.

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
    for _, codec, *_ in _steps(specs, context):
        if isinstance(codec, ArrayCodec):
            arrays.append(codec)
        elif isinstance(codec, Serializer):
            serializer = codec
        elif codec is not None:
            buffers.append(codec)
    if serializer is None:
        raise MetadataError("the chain has no array→bytes codec", field="codecs")
    return CodecChain(arrays, serializer, buffers)


def build_steps(
    specs: Sequence[CodecSpec], data_type: DataType, *, ndim: int, chunk_shape: Shape | None = None
) -> list[Step]:
    """Build the codecs of a chain one by one, to inspect each in its position.

    Parameters
    ----------
    specs, data_type, ndim, chunk_shape
        As for `build_chain`.

    Returns
    -------
    list of (CodecSpec, codec or None, DataType, int, tuple of int or None)
        Description, codec (``None`` if it changes nothing), and data type, number of dimensions and shape of its input.
    """
    try:
        return [*_steps(specs, Context(data_type, None, ndim, chunk_shape, True, build_chain))]
    except RecursionError as error:
        raise MetadataError("the codecs are nested too deeply", field="codecs") from error


def _steps(specs: Sequence[CodecSpec], context: Context) -> Iterator[Step]:
    """Build codec after codec and update the context; yield with each what is known of its input."""
    middle = serializer_position(specs, context.data_type)
    for position, spec in enumerate(specs):
        # build it
        check_pickle(spec, context.allow_pickle)
        before, ndim, shape = context.data_type, context.ndim, context.shape
        try:
            codec = builder(spec.name, (position > middle) - (position < middle))(spec, context)
        except UnsupportedError as error:
            if is_ignored(spec, error):
                yield spec, None, before, ndim, shape
                continue
            raise error.within(codec=spec.name) from error.__cause__

        # its output is the input of the next codec
        if isinstance(codec, ArrayCodec):
            _pass_array_codec(
                context, codec, wants_fill=middle < len(specs) and specs[middle].name == "sharding_indexed"
            )
        elif isinstance(codec, Serializer):
            context.buffer = codec.buffer
            context.unit = codec.buffer.itemsize if codec.buffer is not None else 1
        elif codec is not None:
            context.buffer = codec.buffer
            context.unit = codec.unit or (codec.buffer.itemsize if codec.buffer is not None else 1)
        yield spec, codec, before, ndim, shape


def _pass_array_codec(context: Context, codec: ArrayCodec, wants_fill: bool) -> None:
    """Update the context for the output of an array→array codec.

    Only shards need the encoded fill value, and not every codec can encode it.
    """
    context.data_type = codec.data_type
    if context.shape is not None:
        context.shape = codec.shape(context.shape)
    context.ndim = codec.ndim(context.ndim)
    if wants_fill and context.fill is not None:
        context.fill = codec.fill(context.fill)
