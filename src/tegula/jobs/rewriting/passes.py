"""Passes: how an array gets new chunks in a bounded amount of memory, and what that costs.

One pass writes units of whole target chunks. If the source's chunks lie across them, each source chunk is read once for
each unit that it touches. Two passes avoid that: the first reads units of whole source chunks and writes a temporary
array; the second reads that and writes units of whole target chunks. The chunks of the temporary array divide the units
of both passes evenly, so that each of its chunks is written once and read once.

The cheapest plan is taken. Its cost is the number of decoded bytes that are read and written, repeated reads included,
plus, for each value that is read or written, the number of bytes that could be moved in the time of one request. All of
this is arithmetic on shapes: no grid is enumerated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import permutations
from math import gcd, lcm, prod
from typing import Final

from tegula.runtime.quantities import counted, human_bytes

__all__ = ["Pass", "Passes", "TooSmall", "plan_passes"]

Shape = tuple[int, ...]
_ENOUGH: Final = 2**27  # bytes of memory beyond which units grow only if that saves something
_FEW: Final = 4  # axes up to which every order of extending a unit is tried


class TooSmall(ValueError):
    """Raised if not even one unit fits into the memory.

    Attributes
    ----------
    needed : int
        Bytes of memory that would be enough.
    """

    def __init__(self, needed: int) -> None:
        super().__init__(f"{needed} bytes are needed")
        self.needed = needed


@dataclass(frozen=True, slots=True, repr=False)
class Pass:
    """One pass over an array: units that are read from chunks of one shape and written as chunks of another.

    Examples
    --------
    >>> Pass((100, 100), 8, reads=(1, 100), unit=(100, 10), writes=(100, 10), threads=1)
    <tegula.Pass: 10 units of (100, 10), 781.2 KiB read in 1000 requests, 78.1 KiB written in 10, 23.4 KiB of memory>
    """

    shape: Shape  # of the array
    itemsize: int
    reads: Shape  # of the chunks that are read
    unit: Shape
    writes: Shape  # of the chunks that are written
    threads: int  # chunks that are decoded or encoded at once
    depth: int = 1  # factor by which the chunks that are read are larger, because of axes that a selection drops
    copies: int = 1  # how many copies of a unit's elements are in memory at once

    @property
    def counts(self) -> Shape:
        """Number of units along each axis."""
        return tuple(-(-size // length) for size, length in zip(self.shape, self.unit))

    @property
    def units(self) -> int:
        """Number of units."""
        return prod(self.counts)

    @property
    def requests_read(self) -> int:
        """Number of chunks that are read, repeated reads included."""
        return prod(_touches(size, a, b) for size, a, b in zip(self.shape, self.unit, self.reads))

    @property
    def requests_written(self) -> int:
        """Number of chunks that are written."""
        return prod(-(-size // length) for size, length in zip(self.shape, self.writes))

    @property
    def bytes_read(self) -> int:
        """Bytes of the elements in the chunks that are read; what chunks hold beyond the array does not count."""
        axes = zip(self.shape, self.unit, self.reads)
        lengths = (size + (_touches(size, unit, n) - -(-size // n)) * min(n, size) for size, unit, n in axes)
        return prod(lengths) * self.itemsize * self.depth

    @property
    def bytes_written(self) -> int:
        """Bytes of the elements that are written."""
        return prod(self.shape) * self.itemsize

    @property
    def memory(self) -> int:
        """Bytes of memory that a worker needs for one unit, and for the chunks that its threads decode or encode."""
        chunk = max(prod(self.reads) * self.depth, prod(self.writes)) * self.itemsize
        return self.copies * prod(_clipped(self.unit, self.shape)) * self.itemsize + _COPIES * self.threads * chunk

    def __repr__(self) -> str:
        read = f"{human_bytes(self.bytes_read)} read in {self.requests_read} requests"
        written = f"{human_bytes(self.bytes_written)} written in {self.requests_written}"
        memory = f"{human_bytes(self.memory)} of memory"
        return f"<tegula.Pass: {counted(self.units, 'unit')} of {self.unit}, {read}, {written}, {memory}>"


_COPIES: Final = 2
"""A chunk is in memory decoded and encoded, and encoding may gain nothing."""


@dataclass(frozen=True, slots=True, repr=False)
class Passes:
    """The passes of a conversion, and their cost.

    Parameters
    ----------
    passes : tuple of Pass
        One pass, or two.
    request_nbytes : int
        The bytes that cost as much as one request.

    Examples
    --------
    >>> found = plan_passes((10_000, 100, 100), 8, (1, 100, 100), (10_000, 10, 10), max_memory=2**27)
    >>> found
    <tegula.Passes: 2 passes through a temporary array of chunks (1250, 100, 10), 3.0 GiB to move, ... requests>
    >>> found.temporary, found.memory <= 2**27
    ((1250, 100, 10), True)
    """

    passes: tuple[Pass, ...]
    request_nbytes: int

    @property
    def temporary(self) -> Shape | None:
        """Shape of the temporary array's chunks, if there is one."""
        return self.passes[0].writes if len(self.passes) > 1 else None

    @property
    def units(self) -> int:
        """Number of units of all passes."""
        return sum(one.units for one in self.passes)

    @property
    def bytes_read(self) -> int:
        """Bytes of the elements in all chunks that are read."""
        return sum(one.bytes_read for one in self.passes)

    @property
    def bytes_written(self) -> int:
        """Bytes of the elements that are written."""
        return sum(one.bytes_written for one in self.passes)

    @property
    def requests(self) -> int:
        """Number of chunks that are read and written."""
        return sum(one.requests_read + one.requests_written for one in self.passes)

    @property
    def memory(self) -> int:
        """Bytes of memory that a worker needs."""
        return max(one.memory for one in self.passes)

    @property
    def cost(self) -> int:
        """The cost in bytes."""
        return self.bytes_read + self.bytes_written + self.requests * self.request_nbytes

    @property
    def summary(self) -> str:
        """One line of text."""
        ways = "1 pass" if self.temporary is None else f"2 passes through a temporary array of chunks {self.temporary}"
        moved = human_bytes(self.bytes_read + self.bytes_written)
        return f"{ways}, {moved} to move, {self.requests} requests"

    def __repr__(self) -> str:
        return f"<tegula.Passes: {self.summary}>"


