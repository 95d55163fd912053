"""The compiled executor: a plan, handed over whole to the kernel, which carries it out without the interpreter.

It does what `tegula.engine.reference` does, sooner. What it can't do, Python objects and codecs that are written in
Python, is left to that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula import config, executors
from tegula.engine.stored import StoredArray
from tegula.errors import CodecError, StoreError, TegulaError, UnsupportedError
from tegula.formats import find_format
from tegula.indexing import Plan
from tegula.indexing.arrays import Lookup, Points
from tegula.indexing.runs import Runs
from tegula.metadata.chunk_grids import ChunkAxis, RegularAxis
from tegula.stores import LocalStore

__all__ = ["any_stored", "delete", "empty", "get", "handle", "read", "write"]

Array = npt.NDArray[Any]
Box = tuple[tuple[int, int], ...]
_LARGE = 2**18  # from here on results lie in memory that is used again


def handle(array: StoredArray) -> Any:
    """Return the kernel's own description of an array, ``None`` if the array is not for it.

    It is made when first asked for, and kept as long as the array's metadata hold.
    """
    library = executors.choose(config.current().executor)
    if library is None or array.metadata.data_type.variable:
        return None
    found = array.kernel
    if found is None:
        found = _describe(library, array)
        if found is _LATER:
            return None
        object.__setattr__(array, "kernel", found or False)
    return found or None


_LATER: Any = object()
"""Stands for an array of which it is not known yet whether its store is one for the kernel."""


def _describe(library: ModuleType, array: StoredArray) -> Any:
    metadata = array.metadata
    chain = array.chain.native
    if chain is None or not array.fill.dtype.itemsize:
        return None
    of, store = array.shared.get("store", (None, None))
    if of is not array.store:
        store = _store(library, array)
        if store is None:
            return _LATER
        array.shared["store"] = array.store, store
    keys = metadata.keys
    names = (array.prefix + keys.prefix, keys.separator, keys.suffix, keys.scalar and array.prefix + keys.scalar)
    cuts = [_cut(axis, size) for axis, size in zip(metadata.grid.axes, metadata.shape)]
    try:
        return library.Array(
            store,
            metadata.shape,
            cuts,
            (*names, keys.first_only),
            chain,
            array.fill.tobytes(),
            array.fill.dtype,
            metadata.dense,
        )
    except UnsupportedError:  # options that the kernel's codecs do not know
        return None


def _store(library: ModuleType, array: StoredArray) -> Any:
    store = array.target
    if type(store) is LocalStore and sys.platform == "linux":
        if store.ignores_case is None:  # as long as no name with letters has been looked for
            store.exists(array.prefix + find_format(array.metadata.format).shape_key)
        if store.ignores_case is None:
            return None
        if not store.ignores_case:
            sync = store.durability == "fsync"
            return library.LocalFiles(store, os.path.join(store.root, ""), sync, store.prepare)
    return library.PythonStore(store, array.chain.sharding is not None, store.concurrency)


def _cut(axis: ChunkAxis, size: int) -> Any:
    if isinstance(axis, RegularAxis):
        return axis.chunk
    count = axis.count(size)
    return [axis.start(number) for number in range(count + 1)] if count else [0, 1]


def get(array: StoredArray, selection: Any) -> Any:
    """Read a selection of ints, slices and an ellipsis at one go; ``None`` if it has to go the usual way."""
    kernel = handle(array)
    if kernel is None:
        return None
    try:
        return kernel.get(selection, config.current().threads, array.check_exists)
    except MemoryError:
        return None  # the usual way says what there is no room for
    except TegulaError as error:
        if array.metadata.dense and isinstance(error, (CodecError, StoreError)):
            return None  # which looks whether the length has changed
        array.locate(error)
        raise


def read(array: StoredArray, plan: Plan, out: Array) -> bool:
    """Fill `out` as `tegula.engine.reference.read` does; return whether that is done, which it is not if it can't be.

    Raises
    ------
    CodecError, StoreError
        If a chunk can't be read or decoded; says which.
    """
    kernel = handle(array)
    offset = _offset(array)
    if kernel is None or offset is None or 0 in plan.work_shape:
        return kernel is not None and 0 in plan.work_shape
    try:
        done: bool = kernel.read(*_tables(plan), out, offset, config.current().threads, array.check_exists)
    except TegulaError as error:
        array.locate(error)
        raise
    return done


def write(array: StoredArray, plan: Plan, values: Array) -> bool:
    """Store `values` as `tegula.engine.reference.write` does; return whether that is done.

    Raises
    ------
    CodecError, StoreError
        If a chunk can't be encoded, read or written; says which. Other chunks of the selection may have been written.
    """
    kernel = handle(array)
    offset = _offset(array)
    if kernel is None or offset is None or 0 in plan.work_shape:
        return kernel is not None and 0 in plan.work_shape
    try:
        kernel.write(*_tables(plan), _cast(values, array.dtype), offset, config.current().threads, array.keeps_empty)
    except TegulaError as error:
        array.locate(error)
        raise
    return True


def any_stored(array: StoredArray, box: Box) -> bool | None:
    """Return whether any chunk of a box of grid coordinates may be stored; ``None`` if that has to be looked for."""
    kernel = None if array.metadata.dense else handle(array)
    if kernel is None:
        return None
    try:
        answer: bool | None = kernel.any_stored(box)
    except TegulaError as error:
        array.locate(error)
        raise
    return answer


def delete(array: StoredArray, box: Box, holds: Callable[[], bool]) -> bool:
    """Delete the chunks of a box of grid coordinates; return whether that is done, which it is not if it can't be.

    `holds` is called again and again while other writers are kept out, and ends it where it says no.
    """
    kernel = None if array.metadata.dense else handle(array)
    if kernel is None:
        return False
    try:
        return bool(kernel.delete(box, holds))
    except TegulaError as error:
        array.locate(error)
        raise


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Make an array that holds anything; a large one in memory that has been used before, if there is some."""
    size = dtype.itemsize
    for length in shape:
        size *= length
    library = executors.choose(config.current().executor) if size >= _LARGE and not dtype.hasobject else None
    if library is None:
        return np.empty(shape, dtype)
    made: Array = library.empty(shape, dtype)
    return made


