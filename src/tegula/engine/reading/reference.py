"""The reference executor: carries out plans in plain Python.

It defines what reading and writing do. The kernel gives the same results, faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.engine.concurrency.pool import for_each
from tegula.engine.concurrency.retries import back_off
from tegula.engine.reading.chunks import copy_out, fill_out, index_range, merge_chunk, read_inner_chunks
from tegula.engine.reading.remote import IN_FLIGHT, ShardReader, parts_of
from tegula.engine.reading.settling import check_before_write, pinned, settled
from tegula.engine.reading.windows import has_windows, read_window, window_of
from tegula.engine.stored.array import Box, NewRows, StoredArray
from tegula.errors import CodecError, ConflictError, StoreError, TegulaError, UnsupportedError
from tegula.indexing import Plan, Projection, refine
from tegula.indexing.plan import plain
from tegula.metadata.chunk_grids import regular_grid
from tegula.stores.arguments import clip_range
from tegula.stores.capabilities import blocked_by

__all__ = [
    "create_chunks",
    "delete_chunks",
    "empty",
    "extend_chunks",
    "get",
    "load",
    "may_hold_chunks",
    "read",
    "set",
    "write",
    "write_chunk",
]

Array = npt.NDArray[Any]
_LARGE = 2**26  # larger results in bytes are compared with the physical memory
_PARALLEL_BYTES = 2**18  # below this size threads cost more than they save
_RETRIES = 10_000
_MISSING = "the chunk is missing"


def get(array: StoredArray, selection: Any) -> Any:
    """Read a selection of ints, slices and an ellipsis; return ``None`` if the caller has to make the plan."""
    metadata, dtype = array.metadata, array.metadata.data_type.numpy
    plan = plain(selection, metadata.shape, metadata.grid)
    if plan is None or prod(plan.work_shape) * dtype.itemsize > _LARGE:
        return None
    try:
        out = np.empty(plan.work_shape, dtype)
    except (MemoryError, ValueError):
        return None  # reading by a plan reports that the result is too large
    try:
        read(array, plan, out)
    except MemoryError:
        return None  # reading by a plan reports how much memory is missing
    except (CodecError, StoreError):
        if metadata.dense:
            return None  # reading by a plan checks whether the length has changed
        raise
    return out[()] if plan.is_point else out


def set(array: StoredArray, selection: Any, values: Any) -> bool:
    """Return ``False``: the caller has to make the plan."""
    return False


def read(array: StoredArray, plan: Plan, out: Array) -> None:
    """Fill `out`, a buffer of the plan's ``work_shape``, with the selected elements.

    Raises
    ------
    CodecError, StoreError
        If a chunk can't be read or decoded; the error names it.
    NotFoundError
        If the array has been deleted, moved or replaced.
    SelectionError
        If it has become shorter than what the plan selects.
    """
    if not array.key_template:
        array.look_up()
    with pinned(array) as here:
        settled(here, partial(_read, here, plan, out), plan)


def _read(array: StoredArray, plan: Plan, out: Array, missing: Callable[[], object]) -> None:
    """Fill `out`, and call `missing` if a chunk is not stored."""
    absent = False

    def work(projection: Projection) -> None:
        nonlocal absent
        with IN_FLIGHT.hold(held):
            absent = not read_one(array, projection, out) or absent

    requests, is_remote = min(array.store.concurrency, plan.nchunks), array.store.is_remote
    windows = is_remote and has_windows(array)
    read_one = _read_part if windows else _read_chunk
    held = array.chunk_nbytes if is_remote and not windows and array.chain.sharding is None else 0
    if is_remote or _is_parallel(array, plan):
        for_each(work, plan, parallel=True, chains=[array.chain], requests=requests)
    else:
        for projection in plan:
            absent = not _read_chunk(array, projection, out) or absent
    if absent:
        missing()


def _read_chunk(array: StoredArray, projection: Projection, out: Array) -> bool:
    """Read part of a chunk; return ``False`` if it is not stored and was read as the fill value."""
    coords, selection, work_selection, _ = projection
    key = array.key_template.format(*coords)
    try:
        # a stored chunk is decoded and copied to its place
        if array.chain.sharding is not None:
            if _read_shard(array, key, projection, out):
                return True
        elif key and (data := array.store.get(key)) is not None:
            shape = array.one_shape or array.stored_shape(coords, data)
            chunk = array.chain.decode(data, shape)
            if array.is_plain:
                out[work_selection] = chunk[selection]
            else:
                copy_out(out, work_selection, chunk, selection, array.field)
            return True

        # a missing chunk reads as the fill value, or is an error if the format stores every chunk
        if key and (cause := blocked_by(array.store, key)):
            raise StoreError(f"the chunk can't be used: {cause}")
        if array.metadata.dense:
            raise StoreError(_MISSING)
        fill_out(out, work_selection, array.absent(coords))
        return False
    except TegulaError as error:
        array.locate(error, key)
        raise


def _read_part(array: StoredArray, projection: Projection, out: Array) -> bool:
    """Do what `_read_chunk` does, but read only the byte ranges of a large chunk that hold the selected part."""
    coords, selection, work_selection, _ = projection
    window = window_of(array, coords, selection)
    if window is None:
        with IN_FLIGHT.hold(array.chunk_nbytes):
            return _read_chunk(array, projection, out)
    key, shape = array.key(coords), array.metadata.grid.chunk_shape(coords)
    try:
        for attempt in range(_RETRIES):
            try:
                part = read_window(array, key, window, shape)
                break
            except ConflictError:
                back_off(attempt)
        else:
            raise ConflictError("the chunk kept changing while it was being read")
    except TegulaError as error:
        array.locate(error, key)
        raise
    if part is None:
        return _read_chunk(array, projection, out)
    copy_out(out, work_selection, part, window.selection, array.field)
    return True


def _is_parallel(array: StoredArray, plan: Plan) -> bool:
    number = plan.nchunks
    large = number * array.chunk_nbytes >= _PARALLEL_BYTES or array.metadata.data_type.variable != ""
    return large and number > 1


def _read_shard(array: StoredArray, key: str, projection: Any, out: Array) -> bool:
    coords, selection, work, _ = projection
    target = out[work] if work else out  # selecting () from a 0-d array would give a scalar
    inside = np.may_share_memory(target, out) if target.size else True
    for attempt in range(_RETRIES):
        try:
            stored = _read_parts(array, key, coords, selection, target)
            break
        except ConflictError:
            back_off(attempt)
    else:
        raise ConflictError("the shard kept changing while it was being read")
    if stored and not inside:
        out[work] = target
    return stored


def _read_parts(array: StoredArray, key: str, coords: tuple[int, ...], selection: Any, out: Array) -> bool:
    """Read part of a shard, all of one generation; return whether there is a shard."""
    shape, absent = array.metadata.grid.chunk_shape(coords), partial(array.absent, coords)
    sharding, reader = array.chain.sharding, ShardReader(array.store)
    if sharding is None:
        return False
    index_at = index_range(sharding, shape)
    nbytes = prod(shape) * array.metadata.data_type.numpy.itemsize
    wanted = refine(selection, shape, regular_grid(sharding.inner_shape)).nchunks
    if reader.reads_whole(nbytes, wanted, prod(sharding.grid_shape(shape))):
        with IN_FLIGHT.hold(nbytes):
            data = array.store.get(key)
            if data is None:
                return False
            index = data[slice(*clip_range(index_at, len(data)))]
            read_inner_chunks(sharding, index, partial(parts_of, data), shape, selection, out, absent, array.field)
        return True
    raw, generation = reader.index(key, index_at)
    if raw is None:
        return False
    fetch = partial(reader.fetch, key, generation)
    read_inner_chunks(sharding, raw, fetch, shape, selection, out, absent, array.field)
    return True


def write(array: StoredArray, plan: Plan, values: Array) -> None:
    """Write `values`, an array of the plan's ``work_shape``, to the elements that the plan selects.

    A chunk that is replaced as a whole is written without condition. Any other chunk is read, changed, and written on
    condition that its generation is still the same; after a lost race this is repeated.

    Raises
    ------
    CodecError, StoreError
        If a chunk can't be encoded, read or written; the error names it. Other selected chunks may have been written.
    """

    def work(projection: Any) -> None:
        coords, selection, work_selection, covers = projection
        with IN_FLIGHT.hold(array.chunk_nbytes if array.store.is_remote else 0):
            write_chunk(here, coords, (selection, values[work_selection] if work_selection else values, covers))

    requests = min(array.store.concurrency, plan.nchunks)
    with pinned(array) as here:
        check_before_write(here, plan)
        for_each(work, plan, _is_parallel(array, plan), [array.chain], requests)


def create_chunks(array: StoredArray, plan: Plan, values: Array) -> int | None:
    """Return ``None``: the caller has to create the chunks one by one."""
    return None


def extend_chunks(rows: Sequence[NewRows], holds: Callable[[], bool]) -> list[int | None]:
    """Return ``None`` for each chunk: the caller has to store it."""
    return [None for _ in rows]


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Make an uninitialised array for a result."""
    return np.empty(shape, dtype)


