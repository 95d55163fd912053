"""The chunks of an array as references: where the bytes of each are, or the bytes themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tegula.codecs.equivalence import has_old_zstd
from tegula.codecs.serializers.n5 import read_header
from tegula.engine.concurrency.pool import gather
from tegula.engine.reading.remote import get_in_batches, get_many
from tegula.engine.stored.array import StoredArray
from tegula.engine.stored.visiting import cells, check_number, is_inside
from tegula.errors import CodecError, StoreError
from tegula.references.planning import PlannedArray
from tegula.stores.capabilities import stored_key

__all__ = ["Chunk", "chunks_of"]

Coords = tuple[int, ...]
Stored = tuple[Coords, str, int | None]
_BATCH: Final = 2**12
_HEADER: Final = 16  # bytes, of a chunk file of bcolz and of the frame in it


class Chunk(NamedTuple):
    """One chunk of the references.

    Attributes
    ----------
    coords : tuple of int
        Its coordinates in the grid.
    key : str
        The key of the value that contains it, in the source's store.
    offset, length : int
        Where it begins in that value, and how long it is.
    data : bytes or None
        Its bytes, if they are stored among the references.
    """

    coords: Coords
    key: str
    offset: int
    length: int
    data: bytes | None = None


def chunks_of(array: PlannedArray, inline_threshold: int = 0) -> Iterator[Chunk]:
    """Yield the chunks of an array that are stored, in no particular order.

    Stored values are listed; the grid is traversed only if every chunk is stored, or the store can't be listed.

    Parameters
    ----------
    array : PlannedArray
        The array.
    inline_threshold : int
        Chunks of fewer bytes are stored among the references.

    Raises
    ------
    StoreError
        If a chunk is missing where every chunk is stored, or can't be read.
    UnsupportedError
        If the grid has to be traversed, and has more than ``max_chunks`` chunks.
    """
    source, target = array.source.stored, array.target
    if not array.referenced:
        counts = target.metadata.grid.counts(target.metadata.shape)
        check_number(source, prod(counts), "encoding an array anew")
        blank = target.fill.tobytes() if not target.dtype.hasobject else None
        for coords in cells([(0, count) for count in counts]):
            chunk = _decoded(array, coords)
            if blank is None or chunk.tobytes() != blank * chunk.size:
                yield _encoded(array, coords, chunk)
        return
    stored = _stored(array, source)
    while batch := [*islice(stored, _BATCH)]:
        yield from _batch(array, batch, inline_threshold)
    source.check_exists()  # the chunks of a deleted array would count as absent


def _stored(array: PlannedArray, source: StoredArray) -> Iterator[Stored]:
    """Yield coordinates, key and size of the stored values; the size is ``None`` for an absent chunk that counts."""
    metadata = source.metadata
    if not (metadata.dense or array.complete or not source.store.listable):
        yield from (entry for entry in source.sized_chunks() if is_inside(source.metadata, entry[0]))
        return
    counts = metadata.grid.counts(metadata.shape)
    check_number(source, prod(counts), "looking for every chunk")
    grid = cells([(0, count) for count in counts])
    while some := [*islice(grid, _BATCH)]:
        keys = [source.key(coords) for coords in some]
        sizes = gather(source.store.size, [key for key in keys if key], source.store.concurrency)
        found = iter(sizes)
        for coords, key in zip(some, keys):
            size = next(found) if key else None
            if size is None and metadata.dense:
                error = StoreError("the chunk is missing", key=key)
                source.locate(error, key)
                raise error
            if size is not None or array.complete:
                yield coords, key, size


def _batch(array: PlannedArray, batch: list[Stored], threshold: int) -> Iterator[Chunk]:
    source = array.source.stored
    probed = _may_have_old_zstd(source)
    whole: list[Chunk] = []
    for coords, key, size in batch:
        if size is None or _is_short(source, coords):
            yield _encoded(array, coords, _decoded(array, coords))
        else:
            whole.append(Chunk(coords, key, 0, size))
    to_read: list[Chunk] = []
    if array.in_blocks:
        blocks = [*_behind_headers(source, whole)]
        for chunk in blocks:
            if not chunk.offset:  # smaller than a chunk
                yield _encoded(array, chunk.coords, _decoded(array, chunk.coords))
        whole = [chunk for chunk in blocks if chunk.offset]
    for chunk in _frames(source, whole) if array.framed else whole:
        if probed or chunk.length < threshold:
            to_read.append(chunk)
        else:
            yield chunk._replace(key=stored_key(source.store, chunk.key))
    for chunk, data in _read(source, to_read):
        if probed and has_old_zstd(data):
            yield _encoded(array, chunk.coords, _decoded(array, chunk.coords))
        else:
            yield chunk._replace(data=data) if chunk.length < threshold else chunk


def _frames(source: StoredArray, chunks: list[Chunk]) -> Iterator[Chunk]:
    """Yield the frames in chunk files of bcolz, whose own headers say how long they are."""
    values = get_many(source.store, [(chunk.key, (0, 2 * _HEADER)) for chunk in chunks])
    for chunk, value in zip(chunks, values):
        length = int.from_bytes((value or b"")[_HEADER + 12 : _HEADER + 16], "little")
        if not _HEADER <= length <= chunk.length - _HEADER:
            error = StoreError(f"the chunk file has {chunk.length} bytes, and its frame says {length}", key=chunk.key)
            source.locate(error, chunk.key)
            raise error
        yield chunk._replace(offset=_HEADER, length=length)


def _behind_headers(source: StoredArray, chunks: list[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks of N5 blocks without their headers; a block smaller than a chunk keeps its header."""
    values = get_many(source.store, [(chunk.key, (0, 2 * _HEADER + 4 * source.metadata.ndim)) for chunk in chunks])
    for chunk, value in zip(chunks, values):
        shape = source.metadata.grid.chunk_shape(chunk.coords)
        try:
            block, offset = read_header(value or b"", shape[::-1])
        except CodecError as error:
            source.locate(error, chunk.key)
            raise
        yield chunk._replace(offset=offset, length=chunk.length - offset) if block == shape[::-1] else chunk


