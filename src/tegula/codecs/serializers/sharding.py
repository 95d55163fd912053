"""``sharding_indexed``: many inner chunks in one stored value (Zarr v3 core, "sharding codec").

A shard consists of its encoded inner chunks and, at the end or at the start, an index with the offset and the length of
each in bytes. A missing inner chunk reads as the fill value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np

from tegula import config
from tegula.codecs.fill import equals_fill
from tegula.codecs.native import NativeChain, NativeShards
from tegula.codecs.stages import REQUIRED, Chunk, Context, Data, Decoder, Serializer, Shape, check_options, option
from tegula.errors import CodecError, MetadataError
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import CodecSpec

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["EMPTY", "INDEX_TYPE", "InnerChain", "Sharding", "build", "inner_specs"]

EMPTY: Final = 2**64 - 1
"""Offset and length of a missing inner chunk in the index."""

_MAX_INDEX: Final = 2**28  # bytes
INDEX_TYPE: Final = DataType(np.dtype("<u8"))
"""Type of the numbers in an index."""
_INDEX_CODECS: Final = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]

Coords = tuple[int, ...]
Index: TypeAlias = "npt.NDArray[np.uint64]"


class InnerChain(Protocol):
    """The methods of `CodecChain` that sharding uses; this module can't import the class, whose module imports it."""

    @property
    def sharding(self) -> Sharding | None:
        """The sharding codec of nested shards."""

    @property
    def native(self) -> NativeChain | None:
        """The chain for the kernel, or ``None``."""

    def load(self) -> None:
        """Import the libraries of all codecs."""

    def encode(self, chunk: Chunk) -> Data:
        """Encode a chunk."""

    def decode(self, data: Data, shape: Shape) -> Chunk:
        """Decode a chunk."""

    def excess(self, data: Data, shape: Shape) -> int:
        """Return how many bytes at the end of the bytes of a chunk the last codec ignores."""

    def encoded_size(self, shape: Shape) -> int | None:
        """Return the size in bytes of an encoded chunk of `shape`, or ``None`` if it depends on the values."""


