"""kerchunk references in Parquet: each file has the rows for a fixed number of chunks of an array, read when needed.

The layout is that of fsspec's ``LazyReferenceMapper``: ``.zmetadata`` has the documents of all nodes and the number of
rows per file, and a file such as ``x/refs.3.parq`` has the rows for chunks of ``x``, which are numbered with the last
axis fastest. A row has the columns ``path``, ``offset``, ``size`` and ``raw``, some of which may be missing.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Final

from tegula.errors import NotFoundError, StoreError
from tegula.optional import library
from tegula.stores.arguments import is_key
from tegula.stores.interface import Store
from tegula.stores.key_tree import KeyTree
from tegula.stores.reference_sets import MOST_BYTES, Reference, ReferenceSet, inlined, reference_from

__all__ = ["INDEX", "ParquetReferences", "record_key"]

INDEX: Final = ".zmetadata"
"""The key of the document that describes all nodes."""

_KEPT: Final = 32  # files of rows that stay in memory
_COLUMNS: Final = ("path", "offset", "size", "raw")


def record_key(name: str, record: int) -> str:
    """Return the key of the rows of one record of an array.

    Examples
    --------
    >>> record_key("group/x", 3)
    'group/x/refs.3.parq'
    """
    return f"{name}/refs.{record}.parq"


class ParquetReferences(ReferenceSet):
    """References in a directory of Parquet files.

    Parameters
    ----------
    store : Store
        The directory.

    Raises
    ------
    NotFoundError, StoreError
        If the directory has no such references.
    UnsupportedError
        If pyarrow is not installed.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        raw = store.get(INDEX)
        if raw is None:
            raise NotFoundError(f"there is no {INDEX}, which references in Parquet have")
        try:
            document = json.loads(raw)
            documents, self._size = document["metadata"], document["record_size"]
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise StoreError(f"this is not the document of references in Parquet: {error!r:.80}", key=INDEX) from error
        if not isinstance(documents, dict) or type(self._size) is not int or not 0 < self._size < 2**31:
            raise StoreError("metadata must be a JSON object and record_size a whole number of at least 1", key=INDEX)
        self._documents = {key: value for key, value in documents.items() if is_key(key)}
        self._tree = KeyTree(self._documents)
        self._grids: dict[str, tuple[int, ...]] = {}
        self._tables: OrderedDict[tuple[str, int], Mapping[str, Any] | None] = OrderedDict()
        self._lock = threading.Lock()
        library("pyarrow.parquet")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store,)

    def find(self, key: str) -> Reference | bytes | None:
        document = self._documents.get(key)
        if document is not None:
            return reference_from(document, {})
        name, _, chunk = key.rpartition("/")
        grid = self._grid(name) if name else None
        number = None if grid is None else _number(chunk, grid)
        return None if number is None else self._row(name, number)

    def keys(self, prefix: str) -> Iterator[str]:
        yield from self._tree.keys(prefix)
        for key in self._documents:
            name, _, last = key.rpartition("/")
            if last == ".zarray" and f"{name}/".startswith(prefix):
                yield from self._chunks(name)

    def children(self, prefix: str) -> tuple[list[str], list[str]]:
        keys, prefixes = self._tree.children(prefix)
        if f"{prefix}.zarray" in self._documents:
            keys = sorted([*keys, *self._chunks(prefix[:-1])])
        return keys, prefixes

    def some_url(self) -> str | None:
        for key in self._documents:
            name, _, last = key.rpartition("/")
            found = self._row(name, 0) if last == ".zarray" and name and prod(self._grid(name) or (0,)) else None
            if isinstance(found, Reference):
                return found.url
        return None

    # --- rows

    def _chunks(self, name: str) -> Iterator[str]:
        """Yield the keys of the chunks of an array that have a reference or a value."""
        grid = self._grid(name)
        if not grid and grid != ():
            return
        sizes = grid or (1,)
        for record in range(-(-prod(sizes) // self._size)):
            table = self._table(name, record)
            if table is None:
                continue
            for row in range(min(self._size, prod(sizes) - record * self._size)):
                if _entry(table, row) is not None:
                    number, parts = record * self._size + row, []
                    for size in reversed(sizes):
                        number, part = divmod(number, size)
                        parts.append(str(part))
                    yield f"{name}/{'.'.join(reversed(parts))}"

    def _grid(self, name: str) -> tuple[int, ...] | None:
        """Return how many chunks an array has along each axis; ``None`` if there is no such array."""
        if name not in self._grids:
            document = self._documents.get(f"{name}/.zarray")
            if document is None:
                return None
            try:
                array = json.loads(document) if isinstance(document, str) else document
                lengths = zip(array["shape"], array["chunks"], strict=True)
                grid = tuple(len(range(0, size, chunk)) for size, chunk in lengths)
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                raise StoreError(f"shape and chunks are not valid: {error!r:.80}", key=f"{name}/.zarray") from error
            self._grids[name] = grid
        return self._grids[name]

    def _row(self, name: str, number: int) -> Reference | bytes | None:
        record, row = divmod(number, self._size)
        table = self._table(name, record)
        if table is None:
            return None
        try:
            return _entry(table, row)
        except StoreError as error:
            raise error.within(key=record_key(name, record)) from None

    def _table(self, name: str, record: int) -> Mapping[str, Any] | None:
        """Return the columns of a record; ``None`` if no chunk of it has a reference."""
        with self._lock:
            if (name, record) in self._tables:
                self._tables.move_to_end((name, record))
                return self._tables[name, record]
        table = self._read(record_key(name, record))
        with self._lock:
            self._tables[name, record] = table
            while len(self._tables) > _KEPT:
                self._tables.popitem(last=False)
        return table

    def _read(self, key: str) -> Mapping[str, Any] | None:
        raw = self.store.get(key)
        if raw is None:
            return None
        try:
            file = library("pyarrow.parquet").ParquetFile(library("pyarrow").BufferReader(raw))
            found = file.metadata
            size = sum(found.row_group(group).total_byte_size for group in range(found.num_row_groups))
            if found.num_rows <= self._size and size <= MOST_BYTES:
                table = file.read(columns=[name for name in _COLUMNS if name in file.schema_arrow.names])
                return {name: table.column(name).combine_chunks() for name in table.column_names}
        except Exception as error:  # pyarrow raises errors of its own, and OSError
            raise StoreError(f"the rows of references can't be read: {error}", key=key) from error
        raise StoreError(f"there are {found.num_rows} rows of {size} bytes, more than expected", key=key)


def _number(chunk: str, grid: tuple[int, ...]) -> int | None:
    """Return the number of a chunk from its name; ``None`` if the grid has no such chunk."""
    parts, sizes = chunk.split("."), grid or (1,)
    if len(parts) != len(sizes) or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        return None
    number = 0
    for part, size in zip(parts, sizes):
        if int(part) >= size or str(int(part)) != part:
            return None
        number = number * size + int(part)
    return number


def _entry(table: Mapping[str, Any], row: int) -> Reference | bytes | None:
    values = [_cell(table, name, row) for name in _COLUMNS]
    url, offset, size, raw = values
    if raw is not None:
        if not isinstance(raw, (bytes, str)):
            raise StoreError(f"row {row} has no bytes in the column raw, but {raw!r:.60}")
        return inlined(raw.encode() if isinstance(raw, str) else raw)
    if url is None:
        return None
    whole = not offset and not size
    found = reference_from([url] if whole else [url, offset or 0, size or 0], {})
    return found if isinstance(found, Reference) else None


def _cell(table: Mapping[str, Any], name: str, row: int) -> Any:
    column = table.get(name)
    if column is None or row >= len(column):
        return None
    value = column[row].as_py()
    if isinstance(value, float):  # fastparquet writes NaN for missing numbers and text, and so floats for numbers
        return int(value) if value.is_integer() else None
    return value
