"""The work of a conversion: its units, and what is done with each, in any process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, partial
from itertools import islice
from math import prod
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.arrays.chunk_regions import Indices, selection_of
from tegula.engine.copying.chunk_copies import ChunkCopies, part_of, stores_all
from tegula.engine.copying.chunks import chunks_with_values, copier_of, copy_chunks
from tegula.engine.stored.visiting import batches, cells, check_number
from tegula.errors import CodecError, UnsupportedError
from tegula.jobs.checksum import digest_of_array
from tegula.jobs.ledger import Records, add_amounts
from tegula.jobs.plans import Unit
from tegula.jobs.publishing import Destination, Writing
from tegula.jobs.units import Box, blocks_of, in_boxes, itemsize_of, pairs_in_order, selected
from tegula.metadata.chunk_grids import ChunkGrid
from tegula.metadata.fill_values import is_empty
from tegula.metadata.json_values import equal_json
from tegula.reductions.equality import identical
from tegula.reductions.precision import Loss, Precision
from tegula.reductions.sums import PRIME, Sums, sums_of_values
from tegula.runtime.executors import release

__all__ = [
    "Converting",
    "check_amount",
    "digest_of",
    "loss_of",
    "parts_of",
    "same_attributes",
    "same_fill",
    "stored_blocks",
]

Coords = tuple[int, ...]
Mode = Literal["copy", "rewrite", "verify"]
_SUMS: Final = ("sum 0", "sum 1", "weight 0", "weight 1")
_UNSUMMED: Final = "without a sum"
_TOGETHER: Final = 256  # chunks
_WORTH: Final = 2**18  # bytes of a box that take about as long as a chunk that is visited by itself
_ERRORS: Final = ("largest error", "largest relative error")


class Converting(Writing):
    """The work on each unit of an array: chunks are copied, or values rewritten, or both sides compared.

    `axes` has the selected indices along each axis, and `precision` says how values change.
    """

    def __init__(
        self,
        name: str,
        source: Array,
        axes: Indices,
        destination: Destination,
        mode: Mode,
        ledger: Records,
        limits: Mapping[str, int] = MappingProxyType({}),
        precision: Precision | None = None,
    ) -> None:
        super().__init__(name, source, destination, ledger, limits)
        self.axes, self.mode, self.precision = axes, mode, precision
        self._latest = 0  # size of the latest unit

    def nbytes(self, unit: Unit) -> int:
        """Return approximately how many bytes a unit takes in memory; chunks that are copied take room one by one."""
        if self.mode == "copy":
            return 0
        size = unit.size
        if unit.chosen is not None:  # few chunks, one after the other
            chunk = max(prod(array.metadata.grid.largest_chunk()) for array in (self.source, self.target))
            size = min(size, len(unit.chosen) * chunk)
        return size * (itemsize_of(self.source) + itemsize_of(self.target))

    def do(self, unit: Unit) -> dict[str, int]:
        """Do one unit; return the bytes read and written, chunks copied, the largest error, or sums of the values."""
        if self.limits and unit.size != self._latest:
            release()  # units of one size reuse the memory of the last one
            self._latest = unit.size
        if self.mode == "copy":
            total = {"read": 0, "written": 0, "copied": 0, "stored": 0}
            for moved in copy_chunks(self.copier, unit.chosen or self._chunks_in(unit.box)):
                total["read"] += moved.before
                total["written"] += moved.after
                total["copied"] += moved.copied
                total["stored"] += moved.stored
            return total
        results = Counter[str](read=0)
        for box in parts_of(self.source, self.axes, self.target, unit.box, unit.chosen):
            add_amounts(results, self._rewritten(box) if self.mode == "rewrite" else self._compared(box))
        return results

    def _rewritten(self, box: Box) -> dict[str, int]:
        """Write the new values of a box; return the bytes, and the largest error."""
        values, loss = self._new_values(box)
        self.target[box] = values
        # errors as integers that sort in the same order: the bits of non-negative floats
        errors = zip(_ERRORS, loss) if self.precision is not None else ()
        results = {name: int(np.float64(error).view(np.int64)) for name, error in errors}
        return {"read": values.nbytes, "written": values.nbytes, **results}

    def _compared(self, box: Box) -> dict[str, int]:
        """Compare the values of a box; return the bytes and the sums, or that it differs."""
        values = _as_text(np.asarray(self.target[box]), self.target)
        if not identical(self._new_values(box)[0], values):
            return {"different": 1}
        return {"read": 2 * values.nbytes, **_sums(box, values, self.target)}

    def _new_values(self, box: Box) -> tuple[npt.NDArray[Any], Loss]:
        """Return the new values of a box, and their largest error."""
        values = _read_block(self.source, self.axes, box)
        if self.precision is None:
            return values, Loss()
        try:
            return self.precision.apply(values, [part.start for part in box])
        except CodecError as error:
            raise error.within(path=self.source.location) from None

    @cached_property
    def copier(self) -> ChunkCopies:
        """The function that copies chunks or shards one by one."""
        return copier_of(self.source.stored, self.target.stored)

    def _chunks_in(self, box: Box) -> Iterator[Coords]:
        """Yield the coordinates of the chunks that begin in a box: each begins in one box only."""
        bounds = []
        for axis, part in zip(self.copier.units.metadata.grid.axes, box):
            first = int(axis.locate(part.start))
            first += int(axis.start(first)) < part.start
            bounds.append((first, int(axis.locate(part.stop - 1)) + 1))
        return cells(bounds)

    def stored(self, grid: ChunkGrid) -> Iterator[tuple[Coords, Coords]] | None:
        """Return what to visit if few chunks are stored; see `Work.stored`."""
        if self.mode != "copy":
            compared = self.mode == "verify"
            return stored_blocks(self.source, self.axes, self.target, grid, self.precision, compared=compared)
        old = self.source.stored
        number = prod(old.metadata.grid.counts(old.metadata.shape))
        if stores_all(self.target.stored) or not old.is_sparse(number):
            return None
        units = self.copier.units
        chunks = in_boxes(units, partial(chunks_with_values, old, units), grid)
        return chunks if self.ledger.lasts else _together(chunks)


def _together(pairs: Iterator[tuple[Coords, Coords]]) -> Iterator[tuple[Coords, Coords]]:
    """Put chunks into the box of the first of several, since threads share the chunks of one unit."""
    for some in batches(pairs, _TOGETHER):
        yield from ((some[0][0], chunk) for _, chunk in some)


def _sums(box: Box, values: npt.NDArray[Any], array: Array) -> dict[str, int]:
    """Return the sums of a box, from which the checksum of the array is computed."""
    try:
        sums = sums_of_values(values, box, array.metadata.data_type)
    except UnsupportedError:  # objects of any class
        return {_UNSUMMED: 1}
    return dict(zip(_SUMS, (*sums.values, *sums.weights)))


def digest_of(array: Array, total: Mapping[str, int]) -> str:
    """Return the checksum of an array's values, as of `tegula.checksum`; empty for objects that have none."""
    if total.get(_UNSUMMED):
        return ""
    numbers = [total.get(name, 0) % PRIME for name in _SUMS]
    half = len(numbers) // 2
    return digest_of_array(array, Sums(tuple(numbers[:half]), tuple(numbers[half:])))


