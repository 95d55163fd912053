"""The properties of a table: its columns, and facts from its documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tegula import display, engine
from tegula.arrays.array import Array
from tegula.arrays.attributes import Attributes
from tegula.arrays.node import Node
from tegula.display import Info
from tegula.engine.documents import documents_of
from tegula.engine.pool import gather
from tegula.errors import MetadataError, NotFoundError, SelectionError, TegulaError
from tegula.formats import find_format
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores import Store
from tegula.tables.columns import ORDER, arrays_of_one_length, column_names
from tegula.tables.queries import row_dtype

__all__ = ["TableProperties"]


class TableProperties(Node):
    """The columns and read-only properties of `tegula.Table`."""

    def __init__(
        self, store: Store, path: str, metadata: GroupMetadata, *, read_only: bool, allow_pickle: bool = False
    ) -> None:
        self._store = store
        self._path = path
        self._metadata = metadata
        self._read_only = read_only or store.read_only
        self._allow_pickle = allow_pickle
        self._opened: dict[str, Array] = {}
        self._described: dict[str, ArrayMetadata] = {}
        self._names = self._find_names()

    # --- columns

    def _find_names(self) -> tuple[str, ...]:
        with self._locating():
            names = column_names(self._metadata)
            return arrays_of_one_length(self._store, self._path, self.format) if names is None else names

    def _column(self, name: str) -> Array:
        column = self._opened.get(name)
        if column is None:
            if name not in self._names:
                raise NotFoundError(
                    f"there is no column {name!r:.80}; the columns are {', '.join(self._names)}"[:400], path=self._place
                )
            path = f"{self._path}/{name}" if self._path else name
            stored = engine.stored_array(self._store, path, self._description(name), allow_pickle=self._allow_pickle)
            column = Array(stored, path, read_only=self._read_only, allow_pickle=self._allow_pickle)
            self._opened[name] = column
        return column

    def _describe(self, names: Sequence[str]) -> None:
        """Read the metadata of the columns that are not known yet, all at once."""
        missing = [name for name in names if name not in self._opened and name not in self._described]
        if not missing:
            return
        prefix = f"{self._path}/" if self._path else ""
        paths = [prefix + name for name in missing]
        for name, path, documents in zip(missing, paths, documents_of(self._store, paths, self._keys)):
            found = engine.read_metadata(self._store, path, self.format, documents)
            if not isinstance(found, ArrayMetadata) or not found.shape:
                raise MetadataError(f"the column {name!r:.80} is missing, or is not an array", path=self._place)
            self._described[name] = found

    @property
    def _keys(self) -> tuple[str, ...]:
        return find_format(self.format).keys

    def _description(self, name: str) -> ArrayMetadata:
        if name in self._opened:
            return self._opened[name].metadata
        self._describe([name])
        return self._described[name]

    def _columns(self, names: Sequence[str] | None = None) -> dict[str, Array]:
        if isinstance(names, str) or not all(isinstance(name, str) for name in names or ()):
            raise SelectionError(f"columns are given as a list of names, not {names!r:.80}", path=self._place)
        if names is not None and len({*names}) < len(names):
            raise SelectionError(f"a column can be selected only once: {names!r:.80}", path=self._place)
        wanted = self._names if names is None else names
        self._describe([name for name in wanted if name in self._names])
        return {name: self._column(name) for name in wanted}

    @property
    def metadata(self) -> GroupMetadata:
        """The table's description, as last read or written by this object."""
        return self._metadata

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in their order."""
        return self._names

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
        return Attributes(self._own_attributes, self._change_attributes, self._get_place)

    @property
    def _hidden(self) -> str | None:
        return ORDER if self._metadata.members is None else None

    def _own_attributes(self) -> Mapping[str, Any]:
        return {name: value for name, value in self._metadata.attributes.items() if name != self._hidden}

    def _change_attributes(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        def changed(metadata: GroupMetadata) -> GroupMetadata:
            before = dict(metadata.attributes)
            kept = {ORDER: before.pop(ORDER)} if self._hidden and ORDER in before else {}
            after = change(before)
            if self._hidden and ORDER in after:
                raise MetadataError(f"the attribute {ORDER!r} holds the names of the columns", path=self._place)
            return replace(metadata, attributes={**kept, **after})

        self._update(changed)

    def _update(self, change: Callable[[GroupMetadata], GroupMetadata]) -> None:
        self._check_writable()
        self._metadata = engine.update_documents(self._store, self._path, self._metadata, change)
        self._names = self._find_names()

    def lengths(self) -> dict[str, int]:
        """Return the length of each column; they differ if another program has changed some of them."""
        self._describe(self._names)
        return {name: self._description(name).shape[0] for name in self._names}

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
        return row_dtype(self._columns())

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
        columns = self._columns().values()
        return sum(gather(lambda column: column.nbytes_stored(), columns, self._store.concurrency))

    @property
    def info(self) -> Info:
        """A report on the table and its columns, including its stored size; shown as a table."""
        return display.table_info(self)

    def refresh(self) -> None:
        """Read the metadata of the table and its columns again, to see changes by other processes.

        Raises
        ------
        MetadataError
            If the table or one of its columns no longer exists.
        """
        found = engine.read_metadata(self._store, self._path, self.format)
        if not isinstance(found, GroupMetadata):
            raise MetadataError("the table has been deleted or replaced", path=self._place)
        self._metadata = found
        self._names = self._find_names()
        self._opened = {name: column for name, column in self._opened.items() if name in self._names}
        self._described = {}
        gather(lambda column: column.refresh(), self._opened.values(), self._store.concurrency)

    @contextmanager
    def _locating(self) -> Iterator[None]:
        try:
            yield
        except TegulaError as error:
            error.within(path=self._place)
            raise
