"""The columns of a table that is open: each is described and opened when it is first needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tegula import engine
from tegula.arrays.array import Array
from tegula.engine.concurrency.pool import gather
from tegula.engine.documents.reading import documents_of
from tegula.errors import MetadataError, NotFoundError, SelectionError, TegulaError
from tegula.formats import find_format
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores import Store
from tegula.stores.targets.paths import location_of
from tegula.tables.columns import arrays_of_one_length, column_names

__all__ = ["OpenColumns"]


class OpenColumns:
    """The columns of a table, by name.

    Parameters
    ----------
    store, path : Store, str
        Where the table is.
    metadata : GroupMetadata
        The table's description.
    read_only, allow_pickle : bool
        How columns are opened.

    Raises
    ------
    MetadataError
        If the table's documents name no columns, and it has arrays that can't be columns.

    Examples
    --------
    >>> import tegula
    >>> t = tegula.create_table({}, {"a": [1, 2], "b": ["x", "y"]}, format="zarr3")
    >>> columns = OpenColumns(t.store, t.path, t.metadata, read_only=True, allow_pickle=False)
    >>> columns.names, columns.lengths(), columns.column("a")[1]
    (('a', 'b'), {'a': 2, 'b': 2}, np.int64(2))
    """

    names: tuple[str, ...]

    def __init__(
        self, store: Store, path: str, metadata: GroupMetadata, *, read_only: bool, allow_pickle: bool
    ) -> None:
        self._store, self._path, self._format = store, path, metadata.format
        self._read_only, self.allow_pickle = read_only, allow_pickle
        self.missing_chunks: str | None = None
        self._opened: dict[str, Array] = {}
        self._described: dict[str, ArrayMetadata] = {}
        self.rename(metadata)

    def rename(self, metadata: GroupMetadata) -> None:
        """Take the names from the table's description."""
        try:
            names = column_names(metadata)
            self.names = arrays_of_one_length(self._store, self._path, self._format) if names is None else names
        except TegulaError as error:
            error.within(path=self._location)
            raise

    def refresh(self, metadata: GroupMetadata) -> None:
        """Take the names from the table's description, and read the metadata of the columns again."""
        self.rename(metadata)
        self._opened = {name: column for name, column in self._opened.items() if name in self.names}
        self._described = {}
        gather(lambda column: column.refresh(), self._opened.values(), self._store.concurrency)

    def read_missing(self, rule: str | None) -> None:
        """Say what reads of chunks that are not stored give, for all columns; see `Array.missing_chunks`."""
        self.missing_chunks = rule
        for column in self._opened.values():
            column.missing_chunks = rule

    def column(self, name: str) -> Array:
        """Return a column.

        Raises
        ------
        NotFoundError
            If there is no column of this name.
        """
        column = self._opened.get(name)
        if column is None:
            if name not in self.names:
                raise NotFoundError(
                    f"there is no column {name!r:.80}; the columns are {', '.join(self.names)}"[:400],
                    path=self._location,
                )
            how: dict[str, Any] = {"allow_pickle": self.allow_pickle, "missing_chunks": self.missing_chunks}
            stored = engine.stored_array(self._store, self.path(name), self._description(name), **how)
            column = Array(stored, self.path(name), read_only=self._read_only, allow_pickle=self.allow_pickle)
            self._opened[name] = column
        return column

    def select(self, names: Sequence[str] | None = None) -> dict[str, Array]:
        """Return several columns, whose metadata are read together; all by default.

        Raises
        ------
        NotFoundError, SelectionError
            If there is no column of a name, or the names are no list or not different.
        """
        if isinstance(names, str) or not all(isinstance(name, str) for name in names or ()):
            raise SelectionError(f"columns are given as a list of names, not {names!r:.80}", path=self._location)
        if names is not None and len({*names}) < len(names):
            raise SelectionError(f"a column can be selected only once: {names!r:.80}", path=self._location)
        wanted = self.names if names is None else names
        self._describe([name for name in wanted if name in self.names])
        return {name: self.column(name) for name in wanted}

    def lengths(self) -> dict[str, int]:
        """Return the length of each column."""
        self._describe(self.names)
        return {name: self._description(name).shape[0] for name in self.names}

    def add(self, name: str, column: Array) -> None:
        """Take a column that was created, before the table's description names it."""
        column.missing_chunks = self.missing_chunks
        self._opened[name] = column

    def forget(self, name: str) -> None:
        """Drop a column that the table's description no longer names."""
        self._opened.pop(name, None)
        self._described.pop(name, None)

    def path(self, name: str) -> str:
        """Return the path of a column in the store."""
        return f"{self._path}/{name}" if self._path else name

    @property
    def _location(self) -> str:
        return location_of(self._store, self._path)

    def _description(self, name: str) -> ArrayMetadata:
        if name in self._opened:
            return self._opened[name].metadata
        self._describe([name])
        return self._described[name]

    def _describe(self, names: Sequence[str]) -> None:
        """Read the metadata of the columns that are not known yet, all at once."""
        missing = [name for name in names if name not in self._opened and name not in self._described]
        if not missing:
            return
        paths = [self.path(name) for name in missing]
        keys = find_format(self._format).keys
        for name, path, documents in zip(missing, paths, documents_of(self._store, paths, keys)):
            metadata = engine.read_metadata(self._store, path, self._format, documents)
            if not isinstance(metadata, ArrayMetadata) or not metadata.shape:
                raise MetadataError(f"the column {name!r:.80} is missing, or is not an array", path=self._location)
            self._described[name] = metadata
