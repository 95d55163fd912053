"""Queries: the rows of a table where an expression is true, found block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.arrays.chunking import whole_chunks
from tegula.engine.concurrency.pool import gather
from tegula.errors import MetadataError, NotFoundError, SelectionError, TegulaError, UnsupportedError, brief
from tegula.metadata.chunk_grids import as_slice

__all__ = [
    "BlockMatches",
    "LazyColumns",
    "Predicate",
    "chosen_rows",
    "is_number",
    "is_sparse",
    "read_into",
    "read_rows",
    "row_dtype",
    "row_mask",
    "rows_at",
    "rows_that_match",
    "split_names",
]

_BLOCK_BYTES = 2**23
_SMALL_BYTES = 2**18  # less than this is read without threads
_DENSE = 16  # if at least one in 16 rows is selected, the rows in between are read, too


class Predicate(Protocol):
    """A condition that is evaluated block by block, such as an `Expression`."""

    names: tuple[str, ...]
    """The columns and variables that it uses."""
    reduces: bool
    """Whether it contains a reduction, so that it can't be evaluated block by block."""

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """Return for each row whether it is true."""


@dataclass(frozen=True, slots=True)
class BlockMatches:
    """The matching rows of one block: the first row of the block, their numbers in it, and the columns already read."""

    start: int
    inside: npt.NDArray[np.intp]
    read: Mapping[str, npt.NDArray[Any]]

    def rows(self, columns: Mapping[str, Array]) -> npt.NDArray[Any]:
        """Return some columns of the rows, as records."""
        out = np.empty(len(self.inside), row_dtype(columns))
        for name in self.read.keys() & columns.keys():
            self.read[name].take(self.inside, 0, out[name], "clip")  # without new memory in between
        for name, values in self.columns({name: columns[name] for name in columns if name not in self.read}).items():
            out[name] = values
        return out

    def columns(self, columns: Mapping[str, Array]) -> dict[str, npt.NDArray[Any]]:
        """Return some columns of the rows."""
        numbers = self.inside + self.start if columns.keys() - self.read.keys() else self.inside

        def values(name: str) -> npt.NDArray[Any]:
            return self.read[name][self.inside] if name in self.read else _stored_rows(columns[name], numbers)

        requests = max((column.store.concurrency for column in columns.values()), default=0)
        return dict(zip(columns, gather(values, columns, requests)))


def is_sparse(numbers: npt.NDArray[np.intp]) -> bool:
    """Return whether rows, given by ascending numbers, are better read one by one than with all rows in between."""
    return len(numbers) > 0 and bool(numbers[-1] - numbers[0] >= _DENSE * len(numbers))


