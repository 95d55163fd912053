"""Chunks of a grid that an operation visits: the stored ones, or all of them up to a limit.

A grid may have more chunks than any operation can look at, whatever is stored of it. An operation on absent chunks that
has nothing to do goes by the listing of the store (`StoredArray.is_sparse`); one that has to visit each chunk asks
`check_number` before it begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

from tegula import config
from tegula.engine.stored import StoredArray
from tegula.errors import UnsupportedError

__all__ = ["batches", "cells", "check_number", "is_inside"]

T = TypeVar("T")
Coords = tuple[int, ...]
_BATCH: Final = 2**16


def check_number(array: StoredArray, number: int, what: str) -> None:
    """Refuse work on more chunks than ``max_chunks``.

    Parameters
    ----------
    array : StoredArray
        The array, for the message.
    number : int
        How many chunks there are to do.
    what : str
        What would be done, such as ``"writing"``.

    Raises
    ------
    UnsupportedError
        If it is too many.
    """
    limit = config.current().max_chunks
    if number > limit:
        error = UnsupportedError(
            f"{what} takes {number} chunks, more than max_chunks, {limit}; choose a smaller part or larger chunks, or "
            "raise the limit with tegula.config.configure(max_chunks=...) or the environment variable TEGULA_MAX_CHUNKS"
        )
        array.locate(error)
        raise error


def cells(box: Sequence[tuple[int, int]]) -> Iterator[Coords]:
    """Yield the grid coordinates in a box, the last axis fastest, without a list of those of any axis.

    Examples
    --------
    >>> [*cells([(0, 2), (5, 7)])], next(cells([(0, 2**62), (1, 2**62)]))
    ([(0, 5), (0, 6), (1, 5), (1, 6)], (0, 1))
    """
    if not box:
        yield ()
        return
    *above, (start, stop) = box
    for outer in cells(above):
        for number in range(start, stop):
            yield *outer, number


def is_inside(array: StoredArray, coords: Coords) -> bool:
    """Return whether a chunk belongs to the array's grid; the store may hold others."""
    counts = array.metadata.grid.counts(array.metadata.shape)
    return all(number < count for number, count in zip(coords, counts))


def batches(items: Iterable[T], size: int = _BATCH) -> Iterator[list[T]]:
    """Yield the items in lists: a listing that is not very long is complete before anything is deleted."""
    source = iter(items)
    while batch := [*islice(source, size)]:
        yield batch
