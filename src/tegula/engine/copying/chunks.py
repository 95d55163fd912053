"""Copying stored chunks from array to array without decoding them; each thread copies one chunk or shard at a time.

Chunks are copied as they are stored (`tegula.engine.copying.chunk_copies`). If the arrays have different shards, or
only one of them has shards, inner chunks are copied (`tegula.engine.copying.regrouping`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from time import perf_counter
from typing import Any, Final, NamedTuple

from tegula import config
from tegula.codecs.equivalence import decode_alike
from tegula.engine.concurrency.pool import for_each
from tegula.engine.copying.chunk_copies import ChunkCopies, part_of, stores_all
from tegula.engine.copying.regrouping import Regrouping, can_regroup
from tegula.engine.documents.forgetting import forget_chunks
from tegula.engine.stored.array import StoredArray
from tegula.engine.stored.visiting import cells, stored_inside

__all__ = ["Moved", "can_copy_chunks", "chunks_with_values", "copier_of", "copy_chunks", "part_of", "stores_all"]

Coords = tuple[int, ...]
_FIRST: Final = 4  # chunks that are timed before threads are used
_QUICK: Final = 0.0001  # seconds
_BATCH_BYTES: Final = 2**26  # of elements
_BATCH: Final = 2**14  # chunks


def can_copy_chunks(source: StoredArray, target: StoredArray) -> bool:
    """Return whether the stored chunks of two arrays decode to the same values, apart from containers and checksums.

    Both must have the same shape, the same grid of (inner) chunks, codec chains that decode alike, and the same fill
    value if chunks may be missing. In a target that is dense or was opened to store all chunks, none may be missing. If
    missing chunks are an error, shards are decoded, which finds missing inner chunks.
    """
    old, new = source.metadata, target.metadata
    if old.shape != new.shape or not (old.dense or stores_all(target) or _same_fill(source, target)):
        return False
    if source.is_strict and not (source.chain.sharding is None and target.chain.sharding is None):
        return False
    if _regroups(source, target):
        return can_regroup(source, target)
    if source.chain.sharding is not None:
        return old.data_type == new.data_type
    return old.grid == new.grid and decode_alike(old.codecs, old.data_type, new.codecs, new.data_type)


def _regroups(source: StoredArray, target: StoredArray) -> bool:
    """Return whether a copy puts inner chunks into other shards, or takes shards apart."""
    if source.chain.sharding is None and target.chain.sharding is None:
        return False
    old, new = source.metadata, target.metadata
    return not (old.grid == new.grid and old.codecs == new.codecs) or stores_all(target)


def _same_fill(source: StoredArray, target: StoredArray) -> bool:
    old, new = source.fill, target.fill
    if new.dtype.hasobject:
        one: Any = old[()]
        two: Any = new[()]
        empty = {"string": "", "bytes": b""}.get(target.metadata.data_type.variable)
        if empty is not None:  # an undefined fill value reads as empty text
            one, two = one or empty, two or empty
        return type(one) is type(two) and bool(one == two)
    return old.astype(new.dtype).tobytes() == new.tobytes()


class Moved(NamedTuple):
    """A report on a batch of copied chunks.

    Parameters
    ----------
    copied, stored : int
        How many were copied without decoding, and how many the target now stores.
    before, after : int
        Bytes of these chunks in the source and in the target.
    """

    copied: int
    stored: int
    before: int
    after: int


def copier_of(source: StoredArray, target: StoredArray) -> ChunkCopies:
    """Return the function that copies chunks of one array to another; `can_copy_chunks` says whether there is one.

    Its `units` are the array whose chunks it is called for: the source, or the target if that has other shards.
    """
    for array in (source, target):
        if not array.key_template:
            array.look_up()
    return (Regrouping if _regroups(source, target) else ChunkCopies)(source, target)


def copy_chunks(copier: ChunkCopies, chosen: Iterable[Coords]) -> Iterator[Moved]:
    """Copy the chosen chunks of the copier's units, and yield a report after each batch.

    A chunk is decoded and encoded again if its length is wrong, if the target stores it in another way, or if it is the
    last, shorter chunk of a dense array and the target stores whole chunks, padded with the fill value. Missing chunks
    stay missing, unless the target stores all chunks.

    Raises
    ------
    CodecError, StoreError
        If a chunk can't be read, decoded or written; the error names it.
    """
    source, target, units = copier.source, copier.target, copier.units
    visited = iter(chosen)
    mover = copier.anew()  # several threads may copy with one copier
    # in a remote store, as many chunks are under way at once as there is room for
    requests = max(source.store.concurrency, target.store.concurrency)
    is_remote = source.store.is_remote or target.store.is_remote
    nbytes = config.current().buffer_bytes if is_remote else _BATCH_BYTES
    most = min(_BATCH, max(1, nbytes // max(1, units.chunk_nbytes)))
    size, parallel = most if is_remote else _FIRST, False
    while batch := [*islice(visited, size)]:
        start = perf_counter()
        try:
            for_each(mover if mover.room else mover.move, batch, parallel, [source.chain, target.chain], requests)
        except MemoryError as error:
            raise source.out_of_memory(error) from error
        finally:
            forget_chunks(target.store, target.prefix)
        # with small values threads would mostly wait for each other
        parallel = perf_counter() - start > _QUICK * len(batch)
        size = most
        copied = stored = before = after = 0
        for is_copy, old, new in mover.moved:
            copied, stored, before, after = copied + is_copy, stored + (new > 0), before + old, after + new
        mover.moved.clear()
        yield Moved(copied, stored, before, after)
    source.check_exists()  # a deleted array has no chunks either, and these must not be copied as fill values


def chunks_with_values(source: StoredArray, units: StoredArray) -> Iterator[Coords]:
    """Yield the coordinates of the chunks of `units` that contain stored chunks of the source; some may repeat."""
    grid = units.metadata.grid
    for coords in stored_inside(source):
        if units is source:
            yield coords
        else:
            yield from cells(grid.touched(part_of(source, coords)))