def _read(source: StoredArray, chunks: Sequence[Chunk]) -> Iterator[tuple[Chunk, bytes]]:
    """Yield the bytes of chunks."""
    requests = ((chunk.key, (chunk.offset, chunk.length)) for chunk in chunks)
    for chunk, value in zip(chunks, get_in_batches(source.store, requests)):
        if value is None or len(value) != chunk.length:
            error = StoreError("the chunk changed while references to it were being made", key=chunk.key)
            source.locate(error, chunk.key)
            raise error
        yield chunk, value


def _may_have_old_zstd(source: StoredArray) -> bool:
    """Return whether zarr 1.1 may have written chunks, whose zstd no other library reads."""
    options = [codec.configuration for codec in source.metadata.codecs if codec.name == "numcodecs.blosc"]
    return source.metadata.format == "zarr1" and any(found.get("cname") == "zstd" for found in options)


def _is_short(source: StoredArray, coords: Coords) -> bool:
    """Return whether a chunk may have fewer rows than others: the last one of a dense array."""
    metadata = source.metadata
    return metadata.dense and (coords[0] + 1) * metadata.grid.chunk_shape(coords)[0] > metadata.shape[0]


def _decoded(array: PlannedArray, coords: Coords) -> npt.NDArray[Any]:
    """Return the elements of a chunk of the target; what lies beyond the edge of the array is the fill value."""
    target = array.target
    grid, shape = target.metadata.grid, target.metadata.shape
    chunk = np.full(grid.chunk_shape(coords), target.fill, target.dtype)
    region = grid.region(coords, shape)
    inside = tuple(slice(0, part.stop - part.start) for part in region)
    chunk[inside] = np.asarray(array.source[region])
    return chunk


def _encoded(array: PlannedArray, coords: Coords, chunk: npt.NDArray[Any]) -> Chunk:
    data = bytes(array.target.chain.encode(chunk))
    return Chunk(coords, "", 0, len(data), data)