def load(array: StoredArray) -> None:
    """Import what reading and writing the array need, so that no other thread has to."""
    array.chain.load()


def may_hold_chunks(array: StoredArray, box: Box) -> bool:
    """Return ``True``: the caller has to ask the store for each chunk of the box."""
    return True


def delete_chunks(array: StoredArray, box: Box, holds: Callable[[], bool]) -> bool:
    """Return ``False``: the caller has to delete the chunks of the box one by one."""
    return False


def write_chunk(array: StoredArray, coords: tuple[int, ...], change: tuple[Any, Array, bool]) -> None:
    """Replace part of one chunk; `change` is as for `merge_chunk`."""
    key = array.key(coords)
    store, chain, field = array.target, array.chain, array.field
    shape = array.metadata.grid.chunk_shape(coords)
    keep = array.keeps_empty
    try:
        if not key:
            raise UnsupportedError("this format has no chunk key for an array without dimensions")

        # a chunk that is replaced as a whole
        selection, values, covers = change
        covers = covers and field is None
        if covers and not _overhangs(array, coords, shape):
            new = merge_chunk(chain, None, shape, change, array.fill, field, keep)
            if new is None:
                store.delete(key)
            else:
                store.set(key, new)
            return

        # read-modify-write, until no other writer changes the chunk in between
        for attempt in range(_RETRIES):
            old, generation = store.get(key, with_generation=True)
            if old is None and (cause := blocked_by(store, key)):
                raise StoreError(f"the chunk can't be used: {cause}")
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
        raise ConflictError("the chunk kept changing during the update")
    except TegulaError as error:
        array.locate(error, key)
        raise


def _overhangs(array: StoredArray, coords: tuple[int, ...], chunk: tuple[int, ...]) -> bool:
    """Return whether part of a chunk lies beyond the array, where another process may have appended in the meantime."""
    axes, shape = array.metadata.grid.axes, array.metadata.shape
    return any(axis.start(n) + length > size for axis, n, length, size in zip(axes, coords, chunk, shape))


def _merged(
    array: StoredArray, old: bytes | None, coords: tuple[int, ...], change: tuple[Any, Array, bool]
) -> Any | None:
    """Change part of a chunk; if the chunk is damaged, raise only if some of its elements are kept."""
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