def _cast(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return values as elements of `dtype`, as assigning them would make them; what is broadcast stays so."""
    if values.dtype == dtype:
        return values
    single = tuple([slice(0, 1) if stride == 0 else slice(None) for stride in values.strides])
    return np.broadcast_to(values[(..., *single)].astype(dtype), values.shape)


def _offset(array: StoredArray) -> int | None:
    """Return where in an element the bytes lie that an operation is about; ``None`` if they are not in one piece."""
    if array.field is None:
        return 0
    if not isinstance(array.field, str):
        return None
    fields = array.metadata.data_type.numpy.fields
    dtype, offset = fields[array.field][:2] if fields else (array.dtype, 0)
    return None if dtype.subdtype is not None or dtype.names is not None else int(offset)


def _tables(plan: Plan) -> tuple[list[Any], Any, list[int]]:
    """Return the plan in plain lists and tuples: a table for each axis, the points, what dimensions stand for."""
    tables = [None if table is None else _table(table) for table in plan.axes]
    return tables, None if plan.points is None else _points(plan.points), [*plan.work_axes]


def _table(table: Runs | Lookup) -> tuple[Any, ...]:
    if isinstance(table, Lookup):
        return table.numbers, table.bounds, table.consecutive, table.whole, table.offsets, table.positions
    return (table.start,) if table.length is None else (table.start, table.step, table.count)


def _points(points: Points) -> tuple[Any, ...]:
    return points.axes, points.numbers, points.bounds, [*points.offsets], points.positions


def _after_fork() -> None:
    library = sys.modules.get("tegula._kernel")
    if library is not None:
        library.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
