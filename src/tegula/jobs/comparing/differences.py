"""Differences of two arrays of one shape, found box by box; the results of boxes merge.

Chunks that both arrays store as the same bytes, with equivalent codecs, are equal and need no decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, islice
from math import prod
from typing import Any, Final

import numpy as np

from tegula.arrays.array import Array
from tegula.codecs.equivalence import decode_alike
from tegula.engine.concurrency.pool import gather, results_of
from tegula.engine.copying.chunk_copies import part_of
from tegula.engine.stored.visiting import cells, in_order
from tegula.jobs.units import Box, block_grid, blocks_of
from tegula.reductions.equality import equal_values

__all__ = ["Differing", "Largest", "compare_box", "compare_fills", "decodes_alike", "equal_fills", "units"]

_TRIES: Final = 4  # chunks whose bytes are compared first; if all differ, the box is decoded at once


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest difference of two numbers, its index, and both numbers."""

    amount: float  # of integers an int
    index: tuple[int, ...]
    one: Any
    other: Any


@dataclass(frozen=True, slots=True)
class Differing:
    """The number of elements that differ in a part of two arrays, the first of them in C order, and the largest."""

    count: int = 0
    index: tuple[int, ...] | None = None  # of the first; ``None`` if all are equal
    one: Any = None  # the two values there
    other: Any = None
    skipped: int = 0  # chunks that both store as the same bytes, which were not decoded
    largest: Largest | None = None  # ``None`` if no difference is a number

    def merge(self, other: Differing) -> Differing:
        """Return the result for both parts together."""
        first = self
        if self.index is None or (other.index is not None and other.index < self.index):
            first = other
        both = [part.largest for part in (self, other) if part.largest is not None]
        largest = min(both, key=lambda each: (-each.amount, each.index), default=None)
        number, skipped = self.count + other.count, self.skipped + other.skipped
        return replace(first, count=number, skipped=skipped, largest=largest)


# --- units


def units(one: Array, other: Array, absent: list[tuple[int, ...]]) -> Iterator[Box]:
    """Yield the boxes of two arrays of one shape: all, or if few chunks are stored, the boxes with stored chunks.

    In the end `absent` receives the index of the first element that is left out, if there is one.
    """
    grid, arrays = block_grid(one, other), (one, other)
    number = prod(grid.counts(other.shape))
    is_sparse = all(array.stored.is_sparse(number, array.nbytes) for array in arrays)
    if not is_sparse:
        yield from grid.regions(other.shape)
        return
    # a block would be mostly fill values
    grid = max((array.metadata.grid for array in arrays), key=lambda each: prod(each.largest_chunk()))

    def stored() -> Iterator[tuple[int, ...]]:
        for array in arrays:
            yield from (block for block, _ in blocks_of(array, tuple(map(range, array.shape)), grid))

    every, gap = cells([(0, count) for count in grid.counts(other.shape)]), None
    for coords in in_order(stored):
        if gap is None and (expected := next(every)) != coords:
            gap = expected
        yield grid.region(coords, other.shape)
    gap = next(every, None) if gap is None else gap
    if gap is not None:
        absent.append(tuple(part.start for part in grid.region(gap, other.shape)))


def compare_box(one: Array, other: Array, box: Box, *, exact: bool, alike: bool) -> Differing:
    """Compare a box of two arrays of one shape and comparable types; if they decode `alike`, a box of whole chunks."""
    if not alike:
        return _decoded(one, other, box, exact)
    requests = max(one.store.concurrency, other.store.concurrency)
    strict = one.stored.is_strict or other.stored.is_strict
    chunks = cells(one.metadata.grid.touched(box))

    def stores_same(coords: tuple[int, ...]) -> bool | None:
        """Return whether both store the same bytes for a chunk; ``None`` if neither stores it or has to."""
        keys = [(array.store, array.stored.key(coords)) for array in (one, other)]
        old, new = gather(lambda pair: pair[0].get(pair[1]) if pair[1] else None, keys, requests)
        if old is None and new is None and not one.metadata.dense and all(key for _, key in keys):
            return False if strict else None  # decoding says which chunk is not stored
        return old is not None and bool(old == new)

    def compared(coords: tuple[int, ...], same: bool | None) -> Differing:
        if same is False:
            return _decoded(one, other, part_of(one.stored, coords), exact)
        return Differing(skipped=1 if same else 0)

    # where the bytes of the first chunks differ, those of the others probably do
    first = [*islice(chunks, _TRIES)]
    same = gather(stores_same, first, requests)
    if len(first) == _TRIES and not any(same) and False in same:
        return _decoded(one, other, box, exact)
    others = results_of(lambda coords: compared(coords, stores_same(coords)), chunks, requests)
    return reduce(Differing.merge, chain(map(compared, first, same), others), Differing())


