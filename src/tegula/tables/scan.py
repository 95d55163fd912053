"""Scans: rows of a table as Arrow record batches, read as they are taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.arrays.chunking import whole_chunks
from tegula.errors import SelectionError, TegulaError, brief
from tegula.runtime.optional import library
from tegula.tables.arrow_types import arrow_array, arrow_field
from tegula.tables.predicates import as_predicate
from tegula.tables.queries import is_number, rows_that_match

__all__ = ["Scan"]

_BLOCK_BYTES: Final = 2**23
_MOST_BYTES: Final = 2**28  # a chunk that is larger is decoded more than once


class Scan:
    """Rows of a table as Arrow record batches, made by `Table.scan`.

    Rows are read as they are taken: one block at a time, and the next one in the background. It can be read
    repeatedly, by iterating, or with any library that knows Arrow's PyCapsule interface.

    Parameters
    ----------
    columns : mapping of str to tegula.Array
        The columns to return.
    known : mapping of str to tegula.Array
        All columns, for the condition.
    rows : range
        The rows, in steps of one.
    length : int
        Rows of the table.
    where : str, Expression, pyarrow.compute.Expression or polars.Expr, optional
        The condition.
    variables : mapping, optional
        Values of other names in the condition.
    batch_rows : int, optional
        Maximum number of rows in a batch.
    location : str
        Where the table is, for messages.

    Examples
    --------
    >>> import pyarrow, tegula
    >>> t = tegula.create_table({}, {"a": [1, 2, 3], "b": [4.0, 5.0, 6.0]})
    >>> scan = t.scan(["b"], where="a > 1")
    >>> scan.schema
    b: double
    >>> pyarrow.table(scan)["b"].to_pylist()
    [5.0, 6.0]
    """

    def __init__(
        self,
        columns: Mapping[str, Array],
        known: Mapping[str, Array],
        rows: range,
        length: int,
        *,
        where: Any = None,
        variables: Mapping[str, Any] | None = None,
        batch_rows: int | None = None,
        location: str = "",
    ) -> None:
        if batch_rows is not None and (not is_number(batch_rows) or batch_rows < 1):
            raise SelectionError(f"batch_rows must be a number of rows, not {brief(batch_rows)}", field="batch_rows")
        self._columns = columns
        self._known = known
        self._rows = rows
        self._length = length
        self._predicate = None if where is None else as_predicate(where, known)
        self._variables = variables or {}
        self._batch_rows = batch_rows
        self._location = location

    @cached_property
    def schema(self) -> Any:
        """The ``pyarrow.Schema`` of the batches.

        Raises
        ------
        UnsupportedError
            If pyarrow is not installed, or Arrow has no type for a column; the message names it.
        """
        return library("pyarrow").schema([arrow_field(name, column) for name, column in self._columns.items()])

    def __iter__(self) -> Iterator[Any]:
        schema = self.schema
        try:
            for count, block in self._blocks():
                step = self._batch_rows or count
                for start in range(0, count, step):
                    stop = min(start + step, count)
                    yield _batch(schema, {name: part[start:stop] for name, part in block.items()}, stop - start)
        except TegulaError as error:
            error.within(path=self._location)
            raise

    def _blocks(self) -> Iterator[tuple[int, Mapping[str, npt.NDArray[Any]]]]:
        """Yield blocks of rows: the number of rows, and their columns."""
        rows = self._rows
        if self._predicate is not None:
            query = self._known, self._length, self._predicate, self._variables
            for matches in rows_that_match(*query, start=rows.start, stop=rows.stop):
                yield len(matches.inside), matches.columns(self._columns)
            return
        step = self._block_rows()
        reading: deque[tuple[int, dict[str, Any]]] = deque()
        for start in range(rows.start, rows.stop, step):
            stop = min(start + step, rows.stop)
            block = slice(start, stop)
            reading.append((stop - start, {name: column.read(block) for name, column in self._columns.items()}))
            if len(reading) > 1:
                yield _finished(reading.popleft())
        while reading:
            yield _finished(reading.popleft())

    def _block_rows(self) -> int:
        """Return the number of rows to read at once: whole chunks of the longest, unless they are very large."""
        columns = self._columns.values()
        row = sum(column.dtype.itemsize * prod(column.shape[1:]) for column in columns)
        longest = max((column.metadata.grid.axes[0].longest() for column in columns), default=_BLOCK_BYTES)
        wanted = _BLOCK_BYTES if self._batch_rows is None else self._batch_rows * row
        return min(whole_chunks(longest, row, wanted), max(1, _MOST_BYTES // max(1, row)))

    def to_arrow(self) -> Any:
        """Read all rows into a ``pyarrow.Table``."""
        return library("pyarrow").Table.from_batches(self, self.schema)

    def reader(self) -> Any:
        """Return a ``pyarrow.RecordBatchReader``, which reads the rows once, as they are taken from it."""
        return library("pyarrow").RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as a stream; columns are cast to the requested types where Arrow can do so."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Export the schema."""
        return self.schema.__arrow_c_schema__()

    def __repr__(self) -> str:
        return f"<tegula.tables.Scan of {', '.join(self._columns)} in {self._location!r}>"


def _finished(block: tuple[int, Mapping[str, Any]]) -> tuple[int, dict[str, npt.NDArray[Any]]]:
    parts = {}
    for name, future in block[1].items():
        try:
            parts[name] = np.asarray(future.result())
        except TegulaError as error:
            error.within(field=name)
            raise
    return block[0], parts


def _batch(schema: Any, columns: Mapping[str, npt.NDArray[Any]], count: int) -> Any:
    arrow = library("pyarrow")
    parts = [arrow_array(name, values, schema.field(name).type) for name, values in columns.items()]
    if not parts:
        return arrow.RecordBatch.from_struct_array(arrow.Array.from_buffers(arrow.struct([]), count, [None]))
    return arrow.RecordBatch.from_arrays(parts, schema=schema)
