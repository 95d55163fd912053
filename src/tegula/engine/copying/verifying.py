"""Verifying stored chunks: each chunk, and each inner chunk of a shard, is decoded and its faults are collected.

Chunks are decoded as for reading, but a fault becomes part of the result instead of an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from tegula.codecs import EMPTY, CodecChain, Sharding
from tegula.codecs.serializers.sharding import InnerChain
from tegula.engine.concurrency.pool import for_each
from tegula.engine.concurrency.retries import back_off
from tegula.engine.copying.chunk_copies import part_of
from tegula.engine.reading.executors import read_anew, read_part
from tegula.engine.stored.array import StoredArray
from tegula.engine.stored.visiting import cells, check_number
from tegula.errors import CodecError, StoreError, TegulaError, UnsupportedError
from tegula.indexing import basic
from tegula.stores import ByteRange, Generation

__all__ = ["Fault", "Verdict", "check_complete", "ends_with_length", "verify_chunk"]

_WHOLE: Final = 2**24  # a shard of up to this many bytes is read as a whole; a larger one by single inner chunks,
# or by this many bytes at once in a remote store
_MOST_FAULTS: Final = 1000  # the most faults of one shard to report
_RETRIES: Final = 100

Shape = tuple[int, ...]
GetRange = Callable[[ByteRange], bytes]


class Fault(NamedTuple):
    """A fault of a chunk: its kind, and a sentence about it.

    The kinds are ``damaged-chunk``, ``damaged-index``, ``overlapping-chunks``, ``unsupported``, ``unreadable``,
    ``trailing-bytes`` and ``leftover-rows``, as in the report of a check.
    """

    kind: str
    message: str


@dataclass(slots=True)
class Verdict:
    """The result for one stored value.

    Parameters
    ----------
    chunks : int
        How many chunks the value holds: 1, or the inner chunks of a shard.
    stored, decoded : int
        Bytes of the stored value, and of the elements that could be decoded.
    padded : int
        How many of the chunks have zeros after their compressed data, which are harmless.
    absent : int
        The number of inner chunks that a shard does not store; those outside of the array do not count.
    first : str
        The coordinates of the first of them.
    faults : list of Fault
        The faults, at most 1000.
    """

    chunks: int = 0
    stored: int = 0
    decoded: int = 0
    padded: int = 0
    absent: int = 0
    first: str = ""
    faults: list[Fault] = field(default_factory=list)

    def add(self, kind: str, message: object) -> None:
        """Add a fault."""
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(Fault(kind, str(message)))


def check_complete(array: StoredArray) -> None:
    """Look for every chunk of an array of which none may be missing, and decode shards to see their inner chunks.

    Raises
    ------
    NotFoundError
        If a chunk, or an inner chunk of a shard, is not stored, and that is an error.
    UnsupportedError
        If the grid has more than ``max_chunks`` chunks.
    """
    metadata = array.metadata
    if not array.is_strict or metadata.dense:
        return
    counts = metadata.grid.counts(metadata.shape)
    check_number(array, prod(counts), "looking for every chunk")
    region = metadata.grid.region if array.chain.sharding is not None else None

    def look(coords: Shape) -> None:
        if region is not None:
            read_part(array, region(coords, metadata.shape))
        elif (key := array.key(coords)) and not array.store.exists(key):
            array.absent(coords)

    for_each(look, cells([(0, count) for count in counts]), parallel=True, requests=array.store.concurrency)


def verify_chunk(array: StoredArray, coords: Shape, key: str) -> Verdict | None:
    """Decode the value under the key of a chunk; return ``None`` if there is none.

    The whole value is read into memory; of a shard larger than 16 MiB, only the index and one inner chunk at a time.
    """
    try:
        if array.chain.sharding is not None:
            return _verify_shard(array, array.chain.sharding, coords, key)
        data = array.store.get(key)
    except StoreError as error:
        return Verdict(faults=[Fault("unreadable", error.message)])
    if data is None:
        return None
    verdict = Verdict(stored=len(data))
    try:
        shape = array.metadata.grid.chunk_shape(coords)
        if array.metadata.dense:
            shape = array.stored_shape(coords, data)
        _decode(array.chain, data, shape, verdict, "")
        if not verdict.faults and array.metadata.dense:
            _find_rows(array, coords, shape, verdict)
    except CodecError as error:
        verdict.add("damaged-chunk", error)
    if [fault.kind for fault in verdict.faults] == ["unsupported"] and _is_read(array, coords):
        verdict.faults.clear()
        verdict.chunks += 1
        verdict.decoded += array.chunk_nbytes
    return verdict


def _is_read(array: StoredArray, coords: Shape) -> bool:
    """Return whether the executor can read the chunk: the kernel decodes frames that Python's codecs do not."""
    plan = basic(part_of(array, coords), array.metadata.shape, array.metadata.grid)
    try:
        read_anew(array, plan, np.empty(plan.work_shape, array.dtype))
    except TegulaError:
        return False
    return True


def _decode(chain: CodecChain | InnerChain, data: Any, shape: Shape, verdict: Verdict, where: str) -> None:
    """Decode one chunk, and count it."""
    try:
        chunk = chain.decode(data, shape)
    except CodecError as error:
        verdict.add("damaged-chunk", f"{where}{error}")
    except UnsupportedError as error:
        verdict.add("unsupported", f"{where}{error}")
    except StoreError as error:  # there is not enough memory
        verdict.add("unreadable", f"{where}{error}")
    except TegulaError as error:
        verdict.add("damaged-chunk", f"{where}{error}")
    else:
        verdict.chunks += 1
        verdict.decoded += chunk.nbytes
        excess = chain.excess(data, shape)
        if excess and any(data[-excess:]):
            verdict.add("trailing-bytes", f"{where}{excess} bytes follow the compressed data")
        elif excess:
            verdict.padded += 1