def compare_fills(one: Array, other: Array, absent: list[tuple[int, ...]], number: int, *, exact: bool) -> Differing:
    """Compare the elements of absent chunks, of which there are `number`."""
    if not number or equal_fills(one, other, exact):
        return Differing()
    fills = one.stored.fill.reshape(1), other.stored.fill.reshape(1)
    largest = _largest(*fills, np.zeros(1, bool), lambda _: absent[0])
    sides = _python_value(one.stored.fill), _python_value(other.stored.fill)
    return Differing(number, absent[0], sides[0], sides[1], largest=largest)


def equal_fills(one: Array, other: Array, exact: bool) -> bool:
    """Return whether two arrays of comparable types read elements that were never written as equal values."""
    types = one.metadata.data_type, other.metadata.data_type
    return bool(equal_values(one.stored.fill.reshape(1), other.stored.fill.reshape(1), types, exact)[0])


def _decoded(one: Array, other: Array, box: Box, exact: bool) -> Differing:
    old, new = np.asarray(one[box]), np.asarray(other[box])
    same = equal_values(old, new, (one.metadata.data_type, other.metadata.data_type), exact)
    count = same.size - int(np.count_nonzero(same))
    if not count:
        return Differing()

    def index_of(position: int) -> tuple[int, ...]:
        inner = np.unravel_index(position, same.shape)
        return tuple(part.start + int(index) for part, index in zip(box, inner))

    first, largest = int(np.argmin(same)), _largest(old, new, same, index_of)
    one_value, other_value = (_python_value(values.reshape(-1)[first]) for values in (old, new))
    return Differing(count, index_of(first), one_value, other_value, largest=largest)


def _largest(
    old: np.ndarray[Any, Any],
    new: np.ndarray[Any, Any],
    same: np.ndarray[Any, Any],
    index_of: Callable[[int], tuple[int, ...]],
) -> Largest | None:
    """Return the largest difference of numbers; differences from NaN have no size."""
    if old.dtype.kind not in "biufc" or new.dtype.kind not in "biufc":
        return None
    places = np.flatnonzero(~same.reshape(-1))
    one, other = old.reshape(-1)[places], new.reshape(-1)[places]
    amounts = _distances(one, other)
    if np.isnan(amounts).all():
        return None
    best = int(np.nanargmax(amounts))
    return Largest(amounts[best].item(), index_of(int(places[best])), *map(_python_value, (one[best], other[best])))


def _distances(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the absolute differences of numbers: of integers exactly, of others as floats."""
    kinds = one.dtype.kind + other.dtype.kind
    if "f" not in kinds and "c" not in kinds:
        wide = np.result_type(one.dtype, other.dtype, np.uint8)
        if wide.kind in "iu":  # differences of 64 bits fit without a sign
            one, other = one.astype(f"{wide.kind}8"), other.astype(f"{wide.kind}8")
            larger, smaller = np.maximum(one, other), np.minimum(one, other)
            return np.asarray(larger.view("u8") - smaller.view("u8"))
    wide = np.dtype("c16" if "c" in kinds else "f8")
    with np.errstate(all="ignore"):
        return np.asarray(np.abs(one.astype(wide) - other.astype(wide)))


def _python_value(value: Any) -> Any:
    """Return a value as a Python object; times and structures remain NumPy scalars.

    A float has the fewest digits that tell it from others of its size.
    """
    array = np.asarray(value)
    if array.ndim or array.dtype.kind in "MmV":
        return value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    if array.dtype.kind == "f" and array.dtype.itemsize < np.dtype("f8").itemsize:
        return float(str(array[()]))
    return array.item()


def decodes_alike(one: Array, other: Array) -> bool:
    """Return whether chunks of two arrays with equal bytes have equal values.

    That includes absent chunks, so the fill values must be equal, too.
    """
    old, new = one.metadata, other.metadata
    if old.shape != new.shape or old.grid != new.grid or old.dense != new.dense:
        return False
    if not (old.dense or equal_fills(one, other, exact=True)):
        return False
    strict = one.stored.is_strict or other.stored.is_strict
    if strict and one.stored.chain.sharding is not None:
        return False  # equal shards may lack the same inner chunks
    if old.codecs == new.codecs:
        return old.data_type == new.data_type
    return decode_alike(old.codecs, old.data_type, new.codecs, new.data_type)