def plan_passes(
    shape: Sequence[int],
    itemsize: int,
    reads: Sequence[int],
    writes: Sequence[int],
    *,
    max_memory: int,
    threads: int = 1,
    depth: int = 1,
    copies: int = 1,
    request_nbytes: int = 2**15,
    two: bool = True,
) -> Passes:
    """Return the cheapest passes within `max_memory`, or slightly more expensive ones that need far less memory.

    `shape`, `itemsize`, `reads`, `writes`, `depth` and `copies` are as for `Pass`: shards are read by their inner
    chunks and written as a whole. Where memory is scarce, fewer than `threads` chunks are decoded or encoded at once.
    `request_nbytes` are the bytes that cost as much as one request; `two` says whether two passes are possible.

    Raises
    ------
    TooSmall
        If not even one target chunk, with the source chunks that it is read from, fits into the memory.
    """
    shape, reads, writes = tuple(max(1, size) for size in shape), tuple(reads), tuple(writes)

    def planned(memory: int, *, two: bool) -> Passes:
        # threads take up to half of the memory, and units the rest
        chunk = max(prod(reads) * depth, prod(writes)) * itemsize
        count = max(1, min(threads, memory // max(1, 2 * _COPIES * chunk)))
        return _cheapest(_Array(shape, itemsize, memory, count, depth, copies), reads, writes, request_nbytes, two)

    # smaller units are better where they cost about the same: less is done again after an interruption
    most = planned(max_memory, two=two)
    limit = min(most.cost * 21 // 20, planned(max_memory, two=False).cost)
    level = max_memory
    smaller = []
    while level > 2 * _ENOUGH:
        level //= 2
        smaller.append(level)
    for level in reversed(smaller):
        with suppress(TooSmall):
            if (found := planned(level, two=two)).cost <= limit:
                return found
    return most


def _cheapest(array: _Array, reads: Shape, writes: Shape, request_nbytes: int, two: bool) -> Passes:
    """Return the cheapest passes that use up to all of the memory."""
    shape, itemsize, max_memory = array.shape, array.itemsize, array.memory

    # one pass
    units = [*_units(array, writes, reads, reads, writes)]
    if not units:
        raise TooSmall(_one(array, reads, _clipped(writes, shape), writes).memory)
    single = min((Passes((_one(array, reads, unit, writes),), request_nbytes) for unit in units), key=_cost)
    if not two or single.bytes_read + single.bytes_written <= 4 * prod(shape) * itemsize:
        return single  # two passes move each element four times

    # two passes
    possible = [single]
    first, second = _smaller(array, reads, writes), _smaller(array, writes, reads)
    for one in first:
        for other in second:
            between = tuple(_common(size, a, b) for size, a, b in zip(shape, one, other))
            both = _one(array, reads, one, between), _one(replace(array, depth=1), between, other, writes)
            if all(each.memory <= max_memory for each in both):
                possible.append(Passes(both, request_nbytes))
    return min(possible, key=_cost)


def _cost(passes: Passes) -> tuple[int, int, int]:
    return passes.cost, len(passes.passes), passes.units


@dataclass(frozen=True, slots=True)
class _Array:
    """An array, and the memory and threads for its passes; see `plan_passes`."""

    shape: Shape
    itemsize: int
    memory: int
    threads: int
    depth: int
    copies: int


def _one(array: _Array, reads: Shape, unit: Shape, writes: Shape) -> Pass:
    return Pass(array.shape, array.itemsize, reads, unit, writes, array.threads, array.depth, array.copies)


def _smaller(array: _Array, chunk: Shape, other: Shape) -> list[Shape]:
    """Return shapes of units for one of two passes, some of which leave room for the chunks between the passes."""
    levels = (array.memory, array.memory * 3 // 4, array.memory // 2)
    found = (_units(replace(array, memory=level), chunk, other, chunk, chunk) for level in levels)
    return [*dict.fromkeys(unit for units in found for unit in units)]


def _units(array: _Array, chunk: Shape, other: Shape, reads: Shape, writes: Shape) -> Iterator[Shape]:
    """Yield shapes of units that are made of whole chunks and fit into the memory.

    They grow until they hold whole chunks of the `other` side, too, and then further.
    """
    shape = array.shape
    start = _clipped(chunk, shape)

    # of the memory of a pass, only that of the unit's elements depends on the unit, which lies within the array
    each = array.copies * array.itemsize
    room = array.memory - _one(array, reads, start, writes).memory + prod(start) * each

    def fits(unit: Shape) -> bool:
        return prod(unit) * each <= room

    if not fits(start):
        return
    seen = {start}
    yield start
    for order in _orders(shape, chunk, other):
        for stages in (("other", "whole"), ("whole",)):
            unit = start
            for stage in stages:
                for axis in order:
                    unit = _grown(unit, axis, shape, chunk, other, stage, fits)
                    if unit not in seen:
                        seen.add(unit)
                        yield unit


def _orders(shape: Shape, chunk: Shape, other: Shape) -> Iterable[Sequence[int]]:
    """Return orders in which the axes of a unit are extended: at first those where the other side's chunks are long."""
    axes = [axis for axis in range(len(shape)) if shape[axis] > chunk[axis]]
    if len(axes) <= _FEW:
        return [*permutations(axes)]
    ratio = sorted(axes, key=lambda axis: -other[axis] / chunk[axis])
    return [ratio, ratio[::-1], axes[::-1], *([axis, *(a for a in ratio if a != axis)] for axis in ratio)]


def _grown(
    unit: Shape, axis: int, shape: Shape, chunk: Shape, other: Shape, stage: str, fits: Callable[[Shape], bool]
) -> Shape:
    """Return a unit that is as long along an axis as memory allows, in steps that suit both sides."""
    size, length = shape[axis], unit[axis]

    def with_length(new: int) -> Shape:
        return (*unit[:axis], min(new, size), *unit[axis + 1 :])

    if fits(with_length(size)) and (stage == "whole" or other[axis] >= size):
        return with_length(size)
    both = lcm(chunk[axis], min(other[axis], size))
    if stage == "other":
        # whole chunks of the other side, if they fit, else a part of one that divides it evenly
        if both < size and fits(with_length(both)):
            return with_length(max(length, both))
        parts = [p for p in _divisors(both // chunk[axis]) if p * chunk[axis] >= length]
        fitting = [p * chunk[axis] for p in parts if p * chunk[axis] < size and fits(with_length(p * chunk[axis]))]
        return with_length(max([length, *fitting]))
    for step in (both, chunk[axis]):
        low, high = length // step if length % step == 0 else 0, -(-size // step)
        if not low and not fits(with_length(step)):
            continue
        low = max(low, 1)
        while low < high:  # as many steps as fit
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(with_length(middle * step)) else (low, middle - 1)
        if low * step >= length:
            return with_length(low * step)
    return unit


def _divisors(number: int) -> list[int]:
    """Return the divisors of a number; of a very large one only powers of two and their complements."""
    if number > 2**24:
        powers = [2**power for power in range(number.bit_length()) if number % 2**power == 0]
        return sorted({*powers, *(number // power for power in powers)})
    small = [one for one in range(1, int(number**0.5) + 1) if number % one == 0]
    return sorted({*small, *(number // one for one in small)})


def _common(size: int, one: int, other: int) -> int:
    """Return the length of chunks that divide the units of both passes evenly; a unit of the whole axis is no limit."""
    if one >= size or other >= size:
        return min(one, other, size)
    return gcd(one, other)


def _clipped(chunk: Shape, shape: Shape) -> Shape:
    return tuple(min(length, size) for length, size in zip(chunk, shape))


def _touches(size: int, unit: int, chunk: int) -> int:
    """Return how many chunks all units of an axis touch; one that lies in two units counts twice."""
    if unit >= size:
        return -(-size // chunk)
    cuts = (size - 1) // unit
    return -(-size // chunk) + cuts - (size - 1) // lcm(unit, chunk)
