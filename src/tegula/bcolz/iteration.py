"""Going through the rows of a carray: all of them, or those where a mask is true."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.bcolz.rows import Rows
from tegula.queries import rows_at

__all__ = ["Going", "as_items", "each", "hits", "limited", "rows_where"]


_ITEMS = 4096  # of a list, few enough for the processor's cache


class Going:
    """An iterator over the rows of a view that has the view's methods, too."""

    def __init__(self, rows: Iterator[Any], view: Any) -> None:
        self._rows = rows
        self._view = view

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


def as_items(values: npt.NDArray[Any]) -> list[Any]:
    """Return the elements of a 1-d array as Python objects, or the rows of any other."""
    items: list[Any] = values.tolist() if values.ndim == 1 else [*values]
    return items


def limited(found: Iterator[Any], limit: int | None, skip: int) -> Iterator[Any]:
    """Go through the items of several lists, but for the first `skip`, and for all after the next `limit`."""
    items = chain.from_iterable(found)
    return islice(items, skip, None if limit is None else skip + limit) if skip or limit is not None else items


def each(rows: Rows, start: int, stop: int, step: int) -> Iterator[list[Any]]:
    """Yield rows in lists."""
    for first, block in rows.blocks(start, stop):
        chosen = block[(start - first) % step :: step]
        for begin in range(0, len(chosen), _ITEMS):
            yield as_items(chosen[begin : begin + _ITEMS])


def hits(mask: Any, length: int, block: int) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the positions at which a mask, an array or a carray, is true; an array of them for each block."""
    for start in range(0, length, block):
        found = np.flatnonzero(mask[start : start + block])
        if found.size:
            yield found + start


def rows_where(rows: Rows, mask: Any) -> Iterator[npt.NDArray[Any]]:
    """Yield the rows at which a mask is true, an array of them for each block that has any."""
    array = rows.stored()
    for positions in hits(mask, len(rows), rows.block):
        yield rows_at(array, positions)
