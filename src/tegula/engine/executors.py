"""Which executor carries out a plan: the kernel where it is there and can, the reference otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula import config, executors
from tegula.codecs import equals_fill
from tegula.engine import kernel, reference
from tegula.engine.lengths import as_it_is_now
from tegula.engine.pool import for_each
from tegula.engine.stored import StoredArray
from tegula.engine.texts import with_kernel
from tegula.engine.visiting import batches, check_number
from tegula.errors import CodecError, StoreError
from tegula.indexing import Plan

__all__ = ["helped", "read", "write"]

Array = npt.NDArray[Any]
_FEW = 2**12  # chunks that are written one by one, whatever is stored


def read(array: StoredArray, plan: Plan, out: Array) -> None:
    """Fill `out`, a buffer of the plan's ``work_shape``, with what the plan selects; see `reference.read`.

    Raises
    ------
    SelectionError
        If an array whose every chunk is stored has been shortened, and rows of the plan are gone.
    """
    try:
        _read(array, plan, out)
    except (MemoryError, CodecError, StoreError) as error:
        _recover(_read, array, plan, out, error)


def _read(array: StoredArray, plan: Plan, out: Array) -> None:
    if not kernel.read(array, plan, out):
        reference.read(helped(array), plan, out)


def write(array: StoredArray, plan: Plan, values: Array) -> None:
    """Store `values`, an array of the plan's ``work_shape``, where the plan says; see `reference.write`.

    Raises
    ------
    SelectionError
        As `read` does.
    UnsupportedError
        If more than ``max_chunks`` chunks would be written. Where nothing but the fill value is written and few chunks
        are stored, only those are visited.
    """
    try:
        _write(array, plan, values)
    except (MemoryError, CodecError, StoreError) as error:
        _recover(_write, array, plan, values, error)


def _write(array: StoredArray, plan: Plan, values: Array) -> None:
    number = plan.nchunks
    if number > _FEW and 0 not in plan.work_shape:
        if _deletes(array, plan, values) and array.is_sparse(number):
            _write_stored(helped(array), plan, values)
            return
        check_number(array, number, "writing")
    if not kernel.write(array, plan, values):
        reference.write(helped(array), plan, values)


def _recover(
    act: Callable[[StoredArray, Plan, Array], None],
    array: StoredArray,
    plan: Plan,
    values: Array,
    error: MemoryError | CodecError | StoreError,
) -> None:
    """Try again where others have changed the array's length, and raise an error of ours otherwise."""
    if isinstance(error, MemoryError):
        raise array.out_of_memory(error) from error
    if not array.metadata.dense:
        raise error
    as_it_is_now(array, plan, lambda now: act(now, plan, values), error)


def _deletes(array: StoredArray, plan: Plan, values: Array) -> bool:
    """Return whether absent chunks stay absent: all values are the fill value, and it is not stored."""
    if array.keeps_empty or array.field is not None or not plan.is_basic:
        return False
    single = values[(..., *[slice(0, 1) if stride == 0 else slice(None) for stride in values.strides])]
    options: dict[str, Any] = {"op_dtypes": [array.dtype], "casting": "unsafe", "buffersize": 2**16}
    blocks: Any = np.nditer(single, flags=["external_loop", "buffered", "refs_ok"], **options)
    return all(equals_fill(block, array.fill) for block in blocks)


def _write_stored(array: StoredArray, plan: Plan, values: Array) -> None:
    """Write to the chunks that are stored, of all that a plan touches."""

    def work(coords: tuple[int, ...]) -> None:
        if (item := plan.at(coords)) is not None:
            _, selection, place, covers = item
            reference.write_chunk(array, coords, (selection, values[place] if place else values, covers))

    for batch in batches(coords for coords, _ in array.stored_chunks()):
        for_each(work, batch, len(batch) > 1, [array.chain])


def helped(array: StoredArray) -> StoredArray:
    """Return the array for the reference executor, with the kernel's help if it holds texts."""
    library = executors.choose(config.current().executor) if array.metadata.data_type.variable else None
    if library is None:
        return array
    if array.kernel is None:
        object.__setattr__(array, "kernel", with_kernel(library, array) or array)
    found: StoredArray = array.kernel
    return found
