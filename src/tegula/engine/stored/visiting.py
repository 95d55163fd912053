"""Choosing the chunks that an operation visits: the stored ones, or all of the grid up to a limit.

A grid may have more chunks than any operation can visit, of which few are stored. An operation that has nothing to do
for absent chunks lists the store (`StoredArray.is_sparse`). An operation that visits each chunk calls `check_number`
first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from tegula import config
from tegula.engine.stored.array import StoredArray
from tegula.errors import UnsupportedError
from tegula.metadata.chunk_grids import cells
from tegula.metadata.nodes import ArrayMetadata

__all__ = ["batches", "cells", "check_number", "in_order", "is_inside", "stored_inside"]

T = TypeVar("T")
Coords = tuple[int, ...]
_BATCH: Final = 2**16
_WINDOW: Final = 2**15  # coordinates that are sorted in memory at a time


def check_number(array: StoredArray, number: int, what: str) -> None:
    """Refuse work on more chunks than ``max_chunks``.

    Parameters
    ----------
    array : StoredArray
        The array, for the message.
    number : int
        The number of chunks that would be visited.
    what : str
        The operation, such as ``"writing"``.

    Raises
    ------
    UnsupportedError
        If `number` is larger than ``max_chunks``.
    """
    limit = config.current().max_chunks
    if number > limit:
        error = UnsupportedError(
            f"{what} takes {number} chunks, more than max_chunks, {limit}; choose a smaller part or larger chunks, or "
            "raise the limit with tegula.config.configure(max_chunks=...) or the environment variable TEGULA_MAX_CHUNKS"
        )
        array.locate(error)
        raise error


def is_inside(metadata: ArrayMetadata, coords: Coords) -> bool:
    """Return whether grid coordinates lie in the grid of an array; the store may hold chunks outside it."""
    return all(number < count for number, count in zip(coords, metadata.grid.counts(metadata.shape)))


def stored_inside(array: StoredArray) -> Iterator[Coords]:
    """Yield the grid coordinates of the stored chunks that lie in the array's grid."""
    counts = array.metadata.grid.counts(array.metadata.shape)
    for coords, _ in array.stored_chunks():
        if all(number < count for number, count in zip(coords, counts)):
            yield coords


def batches(items: Iterable[T], size: int = _BATCH) -> Iterator[list[T]]:
    """Yield the items in lists, so that a short listing ends before anything is deleted."""
    source = iter(items)
    while batch := [*islice(source, size)]:
        yield batch


def in_order(chunks: Callable[[], Iterator[Coords]]) -> Iterator[Coords]:
    """Yield coordinates in order and without repeats; a very large number is sorted window by window, to save memory.

    Parameters
    ----------
    chunks : callable
        Returns the coordinates, in any order; called once for each window.

    Examples
    --------
    >>> [*in_order(lambda: iter([(1, 0), (0, 2), (1, 0)]))]
    [(0, 2), (1, 0)]
    """
    last: Coords = ()
    while True:
        window: set[Coords] = set()
        ceiling: Coords | None = None
        for coords in chunks():
            if coords > last and (ceiling is None or coords <= ceiling):
                window.add(coords)
            if len(window) > 2 * _WINDOW:
                window = {*sorted(window)[:_WINDOW]}
                ceiling = max(window)
        yield from sorted(window)
        if ceiling is None:
            return
        last = max(window)
