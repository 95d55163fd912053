"""One chunk: reading a part of it, and changing a part of it. A shard is a chunk that holds inner chunks.

These functions define what the bytes of a chunk mean. They recurse into shards, whose inner chunks may be shards again,
and read only the parts of a shard that the selection needs (Zarr v3 "sharding_indexed" codec).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from copy import deepcopy
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tegula.codecs import EMPTY, CodecChain, Sharding, equals_fill
from tegula.codecs.serializers.sharding import InnerChain
from tegula.engine.stored.visiting import batches
from tegula.errors import CodecError
from tegula.indexing import refine
from tegula.metadata.chunk_grids import regular_grid
from tegula.stores import ByteRange

__all__ = ["Fetch", "copy_out", "fill_out", "index_range", "merge_chunk", "read_inner_chunks"]

Array = npt.NDArray[Any]
Selection = tuple[Any, ...]
Field = str | list[str] | None
Fetch = Callable[[Sequence[tuple[int, int]]], Generator[tuple[int, bytes | memoryview]]]
"""Reads ranges of a shard, given as offsets and lengths, and yields each with its position, in any order."""
Absent = Callable[..., Array]
"""Returns the fill value for an inner chunk that is not stored, or raises; its arguments are coordinates."""

_SMALL: Final = 2**8  # bytes
_AT_ONCE: Final = 2**14  # inner chunks that are located in the index before they are read
_SHARDS_AT_ONCE: Final = 2**8  # inner shards whose indexes are read before their inner chunks


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
        # the values fill the chunk, with those axes reversed that the selection reverses
        turned: tuple[Any, ...] = tuple(slice(None, None, -1 if s.step == -1 else 1) for s in selection)
        chunk = values[(..., *turned)]  # without the ellipsis a 0-d array would become a scalar
    elif covers or old is None:
        chunk = np.full(shape, fill, fill.dtype)
        _assign(chunk, selection, values, field)
    else:
        chunk = chain.decode(old, shape)
        if not chunk.flags.writeable or not chunk.flags.owndata:
            chunk = chunk.copy(order="K")
        _assign(chunk, selection, values, field)
    if not keep_empty and equals_fill(chunk, fill):
        return None
    return chain.encode(chunk)


def copy_out(out: Array, work: Selection, chunk: Array, selection: Selection, field: Field) -> None:
    """Copy part of a decoded chunk to its place in the result."""
    if field is not None:
        chunk = chunk[field]
    if out.dtype.names is not None and out.dtype == chunk.dtype:  # NumPy would not copy the bytes between fields
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
        part = out[(*work, ...)]
        for index in np.ndindex(part.shape):
            part[index] = deepcopy(value)
        if part.base is None:
            out[work] = part
    elif out.ndim == 0:
        out[...] = fill
    else:
        out[work] = fill


def _one_element(selection: Selection) -> Selection:
    """Select an element as a box of one element, so that NumPy does not unpack an element that is a list or array."""
    return (..., *(slice(index, index + 1) for index in selection))


def _assign(chunk: Array, selection: Selection, values: Array, field: Field) -> None:
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
    index: bytes,
    fetch: Fetch,
    shape: tuple[int, ...],
    selection: Selection,
    out: Array,
    absent: Absent,
    field: Field,
) -> None:
    """Read part of a shard by byte ranges.

    Parameters
    ----------
    sharding : Sharding
        The shard's inner codecs and index.
    index : bytes
        The bytes of its index.
    fetch : callable
        Returns byte ranges of the shard, given as offsets and lengths; called once for all ranges known at the time.
    shape : tuple of int
        The shard's full shape.
    selection : tuple
        The part of the shard to read.
    out : ndarray
        Receives the elements; has the shape of the selection.
    absent : callable
        Returns the fill value for an inner chunk that is missing, from its coordinates, or raises.
    field : str, list of str or None
        The fields to read.
    """
    for wanted in _located(sharding, index, (0, None), shape, selection, out, absent):
        _read_wanted(sharding, fetch, wanted, absent, field)


def index_range(sharding: Sharding, shape: tuple[int, ...]) -> ByteRange:
    """Return the byte range of the index of a shard."""
    size = sharding.index_nbytes(shape)
    return (0, size) if sharding.index_at_start else (-size, None)


class _Wanted(NamedTuple):
    """An inner chunk to read: where it is in the outermost shard, the selection in it, and the place in the result."""

    around: tuple[tuple[int, ...], ...]
    offset: int
    nbytes: int
    selection: Selection
    out: Array
    work: Selection


def _located(
    sharding: Sharding,
    raw: bytes | memoryview,
    extent: tuple[int, int | None],
    shape: tuple[int, ...],
    selection: Selection,
    out: Array,
    absent: Absent,
    around: tuple[tuple[int, ...], ...] = (),
) -> Iterator[list[_Wanted]]:
    """Yield the selected inner chunks of a shard in lists of bounded length; `absent` is called for missing ones."""
    start, nbytes = extent
    if len(raw) != sharding.index_nbytes(shape):
        size = sharding.index_nbytes(shape)
        raise CodecError(f"a shard of {len(raw)} bytes has no room for its index of {size}", codec="sharding_indexed")
    index = sharding.decode_index(raw, shape, None)
    for part in batches(refine(selection, shape, regular_grid(sharding.inner_shape)), _AT_ONCE):
        wanted = []
        for coords, inner_selection, work, _ in part:
            offset, length = (int(value) for value in index[coords])
            if offset == EMPTY:
                fill_out(out, work, absent(*around, coords))
            elif nbytes is not None and offset + length > nbytes:
                raise _outside()
            else:
                wanted.append(_Wanted((*around, coords), start + offset, length, inner_selection, out, work))
        yield wanted


def _outside() -> CodecError:
    return CodecError("an inner chunk lies outside its shard", codec="sharding_indexed")


def _read_wanted(sharding: Sharding, fetch: Fetch, wanted: list[_Wanted], absent: Absent, field: Field) -> None:
    """Read and decode inner chunks: either all are plain chunks, or all are shards with the same codecs."""
    inner, shape = sharding.inner, sharding.inner_shape
    if inner.sharding is not None:
        for some in batches(wanted, _SHARDS_AT_ONCE):
            _read_nested(inner.sharding, fetch, some, shape, absent, field)
        return
    with closing(fetch([(one.offset, one.nbytes) for one in wanted])) as parts:
        for number, data in parts:
            one = wanted[number]
            if len(data) != one.nbytes:
                raise _outside()
            copy_out(one.out, one.work, inner.decode(data, shape), one.selection, field)


def _read_nested(
    sharding: Sharding, fetch: Fetch, wanted: list[_Wanted], shape: tuple[int, ...], absent: Absent, field: Field
) -> None:
    """Read parts of inner shards: first the indexes of all of them, then the inner chunks of all."""
    # the indexes
    size = sharding.index_nbytes(shape)
    spans = [(one.offset if sharding.index_at_start else one.offset + one.nbytes - size, size) for one in wanted]
    if any(one.nbytes < size for one in wanted):
        least = min(one.nbytes for one in wanted)
        raise CodecError(f"a shard of {least} bytes has no room for its index of {size}", codec="sharding_indexed")
    with closing(fetch(spans)) as raw_indexes:
        indexes = {number: bytes(raw) for number, raw in raw_indexes}

    # if `work` holds index arrays, `out[work]` is a copy; so each part is first read into a buffer
    # the ellipsis keeps a single object an array
    parts = [np.empty(one.out[(*one.work, ...)].shape, one.out.dtype) for one in wanted]
    inner: list[_Wanted] = []
    for number, (one, part) in enumerate(zip(wanted, parts)):
        extent = (one.offset, one.nbytes)
        for located in _located(sharding, indexes[number], extent, shape, one.selection, part, absent, one.around):
            inner += located
            if len(inner) >= _AT_ONCE:
                _read_wanted(sharding, fetch, inner, absent, field)
                inner = []
    _read_wanted(sharding, fetch, inner, absent, field)
    for one, part in zip(wanted, parts):
        one.out[(*one.work, ...)] = part
