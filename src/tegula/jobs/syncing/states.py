"""States of chunks: which chunks of an array are stored, and in which state, as compact tables that are compared."""

from __future__ import annotations

from array import array as column
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import and_
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.engine import StoredArray

__all__ = ["States", "are_in", "as_table", "boxes_of", "differences", "listed", "no_chunks", "within"]

Coords = tuple[int, ...]
Table = npt.NDArray[np.int64]
"""Grid coordinates of chunks, one chunk in a row, in order and without repeats."""
_LARGEST: Final = 2**62


@dataclass(frozen=True, slots=True)
class States:
    """The chunks of an array that are stored, in order of their coordinates, with the state and size of each."""

    coords: Table
    states: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.coords)

    def at(self, wanted: Table) -> npt.NDArray[np.uint64]:
        """Return the states of some chunks; 0 for those that are not there."""
        return self._taken(wanted, self.states)

    def sizes_at(self, wanted: Table) -> npt.NDArray[np.int64]:
        """Return the sizes of some chunks; 0 for those that are not there."""
        return self._taken(wanted, self.sizes)

    def _taken(self, wanted: Table, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if not len(self) or not len(wanted):
            return np.zeros(len(wanted), column.dtype)
        own, asked = _ranked(self.coords, wanted)
        places = np.minimum(np.searchsorted(own, asked), len(own) - 1)
        return np.where(own[places] == asked, column[places], column.dtype.type(0))

    def where(self, chosen: npt.NDArray[np.bool_]) -> States:
        """Return some of the chunks."""
        return States(self.coords[chosen], self.states[chosen], self.sizes[chosen])

    def changed(self, coords: Table, other: States) -> States:
        """Return the table in which some chunks are as in another one, or absent like there."""
        if not len(coords):
            return self
        kept = self.where(~are_in(self.coords, coords))
        new = other.where(are_in(other.coords, coords))
        columns = [np.concatenate(pair) for pair in zip(
            (kept.coords, kept.states, kept.sizes), (new.coords, new.states, new.sizes)
        )]  # fmt: skip
        return _sorted(columns[0], columns[1], columns[2])

    def marked(self, coords: Table) -> States:
        """Return the table in which the state of some chunks is 0, which stands for one that is not known."""
        zeros = np.zeros(len(coords), np.uint64)
        return self.changed(coords, States(coords, zeros, zeros.astype(np.int64)))


def no_chunks(ndim: int) -> States:
    """Return a table without chunks."""
    return States(np.empty((0, ndim), np.int64), np.empty(0, np.uint64), np.empty(0, np.int64))


def listed(array: StoredArray, *, is_planned: bool = False) -> States:
    """Return the states of all stored chunks of an array, by one listing; those outside its grid are among them.

    `is_planned` as for `StoredArray.stored_chunks`.
    """
    ndim, states, sizes = array.metadata.ndim, column("Q"), column("q")
    tables = list[Table]()
    for coords, some_sizes, some_states in array.chunk_states(is_planned=is_planned):
        tables.append(np.array(coords, np.int64).reshape(len(some_sizes), ndim))
        sizes.extend(some_sizes)
        states.extend(some_states)
    if not tables:
        return no_chunks(ndim)
    return _sorted(np.concatenate(tables), np.frombuffer(states, np.uint64), np.frombuffer(sizes, np.int64))


def _sorted(coords: Table, states: npt.NDArray[Any], sizes: npt.NDArray[Any]) -> States:
    order = np.lexsort(coords.T[::-1]) if coords.shape[1] else np.arange(len(coords))
    return States(coords[order], states[order], sizes[order])


def as_table(coords: Iterable[Sequence[int]], ndim: int) -> Table:
    """Return grid coordinates as a table, in order and without repeats."""
    found = sorted({tuple(one) for one in coords})
    return np.array(found, np.int64).reshape(len(found), ndim)


def within(coords: Table, counts: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return which coordinates lie in a grid."""
    inside = [coords[:, axis] < min(count, _LARGEST) for axis, count in enumerate(counts)]
    return reduce(and_, inside, np.ones(len(coords), bool))


def are_in(coords: Table, others: Table) -> npt.NDArray[np.bool_]:
    """Return which rows of a table are rows of another one."""
    if not len(coords) or not len(others):
        return np.zeros(len(coords), bool)
    own, theirs = _ranked(coords, others)
    return np.isin(own, theirs)


def differences(one: States, other: States) -> Table:
    """Return the coordinates at which two tables differ; a state that is not known differs from every other."""
    ours, theirs = other.at(one.coords), one.at(other.coords)
    coords = np.concatenate([one.coords[(ours != one.states) | (one.states == 0)], other.coords[theirs == 0]])
    return np.unique(coords, axis=0) if len(coords) and coords.shape[1] else coords[:1]


def _ranked(*tables: Table) -> list[npt.NDArray[np.int64]]:
    """Return one number for each row of some tables, in the same order as the rows."""
    ndim = tables[0].shape[1]
    if not ndim:
        return [np.zeros(len(table), np.int64) for table in tables]
    counts = [1 + max((int(table[:, axis].max()) for table in tables if len(table)), default=0) for axis in range(ndim)]
    if prod(counts) < _LARGEST:
        found = [np.zeros(len(table), np.int64) for table in tables]
        for axis, count in enumerate(counts):
            found = [numbers * count + table[:, axis] for numbers, table in zip(found, tables)]
        return found
    _, ranks = np.unique(np.concatenate(tables), axis=0, return_inverse=True)
    return np.split(ranks.reshape(-1), np.cumsum([len(table) for table in tables])[:-1])


def boxes_of(coords: Table, most: int) -> list[tuple[tuple[int, int], ...]]:
    """Return boxes of chunks that cover a table: first and last coordinate plus one, along each axis.

    Runs along the last axis are joined, then equal runs along the axes before it. At most `most` boxes are returned.

    Examples
    --------
    >>> boxes_of(as_table([(0, 0), (0, 1), (1, 0), (1, 1), (3, 7)], 2), 9)
    [((0, 2), (0, 2)), ((3, 4), (7, 8))]
    """
    ndim = coords.shape[1]
    boxes = [tuple((int(n), int(n) + 1) for n in row) for row in coords[: most * 64]]
    for axis in reversed(range(ndim)):
        joined: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        for box in boxes:
            runs = joined.setdefault((*box[:axis], *box[axis + 1 :]), [])
            start, stop = box[axis]
            if runs and runs[-1][1] == start:
                runs[-1] = (runs[-1][0], stop)
            else:
                runs.append((start, stop))
        boxes = [(*key[:axis], run, *key[axis:]) for key, runs in joined.items() for run in runs]
    return sorted(boxes)[:most]