def loss_of(total: Mapping[str, int]) -> Loss:
    """Return the largest error of an array's values, from the results of its units."""
    return Loss(*(float(np.int64(total.get(name, 0)).view(np.float64)) for name in _ERRORS))


# --- what is read, and which boxes are visited


def check_amount(source: Array, target: Array, precision: Precision | None = None) -> None:
    """Refuse a conversion that would have to store more than ``max_chunks`` chunks.

    Raises
    ------
    UnsupportedError
        If it would: the target stores every chunk, or its fill value is not the new value of the source's.
    """
    old, new = source.stored, target.stored
    if not old.metadata.dense and (new.stores_every_chunk or not same_fill(source, target, precision)):
        check_number(new, target.nchunks if target.nshards is None else target.nshards, "storing every chunk")


def same_attributes(array: Array, attributes: Mapping[str, Any]) -> bool:
    """Return whether an array has these attributes."""
    return all(equal_json(array.attrs.get(name), value) for name, value in attributes.items())


def stored_blocks(
    source: Array,
    axes: Indices,
    target: Array,
    grid: ChunkGrid,
    precision: Precision | None = None,
    *,
    compared: bool,
) -> Iterator[tuple[Coords, Coords]] | None:
    """Return the blocks to visit and the stored chunks in each, in order; ``None`` if not few chunks are stored.

    They are few where absent chunks hold the same value in both arrays, and the target may leave them out. Then blocks
    with stored chunks of the source are visited, and when they are `compared` also those with chunks of the target.
    A block has its coordinates, and a chunk 0 (of the source) or 1 (of the target) before its coordinates: `parts_of`
    says what of the block is to be visited.
    """
    number = prod(grid.counts(target.shape))
    stored = [source.stored, *([target.stored] if compared else [])]
    may_lack = compared or not target.stored.stores_every_chunk
    is_same = may_lack and same_fill(source, target, precision)
    if not (is_same and all(array.is_sparse(number, target.nbytes) for array in stored)):
        return None

    def pairs() -> Iterator[Coords]:
        sides = [(source, axes), (target, tuple(map(range, target.shape)))]
        for side, (array, selection) in enumerate(sides[: 1 + compared]):
            yield from ((*block, side, *coords) for block, coords in blocks_of(array, selection, grid))

    return pairs_in_order(pairs, target.ndim)


