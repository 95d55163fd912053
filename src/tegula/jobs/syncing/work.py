"""The work of a sync on an array: the chunks that differ, unit by unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tegula.jobs.plans import Unit
from tegula.jobs.rewriting.work import Converting
from tegula.jobs.runners.runner import Runner, Work
from tegula.metadata.chunk_grids import ChunkGrid

__all__ = ["Counting", "Syncing"]

Coords = tuple[int, ...]


class Syncing(Converting):
    """The work on the units of an array of which some chunks have changed."""

    some: Sequence[tuple[Coords, Coords]] | None = None
    """The box and the coordinates of each chunk to write, in order; ``None`` for the whole array."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "some"}

    def stored(self, grid: ChunkGrid) -> Iterator[tuple[Coords, Coords]] | None:
        """Return what to visit; see `Work.stored`."""
        return super().stored(grid) if self.some is None else iter(self.some)


class Counting(Runner):
    """A runner that does as another, and adds the chunks and bytes of its units to a tally.

    Other parts of the job, whose units the ledger counts, too, have tallies of their own.
    """

    def __init__(self, runner: Runner, tally: Counter[str]) -> None:
        self._runner, self._tally = runner, tally
        self.workers, self.shares_memory = runner.workers, runner.shares_memory

    def run(self, work: Work, units: Iterable[Unit]) -> Iterator[tuple[Unit, Any]]:
        for unit, result in self._runner.run(work, units):
            done = {"chunks_written": len(unit.chosen or ()), "nbytes_read": result.get("read", 0)}
            self._tally.update(done, nbytes_written=result.get("written", 0))
            yield unit, result
