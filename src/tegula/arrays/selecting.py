"""Reading and writing the elements of a selection: a plan is made, and the engine carries it out."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tegula import engine
from tegula.engine.stored.array import StoredArray
from tegula.errors import MetadataError, SelectionError, brief
from tegula.runtime.deferred import Later
from tegula.runtime.frozen import replace

if TYPE_CHECKING:
    import numpy.typing as npt

    from tegula import indexing
    from tegula.arrays import values as values_room
    from tegula.indexing import Plan
    from tegula.metadata.chunk_grids import ChunkGrid
    from tegula.views import interop
else:
    indexing = Later("tegula.indexing")
    interop, values_room = Later("tegula.views.interop"), Later("tegula.arrays.values")

__all__ = ["ArraySelection", "Indexer", "MakePlan", "basic", "read", "write"]

_FEW_CHUNKS = 16  # larger reads are compared with the physical memory; smaller ones are bounded by `max_chunk_bytes`
Whole: TypeAlias = slice | EllipsisType
ArraySelection: TypeAlias = "Whole | list[int] | npt.NDArray[Any] | tuple[Whole | list[int] | npt.NDArray[Any], ...]"
"""A selection whose result is an array; a selection with an int may give a single element."""
MakePlan: TypeAlias = "Callable[[Any, tuple[int, ...], ChunkGrid], Plan]"


class Indexer:
    """Another kind of selection than ``a[...]``, for reading and writing: `Array.oindex`, `vindex` and `blocks`."""

    __slots__ = ("_plan", "_read", "_write")

    def __init__(self, read: Callable[..., Any], write: Callable[..., None], plan: MakePlan) -> None:
        self._read, self._write, self._plan = read, write, plan

    def __getitem__(self, selection: Any) -> Any:
        return self._read(selection, self._plan, None)

    def __setitem__(self, selection: Any, values: Any) -> None:
        self._write(selection, self._plan, values)


def basic(selection: Any) -> Any:
    """Return a selection if it consists of ints and slices.

    Raises
    ------
    SelectionError
        If it has anything else.
    """
    parts = selection if isinstance(selection, tuple) else (selection,)
    for part in parts:
        if isinstance(part, (slice, EllipsisType)) or (np.ndim(part) == 0 and hasattr(part, "__index__")):
            continue
        raise SelectionError(f"a basic selection has ints and slices, not {brief(part, 50)}; use a.oindex or a.vindex")
    return selection


def masked(mask: Any, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Return a mask of an array, which may be the only item of a tuple.

    Raises
    ------
    SelectionError
        If it is anything but booleans in the shape of the array.
    """
    try:
        found = np.asarray(mask[0] if isinstance(mask, tuple) and len(mask) == 1 else mask)
    except ValueError as error:
        raise SelectionError(f"the mask is no array: {error}") from error
    if found.dtype != np.bool_ or found.shape != shape:
        raise SelectionError(f"a mask has booleans in the shape {shape}, not {found.dtype} in the shape {found.shape}")
    return found


# --- reading


def read(stored: StoredArray, selection: Any, make_plan: MakePlan, out: Any = None) -> Any:
    """Return the elements of a selection, or `out` with the elements.

    Raises
    ------
    SelectionError
        If the selection does not fit the array, the elements do not fit into memory, or `out` can't receive them.
    """
    try:
        if out is None:
            return _read(stored, selection, make_plan, None)
        _read(stored, selection, make_plan, interop.as_output(out))
        return out
    except MemoryError as error:
        raise stored.out_of_memory(error) from error
    except SelectionError as error:
        stored.locate(error)
        raise


def _read(stored: StoredArray, selection: Any, make_plan: MakePlan, out: npt.NDArray[Any] | None) -> Any:
    full, metadata = stored, stored.metadata
    if metadata.data_type.numpy.names is not None:
        fields, selection = indexing.split_fields(selection)
        if fields is not None:
            stored = _of_fields(full, fields)
            if stored.dtype.subdtype is not None:  # read a field of subarrays as records, then take it out
                parts = _read(full, ([fields], selection), make_plan, None)[fields]
                return parts if out is None else _copied(parts, out)
    plan = make_plan(selection, metadata.shape, metadata.grid)
    if out is not None:
        return _read_into(stored, plan, out)
    if plan.nchunks > _FEW_CHUNKS and prod(plan.work_shape) * stored.dtype.itemsize > engine.physical_memory():
        raise _too_large(stored, plan)
    try:
        work = engine.empty(plan.work_shape, stored.dtype)
    except (MemoryError, ValueError) as error:
        raise _too_large(stored, plan) from error
    engine.read(stored, plan, work)
    return work[()] if plan.is_point else plan.present(work)


def _read_into(stored: StoredArray, plan: Plan, out: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if out.shape != plan.shape:
        raise SelectionError(f"out has the shape {out.shape}, the selection {plan.shape}")
    work = plan.arrange(out)
    if np.may_share_memory(work, out) and work.dtype == stored.dtype and work.flags.writeable:
        engine.read(stored, plan, work)
    else:
        try:
            work = np.empty(plan.work_shape, stored.dtype)
        except MemoryError as error:
            raise _too_large(stored, plan) from error
        engine.read(stored, plan, work)
        out[...] = plan.present(work)
    return out


def _copied(values: npt.NDArray[Any], out: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if out.shape != values.shape:
        raise SelectionError(f"out has the shape {out.shape}, the selection {values.shape}")
    out[...] = values
    return out


def _too_large(stored: StoredArray, plan: Plan) -> SelectionError:
    nbytes = prod(plan.shape) * stored.dtype.itemsize
    return SelectionError(
        f"a selection of shape {plan.shape} takes {nbytes} bytes and does not fit into memory; read it in parts"
    )


# --- writing


def write(stored: StoredArray, selection: Any, make_plan: MakePlan, values: Any) -> None:
    """Write the elements of a selection.

    Raises
    ------
    SelectionError, MetadataError
        If the selection does not fit the array, or the values do not fit the selection or the type.
    """
    try:
        _write(stored, selection, make_plan, values)
    except MemoryError as error:
        raise stored.out_of_memory(error) from error
    except (MetadataError, SelectionError) as error:
        stored.locate(error)
        raise


def _write(stored: StoredArray, selection: Any, make_plan: MakePlan, values: Any) -> None:
    metadata = stored.metadata
    if metadata.data_type.numpy.names is not None:
        fields, selection = indexing.split_fields(selection)
        if fields is not None:
            stored = _of_fields(stored, fields)
    plan = make_plan(selection, metadata.shape, metadata.grid)
    if stored.dtype.subdtype is not None:  # write a field of subarrays as records
        stored = replace(stored, field=[str(stored.field)])
        values = values_room.as_records(values, stored.dtype, plan.shape)
    elif plan.is_point and metadata.data_type.variable:
        values = values_room.as_element(values)
    values = values_room.as_values(values, metadata.data_type, stored.dtype)
    engine.write(stored, plan, plan.arrange(values))


def _of_fields(stored: StoredArray, fields: str | list[str]) -> StoredArray:
    """Return the array with the fields that an operation reads or writes."""
    names = stored.metadata.data_type.numpy.names or ()
    for name in [fields] if isinstance(fields, str) else fields:
        if name not in names:
            raise SelectionError(f"there is no field {name!r}; the fields are {', '.join(names)}")
    if len({*fields}) < len(fields) and not isinstance(fields, str):
        raise SelectionError(f"a field can be selected only once: {fields}")
    return replace(stored, field=fields)
