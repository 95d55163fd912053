"""Windows into large uncompressed chunks: only the byte ranges that hold selected elements are read.

Along the last axes the selected elements are so close together that one range covers them all, from the first to the
last. Along the axes before these, each selected index begins a range of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tegula.engine.concurrency.pool import gather
from tegula.engine.reading.remote import IN_FLIGHT, ShardReader
from tegula.engine.stored.array import StoredArray
from tegula.errors import CodecError, ConflictError
from tegula.stores import Store
from tegula.stores.capabilities import Ranged

__all__ = ["Window", "has_windows", "read_window", "window_of"]

_LARGE: Final = 2**22  # a chunk of up to this many bytes is read as a whole
_SHARE: Final = 2  # a window is not read if it takes more than 1 / _SHARE of the chunk
_MOST: Final = 2**12  # the most ranges of a window

Array = npt.NDArray[Any]


class Window(NamedTuple):
    """The part of a chunk to read.

    Parameters
    ----------
    indices : tuple of sequence of int
        The indices of the part along each axis, in order.
    outer : int
        The number of axes along which each index begins a range of its own.
    selection : tuple
        The selection within the part.
    ranges : list of (int, int)
        Offset and length of each range, in C order of the outer indices.
    """

    indices: tuple[range | Array, ...]
    outer: int
    selection: tuple[Any, ...]
    ranges: list[tuple[int, int]]


def has_windows(array: StoredArray) -> bool:
    """Return whether parts of chunks may be read by ranges: large, uncompressed chunks of a remote store."""
    return (
        array.store.is_remote
        and array.chunk_nbytes > _LARGE
        and array.chain.item_nbytes is not None
        and not array.metadata.dense
    )


def window_of(array: StoredArray, coords: tuple[int, ...], selection: tuple[Any, ...]) -> Window | None:
    """Return the window for a selection in a chunk; ``None`` if the chunk is better read as a whole."""
    shape, itemsize = array.metadata.grid.chunk_shape(coords), array.chain.item_nbytes or 0
    if len(selection) != len(shape) or prod(shape) * itemsize <= _LARGE:
        return None
    wanted = [_indices(part, size) for part, size in zip(selection, shape)]
    if not all(len(part) for part in wanted):
        return None

    # from the last axis backwards: as long as the gaps between indices are small, one range covers them all
    gap = ShardReader(array.store).gap
    strides = [itemsize * prod(shape[axis + 1 :]) for axis in range(len(shape))]
    outer, length = len(shape), itemsize
    while outer and (len(wanted[outer - 1]) == 1 or _widest(wanted[outer - 1]) * strides[outer - 1] - length <= gap):
        outer -= 1
        length += int(wanted[outer][-1] - wanted[outer][0]) * strides[outer]
    number = prod(len(part) for part in wanted[:outer])
    if number > _MOST or _SHARE * length * number > prod(shape) * itemsize:
        return None
    start = sum(int(part[0]) * stride for part, stride in zip(wanted[outer:], strides[outer:]))
    starts = product(*([int(index) * stride for index in part] for part, stride in zip(wanted, strides[:outer])))
    ranges = [(start + sum(offsets), length) for offsets in starts]

    # along inner axes the part has all elements between the first and the last
    inner = [range(int(part[0]), int(part[-1]) + 1) for part in wanted[outer:]]
    indices = (*wanted[:outer], *inner)
    within = [_within(part, inside, axis < outer) for axis, (part, inside) in enumerate(zip(selection, indices))]
    return Window(indices, outer, tuple(within), ranges)


def read_window(array: StoredArray, key: str, window: Window, shape: tuple[int, ...]) -> Array | None:
    """Read the part of a chunk of `shape` that a window holds, all of one generation; ``None`` if there is no chunk.

    Raises
    ------
    CodecError
        If the chunk is too short.
    ConflictError
        If the chunk has been replaced during the read.
    """
    itemsize, sizes = array.chain.item_nbytes or 0, tuple(map(len, window.indices))
    pieces = [*_pieces(window.ranges, ShardReader(array.store).span)]
    nbytes = sum(length for _, length in pieces)
    with IN_FLIGHT.hold(nbytes):
        answers = _ranges_of(array.store, key, pieces)
        if answers is None:
            return None
        if (received := sum(map(len, answers))) != nbytes:
            raise CodecError(f"there are {received} bytes where parts of the chunk take {nbytes}", codec="bytes")

        # copy the elements of each range to their place in the part
        part = np.empty(sizes, f"V{itemsize}")
        strides = [itemsize * prod(shape[axis + 1 :]) for axis in range(window.outer, len(shape))]
        source = iter(answers)
        for position, (_, length) in zip(np.ndindex(sizes[: window.outer]), window.ranges):
            data = next(source)
            if len(data) < length:
                data = b"".join([data, *_rest(source, length - len(data))])
            part[(*position, ...)] = np.ndarray(sizes[window.outer :], part.dtype, data, strides=strides)
    return array.chain.decode(part.view("u1").reshape(-1).data, sizes)


def _ranges_of(store: Store, key: str, ranges: list[tuple[int, int]]) -> list[bytes] | None:
    """Return ranges of a value, all of one generation, in one wave; ``None`` if there is no value."""
    if isinstance(store, Ranged):
        return store.get_ranges(key, ranges)[0]
    answers: Any = gather(partial(store.get, key, with_generation=True), ranges, store.concurrency)
    if any(generation != answers[0][1] for _, generation in answers):
        raise ConflictError("the chunk changed while it was being read", key=key)
    return None if answers[0][0] is None else [data for data, _ in answers]


def _indices(part: Any, size: int) -> range | Array:
    """Return the selected indices of an axis, each once and in order."""
    if isinstance(part, slice):
        indices = range(*part.indices(size))
        return indices if indices.step > 0 else indices[::-1]
    if isinstance(part, (int, np.integer)):
        return range(int(part), int(part) + 1)
    return np.unique(part)


def _widest(indices: range | Array) -> int:
    """Return the largest distance between neighbours."""
    return indices.step if isinstance(indices, range) else int(np.diff(indices).max(initial=0))


def _within(part: Any, indices: range | Array, exact: bool) -> Any:
    """Return a selection along an axis as positions in `indices`; if `exact`, `indices` has only the selected ones."""
    if isinstance(part, slice):
        step = part.step or 1
        return slice(None, None, (1 if step > 0 else -1) if exact else step)  # the first and the last are selected
    if isinstance(part, (int, np.integer)):
        return 0
    return np.searchsorted(indices, part) if exact else part - indices[0]


def _pieces(ranges: list[tuple[int, int]], most: int) -> Iterator[tuple[int, int]]:
    """Cut ranges into requests of limited length."""
    for start, length in ranges:
        for offset in range(0, length, most):
            yield start + offset, min(most, length - offset)


def _rest(source: Iterator[bytes], nbytes: int) -> Iterator[bytes]:
    """Take the pieces that hold the next bytes."""
    while nbytes > 0:
        data = next(source)
        nbytes -= len(data)
        yield data
