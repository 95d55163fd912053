"""Rows that match a condition, in the order of a column: their numbers, found once for all requests that show them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.arrays.chunking import whole_chunks
from tegula.engine.reading.costs import element_bytes, reading_cost
from tegula.errors import ConflictError, NotFoundError, SelectionError, UnsupportedError, brief
from tegula.server.consistency import Watch
from tegula.tables.expressions import Expression, compile_expression
from tegula.tables.queries import LazyColumns, row_mask, rows_that_match
from tegula.tables.table import Table

__all__ = ["ALL", "VALUE", "Found", "Matching", "Query", "matching_cost", "used_columns"]

VALUE: Final = "value"
"""The name that conditions have for the elements of an array without fields."""
_MOST_FOUND: Final = 2**22  # rows that are kept
_MOST_SORTED: Final = 2**26  # bytes of a column that is sorted
_MOST_SECONDS: Final = 10.0
_SEGMENT: Final = 2**22  # rows that are searched before the time is looked at
_BLOCK: Final = 2**23
_MOST_KEPT: Final = 2**26  # bytes of the numbers of rows
_LIFETIME: Final = 5.0  # seconds to keep them, or ten times as long as it took to find them


@dataclass(frozen=True, slots=True)
class Query:
    """A condition on rows, and the column that they are sorted by; both may be empty."""

    where: str = ""
    sort: str = ""
    descending: bool = False

    def __bool__(self) -> bool:
        return bool(self.where or self.sort)


ALL: Final = Query()
"""The query for all rows as they are."""


@dataclass(frozen=True, slots=True)
class Found:
    """The numbers of the rows that match, in their order, and how many rows were looked at for them."""

    numbers: npt.NDArray[np.intp]
    searched: int


class Matching:
    """The rows that were found for the last queries, within a budget of bytes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, Query], tuple[float, Watch, Found]] = OrderedDict()
        self._lock = Lock()

    def find(self, path: str, node: Table | Array, query: Query, watch: Watch) -> Found:
        """Return the rows of a node that match, found now or a moment ago.

        Raises
        ------
        MetadataError, NotFoundError, SelectionError, UnsupportedError
            If the condition or the column is not valid for the node.
        """
        with self._lock:
            until, state, found = self._kept.get((path, query), (0.0, watch, None))
        start = time.monotonic()
        if found is not None and start < until and _is_same(state):
            return found
        found = _found(node, query)
        now = time.monotonic()
        with self._lock:
            self._kept[path, query] = now + max(_LIFETIME, 10 * (now - start)), watch, found
            self._kept.move_to_end((path, query))
            while len(self._kept) > 1 and sum(kept.numbers.nbytes for *_, kept in self._kept.values()) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return found


def _is_same(watch: Watch) -> bool:
    try:
        watch.check()
    except ConflictError:
        return False
    return True


def used_columns(node: Table | Array, query: Query) -> list[Array]:
    """Return the arrays that are read to find the rows.

    Raises
    ------
    MetadataError, NotFoundError, SelectionError, UnsupportedError
        If the condition or the column is not valid for the node.
    """
    if isinstance(node, Array):
        if node.ndim != 1:
            raise SelectionError(f"rows of an array of {node.ndim} axes can't be filtered or sorted; it needs one axis")
        return [node]
    names = {*(_condition(query.where).names if query.where else ()), *([query.sort] if query.sort else ())}
    known = LazyColumns(node.names, node.__getitem__)
    return [_column(known, name) for name in names]


def matching_cost(arrays: list[Array]) -> int:
    """Return the bytes that finding rows takes: blocks of whole chunks, numbers, and the values that are sorted."""
    block = sum(array.metadata.grid.axes[0].longest() * element_bytes(array.dtype) for array in arrays)
    decoding = max((reading_cost(array.stored, ()) for array in arrays), default=0)
    return 3 * max(_BLOCK, block) + decoding + 3 * _MOST_FOUND * 8 + 2 * _MOST_SORTED


def _column(columns: Any, name: str) -> Any:
    if name not in columns:
        raise NotFoundError(f"there is no column {brief(name)}; the columns are {', '.join(columns)}"[:400])
    return columns[name]


def _condition(where: str) -> Expression:
    return compile_expression(where)