def _find_rows(array: StoredArray, coords: Shape, shape: Shape, verdict: Verdict) -> None:
    """Find rows beyond the end of a dense array."""
    rows = min(
        array.metadata.grid.chunk_shape(coords)[0],
        array.metadata.shape[0] - array.metadata.grid.axes[0].start(coords[0]),
    )
    if shape[0] > rows and not array.metadata.data_type.variable:
        verdict.add("leftover-rows", f"it holds {shape[0]} rows, but only {rows} belong to the array")


def _verify_shard(array: StoredArray, sharding: Sharding, coords: Shape, key: str) -> Verdict | None:
    shape = array.metadata.grid.chunk_shape(coords)
    for attempt in range(_RETRIES):
        seen: set[Generation] = set()
        size = array.store.size(key)
        if size is None:
            return None
        loaded = b""
        if size <= _WHOLE:
            value = array.store.get(key)
            if value is None:
                return None
            loaded, size = value, len(value)

        def get(byte_range: ByteRange, seen: set[Generation] = seen, loaded: bytes = loaded) -> bytes:
            start, length = byte_range
            if loaded:
                return loaded[start : start + (length or 0)]
            data, generation = array.store.get(key, byte_range, with_generation=True)
            seen.add(generation)
            return data or b""

        along: GetRange = get if loaded or not array.store.is_remote else _read_along(get, size)
        verdict = Verdict(stored=size)
        within = tuple(part.stop - part.start for part in part_of(array, coords))
        _verify_inner(sharding, along, (0, size), (shape, within), verdict, "")
        if len(seen) <= 1:  # if not, the shard was replaced during the read
            return verdict
        back_off(attempt)
    return None  # other processes keep writing the shard, so it can't be verified now


def _read_along(get: GetRange, size: int) -> GetRange:
    """Return a function that reads ranges and the bytes after them, since inner chunks are read in order."""
    window = (0, b"")

    def read(byte_range: ByteRange) -> bytes:
        nonlocal window
        start, length = byte_range[0], byte_range[1] or 0
        first, data = window
        if not first <= start <= start + length <= first + len(data):
            first, data = window = start, get((start, max(length, min(_WHOLE, size - start))))
        return data[start - first : start - first + length]

    return read


def _verify_inner(
    sharding: Sharding,
    get: GetRange,
    extent: tuple[int, int],
    shapes: tuple[Shape, Shape],
    verdict: Verdict,
    where: str,
) -> None:
    """Verify a shard: its index, and each inner chunk.

    `extent` is its start and size in the value that `get` reads, `shapes` its shape and that of its part in the array.
    """
    (start, size), (shape, within) = extent, shapes
    needed = sharding.index_nbytes(shape)
    if size < needed:
        verdict.add("damaged-index", f"{where}a shard of {size} bytes has no room for its index of {needed}")
        return
    at = 0 if sharding.index_at_start else size - needed
    try:
        index = sharding.decode_index(get((start + at, needed)), shape)
    except TegulaError as error:
        verdict.add("damaged-index", f"{where}{error}")
        return
    is_stored = index[..., 0] != EMPTY
    needed_there = is_stored[tuple(slice(-(-length // step)) for length, step in zip(within, sharding.inner_shape))]
    if not needed_there.all():
        verdict.absent += needed_there.size - int(np.count_nonzero(needed_there))
        verdict.first = verdict.first or f"{where}{tuple(np.argwhere(~needed_there)[0].tolist())}"
    present = np.argwhere(is_stored)
    ranges = index[tuple(present.T)].reshape(-1, 2)
    order = np.argsort(ranges[:, 0], kind="stable")
    end = needed if sharding.index_at_start else 0
    last = size if sharding.index_at_start else at
    for coords, offset, length in _entries(present, ranges, order):
        inner = f"{where}inner chunk {coords}: "
        if offset + length > size:
            verdict.add("damaged-chunk", f"{inner}bytes {offset} to {offset + length} lie outside a shard of {size}")
            continue
        if offset < end or offset + length > last:
            verdict.add(
                "overlapping-chunks", f"{inner}bytes {offset} to {offset + length} overlap another part of the shard"
            )
        end = max(end, offset + length)
        if sharding.inner.sharding is not None:
            step = sharding.inner_shape
            part = tuple(max(0, min(a, size - n * a)) for n, a, size in zip(coords, step, within))
            _verify_inner(sharding.inner.sharding, get, (start + offset, length), (step, part), verdict, inner)
            continue
        data = get((start + offset, length))
        _decode(sharding.inner, data, sharding.inner_shape, verdict, inner)


def _entries(present: Any, ranges: Any, order: Any) -> Iterator[tuple[Shape, int, int]]:
    for row in order:
        yield tuple(present[row].tolist()), int(ranges[row, 0]), int(ranges[row, 1])


def ends_with_length(array: StoredArray) -> bool:
    """Return whether the chunks of a dense array end where its length says; not if the last is missing or damaged."""
    shape, grid = array.metadata.shape, array.metadata.grid
    count, zeros = grid.counts(shape)[0], (0,) * (len(shape) - 1)
    if array.store.exists(array.key((count, *zeros))):
        return False
    if not count:
        return True
    last = (count - 1, *zeros)
    try:
        data = array.store.get(array.key(last))
        rows = None if data is None else array.chain.rows(data, grid.chunk_shape(last))
    except (CodecError, StoreError):
        return False
    return rows is not None and grid.axes[0].start(last[0]) + rows <= shape[0]
