"""The table: arrays of equal length as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import EllipsisType
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from tegula import engine
from tegula.arrays.array import Array
from tegula.arrays.attributes import Attributes
from tegula.arrays.creation import new_format
from tegula.arrays.filling import CREATION
from tegula.arrays.growing import change_rows
from tegula.arrays.keywords import check_keywords
from tegula.arrays.node import Node, opened_by_name
from tegula.engine.concurrency.pool import gather
from tegula.engine.nodes.deleting import delete_node
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, TegulaError, brief
from tegula.metadata.nodes import GroupMetadata
from tegula.stores import Store
from tegula.stores.targets.opening import creating
from tegula.stores.targets.paths import address_of
from tegula.tables.columns import (
    attributes_of,
    check_name,
    column_names,
    new_column,
    new_table,
    with_attributes,
    with_names,
)
from tegula.tables.expressions import Expression
from tegula.tables.frames import to_pandas
from tegula.tables.open_columns import OpenColumns
from tegula.tables.predicates import as_predicate
from tegula.tables.queries import (
    LazyColumns,
    chosen_rows,
    is_number,
    read_rows,
    row_dtype,
    rows_that_match,
    split_names,
)
from tegula.tables.row_input import as_column, as_rows, fitted, fitted_rows, pieces_to_append
from tegula.tables.scan import Scan

__all__ = ["Table"]

_BLOCK_BYTES = 2**23
_KEYWORDS = frozenset(
    ("attributes", "overwrite", "fill_values", "allow_pickle", "expectedlen", "chunks", "codecs", "shards", "order")
)


class Table(Node):
    """Columns of equal length under one path; made by `tegula.open_table` and `tegula.create_table`.

    A column is a `tegula.Array`: ``t["price"]``. Rows are structured NumPy arrays: ``t[5]`` is one record;
    ``t[10:20]``, ``t[[3, 1]]`` and ``t[mask]`` are arrays of them, ``t[["day", "price"]]`` has some columns only, and
    ``t[["day", "price"], 10:20]`` some rows of these.
    Iterating yields one record after the other, but ``"price" in t`` looks for a column of that name.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> t = tegula.create_table({}, {"day": np.arange(4), "price": [1.5, 2.5, 3.5, 2.0]}, format="zarr3")
    >>> t.append({"day": [4], "price": [4.5]})
    5
    >>> t[-2:]
    array([(3, 2. ), (4, 4.5)], dtype=[('day', '<i8'), ('price', '<f8')])
    >>> t.where("price > 2 and day < limit", variables={"limit": 4})["day"]
    array([1, 2])
    """

    kind = "table"

    def __init__(
        self, store: Store, path: str, metadata: GroupMetadata, *, read_only: bool, allow_pickle: bool = False
    ) -> None:
        self._store = store
        self._path = path
        self._metadata = metadata
        self._read_only = read_only or store.read_only
        self.allow_pickle = allow_pickle
        self.open_columns = OpenColumns(store, path, metadata, read_only=self._read_only, allow_pickle=allow_pickle)

    # --- description

    @property
    def missing_chunks(self) -> str | None:
        """What reads of chunks that are not stored give; see `Array.missing_chunks`. It can be set, for all columns."""
        return self.open_columns.missing_chunks

    @missing_chunks.setter
    def missing_chunks(self, value: str | None) -> None:
        self.open_columns.read_missing(engine.missing_rule(value))

    @property
    def metadata(self) -> GroupMetadata:
        """The table's description, as last read or written by this object."""
        return self._metadata

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in their order."""
        return self.open_columns.names

    @property
    def store(self) -> Store:
        """The store that holds the table."""
        return self._store

    @property
    def format(self) -> str:
        """Name of the storage format: ``"bcolz"``, ``"zarr2"`` or ``"zarr3"``."""
        return self._metadata.format

    @property
    def attrs(self) -> Attributes:
        """The attributes, as a mapping that writes through; without the one that lists the columns."""
        return Attributes(self, self._own_attributes, self._change_attributes)

    def _own_attributes(self) -> Mapping[str, Any]:
        return attributes_of(self._metadata)

    def _change_attributes(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        with self._locating():
            self._update(lambda metadata: with_attributes(metadata, change))

    def _update(self, change: Callable[[GroupMetadata], GroupMetadata]) -> None:
        self.check_writable()
        self._metadata = engine.update_documents(self._store, self._path, self._metadata, change)
        self.open_columns.rename(self._metadata)

    def lengths(self) -> dict[str, int]:
        """Return the length of each column; they differ if another program has changed some of them."""
        return self.open_columns.lengths()

    def __len__(self) -> int:
        """Return the number of rows: the length of the shortest column."""
        return min(self.lengths().values(), default=0)

    @property
    def is_consistent(self) -> bool:
        """``True`` if all columns have the same length; otherwise see `repair`."""
        return len({*self.lengths().values()}) <= 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """Structured type of a row, a field for each column."""
        return row_dtype(self.open_columns.select())

    @property
    def shape(self) -> tuple[int]:
        """The number of rows, as a tuple."""
        return (len(self),)

    @property
    def nbytes(self) -> int:
        """Bytes that all rows take in memory."""
        return len(self) * self.dtype.itemsize

    def nbytes_stored(self) -> int:
        """Return the bytes that the stored chunks of all columns take, by listing the store."""
        columns = self.open_columns.select().values()
        return sum(gather(lambda column: column.nbytes_stored(), columns, self._store.concurrency))

    def refresh(self) -> None:
        """Read the metadata of the table and its columns again, to see changes by other processes.

        Raises
        ------
        MetadataError
            If the table or one of its columns no longer exists.
        """
        metadata = engine.read_metadata(self._store, self._path, self.format)
        if not isinstance(metadata, GroupMetadata):
            raise MetadataError("the table has been deleted or replaced", path=self.location)
        self._metadata = metadata
        self.open_columns.refresh(metadata)

    @contextmanager
    def _locating(self) -> Iterator[None]:
        try:
            yield
        except TegulaError as error:
            error.within(path=self.location)
            raise

    # --- reading

    @overload
    def __getitem__(self, selection: str) -> Array: ...
    @overload
    def __getitem__(self, selection: slice | EllipsisType | list[str] | list[int]) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, selection: Any) -> Any: ...
    def __getitem__(self, selection: Any) -> Any:
        if isinstance(selection, str):
            return self.open_columns.column(selection)
        names, selection = split_names(selection)
        if isinstance(names, str):
            return self.open_columns.column(names)[selection]
        columns = self.open_columns.select(names)
        if is_number(selection):
            start = self._chosen(selection)
            return self._rows(slice(start, start + 1, 1), columns)[0]
        return self._rows(self._chosen(selection), columns)

    def _chosen(self, selection: Any) -> Any:
        with self._locating():
            return chosen_rows(selection, len(self))

    def _rows(self, chosen: slice | npt.NDArray[np.intp], columns: Mapping[str, Array]) -> npt.NDArray[Any]:
        with self._locating():
            return read_rows(columns, chosen, len(self))

    def read(
        self, columns: Sequence[str] | None = None, start: int = 0, stop: int | None = None
    ) -> dict[str, npt.NDArray[Any]]:
        """Read columns as one array each.

        Parameters
        ----------
        columns : sequence of str, optional
            Their names; all by default.
        start, stop : int, optional
            The rows, as in a slice.

        Examples
        --------
        >>> import tegula
        >>> tegula.create_table({}, {"a": [1, 2, 3], "b": [4, 5, 6]}, format="zarr2").read(["b"], 1)
        {'b': array([5, 6])}
        """
        chosen = self._chosen(slice(start, stop))
        wanted = self.open_columns.select(columns)
        reading = {name: column.read(chosen) for name, column in wanted.items()}
        return {name: np.asarray(future.result()) for name, future in reading.items()}

    def where(
        self,
        expression: str | Expression | Any,
        columns: Sequence[str] | None = None,
        *,
        variables: Mapping[str, Any] | None = None,
        limit: int | None = None,
        skip: int = 0,
    ) -> npt.NDArray[Any]:
        """Return the rows where an expression is true.

        Columns in the expression are read in full, block by block; of the others, only the matching rows.

        Parameters
        ----------
        expression : str, Expression, pyarrow.compute.Expression or polars.Expr
            An expression over the columns; see `tegula.tables.expressions`. No other code is ever evaluated. pyarrow
            and polars evaluate their conditions themselves.
        columns : sequence of str, optional
            The columns to return; all by default.
        variables : mapping, optional
            Values of other names in the expression: single values, or arrays as long as the table. They take precedence
            over columns of the same name.
        limit : int, optional
            Maximum number of rows to return.
        skip : int
            Number of matching rows to skip at the beginning.

        Raises
        ------
        NotFoundError
            If a name in the expression, or in `columns`, is unknown.
        MetadataError, UnsupportedError
            If the expression is invalid, or does not give true or false for each row.

        Examples
        --------
        >>> import tegula
        >>> t = tegula.create_table({}, {"a": [1, 2, 3], "b": ["x", "y", "z"]}, format="zarr3")
        >>> t.where("a >= least", ["b"], variables={"least": 2})["b"].tolist()
        ['y', 'z']
        """
        blocks = [*self.where_blocks(expression, columns, variables=variables, limit=limit, skip=skip)]
        if len(blocks) == 1:
            return blocks[0]
        rows = np.empty(sum(map(len, blocks)), row_dtype(self.open_columns.select(columns)))
        return np.concatenate(blocks, out=rows) if blocks else rows

    def where_blocks(
        self,
        expression: str | Expression | Any,
        columns: Sequence[str] | None = None,
        *,
        variables: Mapping[str, Any] | None = None,
        limit: int | None = None,
        skip: int = 0,
    ) -> Iterator[npt.NDArray[Any]]:
        """Yield the rows where an expression is true, in blocks that fit into memory; otherwise as `where`.

        Examples
        --------
        >>> import tegula
        >>> t = tegula.create_table({}, {"a": [1, 2, 3]})
        >>> sum(rows["a"].sum() for rows in t.where_blocks("a > 1"))
        np.int64(5)
        """
        wanted = self.open_columns.select(columns)
        with self._locating():
            known = LazyColumns(self.names, self.open_columns.column)
            predicate = as_predicate(expression, known)
            for matches in rows_that_match(known, len(self), predicate, variables or {}, limit=limit, skip=skip):
                yield matches.rows(wanted)

    def __iter__(self) -> Iterator[Any]:
        columns, length = self.open_columns.select(), len(self)
        longest = max((column.metadata.grid.axes[0].longest() for column in columns.values()), default=1)
        row = max(1, row_dtype(columns).itemsize)
        step = min(longest, max(1, _BLOCK_BYTES // row))
        for start in range(0, length, step):
            yield from self._rows(slice(start, min(start + step, length), 1), columns)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __bool__(self) -> bool:
        return True  # even if it has no rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a stored table is read into memory, which is always a copy")
        rows: npt.NDArray[Any] = self[...]
        return rows if dtype is None else rows.astype(dtype, copy=False)

    def to_pandas(self, columns: Sequence[str] | None = None) -> Any:
        """Read columns into a ``pandas.DataFrame``.

        Parameters
        ----------
        columns : sequence of str, optional
            Their names; all by default.

        Raises
        ------
        NotFoundError
            If there is no column of a name.
        UnsupportedError
            If pandas is not installed, or can't represent a column, such as one whose rows are arrays.

        Examples
        --------
        >>> import tegula
        >>> t = tegula.create_table({}, {"day": [1, 2], "price": [10.5, 11.0]})
        >>> t.to_pandas(["price"])
           price
        0   10.5
        1   11.0
        """
        with self._locating():
            return to_pandas(self.read(columns))

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """Read columns into a ``pyarrow.Table``; `scan` reads them block by block.

        Parameters
        ----------
        columns : sequence of str, optional
            Their names; all by default.

        Raises
        ------
        NotFoundError
            If there is no column of a name.
        UnsupportedError
            If pyarrow is not installed, or can't represent a column, such as one of ``bfloat16``.

        Examples
        --------
        >>> import tegula
        >>> t = tegula.create_table({}, {"day": [1, 2], "price": [10.5, 11.0]})
        >>> t.to_arrow().column_names
        ['day', 'price']
        """
        return self.scan(columns).to_arrow()

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | Expression | Any = None,
        *,
        variables: Mapping[str, Any] | None = None,
        start: int = 0,
        stop: int | None = None,
        batch_rows: int | None = None,
    ) -> Scan:
        """Return rows as Arrow record batches, which are read block by block as they are taken.

        Read the result by iterating, or with any library that knows Arrow's PyCapsule interface: pyarrow, polars,
        DuckDB, pandas. They also read the table itself, which stands for ``scan()``. With a condition, only its columns
        are read in full; of the others, only the chunks with matching rows.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to return; all by default.
        where : str, Expression, pyarrow.compute.Expression or polars.Expr, optional
            The rows to return: an expression as for `where`, or a pyarrow or polars condition, which that library
            evaluates.
        variables : mapping, optional
            Values of other names in the expression, as for `where`.
        start, stop : int, optional
            The rows to search, as in a slice.
        batch_rows : int, optional
            Maximum number of rows in a batch. By default whole chunks: some 8 MiB, or one chunk if larger.

        Returns
        -------
        Scan
            The rows; ``schema`` is their schema, ``reader()`` a ``pyarrow.RecordBatchReader``.

        Raises
        ------
        NotFoundError, MetadataError, UnsupportedError
            If a name is unknown, the condition is invalid, or Arrow has no type for a column.

        Examples
        --------
        >>> import tegula
        >>> t = tegula.create_table({}, {"a": [1, 2, 3], "b": ["x", "y", "z"]})
        >>> [batch.to_pydict() for batch in t.scan(["b"], "a > 1", batch_rows=1)]
        [{'b': ['y']}, {'b': ['z']}]
        """
        with self._locating():
            rows = range(len(self))[self._chosen(slice(start, stop))]
            known = LazyColumns(self.names, self.open_columns.column)
            return Scan(
                self.open_columns.select(columns), known, rows, len(self),
                where=where, variables=variables, batch_rows=batch_rows, location=self.location,
            )  # fmt: skip

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export all rows as a stream of Arrow, read block by block; see `scan`."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Export the types of the columns in Arrow."""
        return self.scan().__arrow_c_schema__()

    @staticmethod
    def from_pandas(
        frame: Any,
        target: Any,
        *,
        path: str = "",
        format: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Table:
        """Create a table from a DataFrame; parameters and errors are those of `tegula.create_table`."""
        check_keywords("from_pandas", options, _KEYWORDS)
        target, path, format = address_of(target, path, format)
        format = new_format(target, path, format, "bcolz")
        with creating(target, storage_options) as store:
            metadata = new_table(store, path, frame, format=format, **options)
            table = Table(store, path, metadata, read_only=False, allow_pickle=options.get("allow_pickle", False))
            return opened_by_name(table, target)

    # --- writing

    def __setitem__(self, selection: Any, values: Any) -> None:
        self.check_writable()
        if isinstance(selection, str):
            self.open_columns.column(selection)[...] = values
            return
        chosen = self._chosen(selection)
        with self._locating():
            rows = as_rows(values, self.dtype)
            columns = self.open_columns.select([*rows])
            parts = {name: fitted(name, rows[name], column.metadata.data_type) for name, column in columns.items()}
            gather(lambda name: columns[name].__setitem__(chosen, parts[name]), columns, self._store.concurrency)

    def append(self, rows: Any) -> int:
        """Add rows to the end, and return the new number of rows.

        Everything is checked before anything is written. The rows are written first and the lengths last, so an
        interrupted append leaves the table as it was. Several processes may append at once without losing rows.

        Parameters
        ----------
        rows : mapping, structured array, list of arrays, DataFrame, Arrow table or stream
            Values for all columns: by name, or in their order. Single values make one row. An Arrow stream, which
            has ``__arrow_c_stream__``, is added in pieces of some 64 MiB; the promises above then hold for each piece.

        Raises
        ------
        MetadataError
            If a column is missing or unknown, lengths differ or a value does not fit, such as text that is too long;
            the message names the column. Also if the stored columns differ in length: see `repair`.

        Examples
        --------
        >>> import tegula
        >>> t = tegula.create_table({}, {"a": [1], "b": ["x"]}, format="bcolz")
        >>> t.append([[2, 3], ["y", "z"]])
        3
        """
        self.check_writable()
        with self._locating():
            columns = self.open_columns.select()
            if not columns:
                raise MetadataError("the table has no columns")
            appended = 0
            try:
                for piece in pieces_to_append(rows, columns):
                    values = [*fitted_rows(piece, columns).values()]
                    if len(values[0]):
                        self._change_rows(columns, partial(engine.append_rows, values=values))
                        appended += len(values[0])
            except TegulaError as error:
                if appended:
                    error.add_note(f"{appended} rows of the stream were appended before")
                raise
        return len(self)

    def _change_rows(
        self,
        columns: Mapping[str, Array],
        act: Callable[[list[tuple[engine.StoredArray, str]]], list[engine.StoredArray]],
    ) -> None:
        """Change the number of rows of all columns at once; explain the error if they differ in length."""
        try:
            change_rows([*columns.values()], act)
        except MetadataError as error:
            self.refresh()
            if not self.is_consistent:
                lengths = ", ".join(f"{name} {length}" for name, length in self.lengths().items())
                raise MetadataError(
                    f"the columns differ in length ({lengths}); repair() cuts them to the shortest"
                ) from error
            raise

    def resize(self, rows: int) -> None:
        """Change the number of rows: rows cut off are deleted, added rows hold the fill values.

        Raises
        ------
        MetadataError
            If `rows` is not a number of rows, or the columns differ in length: see `repair`.

        Examples
        --------
        >>> import tegula
        >>> t = tegula.create_table({}, {"a": [1, 2], "b": [3, 4]}, format="zarr3")
        >>> t.resize(3)
        >>> t[...].tolist()
        [(1, 3), (2, 4), (0, 0)]
        """
        self.check_writable()
        if not is_number(rows) or rows < 0:
            raise MetadataError(f"{rows!r:.80} is not a number of rows", path=self.location)
        if self.names:
            with self._locating():
                self._change_rows(self.open_columns.select(), lambda stored: engine.resize_rows(stored, int(rows)))

    def repair(self) -> dict[str, int]:
        """Cut all columns to the length of the shortest, and return the number of rows that each has lost.

        Examples
        --------
        >>> import tegula
        >>> t = tegula.create_table({}, {"a": [1, 2], "b": [3, 4]}, format="zarr2")
        >>> t["b"].resize(3)
        >>> t.repair(), t.is_consistent
        ({'b': 1}, True)
        """
        self.check_writable()
        self.refresh()
        before = self.lengths()
        if not self.is_consistent:
            self.resize(len(self))
        after = self.lengths()
        return {name: length - after[name] for name, length in before.items() if length > after[name]}

    def add_column(
        self, name: str, values: Any = None, *, dtype: Any = None, position: int | None = None, **creation: Any
    ) -> Array:
        """Add a column and return it.

        Parameters
        ----------
        name : str
            Its name.
        values : array_like, optional
            A value for each row; by default the fill value.
        dtype : dtype-like, optional
            Data type; by default that of the values.
        position : int, optional
            Its position among the columns; by default the last.
        **creation
            As for `tegula.create_array`.

        Raises
        ------
        AlreadyExistsError
            If the name is in use.
        MetadataError
            If the values don't fit, or neither values nor a type are given.

        Examples
        --------
        >>> import tegula
        >>> t = tegula.create_table({}, {"a": [1, 2]}, format="zarr3")
        >>> column = t.add_column("b", dtype="f4", position=0, fill_value=0.5)
        >>> t[...].tolist()
        [(0.5, 1), (0.5, 2)]
        """
        self.check_writable()
        check_keywords("add_column", creation, CREATION | {"expectedlen", "overwrite", "allow_pickle"})
        with self._locating():
            self.refresh()
            check_name(name, self.format)
            if name in self.names:
                raise AlreadyExistsError(f"the column {name!r:.80} already exists")
            if not self.is_consistent:
                raise MetadataError("the columns differ in length; repair() cuts them to the shortest")
            if values is None and dtype is None:
                raise MetadataError("a column needs values, or a dtype", field=name)
            data = len(self) if values is None else as_column(values)
            if not isinstance(data, int) and self.names and data.shape[:1] != (len(self),):
                raise MetadataError(f"values of shape {data.shape} are given for {len(self)} rows", field=name)
            path, creation = self.open_columns.path(name), {"allow_pickle": self.allow_pickle, **creation}
            column = new_column(self._store, path, data, dtype=dtype, format=self.format, **creation)

            def with_column(metadata: GroupMetadata) -> GroupMetadata:
                names = [*(column_names(metadata) or self.names)]
                if name in names:
                    raise AlreadyExistsError(f"the column {name!r:.80} already exists")
                names.insert(len(names) if position is None else position, name)
                return with_names(metadata, names)

            self.open_columns.add(name, column)
            self._update(with_column)
        return column

    def remove_column(self, name: str) -> None:
        """Remove a column and its stored chunks.

        Raises
        ------
        NotFoundError
            If there is no such column.

        Examples
        --------
        >>> import tegula
        >>> t = tegula.create_table({}, {"a": [1, 2], "b": [3, 4]})
        >>> t.remove_column("b")
        >>> t.names
        ('a',)
        """
        self.check_writable()
        if name not in self.names:
            raise NotFoundError(f"there is no column {brief(name)}", path=self.location)
        with self._locating():
            self._update(
                lambda metadata: with_names(metadata, [n for n in column_names(metadata) or self.names if n != name])
            )
            self.open_columns.forget(name)
            delete_node(self._store, self.open_columns.path(name))

    # --- Python's protocols

    def __reduce__(self) -> tuple[Any, ...]:
        mark = engine.fingerprint(self._metadata)
        options = self._read_only, self.allow_pickle, self.missing_chunks
        return _reopen, (self._store, self._path, self.format, mark, *options)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return (self._store.url, self._path, self._metadata) == (other._store.url, other._path, other._metadata)

    def __hash__(self) -> int:
        return hash((self._store.url, self._path))

    def __repr__(self) -> str:
        return f"<tegula.Table {self.format} {len(self)} rows × {len(self.names)} columns {self.location!r}>"


def _reopen(
    store: Store, path: str, format: str, mark: bytes, read_only: bool, allow_pickle: bool, missing_chunks: str | None
) -> Table:
    metadata = engine.read_unpickled(store, path, format, mark)
    if not isinstance(metadata, GroupMetadata):
        raise NotFoundError("the table no longer exists", path=path or store.url)
    table = Table(store, path, metadata, read_only=read_only, allow_pickle=allow_pickle)
    table.missing_chunks = missing_chunks
    return table