class Sharding(Serializer):
    """The sharding codec of an array; it encodes and decodes whole shards, and reads and writes their parts.

    Parameters
    ----------
    inner_shape : tuple of int
        Shape of an inner chunk.
    inner : CodecChain
        The codecs of inner chunks.
    index : CodecChain
        The codecs of the index, which encode to a fixed size.
    index_at_start : bool
        Whether the index comes first.
    data_type : DataType
        Type of the elements.
    fill : 0-d ndarray or None
        Value of the elements of missing inner chunks; zero if ``None``.
    keep_empty : bool or None
        Whether `encode` stores inner chunks that equal the fill value; ``None`` for the setting
        ``write_empty_chunks``.
    """

    name = "sharding_indexed"

    def __init__(
        self,
        *,
        inner_shape: Shape,
        inner: InnerChain,
        index: InnerChain,
        index_at_start: bool,
        data_type: DataType,
        fill: Chunk | None,
        keep_empty: bool | None = None,
    ) -> None:
        self.inner_shape = inner_shape
        self.inner = inner
        self.index = index
        self.index_at_start = index_at_start
        self.dtype = data_type.numpy
        self.fill = fill
        self.keep_empty = keep_empty
        self.sharding = self

    @property
    def native(self) -> NativeShards | None:
        inner, index = self.inner.native, self.index.native
        if inner is None or index is None:
            return None
        return NativeShards(self.inner_shape, inner, index, self.index_at_start)

    def grid_shape(self, shard_shape: Shape) -> Shape:
        """Return the number of inner chunks along each axis of a shard.

        Raises
        ------
        MetadataError
            If the shape of a shard is not a multiple of the shape of inner chunks.
        """
        if len(shard_shape) != len(self.inner_shape) or any(s % c for s, c in zip(shard_shape, self.inner_shape)):
            raise MetadataError(
                f"inner chunks of shape {self.inner_shape} don't fill a shard of shape {shard_shape}",
                field="codecs.chunk_shape",
                codec=self.name,
            )
        return tuple(s // c for s, c in zip(shard_shape, self.inner_shape))

    def index_nbytes(self, shard_shape: Shape) -> int:
        """Return the size in bytes of the index of a shard."""
        size = self.index.encoded_size((*self.grid_shape(shard_shape), 2))
        return 0 if size is None else size

    def decode_index(self, data: Data, shard_shape: Shape, shard_nbytes: int | None = None) -> Index:
        """Decode the index of a shard.

        Parameters
        ----------
        data : bytes
            The `index_nbytes` bytes of the index.
        shard_shape : tuple of int
            Shape of the shard.
        shard_nbytes : int, optional
            Size of the stored shard in bytes, if known.

        Returns
        -------
        ndarray of uint64, shape (*grid, 2)
            Offset from the start of the shard and length of each inner chunk in bytes; both `EMPTY` for a missing one.

        Raises
        ------
        CodecError
            If the index is damaged, or an entry points outside of the shard.
        """
        grid = self.grid_shape(shard_shape)
        index: Index = self.index.decode(data, (*grid, 2)).astype(np.uint64, copy=False)
        offsets, lengths = index[..., 0], index[..., 1]
        limit = np.uint64(2**63 - 1 if shard_nbytes is None else shard_nbytes)
        # offset + length could overflow; subtract from the limit instead
        missing = offsets == EMPTY
        inside = (offsets <= limit) & (lengths <= limit - np.minimum(offsets, limit))
        if not np.all(np.where(missing, lengths == EMPTY, inside)):
            raise CodecError("the index of the shard points outside of it", codec=self.name)
        return index

    def encode_index(self, index: Index, shard_shape: Shape) -> Data:
        """Encode an index of shape (\\*grid, 2)."""
        return self.index.encode(np.asarray(index, "<u8").reshape(*self.grid_shape(shard_shape), 2))

    def assemble(self, entries: Mapping[Coords, Data | None], shard_shape: Shape) -> bytes | None:
        """Assemble a shard from encoded inner chunks, in C order of their coordinates.

        Parameters
        ----------
        entries : mapping of tuple of int to bytes or None
            The encoded inner chunks by their coordinates in the shard; ``None`` or no entry for a missing one.
        shard_shape : tuple of int
            Shape of the shard.

        Returns
        -------
        bytes or None
            The stored shard; ``None`` if all inner chunks are missing, since such a shard is not stored.
        """
        shard = self._assemble(entries, shard_shape)
        return None if all(value is None for value in entries.values()) else shard

    def _assemble(self, entries: Mapping[Coords, Data | None], shard_shape: Shape) -> bytes:
        grid = self.grid_shape(shard_shape)
        offset = self.index_nbytes(shard_shape) if self.index_at_start else 0
        parts: list[Data] = []
        table = np.full((prod(grid), 2), EMPTY, np.uint64)
        for number, coords in enumerate(product(*map(range, grid))):
            value = entries.get(coords)
            if value is None:
                continue
            length = len(value)
            table[number] = offset, length
            parts.append(value)
            offset += length
        index = self.encode_index(table, shard_shape)
        parts.insert(0 if self.index_at_start else len(parts), index)
        return b"".join(parts)

    def load(self) -> None:
        self.inner.load()
        self.index.load()

    def encode(self, chunk: Chunk) -> bytes:
        """Encode a whole shard; unless `keep_empty` is set, omit inner chunks that equal the fill value."""
        keep = config.current().write_empty_chunks if self.keep_empty is None else self.keep_empty
        encode, fill = self.inner.encode, self.fill
        entries = {}
        grid = self.grid_shape(chunk.shape)
        for coords, where in zip(product(*map(range, grid)), self._regions(grid)):
            part = chunk[where]
            entries[coords] = encode(part) if keep or not equals_fill(part, fill) else None
        return self._assemble(entries, chunk.shape)

    def decoder(self, shape: Shape, limit: int) -> Decoder:
        grid, regions = self.grid_shape(shape), self._regions
        index_size, at_start, decode_index = self.index_nbytes(shape), self.index_at_start, self.decode_index
        decode_inner, inner_shape, dtype, fill = self.inner.decode, self.inner_shape, self.dtype, self.fill

        def decode(data: Data) -> Chunk:
            view = memoryview(data)
            size = len(view)
            if size < index_size:
                raise CodecError("the shard is shorter than its index", codec="sharding_indexed")
            start = 0 if at_start else size - index_size
            entries = decode_index(view[start : start + index_size], shape, size).reshape(-1, 2).tolist()
            out = np.zeros(shape, dtype) if fill is None else np.empty(shape, dtype)
            for where, (offset, length) in zip(regions(grid), entries):
                if offset != EMPTY:
                    out[where] = decode_inner(view[offset : offset + length], inner_shape)
                elif fill is not None:
                    out[where] = fill
            return out

        return decode

    def _regions(self, grid: Shape) -> Iterator[tuple[slice, ...]]:
        """Yield the region of each inner chunk in the shard, in C order."""
        return product(
            *([slice(i * size, (i + 1) * size) for i in range(count)] for count, size in zip(grid, self.inner_shape))
        )


def build(spec: CodecSpec, context: Context) -> Sharding:
    """Build the codec with the options ``chunk_shape``, ``codecs``, ``index_codecs`` and ``index_location``."""
    # shape of the inner chunks
    check_options(spec, "chunk_shape", "codecs", "index_codecs", "index_location")
    inner_shape = tuple(option(spec, "chunk_shape", REQUIRED, _is_shape))
    ndim, build_chain = context.ndim, context.build
    if len(inner_shape) != ndim:
        raise MetadataError(
            f"inner chunks have {len(inner_shape)} dimensions, the array {ndim}",
            field="codecs.chunk_shape",
            codec=spec.name,
        )

    # codecs of the inner chunks and of the index
    inner = build_chain(
        inner_specs(spec, "codecs"),
        context.data_type,
        context.fill,
        allow_pickle=context.allow_pickle,
        ndim=ndim,
        chunk_shape=inner_shape,
        keep_empty=context.keep_empty,
    )
    index = build_chain(inner_specs(spec, "index_codecs"), INDEX_TYPE, None, ndim=ndim + 1)
    if index.encoded_size((1,) * ndim + (2,)) is None:
        raise MetadataError(
            "the codecs of the index must encode to a fixed size", field="codecs.index_codecs", codec=spec.name
        )

    # the codec; if the shape of shards is known, check that inner chunks fit
    codec = Sharding(
        inner_shape=inner_shape,
        inner=inner,
        index=index,
        index_at_start=option(spec, "index_location", "end", {"start": True, "end": False}),
        data_type=context.data_type,
        fill=context.fill,
        keep_empty=context.keep_empty,
    )
    if context.shape is not None:
        _check_index(codec.grid_shape(context.shape))
    return codec


def _check_index(grid: Shape) -> None:
    """Refuse a shard with too many inner chunks, each of which takes 16 bytes in the index."""
    size, limit = 16 * prod(grid), min(config.current().max_chunk_bytes, _MAX_INDEX)
    if size > limit:
        raise MetadataError(
            f"a shard's index of {size} bytes is larger than {limit}",
            field="codecs.chunk_shape",
            codec="sharding_indexed",
        )


def _is_shape(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(type(size) is int and size > 0 for size in value)


def inner_specs(spec: CodecSpec, name: str) -> list[CodecSpec]:
    """Read an option that lists codecs, such as ``codecs`` or ``index_codecs`` of shards: objects, or bare names.

    Raises
    ------
    MetadataError
        If it is not a list of codecs.
    """
    specs = []
    default = _INDEX_CODECS if name == "index_codecs" else REQUIRED
    for item in option(spec, name, default, lambda value: isinstance(value, (list, tuple))):
        if isinstance(item, CodecSpec):
            specs.append(item)
            continue
        parts = {"name": item} if isinstance(item, str) else item
        if not isinstance(parts, Mapping) or not isinstance(parts.get("name"), str):
            raise MetadataError(f"{item!r:.80} is not a codec", field=f"codecs.{name}", codec=spec.name)
        configuration = parts.get("configuration", {})
        if not isinstance(configuration, Mapping):
            raise MetadataError("a configuration must be an object", field=f"codecs.{name}", codec=parts["name"])
        specs.append(CodecSpec(parts["name"], configuration, parts.get("must_understand") is not False))
    return specs
