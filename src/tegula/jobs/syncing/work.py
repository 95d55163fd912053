"""The work of a sync on an array: the chunks that differ, unit by unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tegula.jobs.rewriting.work import Converting
from tegula.metadata.chunk_grids import ChunkGrid

__all__ = ["Syncing"]

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
