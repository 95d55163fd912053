"""What `remote.py` measures: arrays in a bucket, operations on them, and what they take at least."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cases import SHARD, Case, Values

CONCURRENCY = 64
"""How many requests each contender may have under way at once."""


@dataclass(frozen=True)
class RemoteCase(Case):
    """An array with `rows` rows of 4096 columns."""

    rows: int = 4096

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows, 4096)

    @property
    def file(self) -> tuple[int, ...]:
        """Lengths of what one stored value holds: a chunk, or a shard."""
        return SHARD if self.sharded else self.chunks


CASES = [
    RemoteCase("zarr3", "128k", "lz4"),
    RemoteCase("zarr3", "2m", "zstd", rows=8192),
    RemoteCase("zarr3", "8k", "zstd", sharded=True),
]


@dataclass(frozen=True)
class Regime:
    """One operation on one array.

    Parameters
    ----------
    key : callable
        The selection that is read or written, for a case.
    rounds : callable
        How many requests have to wait for each other, by how often all stored values of the selection can be asked
        for at once.
    rows : callable, optional
        How many rows the array has before, if it is written to; 0 if there are its documents only.
    first : callable, optional
        Rows that are appended through the same object before, which is not timed.
    """

    key: Callable[[RemoteCase], Any]
    rounds: Callable[[RemoteCase, int], int]
    rows: Callable[[RemoteCase], int] | None = None
    first: Callable[[RemoteCase], slice] | None = None

    def suits(self, case: RemoteCase) -> bool:
        """Return whether an array has enough rows for it."""
        return self.first is None or self.first(case).start > 0


def _points(case: RemoteCase) -> tuple[Values, Values]:
    rng = np.random.default_rng(3)
    return rng.integers(0, case.shape[0], 1000), rng.integers(0, case.shape[1], 1000)


def _parts(case: RemoteCase, times: int) -> int:
    return times + 1 if case.sharded else times  # the index of a shard comes first


_WINDOW = slice(1000, 2024), slice(1300, 2324)
_BOX = slice(1500, 2524), slice(1700, 2724)  # of several shards
REGIMES = {
    "open": Regime(lambda case: (), lambda case, times: 1),
    "whole": Regime(lambda case: (slice(None), slice(None)), lambda case, times: times),
    "window of 1024 x 1024": Regime(lambda case: _WINDOW, _parts),
    "row": Regime(lambda case: (slice(1234, 1235), slice(None)), _parts),
    "1,000 points": Regime(_points, _parts),
    "write whole": Regime(lambda case: (slice(None), slice(None)), lambda case, times: times, lambda case: 0),
    "append": Regime(
        lambda case: (slice(case.rows - case.file[0], None), slice(None)),
        lambda case, times: times + 1,  # the length comes last
        lambda case: case.rows - case.file[0],
    ),
    "further append": Regime(
        lambda case: (slice(case.rows - case.file[0], None), slice(None)),
        lambda case, times: times + 1,
        lambda case: case.rows - 2 * case.file[0],
        lambda case: slice(case.rows - 2 * case.file[0], case.rows - case.file[0]),
    ),
    "update of 1024 x 1024": Regime(lambda case: _BOX, lambda case, times: 2 * times, lambda case: case.rows),
}


def touched(regime: str, case: RemoteCase) -> tuple[int, float]:
    """Return how many stored values a regime takes, and how large a part of their bytes."""
    if regime == "open":
        return 1, 0.0
    axes = _indices(REGIMES[regime].key(case), case.shape)
    files = _count(axes, case.file)
    if REGIMES[regime].rows is not None or not case.sharded:
        return files, 1.0
    return files, _count(axes, case.chunks) / (files * math.prod(case.file) / math.prod(case.chunks))


def _indices(key: Any, shape: tuple[int, ...]) -> tuple[Any, bool]:
    if isinstance(key[0], slice):
        return [np.arange(size)[part] for part, size in zip(key, shape)], True
    return key, False


def _count(found: tuple[Any, bool], sizes: tuple[int, ...]) -> int:
    axes, is_box = found
    cells = [axis // size for axis, size in zip(axes, sizes)]
    if is_box:
        return math.prod(len(np.unique(axis)) for axis in cells)
    return len({*zip(*(axis.tolist() for axis in cells))})


def waves(regime: str, case: RemoteCase) -> int:
    """Return how many requests have to wait for each other, at `CONCURRENCY` at once."""
    return REGIMES[regime].rounds(case, math.ceil(touched(regime, case)[0] / CONCURRENCY))
