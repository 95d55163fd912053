"""One chunk: reading a part of it, and changing a part of it. A shard is a chunk that holds inner chunks.

These functions define what the bytes of a chunk mean. They recurse into shards, whose inner chunks are chunks again,
and read no more of a shard than the selection needs (Zarr v3 "sharding_indexed" codec).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.codecs import EMPTY, CodecChain, Sharding, equals_fill
from tegula.codecs.sharding import InnerChain
from tegula.engine.visiting import batches
from tegula.errors import CodecError
from tegula.indexing import refine
from tegula.metadata.chunk_grids import regular_grid
from tegula.stores import ByteRange

__all__ = ["copy_out", "fill_out", "join_runs", "merge_chunk", "read_inner_chunks"]

Array = npt.NDArray[Any]
Selection = tuple[Any, ...]
Field = str | list[str] | None
GetRange = Callable[[ByteRange], bytes | None]

_GAP: Final = 2**15  # unneeded bytes that cost less to read than a second request
_SMALL: Final = 2**8  # bytes
_AT_ONCE: Final = 2**14  # inner chunks that are located in the index before they are read
_SPAN: Final = 2**23  # bytes of one request, so that a large shard is never in memory as a whole


def merge_chunk(
    chain: CodecChain | InnerChain,
    old: bytes | memoryview | None,
    shape: tuple[int, ...],
    change: tuple[Selection, Array, bool],
    fill: Array,
    field: Field,
    keep_empty: bool,
) -> Any | None:
    """Replace part of a chunk; return its new bytes, or ``None`` if it need not be stored.

    Parameters
    ----------
    chain : CodecChain
        The chunk's codecs.
    old : bytes or None
        The bytes that are stored.
    shape : tuple of int
        The chunk's full shape.
    change : (selection, values, covers)
        A selection in the chunk, the values for it, and whether it covers all elements that belong to the array.
    fill : 0-d ndarray
        The fill value.
    field : str, list of str or None
        The fields to change.
    keep_empty : bool
        Whether to store a chunk that is equal to the fill value.
    """
    selection, values, covers = change
    covers = covers and field is None
    if chain.sharding is not None:
        return _merge_shard(chain.sharding, None if covers else old, shape, change, fill, field, keep_empty)
    if covers and values.shape == shape and values.dtype == fill.dtype and all(type(s) is slice for s in selection):
        # the values are the whole chunk, except for axes that the selection reverses
        turned: tuple[Any, ...] = tuple(slice(None, None, -1 if s.step == -1 else 1) for s in selection)
        chunk = values[(..., *turned)]  # without the ellipsis a 0-d array would become a scalar
    elif covers or old is None:
        chunk = np.full(shape, fill, fill.dtype)
        _place(chunk, selection, values, field)
    else:
        chunk = chain.decode(old, shape)
        if not chunk.flags.writeable or not chunk.flags.owndata:
            chunk = chunk.copy(order="K")
        _place(chunk, selection, values, field)
    if not keep_empty and equals_fill(chunk, fill):
        return None
    return chain.encode(chunk)


def copy_out(out: Array, work: Selection, chunk: Array, selection: Selection, field: Field) -> None:
    """Copy part of a decoded chunk to its place in the result."""
    if field is not None:
        chunk = chunk[field]
    if out.dtype.names is not None and out.dtype == chunk.dtype:  # NumPy would leave the bytes between fields behind
        raw = np.dtype(f"V{out.dtype.itemsize}")
        out, chunk = out.view(raw), chunk.view(raw)
    if out.ndim == 0 and chunk.dtype.hasobject:
        out[...] = chunk[_one_element(selection)].reshape(())
    else:
        out[work] = chunk[selection]


def fill_out(out: Array, work: Selection, fill: Array) -> None:
    """Write the fill value to a part of the result; a list or dict is copied for each element, since it is mutable."""
    value = fill[()]
    if fill.dtype.hasobject and isinstance(value, (list, dict)):
        place = out[(*work, ...)]
        for index in np.ndindex(place.shape):
            place[index] = deepcopy(value)
        if place.base is None:
            out[work] = place
    elif out.ndim == 0:
        out[...] = fill
    else:
        out[work] = fill


def _one_element(selection: Selection) -> Selection:
    """Select an element as a box of one, so that NumPy does not unpack an object that is a list or an array."""
    return (..., *(slice(index, index + 1) for index in selection))


def _place(chunk: Array, selection: Selection, values: Array, field: Field) -> None:
    if values.ndim == 0 and chunk.dtype.hasobject and all(type(item) is int for item in selection):
        chunk[_one_element(selection)] = values
    elif field is None:
        chunk[selection] = values
    elif isinstance(field, str):
        chunk[field][selection] = values
    else:
        for name in field:
            chunk[name][selection] = values[name]


def _merge_shard(
    sharding: Sharding,
    old: bytes | memoryview | None,
    shape: tuple[int, ...],
    change: tuple[Selection, Array, bool],
    fill: Array,
    field: Field,
    keep_empty: bool,
) -> bytes | None:
    """Encode the inner chunks that change, and copy the bytes of the others."""
    selection, values, _ = change
    entries: dict[tuple[int, ...], Any] = {} if old is None else _inner_chunks(sharding, memoryview(old), shape)
    inner_shape = sharding.inner_shape
    for coords, inner_selection, work, covers in refine(selection, shape, regular_grid(inner_shape)):
        new = merge_chunk(
            sharding.inner,
            entries.get(coords),
            inner_shape,
            (inner_selection, values[work] if work else values, covers),
            fill,
            field,
            keep_empty,
        )
        # a view would keep the whole encoded array in memory for a few bytes
        entries[coords] = bytes(new) if new is not None and len(new) <= _SMALL else new
    if keep_empty and old is None:
        blank = None
        for coords in np.ndindex(*sharding.grid_shape(shape)):
            if coords not in entries:
                blank = blank if blank is not None else sharding.inner.encode(np.full(inner_shape, fill, fill.dtype))
                entries[coords] = blank
    return sharding.assemble(entries, shape)


def _inner_chunks(sharding: Sharding, shard: memoryview, shape: tuple[int, ...]) -> dict[tuple[int, ...], Any]:
    size = sharding.index_nbytes(shape)
    if len(shard) < size:
        raise CodecError(f"a shard of {len(shard)} bytes has no room for its index of {size}", codec="sharding_indexed")
    raw = shard[:size] if sharding.index_at_start else shard[len(shard) - size :]
    index = sharding.decode_index(bytes(raw), shape, len(shard))
    present = np.argwhere(index[..., 0] != EMPTY)
    return {
        coords: shard[int(index[coords][0]) : int(index[coords][0]) + int(index[coords][1])]
        for coords in map(tuple, present.tolist())
    }


def read_inner_chunks(
    sharding: Sharding,
    get: GetRange,
    shape: tuple[int, ...],
    selection: Selection,
    out: Array,
    fill: Array,
    field: Field,
) -> bool:
    """Read part of a shard by byte ranges; return whether the shard exists, and leave `out` alone if it does not.

    Parameters
    ----------
    sharding : Sharding
        The shard's inner codecs and index.
    get : callable
        Returns a byte range of the shard, or ``None`` if there is no shard.
    shape : tuple of int
        The shard's full shape.
    selection : tuple
        The part of the shard to read.
    out : ndarray
        Receives the elements; has the shape of the selection.
    fill : 0-d ndarray
        The fill value, for inner chunks that are missing.
    field : str, list of str or None
        The fields to read.
    """
    size = sharding.index_nbytes(shape)
    raw = get((0, size) if sharding.index_at_start else (-size, None))
    if raw is None:
        return False
    if len(raw) != size:
        raise CodecError(f"a shard of {len(raw)} bytes has no room for its index of {size}", codec="sharding_indexed")
    index = sharding.decode_index(raw, shape, None)
    inner_shape = sharding.inner_shape
    plan = refine(selection, shape, regular_grid(inner_shape))
    for part in batches(plan, _AT_ONCE):
        wanted = []
        for coords, inner_selection, work, _ in part:
            offset, nbytes = (int(value) for value in index[coords])
            if offset == EMPTY:
                fill_out(out, work, fill if field is None else fill[field])
            else:
                wanted.append((offset, nbytes, inner_selection, work))
        wanted.sort(key=lambda item: item[0])
        nested = sharding.inner.sharding is not None
        for run in [[item] for item in wanted] if nested else join_runs(wanted):
            _read_run(sharding, get, run, out, fill, field)
    return True


def _read_run(sharding: Sharding, get: GetRange, run: list[Any], out: Array, fill: Array, field: Field) -> None:
    """Read inner chunks that lie close together by one request."""
    start = run[0][0]
    stop = max(offset + nbytes for offset, nbytes, _, _ in run)
    if sharding.inner.sharding is not None:
        _read_nested(sharding.inner.sharding, get, run[0], sharding.inner_shape, out, fill, field)
        return
    data = get((start, stop - start))
    if data is None or len(data) != stop - start:
        raise CodecError("an inner chunk lies outside its shard", codec="sharding_indexed")
    view = memoryview(data)
    for offset, nbytes, inner_selection, work in run:
        chunk = sharding.inner.decode(view[offset - start : offset - start + nbytes], sharding.inner_shape)
        copy_out(out, work, chunk, inner_selection, field)


def join_runs(wanted: list[Any]) -> list[list[Any]]:
    """Join chunks that lie close together in the shard, so that each run is one request.

    Parameters
    ----------
    wanted : list of (offset, length, ...)
        The chunks, in order of their offsets.
    """
    runs: list[list[Any]] = []
    stop = 0
    for item in wanted:
        offset, nbytes = item[0], item[1]
        if runs and offset <= stop + _GAP and offset + nbytes - runs[-1][0][0] <= _SPAN:
            runs[-1].append(item)
        else:
            runs.append([item])
        stop = max(stop, offset + nbytes)
    return runs


def _read_nested(
    sharding: Sharding, get: GetRange, item: Any, shape: tuple[int, ...], out: Array, fill: Array, field: Field
) -> None:
    start, size, selection, work = item

    def get_inside(byte_range: ByteRange) -> bytes | None:
        offset, length = byte_range
        offset = max(0, size + offset) if offset < 0 else min(offset, size)
        length = size - offset if length is None else min(length, size - offset)
        return get((start + offset, length))

    # where `work` holds index arrays, `out[work]` is a copy; so the part is read into a buffer first
    part = np.empty(out[work].shape, out.dtype)
    if not read_inner_chunks(sharding, get_inside, shape, selection, part, fill, field):
        raise CodecError("an inner shard lies outside its shard", codec="sharding_indexed")
    out[work] = part