def rows_at(column: Any, numbers: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """Read rows of one column, at least one, by their ascending numbers.

    Examples
    --------
    >>> rows_at(np.arange(100) * 2, np.array([3, 5, 90]))
    array([  6,  10, 180])
    """
    if is_sparse(numbers):
        return np.asarray(column[numbers])
    first = int(numbers[0])
    rows = np.asarray(column[first : int(numbers[-1]) + 1])
    return rows if len(rows) == len(numbers) else rows[numbers - first]


def _stored_rows(column: Array, numbers: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """Read rows as `rows_at` does, but not the chunks in between that hold none of them."""
    gaps = np.flatnonzero(np.diff(numbers) > column.metadata.grid.axes[0].longest())
    if is_sparse(numbers) or not len(gaps):
        return rows_at(column, numbers)
    return np.concatenate([rows_at(column, part) for part in np.split(numbers, gaps + 1)])


class LazyColumns(Mapping[str, Array]):
    """The columns of a table by name, each opened at the first use."""

    def __init__(self, names: Sequence[str], column: Callable[[str], Array]) -> None:
        self._names = names
        self._column = column

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        return self._column(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def split_names(selection: Any) -> tuple[str | list[str] | None, Any]:
    """Split a selection into names of columns and rows.

    Examples
    --------
    >>> split_names(["a", "b"]), split_names(("a", 5)), split_names([1, 2])
    ((['a', 'b'], slice(None, None, None)), ('a', 5), (None, [1, 2]))
    """
    names, rows = selection if isinstance(selection, tuple) and len(selection) == 2 else (selection, slice(None))
    listed = isinstance(names, list) and names and all(isinstance(item, str) for item in names)
    return (names, rows) if listed or isinstance(names, str) else (None, selection)


def row_dtype(columns: Mapping[str, Array]) -> np.dtype[Any]:
    """Return the structured dtype of rows of some columns."""
    return np.dtype([(name, column.dtype, column.shape[1:]) for name, column in columns.items()])


def is_number(value: Any) -> bool:
    """Return whether a value is a whole number; ``True`` is not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))


def chosen_rows(selection: Any, length: int) -> int | slice | npt.NDArray[np.intp]:
    """Return the selected rows of `length`: a number, a slice or an array of numbers, none negative.

    Raises
    ------
    SelectionError
        If the selection is not valid for rows, or reaches beyond them.

    Examples
    --------
    >>> chosen_rows(-1, 5), chosen_rows(slice(None, None, -2), 5), chosen_rows([-1, 0], 5).tolist()
    (4, slice(4, None, -2), [4, 0])
    """
    if is_number(selection):
        if not -length <= selection < length:
            raise SelectionError(f"there is no row {brief(selection)} in {length}")
        return int(selection) % length
    if selection is Ellipsis or (isinstance(selection, tuple) and not selection):
        return slice(0, length, 1)
    if isinstance(selection, slice):
        try:
            return as_slice(range(length)[selection])
        except (TypeError, ValueError) as error:
            raise SelectionError(f"{selection!r:.80} is not a selection of rows: {error}") from error
    if isinstance(selection, tuple):
        raise SelectionError("rows have one axis; select rows, or columns by name")
    try:
        numbers = np.empty(0, np.intp) if isinstance(selection, list) and not selection else np.asarray(selection)
    except ValueError as error:
        raise SelectionError(f"{selection!r:.80} is not a selection of rows: {error}") from error
    if numbers.dtype == bool and numbers.shape == (length,):
        return np.flatnonzero(numbers)
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise SelectionError(f"{numbers.dtype} of shape {numbers.shape} can't select from {length} rows")
    if len(numbers) and not (-length <= numbers.min() and numbers.max() < length):
        raise SelectionError(f"the selection reaches beyond the {length} rows")
    numbers = numbers.astype(np.intp)
    return np.where(numbers < 0, numbers + length, numbers)


def read_into(
    columns: Mapping[str, Array], selection: Any, out: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any]
) -> None:
    """Read rows of several columns at once into the fields of an array."""
    is_remote = any(column.store.is_remote for column in columns.values())
    if not is_remote and sum(out[name].nbytes for name in columns) < _SMALL_BYTES:
        for name, column in columns.items():
            out[name][...] = column[selection]
        return
    for name, reading in [(name, column.read(selection, out=out[name])) for name, column in columns.items()]:
        try:
            reading.result()
        except TegulaError as error:
            error.within(field=name)
            raise


def read_rows(columns: Mapping[str, Array], chosen: slice | npt.NDArray[np.intp], length: int) -> npt.NDArray[Any]:
    """Return rows of a table of that length as records."""
    count = len(chosen) if isinstance(chosen, np.ndarray) else len(range(*chosen.indices(length)))
    try:
        rows = np.empty(count, row_dtype(columns))
    except (MemoryError, ValueError) as error:
        raise SelectionError(f"{count} rows do not fit into memory") from error
    read_into(columns, chosen, rows)
    return rows


def rows_that_match(
    columns: Mapping[str, Array],
    length: int,
    predicate: Predicate,
    variables: Mapping[str, Any],
    *,
    start: int = 0,
    stop: int | None = None,
    limit: int | None = None,
    skip: int = 0,
) -> Iterator[BlockMatches]:
    """Yield the rows from `start` to `stop` where a predicate is true, for each block that has any.

    Raises
    ------
    NotFoundError
        If a name in the expression is neither a variable nor a column.
    MetadataError, UnsupportedError
        If it is not a valid expression, or does not give true or false for each row.
    """
    limit, skip = _row_count(limit, "limit"), _row_count(skip, "skip") or 0
    if predicate.reduces:
        raise UnsupportedError("an expression for rows can't contain reductions such as sum", field="expression")
    values = {name: _variable(name, variables[name], length) for name in predicate.names if name in variables}
    used = {name: _column(columns, name) for name in predicate.names if name not in values}
    step = _block_rows(used)
    buffers = {name: np.empty((min(step, length), *column.shape[1:]), column.dtype) for name, column in used.items()}
    last = length if stop is None else stop
    for block in range(start // step * step, last, step):
        if limit == 0:
            return
        start, stop = max(start, block), min(block + step, last)
        read = {name: buffer[: stop - start] for name, buffer in buffers.items()}
        read_into(used, slice(start, stop), read)
        parts = {name: value[start:stop] if _is_long(value) else value for name, value in values.items()}
        inside = np.flatnonzero(row_mask(predicate.evaluate({**read, **parts}), stop - start))
        if skip:
            skip, inside = max(0, skip - len(inside)), inside[skip:]
        if limit is not None:
            inside = inside[:limit]
            limit -= len(inside)
        if len(inside):
            yield BlockMatches(start, inside, read)


def _row_count(value: Any, field: str) -> int | None:
    if value is None:
        return None
    if not is_number(value) or value < 0:
        raise MetadataError(f"{field} must be a number of rows, not {brief(value)}", field=field)
    return int(value)


def _column(columns: Mapping[str, Array], name: str) -> Array:
    if name not in columns:
        raise NotFoundError(f"{name!r:.80} is neither a variable nor a column; the columns are {', '.join(columns)}")
    return columns[name]


def _is_long(value: Any) -> bool:
    return bool(getattr(value, "ndim", 0))


def _variable(name: str, value: Any, length: int) -> Any:
    if isinstance(value, (list, tuple)):
        value = np.asarray(value)
    if _is_long(value) and len(value) != length:
        raise MetadataError(f"the variable {name!r:.80} has {len(value)} elements, the table {length} rows", field=name)
    return value


def _block_rows(columns: Mapping[str, Array]) -> int:
    """Return the number of rows in a block: whole chunks of the longest, several if they are small."""
    row = sum(column.dtype.itemsize * prod(column.shape[1:]) for column in columns.values())
    longest = max((column.metadata.grid.axes[0].longest() for column in columns.values()), default=_BLOCK_BYTES)
    return whole_chunks(longest, row, _BLOCK_BYTES)


def row_mask(result: Any, length: int) -> npt.NDArray[Any]:
    """Return what an expression gives for each of some rows, if that is true or false.

    Raises
    ------
    MetadataError, SelectionError
        If it is anything else.
    """
    mask = np.asarray(result)
    if mask.dtype != bool:
        raise MetadataError(f"the expression gives {mask.dtype}, not true or false", field="expression")
    if mask.shape not in ((), (length,)):
        raise SelectionError(f"the expression gives {mask.shape[1:]} values for each row", field="expression")
    return np.broadcast_to(mask, (length,))