def parts_of(source: Array, axes: Indices, target: Array, box: Box, chunks: Iterable[Coords] | None) -> list[Box]:
    """Return the chunks of the target in a box that hold stored values, if they are few; otherwise the whole box.

    `chunks` are the stored chunks in the box, as `stored_blocks` has them; ``None`` stands for all.
    """
    if chunks is None:
        return [box]
    grid, most = target.metadata.grid, prod(part.stop - part.start for part in box) * target.itemsize // _WORTH
    touched = set[Coords]()
    for side, *coords in chunks:
        if side:
            touched.add(tuple(coords))
        elif (part := selected(part_of(source.stored, tuple(coords)), axes)) is not None:
            inside = (slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(part, box))
            touched.update(islice(cells(grid.touched([*inside])), most + 1))
        if len(touched) > most:
            return [box]
    return [grid.region(coords, target.shape) for coords in sorted(touched)]


def same_fill(source: Array, target: Array, precision: Precision | None) -> bool:
    """Return whether the fill value of the target is that of the source, changed like all values."""
    old, new = source.stored.fill.reshape(1), target.stored.fill.reshape(1)
    if precision is not None:
        try:
            old, _ = precision.apply(old, (0,))
        except CodecError:
            return False
    return identical(_as_text(old, source), _as_text(new, target))


def _read_block(source: Array, axes: Indices, block: tuple[slice, ...]) -> npt.NDArray[Any]:
    parts = iter(block)
    chosen = tuple(axis if isinstance(axis, int) else axis[next(parts)] for axis in axes)
    return _as_text(np.asarray(source[selection_of(chosen)]), source)


def _as_text(values: npt.NDArray[Any], array: Array) -> npt.NDArray[Any]:
    """Return text and bytes of any length, missing ones as empty: Zarr v2 reads those as its fill value, perhaps 0."""
    kind: Any = {"string": str, "bytes": bytes}.get(array.metadata.data_type.variable)
    if kind is None:
        return values
    out = np.empty(values.shape, object)
    for index in np.ndindex(values.shape):
        value: Any = values[index]
        if not isinstance(value, kind):
            value = kind() if is_empty(value) else str(value) if kind is str else value
        out[index] = value
    return out
