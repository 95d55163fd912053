"""Queries of tables by polars, DuckDB and ``pyarrow.dataset`` that read only the necessary columns and chunks.

Any library that supports Arrow's PyCapsule interface can read a whole `tegula.Table`. With the functions of this module
libraries read only the columns that a query needs, and of most columns only the chunks that contain the selected rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tegula.errors import UnsupportedError
from tegula.runtime.optional import library
from tegula.tables.predicates import fields_used
from tegula.tables.table import Table

__all__ = ["TableDataset", "dataset", "scan_polars"]

_dataset: Final = library("pyarrow.dataset")
_NO_FILE: Final = "a table of tegula, which pyarrow reads by scanner() only"


def scan_polars(table: Table) -> Any:
    """Return a ``polars.LazyFrame`` that reads only the parts of a table that a query needs.

    polars passes the columns that it needs, conditions on rows, and how many rows from the beginning are enough. It
    evaluates its conditions itself.

    Parameters
    ----------
    table : Table
        The table; each query reads its rows at that time.

    Raises
    ------
    UnsupportedError
        If polars or pyarrow is not installed, or has no type for a column.

    Examples
    --------
    >>> import polars, tegula, tegula.arrow
    >>> t = tegula.create_table({}, {"a": [1, 2, 3], "b": [4.0, 5.0, 6.0]})
    >>> lazy = tegula.arrow.scan_polars(t)
    >>> lazy.filter(polars.col("a") > 1).select("b").collect()["b"].to_list()
    [5.0, 6.0]
    """
    polars = library("polars")
    empty = polars.from_arrow(table.scan().schema.empty_table())

    def read(columns: list[str] | None, predicate: Any, rows: int | None, batch_rows: int | None) -> Iterator[Any]:
        for batch in table.scan(columns, predicate, stop=rows):
            yield polars.from_arrow(batch) if batch.num_columns else polars.DataFrame(height=batch.num_rows)

    return library("polars.io.plugins").register_io_source(read, schema=empty.schema)


def dataset(table: Table) -> Any:
    """Return a table as a ``pyarrow.dataset.Dataset``, which DuckDB, polars and pyarrow can query.

    Parameters
    ----------
    table : Table
        The table; each query reads its rows at that time.

    Raises
    ------
    UnsupportedError
        If pyarrow is not installed, or Arrow has no type for a column.

    Examples
    --------
    >>> import pyarrow.compute, tegula, tegula.arrow
    >>> t = tegula.create_table({}, {"a": [1, 2, 3], "b": [4.0, 5.0, 6.0]})
    >>> bars = tegula.arrow.dataset(t)
    >>> bars.to_table(columns=["b"], filter=pyarrow.compute.field("a") > 1)["b"].to_pylist()
    [5.0, 6.0]
    >>> import duckdb
    >>> duckdb.sql("SELECT sum(b) FROM bars WHERE a > 1").fetchall()
    [(11.0,)]
    """
    return TableDataset(table)


class TableDataset(_dataset.FileSystemDataset):  # type: ignore[misc, name-defined]  # pyarrow has no types
    """A table as a pyarrow dataset; made by `dataset`.

    Operations that pyarrow carries out with scanners read the table; all others look for a file that does not exist,
    and fail.

    Examples
    --------
    >>> import pyarrow.compute, tegula, tegula.arrow
    >>> bars = tegula.arrow.dataset(tegula.create_table({}, {"a": [1, 2, 3]}))
    >>> bars.filter(pyarrow.compute.field("a") > 1).count_rows()
    2
    """

    def __init__(self, table: Table, where: Any = None) -> None:
        schema = table.scan().schema
        file_format = _dataset.IpcFileFormat()
        files = library("pyarrow.fs").LocalFileSystem()
        super().__init__([file_format.make_fragment(_NO_FILE, files)], schema, file_format, files)
        self._table = table
        self._where = where

    def __reduce__(self) -> tuple[Any, ...]:
        return TableDataset, (self._table, self._where)

    def __repr__(self) -> str:
        return f"<tegula.arrow.TableDataset of {self._table!r}>"

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """Return a ``pyarrow.dataset.Scanner`` for some columns, by name or as expressions, of the rows that match."""
        scan = self._table.scan(self._needed(columns), self._both(filter))
        return _dataset.Scanner.from_batches(scan.reader(), columns=columns, **options)

    def _needed(self, columns: Any) -> list[str] | None:
        if isinstance(columns, Mapping):
            fields = {field.name: field for field in self.schema}
            return [*dict.fromkeys(name for item in columns.values() for name in fields_used(item, fields))]
        return None if columns is None else [*dict.fromkeys(columns)]

    def _both(self, condition: Any) -> Any:
        if self._where is None or condition is None:
            return condition if self._where is None else self._where
        return self._where & condition

    def count_rows(self, filter: Any = None, **_options: Any) -> int:
        """Return the number of rows that match; without a condition nothing is read."""
        return sum(batch.num_rows for batch in self._table.scan([], self._both(filter)))

    def filter(self, expression: Any) -> TableDataset:
        """Return a dataset of the rows that also match an expression."""
        return TableDataset(self._table, self._both(expression))

    def sort_by(self, sorting: Any, **options: Any) -> Any:
        """Read all rows and return them sorted."""
        return self._in_memory().sort_by(sorting, **options)

    def join(self, right_dataset: Any, *args: Any, **options: Any) -> Any:
        """Read all rows and join them with another dataset."""
        return self._in_memory().join(_loaded(right_dataset), *args, **options)

    def join_asof(self, right_dataset: Any, *args: Any, **options: Any) -> Any:
        """Read all rows and join them with the nearest ones of another dataset."""
        return self._in_memory().join_asof(_loaded(right_dataset), *args, **options)

    def _in_memory(self) -> Any:
        return _dataset.dataset(self.to_table())

    def replace_schema(self, schema: Any) -> Any:
        """Refuse to take another schema."""
        raise UnsupportedError(
            "a table keeps its types, and is not combined with other datasets; read it with to_table() first"
        )


def _loaded(data: Any) -> Any:
    return data._in_memory() if isinstance(data, TableDataset) else data