def _found(node: Table | Array, query: Query) -> Found:
    numbers, searched = np.arange(0), len(node)
    if query.where:
        parts, count, until = [], 0, time.monotonic() + _MOST_SECONDS
        searched = 0
        for stop, matches in _matches(node, _condition(query.where)):
            part = matches[: _MOST_FOUND - count]
            parts.append(part)
            count += len(part)
            searched = stop
            if count == _MOST_FOUND:
                searched = int(part[-1]) + 1 if len(part) else stop
            if count == _MOST_FOUND or time.monotonic() > until:
                break
        numbers = np.concatenate(parts) if parts else numbers
    else:
        searched = min(searched, _MOST_FOUND)
        numbers = np.arange(searched)
    if not query.sort:
        return Found(numbers, searched)
    values, most = _values(node, query.sort, numbers)
    if most < len(numbers):  # of the rows after these nothing is known
        searched = int(numbers[most])
    return Found(numbers[:most][_order(values, query)], searched)


def _matches(node: Table | Array, condition: Expression) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Yield the row up to which was searched, and the numbers of the rows that match before it."""
    length = len(node)
    longest = max(
        (array.metadata.grid.axes[0].longest() for array in used_columns(node, Query(str(condition)))), default=1
    )
    step = whole_chunks(max(1, longest), 1, _SEGMENT)
    if isinstance(node, Table):
        known = LazyColumns(node.names, node.__getitem__)
        for start in range(0, length, step):
            stop = min(length, start + step)
            found = [
                matches.inside + matches.start
                for matches in rows_that_match(known, length, condition, {}, start=start, stop=stop)
            ]
            yield stop, np.concatenate(found) if found else np.arange(0)
        return
    if condition.reduces:
        raise UnsupportedError("an expression for rows can't contain reductions such as sum", field="expression")
    names = node.dtype.names
    rows = whole_chunks(max(1, node.metadata.grid.axes[0].longest()), element_bytes(node.dtype), _BLOCK)
    for start in range(0, length, rows):
        stop = min(length, start + rows)
        block = np.asarray(node[start:stop])
        known_values = {VALUE: block} if names is None else {name: block[name] for name in names}
        values = {name: _column(known_values, name) for name in condition.names}
        yield stop, np.flatnonzero(row_mask(condition.evaluate(values), stop - start)) + start


def _values(node: Table | Array, name: str, numbers: npt.NDArray[np.intp]) -> tuple[npt.NDArray[Any], int]:
    """Return the values of a column in as many of the rows as can be sorted, and the number of these."""
    is_field = isinstance(node, Array)
    if isinstance(node, Array):
        names = node.dtype.names or (VALUE,)
        if name not in names:
            raise NotFoundError(f"there is no column {brief(name)}; the columns are {', '.join(names)}"[:400])
        dtype, shape = (node.dtype if node.dtype.names is None else node.dtype[name]), ()
        column: Any = node
    else:
        column = _column(LazyColumns(node.names, node.__getitem__), name)
        dtype, shape = column.dtype, column.shape[1:]
    if shape or dtype.shape or dtype.names is not None:
        raise SelectionError(f"the column {brief(name)} can't be sorted: its elements are no single values")
    most = min(len(numbers), max(1, _MOST_SORTED // element_bytes(column.dtype)))
    first, last = (int(numbers[0]), int(numbers[most - 1]) + 1) if most else (0, 0)
    chosen: Any = slice(first, last) if last - first <= 2 * most else numbers[:most]
    values = np.asarray(column[name, chosen] if is_field and column.dtype.names is not None else column[chosen])
    return (values[numbers[:most] - first] if isinstance(chosen, slice) else values), most


def _order(values: npt.NDArray[Any], query: Query) -> npt.NDArray[np.intp]:
    """Return the order of values; equal ones keep theirs, and missing ones come last.

    Examples
    --------
    >>> _order(np.array([2.0, np.nan, 1.0, 2.0]), Query(sort="x", descending=True)).tolist()
    [0, 3, 2, 1]
    """
    missing = np.zeros(len(values), bool)
    if values.dtype.hasobject:
        missing = np.array([value is None for value in values], bool)
    elif values.dtype.kind in "fcMmV":  # those that differ from themselves
        missing = np.not_equal(values, values).astype(bool)
    present = np.flatnonzero(~missing)
    shown = values[present]
    try:
        if query.descending:
            order = len(shown) - 1 - np.argsort(shown[::-1], kind="stable")[::-1]
        else:
            order = np.argsort(shown, kind="stable")
    except TypeError as error:
        raise UnsupportedError(f"the column {brief(query.sort)} has no order: {error}") from error
    return np.concatenate([present[order], np.flatnonzero(missing)])
