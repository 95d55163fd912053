"""Estimates of a conversion: units, bytes, requests to the stores, and memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm, prod

from tegula.arrays.array import Array
from tegula.jobs.ledger import Records
from tegula.jobs.plans import Plan
from tegula.jobs.rewriting.temporary import between_name
from tegula.metadata.chunk_grids import ChunkAxis, ChunkGrid, RegularAxis
from tegula.runtime.quantities import counted, human_bytes

__all__ = ["Estimate", "estimate"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of a conversion.

    Parameters
    ----------
    units : int
        Number of units, each of which one worker does.
    bytes_read, bytes_written : int
        Bytes of elements in the chunks that are read, repeated reads included, and in those that are written.
    requests : int
        Number of values that are read and written.
    memory : int
        Bytes in memory for the largest unit; each worker does one at a time, threads up to the store's `concurrency`.

    Examples
    --------
    >>> Estimate(3, 2048, 1024, 7, 512).summary
    '2.0 KiB to read and 1.0 KiB to write by 7 requests, in 3 units of work, each of 512 B in memory at most'
    """

    units: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    requests: int = 0
    memory: int = 0

    def merge(self, other: Estimate) -> Estimate:
        """Return the estimate for both."""
        read, written = self.bytes_read + other.bytes_read, self.bytes_written + other.bytes_written
        requests, memory = self.requests + other.requests, max(self.memory, other.memory)
        return Estimate(self.units + other.units, read, written, requests, memory)

    def left(self, ledger: Records, plan: Plan, name: str) -> Estimate:
        """Return the estimate for the units of an array that a job still has to do."""
        pieces = [piece for piece in (plan.pieces.get(name), plan.pieces.get(between_name(name))) if piece is not None]
        number = sum(piece.stop - piece.first for piece in pieces)
        is_over = ledger.completed(plan.pieces[name].first) is not None
        units = 0 if is_over else sum(map(ledger.left_of, pieces))
        part = units / max(1, number)
        read, written, requests = (round(part * n) for n in (self.bytes_read, self.bytes_written, self.requests))
        return Estimate(units, read, written, requests, self.memory if units else 0)

    @property
    def summary(self) -> str:
        """One line of text."""
        read, written = human_bytes(self.bytes_read), human_bytes(self.bytes_written)
        units, requests = counted(self.units, "unit"), counted(self.requests, "request")
        work = f"{units} of work{', each' if self.units > 1 else ''} of {human_bytes(self.memory)} in memory at most"
        return f"{read} to read and {written} to write by {requests}, in {work}"


def estimate(source: Array, target: Array, grid: ChunkGrid, copies: bool) -> Estimate:
    """Estimate the conversion of an array, by arithmetic alone: as if every chunk were stored.

    The target need not be stored. `grid` is that of the units; `copies` says whether chunks are copied as they are.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=(100, 100), chunks=(10, 100), dtype="f8")
    >>> estimate(a, a, a.metadata.grid, copies=True).units
    10
    """
    counts = grid.counts(target.shape)
    box, chunk = grid.largest_chunk(), source.metadata.grid.largest_chunk()
    if source.ndim == target.ndim:
        axes = zip(grid.axes, source.metadata.grid.axes, target.shape)
        reads = prod(_crossings(block, piece, size) for block, piece, size in axes)
    else:
        reads = prod(source.metadata.grid.counts(source.shape))
    writes = prod(target.metadata.grid.counts(target.shape))
    block = prod(min(length, max(1, size)) for length, size in zip(box, target.shape))
    memory = prod(chunk) * source.itemsize if copies else block * (source.itemsize + target.itemsize)
    nbytes = prod(min(length, max(1, size)) for length, size in zip(chunk, source.shape)) * source.itemsize
    return Estimate(prod(counts), reads * nbytes, target.nbytes, reads + writes, memory)


def _crossings(blocks: ChunkAxis, chunks: ChunkAxis, size: int) -> int:
    """Return how often blocks and chunks of an axis overlap: each block reads each chunk that it overlaps once."""
    if not size:
        return 0
    number = blocks.count(size) + chunks.count(size) - 1
    if isinstance(blocks, RegularAxis) and isinstance(chunks, RegularAxis):
        return number - (size - 1) // lcm(blocks.longest(), chunks.longest())
    few, many = (blocks, chunks) if blocks.count(size) < chunks.count(size) else (chunks, blocks)
    starts = map(few.start, range(1, few.count(size)))
    return number - sum(bool(many.start(many.locate(start)) == start) for start in starts)
