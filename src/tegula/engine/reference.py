"""The reference executor: a plan, carried out in plain Python.

It is the definition of what reading and writing do; any other executor returns the same, sooner.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.engine.chunks import copy_out, fill_out, merge_chunk, read_inner_chunks
from tegula.engine.documents import back_off
from tegula.engine.pool import for_each
from tegula.engine.stored import StoredArray
from tegula.errors import CodecError, ConflictError, StoreError, TegulaError, UnsupportedError
from tegula.indexing import Plan
from tegula.stores import ByteRange, Generation

__all__ = ["read", "write", "write_chunk"]

Array = npt.NDArray[Any]
_PARALLEL_BYTES = 2**18  # below this the threads cost more than they save
_RETRIES = 10_000
_MISSING = "the chunk is missing"


def read(array: StoredArray, plan: Plan, out: Array) -> None:
    """Fill `out`, a buffer of the plan's ``work_shape``, with what the plan selects.

    Raises
    ------
    CodecError, StoreError
        If a chunk can't be read or decoded; says which.
    NotFoundError
        If chunks are absent because the array is.
    """
    absent: list[bool] = []

    def work(item: Any) -> None:
        if not _read_chunk(array, item, out) and not absent:
            absent.append(True)

    for_each(work, plan, plan.nchunks > 1 and _is_parallel(array, plan), [array.chain])
    if absent:
        array.check_exists()


def _is_parallel(array: StoredArray, plan: Plan) -> bool:
    return plan.nchunks * array.chunk_nbytes >= _PARALLEL_BYTES or array.metadata.data_type.variable != ""


def _read_chunk(array: StoredArray, item: Any, out: Array) -> bool:
    """Read part of a chunk; return whether the store has it, which it has not if the fill value stands for it."""
    coords, selection, work, _ = item
    key = array.key(coords)
    chain, field = array.chain, array.field
    try:
        if chain.sharding is not None:
            if _read_shard(array, key, item, out):
                return True
        else:
            data = array.store.get(key) if key else None
            if data is not None:
                chunk = chain.decode(data, array.stored_shape(coords, data))
                copy_out(out, work, chunk, selection, field)
                return True
        if key and (obstacle := array.store.obstruction(key)):
            raise StoreError(f"the chunk can't be read: {obstacle}")
        if array.metadata.dense:
            raise StoreError(_MISSING)
        fill_out(out, work, array.fill if field is None else array.fill[field])
        return False
    except TegulaError as error:
        array.locate(error, key)
        raise


def _read_shard(array: StoredArray, key: str, item: Any, out: Array) -> bool:
    coords, selection, work, _ = item
    sharding = array.chain.sharding
    if sharding is None:
        return False
    shape = array.metadata.grid.chunk_shape(coords)
    target = out[work] if work else out  # a 0-d array selected with () would no longer be an array
    inside = np.may_share_memory(target, out) if target.size else True
    for attempt in range(_RETRIES):
        seen: list[Generation] = []

        def get(byte_range: ByteRange, seen: list[Generation] = seen) -> bytes | None:
            data, generation = array.store.get(key, byte_range, with_generation=True)
            seen.append(generation)
            return data

        try:
            found = read_inner_chunks(sharding, get, shape, selection, target, array.fill, array.field)
        except TegulaError:
            # an index and inner chunks of two different shards fit together only by chance
            if len({*seen}) == 1:
                raise
            back_off(attempt)
            continue
        if len({*seen}) == 1:
            break
        back_off(attempt)
    else:
        raise ConflictError("the shard kept changing while it was read")
    if found and not inside:
        out[work] = target
    return found


def write(array: StoredArray, plan: Plan, values: Array) -> None:
    """Store `values`, an array of the plan's ``work_shape``, where the plan says.

    A chunk that is wholly replaced is written at once; of the others the old value is read, changed and written on
    condition that nobody else wrote it in between, until that holds.

    Raises
    ------
    CodecError, StoreError
        If a chunk can't be encoded, read or written; says which. Other chunks of the selection may have been written.
    """

    def work(item: Any) -> None:
        coords, selection, place, covers = item
        write_chunk(array, coords, (selection, values[place] if place else values, covers))

    for_each(work, plan, plan.nchunks > 1 and _is_parallel(array, plan), [array.chain])


def write_chunk(array: StoredArray, coords: tuple[int, ...], change: tuple[Any, Array, bool]) -> None:
    """Replace part of one chunk; `change` is what `merge_chunk` takes."""
    key = array.key(coords)
    store, chain, field = array.target, array.chain, array.field
    shape = array.metadata.grid.chunk_shape(coords)
    keep = array.keeps_empty
    try:
        if not key:
            raise UnsupportedError("this format has no chunk key for an array without dimensions")
        selection, values, covers = change
        covers = covers and field is None
        if covers and not _overhangs(array, coords, shape):
            new = merge_chunk(chain, None, shape, change, array.fill, field, keep)
            if new is None:
                store.delete(key)
            else:
                store.set(key, new)
            return
        for attempt in range(_RETRIES):
            old, generation = store.get(key, with_generation=True)
            if old is None and (obstacle := store.obstruction(key)):
                raise StoreError(f"the chunk can't be written: {obstacle}")
            if old is None and array.metadata.dense and not covers:
                raise StoreError(_MISSING)
            new = _merged(array, old, coords, (selection, values, covers))
            try:
                if new is not None:
                    store.set(key, new, if_generation=generation)
                elif old is not None:
                    store.delete(key, if_generation=generation)
                return
            except ConflictError:
                back_off(attempt)
        raise ConflictError("the chunk kept changing under the update")
    except TegulaError as error:
        array.locate(error, key)
        raise


def _overhangs(array: StoredArray, coords: tuple[int, ...], chunk: tuple[int, ...]) -> bool:
    """Return whether part of a chunk lies beyond the array, where another process may have appended since."""
    axes, shape = array.metadata.grid.axes, array.metadata.shape
    return any(axis.start(n) + length > size for axis, n, length, size in zip(axes, coords, chunk, shape))


def _merged(
    array: StoredArray, old: bytes | None, coords: tuple[int, ...], change: tuple[Any, Array, bool]
) -> Any | None:
    """Change part of a chunk; a damaged one is an error only where something of it would have been kept."""
    selection, values, covers = change
    part = (selection, values, False)
    try:
        shape = array.stored_shape(coords, old)
        return merge_chunk(array.chain, old, shape, part, array.fill, array.field, array.keeps_empty)
    except CodecError:
        if not covers or old is None:
            raise
        shape = array.stored_shape(coords, None)
        return merge_chunk(array.chain, None, shape, part, array.fill, array.field, array.keeps_empty)
