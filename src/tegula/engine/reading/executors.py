"""Reading and writing a stored array with its executor; repeats the operation if another writer changes the length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.codecs import equals_fill
from tegula.engine.caches.chunk_cache import CHUNKS
from tegula.engine.concurrency.pool import for_each
from tegula.engine.reading import reference
from tegula.engine.reading.preferred import PREFERRED
from tegula.engine.reading.settling import check_before_write, pinned
from tegula.engine.stored.array import StoredArray
from tegula.engine.stored.lengths import check_length, retry_with_current_length
from tegula.engine.stored.visiting import batches, check_number
from tegula.errors import CodecError, StoreError
from tegula.indexing import Plan, basic
from tegula.runtime import frozen

__all__ = ["create_chunks", "empty", "read", "read_anew", "read_part", "write"]

Array = npt.NDArray[Any]
_FEW = 2**12  # a write of up to this many chunks visits each, without listing the stored ones


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Make an uninitialised array for a result; a large one may reuse the memory of an earlier result."""
    return PREFERRED.empty(shape, dtype)


def read(array: StoredArray, plan: Plan, out: Array) -> None:
    """Fill `out`, a buffer of the plan's ``work_shape``, with the selected elements; see `reference.read`.

    Raises
    ------
    SelectionError
        If the array is dense and has been shortened, so that selected rows are gone.
    """
    try:
        array.executor.read(array, plan, out)
    except (MemoryError, CodecError, StoreError) as error:
        _recover(lambda now: now.executor.read(now, plan, out), array, plan, error)


def read_anew(array: StoredArray, plan: Plan, out: Array) -> None:
    """Do what `read` does, without the cache of decoded chunks, for operations that examine or change stored chunks.

    Chunks that are not stored hold the fill value, also if reads of a user must not use it.
    """
    CHUNKS.forget_chunks(array, plan)
    read(frozen.replace(array, missing_chunks="fill") if array.is_strict else array, plan, out)


def write(array: StoredArray, plan: Plan, values: Array) -> None:
    """Write `values`, of the plan's ``work_shape``, to the elements that the plan selects; see `reference.write`.

    Raises
    ------
    SelectionError
        As `read` does.
    UnsupportedError
        If more than ``max_chunks`` chunks would be written. If only the fill value is written and few chunks are
        stored, only those are visited.
    """
    try:
        _write(array, plan, values)
    except (MemoryError, CodecError, StoreError) as error:
        _recover(lambda now: _write(now, plan, values), array, plan, error)
    finally:
        CHUNKS.forget_chunks(array, plan)


def read_part(array: StoredArray, selection: Any) -> Array:
    """Return the elements of a basic selection in an array of their own; raises what `read` raises."""
    plan = basic(selection, array.metadata.shape, array.metadata.grid)
    found = empty(plan.work_shape, array.dtype)
    read(array, plan, found)
    return found


def create_chunks(array: StoredArray, plan: Plan, values: Array) -> int | None:
    """Store the whole chunks that a plan selects, on condition that none exists; see `Executor.create_chunks`."""
    try:
        return array.executor.create_chunks(array, plan, values)
    except MemoryError as error:
        raise array.out_of_memory(error) from error
    finally:
        CHUNKS.forget_chunks(array, plan)


def _recover(
    act: Callable[[StoredArray], None],
    array: StoredArray,
    plan: Plan,
    error: MemoryError | CodecError | StoreError,
) -> None:
    """Repeat an operation if another process has changed the length of the array, else raise the error."""
    try:
        if isinstance(error, MemoryError):
            raise array.out_of_memory(error) from error
        if not array.metadata.dense or not array.metadata.documents:  # the length of a new array is stored last
            raise error
        retry_with_current_length(array, plan, act, error)
    finally:
        del error  # whose traceback has this frame: a cycle would keep files open


def _write(array: StoredArray, plan: Plan, values: Array) -> None:
    number = plan.nchunks
    if number > _FEW and 0 not in plan.work_shape:
        if _deletes(array, plan, values) and array.is_sparse(number):
            _write_stored(array, plan, values)
            return
        check_number(array, number, "writing")
    if array.metadata.dense:
        check_length(array, plan)
    array.executor.write(array, plan, values)


def _deletes(array: StoredArray, plan: Plan, values: Array) -> bool:
    """Return whether absent chunks stay absent: all values are the fill value, and it is not stored."""
    if array.keeps_empty or array.field is not None or not plan.is_basic:
        return False
    single = values[(..., *[slice(0, 1) if stride == 0 else slice(None) for stride in values.strides])]
    options: dict[str, Any] = {"op_dtypes": [array.dtype], "casting": "unsafe", "buffersize": 2**16}
    blocks: Any = np.nditer(single, flags=["external_loop", "buffered", "refs_ok"], **options)
    return all(equals_fill(block, array.fill) for block in blocks)


def _write_stored(array: StoredArray, plan: Plan, values: Array) -> None:
    """Write to the stored chunks that a plan selects."""

    def work(coords: tuple[int, ...]) -> None:
        if (projection := plan.at(coords)) is not None:
            _, selection, work_selection, covers = projection
            reference.write_chunk(
                here, coords, (selection, values[work_selection] if work_selection else values, covers)
            )

    with pinned(array) as here:
        check_before_write(here, plan)
        for batch in batches(coords for coords, _ in here.stored_chunks()):
            for_each(work, batch, len(batch) > 1, [array.chain], array.store.concurrency)
